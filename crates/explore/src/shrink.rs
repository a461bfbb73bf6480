//! Smaller plans that might show the same bug: fewer faults, weaker faults, simpler conditions,
//! less work.

use temblor_model::plan::{Fault, Plan, Step, Trigger};

/// Delays and pauses are not halved below this, virtual milliseconds.
const LEAST_DELAY_MS: u64 = 1_000;

/// A workload is not cut below this, percent.
const LEAST_LOAD: u8 = 20;

/// Plans one step smaller than `plan`, the largest change first: whole steps gone, then open
/// conditions (the first hit, any context, any node), then halved delays, then half the work.
/// Every candidate is strictly smaller, so taking the first that still fails, again and again,
/// comes to an end. `can_do_less`: the target's workload heeds the plan's `load`.
pub fn shrink_candidates(plan: &Plan, can_do_less: bool) -> Vec<Plan> {
    let mut candidates = Vec::new();
    let many = plan.steps.len() > 1;
    for i in (0..plan.steps.len()).filter(|_| many) {
        let mut smaller = plan.clone();
        smaller.steps.remove(i);
        candidates.push(smaller);
    }
    for change in [first_hit, any_context, any_node, shorter] {
        for i in 0..plan.steps.len() {
            let mut smaller = plan.clone();
            if change(&mut smaller.steps[i]) {
                candidates.push(smaller);
            }
        }
    }
    if can_do_less && plan.load / 2 >= LEAST_LOAD {
        let mut smaller = plan.clone();
        smaller.load /= 2;
        candidates.push(smaller);
    }
    candidates
}

fn first_hit(step: &mut Step) -> bool {
    match &mut step.when {
        Trigger::Hit { nth, .. } if *nth > 1 => {
            *nth = 1;
            true
        }
        _ => false,
    }
}

fn any_context(step: &mut Step) -> bool {
    match &mut step.when {
        Trigger::Hit { stack, state, .. } => stack.take().is_some() | state.take().is_some(),
        _ => false,
    }
}

fn any_node(step: &mut Step) -> bool {
    match &mut step.when {
        Trigger::Hit { node, .. } | Trigger::Random { node, .. } => node.take().is_some(),
        _ => false,
    }
}

fn shorter(step: &mut Step) -> bool {
    match &mut step.fault {
        Fault::Delay { ms } | Fault::Pause { ms, .. } if *ms / 2 >= LEAST_DELAY_MS => {
            *ms /= 2;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(node: Option<&str>, stack: Option<&str>, nth: u32) -> Trigger {
        Trigger::Hit {
            site: "a.B.c()>d.E.f#0".into(),
            node: node.map(Into::into),
            stack: stack.map(Into::into),
            state: None,
            nth,
        }
    }

    #[track_caller]
    fn check(when: Trigger, fault: Fault, expected: &[(Trigger, Fault)]) {
        let plans = expected
            .iter()
            .map(|(when, fault)| Plan::single(1, when.clone(), fault.clone()));
        let plans: Vec<Plan> = plans.collect();
        assert_eq!(
            shrink_candidates(&Plan::single(1, when, fault), false),
            plans
        );
    }

    #[test]
    fn conditions_open_one_by_one() {
        let crash = || Fault::Crash;
        check(
            hit(Some("n1"), Some("ab"), 4),
            crash(),
            &[
                (hit(Some("n1"), Some("ab"), 1), crash()),
                (hit(Some("n1"), None, 4), crash()),
                (hit(None, Some("ab"), 4), crash()),
            ],
        );
    }

    #[test]
    fn delays_halve_down_to_a_second() {
        let delay = |ms| Fault::Delay { ms };
        let at = || hit(None, None, 1);
        check(at(), delay(60_000), &[(at(), delay(30_000))]);
        check(at(), delay(2_000), &[(at(), delay(1_000))]);
        check(at(), delay(1_999), &[]);
    }

    #[test]
    fn the_smallest_plan_has_no_candidates() {
        check(hit(None, None, 1), Fault::Crash, &[]);
        assert_eq!(shrink_candidates(&Plan::clean(), false), []);
    }

    #[test]
    fn steps_go_first_but_never_the_last_one() {
        let mut plan = Plan::single(1, hit(None, None, 2), Fault::Crash);
        plan.steps.push(Step {
            when: Trigger::After { ms: 10 },
            fault: Fault::Heal,
        });
        let candidates = shrink_candidates(&plan, false);
        let steps: Vec<usize> = candidates.iter().map(|p| p.steps.len()).collect();
        assert_eq!(steps, [1, 1, 2]);
    }

    #[test]
    fn work_halves_last_and_only_where_it_can() {
        let plan = Plan::single(1, hit(None, None, 1), Fault::Crash);
        let loads = |plan: &Plan| {
            let all = shrink_candidates(plan, true);
            all.iter().map(|p| p.load).collect::<Vec<_>>()
        };
        assert_eq!(loads(&plan), [50]);
        assert_eq!(
            loads(&Plan {
                load: 50,
                ..plan.clone()
            }),
            [25]
        );
        assert_eq!(loads(&Plan { load: 25, ..plan }), []);
    }

    #[test]
    fn greedy_shrinking_ends() {
        let mut plan = Plan::single(1, hit(Some("n1"), Some("ab"), 9), Fault::Crash);
        for _ in 0..3 {
            plan.steps.push(Step {
                when: hit(Some("n2"), Some("cd"), 5),
                fault: Fault::Delay { ms: 300_000 },
            });
        }
        let mut taken = 0;
        // Always the last, that is the smallest change: the longest way down.
        while let Some(smaller) = shrink_candidates(&plan, false).pop() {
            plan = smaller;
            taken += 1;
            assert!(taken < 100);
        }
        assert_eq!(plan, Plan::single(1, hit(None, None, 1), Fault::Crash));
    }
}
