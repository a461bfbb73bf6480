//! What replays of a failing trial's plan say: whether it shows a bug, or was an accident.
//!
//! A replay in which not all of the plan came about says nothing, neither for nor against: it is
//! left out, and another one made, up to a limit. A cluster that starts anew may give the roles to
//! other nodes; so a plan that was never reached is tried without its nodes.

use std::fmt;

use temblor_model::bug::{Outcome, Side, Symptom, Verdict};
use temblor_model::plan::{Plan, Trigger};

use crate::triage::{KnownPattern, Signature, confirms, stuck_sides};

/// What a replay has to show.
#[derive(Clone, Debug)]
pub enum Proof {
    /// That something fails.
    Failure,
    /// The same kind of misbehaviour, with the same stable part; what is stuck, on one of these
    /// sides of the fault.
    Signature(Signature, Vec<Side>),
    /// What the target says of the bug.
    Known(KnownPattern),
}

impl Proof {
    /// Of the bug that the target knows by this name, else of what has this signature and showed
    /// these symptoms.
    pub fn of<'s>(
        signature: Option<&Signature>,
        symptoms: impl IntoIterator<Item = &'s Symptom>,
        name: Option<&str>,
        known: &[KnownPattern],
    ) -> Proof {
        let pattern = known.iter().find(|k| Some(k.id.as_str()) == name);
        match (pattern, signature) {
            (Some(pattern), _) => Proof::Known(pattern.clone()),
            (None, Some(s)) => Proof::Signature(s.clone(), stuck_sides(symptoms)),
            (None, None) => Proof::Failure,
        }
    }

    pub fn is_in(&self, outcome: &Outcome) -> bool {
        // What fails when no fault came about is none of the plan's doing.
        let struck = !outcome.fired.is_empty() || outcome.unreached.is_empty();
        match self {
            Proof::Failure => outcome.verdict == Verdict::Fail,
            Proof::Signature(signature, sides) => struck && confirms(signature, sides, outcome),
            Proof::Known(pattern) => struck && pattern.fits(outcome).is_some(),
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proof::Failure => write!(f, "a failure"),
            Proof::Signature(signature, _) => write!(f, "{}", signature.text),
            Proof::Known(pattern) => write!(f, "{}", pattern.id),
        }
    }
}

/// So many replays may say nothing before it is given up.
const MISSES: u32 = 3;

/// How many replays have to show the bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enough {
    /// At least half of them.
    Half,
    /// One; the others are not made then.
    One,
}

/// The replays of one plan.
#[derive(Clone, Debug)]
pub struct Replays {
    plan: Plan,
    enough: Enough,
    /// Replays that are to say something.
    wanted: u32,
    /// How many showed the bug, and how many said anything.
    pub times: u32,
    pub of: u32,
    missed: u32,
}

impl Replays {
    pub fn new(plan: Plan, wanted: u32, enough: Enough) -> Replays {
        Replays {
            plan,
            enough,
            wanted,
            times: 0,
            of: 0,
            missed: 0,
        }
    }

    /// Replays that were made before: so many showed it, of so many.
    pub fn made(plan: Plan, times: u32, of: u32) -> Replays {
        Replays {
            times,
            of,
            ..Replays::new(plan, of, Enough::Half)
        }
    }

    /// The plan to replay next; none when what they say is known.
    pub fn next(&self) -> Option<&Plan> {
        let against = self.of - self.times;
        let is_known = match self.enough {
            Enough::Half => against * 2 > self.wanted,
            Enough::One => self.times > 0,
        };
        let is_over = is_known || self.of >= self.wanted || self.missed >= MISSES;
        (!is_over).then_some(&self.plan)
    }

    /// Of the plan that was asked for last: whether the bug showed, and whether all steps fired.
    pub fn learn(&mut self, shows: bool, reached: bool) {
        if shows || reached {
            self.of += 1;
            self.times += u32::from(shows);
            return;
        }
        self.missed += 1;
        if self.of == 0 {
            self.plan = anywhere(&self.plan);
        }
    }

    /// Whether it is a bug, as far as they can tell.
    pub fn confirm(&self) -> bool {
        let most = self.enough == Enough::One || self.times * 2 >= self.of;
        self.wanted == 0 || self.times > 0 && most
    }

    /// The plan that was replayed.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// The plan with its hits on whichever node they come.
fn anywhere(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for step in &mut plan.steps {
        if let Trigger::Hit { node, .. } = &mut step.when {
            *node = None;
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Simulated;
    use crate::triage::tell;
    use regex::Regex;
    use temblor_model::bug::Misbehaviour;
    use temblor_model::plan::Fault;

    fn pattern(id: &str, symptom: &str) -> KnownPattern {
        KnownPattern {
            id: id.into(),
            checkers: vec!["client".into()],
            fault: None,
            site: None,
            symptom: Regex::new(symptom).ok(),
        }
    }

    #[test]
    fn who_bears_a_name_has_to_show_what_the_name_is_for() {
        let target = Simulated::small();
        let mut outcome = target.outcome(1, &Plan::clean());
        assert!(!Proof::Failure.is_in(&outcome), "nothing is wrong");
        outcome.verdict = Verdict::Fail;
        outcome.judgements[0].verdict = Verdict::Fail;
        outcome.judgements[0].symptoms.push(Symptom {
            checker: "client".into(),
            shows: Misbehaviour::STUCK,
            summary: "a client is stuck: slow".into(),
            detail: vec!["put: torn".into()],
            at_us: 1,
        });
        let known = [pattern("x-1", "torn"), pattern("x-2", "lost")];
        let signature = tell(&outcome, &[]).unwrap().signature;
        let proof = |name| Proof::of(Some(&signature), outcome.symptoms(), name, &known);
        assert!(proof(None).is_in(&outcome) && proof(Some("x-1")).is_in(&outcome));
        assert!(!proof(Some("x-2")).is_in(&outcome));
        // The target may have forgotten a name.
        assert!(proof(Some("x-3")).is_in(&outcome));
        assert!(Proof::of(None, [], None, &known).is_in(&outcome));
        let words = [proof(None), proof(Some("x-1"))].map(|p| p.to_string());
        assert_eq!(words, [signature.text.clone(), "x-1".into()]);
        // The plan's only step did not fire: the same failure, for another reason.
        let without = Outcome {
            unreached: vec![0],
            ..outcome.clone()
        };
        assert!(!proof(None).is_in(&without) && !proof(Some("x-1")).is_in(&without));
        assert!(Proof::Failure.is_in(&without));
    }

    fn plan(node: Option<&str>) -> Plan {
        let when = Trigger::Hit {
            site: "x.A".into(),
            node: node.map(str::to_owned),
            stack: None,
            state: None,
            nth: 1,
        };
        Plan::single(1, when, Fault::Crash)
    }

    /// Replays that show it (`+`), do not (`-`), or come to nothing (`.`), until enough is known.
    fn replay(wanted: u32, enough: Enough, script: &str) -> (Replays, usize) {
        let mut replays = Replays::new(plan(Some("n1")), wanted, enough);
        let mut made = 0;
        for what in script.chars() {
            if replays.next().is_none() {
                break;
            }
            replays.learn(what == '+', what != '.');
            made += 1;
        }
        assert_eq!(replays.next(), None, "{script}: more are wanted");
        (replays, made)
    }

    #[test]
    fn half_of_the_replays_have_to_show_it_in_whichever_order() {
        for (wanted, script, times, made, confirmed) in [
            (2, "++", 2, 2, true),
            (2, "+-", 1, 2, true),
            (2, "-+", 1, 2, true),
            (2, "--", 0, 2, false),
            (3, "--+", 0, 2, false),
            (4, "--++", 2, 4, true),
            (0, "", 0, 0, true),
        ] {
            let (replays, came_to) = replay(wanted, Enough::Half, script);
            assert_eq!((replays.times, came_to), (times, made), "{script}");
            assert_eq!(replays.confirm(), confirmed, "{script}");
        }
    }

    #[test]
    fn one_is_enough_where_that_is_asked_for() {
        for (script, made, confirmed) in [("+", 1, true), ("-+", 2, true), ("---", 3, false)] {
            let (replays, came_to) = replay(3, Enough::One, script);
            assert_eq!((came_to, replays.confirm()), (made, confirmed), "{script}");
        }
    }

    #[test]
    fn what_never_came_about_says_nothing() {
        let (replays, made) = replay(2, Enough::Half, "+.+");
        assert_eq!((replays.times, replays.of, made), (2, 2, 3));
        assert!(replays.confirm());
        for enough in [Enough::Half, Enough::One] {
            let (replays, made) = replay(2, enough, "....");
            assert_eq!((replays.of, made), (0, MISSES as usize));
            assert!(!replays.confirm(), "nothing was shown");
        }
    }

    #[test]
    fn a_plan_that_was_never_reached_is_tried_on_any_node() {
        let (replays, _) = replay(2, Enough::Half, ".++");
        assert_eq!(replays.plan(), &plan(None));
        // Its node can be reached: it only takes another try.
        let (replays, _) = replay(2, Enough::Half, "+.+");
        assert_eq!(replays.plan(), &plan(Some("n1")));
    }
}
