//! What was wrong with a clean run, in words a user can act on.

use std::collections::BTreeSet;
use std::path::Path;

use temblor_model::bug::Outcome;
use temblor_model::event::{Event, What};

use crate::trial::Finished;

/// So much of a client's log is shown.
const TAIL_LINES: usize = 4;
const TAIL_BYTES: usize = 2_048;

/// Why a clean run does not count as clean, in words. Where the workload restarts or pauses nodes,
/// clients may notice.
pub(crate) fn troubles(
    finished: &Finished,
    outcome: &Outcome,
    logs: &Path,
    may_notice: bool,
) -> Vec<String> {
    let mut out = Vec::new();
    let events = &finished.history.events;
    if !finished.all_ready {
        let ready = |node: &String| {
            let is = |w: &What| matches!(w, What::NodeReady { node: n } if n == node);
            events.iter().any(|e| is(&e.what))
        };
        let never: Vec<&str> = finished
            .history
            .nodes
            .iter()
            .filter(|n| !ready(n))
            .map(String::as_str)
            .collect();
        out.push(format!("never ready: {}", never.join(", ")));
    }
    if !events.iter().any(|e| matches!(e.what, What::Hit { .. })) {
        out.push(no_hits(events));
    }
    for event in events {
        match &event.what {
            What::NodeExited {
                node,
                code,
                signal,
                injected: false,
            } => {
                let last = last_words(events, node);
                let how = how(*code, *signal);
                out.push(format!("{node} ended by itself {how}{last}"));
            }
            What::OpsDone(done) if done.wrong == 0 && may_notice => {}
            What::OpsDone(done) if done.fail + done.timeout + done.wrong > 0 => out.push(format!(
                "client {}: {} failed, {} timed out, {} wrong",
                done.client, done.fail, done.timeout, done.wrong
            )),
            What::Garbage { client, line } => {
                let line: String = line.chars().take(120).collect();
                out.push(format!(
                    "client {client} printed a line that is no operation: `{line}`; \
                     expected one JSON object a line (docs/targets.md)"
                ));
            }
            What::ClientExited {
                client,
                code,
                signal,
            } if *code != Some(0) => {
                let last = last_lines(&logs.join(format!("{client}.log")));
                out.push(format!(
                    "client {client} ended {}{last}",
                    how(*code, *signal)
                ));
            }
            What::Deadline { limit_ms } => {
                out.push(format!("the workload was not done within {limit_ms} ms"));
            }
            _ => {}
        }
    }
    let symptoms = outcome
        .symptoms()
        .map(|s| format!("{}: {}", s.checker, s.summary));
    out.extend(symptoms);
    // A node that dies at every start says the same each time.
    let mut seen = BTreeSet::new();
    out.retain(|line| seen.insert(line.clone()));
    out.truncate(12);
    out
}

/// Without hits no fault can ever fire: the agent did not load, or hooks the wrong classes.
fn no_hits(events: &[Event]) -> String {
    let of_agent = |event: &Event| match &event.what {
        What::Log { message, .. } if message.starts_with("temblor-agent:") => Some(message.clone()),
        _ => None,
    };
    match events.iter().find_map(of_agent) {
        Some(message) => format!("no site was reached: {message}"),
        None => "no site was reached: does `analysis.packages` name the target's classes?".into(),
    }
}

/// The last log lines of a node, for an error message.
fn last_words(events: &[Event], node: &str) -> String {
    let mut last: Vec<String> = Vec::new();
    for event in events.iter().rev() {
        if let What::Log {
            node: n,
            message,
            more,
            ..
        } = &event.what
            && n == node
        {
            last.extend(more.iter().rev().take(3).map(|m| format!("\n    {m}")));
            last.push(format!("\n    {message}"));
        }
        if last.len() >= 4 {
            break;
        }
    }
    last.reverse();
    said(&last.concat())
}

/// The last lines a client wrote to its log, for an error message.
fn last_lines(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    // The end of a long log is enough.
    let tail = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    said(
        &last
            .iter()
            .map(|l| format!("\n    {l}"))
            .collect::<String>(),
    )
}

fn said(words: &str) -> String {
    match words.is_empty() {
        true => " without a word in its log".into(),
        false => format!("; its last words:{words}"),
    }
}

fn how(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => "in an unknown way".into(),
    }
}
