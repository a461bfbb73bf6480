//! Where the boxes and edges of a machine lie: rows from the beginning downwards. Edges that pass
//! a row have a lane in it, so that none runs through a box; those that leave one state downwards
//! share it, as do those that come back to one.

use std::cmp::Ordering::Equal;
use std::collections::{BTreeMap, BTreeSet};

use super::order::{layers, order};

pub(crate) const BOX_WIDTH: f64 = 216.0;
pub(crate) const BOX_HEIGHT: f64 = 58.0;
/// The dot from which tasks begin.
pub(crate) const DOT: f64 = 7.0;
/// Room right of a box for its loop and the loop's count.
const LOOP_WIDTH: f64 = 72.0;
const LANE_WIDTH: f64 = 26.0;
const GAP: f64 = 22.0;
/// Between two rows; edges bend there.
const ROW_GAP: f64 = 78.0;
const MARGIN: f64 = 14.0;
const ROUNDS: usize = 10;

/// A machine, laid out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layout {
    pub width: f64,
    pub height: f64,
    /// Where tasks begin: the middle of the dot.
    pub dot: (f64, f64),
    /// The upper left corners of the states' boxes.
    pub boxes: Vec<(f64, f64)>,
    /// As the edges were given.
    pub edges: Vec<Way>,
}

/// How an edge runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Way {
    /// The lower ends and upper ends of the gaps it bends in, from above; empty for a loop.
    pub bends: Vec<[(f64, f64); 2]>,
    /// It leads upwards.
    pub back: bool,
    /// It leads from a state into the same one.
    pub is_loop: bool,
    /// Where its count is written, and that it begins there rather than being centred.
    pub label: (f64, f64),
}

/// Something in a row: the dot, a box or a lane.
struct Member {
    width: f64,
    /// The part of the width that lies right of the middle of what is connected.
    right: f64,
}

/// Lays out so many states. Edges lead from a state, or from the beginning, to a state.
pub(crate) fn layout(states: usize, edges: &[(Option<usize>, usize)]) -> Layout {
    // The dot is member 0, states follow, then lanes.
    let ends = |edge: &(Option<usize>, usize)| (edge.0.map_or(0, |s| s + 1), edge.1 + 1);
    let is_loop = |edge: &(Option<usize>, usize)| edge.0 == Some(edge.1);
    let plain: Vec<usize> = (0..edges.len()).filter(|i| !is_loop(&edges[*i])).collect();
    let pairs: Vec<(usize, usize)> = plain.iter().map(|i| ends(&edges[*i])).collect();
    let found = layers(states + 1, &pairs);
    let loops: Vec<usize> = edges.iter().filter(|e| is_loop(e)).map(|e| e.1).collect();
    let mut members: Vec<Member> = (0..=states)
        .map(|i| match i {
            0 => Member::even(2.0 * DOT),
            i if loops.contains(&(i - 1)) => Member {
                width: BOX_WIDTH + LOOP_WIDTH,
                right: BOX_WIDTH / 2.0 + LOOP_WIDTH,
            },
            _ => Member::even(BOX_WIDTH),
        })
        .collect();
    let rows_count = found.layer.iter().max().map_or(0, |l| l + 1);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); rows_count];
    for (member, layer) in found.layer.iter().enumerate() {
        rows[*layer].push(member);
    }
    // From above: the members that each edge connects, row by row.
    let mut chains: Vec<Vec<usize>> = Vec::new();
    let mut lanes: BTreeMap<(usize, usize, bool), usize> = BTreeMap::new();
    for (pair, back) in pairs.iter().zip(&found.back) {
        let (top, bottom) = if *back { (pair.1, pair.0) } else { *pair };
        let mut chain = vec![top];
        let between = found.layer[top] + 1..found.layer[bottom];
        for (layer, row) in between.clone().zip(&mut rows[between]) {
            let lane = lanes.entry((layer, top, *back)).or_insert_with(|| {
                row.push(members.len());
                members.push(Member::even(LANE_WIDTH));
                members.len() - 1
            });
            chain.push(*lane);
        }
        chain.push(bottom);
        chains.push(chain);
    }
    let steps = chains.iter().flat_map(|c| c.windows(2));
    let segments: BTreeSet<(usize, usize)> = steps.map(|w| (w[0], w[1])).collect();
    let segments: Vec<(usize, usize)> = segments.into_iter().collect();
    order(&mut rows, &segments, members.len());
    let x = places(&rows, &segments, &members);
    let top = |layer: usize| match layer {
        0 => MARGIN,
        n => MARGIN + 2.0 * DOT + ROW_GAP * 0.6 + (n - 1) as f64 * (BOX_HEIGHT + ROW_GAP),
    };
    let bottom = |layer: usize| top(layer) + if layer == 0 { 2.0 * DOT } else { BOX_HEIGHT };
    let ports = Ports::of(&chains, &found.back, &x, states);
    let mut ways: Vec<Way> = vec![Way::default(); edges.len()];
    for (i, chain) in chains.iter().enumerate() {
        let back = found.back[i];
        let first = found.layer[chain[0]];
        let bend = |(step, pair): (usize, &[usize])| {
            let layer = first + step;
            let from = (ports.below(i, step, pair[0], &x), bottom(layer));
            let to = (ports.above(i, step, pair[1], &x), top(layer + 1));
            [from, to]
        };
        let bends: Vec<[(f64, f64); 2]> = chain.windows(2).enumerate().map(bend).collect();
        ways[plain[i]] = Way {
            label: label(&bends, ports.turns[i]),
            bends,
            back,
            is_loop: false,
        };
    }
    let boxes: Vec<(f64, f64)> = (1..=states)
        .map(|i| (x[i] - BOX_WIDTH / 2.0, top(found.layer[i])))
        .collect();
    for (way, edge) in ways.iter_mut().zip(edges).filter(|(_, e)| is_loop(e)) {
        let (left, top) = boxes[edge.1];
        way.is_loop = true;
        way.label = (left + BOX_WIDTH + 30.0, top + BOX_HEIGHT / 2.0 + 4.0);
    }
    let right = members.iter().zip(&x).map(|(m, x)| x + m.right);
    let last = rows_count.saturating_sub(1);
    Layout {
        width: right.fold(0.0, f64::max) + MARGIN,
        height: bottom(last) + MARGIN,
        dot: (x[0], top(0) + DOT),
        boxes,
        edges: ways,
    }
}

impl Member {
    fn even(width: f64) -> Member {
        let right = width / 2.0;
        Member { width, right }
    }

    fn left(&self) -> f64 {
        self.width - self.right
    }
}

/// The middles of all members: near those they are connected with, and never on one another.
fn places(rows: &[Vec<usize>], segments: &[(usize, usize)], members: &[Member]) -> Vec<f64> {
    let mut x = vec![0.0; members.len()];
    let apart = |a: usize, b: usize| members[a].right + GAP + members[b].left();
    for row in rows {
        let mut at = 0.0;
        for (i, member) in row.iter().enumerate() {
            at += match i {
                0 => 0.0,
                i => apart(row[i - 1], *member),
            };
            x[*member] = at;
        }
        let middle = at / 2.0;
        row.iter().for_each(|m| x[*m] -= middle);
    }
    let mut near: Vec<Vec<usize>> = vec![Vec::new(); members.len()];
    for (up, down) in segments {
        near[*up].push(*down);
        near[*down].push(*up);
    }
    for round in 0..ROUNDS {
        for step in 0..rows.len() {
            let at = if round % 2 == 0 {
                step
            } else {
                rows.len() - 1 - step
            };
            let row = &rows[at];
            let wanted: Vec<f64> = row
                .iter()
                .map(|m| match near[*m].len() {
                    0 => x[*m],
                    n => near[*m].iter().map(|o| x[*o]).sum::<f64>() / n as f64,
                })
                .collect();
            // Pushed apart to the right, and to the left; between the two they are apart, too.
            let (mut rightwards, mut leftwards) = (wanted.clone(), wanted);
            for i in 1..row.len() {
                let least = rightwards[i - 1] + apart(row[i - 1], row[i]);
                rightwards[i] = rightwards[i].max(least);
            }
            for i in (1..row.len()).rev() {
                let most = leftwards[i] - apart(row[i - 1], row[i]);
                leftwards[i - 1] = leftwards[i - 1].min(most);
            }
            for (i, member) in row.iter().enumerate() {
                x[*member] = (rightwards[i] + leftwards[i]) / 2.0;
            }
        }
    }
    let left = members.iter().zip(&x).map(|(m, x)| x - m.left());
    let shift = MARGIN - left.fold(f64::INFINITY, f64::min);
    x.iter().map(|x| x + shift).collect()
}

/// Where edges leave and enter boxes: side by side, in the order of where they come from.
struct Ports {
    /// For each chain, its share of the width of its first and last member, from -0.5 to 0.5.
    top: Vec<f64>,
    bottom: Vec<f64>,
    /// Its number among those that end at the upper side of the same box.
    turns: Vec<usize>,
    last: Vec<usize>,
    states: usize,
}

impl Ports {
    fn of(chains: &[Vec<usize>], back: &[bool], x: &[f64], states: usize) -> Ports {
        let mut ports = Ports {
            top: vec![0.0; chains.len()],
            bottom: vec![0.0; chains.len()],
            turns: vec![0; chains.len()],
            last: chains.iter().map(|c| c.len() - 2).collect(),
            states,
        };
        let share = |n: usize, of: usize| (n as f64 + 1.0) / (of as f64 + 1.0) - 0.5;
        for member in 0..=states {
            let own = (0..chains.len()).filter(|i| chains[*i][0] == member);
            let own: Vec<usize> = own.collect();
            // Those that go on in one lane leave in one place.
            let place = |i: usize| (chains[i][1], back[i]);
            let mut places: Vec<(usize, bool)> = own.iter().map(|i| place(*i)).collect();
            places.sort_by(|a, b| (x[a.0], a.1).partial_cmp(&(x[b.0], b.1)).unwrap_or(Equal));
            places.dedup();
            for i in own {
                let n = places.iter().position(|p| *p == place(i)).unwrap_or(0);
                ports.top[i] = share(n, places.len());
            }
            let ends = |i: &usize| chains[*i].last() == Some(&member);
            let mut own: Vec<usize> = (0..chains.len()).filter(ends).collect();
            let near = |i: usize| (x[chains[i][chains[i].len() - 2]], back[i]);
            own.sort_by(|a, b| near(*a).partial_cmp(&near(*b)).unwrap_or(Equal));
            for (n, i) in own.iter().enumerate() {
                ports.bottom[*i] = share(n, own.len());
                ports.turns[*i] = n;
            }
        }
        ports
    }

    fn width(member: usize) -> f64 {
        if member == 0 { 2.0 * DOT } else { BOX_WIDTH }
    }

    /// Where a chain leaves a member downwards; lanes are left in their middle.
    fn below(&self, chain: usize, step: usize, member: usize, x: &[f64]) -> f64 {
        match step == 0 && member <= self.states {
            true => x[member] + self.top[chain] * Ports::width(member),
            false => x[member],
        }
    }

    fn above(&self, chain: usize, step: usize, member: usize, x: &[f64]) -> f64 {
        match step == self.last[chain] && member <= self.states {
            true => x[member] + self.bottom[chain] * Ports::width(member),
            false => x[member],
        }
    }
}

/// Counts stand near the lower ends, which no two edges share; in turn a little further away, so
/// that neighbours do not meet.
fn label(bends: &[[(f64, f64); 2]], turn: usize) -> (f64, f64) {
    const STEP: f64 = 0.13;
    let share = 0.72 - STEP * (turn % 3) as f64;
    let last = bends.last();
    last.map_or((0.0, 0.0), |[from, to]| along(*from, *to, share))
}

/// A point of the curve that is drawn between two points, upright at both.
fn along(from: (f64, f64), to: (f64, f64), t: f64) -> (f64, f64) {
    let bend = 3.0 * t * t - 2.0 * t * t * t;
    let middle = (from.1 + to.1) / 2.0;
    let s = 1.0 - t;
    let y = s * s * s * from.1 + 3.0 * s * t * middle + t * t * t * to.1;
    (from.0 + (to.0 - from.0) * bend, y + 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The room of a box, with that of its loop.
    fn room(layout: &Layout, edges: &[(Option<usize>, usize)], i: usize) -> [f64; 4] {
        let (x, y) = layout.boxes[i];
        let more = if edges.contains(&(Some(i), i)) {
            LOOP_WIDTH
        } else {
            0.0
        };
        [x, y, x + BOX_WIDTH + more, y + BOX_HEIGHT]
    }

    fn machine() -> impl Strategy<Value = (usize, Vec<(Option<usize>, usize)>)> {
        (1usize..26).prop_flat_map(|states| {
            let edge = (proptest::option::weighted(0.9, 0..states), 0..states);
            let edges = proptest::collection::btree_set(edge, 0..60);
            (Just(states), edges.prop_map(|e| e.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn nothing_lies_on_a_box((states, edges) in machine()) {
            let layout = layout(states, &edges);
            prop_assert_eq!(layout.boxes.len(), states);
            let rooms: Vec<[f64; 4]> = (0..states).map(|i| room(&layout, &edges, i)).collect();
            for (i, a) in rooms.iter().enumerate() {
                prop_assert!(a[0] >= 0.0 && a[1] >= 0.0);
                prop_assert!(a[2] <= layout.width && a[3] <= layout.height);
                for b in &rooms[..i] {
                    let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                    prop_assert!(apart, "{:?} {:?}", a, b);
                }
                // Lanes: from where an edge enters a row to where it leaves it.
                for way in &layout.edges {
                    for pair in way.bends.windows(2) {
                        let (x, y) = pair[0][1];
                        prop_assert_eq!(x, pair[1][0].0);
                        let beside = x <= a[0] || x >= a[2] || y >= a[3] || pair[1][0].1 <= a[1];
                        prop_assert!(beside, "{:?} {:?}", pair, a);
                    }
                }
            }
        }

        #[test]
        fn every_edge_leads_where_it_should((states, edges) in machine()) {
            let layout = layout(states, &edges);
            prop_assert_eq!(layout.edges.len(), edges.len());
            for (way, (from, to)) in layout.edges.iter().zip(&edges) {
                if *from == Some(*to) {
                    prop_assert!(way.is_loop && way.bends.is_empty());
                    continue;
                }
                let (first, last) = (way.bends[0][0], way.bends[way.bends.len() - 1][1]);
                let (upper, lower) = match way.back {
                    true => (Some(*to), from.unwrap_or(usize::MAX)),
                    false => (*from, *to),
                };
                let within = |x: f64, left: f64| x >= left && x <= left + BOX_WIDTH;
                match upper.map(|u| layout.boxes[u]) {
                    Some((x, y)) => {
                        prop_assert!(within(first.0, x) && first.1 == y + BOX_HEIGHT);
                    }
                    None => prop_assert!((first.0 - layout.dot.0).abs() <= DOT),
                }
                let (x, y) = layout.boxes[lower];
                prop_assert!(within(last.0, x) && last.1 == y);
                for [above, below] in &way.bends {
                    prop_assert!(above.1 < below.1, "bends lead down");
                }
            }
        }
    }
}
