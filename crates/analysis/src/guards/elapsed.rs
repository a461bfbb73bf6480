//! Timeouts by the clock: the time between two readings, compared with a limit, and deadlines,
//! compared with a reading (Sieve §4.3). What lies between the readings is under the timeout.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use temblor_classfile::opcode;
use temblor_model::catalog::TimeoutKind;

use crate::ir::text::Text;
use crate::ir::{Body, OpKind, Sym, Val, Value};
use crate::program::MethodId;

use super::clocks::{self, Clocks, Reading, Scale, Time};
use super::draft::{self, Draft, What};
use super::flow::{Flow, Ops};
use super::scene::{Scene, Written};

/// How deep a value is followed to a difference of times.
const MAX_DEPTH: u32 = 6;
/// A start that more methods set than this is no start in particular.
const MAX_SETTERS: usize = 12;

pub fn find(scene: &Scene<'_>, clocks: &Clocks) -> Vec<Draft> {
    let methods = clocks.methods(scene);
    let mut finder = Finder {
        scene,
        clocks,
        kept: FxHashMap::default(),
    };
    let deadlines: Vec<Vec<((Sym, Sym), Shift)>> = methods
        .par_iter()
        .map(|id| finder.kept_deadlines(*id))
        .collect();
    for (field, shift) in deadlines.into_iter().flatten() {
        finder.kept.entry(field).or_default().push(shift);
    }
    let found: Vec<Vec<Draft>> = methods.par_iter().map(|id| finder.method(*id)).collect();
    merged(found.into_iter().flatten())
}

/// Of one place there is one timeout, whatever ways lead to it.
fn merged(drafts: impl Iterator<Item = Draft>) -> Vec<Draft> {
    let mut out: Vec<Draft> = Vec::new();
    let mut at: FxHashMap<(MethodId, u16), usize> = FxHashMap::default();
    for draft in drafts {
        match at.get(&(draft.method, draft.pc)) {
            Some(first) => out[*first].scope.extend(draft.scope),
            None => {
                at.insert((draft.method, draft.pc), out.len());
                out.push(draft);
            }
        }
    }
    out
}

/// A point in time moved by something: a deadline, or the latest start that is not too old.
#[derive(Clone, Debug)]
struct Shift {
    method: MethodId,
    /// The addition or subtraction.
    op: u32,
    time: Time,
    by: Val,
    /// What it is moved by is the upper operand.
    on_top: bool,
    later: bool,
    /// The field it was kept in.
    field: Option<(Sym, Sym)>,
}

/// A difference of two values, scaled.
struct Difference {
    end: Val,
    start: Val,
    /// Its unit, where a conversion says so; else that of the clock.
    nanos: Option<i64>,
    /// How much coarser it was made after that.
    factor: i64,
}

struct Finder<'f, 's> {
    scene: &'f Scene<'s>,
    clocks: &'f Clocks,
    /// Deadlines kept in fields.
    kept: FxHashMap<(Sym, Sym), Vec<Shift>>,
}

impl<'s> Finder<'_, 's> {
    fn time(&self, id: MethodId, body: &Body, val: Val) -> Option<Time> {
        self.clocks.time(self.scene, id, body, val)
    }

    /// The shift that an addition or subtraction of longs makes.
    fn shift_at(&self, id: MethodId, body: &Body, op: u32, val: Val) -> Option<Shift> {
        let Value::Binary { opcode, a, b } = body.value(val) else {
            return None;
        };
        let (time, by, on_top) = match (self.time(id, body, a), self.time(id, body, b)) {
            (Some(time), None) => (time, b, true),
            (None, Some(time)) if opcode == opcode::LADD => (time, a, false),
            _ => return None,
        };
        Some(Shift {
            method: id,
            op,
            time,
            by,
            on_top,
            later: opcode == opcode::LADD,
            field: None,
        })
    }

    fn shifts(&self, id: MethodId, body: &Body) -> FxHashMap<Val, Shift> {
        let sums = body
            .ops
            .iter()
            .enumerate()
            .filter_map(|(at, op)| match op.kind {
                OpKind::Sum(val) => Some((val, self.shift_at(id, body, at as u32, val)?)),
                _ => None,
            });
        sums.collect()
    }

    fn kept_deadlines(&self, id: MethodId) -> Vec<((Sym, Sym), Shift)> {
        let mut out = Vec::new();
        let Some(body) = self.scene.body(id) else {
            return out;
        };
        let shifts = self.shifts(id, body);
        if shifts.is_empty() {
            return out;
        }
        for op in &body.ops {
            if let OpKind::Put {
                class, name, value, ..
            } = op.kind
                && let Some(shift) = self.shifted(body, &shifts, value, 0).first()
            {
                let field = (self.scene.program.field_owner(class, name), name);
                let shift = Shift {
                    field: Some(field),
                    ..shift.clone()
                };
                out.push((field, shift));
            }
        }
        out
    }

    /// The shifts a value can come from.
    fn shifted(
        &self,
        body: &Body,
        shifts: &FxHashMap<Val, Shift>,
        val: Val,
        depth: u32,
    ) -> Vec<Shift> {
        if depth > MAX_DEPTH {
            return Vec::new();
        }
        if let Some(shift) = shifts.get(&val) {
            return vec![shift.clone()];
        }
        let deeper = |v: Val| self.shifted(body, shifts, v, depth + 1);
        match body.value(val) {
            Value::Phi(list) => body.list(list).iter().flat_map(|v| deeper(*v)).collect(),
            Value::Cast { a, .. }
            | Value::Unary {
                opcode: 133..=147,
                a,
            } => deeper(a),
            Value::Call(call) if clocks::passes(self.scene, body, call) => {
                let args = body.args(&body.calls[call as usize]).iter();
                args.flat_map(|v| deeper(*v)).collect()
            }
            Value::Field { class, name, .. } | Value::Static { class, name } => {
                let field = (self.scene.program.field_owner(class, name), name);
                self.kept.get(&field).cloned().unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    fn method(&self, id: MethodId) -> Vec<Draft> {
        let Some(body) = self.scene.body(id) else {
            return Vec::new();
        };
        let Some(text) = self.scene.program.text(id) else {
            return Vec::new();
        };
        let comparison = Comparison {
            finder: self,
            id,
            body,
            text,
            shifts: self.shifts(id, body),
        };
        let mut out = Vec::new();
        for (at, op) in body.ops.iter().enumerate() {
            let (a, b, wide) = match op.kind {
                OpKind::Compare(val) => match body.value(val) {
                    Value::Binary {
                        opcode: opcode::LCMP,
                        a,
                        b,
                    } => (a, b, true),
                    _ => continue,
                },
                OpKind::Branch {
                    opcode: 159..=164,
                    a,
                    b,
                } => (a, b, false),
                _ => continue,
            };
            comparison.judge((at as u32, wide), a, b, &mut out);
        }
        out
    }

    /// The calls between a start and an end: of the end's method, and, where the start is kept in
    /// a field, of those that set it.
    fn scope(&self, id: MethodId, start: &[Reading], end: &[Reading]) -> Vec<(MethodId, u32)> {
        let Some(body) = self.scene.body(id) else {
            return Vec::new();
        };
        let flow = Flow::new(body);
        let mut draft = Vec::new();
        let mut add = |method: MethodId, body: &Body, ops: &Ops| {
            for (op, _) in body.ops.iter().zip(ops).filter(|(_, inside)| **inside) {
                if let OpKind::Call(call) = op.kind {
                    draft.push((method, call));
                }
            }
        };
        let ends: Vec<u32> = end
            .iter()
            .flat_map(|r| ops_of(self.scene, body, *r))
            .collect();
        let begins: Vec<u32> = start
            .iter()
            .filter(|r| matches!(r, Reading::Call(_)))
            .flat_map(|r| ops_of(self.scene, body, *r))
            .collect();
        for end in &ends {
            if !begins.is_empty() && !begins.contains(end) {
                add(id, body, &flow.between(&begins, *end));
            }
        }
        for reading in start {
            match reading {
                Reading::Call(_) => {}
                Reading::Param(_) => ends
                    .iter()
                    .for_each(|end| add(id, body, &flow.before(*end, &begins, false))),
                Reading::Field(owner, name) => {
                    let here = self.writes(*owner, *name).filter(|put| put.method == id);
                    let mut here: Vec<u32> = here.map(|put| put.op).collect();
                    here.extend(&begins);
                    for end in &ends {
                        add(id, body, &flow.before(*end, &here, false));
                    }
                    self.setters(id, *owner, *name, &mut add);
                }
            }
        }
        draft
    }

    /// Where a start that is kept is set.
    fn writes(&self, owner: Sym, name: Sym) -> impl Iterator<Item = &Written> {
        let stores = self.clocks.stores(owner, name).iter();
        self.scene.puts(owner, name).iter().chain(stores)
    }

    /// What follows where others set the start, and what comes before it: until it is set again,
    /// the time runs.
    fn setters(
        &self,
        id: MethodId,
        owner: Sym,
        name: Sym,
        add: &mut impl FnMut(MethodId, &Body, &Ops),
    ) {
        let program = self.scene.program;
        // A constructor sets what is to be overwritten.
        let is_plain = |m: MethodId| !program.str(program.method(m).name).starts_with('<');
        let others: Vec<&Written> = self
            .writes(owner, name)
            .filter(|p| p.method != id && is_plain(p.method))
            .collect();
        if others.len() > MAX_SETTERS {
            return;
        }
        for put in others {
            let Some(body) = self.scene.body(put.method) else {
                continue;
            };
            if self.time(put.method, body, put.value).is_some()
                || self.kept.contains_key(&(owner, name))
            {
                let flow = Flow::new(body);
                add(put.method, body, &flow.after(put.op, &[]));
                add(put.method, body, &flow.before(put.op, &[], true));
            }
        }
    }
}

/// The operations that read a point in time.
fn ops_of(scene: &Scene<'_>, body: &Body, reading: Reading) -> Vec<u32> {
    let is = |kind: OpKind| match (reading, kind) {
        (Reading::Call(call), OpKind::Call(c)) => c == call,
        (Reading::Field(owner, name), OpKind::Get(val)) => match body.value(val) {
            Value::Field { class, name: n, .. } | Value::Static { class, name: n } => {
                n == name && scene.program.field_owner(class, n) == owner
            }
            _ => false,
        },
        _ => false,
    };
    let ops = body.ops.iter().enumerate();
    ops.filter(|(_, op)| is(op.kind))
        .map(|(at, _)| at as u32)
        .collect()
}

/// The comparisons of one method.
struct Comparison<'c, 's> {
    finder: &'c Finder<'c, 's>,
    id: MethodId,
    body: &'s Body,
    text: Text<'s>,
    shifts: FxHashMap<Val, Shift>,
}

impl Comparison<'_, '_> {
    fn judge(&self, at: (u32, bool), a: Val, b: Val, out: &mut Vec<Draft>) {
        for (val, other, on_top) in [(a, b, true), (b, a, false)] {
            if let Some(difference) = self.difference(val, 0) {
                self.elapsed(at, &difference, (other, on_top), out);
                return;
            }
        }
        for (val, other) in [(a, b), (b, a)] {
            let Some(time) = self.finder.time(self.id, self.body, val) else {
                continue;
            };
            for shift in self.shifted(other) {
                out.extend(self.deadline(&shift, &time));
            }
        }
    }

    fn shifted(&self, val: Val) -> Vec<Shift> {
        self.finder.shifted(self.body, &self.shifts, val, 0)
    }

    /// The difference that a value is, through conversions and arithmetic with constants.
    fn difference(&self, val: Val, depth: u32) -> Option<Difference> {
        if depth > MAX_DEPTH {
            return None;
        }
        let deeper = |v: Val| self.difference(v, depth + 1);
        match self.body.value(val) {
            Value::Binary {
                opcode: 100 | opcode::LSUB,
                a,
                b,
            } if draft::constant(self.body, b).is_none() => {
                let is = |v| {
                    self.finder.time(self.id, self.body, v).is_some() || !self.shifted(v).is_empty()
                };
                (is(a) && is(b)).then_some(Difference {
                    end: a,
                    start: b,
                    nanos: None,
                    factor: 1,
                })
            }
            Value::Binary { opcode, a, b } => {
                let factor = draft::constant(self.body, b)?;
                let inner = deeper(a)?;
                let factor = match opcode {
                    opcode::LDIV | 108 if factor > 0 => inner.factor.checked_mul(factor)?,
                    96..=103 => inner.factor,
                    _ => return None,
                };
                Some(Difference { factor, ..inner })
            }
            Value::Unary {
                opcode: 133..=147,
                a,
            }
            | Value::Cast { a, .. } => deeper(a),
            Value::Phi(list) => self.body.list(list).iter().find_map(|v| deeper(*v)),
            Value::Call(call) => self.through(call, depth),
            Value::Field { class, name, .. } | Value::Static { class, name } => {
                let written = self.body.ops.iter().filter_map(|op| match op.kind {
                    OpKind::Put {
                        class: c,
                        name: n,
                        value,
                        ..
                    } if (c, n) == (class, name) => Some(value),
                    _ => None,
                });
                written.into_iter().find_map(deeper)
            }
            _ => None,
        }
    }

    /// `Math.max`, `TimeUnit.NANOSECONDS.toMillis`.
    fn through(&self, index: u32, depth: u32) -> Option<Difference> {
        let scene = self.finder.scene;
        let call = &self.body.calls[index as usize];
        let args = self.body.args(call);
        if clocks::passes(scene, self.body, index) {
            return args.iter().find_map(|v| self.difference(*v, depth + 1));
        }
        if scene.program.str(call.class) != "java/util/concurrent/TimeUnit" {
            return None;
        }
        let inner = self.difference(*args.get(1)?, depth + 1)?;
        let unit = |val: Option<&Val>| match self.body.value(*val?) {
            Value::Static { name, .. } => nanos_of(scene.program.str(name)),
            _ => None,
        };
        let nanos = match scene.program.str(call.name) {
            "convert" => unit(args.first())?,
            "toNanos" => 1,
            "toMicros" => 1_000,
            "toMillis" => 1_000_000,
            "toSeconds" => 1_000_000_000,
            _ => return None,
        };
        Some(Difference {
            nanos: Some(nanos),
            factor: 1,
            ..inner
        })
    }

    fn elapsed(
        &self,
        (op, wide): (u32, bool),
        difference: &Difference,
        (limit, on_top): (Val, bool),
        out: &mut Vec<Draft>,
    ) {
        let time = |val| self.finder.time(self.id, self.body, val);
        let (end, start) = match (time(difference.end), time(difference.start)) {
            (Some(end), Some(start)) => (end, start),
            // What is left until a deadline, or how long it has passed.
            (Some(end), None) => {
                let shifts = self.shifted(difference.start);
                out.extend(shifts.iter().filter_map(|shift| self.deadline(shift, &end)));
                return;
            }
            (None, Some(end)) => {
                let shifts = self.shifted(difference.end);
                out.extend(shifts.iter().filter_map(|shift| self.deadline(shift, &end)));
                return;
            }
            _ => return,
        };
        let scale = Scale {
            nanos: difference
                .nanos
                .unwrap_or(end.scale.nanos)
                .saturating_mul(difference.factor),
        };
        // Microseconds: the catalog has no such unit.
        let Some(unit) = scale.unit() else { return };
        // Whether any time has passed at all is no timeout.
        let limit_value = draft::constant(self.body, limit);
        if end.readings == start.readings || limit_value.is_some_and(|limit| limit <= 0) {
            return;
        }
        let above = match (on_top, wide) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        };
        out.push(Draft {
            method: self.id,
            pc: self.body.ops[op as usize].pc,
            what: What::Timeout {
                kind: TimeoutKind::Elapsed,
                above,
                wide,
                unit,
                constant: limit_value,
                expression: self.expression(op),
            },
            identity: format!("{:?} {op}", self.id),
            scope: self.finder.scope(self.id, &start.readings, &end.readings),
            shallow: false,
        });
    }

    /// The condition as it stands in the source: what is not jumped over.
    fn expression(&self, op: u32) -> String {
        let block = self.body.block_at(self.body.ops[op as usize].pc);
        self.text.condition(block, 1)
    }

    /// A shifted time, compared with another: its value can be read where it was shifted.
    fn deadline(&self, shift: &Shift, other: &Time) -> Option<Draft> {
        let finder = self.finder;
        let (start, end) = match shift.later {
            true => (&shift.time.readings, &other.readings),
            false => (&other.readings, &shift.time.readings),
        };
        if start == end {
            return None;
        }
        let mut scope = match shift.field {
            Some((owner, name)) => {
                finder.scope(self.id, &[Reading::Field(owner, name)], &other.readings)
            }
            None => finder.scope(self.id, start, end),
        };
        scope.sort_unstable();
        scope.dedup();
        let made_in = finder.scene.body(shift.method)?;
        let text = finder.scene.program.text(shift.method)?;
        let sign = if shift.later { "+" } else { "-" };
        let Value::Binary { a, b, .. } = (match made_in.ops[shift.op as usize].kind {
            OpKind::Sum(val) => made_in.value(val),
            _ => return None,
        }) else {
            return None;
        };
        Some(Draft {
            method: shift.method,
            pc: made_in.ops[shift.op as usize].pc,
            what: What::Timeout {
                kind: TimeoutKind::Elapsed,
                above: if shift.on_top { 0 } else { 2 },
                wide: true,
                unit: shift.time.scale.unit()?,
                constant: draft::constant(made_in, shift.by),
                expression: format!("{} {sign} {}", text.of(a), text.of(b)),
            },
            identity: format!("{:?} {}", shift.method, shift.op),
            scope,
            shallow: false,
        })
    }
}

fn nanos_of(unit: &str) -> Option<i64> {
    Some(match unit {
        "NANOSECONDS" => 1,
        "MICROSECONDS" => 1_000,
        "MILLISECONDS" => 1_000_000,
        "SECONDS" => 1_000_000_000,
        _ => return None,
    })
}
