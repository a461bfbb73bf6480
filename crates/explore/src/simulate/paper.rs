//! The papers' pseudo-code, line by line, beside the policies that are made of it: on random
//! streams of requests both must decide alike.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use temblor_model::bug::FiredFault;
use temblor_model::campaign::StateLevel;
use temblor_model::catalog::GuardedBy;
use temblor_model::fnv64;
use temblor_model::plan::{Fault, Plan, Trigger};

use super::trial::{Agent, Request, visits};
use super::{NODES, Simulated, context, four_seconds, guard, state};

type Tuple = (usize, Option<u32>, Option<u32>);

/// Legolas, Algorithm 2.
#[derive(Default)]
struct Algorithm2 {
    rrl: VecDeque<Tuple>,
    visit: BTreeMap<Tuple, Info>,
    /// The states of `visit`, in the order in which they came.
    order: Vec<Tuple>,
    /// The states of this trial's requests.
    current: BTreeSet<Tuple>,
}

#[derive(Default)]
struct Info {
    budget: u32,
    occure: u64,
    prob: f64,
    /// Trials that had `occure`: the paper does not say over what it is counted.
    trials: u64,
    /// Trials on end that focused on it and injected nothing.
    in_vain: u32,
}

impl Info {
    /// The second half is not in the paper: see policy/bsrr.rs.
    fn is_used(&self) -> bool {
        self.budget == 0 || self.in_vain >= 5
    }
}

impl Algorithm2 {
    fn setup_new_trial(&mut self) {
        self.reset_if_all_used();
        while let Some(s) = self.rrl.pop_front() {
            let info = self.visit.get(&s);
            if info.is_none_or(|info| !info.is_used()) {
                self.rrl.push_back(s);
                break;
            }
        }
        while !self.rrl.is_empty() && self.visit[&self.rrl[0]].is_used() {
            self.rrl.pop_front();
        }
        for info in self.visit.values_mut() {
            let c = (info.occure as f64 / info.trials as f64).round();
            info.prob = 1.0 - (0.01f64.ln() / (c + 1.0)).exp();
        }
    }

    fn should_inject(&mut self, curr: Tuple, rand: f64) -> bool {
        let info = self.visit.entry(curr).or_insert_with(|| {
            self.order.push(curr);
            self.rrl.push_back(curr);
            Info {
                budget: 5,
                ..Info::default()
            }
        });
        self.current.insert(curr);
        info.occure += 1;
        if self.rrl[0] != curr {
            return false;
        }
        if info.budget > 0 && rand < info.prob {
            info.budget -= 1;
            return true;
        }
        false
    }

    fn reset_if_all_used(&mut self) {
        if self.visit.values().all(Info::is_used) {
            for info in self.visit.values_mut() {
                (info.budget, info.in_vain) = (5, 0);
            }
            self.rrl = self.order.iter().copied().collect();
        }
    }

    /// Whatever the paper leaves to be counted.
    fn learn(&mut self, focus: Option<Tuple>, injected: bool) {
        for tuple in std::mem::take(&mut self.current) {
            self.visit.get_mut(&tuple).unwrap().trials += 1;
        }
        if let Some(info) = focus.and_then(|f| self.visit.get_mut(&f)) {
            info.in_vain = if injected { 0 } else { info.in_vain + 1 };
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bsrr_is_algorithm_2(
        streams in prop::collection::vec(
            prop::collection::vec((0..2usize, 0..3u32, 0..3u32), 0..10), 1..120),
        seed in any::<u64>(),
        by_operation in any::<bool>(),
    ) {
        let mut target = paper_target(3);
        if by_operation {
            target.level = StateLevel::Operation;
        }
        let requests = |stream: &[(usize, u32, u32)]| -> Vec<Request> {
            let request = |&(node, state, site): &(usize, u32, u32)| Request {
                node,
                // The last stands for what runs outside all tasks.
                ..Request::new(site, &context("a1"), (state < 2).then_some(state))
            };
            stream.iter().map(request).collect()
        };
        let tuple = |r: &Request| (r.node, r.state, by_operation.then_some(r.site));
        let mut algorithm = Algorithm2::default();
        target.baseline.visits = visits(&requests(&streams[0]));
        let mut policy = target.policy("bsrr", seed);
        let mut is_baseline = true;
        for (n, stream) in streams.iter().enumerate() {
            let requests = requests(stream);
            let mut injected = false;
            algorithm.setup_new_trial();
            let focus = algorithm.rrl.front().copied();
            let plan = if is_baseline { None } else { policy.next() };
            if !is_baseline {
                let rate = focus.map(|f| algorithm.visit[&f].prob);
                prop_assert_eq!(plan.is_some(), focus.is_some());
                let Some(plan) = &plan else { return Ok(()) };
                compare(&target, plan, focus.unwrap(), rate.unwrap())?;
            }
            for (i, request) in requests.iter().enumerate() {
                let rand = uniform(&[seed, n as u64, i as u64]);
                // One injection a trial (§5.1): later requests are counted only.
                let rand = if injected { 1.0 } else { rand };
                injected |= algorithm.should_inject(tuple(request), rand);
            }
            algorithm.learn(focus, injected);
            if let Some(plan) = plan {
                let mut outcome = target.outcome(n as u64, &Plan::clean());
                outcome.visits = visits(&requests);
                outcome.fired.extend(injected.then(FiredFault::default));
                policy.learn(&plan, &outcome);
            }
            is_baseline = false;
        }
    }

    #[test]
    fn sieve_is_algorithm_1(
        streams in prop::collection::vec(
            prop::collection::vec((0..6u32, 0..4u32), 0..12), 1..80),
        seed in any::<u64>(),
    ) {
        let target = paper_target(6);
        let mut policy = target.policy("sieve", seed);
        let mut algorithm = Algorithm1::default();
        let mut dry = [0, 0];
        let mut last = None;
        for (n, stream) in streams.iter().enumerate() {
            let Some(plan) = policy.next() else {
                prop_assert_eq!(dry, [3, 3]);
                return Ok(());
            };
            let Fault::SiteDelay { sync_ms, timeout_percent } = &plan.steps[0].fault else {
                panic!("{plan}")
            };
            // The types take turns, until one of them is through.
            let fault_type = if sync_ms.is_some() { Type::Sync } else { Type::Timeout };
            prop_assert_ne!(sync_ms.is_some(), timeout_percent.is_some());
            let other = Type::ALL[1 - fault_type as usize];
            prop_assert!(last != Some(fault_type) || dry[other as usize] == 3);
            last = Some(fault_type);
            let dry = &mut dry[fault_type as usize];
            prop_assert!(*dry < 3);
            algorithm.is_injected = false;
            let mut agent = Agent::new(&target, &plan);
            let mut granted = None;
            for (site, stack) in stream {
                let request = Request::new(*site, &context(&stack.to_string()), None);
                let fires = agent.hit(&request, &[]);
                let here = types(*site).contains(&fault_type);
                let fault = (*site, fault_type);
                let delay = here.then(|| algorithm.schedule_fault_injection(fault, *stack));
                let delay = delay.flatten();
                prop_assert_eq!(fires, delay.is_some());
                if let Some(ms) = delay {
                    prop_assert_eq!(&agent.shots[0].fault, &Fault::Delay { ms });
                    granted = Some(request);
                }
            }
            *dry = if granted.is_some() { 0 } else { *dry + 1 };
            let mut outcome = target.outcome(n as u64, &Plan::clean());
            outcome.fired = agent.shots.iter().map(|shot| target.fired(shot)).collect();
            policy.learn(&plan, &outcome);
        }
    }
}

/// A type of faults in Algorithm 1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Type {
    Sync,
    Timeout,
}

impl Type {
    const ALL: [Type; 2] = [Type::Sync, Type::Timeout];
}

/// A point of one type.
type SieveFault = (u32, Type);

/// Sieve, Algorithm 1.
#[derive(Default)]
struct Algorithm1 {
    is_injected: bool,
    /// Contexts and faults.
    history_info: Vec<(u32, SieveFault)>,
}

impl Algorithm1 {
    fn schedule_fault_injection(&mut self, fault: SieveFault, context: u32) -> Option<u64> {
        if !self.check_request(fault, context) {
            return None;
        }
        self.is_injected = true;
        Some(match fault.1 {
            Type::Sync => 5 * 60 * 1000,
            Type::Timeout => 3 * 4_000 / 2,
        })
    }

    fn check_request(&mut self, cur_fault: SieveFault, cur_context: u32) -> bool {
        if self.is_injected {
            return false;
        }
        for (pre_context, pre_fault) in &self.history_info {
            if *pre_fault == cur_fault && *pre_context == cur_context {
                return false;
            }
        }
        self.history_info.push((cur_context, cur_fault));
        true
    }
}

/// Of each three sites, the first is one that others wait for, a timeout protects the second, and
/// both are true of the third.
fn types(site: u32) -> &'static [Type] {
    match site % 3 {
        0 => &Type::ALL[..1],
        1 => &Type::ALL[1..],
        _ => &Type::ALL,
    }
}

/// So many guarded sites, timeouts are of four seconds; two states.
fn paper_target(sites: u32) -> Simulated {
    let mut target = Simulated::bare();
    target.catalog.states = (0..2).map(state).collect();
    target.catalog.timeouts = vec![four_seconds()];
    for i in 0..sites {
        let site = target.guarded(&format!("x.S{i}.run()>x.Out.write#0"), 0);
        let guard = |of: &Type| match of {
            Type::Sync => guard(GuardedBy::Region(0)),
            Type::Timeout => guard(GuardedBy::Timeout(0)),
        };
        target.catalog.sites[site as usize].guards = types(i).iter().flat_map(guard).collect();
        target.group(vec![site]);
    }
    target.scripts = super::Scripts::new(&target.baseline, |_, _| (None, None), Vec::new());
    target
}

/// Whether a plan focuses on this state with this probability.
fn compare(
    target: &Simulated,
    plan: &Plan,
    (node, state, site): Tuple,
    prob: f64,
) -> Result<(), TestCaseError> {
    let Trigger::InState {
        state: planned_state,
        node: planned_node,
        site: planned_site,
        rate,
    } = &plan.steps[0].when
    else {
        return Err(TestCaseError::fail(plan.to_string()));
    };
    let catalog = &target.catalog;
    prop_assert_eq!(planned_node.as_deref(), Some(NODES[node]));
    let state = state.map(|s| &catalog.states[s as usize].name);
    prop_assert_eq!(planned_state.as_ref(), state);
    let site = site.map(|s| &catalog.sites[s as usize].name);
    prop_assert_eq!(planned_site.as_ref(), site);
    prop_assert!((rate - prob).abs() < 1e-6, "{} and {}", rate, prob);
    prop_assert_eq!(&plan.steps[0].fault, &Fault::Any);
    Ok(())
}

/// A number from 0 to 1 for these.
fn uniform(parts: &[u64]) -> f64 {
    let bytes: Vec<u8> = parts.iter().flat_map(|p| p.to_le_bytes()).collect();
    (fnv64(&bytes).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1u64 << 53) as f64
}
