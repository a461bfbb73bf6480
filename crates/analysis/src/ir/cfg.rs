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
    let mut subroutines = Subroutines::default();
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
        let after = (last.falls_through() && end < length).then(|| index_of(end as u16));
        match last.opcode {
            opcode::JSR | opcode::JSR_W => {
                let entered = next.iter().copied();
                subroutines.calls.extend(entered.zip(after));
            }
            opcode::RET | opcode::WIDE if after.is_none() => subroutines.ends.push(i as u32),
            _ => next.extend(after),
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
    subroutines.connect(&mut out);
    Ok(out)
}

/// `finally` as compilers made it before Java 6: a subroutine that returns to where it was called
/// from. Here it returns to all such places: paths are not told apart by their caller.
#[derive(Default)]
struct Subroutines {
    /// The first block of a subroutine, and the block after a call of it.
    calls: Vec<(u32, u32)>,
    /// Blocks that end with a return from a subroutine.
    ends: Vec<u32>,
}

impl Subroutines {
    fn connect(&self, blocks: &mut [Block]) {
        let mut returns: Vec<(u32, u32)> = Vec::new();
        for (entry, after) in &self.calls {
            let mut reached = vec![*entry];
            let mut at = 0;
            while let Some(block) = reached.get(at).copied() {
                at += 1;
                if self.ends.contains(&block) {
                    returns.push((block, *after));
                }
                for to in &blocks[block as usize].next {
                    if !reached.contains(to) {
                        reached.push(*to);
                    }
                }
            }
        }
        for (end, after) in returns {
            let next = &mut blocks[end as usize].next;
            if !next.contains(&after) {
                *next = next.iter().copied().chain([after]).collect();
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use lasso::ThreadedRodeo;
    use temblor_classfile::access;
    use temblor_classfile::synth::{ClassBuilder, MethodSpec};

    use crate::ir::build::{Depth, class};

    #[test]
    fn a_subroutine_returns_to_every_call_of_it() {
        // 0: jsr 8; 3: jsr 8; 6: return; 7: nop; 8: astore_1; 9: ret 1
        let code = [0xa8, 0, 8, 0xa8, 0, 5, 0xb1, 0, 0x4c, 0xa9, 1];
        let mut builder = ClassBuilder::new(48, access::SUPER, "Old", "java/lang/Object").unwrap();
        let spec = MethodSpec::new(access::STATIC, "run", "()V");
        builder
            .method(&spec.stack(1).locals(2), Some(&code))
            .unwrap();
        let bytes = builder.finish().unwrap();
        let names = ThreadedRodeo::new();
        let mut tell = |trouble: String| panic!("{trouble}");
        let class = class(&bytes, &names, Depth::Bodies, &mut tell).unwrap();
        let body = class.methods[0].body.as_ref().unwrap();
        let at = |pc: u16| &body.blocks[body.block_at(pc)];
        let next = |pc: u16| -> Vec<u16> {
            let next = at(pc).next.iter();
            next.map(|b| body.blocks[*b as usize].start).collect()
        };
        assert_eq!((next(0), next(3), next(8)), (vec![8], vec![8], vec![3, 6]));
        assert!(at(6).reachable);
    }
}
