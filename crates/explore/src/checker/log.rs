//! `log`: lines that clean runs do not print.
//!
//! Decision: novelty alone is weak evidence. Systems are meant to warn when something goes wrong,
//! so a new WARN line is an *observation*: listed with the judgement, which passes. Only ERROR and
//! worse (FATAL, SEVERE), and exceptions that end a thread, fail; and only when
//! - the template is not among the baselines' (without a baseline nothing is novel);
//! - a fault fired before the line was printed;
//! - the line is not a reaction to the injected exception: neither it nor its stack trace carries
//!   the agent's mark or, with an injected exception's class name, two of the frames of the
//!   injection; and the thread that was hit did not print it within `grace`;
//! - it is not about a lost, refused or timed-out connection: any fault may cost connections
//!   (a handler that throws closes its socket, a crashed node is not there, a delayed one is
//!   late), and the peers are right to say so.

use std::sync::LazyLock;

use regex::Regex;
use temblor_model::bug::{Judgement, Symptom, Verdict};
use temblor_model::event::What;
use temblor_model::history::{Baseline, History};
use temblor_model::plan::Fault;

use super::crash::MARK;
use super::{Checker, conclude};
use crate::baseline::is_uncaught;
use crate::effects::{Effects, Injected};
use crate::template::{severity, template};

/// Observations kept per trial.
const OBSERVATIONS: usize = 5;
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
        let mut symptoms = Vec::new();
        let mut observations = Vec::new();
        for line in lines(history) {
            let template = template(line.level, line.logger, line.message);
            if baseline.templates.contains(&template) || !line.is_bad() {
                continue;
            }
            let list = if line.is_failure() && !is_expected(&line, &effects) {
                &mut symptoms
            } else {
                &mut observations
            };
            list.push(line.symptom(&template, &effects));
        }
        if !symptoms.is_empty() {
            return conclude(self.name(), symptoms, &[]);
        }
        let mut judgement = conclude(self.name(), observations, &[]);
        judgement.verdict = Verdict::Pass;
        judgement.symptoms.truncate(OBSERVATIONS);
        judgement
    }
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

    fn is_uncaught(&self) -> bool {
        self.texts().any(is_uncaught)
    }

    fn is_bad(&self) -> bool {
        severity(self.level) > 0 || self.is_uncaught()
    }

    fn is_failure(&self) -> bool {
        severity(self.level) > 1 || self.is_uncaught()
    }

    fn symptom(&self, template: &str, effects: &Effects) -> Symptom {
        let mut detail = vec![format!("{}: {} {}", self.node, self.level, self.message)];
        detail.extend(self.more.iter().take(DETAIL_LINES).cloned());
        Symptom {
            checker: "log".into(),
            summary: format!("{} logged: {template}", effects.role(self.node)),
            detail,
            at_us: self.at_us,
        }
    }
}

fn is_expected(line: &Line<'_>, effects: &Effects) -> bool {
    let mut fired = effects
        .injected
        .iter()
        .filter(|i| i.at_us <= line.at_us)
        .peekable();
    let before_any = fired.peek().is_none();
    before_any
        || line.texts().any(|text| text.contains(MARK))
        || fired.any(|injected| reacts(line, injected, effects.grace_us))
        || CONNECTION.is_match(line.message)
        || line
            .more
            .first()
            .is_some_and(|first| CONNECTION.is_match(first))
}

/// Whether a line is about this injected fault.
fn reacts(line: &Line<'_>, injected: &Injected, grace_us: u64) -> bool {
    if injected.node.as_deref() != Some(line.node) {
        return false;
    }
    let soon = line.at_us <= injected.until_us.saturating_add(grace_us);
    if soon && !line.thread.is_empty() && line.thread == injected.thread {
        return true;
    }
    let Fault::Throw { exception } = &injected.fault else {
        return false;
    };
    let simple = exception.rsplit(['.', '$']).next().unwrap_or(exception);
    let names_it = line.texts().any(|text| text.contains(simple));
    let frame_in_line = |frame: &&String| {
        let method = frame.split('(').next().unwrap_or(frame).trim();
        !method.is_empty() && line.more.iter().any(|text| text.contains(method))
    };
    let frames = injected.frames.iter().filter(frame_in_line).count();
    names_it && frames >= injected.frames.len().min(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{baseline, history};

    /// `pass` with the number of observations, or the summaries.
    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        let mut baseline = baseline();
        let normal = [
            "ERROR x.Main: cannot find snapshot <*>",
            "WARN x.Peer: slow by <*> ms",
        ];
        baseline.templates.extend(normal.map(String::from));
        let judgement = Log.judge(&history(script), Some(&baseline));
        let passed = format!("pass, {} observed", judgement.symptoms.len());
        let said: Vec<&str> = match judgement.verdict {
            Verdict::Fail => judgement
                .symptoms
                .iter()
                .map(|s| s.summary.as_str())
                .collect(),
            _ => vec![&passed],
        };
        assert_eq!(said, expected, "{judgement:#?}");
    }

    const THROW: &str = "up\n 300 fired n1 worker throw java.io.IOException\n";
    const CRASH: &str = "up\n 300 fired n1 worker crash\n 301 kill n1\n";

    #[test]
    fn an_error_that_clean_runs_do_not_print_fails() {
        check(
            &format!("{THROW} 400 log n2 ERROR x.Store t: entry 17 lost"),
            &["another node logged: ERROR x.Store: entry <*> lost"],
        );
        for level in ["FATAL", "SEVERE"] {
            let said = format!("the faulted node logged: {level} x.Store: index damaged");
            check(
                &format!("{THROW} 400 log n1 {level} x.Store t: index damaged"),
                &[&said],
            );
        }
    }

    #[test]
    fn the_same_template_is_told_once() {
        let twice = " 400 log n2 ERROR x.S t: entry 1 lost\n 500 log n3 ERROR x.S t: entry 2 lost";
        let said = ["another node logged: ERROR x.S: entry <*> lost"];
        check(&format!("{THROW}{twice}"), &said);
    }

    #[test]
    fn what_clean_runs_print_passes() {
        check(
            &format!("{THROW} 400 log n2 ERROR x.Main t: cannot find snapshot 9"),
            &["pass, 0 observed"],
        );
        check(
            &format!("{THROW} 400 log n2 WARN x.Peer t: slow by 77 ms"),
            &["pass, 0 observed"],
        );
    }

    #[test]
    fn a_new_warning_is_an_observation() {
        check(
            &format!("{THROW} 400 log n2 WARN x.Peer t: vote changed"),
            &["pass, 1 observed"],
        );
        check(
            &format!("{THROW} 400 log n2 INFO x.Peer t: vote changed"),
            &["pass, 0 observed"],
        );
    }

    #[test]
    fn the_injected_exception_itself_passes() {
        let marked = " 400 log n2 ERROR x.S t: lost // java.io.IOException: injected by Temblor";
        check(&format!("{THROW}{marked}"), &["pass, 1 observed"]);
        let frames = " 400 log n1 ERROR x.S t: lost // java.io.IOException // \
                      at x.Log.append(Log.java:7) // at x.Store.put(Store.java:3)";
        check(&format!("{THROW}{frames}"), &["pass, 1 observed"]);
        let own_thread = " 400 log n1 ERROR x.S worker: append failed";
        check(&format!("{THROW}{own_thread}"), &["pass, 1 observed"]);
    }

    #[test]
    fn another_exception_of_the_same_type_elsewhere_fails() {
        let elsewhere =
            " 400 log n1 ERROR x.S t: lost // java.io.IOException // at x.Other.read(O:1)";
        let said = ["the faulted node logged: ERROR x.S: lost"];
        check(&format!("{THROW}{elsewhere}"), &said);
    }

    #[test]
    fn the_thread_that_was_hit_is_not_excused_for_ever() {
        check(
            &format!("{THROW} 9000 log n1 ERROR x.S worker: append failed"),
            &["the faulted node logged: ERROR x.S: append failed"],
        );
    }

    #[test]
    fn an_exception_that_ends_a_thread_fails_at_any_level() {
        let uncaught = r#"Exception in thread "t-3" java.lang.NullPointerException"#;
        let said = "another node logged:  stderr: Exception in thread <*> \
                    java.lang.NullPointerException";
        check(
            &format!("{THROW} 400 log n2  stderr t: {uncaught}"),
            &[said],
        );
    }

    #[test]
    fn lost_connections_pass() {
        for line in [
            "Connection to n1 lost",
            "send failed // java.net.SocketException: Broken pipe",
            "read // java.io.EOFException",
            "vote of n1 timed out",
        ] {
            let script = format!("{CRASH} 400 log n2 ERROR x.Peer t: {line}");
            check(&script, &["pass, 1 observed"]);
        }
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
    fn without_a_baseline_nothing_is_new() {
        let history = history(&format!("{THROW} 400 log n2 ERROR x.S t: odd"));
        assert_eq!(Log.judge(&history, None).verdict, Verdict::Pass);
    }
}
