//! `crash`: a node ended by itself, or did not come back.
//!
//! Rules:
//! - An exit that the plan or the lab's stop caused is expected, as is any exit in the last stage.
//! - Stopping on an injected exception is a proper reaction (fail-stop): it passes when the exit
//!   follows the throw on the same node within `grace`, the node's log shows the exception, and
//!   the node is ready again after its restart. If nobody started it again, nobody can tell.
//! - Any other exit before the last stage fails, whatever its code.
//! - A node that was started and is neither ready nor gone when the lab stops fails, if it had
//!   twice the longest time to readiness after the last delay or pause was over. One that had
//!   less time is unknown.
//! - A node that was ready, lives, and says after healing and the recovery window that it does not
//!   serve fails, under the same condition.

use temblor_model::bug::{Judgement, Symptom};
use temblor_model::event::{Event, Stage, What};
use temblor_model::history::{Baseline, History};
use temblor_model::plan::Fault;

use super::{Checker, conclude};
use crate::effects::{Effects, Exit, Injected, Life, stage_us};

/// What the agent writes into every exception it raises.
pub(super) const MARK: &str = "injected by Temblor";

/// See the module.
pub struct Crash;

impl Checker for Crash {
    fn name(&self) -> &'static str {
        "crash"
    }

    fn judge(&self, history: &History, baseline: Option<&Baseline>) -> Judgement {
        let effects = Effects::of(history, baseline);
        let mut trial = Trial {
            history,
            stopping_us: stage_us(history, Stage::Stop).unwrap_or(u64::MAX),
            effects,
            symptoms: Vec::new(),
            reasons: Vec::new(),
        };
        for life in trial.effects.lives.clone() {
            match &life.exit {
                Some(exit) if exit.at_us < trial.stopping_us => trial.exited(&life, exit),
                _ if life.ready_us.is_none() => trial.never_ready(&life),
                _ => trial.serves_again(&life),
            }
        }
        conclude(self.name(), trial.symptoms, &trial.reasons)
    }
}

struct Trial<'a> {
    history: &'a History,
    effects: Effects,
    stopping_us: u64,
    symptoms: Vec<Symptom>,
    reasons: Vec<String>,
}

impl Trial<'_> {
    fn exited(&mut self, life: &Life, exit: &Exit) {
        if exit.injected || self.killed_by_plan(life, exit) {
            return;
        }
        let role = self.effects.role(&life.node);
        if let Some(injected) = self.fail_stop(life, exit) {
            let later: Vec<&Life> = self.later(life).collect();
            let back = later.iter().any(|l| l.ready_us.is_some());
            if !back && later.is_empty() {
                let node = &life.node;
                let fault = &injected.fault;
                self.reasons.push(format!(
                    "{node} stopped on {fault} and was not started again"
                ));
            }
            return;
        }
        let how = how(exit);
        let again = match (life.ordinal, life.ready_us) {
            (0, Some(_)) => "",
            (0, None) => " before it was ready",
            (_, Some(_)) => " after its restart",
            (_, None) => " before it was ready again",
        };
        self.fail(
            format!("{role} exited by itself: {how}{again}"),
            life,
            exit.at_us,
            format!("{} {how}{again}", life.node),
        );
    }

    /// An injected crash that the lab saw as an ordinary exit.
    fn killed_by_plan(&self, life: &Life, exit: &Exit) -> bool {
        exit.signal == Some(9)
            && self
                .faults_in(life, exit)
                .any(|injected| injected.fault == Fault::Crash)
    }

    /// The injected exception that this exit is a proper reaction to.
    fn fail_stop(&self, life: &Life, exit: &Exit) -> Option<&Injected> {
        self.faults_in(life, exit).find(|injected| {
            let Fault::Throw { exception } = &injected.fault else {
                return false;
            };
            let soon = exit.at_us <= injected.at_us + self.effects.grace_us;
            soon && self.log_shows(life, injected.at_us, exception)
        })
    }

    /// Faults that fired in this process.
    fn faults_in(&self, life: &Life, exit: &Exit) -> impl Iterator<Item = &Injected> {
        let (node, from, to) = (life.node.clone(), life.started_us, exit.at_us);
        self.effects
            .injected
            .iter()
            .filter(move |i| i.node.as_deref() == Some(&node) && (from..=to).contains(&i.at_us))
    }

    fn log_shows(&self, life: &Life, since_us: u64, exception: &str) -> bool {
        let simple = exception.rsplit(['.', '$']).next().unwrap_or(exception);
        let shows = |text: &String| text.contains(MARK) || text.contains(simple);
        self.history.events.iter().any(|event| match &event.what {
            What::Log {
                node,
                message,
                more,
                ..
            } => {
                let of_life = *node == life.node && event.at_us >= since_us;
                of_life && (shows(message) || more.iter().any(shows))
            }
            _ => false,
        })
    }

    fn later<'l>(&'l self, life: &Life) -> impl Iterator<Item = &'l Life> {
        let (node, ordinal) = (life.node.clone(), life.ordinal);
        let lives = self.effects.lives.iter();
        lives.filter(move |l| l.node == node && l.ordinal > ordinal)
    }

    /// Started, neither ready nor gone by itself.
    fn never_ready(&mut self, life: &Life) {
        let busy = self.effects.injected.iter().map(|i| i.until_us);
        let since = busy.fold(life.started_us, u64::max);
        let waited_ms = self.effects.stop_us.saturating_sub(since) / 1_000;
        let again = if life.ordinal > 0 {
            " again after its restart"
        } else {
            ""
        };
        let node = &life.node;
        if waited_ms < 2 * self.effects.ready_ms {
            self.reasons.push(format!(
                "{node} was not ready{again}, but had only {waited_ms} ms for it"
            ));
            return;
        }
        let role = self.effects.role(node);
        self.fail(
            format!("{role} did not come up: never ready{again}"),
            life,
            self.effects.stop_us,
            format!("{node} was never ready{again}: {waited_ms} ms were not enough"),
        );
    }

    /// Ready once; the last it said of itself, when everything was healed, must be that it serves.
    fn serves_again(&mut self, life: &Life) {
        let Some(healed_us) = stage_us(self.history, Stage::Recovery) else {
            return;
        };
        let said = self
            .history
            .events
            .iter()
            .rev()
            .find_map(|event| match &event.what {
                What::Health { node, ok, answer } if *node == life.node => {
                    (event.at_us >= healed_us).then_some((*ok, answer))
                }
                _ => None,
            });
        let Some((false, answer)) = said else { return };
        let busy = self.effects.injected.iter().map(|i| i.until_us);
        let since = busy.fold(healed_us, u64::max);
        let waited_ms = self.effects.stop_us.saturating_sub(since) / 1_000;
        let node = &life.node;
        if waited_ms < 2 * self.effects.ready_ms {
            self.reasons.push(format!(
                "{node} did not serve again, but had only {waited_ms} ms for it"
            ));
            return;
        }
        let role = self.effects.role(node);
        self.fail(
            format!("{role} does not serve again after everything was healed"),
            life,
            self.effects.stop_us,
            format!("{node} still says after {waited_ms} ms: {answer}"),
        );
    }

    fn fail(&mut self, summary: String, life: &Life, at_us: u64, what: String) {
        let mut detail = vec![what];
        detail.extend(last_words(&self.history.events, life, at_us));
        self.symptoms.push(Symptom {
            checker: "crash".into(),
            summary,
            detail,
            at_us,
        });
    }
}

fn how(exit: &Exit) -> String {
    match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => format!("code {code}"),
        (None, None) => "unknown status".into(),
    }
}

/// The last lines of a process's log, for people.
fn last_words(events: &[Event], life: &Life, until_us: u64) -> Vec<String> {
    const LINES: usize = 5;
    let said = events.iter().rev().filter_map(|event| match &event.what {
        What::Log {
            node,
            level,
            message,
            ..
        } if *node == life.node && event.at_us <= until_us && event.at_us >= life.started_us => {
            Some(format!("{level} {message}"))
        }
        _ => None,
    });
    let mut lines: Vec<String> = said.take(LINES).collect();
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use temblor_model::bug::Verdict;

    use super::*;
    use crate::scripted::{baseline, history};

    /// `pass`, `unknown`, or the summaries.
    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        let judgement = Crash.judge(&history(script), Some(&baseline()));
        let said: Vec<&str> = match judgement.verdict {
            Verdict::Pass => vec!["pass"],
            Verdict::Unknown => vec!["unknown"],
            Verdict::Fail => judgement
                .symptoms
                .iter()
                .map(|s| s.summary.as_str())
                .collect(),
        };
        assert_eq!(said, expected, "{judgement:#?}");
    }

    #[test]
    fn a_clean_run_passes() {
        check(
            "up\n 900 stage stop\n 950 exit n1 code 143\n 960 exit n2 signal 15",
            &["pass"],
        );
    }

    #[test]
    fn an_injected_crash_with_a_restart_passes() {
        check(
            "up\n 300 fired n1 t crash\n 301 kill n1\n 900 stage heal\n 901 start n1\n\
             1000 ready n1\n 3000 stage stop",
            &["pass"],
        );
        check(
            "up\n 300 fired n1 t crash\n 301 exit n1 signal 9\n 3000 stage stop",
            &["pass"],
        );
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

    #[test]
    fn a_node_that_exits_by_itself_fails_whatever_its_code() {
        for (how, said) in [
            ("code 0", "code 0"),
            ("code 1", "code 1"),
            ("signal 11", "signal 11"),
        ] {
            let script =
                format!("up\n 300 fired n1 t delay 100\n 500 exit n2 {how}\n 3000 stage stop");
            check(
                &script,
                &[&format!("another node exited by itself: {said}")],
            );
        }
        check(
            "up\n 500 exit n2 code 1\n 900 stage stop",
            &["a node exited by itself: code 1"],
        );
    }

    const THROW: &str = "up\n 300 fired n1 t throw java.io.IOException\n 400 exit n1 code 1\n";
    const SHOWN: &str =
        " 310 log n1 ERROR x.Main t: bad // java.io.IOException: injected by Temblor\n";

    #[test]
    fn stopping_on_the_injected_exception_passes_if_it_comes_back() {
        let back = " 900 stage heal\n 901 start n1\n 1000 ready n1\n 3000 stage stop";
        check(&format!("{THROW}{SHOWN}{back}"), &["pass"]);
        // A silent exit is none of that.
        check(
            &format!("{THROW}{back}"),
            &["the faulted node exited by itself: code 1"],
        );
    }

    #[test]
    fn stopping_without_a_restart_is_unknown() {
        check(&format!("{THROW}{SHOWN} 3000 stage stop"), &["unknown"]);
    }

    #[test]
    fn an_exit_long_after_the_exception_fails() {
        let script = "up\n 300 fired n1 t throw java.io.IOException\n\
         310 log n1 ERROR x t: IOException\n 9000 exit n1 code 1\n 9100 start n1\n\
          9200 ready n1\n 9900 stage stop";
        check(script, &["the faulted node exited by itself: code 1"]);
    }

    #[test]
    fn an_exception_in_one_node_is_no_reason_for_another_to_exit() {
        let script = "up\n 300 fired n1 t throw java.io.IOException\n\
         310 log n2 ERROR x t: IOException\n 400 exit n2 code 1\n 900 start n2\n\
          1000 ready n2\n 3000 stage stop";
        check(script, &["another node exited by itself: code 1"]);
    }

    #[test]
    fn a_node_that_does_not_come_back_fails() {
        let crash = "up\n 300 fired n1 t crash\n 301 kill n1\n 900 stage heal\n 901 start n1\n";
        check(
            &format!("{crash} 3000 stage stop\n 3001 kill n1"),
            &["the faulted node did not come up: never ready again after its restart"],
        );
        check(
            &format!("{crash} 950 exit n1 code 3\n 3000 stage stop"),
            &["the faulted node exited by itself: code 3 before it was ready again"],
        );
        check(
            &format!("{THROW}{SHOWN} 901 start n1\n 3000 stage stop"),
            &["the faulted node did not come up: never ready again after its restart"],
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
    fn a_node_that_cannot_join_at_all_fails() {
        let script = "0 start n1\n 0 start n2\n 100 ready n1\n\
         60 fired n1 t throw java.io.IOException\n 5000 stage stop";
        check(script, &["another node did not come up: never ready"]);
    }
}
