//! What a call does to locks: those of the JDK, those the target's data names, and the target's
//! own methods that take a lock for their caller or give it back.

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use temblor_classfile::{InvokeKind, access};
use temblor_model::catalog::Diagnostic;
use temblor_model::settings::AnalysisSettings;

use crate::ir::{Body, OpKind, Sym, Val};
use crate::program::MethodId;
use crate::rules::Rules;

use super::draft;
use super::held::{self, Flag, Held};
use super::path::{self, Path};
use super::scene::Scene;
use super::verbs::{Meaning, Verb};

/// How deep methods that take a lock for their caller may be nested.
const MAX_ROUNDS: usize = 3;
/// Of more flags than this nobody makes one lock method.
const MAX_FLAGS: usize = 2;
/// A call with more targets than this is nobody's lock method.
const MAX_LOCK_TARGETS: usize = 4;

/// What a call does to a lock, as the caller writes it.
pub enum Effect {
    /// With the lock itself, where the call is made on it.
    Takes(Path, Val),
    Tries(Path, Val),
    /// Frees locks, or what an acquiring call gave, by closing it.
    Frees(Vec<Path>, Val),
}

/// What a method does to the locks of its caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Summary {
    takes: Vec<Path>,
    frees: Vec<Path>,
    tries: Option<Path>,
}

impl Summary {
    fn of(held: &Held) -> Option<Summary> {
        let mut summary = Summary {
            takes: held.net_acquired.clone(),
            frees: held.net_released.clone(),
            tries: held.tries.clone(),
        };
        for paths in [&mut summary.takes, &mut summary.frees] {
            paths.sort();
            paths.dedup();
        }
        (summary != Summary::default()).then_some(summary)
    }
}

pub struct Locks {
    taken: Rules<()>,
    freed: Rules<()>,
    meanings: FxHashMap<(MethodId, u32), Meaning>,
    /// What methods do, and what they do if a parameter is true, or false.
    summaries: FxHashMap<(MethodId, Option<Flag>), Summary>,
    summarized: FxHashSet<MethodId>,
    close: Option<Sym>,
    /// What compilers of Java 9 and 10 made to close resources.
    close_resource: Option<Sym>,
}

impl Locks {
    pub fn new(
        scene: &Scene<'_>,
        settings: &AnalysisSettings,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Locks {
        let rules = |name: fn(&temblor_model::settings::LockRule) -> &String| {
            let names = settings.locks.iter();
            names
                .map(|rule| (name(rule).clone(), ()))
                .collect::<Vec<_>>()
        };
        let (taken, freed) = (rules(|r| &r.acquire), rules(|r| &r.release));
        let is_lock = |verb| matches!(verb, Verb::Lock | Verb::Unlock | Verb::TryLock);
        let mut locks = Locks {
            taken: Rules::new(scene.program, "analysis.locks", taken, diagnostics),
            freed: Rules::new(scene.program, "analysis.locks", freed, diagnostics),
            meanings: scene
                .acts_of(is_lock)
                .map(|act| ((act.method, act.op), act.meaning))
                .collect(),
            summaries: FxHashMap::default(),
            summarized: FxHashSet::default(),
            close: scene.program.sym("close"),
            close_resource: scene.program.sym("$closeResource"),
        };
        locks.summarize(scene);
        locks
    }

    fn summarize(&mut self, scene: &Scene<'_>) {
        let mut work: FxHashSet<MethodId> = self.meanings.keys().map(|(m, _)| *m).collect();
        if !self.taken.is_empty() || !self.freed.is_empty() {
            work.extend(
                scene
                    .program
                    .method_ids()
                    .filter(|id| self.calls_named(scene, *id)),
            );
        }
        for _ in 0..MAX_ROUNDS {
            let mut todo: Vec<MethodId> = work.drain().collect();
            todo.sort_unstable();
            let locks = &*self;
            let found: Vec<Vec<(Option<Flag>, Summary)>> = todo
                .par_iter()
                .map(|id| locks.summaries_of(scene, *id))
                .collect();
            for (id, found) in todo.into_iter().zip(found) {
                let mut is_new = false;
                for (flag, summary) in found {
                    let known = self.summaries.insert((id, flag), summary.clone());
                    is_new |= known != Some(summary);
                }
                if is_new {
                    self.summarized.insert(id);
                    let callers = scene.graph.callers[id.0 as usize].iter();
                    work.extend(callers.map(|site| site.method));
                }
            }
        }
    }

    fn summaries_of(&self, scene: &Scene<'_>, id: MethodId) -> Vec<(Option<Flag>, Summary)> {
        let mut flags: Vec<Option<Flag>> = vec![None];
        if let Some(body) = scene.body(id) {
            let tested = held::flags(body).into_iter().take(MAX_FLAGS);
            flags.extend(tested.flat_map(|n| [Some((n, false)), Some((n, true))]));
        }
        let of_flag = |flag: Option<Flag>| {
            let held = held::held(scene, self, id, flag)?;
            Some((flag, Summary::of(&held)?))
        };
        flags.into_iter().filter_map(of_flag).collect()
    }

    /// The summary of a method as it is called: a constant flag tells which half of it runs.
    fn summary(&self, body: &Body, args: &[Val], callee: MethodId) -> Option<&Summary> {
        let constants = args.iter().enumerate().filter_map(|(n, arg)| {
            let value = draft::constant(body, *arg)?;
            Some((n as u16, value != 0))
        });
        let mut flagged = constants.filter_map(|flag| self.summaries.get(&(callee, Some(flag))));
        flagged
            .next()
            .or_else(|| self.summaries.get(&(callee, None)))
    }

    fn calls_named(&self, scene: &Scene<'_>, id: MethodId) -> bool {
        let program = scene.program;
        program.body(id).is_some_and(|body| {
            body.calls.iter().any(|call| {
                self.taken.of(program, call.class, call.name).is_some()
                    || self.freed.of(program, call.class, call.name).is_some()
            })
        })
    }

    /// Methods that hold something at some point.
    pub fn methods(&self, scene: &Scene<'_>) -> Vec<MethodId> {
        let named = !self.taken.is_empty() || !self.freed.is_empty();
        let with_locks: FxHashSet<MethodId> = self.meanings.keys().map(|(m, _)| *m).collect();
        let is_wanted = |id: &MethodId| {
            let method = scene.program.method(*id);
            let Some(body) = &method.body else {
                return false;
            };
            method.access & access::SYNCHRONIZED != 0
                || with_locks.contains(id)
                || body
                    .ops
                    .iter()
                    .any(|op| matches!(op.kind, OpKind::Enter(_)))
                || scene
                    .edges(*id)
                    .iter()
                    .any(|edge| self.summarized.contains(&edge.callee))
                || (named && self.calls_named(scene, *id))
        };
        let ids: Vec<MethodId> = scene.program.method_ids().collect();
        ids.into_par_iter().filter(is_wanted).collect()
    }

    /// What a call does to locks.
    pub fn effects(&self, scene: &Scene<'_>, method: MethodId, op: u32, index: u32) -> Vec<Effect> {
        let Some(body) = scene.body(method) else {
            return Vec::new();
        };
        let call = &body.calls[index as usize];
        let receiver = body.receiver(call).map_or(Val::NONE, |r| body.uncast(r));
        let object = || match body.receiver(call) {
            Some(receiver) => path::of(scene, method, receiver),
            None => Path {
                root: path::Root::Class(call.class),
                steps: Vec::new(),
            },
        };
        if let Some(meaning) = self.meanings.get(&(method, op)) {
            return vec![match meaning.verb {
                Verb::Lock => Effect::Takes(object(), receiver),
                Verb::TryLock => Effect::Tries(object(), receiver),
                _ => Effect::Frees(vec![object()], receiver),
            }];
        }
        if self
            .taken
            .of(scene.program, call.class, call.name)
            .is_some()
        {
            return vec![Effect::Takes(object(), receiver)];
        }
        if self
            .freed
            .of(scene.program, call.class, call.name)
            .is_some()
        {
            return vec![Effect::Frees(vec![object()], receiver)];
        }
        let mut out = self.summarized(scene, method, index);
        if Some(call.name) == self.close && call.kind != InvokeKind::Static {
            out.push(Effect::Frees(Vec::new(), receiver));
        }
        if Some(call.name) == self.close_resource
            && let [_, resource] = body.args(call)
        {
            let path = path::of(scene, method, *resource);
            out.push(Effect::Frees(vec![path], body.uncast(*resource)));
        }
        out
    }

    fn summarized(&self, scene: &Scene<'_>, method: MethodId, index: u32) -> Vec<Effect> {
        let mut out = Vec::new();
        let own = &scene.graph.targets(method, index).own;
        if own.len() > MAX_LOCK_TARGETS {
            return out;
        }
        let Some(body) = scene.body(method) else {
            return out;
        };
        let args = body.args(&body.calls[index as usize]);
        let mut summaries = own
            .iter()
            .filter_map(|callee| self.summary(body, args, *callee));
        let Some(summary) = summaries.next() else {
            return out;
        };
        let here = |path: &Path| path.at_call(scene, method, args);
        let frees: Vec<Path> = summary.frees.iter().filter_map(here).collect();
        if !frees.is_empty() {
            out.push(Effect::Frees(frees, Val::NONE));
        }
        let takes = summary.takes.iter().filter_map(here);
        out.extend(takes.map(|path| Effect::Takes(path, Val::NONE)));
        let tries = summary.tries.iter().filter_map(here);
        out.extend(tries.map(|path| Effect::Tries(path, Val::NONE)));
        out
    }
}
