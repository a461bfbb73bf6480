//! Queues between threads: what a consumer does between two elements makes all the elements
//! behind wait. A take with a bound is a timeout on what happens before an element is added.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use temblor_classfile::access;
use temblor_model::catalog::{RegionKind, TimeoutKind};

use crate::ir::{Body, OpKind, Sym, Val, Value};
use crate::program::MethodId;

use super::barriers::{self, MAX_WAITERS};
use super::draft::Draft;
use super::flow::Flow;
use super::scene::{Act, Scene};
use super::spots::Spot;
use super::verbs::Verb;

/// A take that is called from more places than this is nobody's loop in particular.
const MAX_TAKE_CALLERS: usize = 8;

type Scope = Vec<(MethodId, u32)>;

/// The acts on each queue that is held in a field.
type OnQueue<'q> = FxHashMap<Spot, Vec<&'q Act>>;

pub fn find(scene: &Scene<'_>) -> Vec<Draft> {
    let adds = by_queue(scene, Verb::Add);
    let takes = by_queue(scene, Verb::Take);
    let acts: Vec<&Act> = scene
        .acts_of(|verb| matches!(verb, Verb::Take | Verb::Add))
        .collect();
    acts.par_iter()
        .flat_map_iter(|act| match act.meaning.verb {
            Verb::Take => of_take(scene, act, &adds),
            _ => of_add(scene, act, &takes),
        })
        .collect()
}

fn by_queue<'s>(scene: &'s Scene<'_>, verb: Verb) -> OnQueue<'s> {
    let mut out: OnQueue<'s> = FxHashMap::default();
    for act in scene.acts_of(|v| v == verb) {
        for spot in queue(scene, act) {
            out.entry(spot).or_default().push(act);
        }
    }
    out
}

/// The queue of an act, unless it is the inside of a queue of the target's own, or of one thread.
fn queue(scene: &Scene<'_>, act: &Act) -> Vec<Spot> {
    let program = scene.program;
    let of_queue = program
        .sym("java/util/Queue")
        .is_some_and(|queue| program.is_subtype_named(scene.class_name(act.method), queue));
    if of_queue {
        return Vec::new();
    }
    let mut spots = barriers::receiver(scene, act);
    spots.retain(|spot| match spot {
        Spot::Field(owner, name) => is_shared(scene, act, *owner, *name),
        Spot::Element(..) => true,
        _ => false,
    });
    spots
}

/// A queue that threads can share without more ado, or one that is used under some lock.
fn is_shared(scene: &Scene<'_>, act: &Act, owner: Sym, name: Sym) -> bool {
    let plain = [
        "java/util/ArrayDeque",
        "java/util/LinkedList",
        "java/util/PriorityQueue",
    ];
    let is_plain = |put: &super::scene::Written| {
        let made = scene.body(put.method).map(|b| b.value(b.uncast(put.value)));
        matches!(made, Some(Value::New(class)) if plain.contains(&scene.program.str(class)))
    };
    !scene.puts(owner, name).iter().any(is_plain) || takes_locks(scene, act.method)
}

fn takes_locks(scene: &Scene<'_>, method: MethodId) -> bool {
    let enters = |body: &Body| {
        let mut ops = body.ops.iter();
        ops.any(|op| matches!(op.kind, OpKind::Enter(_)))
    };
    scene.program.method(method).access & access::SYNCHRONIZED != 0
        || scene.body(method).is_some_and(enters)
        || scene
            .acts_in(method)
            .any(|act| act.meaning.verb == Verb::Lock)
}

/// The acts of others on the same queue.
fn others<'s>(scene: &Scene<'_>, act: &Act, on: &OnQueue<'s>) -> Vec<&'s Act> {
    let spots = queue(scene, act);
    let mut out: Vec<&Act> = spots
        .iter()
        .filter_map(|s| on.get(s))
        .flatten()
        .copied()
        .collect();
    out.retain(|other| other.method != act.method);
    out.sort_by_key(|other| (other.method, other.op));
    out.dedup_by_key(|other| (other.method, other.op));
    out
}

fn of_take(scene: &Scene<'_>, take: &Act, adds: &OnQueue<'_>) -> Vec<Draft> {
    let adds = others(scene, take, adds);
    let mut out = Vec::new();
    if adds.is_empty() {
        return out;
    }
    let scope = rounds(scene, take);
    if !scope.is_empty() {
        let places = adds.iter().take(MAX_WAITERS);
        let places = places.map(|add| (add.method, scene.pc(add.method, add.op)));
        let mut region = barriers::region(scene, take, RegionKind::Queue, places.collect());
        region.scope = scope;
        out.push(region);
    }
    if let Some(mut timeout) = Draft::bounded(scene, take, TimeoutKind::Wait) {
        for add in adds {
            timeout
                .scope
                .extend(barriers::before(scene, add.method, add.op));
        }
        out.push(timeout);
    }
    out
}

/// Who adds with a bound waits for room, which the consumer makes.
fn of_add(scene: &Scene<'_>, add: &Act, takes: &OnQueue<'_>) -> Vec<Draft> {
    let Some(mut timeout) = Draft::bounded(scene, add, TimeoutKind::Wait) else {
        return Vec::new();
    };
    for take in others(scene, add, takes) {
        timeout.scope.extend(rounds(scene, take));
    }
    vec![timeout]
}

/// The calls between two takes: in the loop of the take, or in that of those who call a method
/// which gives them what it took.
fn rounds(scene: &Scene<'_>, take: &Act) -> Scope {
    let Some((body, call)) = scene.call(take) else {
        return Vec::new();
    };
    let scope = round(take.method, body, take.op);
    let callers = &scene.graph.callers[take.method.0 as usize];
    if !scope.is_empty() || !gives(body, call.result) || callers.len() > MAX_TAKE_CALLERS {
        return scope;
    }
    let mut scope = Vec::new();
    for site in callers {
        let Some(body) = scene.body(site.method) else {
            continue;
        };
        let is = |op: &crate::ir::Op| matches!(op.kind, OpKind::Call(c) if c == site.call);
        if let Some(op) = body.ops.iter().position(is) {
            scope.extend(round(site.method, body, op as u32));
        }
    }
    scope
}

fn round(method: MethodId, body: &Body, op: u32) -> Scope {
    let ops = Flow::new(body).round(op);
    let of_loop = body.ops.iter().zip(ops).filter(|(_, inside)| *inside);
    let calls = of_loop.filter_map(|(op, _)| match op.kind {
        OpKind::Call(call) => Some((method, call)),
        _ => None,
    });
    calls.collect()
}

/// Does the body return this value?
fn gives(body: &Body, val: Val) -> bool {
    body.ops.iter().any(|op| match op.kind {
        OpKind::Return(returned) if !returned.is_none() => {
            let returned = body.uncast(returned);
            returned == val
                || matches!(body.value(returned), Value::Phi(list)
                    if body.list(list).iter().any(|v| body.uncast(*v) == val))
        }
        _ => false,
    })
}
