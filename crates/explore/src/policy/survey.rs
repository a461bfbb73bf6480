//! `survey`: each site × each fault × each reached context, once: exhaustive, in an order of its own.
//!
//! The order makes a short campaign worth its trials. Rounds, each complete before the next:
//!
//! 1. a sample: one of each kind of fault per method, in its most frequent context, in steady
//!    state (the middle hit), the methods that only one node runs first: nobody else can make up
//!    for that node;
//! 2. one of each kind of fault per context, on one node, at the first hit;
//! 3. the same on the other nodes (a cluster's nodes are alike, so they come later);
//! 4. the same at the middle and the last hit of the baselines, on the first node;
//! 5. the same at these hits on the other nodes;
//! 6. the exceptions beyond the most general one, first hit, first node;
//! 7. all that is left, contexts and nodes that not every baseline reached among them.
//!
//! Within a round, sites take turns, in an order drawn from the seed. The first node of a context
//! is drawn among those that every baseline reached it on; where there is none, and where not all
//! nodes reach it (a leader's context, say: another run may elect another), the first round leaves
//! the node open, so that the fault is reached wherever the context shows up.

use std::collections::{BTreeMap, VecDeque};

use temblor_model::plan::{Fault, Plan, Trigger};
use temblor_model::site::SiteId;

use super::draw::Draw;
use super::space::{Context, contexts, plan};
use super::{Policy, Scope};

/// See the module.
pub struct Survey {
    plans: VecDeque<Plan>,
}

/// Rounds after the sample.
const ROUNDS: usize = 6;

/// One thing to try.
#[derive(Clone)]
struct Injection {
    when: Trigger,
    fault: Fault,
    /// Fit for the sample: the first node, in steady state.
    typical: bool,
    /// Only one node reaches the context.
    one_node: bool,
    /// How often baselines hit the context, on whichever node most.
    hits: u32,
}

/// Where an injection stands: round, site, and its place among the site's.
type Place = (usize, SiteId, usize);

/// One round: the injections of each site.
type Round = BTreeMap<SiteId, Vec<Injection>>;

impl Survey {
    pub fn new(scope: &Scope<'_>) -> Survey {
        let mut draw = Draw::new(scope.seed);
        let mut rounds: Vec<Round> = vec![Round::new(); ROUNDS];
        for context in contexts(scope) {
            let (first, more) = match context.sure {
                true => ([0, 1, 2, 3], [4, 5, 5, 5]),
                false => ([5; 4], [5; 4]),
            };
            for fault in &context.faults {
                spread(&context, fault, first, &mut draw, &mut rounds);
            }
            for fault in &context.more {
                spread(&context, fault, more, &mut draw, &mut rounds);
            }
        }
        let mut order = sample(&mut rounds, &mut draw);
        for round in rounds {
            order.extend(take_turns(round, &mut draw));
        }
        let planned = |i: Injection| plan(draw.plan_seed(), i.when, i.fault);
        Survey {
            plans: order.into_iter().map(planned).collect(),
        }
    }
}

/// Takes one typical injection per method and kind of fault out of the rounds.
fn sample(rounds: &mut [Round], draw: &mut Draw) -> Vec<Injection> {
    let mut groups: BTreeMap<(bool, String), Vec<Place>> = BTreeMap::new();
    for (r, round) in rounds.iter().enumerate() {
        for (site, injections) in round {
            for (i, injection) in injections.iter().enumerate().filter(|(_, i)| i.typical) {
                let Trigger::Hit { site: name, .. } = &injection.when else {
                    continue;
                };
                let method = name.split('>').next().unwrap_or(name);
                let group = format!("{method} {}", injection.fault.label());
                groups
                    .entry((!injection.one_node, group))
                    .or_default()
                    .push((r, *site, i));
            }
        }
    }
    let mut chosen: Vec<(bool, Place)> = Vec::new();
    for ((shared, _), mut places) in groups {
        let hits = |&(r, site, i): &Place| rounds[r][&site][i].hits;
        let most = places.iter().map(hits).max();
        places.retain(|place| Some(hits(place)) == most);
        chosen.push((shared, places[draw.below(places.len())]));
    }
    draw.shuffle(&mut chosen);
    chosen.sort_by_key(|(shared, _)| *shared);
    let taken = |&(_, (r, site, i)): &(bool, Place)| rounds[r][&site][i].clone();
    let order: Vec<Injection> = chosen.iter().map(taken).collect();
    // From the back, so that the places before stay where they are.
    let mut places: Vec<_> = chosen.into_iter().map(|(_, place)| place).collect();
    places.sort_unstable_by(|a, b| b.cmp(a));
    for (r, site, i) in places {
        rounds[r].entry(site).or_default().remove(i);
    }
    order
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
        .filter(|&i| context.nodes[i].always && !context.roams)
        .collect();
    // Where no node is sure to reach it, those that most runs saw there.
    let most_runs = context.nodes.iter().map(|n| n.runs).max().unwrap_or(0);
    let likely: Vec<usize> = (0..context.nodes.len())
        .filter(|&i| steady.is_empty() && context.nodes[i].runs == most_runs)
        .chain(steady.iter().copied())
        .collect();
    let chosen = likely[draw.below(likely.len())];
    let one_node = context.nodes.len() == 1;
    let most_hits = context.nodes.iter().map(|n| n.hits).max().unwrap_or(1);
    let mut put = |round: usize, node: Option<&str>, nth: u32, typical: bool| {
        let when = Trigger::Hit {
            site: context.site.clone(),
            node: node.map(str::to_owned),
            stack: Some(context.stack.clone()),
            state: None,
            nth,
        };
        let injections = rounds[round].entry(context.site_id).or_default();
        injections.push(Injection {
            when,
            fault: fault.clone(),
            typical,
            one_node,
            hits: most_hits,
        });
    };
    let sampled = first == 0;
    if steady.is_empty() {
        put(first, None, 1, sampled);
    }
    for (i, on_node) in context.nodes.iter().enumerate() {
        let node = Some(on_node.node.as_str());
        let is_first = i == chosen && !steady.is_empty();
        let hits = later_hits(on_node.hits);
        // A node that some clean runs did not see there will not be there in some trials either.
        let other = |round: usize| if on_node.always { round } else { ROUNDS - 1 };
        let round = if is_first { first } else { other(others) };
        put(round, node, 1, sampled && is_first && hits.is_empty());
        let round = if i == chosen {
            later
        } else {
            other(others_later)
        };
        for (k, nth) in hits.into_iter().enumerate() {
            put(round, node, nth, sampled && is_first && k == 0);
        }
    }
}

/// The first of the second half and the last of `hits`, where they are not the first of all.
fn later_hits(hits: u32) -> Vec<u32> {
    let mut nths = vec![hits / 2 + 1, hits];
    nths.retain(|&nth| nth > 1);
    nths.dedup();
    nths
}

/// One injection of each site in turn, until all are taken.
fn take_turns(round: Round, draw: &mut Draw) -> Vec<Injection> {
    let mut queues: Vec<Vec<Injection>> = round.into_values().collect();
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

impl Policy for Survey {
    fn next(&mut self) -> Option<Plan> {
        self.plans.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use temblor_model::history::Reached;

    use super::*;
    use crate::policy::FaultKind;
    use crate::simulate::Simulated;

    fn all(target: &Simulated, seed: u64) -> Vec<(Trigger, Fault)> {
        let mut policy = target.policy("survey", seed);
        let plans = std::iter::from_fn(|| policy.next());
        plans
            .map(|mut plan| plan.steps.remove(0))
            .map(|step| (step.when, step.fault))
            .collect()
    }

    fn site(when: &Trigger) -> &str {
        let Trigger::Hit { site, .. } = when else {
            panic!("survey plans hits only: {when}");
        };
        site
    }

    #[test]
    fn nothing_comes_twice_and_it_ends() {
        let order = all(&Simulated::small(), 1);
        let distinct: BTreeSet<String> = order.iter().map(|(w, f)| format!("{w} {f}")).collect();
        assert_eq!(distinct.len(), order.len());
    }

    fn group(when: &Trigger, fault: &Fault) -> String {
        format!(
            "{} {}",
            site(when).split('>').next().unwrap(),
            fault.label()
        )
    }

    #[test]
    fn the_sample_has_each_method_and_kind_of_fault_once() {
        let order = all(&Simulated::small(), 1);
        let rare = |f: &Fault| matches!(f, Fault::Throw { exception } if exception == "x.Rare");
        let common = order.iter().filter(|(_, f)| !rare(f));
        let groups: BTreeSet<String> = common.map(|(w, f)| group(w, f)).collect();
        let first: BTreeSet<String> = order[..groups.len()]
            .iter()
            .map(|(w, f)| group(w, f))
            .collect();
        assert_eq!(first, groups);
    }

    #[test]
    fn the_sample_is_taken_in_steady_state() {
        let target = Simulated::small();
        let hits = |site: &str| {
            let reached = target.baseline.reached.iter();
            let of_site = reached.filter(|r| target.catalog.sites[r.site as usize].name == site);
            of_site.map(|r| r.hits).max().unwrap_or(0)
        };
        let order = all(&target, 1);
        let groups: BTreeSet<String> = order.iter().map(|(w, f)| group(w, f)).collect();
        for (when, _) in &order[..groups.len() / 2] {
            let Trigger::Hit {
                site, node, nth, ..
            } = when
            else {
                panic!("{when}")
            };
            assert!(hits(site) <= 1 || *nth > 1 || node.is_none(), "{when}");
        }
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
    fn hits_of_the_start_can_be_left_out() {
        let target = Simulated::small();
        let scope = Scope {
            working: true,
            ..target.scope(1)
        };
        let mut policy = Survey::new(&scope);
        let mut count = 0;
        while let Some(plan) = policy.next() {
            let Trigger::Hit { site, nth, .. } = &plan.steps[0].when else {
                panic!("{plan:?}")
            };
            let of_site = |r: &&Reached| target.catalog.sites[r.site as usize].name == *site;
            let reached = target.baseline.reached.iter().filter(of_site);
            let left = reached.map(|r| r.least - r.early).max();
            assert!(left.is_some_and(|left| *nth <= left), "{plan:?}");
            count += 1;
        }
        assert!(count > 50);
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
