//! A method's code: instructions, handlers, lines, local variables, frames and basic blocks.

use crate::attribute::{Attribute, find, read_table};
use crate::cursor::{Cursor, u2_at};
use crate::error::ReadError;
use crate::frames::Frames;
use crate::instruction::{Instruction, Instructions};
use crate::mutf8::Utf8;
use crate::pool::ConstantPool;

/// The `Code` attribute.
#[derive(Debug, Clone)]
pub struct Code<'a> {
    pub max_stack: u16,
    pub max_locals: u16,
    bytes: &'a [u8],
    handlers: &'a [u8],
    attributes: Vec<Attribute<'a>>,
}

/// A row of the exception table; `start..end` is the guarded range of pcs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handler {
    pub start: u16,
    pub end: u16,
    pub handler: u16,
    /// Pool index of the caught class; 0 catches all.
    pub catch_index: u16,
}

impl Handler {
    /// The caught class; `None` catches everything (finally).
    pub fn catch_type<'a>(&self, pool: &ConstantPool<'a>) -> Result<Option<Utf8<'a>>, ReadError> {
        pool.optional_class_name(self.catch_index)
    }

    pub fn covers(&self, pc: u16) -> bool {
        self.start <= pc && pc < self.end
    }
}

/// A row of `LocalVariableTable` or `LocalVariableTypeTable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalVariable<'a> {
    pub start: u16,
    pub length: u16,
    pub name: Utf8<'a>,
    /// Descriptor, or generic signature in the type table.
    pub descriptor: Utf8<'a>,
    pub index: u16,
}

/// Which source line a pc belongs to; rows sorted by pc.
#[derive(Debug, Clone, Default)]
pub struct LineTable {
    rows: Vec<(u16, u16)>,
}

impl LineTable {
    /// The line of the last row at or before `pc`, as the JVM's own stack traces have it.
    pub fn line(&self, pc: u16) -> Option<u16> {
        let after = self.rows.partition_point(|row| row.0 <= pc);
        after.checked_sub(1).map(|at| self.rows[at].1)
    }

    /// (pc, line) in order of pc.
    pub fn rows(&self) -> &[(u16, u16)] {
        &self.rows
    }
}

impl<'a> Code<'a> {
    pub(crate) fn read(
        attribute: &Attribute<'a>,
        pool: &ConstantPool<'a>,
    ) -> Result<Self, ReadError> {
        let mut cursor = attribute.cursor();
        let max_stack = cursor.u2("max stack")?;
        let max_locals = cursor.u2("max locals")?;
        let at = cursor.offset();
        let length = cursor.u4("code length")? as usize;
        if length == 0 || length > usize::from(u16::MAX) {
            return Err(ReadError::CodeLength { at, length });
        }
        let bytes = cursor.take(length, "code")?;
        let count = usize::from(cursor.u2("exception table length")?);
        let handlers = cursor.take(8 * count, "exception table")?;
        let mut attributes = Vec::new();
        read_table(&mut cursor, pool, &mut attributes)?;
        if cursor.left() > 0 {
            let reason = "bytes follow its last attribute";
            return Err(ReadError::Attribute {
                attribute: "Code",
                at: cursor.offset(),
                reason,
            });
        }
        Ok(Code {
            max_stack,
            max_locals,
            bytes,
            handlers,
            attributes,
        })
    }

    /// The instructions as they stand in the file.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn attributes(&self) -> &[Attribute<'a>] {
        &self.attributes
    }

    pub fn instructions(&self) -> Instructions<'a> {
        Instructions::new(self.bytes)
    }

    /// The instruction at `pc`; the caller vouches that one starts there.
    pub fn instruction_at(&self, pc: u16) -> Result<Instruction<'a>, ReadError> {
        Instruction::read(self.bytes, usize::from(pc))
    }

    /// The exception table in order of precedence.
    pub fn handlers(&self) -> impl ExactSizeIterator<Item = Handler> + 'a {
        self.handlers.chunks_exact(8).map(|row| {
            let field = |n: usize| u2_at(row, 2 * n).unwrap_or_default();
            Handler {
                start: field(0),
                end: field(1),
                handler: field(2),
                catch_index: field(3),
            }
        })
    }

    /// All line tables merged; empty when the class was compiled without.
    pub fn lines(&self) -> Result<LineTable, ReadError> {
        let mut rows = Vec::new();
        for attribute in self.named("LineNumberTable") {
            for row in rows_of(attribute, 4, "line number table")?.chunks_exact(4) {
                rows.push((u2(row, 0), u2(row, 1)));
            }
        }
        rows.sort_by_key(|row| row.0);
        Ok(LineTable { rows })
    }

    /// The source line of one pc; for many pcs keep `lines()`.
    pub fn line_of(&self, pc: u16) -> Result<Option<u16>, ReadError> {
        Ok(self.lines()?.line(pc))
    }

    pub fn local_variables(
        &self,
        pool: &ConstantPool<'a>,
    ) -> Result<Vec<LocalVariable<'a>>, ReadError> {
        self.variables("LocalVariableTable", pool)
    }

    /// Variables with a generic type; `descriptor` is its signature.
    pub fn local_variable_types(
        &self,
        pool: &ConstantPool<'a>,
    ) -> Result<Vec<LocalVariable<'a>>, ReadError> {
        self.variables("LocalVariableTypeTable", pool)
    }

    fn variables(
        &self,
        name: &'static str,
        pool: &ConstantPool<'a>,
    ) -> Result<Vec<LocalVariable<'a>>, ReadError> {
        let mut variables = Vec::new();
        for attribute in self.named(name) {
            for row in rows_of(attribute, 10, "local variable table")?.chunks_exact(10) {
                variables.push(LocalVariable {
                    start: u2(row, 0),
                    length: u2(row, 1),
                    name: pool.utf8(u2(row, 2))?,
                    descriptor: pool.utf8(u2(row, 3))?,
                    index: u2(row, 4),
                });
            }
        }
        Ok(variables)
    }

    /// The verifier's frames; `None` without a `StackMapTable`.
    pub fn frames(&self) -> Result<Option<Frames<'a>>, ReadError> {
        find(&self.attributes, "StackMapTable")
            .map(Frames::read)
            .transpose()
    }

    fn named(&self, name: &'static str) -> impl Iterator<Item = &Attribute<'a>> {
        self.attributes
            .iter()
            .filter(move |a| a.name.as_bytes() == name.as_bytes())
    }

    /// The pcs at which basic blocks start, ascending: pc 0, jump targets, handlers, and whatever
    /// follows a jump, return or throw. Calls do not end a block.
    pub fn block_starts(&self) -> Result<Vec<u16>, ReadError> {
        let mut starts = vec![false; self.bytes.len()];
        let mut leaders: Vec<u16> = vec![0];
        for instruction in self.instructions() {
            let instruction = instruction?;
            starts[usize::from(instruction.pc)] = true;
            let branches = instruction.is_branch();
            if branches {
                for target in instruction.targets() {
                    leaders.push(target?);
                }
            }
            let ends = branches || !instruction.falls_through();
            if ends && instruction.next_pc() < self.bytes.len() {
                leaders.push(instruction.next_pc() as u16);
            }
        }
        leaders.extend(self.handlers().map(|handler| handler.handler));
        leaders.sort_unstable();
        leaders.dedup();
        match leaders
            .iter()
            .find(|pc| starts.get(usize::from(**pc)) != Some(&true))
        {
            Some(&pc) => Err(ReadError::Pc {
                what: "a jump or exception handler",
                pc: i64::from(pc),
            }),
            None => Ok(leaders),
        }
    }

    /// For each pc whether an instruction starts there.
    pub fn instruction_starts(&self) -> Result<Vec<bool>, ReadError> {
        let mut starts = vec![false; self.bytes.len()];
        for instruction in self.instructions() {
            starts[usize::from(instruction?.pc)] = true;
        }
        Ok(starts)
    }
}

fn u2(row: &[u8], n: usize) -> u16 {
    u2_at(row, 2 * n).unwrap_or_default()
}

/// The rows of a counted table.
fn rows_of<'a>(
    attribute: &Attribute<'a>,
    width: usize,
    what: &'static str,
) -> Result<&'a [u8], ReadError> {
    let mut cursor: Cursor<'a> = attribute.cursor();
    let count = usize::from(cursor.u2(what)?);
    cursor.take(width * count, what)
}
