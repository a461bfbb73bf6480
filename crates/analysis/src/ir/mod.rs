//! The program model of one class: methods as values and operations in basic blocks.
//!
//! Bytecode works on a stack and on numbered locals. [`build`] runs it once with symbols in place
//! of values, so that each operation names where its operands come from: a parameter, a field, the
//! result of a call, or several of these where paths meet ([`Value::Phi`]).
//!
//! - [`build`]: class bytes to [`Class`]; one broken method costs that method its body only.
//! - [`frame`]: the symbolic stack and locals.
//! - [`cfg`]: basic blocks and their edges.
//! - [`dominance`]: dominators, post-dominators and control dependence over any graph.
//! - [`rename`]: from the names of one source to the names of the whole program.
//! - [`text`]: values as a reader would write them.

pub mod build;
pub mod cfg;
pub mod dominance;
#[cfg(test)]
mod dominance_check;
mod execute;
mod frame;
mod rename;
pub mod text;

use serde::{Deserialize, Serialize};
use temblor_classfile::InvokeKind;

/// An interned name: of a class (internal, with slashes), a member, a descriptor, a text.
pub type Sym = lasso::Spur;

/// A class as the analysis sees it. Classes outside the target have no bodies.
#[derive(Debug, Serialize, Deserialize)]
pub struct Class {
    pub name: Sym,
    pub super_name: Option<Sym>,
    pub interfaces: Box<[Sym]>,
    pub access: u16,
    /// Of the bytes it was read from.
    pub hash: u64,
    pub fields: Box<[Field]>,
    pub methods: Box<[Method]>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Field {
    pub name: Sym,
    pub desc: Sym,
    pub access: u16,
    /// It has a value at compile time.
    pub constant: bool,
    /// Its generic type, where it has one.
    pub signature: Option<Sym>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Method {
    pub name: Sym,
    pub desc: Sym,
    pub access: u16,
    /// Declared exceptions.
    pub exceptions: Box<[Sym]>,
    /// It carries an annotation that is there at run time.
    pub annotated: bool,
    pub body: Option<Box<Body>>,
    /// Where the basic blocks for coverage start.
    pub coverage: Box<[u16]>,
    /// Bytes of code.
    pub code_len: u32,
}

/// A value: an index into [`Body::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Val(pub u32);

impl Val {
    /// No value: the second half of a long or double, an absent receiver or result.
    pub const NONE: Val = Val(u32::MAX);

    pub fn is_none(self) -> bool {
        self == Val::NONE
    }

    pub fn some(self) -> Option<Val> {
        (!self.is_none()).then_some(self)
    }
}

/// A slice of [`Body::lists`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    pub start: u32,
    pub len: u32,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// By position; 0 is `this` in an instance method. Longs and doubles count once.
    Param(u16),
    Int(i64),
    Text(Sym),
    ClassConst(Sym),
    Null,
    /// A constant nobody asks about: floats, method handles.
    Const,
    New(Sym),
    NewArray,
    /// The result of a call.
    Call(u32),
    /// A lambda or method reference.
    Closure(u32),
    Field {
        object: Val,
        class: Sym,
        name: Sym,
    },
    Static {
        class: Sym,
        name: Sym,
    },
    /// An element of an array.
    Element {
        array: Val,
        index: Val,
    },
    Binary {
        opcode: u8,
        a: Val,
        b: Val,
    },
    /// A conversion, a negation, an array's length.
    Unary {
        opcode: u8,
        a: Val,
    },
    Cast {
        a: Val,
        class: Sym,
    },
    InstanceOf {
        a: Val,
        class: Sym,
    },
    /// The exception a handler caught; the handler's block.
    Caught(u32),
    /// Different values, depending on the path.
    Phi(List),
    Unknown,
}

/// How the reader's kind of a call is stored: that crate knows no stored formats.
#[derive(Serialize, Deserialize)]
#[serde(remote = "InvokeKind")]
enum StoredKind {
    Virtual,
    Special,
    Static,
    Interface,
    Dynamic,
}

/// A call of a method.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Call {
    #[serde(with = "StoredKind")]
    pub kind: InvokeKind,
    pub class: Sym,
    pub name: Sym,
    pub desc: Sym,
    /// Receiver first, unless static.
    pub args: List,
    pub result: Val,
}

/// A call site made by the lambda machinery: an object whose one method is `target`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Closure {
    /// The functional interface, and its method.
    pub interface: Sym,
    pub method: Sym,
    pub target: Target,
    /// Captured values: the first parameters of the target.
    pub captured: List,
}

/// The body of a closure.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Target {
    pub class: Sym,
    pub name: Sym,
    pub desc: Sym,
    /// JVMS table 5.4.3.5-A: 5 virtual, 6 static, 7 special, 8 constructor, 9 interface.
    pub kind: u8,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum OpKind {
    /// Index into [`Body::calls`].
    Call(u32),
    /// Index into [`Body::closures`].
    Closure(u32),
    /// A read of a field, static or not; the value it gives.
    Get(Val),
    /// A write of a field; the object is none for a static one.
    Put {
        object: Val,
        class: Sym,
        name: Sym,
        value: Val,
    },
    ArrayStore {
        array: Val,
        value: Val,
    },
    Throw(Val),
    Return(Val),
    Enter(Val),
    Exit(Val),
    /// A comparison of longs, floats or doubles; the value it gives.
    Compare(Val),
    /// An addition or a subtraction of longs: where a deadline is made; the value it gives.
    Sum(Val),
    /// A conditional jump: the opcode, and what is compared; `b` is none against 0 or null.
    Branch {
        opcode: u8,
        a: Val,
        b: Val,
    },
    Switch(Val),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Op {
    pub pc: u16,
    pub kind: OpKind,
}

/// Straight-line code under one set of exception handlers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Block {
    /// First pc and the pc after the last instruction.
    pub start: u16,
    pub end: u16,
    /// Its operations in [`Body::ops`].
    pub first_op: u32,
    pub last_op: u32,
    /// Where it can go. After a branch: first where it jumps, then where it falls through. After
    /// a switch: one for each of [`Block::cases`], then the default.
    pub next: Box<[u32]>,
    /// Labels of a switch.
    pub cases: Box<[i32]>,
    /// Handlers that can get an exception of it, innermost first; no type catches all.
    pub handlers: Box<[(u32, Option<Sym>)]>,
    pub reachable: bool,
    /// A variable gets a value in it that is more than a cast of another.
    pub assigns: bool,
}

/// The code of a method.
#[derive(Debug, Serialize, Deserialize)]
pub struct Body {
    pub values: Box<[Value]>,
    pub lists: Box<[Val]>,
    pub ops: Box<[Op]>,
    pub calls: Box<[Call]>,
    pub closures: Box<[Closure]>,
    pub blocks: Box<[Block]>,
    /// First pc of a line, the line; ascending.
    pub lines: Box<[(u16, u16)]>,
    /// Names of variables that values were stored to; sorted.
    pub names: Box<[(Val, Sym)]>,
    /// How many parameters, `this` included.
    pub params: u16,
    /// Where the paths of a phi meet: the phi, the block; sorted.
    pub phis: Box<[(Val, u32)]>,
    /// Constants that reach a phi: the phi, the block they come from, the constant; sorted.
    pub constants: Box<[(Val, u32, Val)]>,
}

impl Body {
    pub fn value(&self, val: Val) -> Value {
        match self.values.get(val.0 as usize) {
            Some(value) => *value,
            None => Value::Unknown,
        }
    }

    pub fn list(&self, list: List) -> &[Val] {
        &self.lists[list.start as usize..(list.start + list.len) as usize]
    }

    pub fn args(&self, call: &Call) -> &[Val] {
        self.list(call.args)
    }

    /// The receiver of a call, if it has one.
    pub fn receiver(&self, call: &Call) -> Option<Val> {
        match call.kind {
            InvokeKind::Static | InvokeKind::Dynamic => None,
            _ => self.args(call).first().copied(),
        }
    }

    pub fn line(&self, pc: u16) -> Option<u32> {
        let after = self.lines.partition_point(|(start, _)| *start <= pc);
        Some(u32::from(self.lines[after.checked_sub(1)?].1))
    }

    pub fn ops_of(&self, block: &Block) -> &[Op] {
        &self.ops[block.first_op as usize..block.last_op as usize]
    }

    /// The block an instruction is in.
    pub fn block_at(&self, pc: u16) -> usize {
        let after = self.blocks.partition_point(|b| b.start <= pc);
        after.saturating_sub(1)
    }

    /// The block where the paths of a phi meet.
    pub fn phi_block(&self, phi: Val) -> Option<u32> {
        let at = self.phis.binary_search_by_key(&phi, |(p, _)| *p).ok()?;
        Some(self.phis[at].1)
    }

    /// Constants that reach a phi, and the blocks they come from.
    pub fn constants_of(&self, phi: Val) -> &[(Val, u32, Val)] {
        let first = self.constants.partition_point(|c| c.0 < phi);
        let last = self.constants.partition_point(|c| c.0 <= phi);
        &self.constants[first..last]
    }

    /// The value behind casts.
    pub fn uncast(&self, val: Val) -> Val {
        let mut at = val;
        // Bounded by the number of values: casts do not form cycles but through phis.
        while let Value::Cast { a, .. } = self.value(at) {
            at = a;
        }
        at
    }
}
