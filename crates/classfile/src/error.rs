//! What can be wrong with class bytes: every message says what, where, and (for our callers) what next.

use thiserror::Error;

/// The class bytes do not follow the class-file format.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    #[error("not a class file: it starts with {found:#010x} instead of 0xcafebabe")]
    Magic { found: u32 },
    #[error("class bytes end early: {what} at offset {at} needs {need} bytes, {have} are left")]
    Truncated {
        what: &'static str,
        at: usize,
        need: usize,
        have: usize,
    },
    #[error("{extra} bytes follow the class's last attribute at offset {at}")]
    Trailing { at: usize, extra: usize },
    #[error("constant {index} at offset {at} has the unknown tag {tag}")]
    ConstantTag { index: u16, at: usize, tag: u8 },
    #[error("constant {index} is not {expected}")]
    Constant { index: u16, expected: &'static str },
    #[error("code at offset {at} is {length} bytes long; a method has 1 to 65535")]
    CodeLength { at: usize, length: usize },
    #[error("pc {pc}: {opcode:#04x} is not an instruction")]
    Opcode { pc: u16, opcode: u8 },
    #[error("pc {pc}: the instruction runs past the end of the code")]
    InstructionEnd { pc: u16 },
    #[error("pc {pc}: the switch has impossible bounds")]
    Switch { pc: u16 },
    #[error("{what} refers to pc {pc}, where no instruction starts")]
    Pc { what: &'static str, pc: i64 },
    #[error("attribute {attribute} at offset {at}: {reason}")]
    Attribute {
        attribute: &'static str,
        at: usize,
        reason: &'static str,
    },
}

/// An edit could not be made. The class stays as it was; use the original bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditError {
    #[error(
        "the constant pool is full ({count} entries and {wanted} more); leave this class as it is"
    )]
    PoolFull { count: usize, wanted: usize },
    #[error("the string of {length} bytes does not fit a constant (65535 at most)")]
    StringTooLong { length: usize },
    #[error("{descriptor:?} is not a method descriptor")]
    Descriptor { descriptor: String },
    #[error("the class has {count} methods, there is no method {method}")]
    NoSuchMethod { method: usize, count: usize },
    #[error(
        "method {method} has no instruction at pc {pc}; was the plan made from the same class?"
    )]
    NoInstruction { method: usize, pc: u16 },
    #[error("inserted code must leave the stack as it found it; this one ends at {height:+}")]
    Unbalanced { height: i32 },
    #[error("method {method} cannot take code for when it is left: {reason}")]
    Leaving { method: usize, reason: &'static str },
    #[error("method {method}, pc {pc}: the value cannot be peeked at: {reason}")]
    Peek {
        method: usize,
        pc: u16,
        reason: &'static str,
    },
    #[error("a synthesised {what} is too large: {size}, at most {limit}")]
    TooLarge {
        what: &'static str,
        size: usize,
        limit: usize,
    },
    #[error("a label was jumped to but never bound")]
    UnboundLabel,
    #[error(transparent)]
    Read(#[from] ReadError),
}
