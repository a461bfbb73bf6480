//! Basic blocks and their edges. Blocks also end where a try range begins or ends, so that all of
//! a block has the same handlers.

use temblor_classfile::{ClassFile, Code, Instruction, ReadError, opcode};

use super::{Block, Sym};

/// Splits code into blocks, without operations yet.
pub fn blocks(
    class: &ClassFile<'_>,
    code: &Code<'_>,
    intern: &mut impl FnMut(&str) -> Sym,
) -> Result<Vec<Block>, ReadError> {
    let mut starts = code.block_starts()?;
    let length = code.bytes().len();
    let boundaries = code.instruction_starts()?;
    let is_start = |pc: u16| boundaries.get(usize::from(pc)) == Some(&true);
    for handler in code.handlers() {
        starts.extend(
            [handler.start, handler.end]
                .into_iter()
                .filter(|pc| is_start(*pc)),
        );
    }
    starts.sort_unstable();
    starts.dedup();
    let index_of = |pc: u16| starts.binary_search(&pc).unwrap_or_default() as u32;
    let mut out = Vec::with_capacity(starts.len());
    for (i, start) in starts.iter().enumerate() {
        let end = starts.get(i + 1).copied().map_or(length, usize::from);
        let last = last_instruction(code, *start, end)?;
        let mut next = Vec::new();
        let mut cases = Vec::new();
        if last.is_switch() {
            for (case, target) in last.switch_cases() {
                cases.push(case);
                next.push(index_of(target?));
            }
            // The default comes first among the targets, and last here.
            if let Some(default) = last.targets().next() {
                next.push(index_of(default?));
            }
        } else if last.is_branch() {
            for target in last.targets() {
                next.push(index_of(target?));
            }
        }
        if last.falls_through() && end < length {
            next.push(index_of(end as u16));
        }
        out.push(Block {
            start: *start,
            end: end as u16,
            first_op: 0,
            last_op: 0,
            next: next.into(),
            cases: cases.into(),
            handlers: handlers_at(class, code, *start, &index_of, intern)?,
            reachable: false,
            assigns: false,
        });
    }
    Ok(out)
}

fn last_instruction<'a>(
    code: &Code<'a>,
    start: u16,
    end: usize,
) -> Result<Instruction<'a>, ReadError> {
    let mut instruction = code.instruction_at(start)?;
    while instruction.next_pc() < end {
        instruction = code.instruction_at(instruction.next_pc() as u16)?;
    }
    Ok(instruction)
}

type Handlers = Box<[(u32, Option<Sym>)]>;

fn handlers_at(
    class: &ClassFile<'_>,
    code: &Code<'_>,
    pc: u16,
    index_of: &impl Fn(u16) -> u32,
    intern: &mut impl FnMut(&str) -> Sym,
) -> Result<Handlers, ReadError> {
    let mut out: Vec<(u32, Option<Sym>)> = Vec::new();
    for handler in code.handlers().filter(|h| h.covers(pc)) {
        let catches = handler.catch_type(class.pool())?;
        out.push((
            index_of(handler.handler),
            catches.map(|c| intern(&c.to_str())),
        ));
        // Nothing gets past a handler that catches all.
        if catches.is_none() {
            break;
        }
    }
    Ok(out.into())
}

/// Does the code use subroutines, as compilers did before Java 6?
pub fn has_subroutines(code: &Code<'_>) -> bool {
    let is = |o: u8| matches!(o, opcode::JSR | opcode::JSR_W | opcode::RET);
    code.instructions().flatten().any(|i| is(i.opcode))
}

/// Blocks in reverse post-order from the entry, handlers reached through exception edges.
pub fn reverse_post_order(blocks: &[Block]) -> Vec<u32> {
    let mut order = Vec::with_capacity(blocks.len());
    let mut seen = vec![false; blocks.len()];
    let mut stack: Vec<(u32, usize)> = Vec::new();
    if !blocks.is_empty() {
        seen[0] = true;
        stack.push((0, 0));
    }
    while let Some((block, edge)) = stack.pop() {
        let this = &blocks[block as usize];
        let next = this.next.get(edge).copied();
        let to = next.or_else(|| {
            let handler = edge.checked_sub(this.next.len())?;
            this.handlers.get(handler).map(|h| h.0)
        });
        match to {
            Some(to) => {
                stack.push((block, edge + 1));
                if !std::mem::replace(&mut seen[to as usize], true) {
                    stack.push((to, 0));
                }
            }
            None => order.push(block),
        }
    }
    order.reverse();
    order
}
