//! Which locks may be held at each operation of a method: a forward dataflow over its blocks.
//!
//! All ways out of a region count, because each of them passes a release. An exception leaves a
//! block with what was held before the operation that throws; an operation that releases does
//! so even if it throws, or the cleanup of a region would never end it.

use rustc_hash::FxHashMap;
use temblor_classfile::{access, opcode};
use temblor_model::catalog::RegionKind;

use crate::ir::{Body, OpKind, Val, Value, cfg};
use crate::program::MethodId;

use super::locks::{Effect, Locks};
use super::path::{self, Path};
use super::scene::Scene;

/// A method has a bit for each of its acquiring operations; those past this many are ignored.
const MAX_ACQUIRES: usize = 128;

/// Where a lock is taken.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The operation; none for a synchronized method.
    pub op: Option<u32>,
    pub kind: RegionKind,
    pub path: Path,
    /// The lock, where it is a value of this method.
    pub lock: Val,
    /// What the acquiring call gives: closing or unlocking that releases too.
    result: Val,
    /// It may fail, and says so with its result.
    tried: bool,
}

/// The locks of one method.
pub struct Held {
    pub acquires: Vec<Acquire>,
    /// Before each operation: one bit for each acquire.
    pub before: Vec<u128>,
    /// Locks held at every return; locks released that were not taken here.
    pub net_acquired: Vec<Path>,
    pub net_released: Vec<Path>,
    /// It returns whether it got this lock.
    pub tries: Option<Path>,
}

struct Release {
    op: u32,
    paths: Vec<Path>,
    object: Val,
    monitor: bool,
}

#[derive(Default)]
struct Transfer {
    gained: FxHashMap<u32, u128>,
    lost: FxHashMap<u32, u128>,
    /// By block and edge.
    gained_on_edge: FxHashMap<(u32, u32), u128>,
    lost_on_edge: FxHashMap<(u32, u32), u128>,
    /// Edges that are not taken.
    closed: Vec<(u32, u32)>,
}

impl Transfer {
    /// With one bit for each lock, that of where it is taken first.
    fn by_lock(&self, acquires: &[Acquire]) -> Transfer {
        let first = |i: usize| {
            let same = |a: &Acquire| a.kind == acquires[i].kind && a.path == acquires[i].path;
            acquires.iter().position(same).unwrap_or(i)
        };
        let firsts: Vec<u128> = (0..acquires.len()).map(|i| 1 << first(i)).collect();
        let bits = |mask: u128| {
            let set = firsts
                .iter()
                .enumerate()
                .filter(|(i, _)| mask >> i & 1 != 0);
            set.fold(0, |all, (_, bit)| all | bit)
        };
        fn mapped<K: Copy + Eq + std::hash::Hash>(
            map: &FxHashMap<K, u128>,
            bits: &impl Fn(u128) -> u128,
        ) -> FxHashMap<K, u128> {
            map.iter().map(|(key, mask)| (*key, bits(*mask))).collect()
        }
        Transfer {
            gained: mapped(&self.gained, &bits),
            lost: mapped(&self.lost, &bits),
            gained_on_edge: mapped(&self.gained_on_edge, &bits),
            lost_on_edge: mapped(&self.lost_on_edge, &bits),
            closed: self.closed.clone(),
        }
    }
}

/// A parameter that is known to be true or false.
pub type Flag = (u16, bool);

/// The locks of a method; none if it has nothing to do with any.
pub fn held(
    scene: &Scene<'_>,
    locks: &Locks,
    method: MethodId,
    flag: Option<Flag>,
) -> Option<Held> {
    let body = scene.body(method)?;
    let (acquires, releases) = operations(scene, locks, method, body);
    if acquires.is_empty() && releases.is_empty() {
        return None;
    }
    let mut tries = None;
    let mut transfer = transfer(body, &acquires, &releases, &mut tries);
    transfer.closed = flag.map_or(Vec::new(), |flag| closed(body, flag));
    let entry = u128::from(acquires.first().is_some_and(|a| a.op.is_none()));
    let may = solve(body, &transfer, entry, |a, b| a | b);
    let must = solve(body, &transfer.by_lock(&acquires), entry, |a, b| a & b);
    let mut held = Held {
        net_acquired: net_acquired(body, &acquires, &must),
        net_released: Vec::new(),
        before: may.iter().map(|bits| bits.unwrap_or(0)).collect(),
        acquires,
        tries,
    };
    for release in releases.iter().filter(|r| !r.monitor) {
        let lost = transfer.lost.get(&release.op).copied().unwrap_or(0);
        if may[release.op as usize].is_some_and(|bits| bits & lost == 0) {
            let visible = release.paths.iter().filter(|p| p.is_visible());
            held.net_released.extend(visible.cloned());
        }
    }
    // Let go and taken again, as a wait does: nothing has changed for the caller.
    let both: Vec<Path> = held.net_released.clone();
    held.net_released.retain(|p| !held.net_acquired.contains(p));
    held.net_acquired.retain(|p| !both.contains(p));
    Some(held)
}

/// The edges that are not taken, given what a parameter is.
fn closed(body: &Body, (parameter, value): Flag) -> Vec<(u32, u32)> {
    let is = |v: &Value| *v == Value::Param(parameter);
    let Some(at) = body.values.iter().position(is) else {
        return Vec::new();
    };
    let (jumps, falls) = match value {
        true => (opcode::IFEQ, opcode::IFNE),
        false => (opcode::IFNE, opcode::IFEQ),
    };
    edges_of(body, Val(at as u32), jumps, falls)
}

/// Boolean parameters that decide where a method goes.
pub fn flags(body: &Body) -> Vec<u16> {
    let mut out: Vec<u16> = Vec::new();
    for op in &body.ops {
        if let OpKind::Branch {
            opcode: opcode::IFEQ | opcode::IFNE,
            a,
            ..
        } = op.kind
            && let Value::Param(n) = body.value(a)
        {
            out.push(n);
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

fn operations(
    scene: &Scene<'_>,
    locks: &Locks,
    method: MethodId,
    body: &Body,
) -> (Vec<Acquire>, Vec<Release>) {
    let (mut acquires, mut releases) = (Vec::new(), Vec::new());
    if scene.program.method(method).access & access::SYNCHRONIZED != 0 {
        acquires.push(Acquire {
            op: None,
            kind: RegionKind::SynchronizedMethod,
            path: path::of_method(scene, method),
            lock: Val::NONE,
            result: Val::NONE,
            tried: false,
        });
    }
    for (at, op) in body.ops.iter().enumerate() {
        let at = at as u32;
        let mut acquire = |kind, (path, lock), result, tried| {
            acquires.push(Acquire {
                op: Some(at),
                kind,
                path,
                lock,
                result,
                tried,
            })
        };
        match op.kind {
            OpKind::Enter(val) => {
                let path = path::of(scene, method, val);
                acquire(RegionKind::Monitor, (path, val), Val::NONE, false);
            }
            OpKind::Exit(val) => releases.push(Release {
                op: at,
                paths: vec![path::of(scene, method, val)],
                object: Val::NONE,
                monitor: true,
            }),
            OpKind::Call(index) => {
                let call = &body.calls[index as usize];

                for effect in locks.effects(scene, method, at, index) {
                    match effect {
                        Effect::Takes(path, lock) => {
                            acquire(RegionKind::Lock, (path, lock), call.result, false)
                        }
                        Effect::Tries(path, lock) => {
                            acquire(RegionKind::Lock, (path, lock), call.result, true)
                        }
                        Effect::Frees(paths, object) => releases.push(Release {
                            op: at,
                            paths,
                            object,
                            monitor: false,
                        }),
                    }
                }
            }
            _ => {}
        }
    }
    acquires.truncate(MAX_ACQUIRES);
    (acquires, releases)
}

fn transfer(
    body: &Body,
    acquires: &[Acquire],
    releases: &[Release],
    tries: &mut Option<Path>,
) -> Transfer {
    let mut out = Transfer::default();
    for (i, acquire) in acquires.iter().enumerate() {
        let Some(op) = acquire.op else { continue };
        let bit = 1u128 << i;
        if acquire.tried {
            let edges = edges_of(body, acquire.result, opcode::IFNE, opcode::IFEQ);
            for edge in &edges {
                *out.gained_on_edge.entry(*edge).or_default() |= bit;
            }
            if !edges.is_empty() {
                continue;
            }
            if returns(body, acquire.result) {
                *tries = Some(acquire.path.clone()).filter(Path::is_visible);
                continue;
            }
        }
        *out.gained.entry(op).or_default() |= bit;
        // A resource that is null is not closed, but then nothing was taken either.
        for edge in edges_of(body, acquire.result, opcode::IFNULL, opcode::IFNONNULL) {
            *out.lost_on_edge.entry(edge).or_default() |= bit;
        }
    }
    for release in releases {
        let mut lost = 0;
        for (i, acquire) in acquires.iter().enumerate() {
            let is_monitor = acquire.kind == RegionKind::Monitor;
            let by_path = release.paths.contains(&acquire.path);
            let by_value = !release.object.is_none() && release.object == acquire.result;
            let of_kind = match acquire.op {
                None => false,
                Some(_) => is_monitor == release.monitor,
            };
            if of_kind && (by_path || by_value) {
                lost |= 1u128 << i;
            }
        }
        *out.lost.entry(release.op).or_default() |= lost;
    }
    out
}

/// Where a value is tested, the edges (block and edge) that are taken if `jumps` holds of it;
/// `falls` is the opposite test.
fn edges_of(body: &Body, result: Val, jumps: u8, falls: u8) -> Vec<(u32, u32)> {
    let mut out = Vec::new();
    if result.is_none() {
        return out;
    }
    for (at, block) in body.blocks.iter().enumerate().filter(|(_, b)| b.reachable) {
        if let Some(OpKind::Branch { opcode, a, .. }) = body.ops_of(block).last().map(|op| op.kind)
            && body.uncast(a) == result
        {
            if opcode == jumps {
                out.push((at as u32, 0));
            } else if opcode == falls {
                out.push((at as u32, 1));
            }
        }
    }
    out
}

fn returns(body: &Body, val: Val) -> bool {
    let is = |op: &crate::ir::Op| matches!(op.kind, OpKind::Return(v) if v == val);
    body.ops.iter().any(is)
}

/// Before each operation, what is held, if it is reached at all; `meet` joins two ways.
fn solve(
    body: &Body,
    transfer: &Transfer,
    entry: u128,
    meet: impl Fn(u128, u128) -> u128,
) -> Vec<Option<u128>> {
    let of = |map: &FxHashMap<u32, u128>, op: u32| map.get(&op).copied().unwrap_or(0);
    let on = |map: &FxHashMap<(u32, u32), u128>, edge| map.get(&edge).copied().unwrap_or(0);
    let mut before = vec![None; body.ops.len()];
    let mut at_start: Vec<Option<u128>> = vec![None; body.blocks.len()];
    let order = cfg::reverse_post_order(&body.blocks);
    if let Some(first) = at_start.first_mut() {
        *first = Some(entry);
    }
    let mut changed = true;
    while changed {
        changed = false;
        let mut flow = |to: u32, bits: u128, at_start: &mut Vec<Option<u128>>| {
            let at = &mut at_start[to as usize];
            let met = Some(at.map_or(bits, |old| meet(old, bits)));
            changed |= *at != met;
            *at = met;
        };
        for index in order.iter().copied() {
            let block = &body.blocks[index as usize];
            let Some(mut now) = at_start[index as usize] else {
                continue;
            };
            let mut thrown = None;
            for op in block.first_op..block.last_op {
                before[op as usize] = Some(now);
                let left = now & !of(&transfer.lost, op);
                thrown = Some(thrown.map_or(left, |t| meet(t, left)));
                now = left | of(&transfer.gained, op);
            }
            for (edge, to) in block.next.iter().enumerate() {
                let edge = (index, edge as u32);
                if !transfer.closed.contains(&edge) {
                    let gained = now | on(&transfer.gained_on_edge, edge);
                    flow(
                        *to,
                        gained & !on(&transfer.lost_on_edge, edge),
                        &mut at_start,
                    );
                }
            }
            for (handler, _) in &block.handlers {
                if let Some(thrown) = thrown {
                    flow(*handler, thrown, &mut at_start);
                }
            }
        }
    }
    before
}

/// Locks that are held at every return.
fn net_acquired(body: &Body, acquires: &[Acquire], must: &[Option<u128>]) -> Vec<Path> {
    let mut at_returns = None;
    for (op, bits) in body.ops.iter().zip(must) {
        if let (OpKind::Return(_), Some(bits)) = (op.kind, *bits) {
            at_returns = Some(at_returns.map_or(bits, |all| all & bits));
        }
    }
    let bits: u128 = at_returns.unwrap_or(0);
    let kept = acquires.iter().enumerate().filter(|(i, acquire)| {
        acquire.kind == RegionKind::Lock && bits >> i & 1 != 0 && acquire.path.is_visible()
    });
    kept.map(|(_, acquire)| acquire.path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guards::flow::tests::body;

    fn transfer(gained: &[u32], lost: &[u32]) -> Transfer {
        Transfer {
            gained: gained.iter().map(|op| (*op, 1)).collect(),
            lost: lost.iter().map(|op| (*op, 1)).collect(),
            ..Transfer::default()
        }
    }

    fn held(body: &Body, transfer: &Transfer) -> Vec<u32> {
        numbers(solve(body, transfer, 0, |a, b| a | b))
    }

    fn numbers(before: Vec<Option<u128>>) -> Vec<u32> {
        let ops = 0..before.len() as u32;
        ops.filter(|op| before[*op as usize].is_some_and(|bits| bits != 0))
            .collect()
    }

    #[test]
    fn what_only_one_branch_takes_is_surely_held_only_if_the_other_is_closed() {
        // 0 goes to 1, which takes it, or to 2; both go to 3.
        let body = body(&[
            (1, &[1, 2], &[]),
            (1, &[3], &[]),
            (1, &[3], &[]),
            (1, &[], &[]),
        ]);
        let mut transfer = transfer(&[1], &[]);
        let surely = |transfer: &Transfer| numbers(solve(&body, transfer, 0, |a, b| a & b));
        assert_eq!(held(&body, &transfer), [3]);
        assert_eq!(surely(&transfer), Vec::<u32>::new());
        transfer.closed.push((0, 1));
        assert_eq!(surely(&transfer), [3]);
    }

    #[test]
    fn every_way_out_of_a_region_ends_it() {
        // 0: enter (0), op 1; 1: exit (2), op 3, return; 2: op 4; exit (5); op 6. The cleanup 3
        // catches what 0 and 2 throw, and what its own exit throws: exit (7), op 8.
        let body = body(&[
            (2, &[1, 2], &[3]),
            (2, &[], &[]),
            (3, &[], &[3]),
            (2, &[], &[3]),
        ]);
        let transfer = transfer(&[0], &[2, 5, 7]);
        assert_eq!(held(&body, &transfer), [1, 2, 4, 5, 7]);
    }

    #[test]
    fn a_release_that_throws_has_released() {
        // 0: enter (0); 1: exit (1), caught by 2: op 2.
        let body = body(&[(1, &[1], &[]), (1, &[], &[2]), (1, &[], &[])]);
        let transfer = transfer(&[0], &[1]);
        assert_eq!(held(&body, &transfer), [1]);
    }

    #[test]
    fn an_enter_that_throws_has_not_entered() {
        let body = body(&[(1, &[1], &[2]), (1, &[], &[]), (1, &[], &[])]);
        let transfer = transfer(&[0], &[]);
        assert_eq!(held(&body, &transfer), [1]);
    }

    #[test]
    fn a_tried_lock_is_held_on_the_edge_that_says_so() {
        let body = body(&[
            (1, &[1, 2], &[]),
            (1, &[3], &[]),
            (1, &[3], &[]),
            (1, &[], &[]),
        ]);
        let mut transfer = transfer(&[], &[]);
        transfer.gained_on_edge.insert((0, 1), 1);
        // Block 3 may be reached with it: nobody released it.
        assert_eq!(held(&body, &transfer), [2, 3]);
    }
}
