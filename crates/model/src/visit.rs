//! What a trial came by: which sites were hit in which abstract states, and how often.

use serde::{Deserialize, Serialize};

use crate::board::spec::{context_key, state_key};
use crate::site::SiteId;

/// Hits of a site by one node while the hitting task was in one state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Visit {
    pub node: String,
    /// Id of the abstract state; none outside all tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<u32>,
    pub site: SiteId,
    pub hits: u32,
    /// Its place in the order in which the trial came to such pairs, all nodes together.
    pub first: u32,
    /// All of them met only memory, where nothing can fail; only known where a step might fire.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_memory: bool,
}

/// A task went from one state into another, in one node, so often.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Move {
    pub node: String,
    /// None: the task began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    pub to: u32,
    pub count: u32,
}

/// The name a context has in plans of trigger `new-context`.
pub fn context_name(site: SiteId, stack: u64) -> String {
    format!("{:016x}", context_key(site, stack))
}

/// The name a node's state has in plans of trigger `new-state`.
pub fn state_name(node: &str, state: Option<u32>) -> String {
    format!("{:016x}", state_key(crate::fnv64(node.as_bytes()), state))
}

/// One visit for each node, state and site, in the order of these.
pub fn summed(mut visits: Vec<Visit>) -> Vec<Visit> {
    visits.sort();
    visits.dedup_by(|next, kept| {
        let same = (&next.node, next.state, next.site) == (&kept.node, kept.state, kept.site);
        if same {
            kept.hits += next.hits;
            kept.first = kept.first.min(next.first);
            kept.in_memory &= next.in_memory;
        }
        same
    });
    visits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_of_several_stacks_are_one() {
        let visit = |node: &str, state, hits, first| Visit {
            node: node.into(),
            state,
            site: 4,
            hits,
            first,
            in_memory: false,
        };
        let all = summed(vec![
            visit("n2", None, 1, 9),
            visit("n1", Some(1), 2, 7),
            visit("n1", None, 3, 8),
            visit("n1", None, 4, 5),
        ]);
        let expected = [
            visit("n1", None, 7, 5),
            visit("n1", Some(1), 2, 7),
            visit("n2", None, 1, 9),
        ];
        assert_eq!(all, expected);
    }
}
