//! What a thread, a future or an executor runs: the own code behind a task.

use rustc_hash::FxHashSet;

use crate::calls;
use crate::ir::{Body, Call, Sym, Val, Value};
use crate::program::MethodId;

use super::path;
use super::scene::Scene;

/// How far a value is followed.
const MAX_DEPTH: u32 = 6;
/// More writes of one field are not looked at.
const MAX_PUTS: usize = 8;

/// The own code that a task runs: a closure, or an object with a method to run.
pub fn of(scene: &Scene<'_>, method: MethodId, val: Val) -> Vec<MethodId> {
    let mut finder = Finder {
        scene,
        seen: FxHashSet::default(),
        found: Vec::new(),
    };
    finder.follow(method, val, 0);
    finder.found.sort_unstable();
    finder.found.dedup();
    finder.found
}

const RUN: &[(&str, &[&str])] = &[
    ("run", &["()V"]),
    ("call", &["()Ljava/lang/Object;"]),
    ("compute", &["()V", "()Ljava/lang/Object;"]),
];

/// The method of a class that a thread or an executor runs.
fn run_method(scene: &Scene<'_>, class: Sym) -> Option<MethodId> {
    let program = scene.program;
    let id = program.class_named(class).filter(|c| program.is_own(*c))?;
    let mut found = RUN.iter().flat_map(|(name, descs)| {
        let name = program.sym(name);
        descs
            .iter()
            .filter_map(move |d| Some((name?, program.sym(d)?)))
    });
    found.find_map(|(name, desc)| {
        let declared = program.resolve(id, name, desc)?;
        let method = program.own_method(declared)?;
        program.body(method).is_some().then_some(method)
    })
}

struct Finder<'f, 's> {
    scene: &'f Scene<'s>,
    seen: FxHashSet<(MethodId, Val)>,
    found: Vec<MethodId>,
}

impl Finder<'_, '_> {
    fn follow(&mut self, method: MethodId, val: Val, depth: u32) {
        let scene = self.scene;
        let Some(body) = scene.body(method) else {
            return;
        };
        let val = body.uncast(val);
        if depth > MAX_DEPTH || !self.seen.insert((method, val)) {
            return;
        }
        match body.value(val) {
            Value::Closure(at) => {
                let closure = &body.closures[at as usize];
                self.found
                    .extend(calls::closure_body(scene.program, closure));
            }
            Value::New(class) => match run_method(scene, class) {
                Some(run) => self.found.push(run),
                None => self.wrapped(method, body, val, depth),
            },
            Value::Phi(list) => {
                for operand in body.list(list) {
                    self.follow(method, *operand, depth + 1);
                }
            }
            Value::Field { class, name, .. } | Value::Static { class, name } => {
                let owner = scene.program.field_owner(class, name);
                for put in scene.puts(owner, name).iter().take(MAX_PUTS) {
                    self.follow(put.method, put.value, depth + 1);
                }
                self.by_type(method, val);
            }
            Value::Param(_) => self.by_type(method, val),
            Value::Call(call) => {
                let call = &body.calls[call as usize];
                self.submitted(method, body, call, depth);
                for stored in stored_in(scene, method, body, val) {
                    self.follow(method, stored, depth + 1);
                }
                self.by_type(method, val);
            }
            _ => {}
        }
    }

    /// The type of a value says what it runs.
    fn by_type(&mut self, method: MethodId, val: Val) {
        let class = self.scene.type_of(method, val);
        self.found
            .extend(class.and_then(|c| run_method(self.scene, c)));
    }

    /// A thread or a future around something else.
    fn wrapped(&mut self, method: MethodId, body: &Body, val: Val, depth: u32) {
        for call in &body.calls {
            let args = body.args(call);
            if self.scene.program.str(call.name) == "<init>" && args.first() == Some(&val) {
                for arg in &args[1..] {
                    self.follow(method, *arg, depth + 1);
                }
            }
        }
    }

    /// What an executor or a thread factory was given.
    fn submitted(&mut self, method: MethodId, body: &Body, call: &Call, depth: u32) {
        let submits = [
            "submit",
            "schedule",
            "supplyAsync",
            "runAsync",
            "invoke",
            "newThread",
        ];
        if submits.contains(&self.scene.program.str(call.name)) {
            let skip = usize::from(body.receiver(call).is_some());
            for arg in body.args(call).iter().skip(skip) {
                self.follow(method, *arg, depth + 1);
            }
        }
    }
}

/// What the method itself put into the collection, or gave to the completion service, that this
/// value was taken out of.
fn stored_in(scene: &Scene<'_>, method: MethodId, body: &Body, val: Val) -> Vec<Val> {
    let mut at = val;
    let mut is_taken = false;
    while let Value::Call(call) = body.value(body.uncast(at)) {
        let call = &body.calls[call as usize];
        let takes = [
            "next", "iterator", "get", "values", "take", "poll", "remove",
        ];
        let (true, Some(receiver)) = (
            takes.contains(&scene.program.str(call.name))
                && scene.program.str(call.class).starts_with("java/util/"),
            body.receiver(call),
        ) else {
            break;
        };
        at = receiver;
        is_taken = true;
    }
    if !is_taken {
        return Vec::new();
    }
    let collection = path::of(scene, method, at);
    let stores = ["add", "put", "offer", "submit", "addLast", "push"];
    let stored = body.calls.iter().filter(|call| {
        let receiver = body.receiver(call);
        stores.contains(&scene.program.str(call.name))
            && receiver.is_some_and(|r| path::of(scene, method, r) == collection)
    });
    let stored = stored.filter_map(|call| match scene.program.str(call.name) {
        // After the task there may be a result to give.
        "submit" => body.args(call).get(1),
        _ => body.args(call).last(),
    });
    stored.copied().collect()
}
