//! Which operations of a body can come before, after or between others, along control flow:
//! normal edges, and exceptions, which can leave a block at any of its operations.

use crate::ir::Body;
use crate::ir::dominance::{Graph, Tree};

/// A body with its edges both ways.
pub struct Flow<'b> {
    body: &'b Body,
    all: Graph,
    normal_before: Vec<Vec<u32>>,
    thrown_before: Vec<Vec<u32>>,
}

/// A set of operations of one body.
pub type Ops = Vec<bool>;

impl<'b> Flow<'b> {
    pub fn new(body: &'b Body) -> Flow<'b> {
        let mut normal_before = vec![Vec::new(); body.blocks.len()];
        let mut thrown_before = vec![Vec::new(); body.blocks.len()];
        for (from, block) in body.blocks.iter().enumerate() {
            if !block.reachable {
                continue;
            }
            for to in &block.next {
                normal_before[*to as usize].push(from as u32);
            }
            // What does nothing throws nothing.
            for (to, _) in block
                .handlers
                .iter()
                .filter(|_| block.first_op < block.last_op)
            {
                thrown_before[*to as usize].push(from as u32);
            }
        }
        Flow {
            body,
            all: Graph::with_exceptions(body),
            normal_before,
            thrown_before,
        }
    }

    fn block_of(&self, op: u32) -> u32 {
        self.body.block_at(self.body.ops[op as usize].pc) as u32
    }

    /// Operations after which `at` can still come, without one of `stop` in between. With
    /// `this_round`, without beginning another round of a loop that `at` is in.
    pub fn before(&self, at: u32, stop: &[u32], this_round: bool) -> Ops {
        let mut out = vec![false; self.body.ops.len()];
        let home = self.block_of(at);
        let tree = this_round.then(|| Tree::of(&self.all, 0));
        let again = |from: u32, to: u32| {
            tree.as_ref().is_some_and(|tree| {
                tree.dominates(to, from)
                    && tree.dominates(to, home)
                    && (to == home || self.comes_round(home, from, to))
            })
        };
        let mut entered = vec![false; self.body.blocks.len()];
        let mut whole = vec![false; self.body.blocks.len()];
        let mut pending: Vec<u32> = Vec::new();
        let first = self.body.blocks[home as usize].first_op;
        if self.back_over(first..at, stop, &mut out) {
            entered[home as usize] = true;
            pending.push(home);
        }
        while let Some(block) = pending.pop() {
            for from in &self.normal_before[block as usize] {
                if again(*from, block) || std::mem::replace(&mut whole[*from as usize], true) {
                    continue;
                }
                let ops = self.ops_of(*from);
                if self.back_over(ops, stop, &mut out)
                    && !std::mem::replace(&mut entered[*from as usize], true)
                {
                    pending.push(*from);
                }
            }
            for from in &self.thrown_before[block as usize] {
                if again(*from, block) {
                    continue;
                }
                // Thrown by any of them: before a stop as well as after it.
                for op in self.ops_of(*from) {
                    out[op as usize] |= !stop.contains(&op);
                }
                if !std::mem::replace(&mut entered[*from as usize], true) {
                    pending.push(*from);
                }
            }
        }
        out
    }

    fn ops_of(&self, block: u32) -> std::ops::Range<u32> {
        let block = &self.body.blocks[block as usize];
        block.first_op..block.last_op
    }

    /// Marks operations backwards; says whether no stop was met.
    fn back_over(&self, ops: std::ops::Range<u32>, stop: &[u32], out: &mut Ops) -> bool {
        for op in ops.rev() {
            if stop.contains(&op) {
                return false;
            }
            out[op as usize] = true;
        }
        true
    }

    /// Can `tail` be reached from `home` without passing `head`?
    fn comes_round(&self, home: u32, tail: u32, head: u32) -> bool {
        let mut seen = vec![false; self.body.blocks.len()];
        seen[head as usize] = true;
        let mut pending = vec![home];
        while let Some(block) = pending.pop() {
            if block == tail {
                return true;
            }
            if std::mem::replace(&mut seen[block as usize], true) {
                continue;
            }
            pending.extend(&self.all.next[block as usize]);
        }
        false
    }

    /// Operations that can come after `from`, without one of `stop` in between.
    pub fn after(&self, from: u32, stop: &[u32]) -> Ops {
        let mut out = vec![false; self.body.ops.len()];
        let mut entered = vec![false; self.body.blocks.len()];
        let home = self.block_of(from);
        let rest = from + 1..self.body.blocks[home as usize].last_op;
        let mut pending = self.on_over(home, rest, stop, &mut out);
        while let Some(block) = pending.pop() {
            if !std::mem::replace(&mut entered[block as usize], true) {
                pending.extend(self.on_over(block, self.ops_of(block), stop, &mut out));
            }
        }
        out
    }

    /// Marks operations forwards; gives the blocks that come next.
    fn on_over(
        &self,
        block: u32,
        ops: std::ops::Range<u32>,
        stop: &[u32],
        out: &mut Ops,
    ) -> Vec<u32> {
        let block = &self.body.blocks[block as usize];
        let mut next = Vec::new();
        if !ops.is_empty() {
            next.extend(block.handlers.iter().map(|(handler, _)| *handler));
        }
        for op in ops {
            if stop.contains(&op) {
                return next;
            }
            out[op as usize] = true;
        }
        next.extend(&block.next);
        next
    }

    /// Operations between any of `starts` and `end`: not those before a start, nor those after
    /// the end, unless they come round to it again.
    pub fn between(&self, starts: &[u32], end: u32) -> Ops {
        let before = self.before(end, starts, false);
        let mut out = vec![false; before.len()];
        for start in starts {
            let after = self.after(*start, &[]);
            for (at, op) in out.iter_mut().enumerate() {
                *op |= before[at] && after[at];
            }
        }
        out
    }

    /// The blocks of the innermost loop that an operation is in, without what exceptions lead to.
    pub fn innermost_loop(&self, at: u32) -> Option<Vec<u32>> {
        let home = self.block_of(at);
        let tree = Tree::of(&self.all, 0);
        let heads = (0..self.body.blocks.len() as u32).filter(|head| tree.dominates(*head, home));
        let loops = heads.map(|head| {
            let onwards = spread(&[head], |block| &self.body.blocks[block as usize].next);
            let before = self.normal_before[head as usize].iter();
            let is_tail = |tail: &&u32| tree.dominates(head, **tail) && onwards.contains(tail);
            let tails: Vec<u32> = before.filter(is_tail).copied().collect();
            let mut inside = spread(&tails, |block| match block == head {
                true => &[],
                false => &self.normal_before[block as usize],
            });
            inside.retain(|block| onwards.contains(block));
            inside
        });
        let around = loops.filter(|inside| inside.contains(&home));
        around.min_by_key(Vec::len)
    }

    /// Operations of the loops that an operation is in.
    pub fn round(&self, at: u32) -> Ops {
        let mut out = self.before(at, &[], false);
        let after = self.after(at, &[]);
        let comes_again = after[at as usize];
        for (op, after) in out.iter_mut().zip(after) {
            *op &= after && comes_again;
        }
        out
    }
}

/// What can be reached, the beginning included.
fn spread<'n>(from: &[u32], next: impl Fn(u32) -> &'n [u32]) -> Vec<u32> {
    let mut reached: Vec<u32> = Vec::new();
    let mut pending = from.to_vec();
    while let Some(block) = pending.pop() {
        if !reached.contains(&block) {
            reached.push(block);
            pending.extend(next(block));
        }
    }
    reached
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ir::{Block, Op, OpKind, Val};

    /// A body of blocks: how many operations, where they go, who catches what they throw.
    pub fn body(shape: &[(u32, &[u32], &[u32])]) -> Body {
        let mut ops = Vec::new();
        let mut blocks = Vec::new();
        for (at, (count, next, handlers)) in shape.iter().enumerate() {
            let start = at as u16 * 100;
            let first_op = ops.len() as u32;
            ops.extend((0..*count).map(|i| Op {
                pc: start + i as u16,
                kind: OpKind::Get(Val::NONE),
            }));
            blocks.push(Block {
                start,
                end: start + 100,
                first_op,
                last_op: ops.len() as u32,
                next: next.to_vec().into(),
                cases: Box::default(),
                handlers: handlers.iter().map(|h| (*h, None)).collect(),
                reachable: true,
                assigns: false,
            });
        }
        Body {
            values: Box::default(),
            lists: Box::default(),
            ops: ops.into(),
            calls: Box::default(),
            closures: Box::default(),
            blocks: blocks.into(),
            lines: Box::default(),
            names: Box::default(),
            params: 0,
            phis: Box::default(),
            constants: Box::default(),
        }
    }

    fn numbers(ops: Ops) -> Vec<usize> {
        let marked = ops.into_iter().enumerate().filter(|(_, marked)| *marked);
        marked.map(|(op, _)| op).collect()
    }

    #[test]
    fn a_branch_that_does_not_lead_there_is_not_before() {
        // 0: ops 0, 1; 1: op 2; 2: op 3; both go to 3: op 4.
        let body = body(&[
            (2, &[1, 2], &[]),
            (1, &[3], &[]),
            (1, &[3], &[]),
            (1, &[], &[]),
        ]);
        let flow = Flow::new(&body);
        assert_eq!(numbers(flow.before(2, &[], true)), [0, 1]);
        assert_eq!(numbers(flow.before(4, &[], true)), [0, 1, 2, 3]);
        assert_eq!(numbers(flow.after(2, &[])), [4]);
    }

    #[test]
    fn the_innermost_loop_is_the_smallest_around_an_operation() {
        // 0 enters the outer loop of 1 to 3; 2 is the inner one; exceptions lead to 4, and back.
        let body = body(&[
            (1, &[1], &[]),
            (1, &[2, 5], &[4]),
            (1, &[2, 3], &[4]),
            (1, &[1], &[]),
            (1, &[1], &[]),
            (1, &[], &[]),
        ]);
        let flow = Flow::new(&body);
        let of = |op| {
            let mut blocks = flow.innermost_loop(op)?;
            blocks.sort_unstable();
            Some(blocks)
        };
        assert_eq!(of(0), None);
        assert_eq!(of(2), Some(vec![2]));
        assert_eq!(of(3), Some(vec![1, 2, 3]));
        assert_eq!(of(4), None, "only an exception leads there");
        assert_eq!(of(5), None);
    }

    #[test]
    fn the_rest_of_a_round_comes_before_the_next_round_only() {
        // 0: op 0; 1, the head: op 1; 2: ops 2, 3, back to 1; 3, after the loop: op 4.
        let body = body(&[
            (1, &[1], &[]),
            (1, &[2, 3], &[]),
            (2, &[1], &[]),
            (1, &[], &[]),
        ]);
        let flow = Flow::new(&body);
        assert_eq!(numbers(flow.before(2, &[], true)), [0, 1]);
        assert_eq!(numbers(flow.before(2, &[], false)), [0, 1, 2, 3]);
        // A loop that is over by then counts in full.
        assert_eq!(numbers(flow.before(4, &[], true)), [0, 1, 2, 3]);
        assert_eq!(numbers(flow.round(2)), [1, 2, 3]);
        assert_eq!(numbers(flow.round(4)), Vec::<usize>::new());
    }

    #[test]
    fn between_two_operations_of_a_block_lies_what_stands_there() {
        let body = body(&[(6, &[], &[])]);
        let flow = Flow::new(&body);
        assert_eq!(numbers(flow.between(&[1], 4)), [2, 3]);
        assert_eq!(numbers(flow.between(&[4], 1)), Vec::<usize>::new());
    }

    #[test]
    fn between_stops_at_the_start_even_around_a_loop() {
        // One block that repeats: start 0, end 2, op 3 after the end.
        let body = body(&[(4, &[0, 1], &[]), (1, &[], &[])]);
        let flow = Flow::new(&body);
        assert_eq!(numbers(flow.between(&[0], 2)), [1]);
    }

    #[test]
    fn an_exception_leaves_a_block_anywhere() {
        // 0: ops 0, 1, caught by 2; 1: op 2; 2: op 3.
        let body = body(&[(2, &[1], &[2]), (1, &[], &[]), (1, &[], &[])]);
        let flow = Flow::new(&body);
        assert_eq!(numbers(flow.before(3, &[], true)), [0, 1]);
        assert_eq!(numbers(flow.after(0, &[])), [1, 2, 3]);
        // The last operation of a block may throw, but not after it is done.
        assert_eq!(numbers(flow.after(1, &[])), [2]);
    }
}
