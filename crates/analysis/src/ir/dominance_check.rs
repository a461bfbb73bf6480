//! Dominators, post-dominators and control dependence against their definitions, on every method
//! of a JDK and on random graphs. The definitions are slow and leave nothing to get wrong.

use std::path::{Path, PathBuf};

use lasso::ThreadedRodeo;
use proptest::prelude::*;
use rayon::prelude::*;

use super::build::{self, Depth};
use super::dominance::{Decision, Graph, Tree, control_dependence};
use crate::source::JdkClasses;

/// Rows of bits: who dominates whom.
struct Naive {
    count: usize,
    words: usize,
    /// Row `d`: the nodes that cannot be reached without `d`, `d` among them.
    rows: Vec<u64>,
    reachable: Vec<bool>,
}

impl Naive {
    /// `a` dominates `b` if no path from the root to `b` avoids `a`.
    fn of(graph: &Graph, root: u32) -> Naive {
        let count = graph.next.len();
        let words = count.div_ceil(64);
        let reachable = avoiding(graph, root, None);
        let mut rows = vec![0; count * words];
        for node in (0..count).filter(|n| reachable[*n]) {
            let without = avoiding(graph, root, Some(node));
            for other in (0..count).filter(|o| reachable[*o] && !without[*o]) {
                rows[node * words + other / 64] |= 1 << (other % 64);
            }
        }
        Naive {
            count,
            words,
            rows,
            reachable,
        }
    }

    fn dominates(&self, a: usize, b: usize) -> bool {
        self.rows[a * self.words + b / 64] >> (b % 64) & 1 == 1
    }

    /// The strict dominator that every other strict dominator dominates.
    fn parents(&self, root: usize) -> Vec<Option<usize>> {
        // How many dominate a node: of a node's dominators, the nearest has the most.
        let mut depth = vec![0u32; self.count];
        for a in 0..self.count {
            for b in (0..self.count).filter(|b| self.dominates(a, *b)) {
                depth[b] += 1;
            }
        }
        let mut parent: Vec<Option<usize>> = vec![None; self.count];
        for a in 0..self.count {
            for b in (0..self.count).filter(|b| *b != a && self.dominates(a, *b)) {
                if parent[b].is_none_or(|p| depth[p] < depth[a]) {
                    parent[b] = Some(a);
                }
            }
        }
        parent[root] = None;
        parent
    }
}

fn avoiding(graph: &Graph, root: u32, node: Option<usize>) -> Vec<bool> {
    let mut seen = vec![false; graph.next.len()];
    let mut pending = vec![root as usize];
    while let Some(at) = pending.pop() {
        if Some(at) == node || std::mem::replace(&mut seen[at], true) {
            continue;
        }
        pending.extend(graph.next[at].iter().map(|n| *n as usize));
    }
    seen
}

fn check_dominators(graph: &Graph, root: u32) -> Result<Naive, String> {
    let tree = Tree::of(graph, root);
    let naive = Naive::of(graph, root);
    for (node, parent) in naive.parents(root as usize).into_iter().enumerate() {
        let found = tree.parent(node as u32).map(|p| p as usize);
        if found != parent {
            return Err(format!(
                "parent of {node}: {found:?}, by definition {parent:?}"
            ));
        }
    }
    // Unreachable nodes are dominated by themselves alone.
    if graph.next.len() <= 64 {
        for a in 0..graph.next.len() {
            for b in 0..graph.next.len() {
                let wanted = naive.dominates(a, b) || a == b;
                if tree.dominates(a as u32, b as u32) != wanted {
                    return Err(format!("{a} dominates {b}: by definition {wanted}"));
                }
            }
        }
    }
    Ok(naive)
}

/// Ferrante, Ottenstein, Warren: a node depends on an edge if it post-dominates the edge's end
/// but does not strictly post-dominate its start.
fn check_control(graph: &Graph, exit: u32) -> Result<(), String> {
    let after = check_dominators(&graph.reversed(), exit).map_err(|e| format!("after: {e}"))?;
    let mut wanted: Vec<Vec<Decision>> = vec![Vec::new(); graph.next.len()];
    for (block, edges) in graph
        .next
        .iter()
        .enumerate()
        .filter(|(b, _)| after.reachable[*b])
    {
        for (edge, to) in edges.iter().enumerate() {
            for (node, wanted) in wanted.iter_mut().enumerate() {
                let strictly = node != block && after.dominates(node, block);
                if after.dominates(node, *to as usize) && !strictly {
                    wanted.push(Decision {
                        block: block as u32,
                        edge: edge as u32,
                    });
                }
            }
        }
    }
    let mut found = control_dependence(graph, exit);
    for (node, (found, wanted)) in found.iter_mut().zip(&mut wanted).enumerate() {
        found.sort_unstable();
        wanted.sort_unstable();
        if found != wanted {
            return Err(format!(
                "{node} depends on {found:?}, by definition {wanted:?}"
            ));
        }
    }
    Ok(())
}

fn check(plain: &Graph, closed: &Graph) -> Result<(), String> {
    check_dominators(plain, 0)?;
    let exit = closed.next.len() as u32 - 1;
    let reaching = closed.reversed().reachable(exit);
    for (node, reachable) in plain.reachable(0).into_iter().enumerate() {
        if reachable && !reaching[node] {
            return Err(format!("{node} does not reach the exit"));
        }
    }
    check_control(closed, exit)
}

/// JDKs to check with: those that are listed, or else the one on the path.
fn jdks() -> Vec<PathBuf> {
    let listed = std::env::var("TEMBLOR_TEST_JDKS").unwrap_or_default();
    let listed: Vec<PathBuf> = listed
        .split(':')
        .filter(|home| !home.is_empty())
        .map(PathBuf::from)
        .collect();
    if !listed.is_empty() {
        return listed;
    }
    let home = std::env::var("JAVA_HOME").unwrap_or_default();
    let of_path = std::env::var("PATH").unwrap_or_default();
    let of_path = of_path.split(':').map(|dir| Path::new(dir).join("java"));
    let of_path = of_path.filter_map(|java| java.canonicalize().ok());
    let of_path = of_path.filter_map(|java| Some(java.parent()?.parent()?.to_path_buf()));
    let mut homes = [PathBuf::from(home)].into_iter().chain(of_path);
    let found = homes.find(|h| h.join("lib/modules").exists());
    vec![found.expect(
        "no JDK; name one in TEMBLOR_TEST_JDKS, or run: apt-get install -y openjdk-17-jdk-headless",
    )]
}

#[test]
fn every_method_of_a_jdk_agrees_with_the_definitions() {
    // The definitions take the square of a method's blocks: a debug build checks every tenth
    // class.
    let every = if cfg!(debug_assertions) { 10 } else { 1 };
    for home in &jdks() {
        let jdk = JdkClasses::open(home).expect("the JDK can be read");
        let names = ThreadedRodeo::new();
        let of_class = |class: &String| -> (usize, Vec<String>) {
            let Some(bytes) = jdk.read(class) else {
                return (0, Vec::new());
            };
            let built = build::class(&bytes, &names, Depth::Bodies, &mut |_| ());
            let built = built.expect("the JDK's classes are sound");
            let (mut count, mut wrong) = (0, Vec::new());
            for method in &built.methods {
                let Some(body) = &method.body else { continue };
                let plain = Graph::with_exceptions(body);
                count += 1;
                if let Err(what) = check(&plain, &Graph::with_exit(body)) {
                    let method = names.resolve(&method.name);
                    wrong.push(format!("{class}.{method}: {what}"));
                }
            }
            (count, wrong)
        };
        let classes: Vec<String> = jdk.class_names().into_iter().step_by(every).collect();
        let (compared, wrong) = classes
            .par_iter()
            .map(of_class)
            .reduce(|| (0, Vec::new()), |a, b| (a.0 + b.0, [a.1, b.1].concat()));
        println!("{}: {compared} methods compared", home.display());
        assert_eq!(
            wrong.iter().take(10).collect::<Vec<_>>(),
            Vec::<&String>::new()
        );
        let least = 100_000 / every;
        assert!(
            compared > least,
            "only {compared} methods in {}",
            home.display()
        );
    }
}

/// Any edges at all: unreachable nodes, self loops, endless loops, several edges to one node.
fn graphs() -> impl Strategy<Value = Graph> {
    (1usize..24).prop_flat_map(|count| {
        let edges = proptest::collection::vec(0..count as u32, 0..4);
        proptest::collection::vec(edges, count).prop_map(|next| Graph { next })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn random_graphs_agree_with_the_definitions(graph in graphs()) {
        let closed = Graph::closed_from_start(graph.next.clone());
        prop_assert_eq!(check(&graph, &closed), Ok(()));
        // What was there is there still, in its place.
        for (edges, before) in closed.next.iter().zip(&graph.next) {
            prop_assert!(edges.starts_with(before));
        }
    }
}

#[test]
fn each_turn_of_an_endless_loop_ends_where_it_goes_back() {
    // while (true) { switch { case: 1; case: 2; default: 3 } }
    let closed = Graph::closed_from_start(vec![vec![1, 2, 3], vec![0], vec![0], vec![0]]);
    let exit = 4;
    assert_eq!(closed.next[1..4], [[0, exit], [0, exit], [0, exit]]);
    let control = control_dependence(&closed, exit);
    for case in 1..4 {
        let decision = Decision {
            block: 0,
            edge: case - 1,
        };
        assert!(control[case as usize].contains(&decision), "case {case}");
    }
}
