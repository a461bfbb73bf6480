//! The abstract states of a task: Algorithm 1 of Legolas, over control dependence.
//!
//! A branch of the task's method that depends on a state variable decides about blocks. Where
//! these do something (a call, a write of a state variable), their first is a state.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;
use temblor_classfile::access;

use super::condition::{self, Condition, Exit, When};
use super::depend::{Depend, Flow, Roots, is_root, is_variable};
use super::entry::Unit;
use crate::calls::CallGraph;
use crate::ir::dominance::{Graph, Tree};
use crate::ir::{Block, Body, Call, OpKind, Sym, Val, Value};
use crate::program::Program;

/// What was found about one task.
#[derive(Debug, Default)]
pub struct Found {
    pub variables: Vec<String>,
    /// By position; the first is the entry.
    pub states: Vec<FoundState>,
}

#[derive(Debug)]
pub struct FoundState {
    pub block: u32,
    pub pc: u16,
    pub condition: String,
}

/// The states of a task.
pub fn find(program: &Program, graph: &CallGraph, unit: &Unit, handlers: bool) -> Found {
    let mut found = Found {
        variables: variables(program, unit),
        states: Vec::new(),
    };
    let mut conditions: BTreeMap<u32, String> = BTreeMap::new();
    if let Some(mut depend) = Depend::new(program, graph)
        && let Some(flow) = depend.flow(unit.method)
    {
        let text = program.text(unit.method);
        for (block, when) in decided(program, &mut depend, &flow, unit) {
            let written = text.as_ref().map(|t| t.cut(when.write(t)));
            conditions.insert(block, written.unwrap_or_default());
        }
        if handlers {
            for (block, types) in caught(program, flow.body) {
                conditions
                    .entry(block)
                    .or_insert(format!("catch {}", types.join(" | ")));
            }
        }
        conditions.insert(0, String::new());
        found.states = conditions
            .into_iter()
            .map(|(block, condition)| FoundState {
                block,
                pc: flow.body.blocks[block as usize].start,
                condition,
            })
            .collect();
    }
    found
}

/// The first blocks of what branches on state variables decide about, and when.
fn decided<'p>(
    program: &'p Program,
    depend: &mut Depend<'p>,
    flow: &Flow<'p>,
    unit: &Unit,
) -> BTreeMap<u32, When> {
    let roots = Roots {
        this: unit.this.clone(),
        captured: unit.captured.clone(),
    };
    let dominators = Tree::of(&Graph::with_exceptions(flow.body), 0);
    let selecting = selecting(program, flow.body);
    let mut out: BTreeMap<u32, When> = BTreeMap::new();
    for condition in condition::all(program, flow) {
        let blocks = condition.blocks.iter();
        let looks_at: Vec<_> = blocks.flat_map(|b| flow.looks_at(*b)).collect();
        if !depend.any(flow, &roots, &looks_at) {
            continue;
        }
        for exit in &condition.exits {
            // Back to what was passed already, as at the end of a loop: nothing is entered.
            let is_back = dominators.dominates(exit.to, condition.blocks[0]);
            let begins = !is_back && !selecting.contains(&exit.to);
            if begins && acts(program, depend, flow, &roots, &dominators, &condition, exit) {
                let when = match out.remove(&exit.to) {
                    Some(other) => other.or(exit.when.clone()),
                    None => exit.when.clone(),
                };
                out.insert(exit.to, when);
            }
        }
    }
    out
}

/// Does this way out of a condition lead to blocks of its own, and do these do something?
fn acts<'p>(
    program: &'p Program,
    depend: &mut Depend<'p>,
    flow: &Flow<'p>,
    roots: &Roots,
    dominators: &Tree,
    condition: &Condition,
    exit: &Exit,
) -> bool {
    let control = flow.control();
    let depends_on_it = |block: u32| {
        let mut on = control[block as usize].iter();
        on.any(|d| exit.edges.contains(&(d.block, d.edge)))
    };
    if !depends_on_it(exit.to) {
        return false;
    }
    let mut blocks = (0..flow.body.blocks.len() as u32).filter(|block| {
        // In a loop, the condition itself depends on its own outcome.
        depends_on_it(*block)
            && !condition.blocks.contains(block)
            && !dominators.dominates(*block, condition.blocks[0])
    });
    blocks.any(|block| {
        let block = &flow.body.blocks[block as usize];
        let mut ops = flow.body.ops_of(block).iter();
        ops.any(|op| match op.kind {
            OpKind::Call(_) | OpKind::Closure(_) => true,
            OpKind::Put {
                object,
                class,
                name,
                ..
            } => match is_root(flow.body, roots, object) {
                true => is_variable(program, class, name),
                false => depend.any(flow, roots, &[object]),
            },
            _ => false,
        })
    })
}

/// Blocks that only find the case of a switch on a text: it compares hashes, then the texts.
fn selecting(program: &Program, body: &Body) -> FxHashSet<u32> {
    let called = |val, name: &str| match body.value(val) {
        Value::Call(call) => program.str(body.calls[call as usize].name) == name,
        _ => false,
    };
    let mut out = FxHashSet::default();
    let mut pending = Vec::new();
    for block in &body.blocks {
        let Some(OpKind::Switch(val)) = body.ops_of(block).last().map(|op| op.kind) else {
            continue;
        };
        // Scala takes 0 for the hash of null.
        let operands = match body.value(val) {
            Value::Phi(list) => body.list(list),
            _ => &[],
        };
        let hashes = operands.iter().find(|o| called(**o, "hashCode"));
        if called(val, "hashCode") || hashes.is_some() {
            pending.extend(block.next.iter().copied());
        }
        if let Some(Value::Call(hash)) = hashes.map(|h| body.value(*h)) {
            let only = |b: &Block| match body.ops_of(b) {
                [op] => matches!(op.kind, OpKind::Call(call) if call == hash),
                _ => false,
            };
            out.extend(
                (0..)
                    .zip(&body.blocks)
                    .filter(|(_, b)| only(b))
                    .map(|(at, _)| at),
            );
        }
    }
    while let Some(at) = pending.pop() {
        let block = &body.blocks[at as usize];
        let calls = body.ops_of(block).iter();
        let calls = calls
            .filter(|op| matches!(op.kind, OpKind::Call(_)))
            .count();
        if let Some(OpKind::Branch { a, .. }) = body.ops_of(block).last().map(|op| op.kind)
            && called(a, "equals")
            && calls == 1
            && out.insert(at)
        {
            pending.extend(block.next.iter().copied());
        }
    }
    out
}

/// Handlers of a method that catch a type, and the types.
fn caught(program: &Program, body: &Body) -> BTreeMap<u32, Vec<String>> {
    let mut out: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let handlers = body.blocks.iter().filter(|b| b.reachable);
    for (handler, class) in handlers.flat_map(|b| b.handlers.iter()) {
        let Some(class) = class else { continue };
        let name = program.str(*class);
        let name = name.rsplit('/').next().unwrap_or(name).to_string();
        let types = out.entry(*handler).or_default();
        if !types.contains(&name) {
            types.push(name);
        }
    }
    out
}

/// The names of a task's state variables: of a class all of them, of a closure what it reads.
fn variables(program: &Program, unit: &Unit) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        if !out.iter().any(|n| n == name) {
            out.push(name.to_string());
        }
    };
    if !unit.closure {
        let mut at = Some(program.class_of(unit.method));
        // Bounded: a cyclic hierarchy in hostile input must end.
        for _ in 0..256 {
            let Some(class) = at.filter(|c| program.is_own(*c)) else {
                break;
            };
            let class = program.class(class);
            let fields = class.fields.iter();
            for field in fields.filter(|f| !f.constant && f.access & access::STATIC == 0) {
                add(program.str(field.name));
            }
            at = class.super_name.and_then(|s| program.class_named(s));
        }
        return out;
    }
    let Some(body) = program.body(unit.method) else {
        return out;
    };
    let roots = Roots {
        this: unit.this.clone(),
        captured: Vec::new(),
    };
    for (val, name) in &body.names {
        if let Value::Param(position) = body.value(*val)
            && unit.captured.contains(&position)
        {
            add(program.str(*name));
        }
    }
    for op in &body.ops {
        match op.kind {
            OpKind::Get(val) => {
                if let Some(name) = read(program, body, &roots, val) {
                    add(program.str(name));
                }
            }
            // Scala reads even its own fields through methods.
            OpKind::Call(call) => {
                let call = &body.calls[call as usize];
                let of_task = body.receiver(call).filter(|r| is_root(body, &roots, *r));
                if let Some(name) = of_task.and_then(|_| getter(program, call)) {
                    add(program.str(name));
                }
            }
            _ => {}
        }
    }
    out
}

/// The state variable that a value is read from.
fn read(program: &Program, body: &Body, roots: &Roots, val: Val) -> Option<Sym> {
    match body.value(val) {
        Value::Field {
            object,
            class,
            name,
        } => {
            let is_one = is_root(body, roots, object) && is_variable(program, class, name);
            is_one.then_some(name)
        }
        _ => None,
    }
}

/// The state variable that a method does nothing but return.
fn getter(program: &Program, call: &Call) -> Option<Sym> {
    let class = program.class_named(call.class)?;
    let declared = program.resolve(class, call.name, call.desc)?;
    let body = program.declared(declared).body.as_ref()?;
    let roots = Roots {
        this: vec![0],
        captured: Vec::new(),
    };
    match &*body.ops {
        [first, last] => match (first.kind, last.kind) {
            (OpKind::Get(got), OpKind::Return(given)) if got == given => {
                read(program, body, &roots, got)
            }
            _ => None,
        },
        _ => None,
    }
}
