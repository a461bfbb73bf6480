//! What a lock is called inside a method: an access path from something that both the locking
//! and the unlocking can name.

use temblor_classfile::{InvokeKind, access};

use crate::ir::{Body, OpKind, Sym, Val, Value};
use crate::program::MethodId;

use super::scene::Scene;

/// Longer paths are not followed.
const MAX_STEPS: usize = 5;
/// How deep values are followed to the root of a path.
const MAX_DEPTH: u32 = 8;
/// A method that only gives away something it has is this short.
const MAX_GETTER_OPS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Root {
    /// Parameter by position; 0 is `this` in an instance method.
    Param(u16),
    Static(Sym, Sym),
    Class(Sym),
    /// A value of this method that has no other name.
    Val(Val),
    /// As the reader would write it.
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    Field(Sym),
    Call(Sym),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    pub root: Root,
    pub steps: Vec<Step>,
}

impl Path {
    fn root(root: Root) -> Path {
        Path {
            root,
            steps: Vec::new(),
        }
    }

    fn then(mut self, step: Step) -> Option<Path> {
        self.steps.push(step);
        (self.steps.len() <= MAX_STEPS).then_some(self)
    }

    /// Means the same outside the method: it starts at a parameter or something static.
    pub fn is_visible(&self) -> bool {
        !matches!(self.root, Root::Val(_) | Root::Text(_))
    }

    /// Reads well: it has a root with a name, few calls, and nothing a compiler made up.
    pub fn is_clear(&self, scene: &Scene<'_>) -> bool {
        let calls = self.steps.iter().filter(|s| matches!(s, Step::Call(_)));
        let made_up = |step: &Step| match step {
            Step::Field(name) | Step::Call(name) => scene.program.str(*name).contains('$'),
        };
        self.is_visible() && calls.count() <= 2 && !self.steps.iter().any(made_up)
    }

    /// A path of a callee, as the caller writes it.
    pub fn at_call(&self, scene: &Scene<'_>, caller: MethodId, args: &[Val]) -> Option<Path> {
        let Root::Param(n) = self.root else {
            return self.is_visible().then(|| self.clone());
        };
        let arg = *args.get(usize::from(n))?;
        let mut path = of(scene, caller, arg);
        path.steps.extend(&self.steps);
        (path.steps.len() <= MAX_STEPS).then_some(path)
    }

    /// As a reader would write it.
    pub fn text(&self, scene: &Scene<'_>, method: MethodId) -> String {
        let program = scene.program;
        let simple = |class: Sym| {
            let name = program.str(class);
            name.rsplit('/').next().unwrap_or(name).to_string()
        };
        let mut out = match &self.root {
            Root::Param(n) => {
                let param = |body: &Body| {
                    let is = |v: &Value| *v == Value::Param(*n);
                    body.values.iter().position(is).map(|at| Val(at as u32))
                };
                let text = program.text(method);
                let val = text.as_ref().and_then(|t| param(t.body));
                text.zip(val).map_or("…".into(), |(t, v)| t.of(v))
            }
            Root::Static(class, name) => format!("{}.{}", simple(*class), program.str(*name)),
            Root::Class(class) => format!("{}.class", simple(*class)),
            Root::Val(val) => program.text(method).map_or("…".into(), |t| t.of(*val)),
            Root::Text(text) => text.clone(),
        };
        for step in &self.steps {
            match step {
                // The object around an inner class: who it is, the reader knows.
                Step::Field(name) if program.str(*name).starts_with("this$") => {}
                Step::Field(name) => out += &format!(".{}", program.str(*name)),
                Step::Call(name) => out += &format!(".{}()", program.str(*name)),
            }
        }
        out
    }
}

/// The path of a value in a method.
pub fn of(scene: &Scene<'_>, method: MethodId, val: Val) -> Path {
    match scene.program.body(method) {
        Some(body) => path(scene, method, body, val, 0).unwrap_or(Path::root(Root::Val(val))),
        None => Path::root(Root::Val(val)),
    }
}

fn path(scene: &Scene<'_>, method: MethodId, body: &Body, val: Val, depth: u32) -> Option<Path> {
    if depth > MAX_DEPTH {
        return None;
    }
    let val = body.uncast(val);
    let deeper = |val: Val| path(scene, method, body, val, depth + 1);
    match body.value(val) {
        Value::Param(n) => Some(Path::root(Root::Param(n))),
        Value::Static { class, name } => {
            let owner = scene.program.field_owner(class, name);
            Some(Path::root(Root::Static(owner, name)))
        }
        Value::ClassConst(class) => Some(Path::root(Root::Class(class))),
        Value::Field { object, name, .. } => deeper(object)?.then(Step::Field(name)),
        Value::Phi(list) => {
            let mut paths = body.list(list).iter().map(|v| deeper(*v));
            let first = paths.next()??;
            paths.all(|p| p.as_ref() == Some(&first)).then_some(first)
        }
        Value::Call(index) => {
            let call = &body.calls[index as usize];
            let args = body.args(call);
            if let Some(given) = given(scene, method, index, depth) {
                return match given.root {
                    Root::Param(n) => {
                        let mut path = deeper(*args.get(usize::from(n))?)?;
                        path.steps.extend(given.steps);
                        (path.steps.len() <= MAX_STEPS).then_some(path)
                    }
                    _ => Some(given),
                };
            }
            match (call.kind, args) {
                (InvokeKind::Static | InvokeKind::Dynamic, _) => None,
                (_, [receiver]) => deeper(*receiver)?.then(Step::Call(call.name)),
                // The same expression in the same method: as good a name as there is.
                _ => {
                    let text = scene.program.text(method)?.of(val);
                    Some(Path::root(Root::Text(text)))
                }
            }
        }
        _ => None,
    }
}

/// What a short own method gives away, as a path of its own.
fn given(scene: &Scene<'_>, method: MethodId, call: u32, depth: u32) -> Option<Path> {
    let targets = scene.graph.targets(method, call);
    let [callee] = *targets.own else { return None };
    if targets.external || callee == method {
        return None;
    }
    let body = scene.program.body(callee)?;
    if body.ops.len() > MAX_GETTER_OPS {
        return None;
    }
    let mut returns = body.ops.iter().filter_map(|op| match op.kind {
        OpKind::Return(val) => val.some(),
        _ => None,
    });
    let (Some(val), None) = (returns.next(), returns.next()) else {
        return None;
    };
    let path = path(scene, callee, body, val, depth + 2)?;
    path.is_visible().then_some(path)
}

/// The path of what a synchronized method locks.
pub fn of_method(scene: &Scene<'_>, method: MethodId) -> Path {
    let is_static = scene.program.method(method).access & access::STATIC != 0;
    Path::root(match is_static {
        true => Root::Class(scene.class_name(method)),
        false => Root::Param(0),
    })
}
