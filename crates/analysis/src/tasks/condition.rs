//! Branches that belong together: `a && b` and `a || b` are one condition with two ways out.

use rustc_hash::FxHashSet;

use crate::ir::text::Text;
use crate::ir::{Body, OpKind, Sym, Val, Value};
use crate::program::Program;

use super::depend::Flow;

/// When a way out is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// The branch or switch at the end of this block takes this edge.
    Edge {
        block: u32,
        edge: u32,
    },
    All(Vec<When>),
    Any(Vec<When>),
}

impl When {
    fn and(self, other: When) -> When {
        let mut parts = match self {
            When::All(parts) => parts,
            one => vec![one],
        };
        match other {
            When::All(more) => parts.extend(more),
            one => parts.push(one),
        }
        When::All(parts)
    }

    pub fn or(self, other: When) -> When {
        let mut parts = match self {
            When::Any(parts) => parts,
            one => vec![one],
        };
        match other {
            When::Any(more) => parts.extend(more),
            one => parts.push(one),
        }
        When::Any(parts)
    }

    /// As a reader would write it.
    pub fn write(&self, text: &Text<'_>) -> String {
        match self {
            When::Edge { block, edge } => text.condition(*block as usize, *edge as usize),
            When::All(parts) => {
                let inside = |part: &When| match part {
                    When::Any(_) => format!("({})", part.write(text)),
                    _ => part.write(text),
                };
                parts.iter().map(inside).collect::<Vec<_>>().join(" && ")
            }
            When::Any(parts) => {
                let mut texts: Vec<String> = parts.iter().map(|p| p.write(text)).collect();
                let mut seen = FxHashSet::default();
                texts.retain(|t| seen.insert(t.clone()));
                texts.join(" || ")
            }
        }
    }
}

/// A way out of a condition.
#[derive(Clone, Debug)]
pub struct Exit {
    /// The block it leads to.
    pub to: u32,
    pub when: When,
    /// The edges that lead there: block, which of its successors.
    pub edges: Vec<(u32, u32)>,
}

/// One or several blocks that decide.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The first is where it is entered.
    pub blocks: Vec<u32>,
    pub exits: Vec<Exit>,
    /// It does nothing but decide, so that it can be a part of a larger one.
    pure: bool,
    is_switch: bool,
}

/// The conditions of a method, by the block they begin in.
pub fn all(program: &Program, flow: &Flow<'_>) -> Vec<Condition> {
    let body = flow.body;
    let init = program.sym("<init>");
    let mut at: Vec<Option<Condition>> = (0..body.blocks.len() as u32)
        .map(|block| single(body, block, init))
        .collect();
    // Inner ones are put together before those around them, whichever comes first.
    let mut changed = true;
    while changed {
        changed = false;
        for block in 0..at.len() {
            while let Some((merged, part)) = merge(&at, block, flow) {
                at[part as usize] = None;
                at[block] = Some(merged);
                changed = true;
            }
        }
    }
    at.into_iter().flatten().collect()
}

fn single(body: &Body, at: u32, init: Option<Sym>) -> Option<Condition> {
    let block = &body.blocks[at as usize];
    let is_switch = match body.ops_of(block).last().map(|op| op.kind) {
        Some(OpKind::Branch { .. }) if block.reachable => false,
        Some(OpKind::Switch(_)) if block.reachable => true,
        _ => return None,
    };
    let mut exits: Vec<Exit> = Vec::new();
    for (edge, to) in (0..).zip(&block.next) {
        let to = landing(body, *to);
        let when = When::Edge { block: at, edge };
        match exits.iter_mut().find(|e| e.to == to) {
            Some(exit) => {
                exit.when = exit.when.clone().or(when);
                exit.edges.push((at, edge));
            }
            None => exits.push(Exit {
                to,
                when,
                edges: vec![(at, edge)],
            }),
        }
    }
    (exits.len() > 1).then(|| Condition {
        blocks: vec![at],
        exits,
        pure: is_pure(body, at, init),
        is_switch,
    })
}

/// The condition of a block and the one after it in one, if they belong together.
fn merge(at: &[Option<Condition>], block: usize, flow: &Flow<'_>) -> Option<(Condition, u32)> {
    let first = at[block].as_ref().filter(|c| !c.is_switch)?;
    for (next, other) in [(0, 1), (1, 0)] {
        let (next, other) = (&first.exits[next], &first.exits[other]);
        let Some(part) = &at[next.to as usize] else {
            continue;
        };
        let only_from_here = || {
            let mut before = flow.before()[next.to as usize].iter();
            before.all(|b| first.blocks.contains(b))
        };
        if next.to as usize == block || !part.pure || part.is_switch || !only_from_here() {
            continue;
        }
        let Some(shared) = part.exits.iter().position(|e| e.to == other.to) else {
            continue;
        };
        let (shared, last) = (&part.exits[shared], &part.exits[1 - shared]);
        let mut edges = other.edges.clone();
        edges.extend(&shared.edges);
        let exits = vec![
            Exit {
                to: last.to,
                when: next.when.clone().and(last.when.clone()),
                edges: last.edges.clone(),
            },
            Exit {
                to: other.to,
                when: other.when.clone().or(shared.when.clone()),
                edges,
            },
        ];
        let mut blocks = first.blocks.clone();
        blocks.extend(&part.blocks);
        let merged = Condition {
            blocks,
            exits,
            pure: first.pure,
            is_switch: false,
        };
        return Some((merged, next.to));
    }
    None
}

/// Where a jump to a jump ends up.
fn landing(body: &Body, mut at: u32) -> u32 {
    for _ in 0..8 {
        let block = &body.blocks[at as usize];
        let is_jump = block.first_op == block.last_op
            && block.next.len() == 1
            && block.end.wrapping_sub(block.start) == 3
            && body.blocks[block.next[0] as usize].start != block.end;
        if !is_jump {
            break;
        }
        at = block.next[0];
    }
    at
}

/// Is everything a block does needed for its own branch?
fn is_pure(body: &Body, at: u32, init: Option<Sym>) -> bool {
    let block = &body.blocks[at as usize];
    if block.assigns {
        return false;
    }
    let mut needed = FxHashSet::default();
    body.ops_of(block).iter().rev().all(|op| match op.kind {
        OpKind::Branch { a, b, .. } => {
            need(body, &[a, b], &mut needed);
            true
        }
        OpKind::Get(_) | OpKind::Compare(_) => true,
        OpKind::Call(index) => {
            let call = &body.calls[index as usize];
            let args = body.args(call);
            let creates =
                Some(call.name) == init && args.first().is_some_and(|a| needed.contains(a));
            if creates {
                need(body, args, &mut needed);
            }
            creates || needed.contains(&call.result)
        }
        OpKind::Closure(index) => needed
            .iter()
            .any(|v| body.value(*v) == Value::Closure(index)),
        OpKind::ArrayStore { array, value } => {
            need(body, &[value], &mut needed);
            needed.contains(&array)
        }
        _ => false,
    })
}

/// Adds what these values are made of.
fn need(body: &Body, vals: &[Val], needed: &mut FxHashSet<Val>) {
    let mut pending = vals.to_vec();
    while let Some(val) = pending.pop() {
        if val.is_none() || !needed.insert(val) {
            continue;
        }
        match body.value(val) {
            Value::Field { object, .. } => pending.push(object),
            Value::Element { array, index } => pending.extend([array, index]),
            Value::Binary { a, b, .. } => pending.extend([a, b]),
            Value::Unary { a, .. } | Value::Cast { a, .. } | Value::InstanceOf { a, .. } => {
                pending.push(a);
            }
            Value::Call(call) => pending.extend(body.args(&body.calls[call as usize])),
            Value::Closure(closure) => {
                pending.extend(body.list(body.closures[closure as usize].captured));
            }
            _ => {}
        }
    }
}
