//! What Legolas §7.3 measured itself against, as its released program has it. [`Survey`] and
//! [`Scatter`] are these with an order, and with a choice, that make short campaigns worth running.
//!
//! - `exhaustive`: each hit of each context on each node, in the order in which a clean run first
//!   comes to the site; with each kind of fault. The released program counts the hits of a place,
//!   but injects at the first one each time; the paper's word is exhaustive, so here each hit has
//!   its turn.
//! - `random`: every hit of a trial is granted a fault with a probability of 1 %, until one is.
//!
//! [`Survey`]: super::Survey
//! [`Scatter`]: super::Scatter

use std::collections::BTreeMap;

use temblor_model::plan::{Fault, Plan, Trigger};

use super::draw::Draw;
use super::space::{Context, contexts, plan, requesting};
use super::{Policy, Scope};

/// The probability of a hit's fault.
const RATE: f64 = 0.01;

/// See the module.
pub struct Exhaustive {
    contexts: Vec<Context>,
    /// Every (context, node), as indices, in order.
    places: std::vec::IntoIter<(usize, usize)>,
    /// The place whose turn it is, and the hit and the fault that are next there.
    current: Option<(usize, usize)>,
    hit: u32,
    fault: usize,
    draw: Draw,
}

impl Exhaustive {
    pub fn new(scope: &Scope<'_>) -> Exhaustive {
        let mut first: BTreeMap<_, u32> = BTreeMap::new();
        for visit in &scope.baseline.visits {
            let of_site = first.entry((visit.site, visit.node.as_str()));
            let of_site = of_site.or_insert(visit.first);
            *of_site = visit.first.min(*of_site);
        }
        let contexts = contexts(scope);
        let on_nodes = |(i, c): (usize, &Context)| (0..c.nodes.len()).map(move |n| (i, n));
        let mut places: Vec<_> = contexts.iter().enumerate().flat_map(on_nodes).collect();
        // What no visit tells of comes last.
        places.sort_by_key(|&(i, n)| {
            let of_site = first.get(&(contexts[i].site_id, contexts[i].nodes[n].node.as_str()));
            of_site.copied().unwrap_or(u32::MAX)
        });
        let mut places = places.into_iter();
        Exhaustive {
            current: places.next(),
            places,
            contexts,
            hit: 1,
            fault: 0,
            draw: Draw::new(scope.seed),
        }
    }
}

impl Policy for Exhaustive {
    fn next(&mut self) -> Option<Plan> {
        let (i, n) = self.current?;
        let context = &self.contexts[i];
        let node = &context.nodes[n];
        let when = Trigger::Hit {
            site: context.site.clone(),
            node: Some(node.node.clone()),
            stack: Some(context.stack.clone()),
            state: None,
            nth: self.hit,
        };
        let fault = context.faults[self.fault].clone();
        self.fault += 1;
        if self.fault == context.faults.len() {
            (self.fault, self.hit) = (0, self.hit + 1);
        }
        if self.hit > node.hits {
            (self.hit, self.current) = (1, self.places.next());
        }
        Some(plan(self.draw.plan_seed(), when, fault))
    }
}

/// See the module.
pub struct Random {
    anything: bool,
    draw: Draw,
}

impl Random {
    pub fn new(scope: &Scope<'_>) -> Random {
        Random {
            anything: requesting(scope).contains(&true),
            draw: Draw::new(scope.seed),
        }
    }
}

impl Policy for Random {
    fn next(&mut self) -> Option<Plan> {
        let when = Trigger::Random {
            rate: RATE,
            node: None,
        };
        let plan = Plan::single(self.draw.plan_seed(), when, Fault::Any);
        self.anything.then_some(plan)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::simulate::{Campaign, Simulated};

    #[test]
    fn every_hit_has_its_turn_in_the_order_of_a_clean_run() {
        let target = Simulated::rich();
        let mut policy = target.policy("exhaustive", 1);
        let visits = &target.baseline.visits;
        let mut seen = BTreeSet::new();
        let mut last = 0;
        let mut before: Option<(String, String, u32)> = None;
        while let Some(plan) = policy.next() {
            let step = &plan.steps[0];
            assert!(
                seen.insert(format!("{} {}", step.when, step.fault)),
                "{plan}"
            );
            let Trigger::Hit {
                site,
                node,
                stack,
                nth,
                ..
            } = &step.when
            else {
                panic!("{plan}")
            };
            let id = target.catalog.by_name(site).unwrap().id;
            let of_site =
                |v: &&temblor_model::visit::Visit| v.site == id && Some(&v.node) == node.as_ref();
            let first = visits.iter().filter(of_site).map(|v| v.first).min();
            let first = first.unwrap_or(u32::MAX);
            assert!(first >= last, "{plan}: {first} after {last}");
            last = first;
            let place = (format!("{site} {node:?}"), stack.clone().unwrap(), *nth);
            if let Some(before) = before.filter(|b| (&b.0, &b.1) == (&place.0, &place.1)) {
                assert!(*nth == before.2 || *nth == before.2 + 1, "{plan}");
            }
            before = Some(place);
        }
        let hits = contexts(&target.scope(1)).into_iter().map(|c| {
            let hits: u32 = c.nodes.iter().map(|n| n.hits).sum();
            hits as usize * c.faults.len()
        });
        assert_eq!(seen.len(), hits.sum::<usize>());
    }

    /// That is why it is no match: all it sees is how a cluster starts.
    #[test]
    fn chance_strikes_early() {
        let target = Simulated::rich();
        let mut campaign = Campaign::new(&target, "random", 3, 1);
        campaign.go(600);
        let all: u32 = target.baseline.visits.iter().map(|v| v.hits).sum();
        let fired = campaign.trials.iter().filter(|(_, o)| !o.fired.is_empty());
        let expected = 600.0 * (1.0 - (1.0 - RATE).powi(all as i32));
        let fired = fired.count() as f64;
        assert!((fired - expected).abs() < 60.0, "{fired}, not {expected}");
    }

    #[test]
    fn nothing_reached_or_nothing_to_inject_is_nothing_to_try() {
        let mut target = Simulated::small().unreached();
        assert_eq!(target.policy("exhaustive", 1).next(), None);
        target.faults.clear();
        assert_eq!(target.policy("random", 1).next(), None);
    }
}
