//! Instructions: one bounds-checked walk over the code, and what each operand means.

use crate::cursor::{i4_at, u2_at};
use crate::error::ReadError;
use crate::mutf8::Utf8;
use crate::opcode::*;
use crate::pool::{Constant, ConstantPool, DynamicRef, MemberRef, tag};

/// One instruction, guaranteed to lie within its code.
#[derive(Debug, Clone, Copy)]
pub struct Instruction<'a> {
    code: &'a [u8],
    pub pc: u16,
    pub opcode: u8,
    length: usize,
}

/// Walks the code from pc 0; after an error it ends.
#[derive(Debug, Clone)]
pub struct Instructions<'a> {
    code: &'a [u8],
    pc: usize,
}

impl<'a> Instructions<'a> {
    pub(crate) fn new(code: &'a [u8]) -> Self {
        Instructions { code, pc: 0 }
    }
}

impl<'a> Iterator for Instructions<'a> {
    type Item = Result<Instruction<'a>, ReadError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.pc >= self.code.len() {
            return None;
        }
        let item = Instruction::read(self.code, self.pc);
        self.pc = match &item {
            Ok(instruction) => self.pc + instruction.length,
            Err(_) => self.code.len(),
        };
        Some(item)
    }
}

/// How a method is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InvokeKind {
    Virtual,
    Special,
    Static,
    Interface,
    Dynamic,
}

/// A call: for `Dynamic`, `class` is empty and `bootstrap` says who makes the call site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Invoke<'a> {
    pub kind: InvokeKind,
    pub class: Utf8<'a>,
    pub name: Utf8<'a>,
    pub descriptor: Utf8<'a>,
    /// The callee is named through an interface-method constant.
    pub is_interface: bool,
    pub bootstrap: Option<u16>,
}

/// A field read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldAccess<'a> {
    pub field: MemberRef<'a>,
    pub is_static: bool,
    pub is_write: bool,
}

impl<'a> Instruction<'a> {
    /// The instruction at `pc`; the caller vouches that one starts there.
    #[inline]
    pub fn read(code: &'a [u8], pc: usize) -> Result<Self, ReadError> {
        let small_pc = pc as u16;
        let end = ReadError::InstructionEnd { pc: small_pc };
        let Some(&opcode) = code.get(pc) else {
            return Err(end);
        };
        let length = match LENGTHS[usize::from(opcode)] {
            0 => variable_length(code, pc, opcode)?,
            length => usize::from(length),
        };
        if length > code.len() - pc {
            return Err(end);
        }
        Ok(Instruction {
            code,
            pc: small_pc,
            opcode,
            length,
        })
    }

    /// The instruction with its opcode and operands.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        let pc = usize::from(self.pc);
        &self.code[pc..pc + self.length]
    }

    /// Length in bytes, opcode included; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// The pc after this instruction; equals the code's length for the last one.
    pub fn next_pc(&self) -> usize {
        usize::from(self.pc) + self.length
    }

    pub fn is_invoke(&self) -> bool {
        matches!(self.opcode, INVOKEVIRTUAL..=INVOKEDYNAMIC)
    }

    pub fn is_return(&self) -> bool {
        matches!(self.opcode, IRETURN..=RETURN)
    }

    pub fn is_switch(&self) -> bool {
        matches!(self.opcode, TABLESWITCH | LOOKUPSWITCH)
    }

    /// Jumps somewhere by its own operands: if, goto, jsr, switch.
    pub fn is_branch(&self) -> bool {
        is_short_jump(self.opcode) || self.is_switch() || matches!(self.opcode, GOTO_W | JSR_W)
    }

    /// Control can go on to the next instruction. (`jsr` counts: its subroutine returns there.)
    pub fn falls_through(&self) -> bool {
        !(matches!(self.opcode, GOTO | GOTO_W | ATHROW | RET)
            || self.is_wide_ret()
            || self.is_switch()
            || self.is_return())
    }

    fn is_wide_ret(&self) -> bool {
        self.opcode == WIDE && self.bytes().get(1) == Some(&RET)
    }

    fn pool_index(&self) -> u16 {
        u2_at(self.bytes(), 1).unwrap_or_default()
    }

    /// The callee, if this is a call.
    pub fn invoke(&self, pool: &ConstantPool<'a>) -> Result<Option<Invoke<'a>>, ReadError> {
        let kind = match self.opcode {
            INVOKEVIRTUAL => InvokeKind::Virtual,
            INVOKESPECIAL => InvokeKind::Special,
            INVOKESTATIC => InvokeKind::Static,
            INVOKEINTERFACE => InvokeKind::Interface,
            INVOKEDYNAMIC => {
                let DynamicRef {
                    bootstrap,
                    name,
                    descriptor,
                } = pool.dynamic(self.pool_index())?;
                return Ok(Some(Invoke {
                    kind: InvokeKind::Dynamic,
                    class: Utf8(b""),
                    name,
                    descriptor,
                    is_interface: false,
                    bootstrap: Some(bootstrap),
                }));
            }
            _ => return Ok(None),
        };
        let MemberRef {
            class,
            name,
            descriptor,
        } = pool.member(self.pool_index())?;
        let is_interface = pool.tag(self.pool_index())? == tag::INTERFACE_METHOD;
        Ok(Some(Invoke {
            kind,
            class,
            name,
            descriptor,
            is_interface,
            bootstrap: None,
        }))
    }

    /// The field, if this reads or writes one.
    pub fn field(&self, pool: &ConstantPool<'a>) -> Result<Option<FieldAccess<'a>>, ReadError> {
        if !matches!(self.opcode, GETSTATIC..=PUTFIELD) {
            return Ok(None);
        }
        Ok(Some(FieldAccess {
            field: pool.member(self.pool_index())?,
            is_static: matches!(self.opcode, GETSTATIC | PUTSTATIC),
            is_write: matches!(self.opcode, PUTSTATIC | PUTFIELD),
        }))
    }

    /// The type operand of new, anewarray, checkcast, instanceof, multianewarray.
    pub fn class_operand(&self, pool: &ConstantPool<'a>) -> Result<Option<Utf8<'a>>, ReadError> {
        match self.opcode {
            NEW | ANEWARRAY | CHECKCAST | INSTANCEOF | MULTIANEWARRAY => {
                pool.class_name(self.pool_index()).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The constant that ldc, ldc_w or ldc2_w loads.
    pub fn ldc(&self, pool: &ConstantPool<'a>) -> Result<Option<Constant<'a>>, ReadError> {
        match self.opcode {
            LDC => pool.get(u16::from(self.bytes()[1])).map(Some),
            LDC_W | LDC2_W => pool.get(self.pool_index()).map(Some),
            _ => Ok(None),
        }
    }

    /// The int that iconst, bipush or sipush loads (ldc is `ldc`).
    pub fn int_operand(&self) -> Option<i32> {
        match self.opcode {
            ICONST_M1..=ICONST_5 => Some(i32::from(self.opcode) - i32::from(ICONST_0)),
            BIPUSH => Some(i32::from(self.bytes()[1] as i8)),
            SIPUSH => Some(i32::from(self.pool_index() as i16)),
            _ => None,
        }
    }

    /// The local variable that a load, store, iinc or ret uses.
    pub fn local(&self) -> Option<u16> {
        match self.opcode {
            ILOAD..=ALOAD | ISTORE..=ASTORE | RET | IINC => Some(u16::from(self.bytes()[1])),
            ILOAD_0..=ALOAD_3 => Some(u16::from((self.opcode - ILOAD_0) & 3)),
            ISTORE_0..=ASTORE_3 => Some(u16::from((self.opcode - ISTORE_0) & 3)),
            WIDE => u2_at(self.bytes(), 2),
            _ => None,
        }
    }

    /// The pcs this instruction may jump to: a switch's default first, then its cases in order.
    /// Each lies within the code; that an instruction starts there is `Code::block_starts`' check.
    pub fn targets(&self) -> Targets<'a> {
        Targets {
            instruction: *self,
            next: 0,
        }
    }

    /// The cases of a switch as (key, offset position); empty for others.
    pub fn switch_cases(&self) -> impl Iterator<Item = (i32, Result<u16, ReadError>)> + 'a {
        let this = *self;
        let count = if self.is_switch() {
            self.target_count() - 1
        } else {
            0
        };
        let operands = self.operands_at();
        (0..count).map(move |case| {
            let key = if this.opcode == TABLESWITCH {
                this.int_at(operands + 4).wrapping_add(case as i32)
            } else {
                this.int_at(operands + 8 + 8 * case)
            };
            (key, this.target(case + 1))
        })
    }

    /// Where a switch's operands start within `bytes()`: after the padding.
    pub(crate) fn operands_at(&self) -> usize {
        1 + switch_padding(usize::from(self.pc))
    }

    fn int_at(&self, at: usize) -> i32 {
        i4_at(self.bytes(), at).unwrap_or_default()
    }

    pub(crate) fn target_count(&self) -> usize {
        match self.opcode {
            GOTO_W | JSR_W => 1,
            TABLESWITCH => (self.length - self.operands_at() - 12) / 4 + 1,
            LOOKUPSWITCH => (self.length - self.operands_at() - 8) / 8 + 1,
            opcode if is_short_jump(opcode) => 1,
            _ => 0,
        }
    }

    /// Where the n-th target's 32-bit offset stands within a switch's `bytes()`.
    pub(crate) fn switch_slot(&self, n: usize) -> usize {
        match (n, self.opcode) {
            (0, _) => self.operands_at(),
            (n, TABLESWITCH) => self.operands_at() + 12 + 4 * (n - 1),
            (n, _) => self.operands_at() + 12 + 8 * (n - 1),
        }
    }

    pub(crate) fn target(&self, n: usize) -> Result<u16, ReadError> {
        let offset = match self.opcode {
            TABLESWITCH | LOOKUPSWITCH => self.int_at(self.switch_slot(n)),
            GOTO_W | JSR_W => self.int_at(1),
            _ => i32::from(self.pool_index() as i16),
        };
        let pc = i64::from(self.pc) + i64::from(offset);
        match u16::try_from(pc) {
            Ok(target) if usize::from(target) < self.code.len() => Ok(target),
            _ => Err(ReadError::Pc { what: "a jump", pc }),
        }
    }
}

/// See [`Instruction::targets`].
#[derive(Debug, Clone)]
pub struct Targets<'a> {
    instruction: Instruction<'a>,
    next: usize,
}

impl Iterator for Targets<'_> {
    type Item = Result<u16, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.instruction.target_count() {
            return None;
        }
        self.next += 1;
        Some(self.instruction.target(self.next - 1))
    }
}

/// Bytes between a switch's opcode and its operands, which are aligned from the method's start.
pub(crate) fn switch_padding(pc: usize) -> usize {
    3 - pc % 4
}

/// Length of switches and wide instructions; the caller checks it against the code's end.
fn variable_length(code: &[u8], pc: usize, opcode: u8) -> Result<usize, ReadError> {
    let small_pc = pc as u16;
    let operands = pc + 1 + switch_padding(pc);
    let int = |at: usize| i4_at(code, at).ok_or(ReadError::InstructionEnd { pc: small_pc });
    let size = |count: i64, base: usize, each: usize| match usize::try_from(count) {
        // More cases than the code has bytes cannot be; the bound also keeps the product small.
        Ok(count) if count <= code.len() => Ok(operands - pc + base + each * count),
        _ => Err(ReadError::Switch { pc: small_pc }),
    };
    match opcode {
        TABLESWITCH => {
            let (low, high) = (i64::from(int(operands + 4)?), i64::from(int(operands + 8)?));
            size(high - low + 1, 12, 4)
        }
        LOOKUPSWITCH => size(i64::from(int(operands + 4)?), 8, 8),
        WIDE => match code.get(pc + 1) {
            Some(&IINC) => Ok(6),
            Some(&(ILOAD..=ALOAD | ISTORE..=ASTORE | RET)) => Ok(4),
            Some(&opcode) => Err(ReadError::Opcode {
                pc: small_pc,
                opcode,
            }),
            None => Err(ReadError::InstructionEnd { pc: small_pc }),
        },
        opcode => Err(ReadError::Opcode {
            pc: small_pc,
            opcode,
        }),
    }
}
