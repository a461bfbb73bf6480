//! `exhaustive`: each site × each fault × each reached context, once (Legolas §7 baseline).
//!
//! The order makes a short campaign worth its trials. Rounds, each complete before the next:
//!
//! 1. one of each kind of fault per context, on one node, at the first hit;
//! 2. the same on the other nodes (a cluster's nodes are alike, so they come later);
//! 3. the same at the middle and the last hit of the baselines, on the first node;
//! 4. the same at these hits on the other nodes;
//! 5. the exceptions beyond the most general one, first hit, first node;
//! 6. all that is left.
//!
//! Within a round, sites take turns, in an order drawn from the seed. The first node of a context
//! is drawn among those that every baseline reached it on; where there is none (a leader's
//! context, say, when each run elects another), the first round leaves the node open, so that
//! the fault is reached wherever the context shows up.

use std::collections::{BTreeMap, VecDeque};

use temblor_model::bug::Outcome;
use temblor_model::plan::{Fault, Plan, Trigger};
use temblor_model::site::SiteId;

use super::draw::Draw;
use super::space::{Context, contexts};
use super::{Policy, Scope};

/// See the module.
pub struct Exhaustive {
    plans: VecDeque<Plan>,
}

const ROUNDS: usize = 6;

/// One round: the injections of each site.
type Round = BTreeMap<SiteId, Vec<(Trigger, Fault)>>;

impl Exhaustive {
    pub fn new(scope: &Scope<'_>) -> Exhaustive {
        let mut draw = Draw::new(scope.seed);
        let mut rounds: Vec<Round> = vec![Round::new(); ROUNDS];
        for context in contexts(scope) {
            for fault in &context.faults {
                spread(&context, fault, [0, 1, 2, 3], &mut draw, &mut rounds);
            }
            for fault in &context.more {
                spread(&context, fault, [4, 5, 5, 5], &mut draw, &mut rounds);
            }
        }
        let mut plans = VecDeque::new();
        for round in rounds {
            for (when, fault) in take_turns(round, &mut draw) {
                plans.push_back(Plan::single(draw.plan_seed(), when, fault));
            }
        }
        Exhaustive { plans }
    }
}

/// Puts one fault in one context into the rounds: `[first node first hit, other nodes first hit,
/// first node later hits, other nodes later hits]`.
fn spread(
    context: &Context,
    fault: &Fault,
    [first, others, later, others_later]: [usize; 4],
    draw: &mut Draw,
    rounds: &mut [Round],
) {
    let steady: Vec<usize> = (0..context.nodes.len())
        .filter(|&i| context.nodes[i].always)
        .collect();
    let chosen = match steady.len() {
        0 => draw.below(context.nodes.len()),
        n => steady[draw.below(n)],
    };
    let mut put = |round: usize, node: Option<&str>, nth: u32| {
        let when = Trigger::Hit {
            site: context.site.clone(),
            node: node.map(str::to_owned),
            stack: Some(context.stack.clone()),
            nth,
        };
        let injections = rounds[round].entry(context.site_id).or_default();
        injections.push((when, fault.clone()));
    };
    if steady.is_empty() {
        put(first, None, 1);
    }
    for (i, on_node) in context.nodes.iter().enumerate() {
        let node = Some(on_node.node.as_str());
        let is_first = i == chosen;
        let round = if is_first && !steady.is_empty() {
            first
        } else {
            others
        };
        put(round, node, 1);
        let round = if is_first { later } else { others_later };
        for nth in later_hits(on_node.hits) {
            put(round, node, nth);
        }
    }
}

/// The middle and the last of `hits`, where they are not the first.
fn later_hits(hits: u32) -> Vec<u32> {
    let mut nths = vec![hits.div_ceil(2), hits];
    nths.retain(|&nth| nth > 1);
    nths.dedup();
    nths
}

/// One injection of each site in turn, until all are taken.
fn take_turns(round: Round, draw: &mut Draw) -> Vec<(Trigger, Fault)> {
    let mut queues: Vec<Vec<(Trigger, Fault)>> = round.into_values().collect();
    draw.shuffle(&mut queues);
    for queue in &mut queues {
        draw.shuffle(queue);
    }
    let mut order = Vec::new();
    while !queues.is_empty() {
        queues.retain_mut(|queue| {
            order.extend(queue.pop());
            !queue.is_empty()
        });
    }
    order
}

impl Policy for Exhaustive {
    fn next(&mut self) -> Option<Plan> {
        self.plans.pop_front()
    }

    fn learn(&mut self, _: &Plan, _: &Outcome) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::policy::FaultKind;
    use crate::simulate::Simulated;

    fn all(target: &Simulated, seed: u64) -> Vec<(Trigger, Fault)> {
        let mut policy = target.policy("exhaustive", seed);
        let plans = std::iter::from_fn(|| policy.next());
        plans
            .map(|mut plan| plan.steps.remove(0))
            .map(|step| (step.when, step.fault))
            .collect()
    }

    fn site(when: &Trigger) -> &str {
        let Trigger::Hit { site, .. } = when else {
            panic!("exhaustive plans hits only: {when}");
        };
        site
    }

    #[test]
    fn nothing_comes_twice_and_it_ends() {
        let order = all(&Simulated::small(), 1);
        let distinct: BTreeSet<String> = order.iter().map(|(w, f)| format!("{w} {f}")).collect();
        assert_eq!(distinct.len(), order.len());
    }

    #[test]
    fn every_site_comes_before_any_comes_again() {
        let target = Simulated::small();
        let order = all(&target, 1);
        let sites: BTreeSet<&str> = order.iter().map(|(when, _)| site(when)).collect();
        let first: BTreeSet<&str> = order[..sites.len()]
            .iter()
            .map(|(when, _)| site(when))
            .collect();
        assert_eq!(first, sites);
    }

    #[test]
    fn first_hits_on_one_node_come_before_other_nodes_and_later_hits() {
        let target = Simulated::small();
        let order = all(&target, 1);
        let mut seen = BTreeSet::new();
        let mut repeats = false;
        for (when, fault) in &order {
            let Trigger::Hit {
                site, stack, nth, ..
            } = when
            else {
                panic!("exhaustive plans hits only: {when}");
            };
            let new = seen.insert((site, stack, fault.to_string()));
            let primary = !matches!(fault, Fault::Throw { exception } if exception == "x.Rare");
            assert!(!(new && primary && repeats), "{when} {fault} comes late");
            assert!(!new || *nth == 1, "{when} {fault} starts at a later hit");
            repeats |= !new;
        }
        assert!(repeats);
    }

    #[test]
    fn a_context_that_moves_between_nodes_is_first_tried_wherever_it_is() {
        let order = all(&Simulated::small(), 1);
        let open = order
            .iter()
            .filter(|(when, _)| matches!(when, Trigger::Hit { node: None, .. }));
        let sites: BTreeSet<&str> = open.map(|(when, _)| site(when)).collect();
        assert_eq!(sites, BTreeSet::from([Simulated::ROAMING]));
    }

    #[test]
    fn only_enabled_faults_and_wanted_sites_come() {
        let mut target = Simulated::small();
        target.faults = vec![FaultKind::Delay];
        target.sites = regex::Regex::new("Log").ok();
        let order = all(&target, 1);
        assert!(!order.is_empty());
        for (when, fault) in order {
            assert!(matches!(fault, Fault::Delay { ms: 60_000 }), "{fault}");
            assert!(site(&when).contains("Log"), "{when}");
        }
    }

    #[test]
    fn middle_and_last_hits() {
        for (hits, expected) in [(1, vec![]), (2, vec![2]), (3, vec![2, 3]), (9, vec![5, 9])] {
            assert_eq!(later_hits(hits), expected, "{hits}");
        }
    }
}
