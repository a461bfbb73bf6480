//! `chronos`: deep-priority delays at timeouts, as Sieve §6.2 describes its rival. Several delays
//! a trial, at I/O that a timeout protects; what only shows up after delays, and deep, is delayed
//! next. It never ends.
//!
//! Readings, where the paper is open:
//!
//! - Points are sites. Six are drawn of those that clean runs come to: others would not be reached
//!   by themselves.
//! - A point's depth is the number of other points that the trial came to before it. Selected
//!   points that a trial does not come to have none and do not count for the mean.
//! - New points are deep when the mean of their depths is larger than that of the selected ones.
//!   They are followed with the selection that showed them, which thereby grows, up to a limit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use temblor_model::bug::Outcome;
use temblor_model::plan::{Among, Fault, Plan, Step, Trigger};
use temblor_model::site::SiteId;
use temblor_model::visit::Visit;

use super::draw::Draw;
use super::space::is_wanted;
use super::{Policy, Scope};
use crate::delays;

/// Points that are drawn.
const DRAWN: usize = 6;
/// Points that one plan delays at most.
const MOST: usize = 32;

/// Of the timeout, as Sieve's delays.
const TIMEOUT_PERCENT: u32 = 150;

/// See the module.
pub struct Chronos {
    /// Timed sites in scope, with their names.
    names: BTreeMap<SiteId, String>,
    /// Of these, what clean runs come to.
    usual: Vec<SiteId>,
    /// What any run came to.
    seen: BTreeSet<SiteId>,
    /// Selections to go on with.
    deeper: VecDeque<Vec<SiteId>>,
    /// The selection of each plan that was not learned from yet.
    unlearned: VecDeque<Vec<SiteId>>,
    fault: Fault,
    draw: Draw,
}

impl Chronos {
    pub fn new(scope: &Scope<'_>) -> Chronos {
        let fault = Fault::SiteDelay {
            sync_ms: None,
            timeout_percent: Some(TIMEOUT_PERCENT),
        };
        let timed = scope.catalog.among(Among::Timed).into_iter();
        let names = timed
            .filter(|site| is_wanted(site, scope))
            .filter(|site| delays::of_site(&fault, site, Some(scope.baseline)).is_some())
            .map(|site| (site.id, site.name.clone()))
            .collect();
        let mut usual = order(&names, &scope.baseline.visits);
        usual.sort_unstable();
        Chronos {
            seen: usual.iter().copied().collect(),
            names,
            usual,
            deeper: VecDeque::new(),
            unlearned: VecDeque::new(),
            fault,
            draw: Draw::new(scope.seed),
        }
    }

    fn drawn(&mut self) -> Vec<SiteId> {
        let mut points = self.usual.clone();
        self.draw.shuffle(&mut points);
        points.truncate(DRAWN);
        points
    }
}

/// The points that a run came to, in the order in which it first did: a point's place is its depth.
fn order(names: &BTreeMap<SiteId, String>, visits: &[Visit]) -> Vec<SiteId> {
    let timed = visits.iter().filter(|v| names.contains_key(&v.site));
    let mut firsts: Vec<(u32, SiteId)> = timed.map(|v| (v.first, v.site)).collect();
    firsts.sort_unstable();
    let mut met = BTreeSet::new();
    firsts.retain(|(_, site)| met.insert(*site));
    firsts.into_iter().map(|(_, site)| site).collect()
}

/// The mean depth of those of `points` that are in the order; 0 of none.
fn mean_depth(order: &[SiteId], points: &[SiteId]) -> f64 {
    let of_points = order.iter().enumerate().filter(|(_, s)| points.contains(s));
    let depths: Vec<usize> = of_points.map(|(depth, _)| depth).collect();
    depths.iter().sum::<usize>() as f64 / depths.len().max(1) as f64
}

impl Policy for Chronos {
    fn next(&mut self) -> Option<Plan> {
        let points = match self.deeper.pop_front() {
            Some(points) => points,
            None => self.drawn(),
        };
        if points.is_empty() {
            return None;
        }
        let sites = points.iter().map(|id| self.names[id].clone()).collect();
        let step = Step {
            when: Trigger::AnyOf { sites },
            fault: self.fault.clone(),
        };
        let plan = Plan {
            seed: self.draw.plan_seed(),
            steps: vec![step; points.len()],
            ..Plan::clean()
        };
        self.unlearned.push_back(points);
        Some(plan)
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, _: &Plan, outcome: &Outcome) {
        let Some(mut points) = self.unlearned.pop_front() else {
            return;
        };
        let order = order(&self.names, &outcome.visits);
        let is_new = |site: &&SiteId| !self.seen.contains(site);
        let new: Vec<SiteId> = order.iter().filter(is_new).copied().collect();
        self.seen.extend(&new);
        let is_deep = mean_depth(&order, &new) > mean_depth(&order, &points);
        let room = MOST.saturating_sub(points.len());
        if is_deep && !new.is_empty() && room > 0 {
            points.extend(new.into_iter().take(room));
            self.deeper.push_back(points);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Simulated;

    fn sites(plan: &Plan) -> Vec<String> {
        let Trigger::AnyOf { sites } = &plan.steps[0].when else {
            panic!("{plan}")
        };
        assert_eq!(sites.len(), plan.steps.len());
        assert!(plan.steps.iter().all(|step| *step == plan.steps[0]));
        sites.clone()
    }

    /// What follows a trial that comes to the selected points and, `before` so many of them, to
    /// one that is new.
    fn following(before: usize) -> (Vec<String>, Vec<String>) {
        let target = Simulated::rich();
        let mut policy = target.policy("chronos", 3);
        let plan = policy.next().unwrap();
        let selected = sites(&plan);
        let id = |name: &String| target.catalog.by_name(name).unwrap().id;
        let new = target
            .catalog
            .sites
            .iter()
            .find(|s| s.name.contains("Late1"));
        let mut order: Vec<SiteId> = selected.iter().map(id).collect();
        order.insert(selected.len() - before, new.unwrap().id);
        let mut outcome = target.outcome(1, &Plan::clean());
        let visit = |(first, site)| Visit {
            node: "n1".into(),
            state: None,
            site,
            hits: 1,
            first,
            in_memory: false,
        };
        outcome.visits = (0..).zip(order).map(visit).collect();
        policy.learn(&plan, &outcome);
        (selected, sites(&policy.next().unwrap()))
    }

    #[test]
    fn a_new_point_that_lies_deep_is_delayed_with_those_that_showed_it() {
        for before in [0, 2] {
            let (selected, next) = following(before);
            assert_eq!(next[..DRAWN], selected);
            assert!(next[DRAWN..].iter().all(|s| s.contains("Late1")) && next.len() == 7);
        }
    }

    #[test]
    fn after_a_new_point_that_does_not_lie_deep_others_are_drawn() {
        for before in [4, 6] {
            let (selected, next) = following(before);
            assert!(next.len() == DRAWN && next != selected);
            assert!(next.iter().all(|s| s.contains("Wait")));
        }
    }

    #[test]
    fn only_wanted_points_are_drawn_and_fewer_where_there_are_no_six() {
        let mut target = Simulated::rich();
        target.sites = regex::Regex::new("Wait1[0-3]").ok();
        let mut policy = target.policy("chronos", 3);
        let mut drawn = sites(&policy.next().unwrap());
        drawn.sort();
        assert!(drawn.len() == 4 && drawn.iter().all(|s| s.contains("Wait1")));
    }
}
