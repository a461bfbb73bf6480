//! Values that are points in time: readings of the clock, the target's own methods that give
//! them, and the fields that keep them (the get-time set of Sieve §4.3). A field also keeps what is
//! put into the map, the queue or the atomic number that it holds: when each session was last heard
//! of, when each request was sent.

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use temblor_classfile::opcode;
use temblor_model::catalog::{Diagnostic, TimeUnit};
use temblor_model::settings::AnalysisSettings;

use crate::ir::{Body, Call, OpKind, Sym, Val, Value};
use crate::program::MethodId;
use crate::rules::Rules;

use super::draft;
use super::scene::{Scene, Written};
use super::verbs::Verb;

/// Calls that put something into what they are made on.
const STORES: [&str; 11] = [
    "add",
    "addLast",
    "compareAndSet",
    "getAndSet",
    "lazySet",
    "offer",
    "put",
    "putIfAbsent",
    "replace",
    "set",
    "setValue",
];

/// How deep a value is followed.
const MAX_DEPTH: u32 = 8;
/// How deep own clock methods and fields may depend on one another.
const MAX_ROUNDS: usize = 4;
/// A call with more targets than this says little about what each of them gets.
const MAX_GIVEN_TARGETS: usize = 4;

/// A unit of time, those the catalog cannot say included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    pub nanos: i64,
}

impl Scale {
    fn of(unit: TimeUnit) -> Scale {
        let nanos = match unit {
            TimeUnit::Nanoseconds => 1,
            TimeUnit::Milliseconds | TimeUnit::Argument => 1_000_000,
            TimeUnit::Seconds => 1_000_000_000,
        };
        Scale { nanos }
    }

    pub fn unit(self) -> Option<TimeUnit> {
        match self.nanos {
            1 => Some(TimeUnit::Nanoseconds),
            1_000_000 => Some(TimeUnit::Milliseconds),
            1_000_000_000 => Some(TimeUnit::Seconds),
            _ => None,
        }
    }

    /// After a division or a multiplication by a constant.
    fn scaled(self, by: u8, factor: i64) -> Option<Scale> {
        let nanos = match by {
            opcode::LDIV => self.nanos.checked_mul(factor)?,
            _ => self.nanos.checked_div(factor)?,
        };
        (nanos > 0).then_some(Scale { nanos })
    }
}

/// Where a point in time was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reading {
    /// A call of this method's.
    Call(u32),
    /// A parameter that callers give a point in time: read before the method begins.
    Param(u16),
    /// A field: the class that declares it, and its name.
    Field(Sym, Sym),
}

/// A point in time: its readings, and its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time {
    pub readings: Vec<Reading>,
    pub scale: Scale,
}

/// The clocks of a program.
pub struct Clocks {
    rules: Rules<TimeUnit>,
    calls: FxHashMap<(MethodId, u32), Scale>,
    methods: FxHashMap<MethodId, Scale>,
    params: FxHashMap<(MethodId, u16), Scale>,
    fields: FxHashMap<(Sym, Sym), Scale>,
    /// Where points in time are put into what a field holds.
    stores: FxHashMap<(Sym, Sym), Vec<Written>>,
}

impl Clocks {
    pub fn new(
        scene: &Scene<'_>,
        settings: &AnalysisSettings,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Clocks {
        let rules = settings.clocks.iter();
        let rules: Vec<_> = rules.map(|rule| (rule.call.clone(), rule.unit)).collect();
        let mut clocks = Clocks {
            rules: Rules::new(scene.program, "analysis.clocks", rules, diagnostics),
            calls: FxHashMap::default(),
            methods: FxHashMap::default(),
            params: FxHashMap::default(),
            fields: FxHashMap::default(),
            stores: FxHashMap::default(),
        };
        for act in scene.acts() {
            if let Verb::Clock(unit) = act.meaning.verb {
                clocks.calls.insert((act.method, act.call), Scale::of(unit));
            }
        }
        clocks.grow(scene);
        clocks
    }

    /// Adds own methods that give a reading, and fields that keep one, until nothing is new.
    fn grow(&mut self, scene: &Scene<'_>) {
        let mut work: FxHashSet<MethodId> = self.calls.keys().map(|(m, _)| *m).collect();
        if !self.rules.is_empty() {
            for id in scene.program.method_ids() {
                self.named(scene, id, &mut work);
            }
        }
        for _ in 0..MAX_ROUNDS {
            let mut todo: Vec<MethodId> = work.drain().collect();
            todo.sort_unstable();
            let clocks = &*self;
            let found: Vec<Found> = todo
                .par_iter()
                .map(|id| clocks.found_in(scene, *id))
                .collect();
            for (id, found) in todo.into_iter().zip(found) {
                if let Some(scale) = found.returned
                    && self.methods.insert(id, scale).is_none()
                {
                    for site in &scene.graph.callers[id.0 as usize] {
                        self.calls.entry((site.method, site.call)).or_insert(scale);
                        work.insert(site.method);
                    }
                }
                for (field, scale) in found.kept {
                    self.fields.entry(field).or_insert(scale);
                }
                for (field, written) in found.stored {
                    let stores = self.stores.entry(field).or_default();
                    let known = |w: &Written| (w.method, w.op) == (written.method, written.op);
                    if !stores.iter().any(known) {
                        stores.push(written);
                    }
                }
                for (callee, n, scale) in found.given {
                    if self.params.insert((callee, n), scale).is_none() {
                        work.insert(callee);
                    }
                }
            }
        }
    }

    fn named(&mut self, scene: &Scene<'_>, id: MethodId, work: &mut FxHashSet<MethodId>) {
        let Some(body) = scene.body(id) else { return };
        for (at, call) in body.calls.iter().enumerate() {
            if let Some(unit) = self.rules.of(scene.program, call.class, call.name) {
                self.calls.insert((id, at as u32), Scale::of(*unit));
                work.insert(id);
            }
        }
    }

    fn found_in(&self, scene: &Scene<'_>, id: MethodId) -> Found {
        let mut found = Found::default();
        let Some(body) = scene.body(id) else {
            return found;
        };
        let mut returns = Vec::new();
        for (at, op) in body.ops.iter().enumerate() {
            match op.kind {
                OpKind::Return(val) => returns.push(self.time(scene, id, body, val)),
                OpKind::Put {
                    class, name, value, ..
                } => {
                    if let Some(time) = self.time(scene, id, body, value) {
                        let owner = scene.program.field_owner(class, name);
                        found.kept.push(((owner, name), time.scale));
                    }
                }
                OpKind::Call(call) => {
                    self.given(scene, (id, body), call, &mut found);
                    self.stored(scene, (id, body), (at as u32, call), &mut found);
                }
                _ => {}
            }
        }
        let of_calls = |time: &Time| {
            let mut readings = time.readings.iter();
            readings.any(|r| matches!(r, Reading::Call(_)))
        };
        // What gives a kept time away is no clock: it does not read anew.
        if let Some(Some(first)) = returns.first()
            && returns
                .iter()
                .all(|time| time.as_ref().is_some_and(of_calls))
        {
            found.returned = Some(first.scale);
        }
        found
    }

    /// Points in time that a call hands to an own method.
    fn given(
        &self,
        scene: &Scene<'_>,
        (id, body): (MethodId, &Body),
        call: u32,
        found: &mut Found,
    ) {
        let called = &body.calls[call as usize];
        let callees = || {
            let edges = scene.calls(id, call).take(MAX_GIVEN_TARGETS);
            edges.map(|edge| edge.callee)
        };
        if !scene.program.str(called.desc).contains('J') || callees().next().is_none() {
            return;
        }
        for (n, arg) in body.args(called).iter().enumerate() {
            if let Some(time) = self.time(scene, id, body, *arg) {
                found
                    .given
                    .extend(callees().map(|callee| (callee, n as u16, time.scale)));
            }
        }
    }

    /// A point in time that a call puts into what a field holds.
    fn stored(
        &self,
        scene: &Scene<'_>,
        (id, body): (MethodId, &Body),
        (op, call): (u32, u32),
        found: &mut Found,
    ) {
        let called = &body.calls[call as usize];
        if !STORES.contains(&scene.program.str(called.name)) || !is_container(scene, called) {
            return;
        }
        let Some(field) = body.receiver(called).and_then(|r| held(scene, body, r, 0)) else {
            return;
        };
        for value in &body.args(called)[1..] {
            if let Some(time) = self.time(scene, id, body, *value) {
                found.kept.push((field, time.scale));
                let written = Written {
                    method: id,
                    op,
                    value: *value,
                };
                found.stored.push((field, written));
            }
        }
    }

    /// Where points in time are put into what a field holds.
    pub fn stores(&self, owner: Sym, name: Sym) -> &[Written] {
        self.stores.get(&(owner, name)).map_or(&[], Vec::as_slice)
    }

    /// Does a call read the clock?
    pub fn reads(&self, method: MethodId, call: u32) -> bool {
        self.calls.contains_key(&(method, call))
    }

    /// Methods in which points in time are read or come in.
    pub fn methods(&self, scene: &Scene<'_>) -> Vec<MethodId> {
        let of_calls = self.calls.keys().map(|(method, _)| *method);
        let of_params = self.params.keys().map(|(method, _)| *method);
        let mut out: Vec<MethodId> = of_calls.chain(of_params).collect();
        out.retain(|id| scene.body(*id).is_some());
        out.sort_unstable();
        out.dedup();
        out
    }

    /// The point in time that a value is, if it is one.
    pub fn time(&self, scene: &Scene<'_>, id: MethodId, body: &Body, val: Val) -> Option<Time> {
        let mut time = Collected::default();
        let mut seen = FxHashSet::default();
        self.collect(scene, (id, body), val, 0, &mut seen, &mut time);
        time.readings.sort_unstable();
        time.readings.dedup();
        Some(Time {
            readings: time.readings,
            scale: time.scale?,
        })
    }

    fn collect(
        &self,
        scene: &Scene<'_>,
        (id, body): (MethodId, &Body),
        val: Val,
        depth: u32,
        seen: &mut FxHashSet<Val>,
        out: &mut Collected,
    ) {
        if val.is_none() || depth > MAX_DEPTH || !seen.insert(val) {
            return;
        }
        match body.value(val) {
            Value::Call(call) => {
                if let Some(scale) = self.calls.get(&(id, call)) {
                    out.add(Reading::Call(call), *scale);
                } else if passes(scene, body, call) {
                    for arg in body.args(&body.calls[call as usize]) {
                        self.collect(scene, (id, body), *arg, depth + 1, seen, out);
                    }
                } else if let Some((owner, name)) = held(scene, body, val, 0)
                    && let Some(scale) = self.fields.get(&(owner, name))
                {
                    out.add(Reading::Field(owner, name), *scale);
                }
            }
            Value::Param(n) => {
                if let Some(scale) = self.params.get(&(id, n)) {
                    out.add(Reading::Param(n), *scale);
                }
            }
            Value::Field { class, name, .. } | Value::Static { class, name } => {
                let owner = scene.program.field_owner(class, name);
                if let Some(scale) = self.fields.get(&(owner, name)) {
                    out.add(Reading::Field(owner, name), *scale);
                }
            }
            Value::Phi(list) => {
                for operand in body.list(list) {
                    self.collect(scene, (id, body), *operand, depth + 1, seen, out);
                }
            }
            Value::Cast { a, .. }
            | Value::Unary {
                opcode: 133..=147,
                a,
            } => {
                self.collect(scene, (id, body), a, depth + 1, seen, out);
            }
            Value::Binary { opcode, a, b } => {
                if let Some(factor) = draft::constant(body, b).filter(|f| *f > 1)
                    && matches!(opcode, opcode::LDIV | opcode::LMUL)
                {
                    let mut inner = Collected::default();
                    self.collect(scene, (id, body), a, depth + 1, seen, &mut inner);
                    let scaled = inner.scale.and_then(|s| s.scaled(opcode, factor));
                    if let Some(scale) = scaled {
                        out.scale.get_or_insert(scale);
                        out.readings.append(&mut inner.readings);
                    }
                }
            }
            _ => {}
        }
    }
}

#[derive(Default)]
struct Collected {
    readings: Vec<Reading>,
    scale: Option<Scale>,
}

impl Collected {
    fn add(&mut self, reading: Reading, scale: Scale) {
        self.readings.push(reading);
        self.scale.get_or_insert(scale);
    }
}

/// What a method tells about clocks.
#[derive(Default)]
struct Found {
    returned: Option<Scale>,
    kept: Vec<((Sym, Sym), Scale)>,
    stored: Vec<((Sym, Sym), Written)>,
    /// Parameters of other methods.
    given: Vec<(MethodId, u16, Scale)>,
}

/// The field that holds a map, a queue or an atomic number, of which a value is an element, a view
/// or an iterator: `heard` of `heard.entrySet().iterator().next().getValue()`.
fn held(scene: &Scene<'_>, body: &Body, val: Val, depth: u32) -> Option<(Sym, Sym)> {
    match body.value(body.uncast(val)) {
        Value::Field { class, name, .. } | Value::Static { class, name } => {
            Some((scene.program.field_owner(class, name), name))
        }
        Value::Call(call) if depth < MAX_DEPTH => {
            let call = &body.calls[call as usize];
            let receiver = body.receiver(call).filter(|_| is_container(scene, call))?;
            held(scene, body, receiver, depth + 1)
        }
        _ => None,
    }
}

fn is_container(scene: &Scene<'_>, call: &Call) -> bool {
    scene.program.str(call.class).starts_with("java/util/")
}

/// Calls that give back one of their arguments: `Math.max`, boxing.
pub fn passes(scene: &Scene<'_>, body: &Body, call: u32) -> bool {
    let call = &body.calls[call as usize];
    let (class, name) = (scene.program.str(call.class), scene.program.str(call.name));
    match class {
        "java/lang/Math" => matches!(name, "max" | "min" | "abs"),
        "java/lang/Long" => matches!(name, "valueOf" | "longValue" | "max" | "min"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_change_the_unit_of_a_time() {
        let nanos = Scale::of(TimeUnit::Nanoseconds);
        let millis = nanos.scaled(opcode::LDIV, 1_000_000).unwrap();
        assert_eq!(millis.unit(), Some(TimeUnit::Milliseconds));
        assert_eq!(nanos.scaled(opcode::LDIV, 1000).unwrap().unit(), None);
        let seconds = millis.scaled(opcode::LDIV, 1000).unwrap();
        assert_eq!(seconds.unit(), Some(TimeUnit::Seconds));
        assert_eq!(millis.scaled(opcode::LMUL, 1_000_000), Some(nanos));
        assert_eq!(nanos.scaled(opcode::LMUL, 1000), None);
    }
}
