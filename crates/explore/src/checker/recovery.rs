//! `recovery`: everything serves again once every fault is over.
//!
//! Rules, for nodes:
//! - A node that was started and is neither ready nor gone when the lab stops fails, if it had
//!   twice the longest time clean runs needed, counted from its start or the end of the last
//!   fault's own effect. With less time it is unknown.
//! - A node that was ready, lives, and says after healing that it does not serve fails, under the
//!   same condition.
//! - A node whose files the plan damaged may refuse to serve: that is unknown.
//! - A node that exits is for `crash` to judge.
//!
//! For clients, in the finale, when all is healed: the last operation of each kind must succeed.
//! - One that failed or timed out fails, unless excused; the only excuses left are that the
//!   client's node is down and the `grace` after a node became ready. Excused it is unknown: the
//!   trial was too short to tell. One that fails and then succeeds is fine.
//! - One that never ended fails when nothing excused it for longer than `patience`, and at least
//!   a real second, before the lab stopped.

use std::collections::BTreeMap;

use temblor_model::bug::{Judgement, Misbehaviour, Symptom};
use temblor_model::event::{Stage, What};
use temblor_model::history::{Baseline, History};
use temblor_model::plan::Fault;

use super::client::{DETAILS, LEAST_STUCK_US, in_finale, told};
use super::{Checker, conclude};
use crate::effects::{Effects, Life, awaited, stage_us};
use crate::ops::Span;

/// See the module.
pub struct Recovery;

impl Checker for Recovery {
    fn name(&self) -> &'static str {
        "recovery"
    }

    fn judge(&self, history: &History, baseline: Option<&Baseline>) -> Judgement {
        let mut trial = Trial {
            history,
            effects: Effects::of(history, baseline),
            symptoms: Vec::new(),
            reasons: Vec::new(),
        };
        for life in trial.effects.lives.clone() {
            let exited = |exit: &crate::effects::Exit| exit.at_us < trial.effects.stop_us;
            match life.ready_us {
                _ if life.exit.as_ref().is_some_and(exited) => {}
                None => trial.never_ready(&life),
                Some(_) => trial.serves_again(&life),
            }
        }
        trial.finale();
        conclude(self.name(), trial.symptoms, &trial.reasons)
    }
}

struct Trial<'a> {
    history: &'a History,
    effects: Effects,
    symptoms: Vec<Symptom>,
    reasons: Vec<String>,
}

impl Trial<'_> {
    fn never_ready(&mut self, life: &Life) {
        let (node, role) = (&life.node, self.effects.role(&life.node));
        let again = if life.ordinal > 0 {
            " again after its restart"
        } else {
            ""
        };
        self.node_fails(
            life,
            life.started_us,
            &format!("{node} was not ready{again}"),
            format!("{role} did not come up: never ready{again}"),
        );
    }

    /// The last it said of itself, when everything was healed, must be that it serves.
    fn serves_again(&mut self, life: &Life) {
        let Some(healed_us) = stage_us(self.history, Stage::Recovery) else {
            return;
        };
        let last = self.history.events.iter().rev();
        let said = last
            .take_while(|event| event.at_us >= healed_us)
            .find_map(|event| match &event.what {
                What::Health {
                    node, ok, answer, ..
                } if *node == life.node => Some((*ok, answer)),
                _ => None,
            });
        let Some((false, answer)) = said else { return };
        let (node, role) = (&life.node, self.effects.role(&life.node));
        self.node_fails(
            life,
            healed_us,
            &format!("{node} did not serve again, it says: {answer}"),
            format!("{role} does not serve again after everything was healed"),
        );
    }

    /// Fails if the node had the time, counted from `since_us` or the end of the last fault.
    fn node_fails(&mut self, life: &Life, since_us: u64, what: &str, summary: String) {
        let at_us = self.effects.stop_us;
        let waited_ms = at_us.saturating_sub(self.effects.over_us(since_us)) / 1_000;
        let usual_ms = self.effects.recovery_ms;
        if waited_ms < 2 * usual_ms {
            let reason = format!("{what}, but had only {waited_ms} ms for it");
            self.reasons.push(reason);
            return;
        }
        let damages =
            |fault: &Fault| matches!(fault, Fault::Corrupt { node, .. } if *node == life.node);
        if self.effects.injected.iter().any(|i| damages(&i.fault)) {
            let reason = format!("{what}, but its files were damaged: it may be right to refuse");
            self.reasons.push(reason);
            return;
        }
        self.symptoms.push(Symptom {
            checker: "recovery".into(),
            shows: Misbehaviour::stuck(self.effects.side(&life.node)),
            summary,
            detail: vec![format!(
                "{what}: {waited_ms} ms were not enough, clean runs need {usual_ms} ms"
            )],
            at_us,
        });
    }

    fn finale(&mut self) {
        let finale_us = stage_us(self.history, Stage::Finale);
        let mut spans = awaited(self.history);
        spans.retain(|span| in_finale(span, finale_us));
        let mut last: BTreeMap<(&str, &str), &Span<'_>> = BTreeMap::new();
        // One that has only begun says nothing: the one before counts.
        for span in spans.iter().filter(|s| s.end.is_some() || self.is_stuck(s)) {
            last.insert((span.client, span.op), span);
        }
        let mut failing: BTreeMap<String, Vec<&Span<'_>>> = BTreeMap::new();
        for span in last.into_values() {
            let how = match span.end {
                None => "never ended",
                Some(_) if span.failed() => "fails",
                _ => continue,
            };
            let (client, role) = (span.client, self.effects.role(span.node));
            let end_us = span.end_us(self.effects.stop_us);
            if span.failed() && self.effects.explains(span.node, span.began_us, end_us) {
                // A node that never came back is told of already.
                if !self.effects.is_down(span.node, end_us) {
                    self.reasons.push(format!(
                        "{client}'s last {} failed so soon after healing that it may be excused",
                        span.op
                    ));
                }
                continue;
            }
            let op = span.op;
            let summary = format!("a client of {role} does not recover: {op} in the finale {how}");
            failing.entry(summary).or_default().push(span);
        }
        for (summary, spans) in failing {
            let began = spans.iter().map(|span| span.began_us);
            self.symptoms.push(Symptom {
                checker: "recovery".into(),
                shows: Misbehaviour::stuck(self.effects.side(spans[0].node)),
                summary,
                at_us: began.min().unwrap_or(0),
                detail: spans.iter().take(DETAILS).map(|s| told(s)).collect(),
            });
        }
    }

    fn is_stuck(&self, span: &Span<'_>) -> bool {
        let stop_us = self.effects.stop_us;
        let quiet_us = self.effects.quiet_since(span.node, span.began_us, stop_us);
        let waited_us = stop_us.saturating_sub(quiet_us);
        waited_us > self.effects.patience_us.max(LEAST_STUCK_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted;

    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        scripted::check(&Recovery, script, expected);
    }

    #[test]
    fn a_node_that_does_not_serve_after_healing_fails_if_it_had_the_time() {
        let fault = "up\n 300 fired n1 t throw java.io.IOException\n 900 stage recovery";
        let said = "another node does not serve again after everything was healed";
        for (end, expected) in [
            ("60000 health n3 bad\n 60001 stage stop", said),
            ("60000 health n3 ok\n 60001 stage stop", "pass"),
            ("901 health n3 bad\n 902 stage stop", "unknown"),
        ] {
            check(&format!("{fault}\n {end}"), &[expected]);
        }
        // What it said before the healing does not count.
        check(
            "up\n 300 fired n1 t throw java.io.IOException\n 800 health n3 bad\n \
             900 stage recovery\n 60001 stage stop",
            &["pass"],
        );
    }

    const CRASH: &str = "up\n 300 fired n1 t crash\n 301 kill n1\n 900 stage heal\n 901 start n1\n";

    #[test]
    fn a_node_that_does_not_come_back_fails() {
        check(
            &format!("{CRASH} 3000 stage stop\n 3001 kill n1"),
            &["the faulted node did not come up: never ready again after its restart"],
        );
        check(
            &format!("{CRASH} 1000 ready n1\n 3000 stage stop"),
            &["pass"],
        );
        // One that ended is `crash`'s to judge.
        check(
            &format!("{CRASH} 950 exit n1 code 3\n 3000 stage stop"),
            &["pass"],
        );
    }

    #[test]
    fn a_node_that_had_no_time_to_come_back_is_unknown() {
        check(
            "up\n 300 fired n1 t crash\n 301 kill n1\n 901 start n1\n 1000 stage stop",
            &["unknown"],
        );
        check(
            "0 start n1\n 50 fired n1 t delay 60000\n 5000 stage stop",
            &["unknown"],
        );
    }

    #[test]
    fn the_time_is_what_clean_runs_needed_to_recover() {
        let late = scripted::history(&format!("{CRASH} 3000 stage stop"));
        let mut slow = scripted::baseline();
        slow.recovery_ms = 1_500;
        let judgement = Recovery.judge(&late, Some(&slow));
        assert_eq!(scripted::said(&judgement), ["unknown"]);
    }

    #[test]
    fn a_node_that_cannot_join_at_all_fails() {
        let script = "0 start n1\n 0 start n2\n 100 ready n1\n\
         60 fired n1 t throw java.io.IOException\n 5000 stage stop";
        check(script, &["another node did not come up: never ready"]);
    }

    #[test]
    fn a_node_with_damaged_files_may_refuse() {
        let script = format!("{CRASH} 3000 stage stop");
        let mut history = scripted::history(&script);
        history.plan.steps[0].fault = Fault::Corrupt {
            node: "n1".into(),
            file: "log".into(),
            offset: 0,
            bytes: 1,
        };
        for event in &mut history.events {
            if let What::Fired { fault, .. } = &mut event.what {
                *fault = "corrupt".into();
            }
        }
        let judgement = Recovery.judge(&history, Some(&scripted::baseline()));
        assert_eq!(scripted::said(&judgement), ["unknown"]);
    }

    const HEALED: &str = "up\n 300 fired n1 t throw java.io.IOException\n 20000 stage heal\n\
                          20001 stage recovery\n 20002 stage finale\n 40000 stage stop\n";

    #[test]
    fn the_last_operations_of_the_finale_must_succeed() {
        let ops = |client: &str, how: &str| scripted::ops(client, "get@finale", 21_000, 10, how);
        check(&format!("{HEALED}{}", ops("c1", "ok")), &["pass"]);
        let said = "a client of the faulted node does not recover: get in the finale fails";
        for how in ["fail: refused", "timeout"] {
            check(
                &format!("{HEALED}{}{}", ops("c1", how), ops("c2", "ok")),
                &[said],
            );
        }
        let at_last = "22000 op c1 get@finale 1 invoke\n22001 op c1 get@finale 1 ok\n";
        check(
            &format!("{HEALED}{}{at_last}", ops("c1", "fail")),
            &["pass"],
        );
        // Tried once more just before the end.
        let again = "39999 op c1 get@finale 9 invoke\n";
        check(
            &format!("{HEALED}{}{again}", ops("c1", "fail: refused")),
            &[said],
        );
        // The phase of the workload is none of this.
        let before = scripted::ops("c1", "get", 9_000, 10, "fail");
        check(&format!("{HEALED}{before}"), &["pass"]);
    }

    #[test]
    fn an_operation_of_the_finale_that_never_ends_fails() {
        let said = "a client of another node does not recover: get in the finale never ended";
        let hangs = |at: u64| format!("{HEALED} {at} op c2 get@finale 1 invoke\n");
        check(&hangs(21_000), &[said]);
        check(&hangs(39_000), &["pass"]);
    }

    #[test]
    fn a_failure_just_after_a_node_came_back_is_unknown() {
        let healed = " 950 stage recovery\n 1000 ready n1\n 1100 stage finale\n 60000 stage stop\n";
        let fails = |at: u64| scripted::ops("c2", "get", at, 10, "fail");
        check(&format!("{CRASH}{healed}{}", fails(1_200)), &["unknown"]);
        let said = "a client of another node does not recover: get in the finale fails";
        check(&format!("{CRASH}{healed}{}", fails(9_000)), &[said]);
    }

    #[test]
    fn clients_of_a_node_that_is_gone_are_excused() {
        let gone = "up\n 300 fired n1 t crash\n 301 kill n1\n 20002 stage finale\n\
                    40000 stage stop\n";
        let fails = scripted::ops("c1", "get", 21_000, 10, "fail");
        check(&format!("{gone}{fails}"), &["pass"]);
    }
}
