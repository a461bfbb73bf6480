//! Insert-only rewriting: constants are appended, chosen `Code` attributes are replaced (code, a row
//! and a frame may be added to them), and every other byte is copied as it is. A method that cannot
//! take its inserts stays byte-identical.

mod attributes;
mod layout;
mod leaving;
mod method;
mod peek;
#[cfg(test)]
mod tests;

use crate::attribute::find;
use crate::class::ClassFile;
use crate::descriptor::method_slots;
use crate::error::{EditError, ReadError};
use crate::opcode::*;
use crate::pool_writer::PoolWriter;
use layout::Layout;
use leaving::{Leaving, Tail};
pub use peek::Peek;

/// A static method that inserted code may call; made by [`ClassEdit::static_method`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticMethod {
    index: u16,
    arguments: u16,
    result: u16,
}

/// One instruction to insert. There are no jumps: straight-line code needs no stack map frames, so
/// all branching belongs into the called method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    PushInt(i32),
    InvokeStatic(StaticMethod),
    /// Loads a reference from a local variable (0 is `this`).
    LoadRef(u16),
    LoadInt(u16),
    LoadLong(u16),
    /// Copies the one-slot value on top of the stack, which may be the method's own.
    Dup,
    Pop,
    Pop2,
}

/// Why a method was left as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    #[error("the jump at pc {pc} would be too far")]
    BranchTooFar { pc: u16 },
    #[error("the code would grow to {length} bytes (65535 at most)")]
    CodeTooLong { length: usize },
    #[error("the operand stack would grow to {depth} slots (65535 at most)")]
    StackTooDeep { depth: usize },
    #[error("its {what} has no room for another row")]
    TableFull { what: &'static str },
    /// The JVM tracks objects for finalisation unless `finalize` is a lone return; a hook in
    /// `Object.finalize` would make every object of the JVM finalisable, and crash its start.
    #[error("an empty finalize method must stay empty")]
    EmptyFinalizer,
    /// HotSpot's first compiler takes its own code for some methods of the JDK instead of parsing
    /// theirs, and crashes over an exception handler that it then never saw.
    #[error("the JVM's compiler has its own code for it and cannot take a handler there")]
    Intrinsic,
    #[error("its code is malformed: {0}")]
    Malformed(#[from] ReadError),
}

/// A method that stayed byte-identical although inserts were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub method: usize,
    pub name: String,
    pub descriptor: String,
    pub reason: SkipReason,
}

/// The new class.
#[derive(Debug, Clone)]
pub struct Edited {
    pub bytes: Vec<u8>,
    pub skipped: Vec<Skipped>,
    /// Inserts that are in `bytes`; code for leaving a method counts as one.
    pub inserted: usize,
}

/// Inserted code: `code` indexes the edit's buffer.
#[derive(Debug, Clone)]
pub(crate) struct Insertion {
    method: usize,
    pc: u16,
    code: std::ops::Range<usize>,
    stack: u16,
}

/// Balanced code in the edit's buffer.
struct Written {
    code: std::ops::Range<usize>,
    /// Slots it needs on top of what is there.
    stack: u16,
    /// It uses a value that was on the stack before.
    reads_below: bool,
}

/// Collects inserts for one class.
#[derive(Debug)]
pub struct ClassEdit<'c, 'a> {
    class: &'c ClassFile<'a>,
    pool: PoolWriter,
    code: Vec<u8>,
    insertions: Vec<Insertion>,
    leavings: Vec<Leaving>,
}

impl<'c, 'a> ClassEdit<'c, 'a> {
    pub fn new(class: &'c ClassFile<'a>) -> Self {
        let pool = PoolWriter::starting_at(class.pool().count());
        ClassEdit {
            class,
            pool,
            code: Vec::new(),
            insertions: Vec::new(),
            leavings: Vec::new(),
        }
    }

    /// Names a static method (of a class, not of an interface) for [`Op::InvokeStatic`].
    pub fn static_method(
        &mut self,
        class: &str,
        name: &str,
        descriptor: &str,
    ) -> Result<StaticMethod, EditError> {
        let (arguments, result) =
            method_slots(descriptor.as_bytes()).ok_or_else(|| EditError::Descriptor {
                descriptor: descriptor.to_owned(),
            })?;
        let index = self.pool.method(class, name, descriptor)?;
        Ok(StaticMethod {
            index,
            arguments,
            result,
        })
    }

    /// Inserts `ops` just before the instruction at `pc`: whoever jumps to `pc` runs them, and they
    /// lie in the same try ranges as the instruction. Several inserts at one pc keep their order.
    pub fn insert(&mut self, method: usize, pc: u16, ops: &[Op]) -> Result<(), EditError> {
        self.check_method(method)?;
        let written = self.write(ops)?;
        self.insertions.push(Insertion {
            method,
            pc,
            code: written.code,
            stack: written.stack,
        });
        Ok(())
    }

    /// Writes balanced code into the buffer.
    fn write(&mut self, ops: &[Op]) -> Result<Written, EditError> {
        let start = self.code.len();
        let (mut height, mut highest, mut lowest) = (0i32, 0i32, 0i32);
        for op in ops {
            let (pops, pushes) = self.emit(*op)?;
            let reads = if *op == Op::Dup { 1 } else { pops };
            lowest = lowest.min(height - reads);
            height += pushes - pops;
            highest = highest.max(height);
        }
        if height != 0 {
            return Err(EditError::Unbalanced { height });
        }
        Ok(Written {
            code: start..self.code.len(),
            stack: u16::try_from(highest).unwrap_or(u16::MAX),
            reads_below: lowest < 0,
        })
    }

    fn check_method(&self, method: usize) -> Result<(), EditError> {
        let count = self.class.methods().len();
        if method < count {
            return Ok(());
        }
        Err(EditError::NoSuchMethod { method, count })
    }

    /// Writes the instruction; gives the slots it pops and pushes.
    fn emit(&mut self, op: Op) -> Result<(i32, i32), EditError> {
        Ok(match op {
            Op::PushInt(value) => {
                push_int(&mut self.code, &mut self.pool, value)?;
                (0, 1)
            }
            Op::InvokeStatic(method) => {
                self.code.push(INVOKESTATIC);
                self.code.extend(method.index.to_be_bytes());
                (i32::from(method.arguments), i32::from(method.result))
            }
            Op::LoadRef(local) => {
                load(&mut self.code, ALOAD, ALOAD_0, local);
                (0, 1)
            }
            Op::LoadInt(local) => {
                load(&mut self.code, ILOAD, ILOAD_0, local);
                (0, 1)
            }
            Op::LoadLong(local) => {
                load(&mut self.code, LLOAD, LLOAD_0, local);
                (0, 2)
            }
            Op::Dup => {
                self.code.push(DUP);
                (0, 1)
            }
            Op::Pop => {
                self.code.push(POP);
                (1, 0)
            }
            Op::Pop2 => {
                self.code.push(POP2);
                (2, 0)
            }
        })
    }

    /// The edited class. Without inserts it is byte-identical to the original.
    pub fn finish(mut self) -> Result<Edited, EditError> {
        self.insertions
            .sort_by_key(|insertion| (insertion.method, insertion.pc));
        self.leavings.sort_by_key(|leaving| leaving.method);
        let inserted_into = self.insertions.iter().map(|insertion| insertion.method);
        let mut methods: Vec<usize> = inserted_into
            .chain(self.leavings.iter().map(|leaving| leaving.method))
            .collect();
        methods.sort_unstable();
        methods.dedup();
        let mut replaced = Vec::new();
        let mut skipped = Vec::new();
        let mut inserted = 0;
        let mut layout = Layout::default();
        for index in methods {
            let insertions = of_method(&self.insertions, index, |insertion| insertion.method);
            let leavings = of_method(&self.leavings, index, |leaving| leaving.method);
            match self.edit_method(index, insertions, leavings, &mut layout)? {
                Ok(replacement) => {
                    inserted += insertions.len() + leavings.len();
                    replaced.push(replacement);
                }
                Err(reason) => {
                    let method = &self.class.methods()[index];
                    skipped.push(Skipped {
                        method: index,
                        name: method.name.to_string(),
                        descriptor: method.descriptor.to_string(),
                        reason,
                    });
                }
            }
        }
        let bytes = self.assemble(&replaced);
        Ok(Edited {
            bytes,
            skipped,
            inserted,
        })
    }

    /// The method's new `Code` content, or why it must stay as it is.
    fn edit_method(
        &self,
        method: usize,
        insertions: &[Insertion],
        leavings: &[Leaving],
        layout: &mut Layout,
    ) -> Result<Result<Replacement, SkipReason>, EditError> {
        let member = &self.class.methods()[method];
        let pc = insertions.first().map_or(0, |insertion| insertion.pc);
        let Some(attribute) = find(self.class.attributes_of(member), "Code") else {
            return Err(EditError::NoInstruction { method, pc });
        };
        let content = match self.class.code(member) {
            Ok(Some(code))
                if code.bytes() == [RETURN]
                    && member.name == "finalize"
                    && member.descriptor == "()V"
                    && (!leavings.is_empty()
                        || insertions.iter().any(|insert| !insert.code.is_empty())) =>
            {
                Err(SkipReason::EmptyFinalizer)
            }
            Ok(Some(_))
                if !leavings.is_empty() && leaving::is_intrinsic(self.class.name, member.name) =>
            {
                Err(SkipReason::Intrinsic)
            }
            Ok(Some(code)) => match Tail::new(leavings, &self.code) {
                None => method::rewrite(&code, insertions, None, &self.code, layout),
                Some(tail) => leaving::before_returns(&code, insertions, leavings)
                    .map_err(SkipReason::from)
                    .and_then(|all| method::rewrite(&code, &all, Some(&tail), &self.code, layout)),
            },
            Ok(None) => return Err(EditError::NoInstruction { method, pc }),
            Err(error) => Err(SkipReason::Malformed(error)),
        };
        if let Some(pc) = layout.missed.take() {
            return Err(EditError::NoInstruction { method, pc });
        }
        Ok(content.map(|content| Replacement {
            start: attribute.offset,
            end: attribute.offset + attribute.content.len(),
            content,
        }))
    }

    fn assemble(&self, replaced: &[Replacement]) -> Vec<u8> {
        let class = self.class.bytes();
        if replaced.is_empty() {
            return class.to_vec();
        }
        let grown: usize = replaced.iter().map(|r| r.content.len()).sum();
        let mut out = Vec::with_capacity(class.len() + self.pool.bytes().len() + grown);
        let pool_end = self.class.pool().end();
        out.extend_from_slice(&class[..8]);
        out.extend(self.pool.count().to_be_bytes());
        out.extend_from_slice(&class[10..pool_end]);
        out.extend_from_slice(self.pool.bytes());
        let mut copied = pool_end;
        for Replacement {
            start,
            end,
            content,
        } in replaced
        {
            // The attribute's length stands in the four bytes before its content.
            out.extend_from_slice(&class[copied..start - 4]);
            out.extend((content.len() as u32).to_be_bytes());
            out.extend_from_slice(content);
            copied = *end;
        }
        out.extend_from_slice(&class[copied..]);
        out
    }
}

/// Those of one method, out of items sorted by method.
fn of_method<T>(items: &[T], method: usize, method_of: impl Fn(&T) -> usize) -> &[T] {
    let start = items.partition_point(|item| method_of(item) < method);
    let end = items.partition_point(|item| method_of(item) <= method);
    &items[start..end]
}

/// New content for the `Code` attribute whose content is `start..end` in the class.
struct Replacement {
    start: usize,
    end: usize,
    content: Vec<u8>,
}

/// The shortest instruction that pushes `value`.
pub(crate) fn push_int(
    code: &mut Vec<u8>,
    pool: &mut PoolWriter,
    value: i32,
) -> Result<(), EditError> {
    if (-1..=5).contains(&value) {
        code.push((i32::from(ICONST_0) + value) as u8);
    } else if let Ok(byte) = i8::try_from(value) {
        code.extend([BIPUSH, byte as u8]);
    } else if let Ok(short) = i16::try_from(value) {
        code.push(SIPUSH);
        code.extend(short.to_be_bytes());
    } else {
        push_constant(code, pool.integer(value)?);
    }
    Ok(())
}

/// `ldc` or `ldc_w` of a one-slot constant.
pub(crate) fn push_constant(code: &mut Vec<u8>, index: u16) {
    match u8::try_from(index) {
        Ok(index) => code.extend([LDC, index]),
        Err(_) => {
            code.push(LDC_W);
            code.extend(index.to_be_bytes());
        }
    }
}

/// The shortest load of a local variable; `short` is the opcode's `_0` form.
pub(crate) fn load(code: &mut Vec<u8>, long: u8, short: u8, local: u16) {
    match (local, u8::try_from(local)) {
        (0..=3, _) => code.push(short + local as u8),
        (_, Ok(local)) => code.extend([long, local]),
        _ => {
            code.extend([WIDE, long]);
            code.extend(local.to_be_bytes());
        }
    }
}
