//! `crash`: a node ended by itself, or its JVM broke.
//!
//! Rules:
//! - An exit that the plan or the lab's stop caused is expected, as is any exit in the last stage.
//! - Stopping on an injected exception is a proper reaction (fail-stop): it passes when the exit
//!   follows the throw on the same node within `grace`, the node's log shows the exception, and
//!   somebody started the node again (whether it then serves is for `recovery` to say). If nobody
//!   did, nobody can tell.
//! - Stopping when the plan damaged the node's files may be right, too: unknown.
//! - A node that somebody outside the trial ended (SIGKILL, SIGTERM, and no trouble of the JVM in
//!   its log) is unknown: the machine may have run out of memory.
//! - Any other exit before the last stage fails, whatever its code or signal.
//! - A JVM that reports a fatal error of its own or an `OutOfMemoryError` in the log fails even if
//!   it lives on, unless the plan injected that error. No more native threads is the machine's
//!   limit: unknown.

use std::sync::LazyLock;

use regex::Regex;
use temblor_model::bug::{Judgement, Misbehaviour, Symptom};
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
                _ => trial.lives_on(&life),
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
        let trouble = self.jvm_trouble(life, self.stopping_us);
        let node = &life.node;
        if trouble.is_none() && matches!(exit.signal, Some(SIGKILL | SIGTERM)) {
            let how = how(exit);
            let reason = format!("{node} was ended from outside ({how}): is there memory enough?");
            self.reasons.push(reason);
            return;
        }
        if self.files_damaged(life) {
            let reason = format!("{node} exited when its files were damaged: it may be right to");
            self.reasons.push(reason);
            return;
        }
        let cause = trouble.map_or(String::new(), |t| format!(", {}", t.kind.words()));
        let how = how(exit) + &cause;
        let again = match (life.ordinal, life.ready_us) {
            (0, Some(_)) => "",
            (0, None) => " before it was ready",
            (_, Some(_)) => " after its restart",
            (_, None) => " before it was ready again",
        };
        let death = format!("{role} exited by itself: {how}");
        let summary = format!("{death}{again}");
        let what = format!("{} {how}{again}", life.node);
        self.fail(death, summary, life, exit.at_us, what);
    }

    /// An injected crash that the lab saw as an ordinary exit.
    fn killed_by_plan(&self, life: &Life, exit: &Exit) -> bool {
        exit.signal == Some(SIGKILL)
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

    /// A JVM may break without ending at once.
    fn lives_on(&mut self, life: &Life) {
        let Some(trouble) = self.jvm_trouble(life, self.stopping_us) else {
            return;
        };
        let (role, node) = (self.effects.role(&life.node), &life.node);
        if trouble.kind == Trouble::Threads {
            let reason = format!("{node} could not start threads: the machine's limit, maybe");
            self.reasons.push(reason);
            return;
        }
        let (said, at_us) = (trouble.said, trouble.at_us);
        let death = format!("{role} broke: {}", trouble.kind.words());
        let what = format!("{node}: {said}");
        self.fail(death.clone(), death, life, at_us, what);
    }

    /// What the JVM of this process says of itself before `until_us`.
    fn jvm_trouble(&self, life: &Life, until_us: u64) -> Option<JvmTrouble> {
        let until_us = life.exit.as_ref().map_or(until_us, |exit| {
            until_us.min(exit.at_us.saturating_add(LAST_LINES_US))
        });
        let lines = log_lines(&self.history.events, life, until_us);
        lines
            .flat_map(|(at_us, _, message, more)| {
                let texts = std::iter::once(message).chain(more);
                texts.map(move |text| (at_us, text))
            })
            .find_map(|(at_us, text)| {
                let kind = Trouble::of(text).filter(|_| !self.is_injected_error(life, text))?;
                Some(JvmTrouble {
                    kind,
                    said: text.clone(),
                    at_us,
                })
            })
    }

    /// Errors can be injected like any exception.
    fn is_injected_error(&self, life: &Life, text: &str) -> bool {
        let thrown = |injected: &Injected| {
            let on_node = injected.node.as_deref() == Some(&life.node);
            on_node
                && matches!(&injected.fault, Fault::Throw { exception } if text.contains(exception))
        };
        text.contains(MARK) || self.effects.injected.iter().any(thrown)
    }

    fn files_damaged(&self, life: &Life) -> bool {
        let damages =
            |fault: &Fault| matches!(fault, Fault::Corrupt { node, .. } if *node == life.node);
        let mut injected = self.effects.injected.iter();
        injected.any(|i| damages(&i.fault))
    }

    fn fail(&mut self, death: String, summary: String, life: &Life, at_us: u64, what: String) {
        let mut detail = vec![what];
        detail.extend(last_words(&self.history.events, life, at_us));
        self.symptoms.push(Symptom {
            checker: "crash".into(),
            shows: Misbehaviour::Death(death),
            summary,
            detail,
            at_us,
        });
    }
}

/// What the JVM says of itself.
struct JvmTrouble {
    kind: Trouble,
    said: String,
    at_us: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Fatal,
    Memory,
    Threads,
}

impl Trouble {
    fn of(text: &str) -> Option<Trouble> {
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if says(&[
            "A fatal error has been detected by the Java Runtime",
            "insufficient memory for the Java Runtime",
            "# Problematic frame:",
        ]) || text.contains("hs_err_pid") && text.starts_with("# ")
        {
            Some(Trouble::Fatal)
        } else if says(&[
            "unable to create native thread",
            "unable to create new native",
        ]) {
            Some(Trouble::Threads)
        } else if says(&["java.lang.OutOfMemoryError"]) {
            Some(Trouble::Memory)
        } else {
            None
        }
    }

    fn words(self) -> &'static str {
        match self {
            Trouble::Fatal => "a fatal error of the JVM",
            Trouble::Memory => "out of memory",
            Trouble::Threads => "out of threads",
        }
    }
}

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// A process's last lines are read a little after its end is seen, real microseconds.
const LAST_LINES_US: u64 = 500_000;

fn how(exit: &Exit) -> String {
    // A shell between the lab and the JVM tells signals this way.
    let shell = |code: i32| code.checked_sub(128).and_then(signal_name);
    match (exit.code, exit.signal) {
        (_, Some(signal)) => match signal_name(signal) {
            Some(name) => format!("signal {signal} ({name})"),
            None => format!("signal {signal}"),
        },
        (Some(code), None) => match shell(code) {
            Some(name) => format!("code {code} ({name})"),
            None => format!("code {code}"),
        },
        (None, None) => "unknown status".into(),
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        SIGKILL => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        SIGTERM => "SIGTERM",
        31 => "SIGSYS",
        _ => return None,
    })
}

/// Log lines of one process: when, level, message, what followed.
fn log_lines<'e>(
    events: &'e [Event],
    life: &'e Life,
    until_us: u64,
) -> impl DoubleEndedIterator<Item = (u64, &'e str, &'e String, &'e [String])> {
    let of_life = move |at_us: u64| at_us >= life.started_us && at_us <= until_us;
    events.iter().filter_map(move |event| match &event.what {
        What::Log {
            node,
            level,
            message,
            more,
            ..
        } if *node == life.node && of_life(event.at_us) => {
            Some((event.at_us, level.as_str(), message, more.as_slice()))
        }
        _ => None,
    })
}

/// What a node says when it gives up.
static GIVES_UP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\babort(?:s|ed|ing)?\b|\bfatal\b|\bhalt(?:s|ed|ing)?\b|\bexiting\b")
        .expect("the pattern is constant")
});

/// Why it ended, by its own words if it has any, and the last lines of its log: for people.
fn last_words(events: &[Event], life: &Life, until_us: u64) -> Vec<String> {
    const LINES: usize = 5;
    let line = |level: &str, message: &str| format!("{level} {message}");
    let gives_up = |level: &str, message: &str| level == "FATAL" || GIVES_UP.is_match(message);
    let all = || log_lines(events, life, until_us);
    let mut lines: Vec<String> = all()
        .rev()
        .take(LINES)
        .map(|(_, level, message, _)| line(level, message))
        .collect();
    lines.reverse();
    let why = all().find(|(_, level, message, _)| gives_up(level, message));
    if let Some(why) = why.map(|(_, level, message, _)| line(level, message))
        && !lines.contains(&why)
    {
        lines.insert(0, why);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{self, baseline, history};

    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        scripted::check(&Crash, script, expected);
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
    fn a_node_that_exits_by_itself_fails_whatever_its_code() {
        for (how, said) in [
            ("code 0", "code 0"),
            ("code 1", "code 1"),
            ("signal 11", "signal 11 (SIGSEGV)"),
            ("code 139", "code 139 (SIGSEGV)"),
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
    fn a_node_that_exits_again_when_it_is_started_fails() {
        let crash = "up\n 300 fired n1 t crash\n 301 kill n1\n 900 stage heal\n 901 start n1\n";
        check(
            &format!("{crash} 950 exit n1 code 3\n 3000 stage stop"),
            &["the faulted node exited by itself: code 3 before it was ready again"],
        );
        // One that never gets ready is `recovery`'s to judge.
        check(
            &format!("{crash} 3000 stage stop\n 3001 kill n1"),
            &["pass"],
        );
    }

    #[test]
    fn a_node_ended_from_outside_is_unknown() {
        for how in ["signal 9", "signal 15"] {
            check(
                &format!("up\n 500 exit n2 {how}\n 900 stage stop"),
                &["unknown"],
            );
        }
    }

    const OUT_OF_MEMORY: &str =
        " 450 log n2 ERROR x.Pool t: failed // java.lang.OutOfMemoryError: Java heap space\n";

    #[test]
    fn a_jvm_that_breaks_fails_with_or_without_an_exit() {
        let fatal = " 450 log n2  stdout t: # // \
                     # A fatal error has been detected by the Java Runtime Environment:\n";
        for (log, exit, said) in [
            (
                fatal,
                " 500 exit n2 signal 6\n",
                "a node exited by itself: signal 6 (SIGABRT), a fatal error of the JVM",
            ),
            (fatal, "", "a node broke: a fatal error of the JVM"),
            (
                OUT_OF_MEMORY,
                " 500 exit n2 signal 9\n",
                "a node exited by itself: signal 9 (SIGKILL), out of memory",
            ),
            (OUT_OF_MEMORY, "", "a node broke: out of memory"),
        ] {
            check(&format!("up\n{log}{exit} 900 stage stop"), &[said]);
        }
    }

    #[test]
    fn an_injected_error_and_settings_that_name_one_pass() {
        let throw = "up\n 300 fired n2 t throw java.lang.OutOfMemoryError\n";
        check(&format!("{throw}{OUT_OF_MEMORY} 900 stage stop"), &["pass"]);
        let option = " 200 log n2 INFO x.Env t: -XX:+HeapDumpOnOutOfMemoryError\n";
        check(&format!("up\n{option} 900 stage stop"), &["pass"]);
    }

    #[test]
    fn too_many_threads_are_the_machines_limit() {
        let threads = OUT_OF_MEMORY.replace("Java heap space", "unable to create native thread");
        check(&format!("up\n{threads} 900 stage stop"), &["unknown"]);
    }

    #[test]
    fn why_a_node_gave_up_comes_before_its_last_words() {
        let why = " 310 log n2 ERROR x.Server t: ABORTING: the journal is gone\n";
        let rest: String = (0..9)
            .map(|k| format!(" {} log n2 INFO x.Hook t: closing {k}\n", 320 + k))
            .collect();
        let script = format!("up\n{why}{rest} 500 exit n2 code 1\n 900 stage stop");
        let judgement = Crash.judge(&history(&script), Some(&baseline()));
        let detail = &judgement.symptoms[0].detail;
        assert_eq!(detail.len(), 7, "{detail:?}");
        assert_eq!(detail[1], "ERROR ABORTING: the journal is gone");
        assert_eq!(detail[6], "INFO closing 8");
    }
}
