//! Critical regions: what lies between the taking of a lock and all its releases.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use temblor_classfile::{InvokeKind, access};
use temblor_model::catalog::{RegionKind, TimeoutKind};

use crate::calls;
use crate::ir::{Body, Call, OpKind, Val, Value};
use crate::program::MethodId;
use crate::rules::Rules;

use super::draft::{Draft, What};
use super::held::{self, Acquire, Held};
use super::locks::Locks;
use super::path::{self, Path, Root};
use super::scene::Scene;
use super::verbs::Verb;

/// How often a closure may be handed on before somebody runs it under a lock.
const MAX_HANDED_ON: usize = 3;

/// All critical regions, and the timeouts of locks that are only tried for a time.
pub fn find(scene: &Scene<'_>, locks: &Locks, wrappers: &Rules<()>) -> Vec<Draft> {
    let methods = locks.methods(scene);
    let found: Vec<(Vec<Draft>, Vec<Runs>)> = methods
        .par_iter()
        .filter_map(|id| Some((*id, held::held(scene, locks, *id, None)?)))
        .map(|(id, held)| (of_method(scene, id, &held), runs(scene, id, &held)))
        .collect();
    let mut drafts = Vec::new();
    let mut running: FxHashMap<MethodId, Vec<Runs>> = FxHashMap::default();
    for (regions, runs) in found {
        drafts.extend(regions);
        for run in runs {
            let known = running.entry(run.method).or_default();
            if !known.iter().any(|r| r.parameter == run.parameter) {
                known.push(run);
            }
        }
    }
    drafts.extend(tried(scene, &drafts));
    drafts.extend(wrapped(scene, wrappers, running));
    drafts
}

fn of_method(scene: &Scene<'_>, method: MethodId, held: &Held) -> Vec<Draft> {
    let Some(body) = scene.body(method) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for (i, acquire) in held.acquires.iter().enumerate() {
        let on = on(scene, method, acquire);
        let mut draft = Draft::region(scene, (method, acquire.op), acquire.kind, on);
        draft.identity = identity(scene, method, &acquire.path);
        let ops = held.before.iter().map(|bits| bits & 1 << i != 0).collect();
        draft.cover(method, body, &ops);
        if !draft.scope.is_empty() {
            out.push(draft);
        }
    }
    out
}

fn on(scene: &Scene<'_>, method: MethodId, acquire: &Acquire) -> String {
    let is_this = acquire.path.root == Root::Param(0) && !scene.is_static(method);
    // A short path says more than the variable that the lock was copied to.
    let is_clear = acquire.path.is_clear(scene);
    match (acquire.lock.some(), scene.program.text(method)) {
        (Some(lock), Some(text)) if !is_clear => text.of(lock),
        _ if acquire.path.steps.is_empty() && is_this => "this".into(),
        _ => acquire.path.text(scene, method),
    }
}

/// The lock of a path, as far as it can be told from outside the method.
pub fn identity(scene: &Scene<'_>, method: MethodId, path: &Path) -> String {
    let steps = &path.steps;
    match &path.root {
        Root::Param(n) => {
            let body = scene.body(method);
            let is = |value: &Value| *value == Value::Param(*n);
            let at = body.and_then(|b| b.values.iter().position(is));
            let class = at.and_then(|at| scene.type_of(method, Val(at as u32)));
            format!("{class:?} {steps:?}")
        }
        Root::Val(_) | Root::Text(_) => format!("{method:?} {:?} {steps:?}", path.root),
        root => format!("{root:?} {steps:?}"),
    }
}

/// Who tries a lock for a time gives up on what others do while they hold it.
fn tried(scene: &Scene<'_>, regions: &[Draft]) -> Vec<Draft> {
    let mut by_lock: FxHashMap<&str, Vec<&Draft>> = FxHashMap::default();
    for region in regions {
        by_lock.entry(&region.identity).or_default().push(region);
    }
    let mut out = Vec::new();
    for act in scene.acts_of(|verb| verb == Verb::TryLock) {
        let Some(mut timeout) = Draft::bounded(scene, act, TimeoutKind::TryLock) else {
            continue;
        };
        let Some((body, call)) = scene.call(act) else {
            continue;
        };
        let Some(lock) = body.receiver(call) else {
            continue;
        };
        let lock = identity(scene, act.method, &path::of(scene, act.method, lock));
        for region in by_lock.get(lock.as_str()).into_iter().flatten() {
            timeout.scope.extend(&region.scope);
        }
        out.push(timeout);
    }
    out
}

/// A method that runs a closure it is given while it holds a lock.
#[derive(Clone, Debug)]
struct Runs {
    method: MethodId,
    /// Which parameter, the receiver included.
    parameter: u16,
    lock: Path,
}

fn runs(scene: &Scene<'_>, method: MethodId, held: &Held) -> Vec<Runs> {
    let mut out = Vec::new();
    let Some(body) = scene.body(method) else {
        return out;
    };
    for (op, bits) in body.ops.iter().zip(&held.before) {
        let OpKind::Call(call) = op.kind else {
            continue;
        };
        let call = &body.calls[call as usize];
        if *bits == 0 || call.kind != InvokeKind::Interface {
            continue;
        }
        let receiver = body.receiver(call).map(|r| body.value(body.uncast(r)));
        let Some(Value::Param(parameter)) = receiver else {
            continue;
        };
        if parameter > 0 || scene.is_static(method) {
            let lock = held.acquires[bits.trailing_zeros() as usize].path.clone();
            out.push(Runs {
                method,
                parameter,
                lock,
            });
        }
    }
    out
}

/// Closures that are given to methods which run them under a lock.
fn wrapped(
    scene: &Scene<'_>,
    wrappers: &Rules<()>,
    mut running: FxHashMap<MethodId, Vec<Runs>>,
) -> Vec<Draft> {
    let ids: Vec<MethodId> = scene.program.method_ids().collect();
    for _ in 0..MAX_HANDED_ON {
        let on: Vec<Vec<Runs>> = ids
            .par_iter()
            .map(|id| handed_on(scene, *id, &running))
            .collect();
        let mut grown = false;
        for run in on.into_iter().flatten() {
            let known = running.entry(run.method).or_default();
            if !known.iter().any(|r| r.parameter == run.parameter) {
                known.push(run);
                grown = true;
            }
        }
        if !grown {
            break;
        }
    }
    let wrap = |id: &MethodId| wrapped_in(scene, *id, wrappers, &running);
    ids.par_iter().flat_map_iter(wrap).collect()
}

/// Parameters of a method that it hands to one that runs them under a lock.
fn handed_on(
    scene: &Scene<'_>,
    method: MethodId,
    running: &FxHashMap<MethodId, Vec<Runs>>,
) -> Vec<Runs> {
    let mut out = Vec::new();
    let Some(body) = scene.body(method) else {
        return out;
    };
    for edge in scene.edges(method) {
        for run in running.get(&edge.callee).into_iter().flatten() {
            let args = body.args(&body.calls[edge.call as usize]);
            let arg = args.get(usize::from(run.parameter));
            let Some(Value::Param(parameter)) = arg.map(|a| body.value(body.uncast(*a))) else {
                continue;
            };
            if let Some(lock) = run.lock.at_call(scene, method, args) {
                out.push(Runs {
                    method,
                    parameter,
                    lock,
                });
            }
        }
    }
    out
}

fn wrapped_in(
    scene: &Scene<'_>,
    method: MethodId,
    wrappers: &Rules<()>,
    running: &FxHashMap<MethodId, Vec<Runs>>,
) -> Vec<Draft> {
    let mut out = Vec::new();
    let Some(body) = scene.body(method) else {
        return out;
    };
    for (at, op) in body.ops.iter().enumerate() {
        let OpKind::Call(index) = op.kind else {
            continue;
        };
        let call = &body.calls[index as usize];
        let args = body.args(call);
        let place = (method, Some(at as u32));
        let mut add = |on: String, bodies: Vec<MethodId>| {
            let mut draft = Draft::region(scene, place, RegionKind::Wrapper, on);
            for body in bodies {
                draft.cover_all(scene, body);
            }
            out.push(draft);
        };
        if wrappers.of(scene.program, call.class, call.name).is_some() {
            let bodies = args.iter().flat_map(|arg| code_of(scene, body, *arg));
            add(wrapper_lock(scene, method, body, call), bodies.collect());
            continue;
        }
        let own = &scene.graph.targets(method, index).own;
        for run in own
            .iter()
            .filter_map(|callee| running.get(callee))
            .flatten()
        {
            let Some(arg) = args.get(usize::from(run.parameter)) else {
                continue;
            };
            let bodies = code_of(scene, body, *arg);
            if !bodies.is_empty() {
                let lock = run.lock.at_call(scene, method, args);
                let lock = lock.unwrap_or_else(|| run.lock.clone());
                add(lock.text(scene, method), bodies);
            }
        }
    }
    out
}

/// What is handed to the wrapper besides closures, or the wrapper itself.
fn wrapper_lock(scene: &Scene<'_>, method: MethodId, body: &Body, call: &Call) -> String {
    let is_code = |arg: &Val| {
        let value = body.value(body.uncast(*arg));
        matches!(value, Value::Closure(_) | Value::New(_))
    };
    let lock = body.args(call).iter().find(|arg| !is_code(arg));
    let text = scene.program.text(method).zip(lock);
    text.map_or_else(
        || scene.program.str(call.name).to_string(),
        |(text, lock)| text.of(*lock),
    )
}

/// The own code behind a closure, or behind an object made to be one.
fn code_of(scene: &Scene<'_>, body: &Body, val: Val) -> Vec<MethodId> {
    let program = scene.program;
    match body.value(body.uncast(val)) {
        Value::Closure(at) => calls::closure_body(program, &body.closures[at as usize])
            .into_iter()
            .collect(),
        Value::New(class) => {
            let Some(class) = program.class_named(class).filter(|c| program.is_own(*c)) else {
                return Vec::new();
            };
            let skip = access::ABSTRACT | access::STATIC | access::PRIVATE;
            let methods = program.class(class).methods.iter().enumerate();
            methods
                .filter(|(_, m)| m.access & skip == 0 && !program.str(m.name).starts_with('<'))
                .filter_map(|(index, _)| {
                    let index = index as u32;
                    program.own_method(crate::program::Declared { class, index })
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Is it a region of a lock?
pub fn is_lock(what: &What) -> bool {
    let kinds = [
        RegionKind::Monitor,
        RegionKind::SynchronizedMethod,
        RegionKind::Lock,
        RegionKind::Wrapper,
    ];
    matches!(what, What::Region { kind, .. } if kinds.contains(kind))
}
