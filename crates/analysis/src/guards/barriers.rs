//! Barriers: what comes before a notify, a count-down, a signal that another thread waits for. A
//! wait with a bound makes a timeout of it, unless it is waited again and again.

use std::collections::BTreeMap;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use temblor_model::catalog::{RegionKind, TimeoutKind};

use crate::ir::{Body, OpKind, Sym, Val, Value};
use crate::program::MethodId;

use super::clocks::Clocks;
use super::draft::{self, Draft, What};
use super::flow::Flow;
use super::scene::{Act, Scene};
use super::spots::{self, Spot};
use super::verbs::Verb;

/// A method of so many bytes of code that does no I/O before it releases is a mere signal: what
/// its callers do before they call it counts.
const MAX_SIGNAL_BYTES: u32 = 80;
const MAX_SIGNAL_CALLERS: usize = 20;
/// More places that wait are not listed.
pub const MAX_WAITERS: usize = 8;

pub fn find(scene: &Scene<'_>, clocks: &Clocks) -> Vec<Draft> {
    let waits = |verb| matches!(verb, Verb::Wait | Verb::Meet | Verb::Get);
    let waiters = Waiters::new(scene, scene.acts_of(waits).collect());
    let releases: Vec<&Act> = scene
        .acts_of(|verb| matches!(verb, Verb::Release | Verb::Meet))
        .collect();
    let found: Vec<Found> = releases
        .par_iter()
        .map(|release| of_release(scene, clocks, &waiters, release))
        .collect();
    let mut out = Vec::new();
    let mut soft: BTreeMap<usize, Scope> = BTreeMap::new();
    for (barrier, timeouts) in found {
        out.extend(barrier);
        for (waiter, scope) in timeouts {
            soft.entry(waiter).or_default().extend(scope);
        }
    }
    for (waiter, scope) in soft {
        let act = waiters.acts[waiter];
        if let Some(mut timeout) = Draft::bounded(scene, act, TimeoutKind::Wait) {
            timeout.scope = scope;
            out.push(timeout);
        }
    }
    out
}

type Scope = Vec<(MethodId, u32)>;

/// A barrier, and what lies under the timeouts of waiters, by their number.
type Found = (Option<Draft>, Vec<(usize, Scope)>);

/// Those who wait, by the object they wait on.
struct Waiters<'w> {
    acts: Vec<&'w Act>,
    by_spot: FxHashMap<Spot, Vec<usize>>,
}

impl<'w> Waiters<'w> {
    fn new(scene: &Scene<'_>, acts: Vec<&'w Act>) -> Waiters<'w> {
        let mut by_spot: FxHashMap<Spot, Vec<usize>> = FxHashMap::default();
        let spots: Vec<Vec<Spot>> = acts.par_iter().map(|act| receiver(scene, act)).collect();
        for (at, spots) in spots.into_iter().enumerate() {
            for spot in spots {
                by_spot.entry(spot).or_default().push(at);
            }
        }
        Waiters { acts, by_spot }
    }

    /// Who waits for this release; sorted.
    fn of(&self, scene: &Scene<'_>, release: &Act) -> Vec<usize> {
        let mut out: Vec<usize> = Vec::new();
        for spot in receiver(scene, release) {
            match spot {
                Spot::Type(class) => {
                    for class in related(scene, class) {
                        out.extend(self.by_spot.get(&Spot::Type(class)).into_iter().flatten());
                    }
                }
                spot => out.extend(self.by_spot.get(&spot).into_iter().flatten()),
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }
}

/// The objects a call may be made on.
pub fn receiver(scene: &Scene<'_>, act: &Act) -> Vec<Spot> {
    let of_call = scene.call(act);
    let receiver = of_call.and_then(|(body, call)| body.receiver(call));
    receiver.map_or(Vec::new(), |val| spots::of(scene, act.method, val))
}

/// An own class, its own supertypes and subtypes: an object may be known as any of them.
fn related(scene: &Scene<'_>, class: Sym) -> Vec<Sym> {
    let program = scene.program;
    let Some(id) = program.class_named(class) else {
        return vec![class];
    };
    let mut all = program.all_subtypes(id);
    all.extend(program.ancestors(id).iter().filter(|a| program.is_own(**a)));
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(|id| program.class(id).name).collect()
}

/// Does it wait without a bound? The longest there is, is none, nor is 0 to some, nor is any where
/// it waits again.
pub fn is_hard(scene: &Scene<'_>, clocks: &Clocks, act: &Act) -> bool {
    let Some(bound) = act.meaning.bound else {
        return true;
    };
    if waits_again(scene, clocks, act) {
        return true;
    }
    let value = scene.call(act).and_then(|(body, call)| {
        let value = draft::bound_of(body, call, bound)?;
        draft::constant(body, value)
    });
    match value {
        Some(i64::MAX) => true,
        Some(0) => matches!(act.meaning.verb, Verb::Wait | Verb::Join),
        _ => false,
    }
}

/// `while (!ready) { wait(1000); }`: who waits is not told that the time is over, and only what it
/// waits for ends it. A loop that looks at the clock, counts, or does something else in each round
/// is another thing.
fn waits_again(scene: &Scene<'_>, clocks: &Clocks, act: &Act) -> bool {
    let Some((body, waits)) = scene.call(act) else {
        return false;
    };
    if !waits.result.is_none() {
        return false;
    }
    let Some(blocks) = Flow::new(body).innermost_loop(act.op) else {
        return false;
    };
    let counts = |val: Val| depends_on_round(body, &blocks, val, 0);
    let ops = blocks.iter().flat_map(|block| {
        let block = &body.blocks[*block as usize];
        body.ops_of(block)
    });
    ops.into_iter().all(|op| match op.kind {
        OpKind::Call(call) if call == act.call => true,
        OpKind::Call(call) => {
            let asks = !body.calls[call as usize].result.is_none();
            asks && !scene.does_io(act.method, call) && !clocks.reads(act.method, call)
        }
        OpKind::Branch { a, b, .. } => !counts(a) && !counts(b),
        OpKind::Switch(val) | OpKind::Compare(val) => !counts(val),
        OpKind::Put { .. } | OpKind::ArrayStore { .. } | OpKind::Throw(_) => false,
        _ => true,
    })
}

/// How deep a condition is followed to what changes from round to round.
const MAX_CONDITION: u32 = 6;

/// Is it made of something that the rounds of a loop change?
fn depends_on_round(body: &Body, blocks: &[u32], val: Val, depth: u32) -> bool {
    let deeper = |val| depends_on_round(body, blocks, val, depth + 1);
    if val.is_none() || depth > MAX_CONDITION {
        return false;
    }
    match body.value(val) {
        Value::Phi(_) => body.phi_block(val).is_some_and(|b| blocks.contains(&b)),
        Value::Binary { a, b, .. } => deeper(a) || deeper(b),
        Value::Unary { a, .. } | Value::Cast { a, .. } => deeper(a),
        _ => false,
    }
}

fn of_release(scene: &Scene<'_>, clocks: &Clocks, waiters: &Waiters<'_>, release: &Act) -> Found {
    let matched = waiters.of(scene, release);
    if matched.is_empty() {
        return (None, Vec::new());
    }
    let scope = before(scene, release.method, release.op);
    if scope.is_empty() {
        return (None, Vec::new());
    }
    let (hard, soft): (Vec<usize>, Vec<usize>) = matched
        .into_iter()
        .partition(|at| is_hard(scene, clocks, waiters.acts[*at]));
    let soft = soft.into_iter().map(|at| (at, scope.clone())).collect();
    if hard.is_empty() {
        return (None, soft);
    }
    let places = hard.iter().take(MAX_WAITERS).map(|at| {
        let act = waiters.acts[*at];
        (act.method, scene.pc(act.method, act.op))
    });
    let mut barrier = region(scene, release, RegionKind::Barrier, places.collect());
    barrier.scope = scope;
    (Some(barrier), soft)
}

/// A region on the receiver of a call.
pub fn region(
    scene: &Scene<'_>,
    act: &Act,
    kind: RegionKind,
    places: Vec<(MethodId, u16)>,
) -> Draft {
    let receiver = scene.call(act).and_then(|(body, call)| body.receiver(call));
    let text = scene.program.text(act.method).zip(receiver);
    let on = text.map_or(String::new(), |(text, val)| text.of(val));
    let mut draft = Draft::region(scene, (act.method, Some(act.op)), kind, on);
    if let What::Region { waiters, .. } = &mut draft.what {
        *waiters = places;
    }
    draft
}

/// The calls that come before an operation which lets others go on.
pub fn before(scene: &Scene<'_>, method: MethodId, op: u32) -> Scope {
    let Some(body) = scene.body(method) else {
        return Vec::new();
    };
    let mut scope = before_here(scene, method, body, op);
    let is_signal = scene.program.method(method).code_len <= MAX_SIGNAL_BYTES;
    let callers = &scene.graph.callers[method.0 as usize];
    if scope.is_empty() && is_signal && callers.len() <= MAX_SIGNAL_CALLERS {
        for site in callers {
            let Some(body) = scene.body(site.method) else {
                continue;
            };
            let is = |op: &crate::ir::Op| matches!(op.kind, OpKind::Call(c) if c == site.call);
            if let Some(op) = body.ops.iter().position(is) {
                scope.extend(before_here(scene, site.method, body, op as u32));
            }
        }
    }
    scope.sort_unstable();
    scope.dedup();
    scope
}

fn before_here(scene: &Scene<'_>, method: MethodId, body: &Body, op: u32) -> Scope {
    let ops = Flow::new(body).before(op, &[], true);
    let mut scope = Vec::new();
    for (op, _) in body.ops.iter().zip(ops).filter(|(_, before)| *before) {
        if let OpKind::Call(call) = op.kind
            && scene.does_io(method, call)
        {
            scope.push((method, call));
        }
    }
    scope
}
