//! Which methods are run as tasks: by threads, executors, timers, and the target's own workers.

use rustc_hash::FxHashMap;
use temblor_classfile::{InvokeKind, access};
use temblor_model::catalog::{Diagnostic, TaskKind};
use temblor_model::settings::{AnalysisSettings, TaskRule};

use crate::calls::{CallGraph, closure_body};
use crate::ir::{Sym, Value};
use crate::program::{ClassId, Declared, MethodId, Program};

/// A method that is run as a task.
#[derive(Clone, Debug)]
pub struct Unit {
    pub method: MethodId,
    pub kind: TaskKind,
    pub closure: bool,
    /// Parameters that are the task's object: their fields are its state variables.
    pub this: Vec<u16>,
    /// Parameters that a closure captured: state variables themselves.
    pub captured: Vec<u16>,
}

/// The kinds that the JDK has, the most telling first: a thread is a runnable too.
const BASES: [(&str, &str, TaskKind); 4] = [
    ("java/lang/Thread", "run", TaskKind::Thread),
    ("java/util/TimerTask", "run", TaskKind::Timer),
    ("java/lang/Runnable", "run", TaskKind::Runnable),
    ("java/util/concurrent/Callable", "call", TaskKind::Callable),
];

/// All tasks, by method.
pub fn find(
    program: &Program,
    graph: &CallGraph,
    settings: &AnalysisSettings,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Unit> {
    let mut units: FxHashMap<MethodId, Unit> = FxHashMap::default();
    for (base, name, kind) in BASES {
        let Some(base) = program.class_id(base) else {
            continue;
        };
        let Some(name) = program.sym(name) else {
            continue;
        };
        for method in implementations(program, base, name) {
            add(program, &mut units, method, kind);
        }
        closures(program, graph, base, name, kind, &mut units);
    }
    for rule in &settings.tasks {
        if !add_rule(program, graph, rule, &mut units) {
            diagnostics.push(Diagnostic {
                place: "analysis.tasks".into(),
                message: format!(
                    "no class of the target has {}.{} or overrides it: no task comes of it",
                    rule.base, rule.method
                ),
            });
        }
    }
    let mut units: Vec<Unit> = units.into_values().collect();
    units.sort_by_key(|u| u.method);
    units
}

/// Adds the tasks of a worker base; false if there are none.
fn add_rule(
    program: &Program,
    graph: &CallGraph,
    rule: &TaskRule,
    units: &mut FxHashMap<MethodId, Unit>,
) -> bool {
    let base = program.class_id(&rule.base.replace('.', "/"));
    let (Some(base), Some(name)) = (base, program.sym(&rule.method)) else {
        return false;
    };
    let methods = implementations(program, base, name);
    for method in &methods {
        add(program, units, *method, TaskKind::Worker);
    }
    let made = closures(program, graph, base, name, TaskKind::Worker, units);
    made || !methods.is_empty()
}

fn add(program: &Program, units: &mut FxHashMap<MethodId, Unit>, method: MethodId, kind: TaskKind) {
    let is_static = program.method(method).access & access::STATIC != 0;
    units.entry(method).or_insert(Unit {
        method,
        kind,
        closure: false,
        this: if is_static { vec![] } else { vec![0] },
        captured: Vec::new(),
    });
}

/// Own methods with a body that run where the base's method of that name is called.
fn implementations(program: &Program, base: ClassId, name: Sym) -> Vec<MethodId> {
    let descs = overloads(program, base, name);
    let mut out = Vec::new();
    for class in program.all_subtypes(base) {
        // Also what a class inherits from one that is no subtype of the base, and abstract
        // classes' own, whether or not a subclass is here.
        if !program.is_own(class) {
            continue;
        }
        for desc in &descs {
            let declared = program.resolve(class, name, *desc);
            out.extend(declared.and_then(|d| real(program, d)));
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// Descriptors under which the base and what it extends declare the method.
fn overloads(program: &Program, base: ClassId, name: Sym) -> Vec<Sym> {
    let ancestors = program.ancestors(base).iter();
    let methods = ancestors.flat_map(|class| program.class(*class).methods.iter());
    let open = |access: u16| access & (access::STATIC | access::PRIVATE | access::BRIDGE) == 0;
    let named = methods.filter(|m| m.name == name && open(m.access));
    let mut out: Vec<Sym> = named.map(|m| m.desc).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// The method with the code: a bridge only passes on to it.
fn real(program: &Program, declared: Declared) -> Option<MethodId> {
    let id = program.own_method(declared)?;
    let body = program.body(id)?;
    let method = program.method(id);
    if method.access & access::BRIDGE == 0 {
        return Some(id);
    }
    let same = |call: &&crate::ir::Call| {
        let this = body.args(call).first().map(|a| body.value(*a));
        call.name == method.name && call.kind != InvokeKind::Static && this == Some(Value::Param(0))
    };
    let call = body.calls.iter().find(same)?;
    let class = program.class_named(call.class)?;
    let target = program.resolve(class, call.name, call.desc)?;
    let target = program.own_method(target)?;
    program.body(target).is_some().then_some(target)
}

/// Closures that implement the base; true if there are some.
fn closures(
    program: &Program,
    graph: &CallGraph,
    base: ClassId,
    name: Sym,
    kind: TaskKind,
    units: &mut FxHashMap<MethodId, Unit>,
) -> bool {
    let mut found = false;
    let mut bodies: Vec<_> = graph.closures.iter().collect();
    bodies.sort_unstable_by_key(|(method, _)| **method);
    for (method, made_at) in bodies {
        for (maker, index) in made_at {
            let Some(body) = program.body(*maker) else {
                continue;
            };
            let closure = &body.closures[*index as usize];
            let interface = program.class_named(closure.interface);
            let fits = interface.is_some_and(|i| program.is_subtype(i, base));
            if !fits || closure.method != name || closure_body(program, closure) != Some(*method) {
                continue;
            }
            found = true;
            units.entry(*method).or_insert_with(|| {
                closure_unit(program, *method, kind, *maker, body.list(closure.captured))
            });
        }
    }
    found
}

fn closure_unit(
    program: &Program,
    method: MethodId,
    kind: TaskKind,
    maker: MethodId,
    captured: &[crate::ir::Val],
) -> Unit {
    let is_static = |id: MethodId| program.method(id).access & access::STATIC != 0;
    let mut unit = Unit {
        method,
        kind,
        closure: true,
        this: Vec::new(),
        captured: Vec::new(),
    };
    let body = program.body(maker);
    for (position, val) in captured.iter().enumerate() {
        let position = position as u16;
        let is_this = position == 0 && !is_static(method);
        // Scala's closures are static and get the object they were made in as an argument.
        let is_outer = !is_static(maker) && body.is_some_and(|b| b.value(*val) == Value::Param(0));
        match is_this || is_outer {
            true => unit.this.push(position),
            false => unit.captured.push(position),
        }
    }
    // A reference to a method of an object that the caller names.
    if unit.this.is_empty() && !is_static(method) {
        unit.this.push(0);
    }
    unit
}
