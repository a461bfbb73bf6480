//! What the papers say of their other policies in words, read plainly, beside the policies that are
//! made of it: on random streams of requests both must decide alike.

use std::collections::BTreeSet;

use proptest::prelude::*;
use temblor_model::catalog::GuardedBy;
use temblor_model::plan::{Plan, Trigger};
use temblor_model::site::SiteId;

use super::trial::{Agent, Request, visits};
use super::{Scripts, Simulated, context, four_seconds, guard, meta_access, state};

/// Sites of the target; its groups have two each.
const SITES: u32 = 6;
/// Timed sites of the target for `chronos`, and those of them that clean runs come to.
const TIMED: u32 = 14;
const USUAL: u32 = 9;

/// What a request is in the eyes of a policy that goes by what is new; none is no matter to it.
fn thing(name: &str, request: &Request) -> Option<String> {
    let Request {
        node,
        site,
        stack,
        state,
        access,
        ..
    } = request;
    match name {
        // Legolas §4.3: inject if the node enters an abstract state that was not injected in yet.
        "new-state" => Some(format!("{node} {state:?}")),
        // Legolas §7.4: a failure ID is a location with its stack.
        "fate" => Some(format!("{site} {stack}")),
        // Legolas §7.4: an access of meta-info was just before.
        "crashtuner" => access.map(|access| access.to_string()),
        // Sieve §4.3: the last of a basic block's sites stands for all; §4.4: each context.
        "sieve" => (site % 2 == 1).then(|| format!("{site} {stack}")),
        // Sieve §6.2: no grouping; no contexts.
        "sieve-s" => Some(format!("{site} {stack}")),
        "sieve-i" => Some(site.to_string()),
        other => panic!("{other} does not go by what is new"),
    }
}

fn target() -> Simulated {
    let mut target = Simulated::bare();
    target.catalog.states = (0..2).map(state).collect();
    target.catalog.meta_accesses = (0..3).map(meta_access).collect();
    for i in 0..SITES {
        target.guarded(&format!("x.S{i}.run()>x.Out.write#0"), 0);
    }
    (0..SITES / 2).for_each(|i| target.group(vec![2 * i, 2 * i + 1]));
    target.scripts = Scripts::new(&target.baseline, |_, _| (None, None), Vec::new());
    target
}

/// All of its sites are timed.
fn timed_target() -> Simulated {
    let mut target = Simulated::bare();
    target.catalog.timeouts = vec![four_seconds()];
    for i in 0..TIMED {
        let site = target.guarded(&format!("x.S{i}.run()>x.In.read#0"), 0);
        target.catalog.sites[site as usize].guards = guard(GuardedBy::Timeout(0));
    }
    target.scripts = Scripts::new(&target.baseline, |_, _| (None, None), Vec::new());
    target
}

/// Node, site, stack, state and access; the last state and the last access are none.
type Raw = (usize, u32, u32, u32, u32);

fn request((node, site, stack, state, access): Raw) -> Request {
    Request {
        node,
        access: (access < 3).then_some(access),
        ..Request::new(
            site,
            &context(&stack.to_string()),
            (state < 2).then_some(state),
        )
    }
}

/// Points in the order in which the run first comes to them.
fn path(requests: &[Request]) -> Vec<SiteId> {
    let mut path = Vec::new();
    for request in requests {
        if !path.contains(&request.site) {
            path.push(request.site);
        }
    }
    path
}

/// The mean of their depths, of those that the run came to: the points that precede each.
fn mean_depth(path: &[SiteId], points: &[SiteId]) -> f64 {
    let depths = points
        .iter()
        .filter_map(|p| path.iter().position(|q| q == p));
    let depths: Vec<f64> = depths.map(|depth| depth as f64).collect();
    depths.iter().sum::<f64>() / depths.len().max(1) as f64
}

fn points(target: &Simulated, plan: &Plan) -> Vec<SiteId> {
    let Trigger::AnyOf { sites } = &plan.steps[0].when else {
        panic!("{plan}")
    };
    let id = |name: &String| target.catalog.by_name(name).unwrap().id;
    sites.iter().map(id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_new_thing_gets_one_fault_as_soon_as_a_trial_comes_to_it(
        streams in prop::collection::vec(
            prop::collection::vec((0..2usize, 0..SITES, 0..3u32, 0..3u32, 0..5u32), 0..12), 1..60),
        name in prop::sample::select(
            vec!["new-state", "fate", "crashtuner", "sieve", "sieve-s", "sieve-i"]),
        seed in any::<u64>(),
    ) {
        let target = target();
        let mut policy = target.policy(name, seed);
        let mut injected = BTreeSet::new();
        let mut dry = 0;
        for (n, stream) in streams.iter().enumerate() {
            let plan = policy.next();
            prop_assert_eq!(plan.is_none(), dry == 3, "three trials in vain are the end");
            let Some(plan) = plan else { return Ok(()) };
            let mut agent = Agent::new(&target, &plan);
            let mut granted = false;
            for request in stream.iter().map(|raw| request(*raw)) {
                let new = thing(name, &request).filter(|t| !granted && !injected.contains(t));
                prop_assert_eq!(agent.hit(&request, &[]), new.is_some(), "{:?}", request);
                granted |= new.is_some();
                injected.extend(new);
            }
            dry = if granted { 0 } else { dry + 1 };
            let mut outcome = target.outcome(n as u64, &Plan::clean());
            outcome.fired = agent.shots.iter().map(|shot| target.fired(shot)).collect();
            policy.learn(&plan, &outcome);
        }
    }

    /// Sieve §6.2: six random points; new points that lie deeper than the selected ones on average
    /// are delayed next, with these; else six are selected again.
    #[test]
    fn chronos_goes_where_delays_lead_deeper(
        streams in prop::collection::vec(prop::collection::vec(0..TIMED, 0..20), 1..60),
        seed in any::<u64>(),
    ) {
        let mut target = timed_target();
        let requests = |stream: &mut dyn Iterator<Item = u32>| -> Vec<Request> {
            stream.map(|site| Request::new(site, &context("a1"), None)).collect()
        };
        target.baseline.visits = visits(&requests(&mut (0..USUAL)));
        let mut seen: BTreeSet<SiteId> = (0..USUAL).collect();
        let mut policy = target.policy("chronos", seed);
        let mut deeper: Option<Vec<SiteId>> = None;
        for (n, stream) in streams.iter().enumerate() {
            let plan = policy.next().unwrap();
            let selected = points(&target, &plan);
            match deeper.take() {
                Some(deeper) => prop_assert_eq!(&selected, &deeper),
                None => {
                    let distinct: BTreeSet<&SiteId> = selected.iter().collect();
                    prop_assert_eq!((selected.len(), distinct.len()), (6, 6));
                    prop_assert!(selected.iter().all(|point| *point < USUAL));
                }
            }
            let requests = requests(&mut stream.iter().copied());
            let path = path(&requests);
            let new: Vec<SiteId> = path.iter().filter(|p| !seen.contains(p)).copied().collect();
            seen.extend(&new);
            if !new.is_empty() && mean_depth(&path, &new) > mean_depth(&path, &selected) {
                deeper = Some([selected, new].concat());
            }
            let mut outcome = target.outcome(n as u64, &Plan::clean());
            outcome.visits = visits(&requests);
            policy.learn(&plan, &outcome);
        }
    }
}
