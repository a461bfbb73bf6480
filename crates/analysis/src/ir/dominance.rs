//! Dominators, post-dominators and control dependence.
//!
//! Control dependence follows normal edges only: that an exception may leave a block anywhere
//! would make everything depend on every call. A loop without an exit gets one, at its end, so
//! that what follows inside it still depends on what decides it.

use super::{Block, Body};

const NONE: u32 = u32::MAX;

/// A directed graph over `0..len`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    pub next: Vec<Vec<u32>>,
}

impl Graph {
    /// Normal and exception edges of a body.
    pub fn with_exceptions(body: &Body) -> Graph {
        let edges = |b: &Block| {
            let handlers = b.handlers.iter().map(|(handler, _)| *handler);
            b.next.iter().copied().chain(handlers).collect()
        };
        Graph {
            next: body.blocks.iter().map(edges).collect(),
        }
    }

    /// Normal edges of a body, and one node more: the exit, which every reachable block reaches.
    pub fn with_exit(body: &Body) -> Graph {
        let next = body.blocks.iter().map(|b| b.next.to_vec()).collect();
        Graph::closed(next, &super::cfg::reverse_post_order(&body.blocks))
    }

    /// Adds an exit that every node in `order`, a reverse post-order, reaches. What ends goes to
    /// it, and so does an endless loop wherever it goes back to its head: each turn counts as one.
    fn closed(mut next: Vec<Vec<u32>>, order: &[u32]) -> Graph {
        let exit = next.len() as u32;
        for edges in next.iter_mut().filter(|edges| edges.is_empty()) {
            edges.push(exit);
        }
        next.push(Vec::new());
        let mut graph = Graph { next };
        loop {
            let back = graph.reversed();
            let reaching = back.reachable(exit);
            let Some(lost) = order.iter().rev().find(|n| !reaching[**n as usize]) else {
                return graph;
            };
            let endless = graph.endless(&back, *lost);
            let head = order.iter().find(|n| endless[**n as usize]);
            let head = head.copied().unwrap_or(*lost);
            for (node, edges) in graph.next.iter_mut().enumerate() {
                if endless[node] && edges.contains(&head) {
                    edges.push(exit);
                }
            }
        }
    }

    /// The same for a graph that is entered at its first node.
    #[cfg(test)]
    pub fn closed_from_start(next: Vec<Vec<u32>>) -> Graph {
        let graph = Graph { next };
        let mut order = graph.post_order(0);
        order.reverse();
        Graph::closed(graph.next, &order)
    }

    /// A loop that nothing leaves, reachable from a node that reaches no exit.
    fn endless(&self, back: &Graph, from: u32) -> Vec<bool> {
        let mut at = from;
        loop {
            let ahead = self.reachable(at);
            let behind = back.reachable(at);
            // What is ahead and never comes back lies nearer to the end.
            match (0..ahead.len()).find(|n| ahead[*n] && !behind[*n]) {
                Some(further) => at = further as u32,
                None => return ahead,
            }
        }
    }

    pub fn reversed(&self) -> Graph {
        let mut next = vec![Vec::new(); self.next.len()];
        for (from, edges) in self.next.iter().enumerate() {
            for to in edges {
                next[*to as usize].push(from as u32);
            }
        }
        Graph { next }
    }

    pub fn reachable(&self, from: u32) -> Vec<bool> {
        let mut seen = vec![false; self.next.len()];
        let mut pending = Vec::new();
        if let Some(first) = seen.get_mut(from as usize) {
            *first = true;
            pending.push(from);
        }
        while let Some(at) = pending.pop() {
            for to in &self.next[at as usize] {
                if !std::mem::replace(&mut seen[*to as usize], true) {
                    pending.push(*to);
                }
            }
        }
        seen
    }

    fn post_order(&self, root: u32) -> Vec<u32> {
        let mut order = Vec::new();
        let mut seen = vec![false; self.next.len()];
        let mut stack = vec![(root, 0)];
        seen[root as usize] = true;
        while let Some((at, edge)) = stack.pop() {
            match self.next[at as usize].get(edge) {
                Some(to) => {
                    stack.push((at, edge + 1));
                    if !std::mem::replace(&mut seen[*to as usize], true) {
                        stack.push((*to, 0));
                    }
                }
                None => order.push(at),
            }
        }
        order
    }
}

/// Immediate dominators of what is reachable from a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    root: u32,
    parent: Vec<u32>,
}

impl Tree {
    /// After Cooper, Harvey and Kennedy: "A Simple, Fast Dominance Algorithm".
    pub fn of(graph: &Graph, root: u32) -> Tree {
        let order = graph.post_order(root);
        let mut number = vec![NONE; graph.next.len()];
        for (i, node) in order.iter().enumerate() {
            number[*node as usize] = i as u32;
        }
        let before = graph.reversed();
        let mut parent = vec![NONE; graph.next.len()];
        parent[root as usize] = root;
        let mut changed = true;
        while changed {
            changed = false;
            for node in order.iter().rev().copied().filter(|n| *n != root) {
                let mut best = NONE;
                for from in &before.next[node as usize] {
                    if parent[*from as usize] == NONE {
                        continue;
                    }
                    best = match best {
                        NONE => *from,
                        _ => meet(&parent, &number, best, *from),
                    };
                }
                if parent[node as usize] != best {
                    parent[node as usize] = best;
                    changed = true;
                }
            }
        }
        Tree { root, parent }
    }

    pub fn parent(&self, node: u32) -> Option<u32> {
        let parent = *self.parent.get(node as usize)?;
        (parent != NONE && node != self.root).then_some(parent)
    }

    /// Every node dominates itself. Unreachable nodes are dominated by none but themselves.
    pub fn dominates(&self, a: u32, b: u32) -> bool {
        let mut at = b;
        loop {
            if at == a {
                return true;
            }
            match self.parent(at) {
                Some(parent) => at = parent,
                None => return false,
            }
        }
    }
}

fn meet(parent: &[u32], number: &[u32], mut a: u32, mut b: u32) -> u32 {
    while a != b {
        while number[a as usize] < number[b as usize] {
            a = parent[a as usize];
        }
        while number[b as usize] < number[a as usize] {
            b = parent[b as usize];
        }
    }
    a
}

/// An edge that decides: a block and which of its successors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Decision {
    pub block: u32,
    pub edge: u32,
}

/// For each node of a graph with an exit, the edges it is control-dependent on.
pub fn control_dependence(graph: &Graph, exit: u32) -> Vec<Vec<Decision>> {
    let after = Tree::of(&graph.reversed(), exit);
    let ends = |node: u32| node == exit || after.parent(node).is_some();
    let mut out = vec![Vec::new(); graph.next.len()];
    for (block, edges) in graph.next.iter().enumerate() {
        if edges.len() < 2 {
            continue;
        }
        let block = block as u32;
        // Dead code may lead nowhere.
        if !ends(block) {
            continue;
        }
        let stop = after.parent(block);
        for (edge, to) in edges.iter().enumerate() {
            let edge = edge as u32;
            let mut at = Some(*to).filter(|to| ends(*to));
            while let Some(node) = at.filter(|n| Some(*n) != stop && *n != exit) {
                out[node as usize].push(Decision { block, edge });
                at = after.parent(node);
            }
        }
    }
    out
}
