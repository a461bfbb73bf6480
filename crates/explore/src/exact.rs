//! What a trial did, as a plan that says it: each step whose place or fault was left to the agent
//! becomes the hit and the fault that came of it. Confirming, shrinking and replaying begin here.

use temblor_model::bug::FiredFault;
use temblor_model::plan::{Fault, Plan, Step, Trigger};

/// `plan` with what fired in the place of what was left open. Steps fire strictly in order, so
/// theirs is the order in which they fired, and from the first open step that did not fire on,
/// nothing did: the rest is left out. `roams`: not every node comes to the place, so the hit
/// counts wherever it is. `working`: only hits count after clients began to work.
pub fn exact(
    plan: &Plan,
    fired: &[FiredFault],
    working: bool,
    roams: impl Fn(&FiredFault) -> bool,
) -> Plan {
    let mut steps = Vec::new();
    for (i, step) in plan.steps.iter().enumerate() {
        if !step.when.is_online() {
            steps.push(step.clone());
            continue;
        }
        let Some(fired) = fired.iter().find(|f| f.step as usize == i) else {
            break;
        };
        steps.push(Step {
            when: hit(fired, roams(fired)),
            fault: Fault::from_text(&fired.fault).unwrap_or_else(|| step.fault.clone()),
        });
    }
    Plan {
        steps,
        working,
        ..plan.clone()
    }
}

fn hit(fired: &FiredFault, roams: bool) -> Trigger {
    Trigger::Hit {
        site: fired.site.clone(),
        node: (!roams).then(|| fired.node.clone()),
        stack: Some(fired.stack.clone()),
        state: fired.state.clone(),
        nth: fired.nth.max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE_DELAY: Fault = Fault::SiteDelay {
        sync_ms: Some(300_000),
        timeout_percent: Some(150),
    };

    fn fired(step: u32, site: &str, fault: &str, nth: u32) -> FiredFault {
        FiredFault {
            step,
            node: "n2".into(),
            site: site.into(),
            fault: fault.into(),
            stack: "00000000000000a1".into(),
            state: Some("x.Task.run():1".into()),
            nth,
            ..FiredFault::default()
        }
    }

    fn hit(site: &str, node: Option<&str>, nth: u32) -> Trigger {
        Trigger::Hit {
            site: site.into(),
            node: node.map(str::to_owned),
            stack: Some("00000000000000a1".into()),
            state: Some("x.Task.run():1".into()),
            nth,
        }
    }

    fn any_of(count: usize) -> Plan {
        let step = Step {
            when: Trigger::AnyOf {
                sites: vec!["x.A".into(), "x.B".into(), "x.C".into()],
            },
            fault: SITE_DELAY,
        };
        Plan {
            steps: vec![step; count],
            seed: 9,
            ..Plan::clean()
        }
    }

    #[test]
    fn an_open_step_becomes_the_hit_and_the_fault_that_came_of_it() {
        let when = Trigger::NewState {
            known: vec!["0".into()],
            nth: 3,
        };
        let plan = Plan::single(5, when, Fault::Any);
        for (text, fault) in [
            ("crash", Fault::Crash),
            ("delay 6.5 s", Fault::Delay { ms: 6_500 }),
            (
                "throw x.Rare",
                Fault::Throw {
                    exception: "x.Rare".into(),
                },
            ),
        ] {
            let exact = exact(&plan, &[fired(0, "x.A", text, 4)], true, |_| false);
            let mut expected = Plan::single(5, hit("x.A", Some("n2"), 4), fault);
            expected.working = true;
            assert_eq!(exact, expected, "{text}");
        }
    }

    #[test]
    fn where_hits_were_not_counted_the_first_is_meant_and_who_roams_is_left_open() {
        let plan = Plan::single(
            5,
            Trigger::Random {
                rate: 0.1,
                node: None,
            },
            Fault::Any,
        );
        let exact = exact(&plan, &[fired(0, "x.A", "crash", 0)], false, |f| {
            f.site == "x.A"
        });
        assert_eq!(exact, Plan::single(5, hit("x.A", None, 1), Fault::Crash));
    }

    #[test]
    fn steps_come_in_the_order_in_which_they_fired_and_end_with_the_last_that_did() {
        let shuffled = [
            fired(1, "x.A", "delay 6 s", 1),
            fired(0, "x.C", "delay 300 s", 2),
        ];
        let exact = exact(&any_of(3), &shuffled, false, |_| false);
        let expected = [
            (hit("x.C", Some("n2"), 2), Fault::Delay { ms: 300_000 }),
            (hit("x.A", Some("n2"), 1), Fault::Delay { ms: 6_000 }),
        ]
        .map(|(when, fault)| Step { when, fault });
        assert_eq!(exact.steps, expected);
        assert_eq!(exact.seed, 9);
    }

    #[test]
    fn steps_that_were_exact_before_stay_as_they_are() {
        let mut plan = any_of(1);
        let restart = Step {
            when: Trigger::After { ms: 5_000 },
            fault: Fault::Restart { node: "*".into() },
        };
        let first = Step {
            when: hit("x.B", None, 2),
            fault: Fault::Crash,
        };
        plan.steps.insert(0, first.clone());
        plan.steps.push(restart.clone());
        let reached = exact(&plan, &[fired(1, "x.A", "crash", 1)], false, |_| false);
        assert_eq!([&reached.steps[0], &reached.steps[2]], [&first, &restart]);
        assert_eq!(reached.steps[1].fault, Fault::Crash);
        // What waits for a step that never came did not come either.
        let unreached = exact(&plan, &[fired(0, "x.B", "crash", 2)], false, |_| false);
        assert_eq!(unreached.steps, [first]);
    }

    #[test]
    fn a_fault_in_words_that_nobody_can_read_stays_the_plan_s() {
        let fault = Fault::Throw {
            exception: "x.Rare".into(),
        };
        let when = Trigger::Random {
            rate: 0.5,
            node: None,
        };
        let plan = Plan::single(1, when, fault.clone());
        let exact = exact(&plan, &[fired(0, "x.A", "?", 1)], false, |_| false);
        assert_eq!(exact.steps[0].fault, fault);
    }
}
