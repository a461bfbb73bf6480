//! The call graph: what each call can reach.
//!
//! Class hierarchy analysis, sharpened by the types that are created anywhere in the target. Where
//! none of the possible types is ever created (reflection makes them), all of them count. Starting
//! a thread or handing a closure to an executor is no call.

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use temblor_classfile::{InvokeKind, access};

use crate::ir::{Body, Call, Closure, OpKind, Sym, Value};
use crate::program::{ClassId, Declared, MethodId, Program};

/// A call through a type outside the target that more own methods than this could answer tells
/// nothing about who does: `Runnable.run`, `Iterator.next`.
const MAX_FOREIGN_TARGETS: usize = 12;

/// What a call can reach.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// What the call names.
    pub resolved: Option<Declared>,
    /// Own methods with a body that may run.
    pub own: Box<[MethodId]>,
    /// Code outside the target may run too, or instead.
    pub external: bool,
    /// Methods outside the target that are referred to as implementations: `out::flush`.
    pub references: Box<[Declared]>,
    /// The call is dispatched on the receiver through an abstract method.
    pub is_abstract: bool,
}

/// A call that more own methods than this could answer tells nothing about who does.
const MAX_TOLD: usize = 20;

impl Targets {
    /// Own methods that may run, where the call tells which.
    pub fn told(&self) -> &[MethodId] {
        match self.own.len() <= MAX_TOLD {
            true => &self.own,
            false => &[],
        }
    }
}

/// One call of one method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallSite {
    pub method: MethodId,
    /// Index into the body's calls.
    pub call: u32,
}

/// Who calls whom.
pub struct CallGraph {
    targets: Vec<Targets>,
    /// For each own method and each of its calls, an index into `targets`.
    of_method: Vec<Box<[u32]>>,
    /// Calls that may run a method.
    pub callers: Vec<Vec<CallSite>>,
    /// Methods that are the body of a closure, and where each closure is made.
    pub closures: FxHashMap<MethodId, Vec<(MethodId, u32)>>,
}

type Key = (InvokeKind, Sym, Sym, Sym);

impl CallGraph {
    pub fn new(program: &Program) -> CallGraph {
        let created = created(program);
        let closures = Closures::new(program);
        let keys: FxHashSet<Key> = program
            .method_ids()
            .filter_map(|id| program.body(id))
            .flat_map(|body| body.calls.iter().map(key))
            .collect();
        let keys: Vec<Key> = keys.into_iter().collect();
        let mut targets: Vec<Targets> = keys
            .par_iter()
            .map(|key| targets(program, &created, &closures, *key))
            .collect();
        let index: FxHashMap<Key, u32> = keys.iter().copied().zip(0..).collect();
        let mut sharpened: FxHashMap<(u32, Receiver), u32> = FxHashMap::default();
        let mut of_method: Vec<Box<[u32]>> = Vec::with_capacity(program.method_count());
        for id in program.method_ids() {
            let calls = program.body(id).map_or(&[][..], |body| &body.calls);
            let mut of_call = |call: &Call| {
                let general = index[&key(call)];
                let body = program.body(id)?;
                let receiver = Receiver::of(program, body, call)?;
                if targets[general as usize].own.is_empty() {
                    return Some(general);
                }
                Some(*sharpened.entry((general, receiver)).or_insert_with(|| {
                    let sharp = receiver.sharpen(program, call, &targets[general as usize]);
                    targets.push(sharp);
                    targets.len() as u32 - 1
                }))
            };
            let indexes = calls.iter().map(|c| of_call(c).unwrap_or(index[&key(c)]));
            of_method.push(indexes.collect());
        }
        let mut callers = vec![Vec::new(); program.method_count()];
        for (method, calls) in of_method.iter().enumerate() {
            let method = MethodId(method as u32);
            for (call, target) in calls.iter().enumerate() {
                let call = call as u32;
                for callee in &targets[*target as usize].own {
                    callers[callee.0 as usize].push(CallSite { method, call });
                }
            }
        }
        CallGraph {
            targets,
            of_method,
            callers,
            closures: closures.made_at,
        }
    }

    pub fn targets(&self, method: MethodId, call: u32) -> &Targets {
        &self.targets[self.of_method[method.0 as usize][call as usize] as usize]
    }

    /// For each call of a method, which of the [`CallGraph::shared`] targets it has.
    pub fn shared_by(&self, method: MethodId) -> &[u32] {
        &self.of_method[method.0 as usize]
    }

    /// Targets, each once for all the calls that have the same.
    pub fn shared(&self) -> &[Targets] {
        &self.targets
    }
}

/// What is known of the object that a call is made on, beyond its declared type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Receiver {
    /// It was created right here.
    Exactly(Sym),
    /// A library made it: the iterator of a collection of the JDK.
    Foreign,
}

/// What collections of the JDK give are objects of the JDK.
const MADE_BY_COLLECTIONS: &[&str] = &[
    "iterator",
    "listIterator",
    "descendingIterator",
    "entrySet",
    "keySet",
    "values",
];

impl Receiver {
    fn of(program: &Program, body: &Body, call: &Call) -> Option<Receiver> {
        if !matches!(call.kind, InvokeKind::Virtual | InvokeKind::Interface) {
            return None;
        }
        let is_foreign = |class: Sym| {
            program
                .class_named(class)
                .is_none_or(|c| !program.is_own(c))
        };
        // A thread is started, whatever its class overrides.
        if program.str(call.class) == "java/lang/Thread" && program.str(call.name) == "start" {
            return Some(Receiver::Foreign);
        }
        match body.value(body.uncast(body.receiver(call)?)) {
            Value::New(class) if is_foreign(class) => Some(Receiver::Foreign),
            Value::New(class) => Some(Receiver::Exactly(class)),
            Value::Call(maker) => {
                let maker = &body.calls[maker as usize];
                let by_collection = program.str(maker.class).starts_with("java/util/")
                    && MADE_BY_COLLECTIONS.contains(&program.str(maker.name));
                by_collection.then_some(Receiver::Foreign)
            }
            _ => None,
        }
    }

    fn sharpen(self, program: &Program, call: &Call, general: &Targets) -> Targets {
        let exact = match self {
            Receiver::Foreign => None,
            Receiver::Exactly(class) => program
                .class_named(class)
                .and_then(|class| program.resolve(class, call.name, call.desc))
                .and_then(|declared| program.own_method(declared)),
        };
        let own = general.own.iter().copied();
        Targets {
            own: own.filter(|id| Some(*id) == exact).collect(),
            ..general.clone()
        }
    }
}

fn key(call: &Call) -> Key {
    (call.kind, call.class, call.name, call.desc)
}

/// Closures by the interface they implement, and where they are made.
struct Closures {
    /// Interface class, its method's name, the body.
    by_interface: FxHashMap<(Sym, Sym), Vec<MethodId>>,
    /// The same for bodies outside the target.
    references: FxHashMap<(Sym, Sym), Vec<Declared>>,
    made_at: FxHashMap<MethodId, Vec<(MethodId, u32)>>,
}

impl Closures {
    fn new(program: &Program) -> Closures {
        let mut by_interface: FxHashMap<(Sym, Sym), Vec<MethodId>> = FxHashMap::default();
        let mut references: FxHashMap<(Sym, Sym), Vec<Declared>> = FxHashMap::default();
        let mut made_at: FxHashMap<MethodId, Vec<(MethodId, u32)>> = FxHashMap::default();
        for id in program.method_ids() {
            let Some(body) = program.body(id) else {
                continue;
            };
            for (i, closure) in body.closures.iter().enumerate() {
                let key = (closure.interface, closure.method);
                if let Some(target) = closure_body(program, closure) {
                    let made = made_at.entry(target).or_default();
                    made.push((id, i as u32));
                    by_interface.entry(key).or_default().push(target);
                } else if let Some(declared) = closure_target(program, closure)
                    && !program.is_own(declared.class)
                {
                    references.entry(key).or_default().push(declared);
                }
            }
        }
        Closures {
            by_interface,
            references,
            made_at,
        }
    }
}

/// The method that a closure runs.
fn closure_target(program: &Program, closure: &Closure) -> Option<Declared> {
    let target = &closure.target;
    let class = program.class_named(target.class)?;
    program.resolve(class, target.name, target.desc)
}

/// The own method that a closure runs.
pub fn closure_body(program: &Program, closure: &Closure) -> Option<MethodId> {
    let id = program.own_method(closure_target(program, closure)?)?;
    program.body(id).is_some().then_some(id)
}

fn created(program: &Program) -> FxHashSet<ClassId> {
    let mut out = FxHashSet::default();
    for id in program.method_ids() {
        let Some(body) = program.body(id) else {
            continue;
        };
        for value in &body.values {
            if let Value::New(class) = value {
                out.extend(program.class_named(*class).filter(|c| program.is_own(*c)));
            }
        }
        // A reference to a constructor creates too.
        for closure in body.closures.iter().filter(|c| c.target.kind == 8) {
            out.extend(program.class_named(closure.target.class));
        }
        // A class constant is what reflection starts from.
        for op in &body.ops {
            if let OpKind::Call(call) = op.kind {
                for arg in body.args(&body.calls[call as usize]) {
                    if let Value::ClassConst(class) = body.value(*arg) {
                        out.extend(program.class_named(class).filter(|c| program.is_own(*c)));
                    }
                }
            }
        }
    }
    out
}

fn targets(
    program: &Program,
    created: &FxHashSet<ClassId>,
    closures: &Closures,
    (kind, class, name, desc): Key,
) -> Targets {
    let Some(class) = program.class_named(class) else {
        // A class nobody has: an array's clone, an opaque invokedynamic, or a missing jar.
        return Targets {
            external: true,
            ..Targets::default()
        };
    };
    let Some(resolved) = program.resolve(class, name, desc) else {
        return Targets {
            external: true,
            ..Targets::default()
        };
    };
    let method = program.declared(resolved);
    let is_own = program.is_own(resolved.class);
    let is_abstract = method.access & access::ABSTRACT != 0;
    let dispatched = matches!(kind, InvokeKind::Virtual | InvokeKind::Interface)
        && method.access & (access::PRIVATE | access::FINAL | access::STATIC) == 0;
    let with_body = |declared: Declared| {
        let id = program.own_method(declared)?;
        program.body(id).is_some().then_some(id)
    };
    let is_native = method.access & access::NATIVE != 0;
    if !dispatched {
        return Targets {
            resolved: Some(resolved),
            own: with_body(resolved).into_iter().collect(),
            external: !is_own || is_native,
            ..Targets::default()
        };
    }
    // Everything overrides what Object has: that tells nothing.
    let of_object = program.str(program.class(resolved.class).name) == "java/lang/Object";
    let mut own = match of_object {
        true => Vec::new(),
        false => implementations(program, created, class, name, desc),
    };
    for ((interface, method), bodies) in &closures.by_interface {
        if *method == name && program.is_subtype_named(*interface, program.class(class).name) {
            own.extend(bodies.iter().copied());
        }
    }
    // Only own interfaces: what implements `Runnable` is not known by its name.
    let key = (program.class(class).name, name);
    let references = closures.references.get(&key).filter(|_| is_own);
    own.sort_unstable();
    own.dedup();
    if !is_own && own.len() > MAX_FOREIGN_TARGETS {
        own.clear();
    }
    let references: Box<[Declared]> = references.map_or(Box::default(), |r| r.as_slice().into());
    let nobody = own.is_empty() && references.is_empty();
    let external = !is_own || is_native || (is_abstract && nobody);
    Targets {
        resolved: Some(resolved),
        own: own.into(),
        references,
        external,
        is_abstract,
    }
}

fn implementations(
    program: &Program,
    created: &FxHashSet<ClassId>,
    class: ClassId,
    name: Sym,
    desc: Sym,
) -> Vec<MethodId> {
    let mut sure = Vec::new();
    let mut possible = Vec::new();
    for sub in program.all_subtypes(class) {
        let is_concrete = program.class(sub).access & (access::ABSTRACT | access::INTERFACE) == 0;
        if !is_concrete || !program.is_own(sub) {
            continue;
        }
        let Some(declared) = program.resolve(sub, name, desc) else {
            continue;
        };
        let Some(id) = program.own_method(declared) else {
            continue;
        };
        if program.body(id).is_some() {
            possible.push(id);
            if created.contains(&sub) {
                sure.push(id);
            }
        }
    }
    match sure.is_empty() {
        true => possible,
        false => sure,
    }
}
