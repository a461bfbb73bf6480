//! Where every old pc lands. An old instruction has two new positions: its *block* position, where
//! the code inserted before it starts, and its *own* position, where it now stands itself.

use super::{Insertion, SkipReason};
use crate::code::Code;
use crate::error::ReadError;
use crate::instruction::switch_padding;

/// No instruction starts at this pc.
const NOWHERE: u32 = u32::MAX;

/// Position tables of one method; kept between methods to spare allocations.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    block: Vec<u32>,
    own: Vec<u32>,
    /// Old pcs of all instructions, ascending.
    starts: Vec<u16>,
    old_length: usize,
    new_length: usize,
    total_length: usize,
    /// An insert whose pc is not an instruction: the caller's mistake, not the class's.
    pub(crate) missed: Option<u16>,
}

impl Layout {
    /// Computes all positions; insertions are sorted by pc, `tail` bytes follow the method's code.
    pub(crate) fn compute(
        &mut self,
        code: &Code<'_>,
        insertions: &[Insertion],
        tail: usize,
    ) -> Result<(), SkipReason> {
        self.old_length = code.bytes().len();
        self.missed = None;
        for table in [&mut self.block, &mut self.own] {
            table.clear();
            table.resize(self.old_length + 1, NOWHERE);
        }
        self.starts.clear();
        let mut pending = insertions.iter().peekable();
        let mut at = 0usize;
        for instruction in code.instructions() {
            let instruction = instruction?;
            let pc = usize::from(instruction.pc);
            self.starts.push(instruction.pc);
            self.block[pc] = at as u32;
            while let Some(insertion) = pending.next_if(|i| i.pc == instruction.pc) {
                at += insertion.code.len();
            }
            self.own[pc] = at as u32;
            at += instruction.len();
            if instruction.is_switch() {
                at = at - switch_padding(pc) + switch_padding(self.own[pc] as usize);
            }
            // Sorted inserts that are now behind us fell between instructions.
            if let Some(insertion) = pending.peek()
                && usize::from(insertion.pc) < instruction.next_pc()
            {
                self.missed = Some(insertion.pc);
                let pc = i64::from(insertion.pc);
                return Err(ReadError::Pc {
                    what: "an insert",
                    pc,
                }
                .into());
            }
        }
        if let Some(insertion) = pending.next() {
            self.missed = Some(insertion.pc);
            let pc = i64::from(insertion.pc);
            return Err(ReadError::Pc {
                what: "an insert",
                pc,
            }
            .into());
        }
        self.block[self.old_length] = at as u32;
        self.new_length = at;
        self.total_length = at + tail;
        if self.total_length > usize::from(u16::MAX) {
            let length = self.total_length;
            return Err(SkipReason::CodeTooLong { length });
        }
        Ok(())
    }

    /// With the tail.
    pub(crate) fn total_length(&self) -> usize {
        self.total_length
    }

    /// Where the method's own code ends, and its tail begins if it has one.
    pub(crate) fn end(&self) -> u16 {
        // `compute` keeps the length at 65535 at most.
        self.new_length as u16
    }

    /// Where jumps, handlers, frames, lines and ranges that named `pc` point now. The code's end
    /// is a valid pc here, since ranges end there.
    pub(crate) fn block(&self, pc: u16, what: &'static str) -> Result<u16, ReadError> {
        position(&self.block, pc, what)
    }

    /// Where the instruction of `pc` stands now.
    pub(crate) fn own(&self, pc: u16, what: &'static str) -> Result<u16, ReadError> {
        position(&self.own, pc, what)
    }

    /// For debug tables, whose pcs need not be instructions: compilers do write odd ones, and the
    /// JVM accepts them.
    pub(crate) fn lenient(&self, pc: u16) -> u16 {
        let old = usize::from(pc);
        if old >= self.old_length {
            return (self.new_length + (old - self.old_length)).min(usize::from(u16::MAX)) as u16;
        }
        if self.block[old] != NOWHERE {
            return self.block[old] as u16;
        }
        self.inside(pc)
    }

    /// As `lenient`, for what belongs to the instruction itself.
    pub(crate) fn lenient_own(&self, pc: u16) -> u16 {
        let old = usize::from(pc);
        if old >= self.old_length {
            self.lenient(pc)
        } else {
            self.inside(pc)
        }
    }

    /// A pc at or within an instruction keeps its distance from that instruction's start.
    fn inside(&self, pc: u16) -> u16 {
        let after = self.starts.partition_point(|start| *start <= pc);
        // pc 0 is always an instruction, so there is one at or before any pc.
        let start = self
            .starts
            .get(after.wrapping_sub(1))
            .copied()
            .unwrap_or_default();
        let new = self.own[usize::from(start)] as usize + usize::from(pc - start);
        new.min(usize::from(u16::MAX)) as u16
    }
}

fn position(table: &[u32], pc: u16, what: &'static str) -> Result<u16, ReadError> {
    match table.get(usize::from(pc)) {
        Some(&new) if new != NOWHERE => Ok(new as u16),
        _ => Err(ReadError::Pc {
            what,
            pc: i64::from(pc),
        }),
    }
}
