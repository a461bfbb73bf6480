//! Guards while they are being found: what each of them is, and which calls lie under it.

use temblor_model::catalog::{RegionKind, TimeUnit, TimeoutKind};

use crate::ir::{Body, Call, Val, Value};
use crate::program::MethodId;

use super::flow::Ops;
use super::scene::{Act, Scene};
use super::verbs::Bound;

/// What a guard is.
#[derive(Clone, Debug)]
pub enum What {
    Region {
        kind: RegionKind,
        on: String,
        /// Method and pc.
        waiters: Vec<(MethodId, u16)>,
    },
    Timeout {
        kind: TimeoutKind,
        above: u32,
        wide: bool,
        unit: TimeUnit,
        constant: Option<i64>,
        expression: String,
    },
}

/// A guard, where it stands, and the calls under it; what these call is under it too.
#[derive(Clone, Debug)]
pub struct Draft {
    pub method: MethodId,
    pub pc: u16,
    pub what: What,
    /// What it is on, across methods: of several regions with one lock, the nearest counts.
    pub identity: String,
    /// Method and index of the call.
    pub scope: Vec<(MethodId, u32)>,
    /// Applies to I/O at those calls only, not to what they call.
    pub shallow: bool,
}

impl Draft {
    pub fn region(
        scene: &Scene<'_>,
        (method, op): (MethodId, Option<u32>),
        kind: RegionKind,
        on: String,
    ) -> Draft {
        Draft {
            method,
            pc: op.map_or(0, |op| scene.pc(method, op)),
            identity: format!("{} {on}", scene.program.str(scene.class_name(method))),
            what: What::Region {
                kind,
                on,
                waiters: Vec::new(),
            },
            scope: Vec::new(),
            shallow: false,
        }
    }

    /// The timeout of a call that has one.
    pub fn bounded(scene: &Scene<'_>, act: &Act, kind: TimeoutKind) -> Option<Draft> {
        let (body, call) = scene.call(act)?;
        let bound = act.meaning.bound?;
        let value = bound_of(body, call, bound)?;
        let (above, wide) = slots(scene.program.str(call.desc), bound.parameter)?;
        Some(Draft {
            method: act.method,
            pc: scene.pc(act.method, act.op),
            what: What::Timeout {
                kind,
                above,
                wide,
                unit: bound.unit,
                constant: constant(body, value),
                expression: call_text(scene, act.method, body, call),
            },
            identity: format!("{:?} {}", act.method, act.op),
            scope: Vec::new(),
            shallow: false,
        })
    }

    /// Adds the calls among these operations.
    pub fn cover(&mut self, method: MethodId, body: &Body, ops: &Ops) {
        let covered = body.ops.iter().zip(ops).filter(|(_, covered)| **covered);
        let calls = covered.filter_map(|(op, _)| match op.kind {
            crate::ir::OpKind::Call(call) => Some((method, call)),
            _ => None,
        });
        self.scope.extend(calls);
    }

    /// Adds all calls of a method.
    pub fn cover_all(&mut self, scene: &Scene<'_>, method: MethodId) {
        let count = scene.body(method).map_or(0, |b| b.calls.len() as u32);
        self.scope.extend((0..count).map(|call| (method, call)));
    }
}

/// A call as a reader would write it, whatever its result was stored to.
fn call_text(scene: &Scene<'_>, method: MethodId, body: &Body, call: &Call) -> String {
    let Some(text) = scene.program.text(method) else {
        return String::new();
    };
    let mut args = body.args(call).iter().map(|arg| text.of(*arg));
    let receiver = body.receiver(call).and_then(|_| args.next());
    let args: Vec<String> = args.collect();
    let name = scene.program.str(call.name);
    match receiver.as_deref() {
        None | Some("this") => format!("{name}({})", args.join(", ")),
        Some(receiver) => format!("{receiver}.{name}({})", args.join(", ")),
    }
}

/// The value of a call's bound.
pub fn bound_of(body: &Body, call: &Call, bound: Bound) -> Option<Val> {
    let receiver = usize::from(body.receiver(call).is_some());
    body.args(call).get(bound.parameter + receiver).copied()
}

/// The stack slots above a parameter before its call, and whether it is a long.
fn slots(desc: &str, parameter: usize) -> Option<(u32, bool)> {
    let (types, _) = temblor_classfile::method_types(desc)?;
    let size = |t: &&str| if matches!(*t, "J" | "D") { 2 } else { 1 };
    let above = types.get(parameter + 1..)?.iter().map(size).sum();
    Some((above, *types.get(parameter)? == "J"))
}

/// The constant behind a value, conversions aside.
pub fn constant(body: &Body, val: Val) -> Option<i64> {
    match body.value(val) {
        Value::Int(int) => Some(int),
        // Conversions between int and long.
        Value::Unary {
            opcode: 133 | 136,
            a,
        } => constant(body, a),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::slots;

    #[test]
    fn a_bound_lies_below_what_follows_it() {
        let timed = "(JLjava/util/concurrent/TimeUnit;)Z";
        assert_eq!(slots(timed, 0), Some((1, true)));
        assert_eq!(slots("(J)V", 0), Some((0, true)));
        assert_eq!(slots("(Ljava/net/SocketAddress;I)V", 1), Some((0, false)));
        assert_eq!(slots("(IJD)V", 1), Some((2, true)));
        assert_eq!(slots("(I)V", 3), None);
    }
}
