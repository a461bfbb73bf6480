//! Which layer each state lies in, and in which order: few edges cross, and none runs upwards but
//! those that close a loop.

/// States in one layer, at most, so that machines grow down and not to the right.
const WIDEST: usize = 4;
const SWEEPS: usize = 12;

/// The layers of a graph whose edges are given by places; 0 is where it begins.
pub(super) struct Layers {
    /// The layer of each place.
    pub layer: Vec<usize>,
    /// For each edge, whether it runs against the layers.
    pub back: Vec<bool>,
}

/// Edges that close a loop point back; all others lead from a layer into a later one.
pub(super) fn layers(count: usize, edges: &[(usize, usize)]) -> Layers {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (i, (from, _)) in edges.iter().enumerate() {
        out[*from].push(i);
    }
    // The last first, so that in the order of ends, read from its end, the first is first.
    out.iter_mut().for_each(|edges| edges.reverse());
    let mut back = vec![false; edges.len()];
    let mut done = vec![false; count];
    let mut open = vec![false; count];
    // Read from its end, this is an order in which every edge that is not back leads forward.
    let mut ended = Vec::with_capacity(count);
    for root in 0..count {
        if done[root] {
            continue;
        }
        let mut stack = vec![(root, 0)];
        open[root] = true;
        while let Some((place, next)) = stack.last_mut() {
            let place = *place;
            let Some(edge) = out[place].get(*next).copied() else {
                (open[place], done[place]) = (false, true);
                ended.push(place);
                stack.pop();
                continue;
            };
            *next += 1;
            let to = edges[edge].1;
            back[edge] = open[to];
            if !open[to] && !done[to] {
                open[to] = true;
                stack.push((to, 0));
            }
        }
    }
    let mut layer = vec![0; count];
    let mut used: Vec<usize> = Vec::new();
    let mut earliest = vec![0; count];
    for place in ended.into_iter().rev() {
        // The beginning has the first layer for itself.
        let mut at = if place == 0 {
            0
        } else {
            earliest[place].max(1)
        };
        while used.get(at).is_some_and(|n| *n >= WIDEST) {
            at += 1;
        }
        used.resize(used.len().max(at + 1), 0);
        used[at] += 1;
        layer[place] = at;
        for edge in out[place].iter().filter(|e| !back[**e]) {
            let to = edges[*edge].1;
            earliest[to] = earliest[to].max(at + 1);
        }
    }
    Layers { layer, back }
}

/// Orders the members of rows so that segments between neighbouring rows cross little. Segments
/// lead from a member of a row to one of the next.
pub(super) fn order(rows: &mut [Vec<usize>], segments: &[(usize, usize)], members: usize) {
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); members];
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); members];
    for (up, down) in segments {
        below[*up].push(*down);
        above[*down].push(*up);
    }
    let mut best = rows.to_vec();
    let mut fewest = crossings(rows, &below);
    let mut place = vec![0.0; members];
    for sweep in 0..SWEEPS {
        let downwards = sweep % 2 == 0;
        let neighbours = if downwards { &above } else { &below };
        let count = rows.len();
        for step in 0..count {
            let at = if downwards { step } else { count - 1 - step };
            for (i, member) in rows[at].iter().enumerate() {
                place[*member] = i as f64;
            }
            let centre = |member: &usize| {
                let near = &neighbours[*member];
                match near.is_empty() {
                    true => place[*member],
                    false => near.iter().map(|n| place[*n]).sum::<f64>() / near.len() as f64,
                }
            };
            let mut keyed: Vec<(f64, usize)> = rows[at].iter().map(|m| (centre(m), *m)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[at] = keyed.into_iter().map(|(_, member)| member).collect();
            for (i, member) in rows[at].iter().enumerate() {
                place[*member] = i as f64;
            }
        }
        let now = crossings(rows, &below);
        if now < fewest {
            fewest = now;
            best = rows.to_vec();
        }
    }
    rows.clone_from_slice(&best);
}

fn crossings(rows: &[Vec<usize>], below: &[Vec<usize>]) -> usize {
    let mut count = 0;
    for pair in rows.windows(2) {
        let place = |member: usize| pair[1].iter().position(|m| *m == member).unwrap_or(0);
        // Ends of the segments from left to right of their beginnings: each inversion crosses.
        let mut ends: Vec<usize> = Vec::new();
        for member in &pair[0] {
            let mut own: Vec<usize> = below[*member].iter().map(|d| place(*d)).collect();
            own.sort_unstable();
            for end in own {
                count += ends.iter().filter(|e| **e > end).count();
                ends.push(end);
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_has_one_edge_back_and_layers_grow_along_the_others() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 1), (1, 3)];
        let found = layers(4, &edges);
        assert_eq!(found.back, [false, false, false, true, false]);
        assert_eq!(found.layer, [0, 1, 2, 3]);
    }

    #[test]
    fn wide_machines_grow_down() {
        let edges: Vec<(usize, usize)> = (1..=12).map(|to| (0, to)).collect();
        let found = layers(13, &edges);
        for at in 1..4 {
            assert!(found.layer.iter().filter(|l| **l == at).count() <= WIDEST);
        }
        assert_eq!(found.layer.iter().max(), Some(&3));
    }

    #[test]
    fn orders_that_need_not_cross_do_not() {
        let mut rows = vec![vec![0, 1, 2], vec![3, 4, 5]];
        order(&mut rows, &[(0, 5), (1, 4), (2, 3)], 6);
        let below = [vec![5], vec![4], vec![3], vec![], vec![], vec![]];
        assert_eq!(crossings(&rows, &below), 0, "{rows:?}");
    }
}
