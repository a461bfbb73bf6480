//! One method's `Code` attribute, written anew around its inserts.

use super::attributes::write_attributes;
use super::layout::Layout;
use super::leaving::Tail;
use super::{Insertion, SkipReason};
use crate::code::Code;
use crate::error::ReadError;
use crate::instruction::{Instruction, switch_padding};
use crate::opcode::*;

/// The new content of the `Code` attribute; `snippets` holds the insertions' bytes.
pub(crate) fn rewrite(
    code: &Code<'_>,
    insertions: &[Insertion],
    tail: Option<&Tail>,
    snippets: &[u8],
    layout: &mut Layout,
) -> Result<Vec<u8>, SkipReason> {
    layout.compute(code, insertions, tail.map_or(0, |tail| tail.code.len()))?;
    // Inserts are balanced, so they need the deepest of them on top of the method, not their sum.
    let extra = insertions.iter().map(|i| i.stack).max().unwrap_or_default();
    let depth = usize::from(code.max_stack) + usize::from(extra);
    let depth = depth.max(tail.map_or(0, |tail| tail.stack));
    let max_stack = u16::try_from(depth).map_err(|_| SkipReason::StackTooDeep { depth })?;

    let mut out = Vec::with_capacity(layout.total_length() + 256);
    out.extend(max_stack.to_be_bytes());
    out.extend(code.max_locals.to_be_bytes());
    out.extend((layout.total_length() as u32).to_be_bytes());
    let start = out.len();
    let mut pending = insertions.iter().peekable();
    for instruction in code.instructions() {
        let instruction = instruction?;
        while let Some(insertion) = pending.next_if(|i| i.pc == instruction.pc) {
            out.extend_from_slice(&snippets[insertion.code.clone()]);
        }
        write_instruction(&mut out, &instruction, layout)?;
    }
    out.extend_from_slice(tail.map_or(&[], |tail| &tail.code));
    debug_assert_eq!(out.len() - start, layout.total_length());
    write_handlers(&mut out, code, tail, layout)?;
    write_attributes(&mut out, code, tail, layout)?;
    Ok(out)
}

fn write_instruction(
    out: &mut Vec<u8>,
    instruction: &Instruction<'_>,
    layout: &Layout,
) -> Result<(), SkipReason> {
    let opcode = instruction.opcode;
    if instruction.is_switch() {
        return Ok(write_switch(out, instruction, layout)?);
    }
    if !instruction.is_branch() {
        out.extend_from_slice(instruction.bytes());
        return Ok(());
    }
    let offset = new_offset(instruction, 0, layout)?;
    out.push(opcode);
    if matches!(opcode, GOTO_W | JSR_W) {
        out.extend(offset.to_be_bytes());
    } else {
        let too_far = SkipReason::BranchTooFar { pc: instruction.pc };
        out.extend(i16::try_from(offset).map_err(|_| too_far)?.to_be_bytes());
    }
    Ok(())
}

fn write_switch(
    out: &mut Vec<u8>,
    instruction: &Instruction<'_>,
    layout: &Layout,
) -> Result<(), ReadError> {
    let own = layout.own(instruction.pc, "a switch")?;
    out.push(instruction.opcode);
    out.resize(out.len() + switch_padding(usize::from(own)), 0);
    // Keys and counts stay; the offsets among them are overwritten.
    let operands = instruction.operands_at();
    let start = out.len();
    out.extend_from_slice(&instruction.bytes()[operands..]);
    for n in 0..instruction.target_count() {
        let slot = start + instruction.switch_slot(n) - operands;
        out[slot..slot + 4].copy_from_slice(&new_offset(instruction, n, layout)?.to_be_bytes());
    }
    Ok(())
}

/// The n-th target's distance from where the instruction now stands.
fn new_offset(instruction: &Instruction<'_>, n: usize, layout: &Layout) -> Result<i32, ReadError> {
    let from = layout.own(instruction.pc, "a jump")?;
    let to = layout.block(instruction.target(n)?, "a jump")?;
    Ok(i32::from(to) - i32::from(from))
}

fn write_handlers(
    out: &mut Vec<u8>,
    code: &Code<'_>,
    tail: Option<&Tail>,
    layout: &Layout,
) -> Result<(), SkipReason> {
    let handlers = code.handlers();
    let count = handlers.len() + usize::from(tail.is_some());
    let what = "exception table";
    let count = u16::try_from(count).map_err(|_| SkipReason::TableFull { what })?;
    out.extend(count.to_be_bytes());
    for handler in handlers {
        let what = "an exception handler";
        for pc in [handler.start, handler.end, handler.handler] {
            out.extend(layout.block(pc, what)?.to_be_bytes());
        }
        out.extend(handler.catch_index.to_be_bytes());
    }
    if tail.is_some() {
        // Last, so that the method's own handlers come first; 0 catches all.
        let row = [0, layout.end(), layout.end(), 0];
        out.extend(row.map(u16::to_be_bytes).concat());
    }
    Ok(())
}
