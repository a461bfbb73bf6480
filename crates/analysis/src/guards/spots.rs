//! Which object of the program a value is, across methods: the field that holds it, the map or
//! list in a field it lies in, its own class, or the one place that makes it.

use rustc_hash::FxHashSet;

use crate::ir::{Body, OpKind, Sym, Val, Value};
use crate::program::MethodId;

use super::scene::Scene;

/// How far a value is followed.
const MAX_DEPTH: u32 = 6;

/// Where an object is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Spot {
    /// The class that declares the field, and its name.
    Field(Sym, Sym),
    /// An element of the collection in a field.
    Element(Sym, Sym),
    /// An own class: any object of it.
    Type(Sym),
    Local(MethodId, Val),
}

/// All spots of a value, in order.
pub fn of(scene: &Scene<'_>, method: MethodId, val: Val) -> Vec<Spot> {
    let mut finder = Finder {
        scene,
        seen: FxHashSet::default(),
        spots: Vec::new(),
    };
    finder.value(method, val, 0);
    finder.spots.sort_unstable();
    finder.spots.dedup();
    finder.spots
}

struct Finder<'f, 's> {
    scene: &'f Scene<'s>,
    seen: FxHashSet<(MethodId, Val)>,
    spots: Vec<Spot>,
}

impl Finder<'_, '_> {
    fn value(&mut self, method: MethodId, val: Val, depth: u32) {
        let Some(body) = self.scene.body(method) else {
            return;
        };
        if depth > MAX_DEPTH || !self.seen.insert((method, val)) {
            return;
        }
        self.own_type(method, val);
        match body.value(val) {
            Value::Cast { a, .. } => self.value(method, a, depth),
            Value::Phi(list) => {
                for operand in body.list(list) {
                    self.value(method, *operand, depth + 1);
                }
            }
            Value::Field { class, name, .. } | Value::Static { class, name } => {
                let owner = self.scene.program.field_owner(class, name);
                self.spots.push(Spot::Field(owner, name));
                // What a closure of the older kind captured lies in a field of its own.
                if self.scene.program.str(name).contains("val$") {
                    self.captured_field(owner, name, depth);
                }
            }
            Value::Param(n) => self.parameter(method, n, val, depth),
            Value::Call(call) => {
                self.spots.push(Spot::Local(method, val));
                self.call(method, body, call, depth);
                self.stored(method, body, val);
            }
            Value::New(_) => {
                self.spots.push(Spot::Local(method, val));
                self.stored(method, body, val);
            }
            Value::Element { array: a, .. } => self.element(method, body, a),
            _ => {}
        }
    }

    fn own_type(&mut self, method: MethodId, val: Val) {
        let program = self.scene.program;
        let class = self.scene.type_of(method, val);
        let own = class.filter(|c| program.class_named(*c).is_some_and(|id| program.is_own(id)));
        self.spots.extend(own.map(Spot::Type));
    }

    /// A parameter of a closure's body is what the closure captured.
    fn parameter(&mut self, method: MethodId, n: u16, val: Val, depth: u32) {
        self.spots.push(Spot::Local(method, val));
        let scene = self.scene;
        for (maker, index) in scene.graph.closures.get(&method).into_iter().flatten() {
            let Some(body) = scene.body(*maker) else {
                continue;
            };
            let captured = body.list(body.closures[*index as usize].captured);
            if let Some(captured) = captured.get(usize::from(n)) {
                self.value(*maker, *captured, depth + 1);
            }
        }
    }

    /// Where the object of an anonymous class gets a captured variable from.
    fn captured_field(&mut self, owner: Sym, name: Sym, depth: u32) {
        let scene = self.scene;
        for written in scene.puts(owner, name) {
            let Some(body) = scene.body(written.method) else {
                continue;
            };
            let Value::Param(n) = body.value(written.value) else {
                continue;
            };
            for site in scene.graph.callers[written.method.0 as usize]
                .iter()
                .take(4)
            {
                let Some(body) = scene.body(site.method) else {
                    continue;
                };
                let args = body.args(&body.calls[site.call as usize]);
                if let Some(arg) = args.get(usize::from(n)) {
                    self.value(site.method, *arg, depth + 1);
                }
            }
        }
    }

    /// Something taken out of a collection, or given away by a short method.
    fn call(&mut self, method: MethodId, body: &Body, index: u32, depth: u32) {
        let scene = self.scene;
        let call = &body.calls[index as usize];
        let name = scene.program.str(call.name);
        let takes_out = [
            "get",
            "getOrDefault",
            "computeIfAbsent",
            "putIfAbsent",
            "remove",
        ];
        if takes_out.contains(&name)
            && scene.program.str(call.class).starts_with("java/util/")
            && let Some(collection) = body.receiver(call)
        {
            self.element(method, body, collection);
        }
        let targets = scene.graph.targets(method, index);
        if let ([callee], false) = (&*targets.own, targets.external)
            && let Some(inner) = scene.body(*callee).filter(|b| b.ops.len() <= 4)
        {
            for op in &inner.ops {
                if let OpKind::Return(val) = op.kind
                    && matches!(inner.value(val), Value::Field { .. } | Value::Static { .. })
                {
                    self.value(*callee, val, depth + 1);
                }
            }
        }
    }

    fn element(&mut self, _: MethodId, body: &Body, collection: Val) {
        let collection = body.value(body.uncast(collection));
        if let Value::Field { class, name, .. } | Value::Static { class, name } = collection {
            let owner = self.scene.program.field_owner(class, name);
            self.spots.push(Spot::Element(owner, name));
        }
    }

    /// The field or collection that a value is put into where it is made.
    fn stored(&mut self, method: MethodId, body: &Body, val: Val) {
        for op in &body.ops {
            match op.kind {
                OpKind::Put {
                    class, name, value, ..
                } if body.uncast(value) == val => {
                    let owner = self.scene.program.field_owner(class, name);
                    self.spots.push(Spot::Field(owner, name));
                }
                OpKind::Call(call) => {
                    let call = &body.calls[call as usize];
                    let name = self.scene.program.str(call.name);
                    let stores = matches!(name, "put" | "putIfAbsent" | "add" | "offer");
                    let args = body.args(call);
                    if stores
                        && args.iter().skip(1).any(|arg| body.uncast(*arg) == val)
                        && self.scene.program.str(call.class).starts_with("java/util/")
                    {
                        self.element(method, body, args[0]);
                    }
                }
                _ => {}
            }
        }
    }
}
