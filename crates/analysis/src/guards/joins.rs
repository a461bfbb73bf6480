//! Tasks that somebody waits for: threads that are joined, futures whose result is asked for,
//! executors whose end is awaited.

use std::collections::BTreeMap;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use temblor_model::catalog::{RegionKind, TimeoutKind};

use crate::program::MethodId;

use super::barriers::{self, MAX_WAITERS};
use super::clocks::Clocks;
use super::draft::{Draft, What};
use super::runs;
use super::scene::{Act, Scene};
use super::spots::{self, Spot};
use super::verbs::Verb;

/// Methods between `main` and its wait for the end.
const MAX_FROM_MAIN: usize = 16;

pub fn find(scene: &Scene<'_>, clocks: &Clocks) -> Vec<Draft> {
    let submitted = submitted(scene);
    let is = |verb| matches!(verb, Verb::Join | Verb::Get | Verb::AwaitTermination);
    let waits: Vec<&Act> = scene.acts_of(is).collect();
    let tasks: Vec<Vec<MethodId>> = waits
        .par_iter()
        .map(|wait| tasks(scene, wait, &submitted))
        .collect();
    let mut hard: BTreeMap<(MethodId, RegionKind), Vec<&Act>> = BTreeMap::new();
    let mut out = Vec::new();
    for (wait, tasks) in waits.into_iter().zip(tasks) {
        // A `main` that waits for the end of the program keeps nobody from anything.
        if tasks.is_empty() || is_for_main(scene, wait.method) {
            continue;
        }
        if barriers::is_hard(scene, clocks, wait) {
            let kind = match wait.meaning.verb {
                Verb::Join => RegionKind::Join,
                _ => RegionKind::Barrier,
            };
            for task in tasks {
                hard.entry((task, kind)).or_default().push(wait);
            }
        } else if let Some(mut timeout) = Draft::bounded(scene, wait, TimeoutKind::Wait) {
            for task in tasks {
                timeout.cover_all(scene, task);
            }
            out.push(timeout);
        }
    }
    for ((task, kind), waits) in hard {
        out.push(region(scene, task, kind, &waits));
    }
    out
}

/// Is the method reached from `main` only?
fn is_for_main(scene: &Scene<'_>, method: MethodId) -> bool {
    let mut seen = vec![method];
    let mut at = 0;
    while let Some(method) = seen.get(at).copied() {
        at += 1;
        let callers = &scene.graph.callers[method.0 as usize];
        let name = scene.program.str(scene.program.method(method).name);
        let is_closure = scene.graph.closures.contains_key(&method);
        if (callers.is_empty() && name != "main") || is_closure || seen.len() > MAX_FROM_MAIN {
            return false;
        }
        for caller in callers {
            if !seen.contains(&caller.method) {
                seen.push(caller.method);
            }
        }
    }
    true
}

/// It begins where the task begins.
fn region(scene: &Scene<'_>, task: MethodId, kind: RegionKind, waits: &[&Act]) -> Draft {
    let places = waits.iter().take(MAX_WAITERS);
    let places = places.map(|wait| (wait.method, scene.pc(wait.method, wait.op)));
    let mut region = barriers::region(scene, waits[0], kind, places.collect());
    region.method = task;
    region.pc = 0;
    if let What::Region { on, .. } = &region.what {
        region.identity = format!("{task:?} {on}");
    }
    region.cover_all(scene, task);
    region
}

/// The tasks that were given to each executor which is held in a field.
fn submitted(scene: &Scene<'_>) -> FxHashMap<Spot, Vec<MethodId>> {
    let mut out: FxHashMap<Spot, Vec<MethodId>> = FxHashMap::default();
    for act in scene.acts_of(|verb| verb == Verb::Submit) {
        let Some((body, call)) = scene.call(act) else {
            continue;
        };
        let Some(executor) = body.receiver(call) else {
            continue;
        };
        let given = body.args(call).iter().skip(1);
        let tasks: Vec<MethodId> = given
            .flat_map(|arg| runs::of(scene, act.method, *arg))
            .collect();
        if tasks.is_empty() {
            continue;
        }
        for spot in spots::of(scene, act.method, executor) {
            if !matches!(spot, Spot::Type(_)) {
                out.entry(spot).or_default().extend(&tasks);
            }
        }
    }
    out
}

fn tasks(
    scene: &Scene<'_>,
    wait: &Act,
    submitted: &FxHashMap<Spot, Vec<MethodId>>,
) -> Vec<MethodId> {
    let Some((body, call)) = scene.call(wait) else {
        return Vec::new();
    };
    let Some(receiver) = body.receiver(call) else {
        return Vec::new();
    };
    let mut tasks = match wait.meaning.verb {
        Verb::AwaitTermination => {
            let spots = spots::of(scene, wait.method, receiver);
            let given = spots.iter().filter_map(|spot| submitted.get(spot));
            given.flatten().copied().collect()
        }
        _ => runs::of(scene, wait.method, receiver),
    };
    tasks.retain(|task| scene.distance(*task).is_some() && *task != wait.method);
    tasks.sort_unstable();
    tasks.dedup();
    tasks
}
