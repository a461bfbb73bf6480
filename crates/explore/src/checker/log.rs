//! `log`: lines that clean runs do not print.
//!
//! Decision: novelty alone is weak evidence. Any system prints errors on any fault, and should. So
//! most new lines at WARN and worse are *observations*: listed with the judgement, which passes.
//! Two kinds of lines fail, if their template is not among the baselines' (without a baseline
//! nothing is new), a fault fired before, and the lab had not begun to stop the nodes:
//! - **an exception that ended a thread**, unless it is, wraps or follows in the same thread from
//!   the injected one, or the faulted node was about to exit (then `crash` judges the exit);
//! - **an unexplained error** (ERROR, FATAL, SEVERE). Explained is what
//!   - is a reaction to an injected exception: the line or its stack trace, causes included,
//!     carries the agent's mark, or the exception's class name with two of the injection's frames;
//!   - a node prints while `effects.rs` excuses its clients: whoever works with a faulted node is
//!     right to complain as long as the fault, or what it set off, lasts;
//!   - is about a lost, refused or timed-out connection: any fault may cost connections, and the
//!     peers are right to say so.
//!
//! Symptoms and observations come ranked: exceptions that ended a thread first, then by severity,
//! then those of a thread that was hit, then those whose logger complains in no clean run, then the
//! closest in time to a fault.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use temblor_model::bug::{Judgement, Misbehaviour, Symptom};
use temblor_model::event::What;
use temblor_model::history::{Baseline, History};
use temblor_model::names::method_of_frame;
use temblor_model::plan::Fault;

use super::crash::MARK;
use super::{Checker, conclude, conclude_ranked, observe};
use crate::effects::{Effects, Injected};
use crate::template::{ends_thread, normalise, severity, template};

/// Symptoms, or observations, kept per trial.
const MOST: usize = 5;
/// Lines of a stack trace kept as detail.
const DETAIL_LINES: usize = 12;

/// What lost connections sound like.
static CONNECTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)connect|disconnect|socket|broken pipe|reset by peer|refused|unreachable|EOFException",
        r"|end of stream|closed (?:channel|stream|by)|time(?:d|s)?[ -]?out|not responding|no route",
    ))
    .expect("the pattern is constant")
});

/// See the module.
pub struct Log;

struct Line<'a> {
    at_us: u64,
    node: &'a str,
    level: &'a str,
    logger: &'a str,
    thread: &'a str,
    message: &'a str,
    more: &'a [String],
}

impl Checker for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn judge(&self, history: &History, baseline: Option<&Baseline>) -> Judgement {
        let Some(baseline) = baseline else {
            return conclude(self.name(), Vec::new(), &[]);
        };
        let effects = Effects::of(history, Some(baseline));
        let known: BTreeSet<&str> = baseline
            .templates
            .iter()
            .filter_map(|t| logger(t))
            .collect();
        let (mut symptoms, mut observations) = (Vec::new(), Vec::new());
        for line in lines(history).filter(Line::is_bad) {
            let template = template(line.level, line.logger, line.message);
            if baseline.templates.contains(&template) {
                continue;
            }
            let is_new_voice = !known.contains(normalise(line.logger).as_str());
            let told = (
                rank(&line, is_new_voice, &effects),
                line.symptom(&template, &effects),
            );
            if is_expected(&line, &effects) {
                observations.push(told);
            } else {
                symptoms.push(told);
            }
        }
        if symptoms.is_empty() {
            return observe(self.name(), ranked(observations));
        }
        conclude_ranked(self.name(), ranked(symptoms), &[])
    }
}

/// The smaller, the more telling: see the module.
type Rank = (
    Reverse<bool>,
    Reverse<u8>,
    Reverse<bool>,
    Reverse<bool>,
    u64,
);

fn rank(line: &Line<'_>, is_new_voice: bool, effects: &Effects) -> Rank {
    let since_us = line.since_fault_us(effects).unwrap_or(u64::MAX);
    (
        Reverse(line.ends_thread()),
        Reverse(severity(line.level)),
        Reverse(line.is_of_the_struck(effects)),
        Reverse(is_new_voice),
        since_us,
    )
}

/// In order of rank, each summary once, the most telling only.
fn ranked(mut told: Vec<(Rank, Symptom)>) -> Vec<Symptom> {
    told.sort_by(|a, b| (&a.0, a.1.at_us).cmp(&(&b.0, b.1.at_us)));
    let mut seen = BTreeSet::new();
    told.retain(|(_, symptom)| seen.insert(symptom.summary.clone()));
    let symptoms = told.into_iter().map(|(_, symptom)| symptom);
    symptoms.take(MOST).collect()
}

/// The logger in a template.
fn logger(template: &str) -> Option<&str> {
    let (_, rest) = template.split_once(' ')?;
    rest.split_once(": ").map(|(logger, _)| logger)
}

fn lines(history: &History) -> impl Iterator<Item = Line<'_>> {
    history.events.iter().filter_map(|event| match &event.what {
        What::Log {
            node,
            level,
            logger,
            thread,
            message,
            more,
        } => Some(Line {
            at_us: event.at_us,
            node,
            level,
            logger,
            thread,
            message,
            more,
        }),
        _ => None,
    })
}

impl Line<'_> {
    fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.message).chain(self.more.iter().map(String::as_str))
    }

    fn ends_thread(&self) -> bool {
        ends_thread(self.level, self.message, self.more)
    }

    fn is_bad(&self) -> bool {
        severity(self.level) > 0 || self.ends_thread()
    }

    /// Printed by a thread that was hit before.
    fn is_of_the_struck(&self, effects: &Effects) -> bool {
        let mut before = effects.injected.iter().filter(|i| i.at_us <= self.at_us);
        before.any(|injected| {
            let own = injected.node.as_deref() == Some(self.node);
            own && !injected.thread.is_empty() && self.thread == injected.thread
        })
    }

    /// Since the last fault before the line.
    fn since_fault_us(&self, effects: &Effects) -> Option<u64> {
        let fired = effects.injected.iter().filter(|i| i.at_us <= self.at_us);
        fired.map(|i| self.at_us - i.at_us).min()
    }

    fn symptom(&self, template: &str, effects: &Effects) -> Symptom {
        let mut detail = vec![format!("{}: {} {}", self.node, self.level, self.message)];
        detail.extend(self.more.iter().take(DETAIL_LINES).cloned());
        if let Some(since_us) = self.since_fault_us(effects) {
            let after = effects.virtual_s(since_us);
            detail.push(format!("{after} (virtual) after the fault"));
        }
        let (who, shows): (&str, fn(String) -> Misbehaviour) = match self.is_of_the_struck(effects)
        {
            true => ("the thread that was hit", Misbehaviour::Reaction),
            false => (effects.role(self.node), Misbehaviour::Log),
        };
        let summary = format!("{who} logged: {template}");
        Symptom {
            checker: "log".into(),
            shows: shows(summary.clone()),
            summary,
            detail,
            at_us: self.at_us,
        }
    }

    /// Every line but the frames of stack traces.
    fn is_about_a_connection(&self) -> bool {
        let mut said = self.texts().filter(|text| !text.trim().starts_with("at "));
        said.any(|text| CONNECTION.is_match(text))
    }
}

/// Whether a line at WARN or worse, or of a thread's end, is no failure.
fn is_expected(line: &Line<'_>, effects: &Effects) -> bool {
    let fired = || effects.injected.iter().filter(|i| i.at_us <= line.at_us);
    if fired().next().is_none() || line.at_us > effects.stop_us {
        return true;
    }
    let carries = line.texts().any(|text| text.contains(MARK))
        || fired().any(|injected| carries(line, injected));
    let is_faulted = fired().any(|i| faults(i, line.node));
    if line.ends_thread() {
        let same_thread = fired().any(|i| follows_in_thread(line, i, effects.grace_us));
        return carries || same_thread || is_faulted && is_going_down(line, effects);
    }
    let excused = || effects.explains(line.node, line.at_us, line.at_us);
    severity(line.level) < 2 || carries || line.is_about_a_connection() || excused()
}

/// Whether a fault happened in this node; between nodes means in all.
fn faults(injected: &Injected, node: &str) -> bool {
    injected.node.as_deref().is_none_or(|n| n == node)
}

/// Whether the node exits soon after the line, and not because it was told to.
fn is_going_down(line: &Line<'_>, effects: &Effects) -> bool {
    let until_us = line.at_us.saturating_add(effects.grace_us);
    let lives = effects.lives.iter().filter(|life| life.node == line.node);
    let mut exits = lives.filter_map(|life| life.exit.as_ref());
    exits.any(|exit| (line.at_us..=until_us).contains(&exit.at_us) && exit.at_us < effects.stop_us)
}

/// Whether the line tells of the injected exception's own type and the thread that was hit.
fn follows_in_thread(line: &Line<'_>, injected: &Injected, grace_us: u64) -> bool {
    let soon = line.at_us <= injected.until_us.saturating_add(grace_us);
    let quoted = format!("\"{}\"", injected.thread);
    let same = line.thread == injected.thread || line.texts().any(|text| text.contains(&quoted));
    let own = injected.node.as_deref() == Some(line.node) && !injected.thread.is_empty();
    own && soon && same && names(line, injected)
}

fn names(line: &Line<'_>, injected: &Injected) -> bool {
    let Fault::Throw { exception } = &injected.fault else {
        return false;
    };
    let simple = exception.rsplit(['.', '$']).next().unwrap_or(exception);
    line.texts().any(|text| text.contains(simple))
}

/// Whether a line, or a cause in its stack trace, is this injected exception.
fn carries(line: &Line<'_>, injected: &Injected) -> bool {
    let frame_in_line = |frame: &&String| {
        let method = method_of_frame(frame);
        !method.is_empty() && line.more.iter().any(|text| text.contains(method))
    };
    let frames = injected.frames.iter().filter(frame_in_line).count();
    let own = injected.node.as_deref() == Some(line.node);
    own && names(line, injected) && frames >= injected.frames.len().min(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{baseline, history, said};

    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        let mut baseline = baseline();
        let normal = [
            "ERROR x.Main: cannot find snapshot <*>",
            "WARN x.Peer: slow by <*> ms",
        ];
        baseline.templates.extend(normal.map(String::from));
        let judgement = Log.judge(&history(script), Some(&baseline));
        assert_eq!(said(&judgement), expected, "{judgement:#?}");
    }

    const THROW: &str = "up\n 300 fired n1 worker throw java.io.IOException\n";
    const CRASH: &str = "up\n 300 fired n1 worker crash\n 301 kill n1\n";

    #[test]
    fn an_error_of_another_node_fails_when_the_fault_is_long_over() {
        let soon = format!("{THROW} 400 log n2 FATAL x.Store t: entry 17 lost");
        check(&soon, &["pass, 1 observed"]);
        for level in ["ERROR", "FATAL", "SEVERE"] {
            check(
                &format!("{THROW} 9000 log n2 {level} x.Store t: entry 17 lost"),
                &[&format!(
                    "another node logged: {level} x.Store: entry <*> lost"
                )],
            );
        }
    }

    #[test]
    fn an_error_of_the_faulted_node_fails_only_when_the_fault_is_long_over() {
        let line = |at: u64| format!("{THROW} {at} log n1 ERROR x.Store t: index damaged");
        check(&line(400), &["pass, 1 observed"]);
        check(
            &line(9_000),
            &["the faulted node logged: ERROR x.Store: index damaged"],
        );
        // A restart is a consequence of the crash.
        let back = format!("{CRASH} 20000 start n1\n 20100 ready n1\n");
        let recovers = format!("{back} 20050 log n1 ERROR x.Log t: the last entry is torn");
        check(&recovers, &["pass, 1 observed"]);
    }

    #[test]
    fn a_partition_faults_every_node() {
        let cut = "up\n 300 lab partition n1 | n2,n3\n 5000 lab heal\n";
        let line = |at: u64| format!("{cut} {at} log n2 ERROR x.Store t: no majority");
        check(&line(4_000), &["pass, 1 observed"]);
        check(
            &line(11_000),
            &["a node logged: ERROR x.Store: no majority"],
        );
    }

    #[test]
    fn the_same_template_is_told_once() {
        let twice =
            " 9000 log n2 ERROR x.S t: entry 1 lost\n 9500 log n3 ERROR x.S t: entry 2 lost";
        let said = ["another node logged: ERROR x.S: entry <*> lost"];
        check(&format!("{THROW}{twice}"), &said);
    }

    #[test]
    fn what_clean_runs_print_passes() {
        for line in [
            "ERROR x.Main t: cannot find snapshot 9",
            "WARN x.Peer t: slow by 77 ms",
            "INFO x.Peer t: vote changed",
        ] {
            check(&format!("{THROW} 400 log n2 {line}"), &["pass"]);
        }
    }

    #[test]
    fn a_new_warning_is_an_observation() {
        check(
            &format!("{THROW} 400 log n2 WARN x.Peer t: vote changed"),
            &["pass, 1 observed"],
        );
    }

    #[test]
    fn the_injected_exception_itself_passes() {
        for line in [
            "400 log n2 ERROR x.S t: lost // java.io.IOException: injected by Temblor",
            "9000 log n1 ERROR x.S t: lost // x.StoreException: no // at x.Pool.run(P.java:1) // \
             Caused by: java.io.IOException // at x.Log.append(Log.java:7) // \
             at x.Store.put(Store.java:3)",
        ] {
            check(&format!("{THROW} {line}"), &["pass, 1 observed"]);
        }
        let elsewhere =
            " 9000 log n1 ERROR x.S t: lost // java.io.IOException // at x.Other.read(O:1)";
        let said = ["the faulted node logged: ERROR x.S: lost"];
        check(&format!("{THROW}{elsewhere}"), &said);
    }

    /// What the JVM prints, and which words of it stay in a symptom.
    fn uncaught(node: &str, thread: &str, exception: &str) -> String {
        format!(" 400 log {node}  stderr t: Exception in thread \"{thread}\" {exception}\n")
    }

    #[test]
    fn an_exception_that_ends_a_thread_fails_even_on_the_faulted_node() {
        let npe = "java.lang.NullPointerException";
        for (node, role) in [("n1", "the faulted node"), ("n2", "another node")] {
            let said = format!("{role} logged:  stderr: Exception in thread <*> {npe}");
            check(&format!("{THROW}{}", uncaught(node, "t-3", npe)), &[&said]);
        }
        // That it is about a connection does not matter: the thread is gone.
        let socket = "java.net.SocketException";
        let said = format!("another node logged:  stderr: Exception in thread <*> {socket}");
        check(
            &format!("{THROW}{}", uncaught("n2", "t-3", socket)),
            &[&said],
        );
    }

    #[test]
    fn an_injected_exception_that_ends_its_thread_passes() {
        let io = "java.io.IOException";
        let seen = ["pass, 1 observed"];
        check(&format!("{THROW}{}", uncaught("n1", "worker", io)), &seen);
        let marked = format!("{io}: injected by Temblor");
        check(&format!("{THROW}{}", uncaught("n2", "t-3", &marked)), &seen);
        let said = format!("the faulted node logged:  stderr: Exception in thread <*> {io}");
        check(&format!("{THROW}{}", uncaught("n1", "t-3", io)), &[&said]);
    }

    #[test]
    fn threads_that_end_with_their_node_pass() {
        let npe = uncaught("n1", "t-3", "java.lang.NullPointerException");
        check(
            &format!("{THROW}{npe} 500 exit n1 code 1\n 9000 stage stop"),
            &["pass, 1 observed"],
        );
        check(
            &format!("{THROW} 399 stage stop\n{npe}"),
            &["pass, 1 observed"],
        );
    }

    #[test]
    fn lost_connections_pass() {
        for line in [
            "Connection to n1 lost",
            "send failed // java.net.SocketException: Broken pipe",
            "read // x.PeerException // at x.P.read(P:1) // Caused by: java.io.EOFException",
            "vote of n1 timed out",
        ] {
            let script = format!("{CRASH} 9000 log n2 ERROR x.Peer t: {line}");
            check(&script, &["pass, 1 observed"]);
        }
        let frame = "broken // x.PeerException // at x.SocketReader.read(P:1)";
        check(
            &format!("{CRASH} 9000 log n2 ERROR x.Peer t: {frame}"),
            &["another node logged: ERROR x.Peer: broken"],
        );
    }

    #[test]
    fn what_came_before_the_fault_passes() {
        check(
            &format!("{THROW} 200 log n2 ERROR x.S t: odd"),
            &["pass, 1 observed"],
        );
        check("up\n 200 log n2 ERROR x.S t: odd", &["pass, 1 observed"]);
    }

    #[test]
    fn the_most_telling_comes_first() {
        let lines = " 9320 log n2 ERROR x.Main t: known voice\n 9330 log n2 ERROR x.New t: late\n\
                     9325 log n3 ERROR x.New t: early\n 9500 log n2 FATAL x.Main t: fatal\n\
                     9600 log n1 ERROR x.Main worker: was hit\n"
            .to_owned()
            + &uncaught("n3", "t-3", "x.E");
        check(
            &format!("{THROW}{lines}"),
            &[
                "another node logged:  stderr: Exception in thread <*> x.E",
                "another node logged: FATAL x.Main: fatal",
                "the thread that was hit logged: ERROR x.Main: was hit",
                "another node logged: ERROR x.New: early",
                "another node logged: ERROR x.New: late",
            ],
        );
    }

    #[test]
    fn without_a_baseline_nothing_is_new() {
        let history = history(&format!("{THROW} 400 log n2 ERROR x.S t: odd"));
        assert_eq!(said(&Log.judge(&history, None)), ["pass"]);
    }
}
