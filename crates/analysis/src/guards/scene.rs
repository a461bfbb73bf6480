//! What all passes look at: the program, its calls that concern other threads, who writes which
//! field, and the calls along which a guard spreads.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use temblor_classfile::access;

use crate::calls::{self, CallGraph};
use crate::found::FoundSite;
use crate::ir::{Body, Call, OpKind, Sym, Val, Value};
use crate::load;
use crate::program::{MethodId, Program};

use super::verbs::{Meaning, Verb, Verbs};

/// How far from a guard I/O still counts as guarded: in calls, of which one with several targets
/// counts as more than one, because it says less about who runs.
pub const MAX_COST: u8 = 16;

/// Foreign code that runs the closures it is given at once, on the thread that calls it.
const AT_ONCE: &[&str] = &[
    "java/util/",
    "java/lang/Iterable",
    "java/security/AccessController",
    "javax/security/auth/Subject",
    "scala/collection/",
    "scala/Option",
    "scala/util/",
    "scala/Predef",
];
const NOT_AT_ONCE: &str = "java/util/concurrent/";
const BUT_AT_ONCE: &str = "java/util/concurrent/Concurrent";

/// A call that means something to other threads.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    pub method: MethodId,
    /// Index into the body's operations, and into its calls.
    pub op: u32,
    pub call: u32,
    pub meaning: Meaning,
}

/// A call of own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub call: u32,
    pub callee: MethodId,
    pub cost: u8,
}

/// A write of a field.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub method: MethodId,
    pub op: u32,
    pub value: Val,
}

pub struct Scene<'a> {
    pub program: &'a Program,
    pub graph: &'a CallGraph,
    /// By method and operation.
    acts: Vec<Act>,
    /// Writes by the class that declares a field, and its name.
    puts: FxHashMap<(Sym, Sym), Vec<Written>>,
    /// For each own method its calls of own code, by call.
    edges: Vec<Box<[Edge]>>,
    /// The sites that do I/O, by method and call.
    sites: FxHashMap<(MethodId, u32), &'a FoundSite>,
    /// For each own method how far it is from I/O: 0 does some itself.
    distance: Vec<u8>,
}

type Scanned = (Vec<Act>, Vec<((Sym, Sym), Written)>, Box<[Edge]>);

impl<'a> Scene<'a> {
    pub fn new(program: &'a Program, graph: &'a CallGraph, sites: &'a [FoundSite]) -> Scene<'a> {
        let verbs = Verbs::new(program);
        let ids: Vec<MethodId> = program.method_ids().collect();
        let scanned: Vec<Scanned> = ids
            .par_iter()
            .map(|id| scan(program, graph, &verbs, *id))
            .collect();
        let mut scene = Scene {
            program,
            graph,
            acts: Vec::new(),
            puts: FxHashMap::default(),
            edges: Vec::with_capacity(ids.len()),
            sites: FxHashMap::default(),
            distance: Vec::new(),
        };
        for (acts, puts, edges) in scanned {
            scene.acts.extend(acts);
            for (field, written) in puts {
                scene.puts.entry(field).or_default().push(written);
            }
            scene.edges.push(edges);
        }
        let io = sites.iter().filter(|s| s.site.can_be_slow());
        scene.sites = io.map(|s| ((s.method, s.call), s)).collect();
        scene.distance = scene.distances();
        scene
    }

    /// From the methods with I/O to their callers, the nearest first.
    fn distances(&self) -> Vec<u8> {
        let mut callers: Vec<Vec<(MethodId, u8)>> = vec![Vec::new(); self.edges.len()];
        for (caller, edges) in self.edges.iter().enumerate() {
            for edge in edges {
                callers[edge.callee.0 as usize].push((MethodId(caller as u32), edge.cost));
            }
        }
        let mut distance = vec![u8::MAX; self.edges.len()];
        let mut waves: Vec<Vec<MethodId>> = vec![Vec::new(); usize::from(MAX_COST) + 1];
        waves[0] = self.sites.keys().map(|(method, _)| *method).collect();
        for away in 0..=MAX_COST {
            for method in std::mem::take(&mut waves[usize::from(away)]) {
                let at = &mut distance[method.0 as usize];
                if *at != u8::MAX {
                    continue;
                }
                *at = away;
                for (caller, cost) in &callers[method.0 as usize] {
                    if let Some(wave) = waves.get_mut(usize::from(away + cost)) {
                        wave.push(*caller);
                    }
                }
            }
        }
        distance
    }

    /// The site of a call, if it does I/O.
    pub fn site(&self, method: MethodId, call: u32) -> Option<&'a FoundSite> {
        self.sites.get(&(method, call)).copied()
    }

    pub fn sites(&self) -> impl Iterator<Item = &'a FoundSite> {
        self.sites.values().copied()
    }

    /// How far a method is from I/O; none if more than [`MAX_COST`].
    pub fn distance(&self, method: MethodId) -> Option<u8> {
        Some(self.distance[method.0 as usize]).filter(|d| *d <= MAX_COST)
    }

    /// Does a call do I/O, itself or further down?
    pub fn does_io(&self, method: MethodId, call: u32) -> bool {
        self.site(method, call).is_some()
            || self
                .calls(method, call)
                .any(|edge| self.distance(edge.callee).is_some())
    }

    pub fn acts(&self) -> impl Iterator<Item = &Act> {
        self.acts.iter()
    }

    pub fn acts_of(&self, is: impl Fn(Verb) -> bool) -> impl Iterator<Item = &Act> {
        self.acts.iter().filter(move |act| is(act.meaning.verb))
    }

    pub fn acts_in(&self, method: MethodId) -> impl Iterator<Item = &Act> {
        let first = self.acts.partition_point(|act| act.method < method);
        let of_method = self.acts[first..].iter();
        of_method.take_while(move |act| act.method == method)
    }

    /// Writes of a field, given by the class that declares it.
    pub fn puts(&self, owner: Sym, name: Sym) -> &[Written] {
        self.puts.get(&(owner, name)).map_or(&[], Vec::as_slice)
    }

    /// Calls of own code that a method makes.
    pub fn edges(&self, method: MethodId) -> &[Edge] {
        &self.edges[method.0 as usize]
    }

    /// Own code that one call runs.
    pub fn calls(&self, method: MethodId, call: u32) -> impl Iterator<Item = &Edge> + '_ {
        let edges = self.edges(method);
        let first = edges.partition_point(|edge| edge.call < call);
        edges[first..]
            .iter()
            .take_while(move |edge| edge.call == call)
    }

    /// The body of a method that has one: acts and scopes are in such methods only.
    pub fn body(&self, method: MethodId) -> Option<&'a Body> {
        self.program.body(method)
    }

    pub fn call(&self, act: &Act) -> Option<(&'a Body, &'a Call)> {
        let body = self.body(act.method)?;
        Some((body, &body.calls[act.call as usize]))
    }

    pub fn pc(&self, method: MethodId, op: u32) -> u16 {
        self.body(method).map_or(0, |b| b.ops[op as usize].pc)
    }

    pub fn class_name(&self, method: MethodId) -> Sym {
        self.program.class(self.program.class_of(method)).name
    }

    pub fn is_static(&self, method: MethodId) -> bool {
        self.program.method(method).access & access::STATIC != 0
    }

    /// The declared type of a value, as far as one is written down.
    pub fn type_of(&self, method: MethodId, val: Val) -> Option<Sym> {
        let body = self.body(method)?;
        let of_desc = |desc: &str| self.program.sym(load::class_of(desc)?);
        match body.value(val) {
            Value::Param(n) => {
                let skip = match (self.is_static(method), n) {
                    (false, 0) => return Some(self.class_name(method)),
                    (false, _) => 1,
                    (true, _) => 0,
                };
                let desc = self.program.str(self.program.method(method).desc);
                let (types, _) = temblor_classfile::method_types(desc)?;
                of_desc(types.get(usize::from(n) - skip)?)
            }
            Value::New(class) | Value::Cast { class, .. } => Some(class),
            Value::Field { class, name, .. } | Value::Static { class, name } => {
                let (_, field) = self.program.field(class, name)?;
                of_desc(self.program.str(field.desc))
            }
            Value::Call(call) => {
                let desc = self.program.str(body.calls[call as usize].desc);
                of_desc(temblor_classfile::method_types(desc)?.1)
            }
            _ => None,
        }
    }
}

fn scan(program: &Program, graph: &CallGraph, verbs: &Verbs, id: MethodId) -> Scanned {
    let Some(body) = program.body(id) else {
        return (Vec::new(), Vec::new(), Box::default());
    };
    let (mut acts, mut puts, mut edges) = (Vec::new(), Vec::new(), Vec::new());
    for (at, op) in body.ops.iter().enumerate() {
        match op.kind {
            OpKind::Call(call) => {
                let called = &body.calls[call as usize];
                if let Some(meaning) = verbs.of(program, called) {
                    acts.push(Act {
                        method: id,
                        op: at as u32,
                        call,
                        meaning,
                    });
                }
                let targets = graph.targets(id, call);
                let edge = |callee: MethodId, cost| Edge { call, callee, cost };
                let told = targets.told();
                if !told.is_empty() {
                    let cost = 1 + told.len().ilog2() as u8;
                    edges.extend(told.iter().map(|callee| edge(*callee, cost)));
                }
                if targets.external && runs_at_once(program, called) {
                    let closures = closures(program, body, called);
                    edges.extend(closures.into_iter().map(|callee| edge(callee, 1)));
                }
            }
            OpKind::Put {
                class, name, value, ..
            } => {
                let field = (program.field_owner(class, name), name);
                let written = Written {
                    method: id,
                    op: at as u32,
                    value,
                };
                puts.push((field, written));
            }
            _ => {}
        }
    }
    edges.sort_unstable();
    edges.dedup_by_key(|edge| (edge.call, edge.callee));
    (acts, puts, edges.into())
}

fn runs_at_once(program: &Program, call: &Call) -> bool {
    let class = program.str(call.class);
    AT_ONCE.iter().any(|prefix| class.starts_with(prefix))
        && (!class.starts_with(NOT_AT_ONCE) || class.starts_with(BUT_AT_ONCE))
}

/// The bodies of the closures that are handed to a call.
pub fn closures(program: &Program, body: &Body, call: &Call) -> Vec<MethodId> {
    let args = body.args(call).iter();
    args.filter_map(|arg| match body.value(body.uncast(*arg)) {
        Value::Closure(at) => calls::closure_body(program, &body.closures[at as usize]),
        _ => None,
    })
    .collect()
}
