//! `pairs`: two faults in one trial, the second while the cluster deals with the first.
//!
//! Beyond the papers, which inject one fault a trial. First faults are those of `survey`, in its
//! order. Each is followed by a bunch of second ones, and then comes back with more of them when
//! all others had their turn. The second fault strikes at the next hit of a site, wherever that
//! is: what runs while a cluster recovers is not known beforehand. Sites that clean runs reach
//! rarely come first: steady work reaches the others anyway.
//!
//! The plans of a bunch share their first step, so it runs once, and the cluster is forked there.

use std::collections::VecDeque;

use temblor_model::plan::{Fault, Plan, Step, Trigger};

use super::draw::Draw;
use super::space::contexts;
use super::survey::Survey;
use super::{Policy, Scope};

/// Second faults for one first fault, each time it comes.
const BUNCH: usize = 8;
/// First faults that take turns.
const FIRSTS: usize = 60;

/// See the module.
pub struct Pairs {
    firsts: VecDeque<First>,
    seconds: Vec<Step>,
    /// What is left of the bunch that was begun.
    bunch: VecDeque<Plan>,
}

/// A first fault and how many second ones it had.
struct First {
    plan: Plan,
    done: usize,
    /// Where it begins in the list of second ones, so that not all begin with the same.
    offset: usize,
}

impl Pairs {
    pub fn new(scope: &Scope<'_>) -> Pairs {
        let mut draw = Draw::new(scope.seed);
        let seconds = seconds(scope, &mut draw);
        let mut survey = Survey::new(scope);
        let firsts = std::iter::from_fn(|| survey.next()).take(FIRSTS);
        let firsts = firsts.map(|plan| First {
            plan,
            done: 0,
            offset: draw.below(seconds.len().max(1)),
        });
        Pairs {
            firsts: firsts.collect(),
            seconds,
            bunch: VecDeque::new(),
        }
    }
}

/// One fault of each kind per site, those that are hit rarely first.
fn seconds(scope: &Scope<'_>, draw: &mut Draw) -> Vec<Step> {
    let mut sites: Vec<(u32, Step)> = Vec::new();
    for context in contexts(scope) {
        let hits: u32 = context.nodes.iter().map(|n| n.hits).sum();
        for fault in &context.faults {
            let when = Trigger::Hit {
                site: context.site.clone(),
                node: None,
                stack: None,
                state: None,
                nth: 1,
            };
            let step = Step {
                when,
                fault: fault.clone(),
            };
            match sites.iter_mut().find(|(_, known)| *known == step) {
                Some((most, _)) => *most = hits.max(*most),
                None => sites.push((hits, step)),
            }
        }
    }
    draw.shuffle(&mut sites);
    // By magnitude only, so that the seed still mixes sites and faults.
    sites.sort_by_key(|(hits, _)| hits.ilog2());
    sites.into_iter().map(|(_, step)| step).collect()
}

impl Policy for Pairs {
    fn next(&mut self) -> Option<Plan> {
        if let Some(plan) = self.bunch.pop_front() {
            return Some(plan);
        }
        let mut first = self.firsts.pop_front()?;
        let left = self.seconds.len().saturating_sub(first.done).min(BUNCH);
        for i in 0..left {
            let at = (first.offset + first.done + i) % self.seconds.len();
            let mut plan = first.plan.clone();
            let second = self.seconds[at].clone();
            // Of a crash and the restart after it, the second fault comes in between: who is left
            // is alone, and who comes back finds what it left.
            let place = if second.fault == Fault::Crash {
                plan.steps.len()
            } else {
                1
            };
            plan.steps.insert(place, second);
            self.bunch.push_back(plan);
        }
        first.done += left;
        if first.done < self.seconds.len() {
            self.firsts.push_back(first);
        }
        match left {
            0 => None,
            _ => self.next(),
        }
    }

    /// The first fault.
    fn shared(&self, plan: &Plan) -> usize {
        usize::from(plan.steps.len() > 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::simulate::Simulated;

    fn plans(count: usize) -> Vec<Plan> {
        let target = Simulated::small();
        let mut policy = target.policy("pairs", 3);
        std::iter::from_fn(|| policy.next()).take(count).collect()
    }

    #[test]
    fn a_bunch_shares_its_first_step_and_differs_in_the_rest() {
        let plans = plans(10 * BUNCH);
        let policy = Simulated::small().policy("pairs", 3);
        for bunch in plans.chunks(BUNCH) {
            let first = &bunch[0].steps[0];
            assert!(
                bunch
                    .iter()
                    .all(|p| p.steps[0] == *first && policy.shared(p) == 1)
            );
            let rest: BTreeSet<String> = bunch
                .iter()
                .map(|p| format!("{:?}", p.steps[1..].to_vec()))
                .collect();
            assert_eq!(rest.len(), BUNCH);
        }
        let firsts: BTreeSet<String> = plans.iter().map(|p| format!("{:?}", p.steps[0])).collect();
        assert!(
            firsts.len() >= 9,
            "first faults take turns: {}",
            firsts.len()
        );
    }

    #[test]
    fn it_ends_and_nothing_comes_twice() {
        let plans = plans(usize::MAX);
        let distinct: BTreeSet<String> = plans.iter().map(|p| format!("{:?}", p.steps)).collect();
        assert!(plans.len() > 1_000 && distinct.len() == plans.len());
    }

    #[test]
    fn a_second_crash_comes_when_the_first_victim_is_back() {
        let is_crash = |s: &Step| s.fault == Fault::Crash;
        let twice: Vec<Plan> = plans(usize::MAX)
            .into_iter()
            .filter(|p| p.steps.iter().filter(|s| is_crash(s)).count() == 2)
            .collect();
        assert!(!twice.is_empty());
        for plan in twice {
            assert!(
                matches!(plan.steps[1].fault, Fault::Restart { .. }),
                "{plan:?}"
            );
        }
    }
}
