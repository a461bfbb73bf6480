//! `client`: progress per client and node (Legolas §5.3, differential observability).
//!
//! Judged is the workload; how clients fare in the finale is for `recovery` to say, but for wrong
//! answers. Rules, each after `effects.rs` has said what the fault explains:
//! - **stuck**: an operation was invoked and never ended, its client lived until the deadline (or
//!   until the lab stopped it), and for longer than `patience`, and at least a real second,
//!   nothing excused it. A client that merely begins nothing more is not called stuck: it may
//!   sleep. Nor is one that was promised to be told of a change that never came.
//! - **no progress**: the last operations of their kinds in one phase of one client all failed or
//!   timed out, at least three of them (two once recovery began, when all is healed), none of
//!   them excused. A few failures around the fault are fine, and so is anything that succeeds
//!   later.
//! - **late time-outs**: two operations of one kind in one phase, of whichever clients, timed out
//!   though they began long (30 virtual seconds) after everything that could excuse them. An
//!   operation that *fails* late may be a proper refusal, and does not count here.
//! - **wrong**: an answer that contradicts what the client knows always fails.
//! - A client that exits badly or prints garbage is unknown, unless an excuse covers it.
//! - A deadline that nothing above accounts for is unknown, unless the unfinished clients'
//!   nodes are down.

use std::collections::{BTreeMap, BTreeSet};

use temblor_model::bug::{Judgement, Misbehaviour, Symptom};
use temblor_model::event::{Event, Stage, What};
use temblor_model::history::{Baseline, History};
use temblor_model::op::OpEvent;
use temblor_model::plan::Fault;

use super::{Checker, conclude};
use crate::effects::{Effects, awaited, stage_us};
use crate::ops::{Span, spans};
use crate::template::normalise;

/// Failures in a row that are no accident.
const FAILURES: usize = 3;
/// The same when every fault is healed.
const FAILURES_HEALED: usize = 2;
/// Time-outs that are no accident when nothing is left to settle.
const LATE_TIMEOUTS: usize = 2;
/// Least waiting that counts as stuck, real microseconds: a loaded machine stops for a while.
pub(super) const LEAST_STUCK_US: u64 = 1_000_000;

/// After so many times that, waiting longer would change nothing.
const LONG: u64 = 3;

/// See the module.
pub struct Client;

impl Checker for Client {
    fn name(&self) -> &'static str {
        "client"
    }

    fn judge(&self, history: &History, baseline: Option<&Baseline>) -> Judgement {
        let trial = Trial::new(history, baseline);
        let mut symptoms = trial.wrong();
        let stuck = trial.stuck();
        symptoms.extend(stuck.iter().map(|s| s.symptom(&trial.effects)));
        let no_progress = trial.no_progress();
        if no_progress.is_empty() {
            symptoms.extend(trial.late_timeouts());
        }
        symptoms.extend(no_progress);
        let mut reasons = trial.odd_clients();
        if symptoms.is_empty() {
            reasons.extend(trial.unfinished());
        }
        conclude(self.name(), symptoms, &reasons)
    }
}

/// A client that waits for nothing that could excuse it.
pub(super) struct Stuck<'a> {
    pub node: &'a str,
    client: &'a str,
    phase: &'a str,
    op: &'a str,
    since_us: u64,
    waited_us: u64,
    until_us: u64,
}

/// Operations without excuse that never end, for the checkers that explain them.
pub(super) fn stuck<'a>(history: &'a History, baseline: Option<&Baseline>) -> Vec<Stuck<'a>> {
    Trial::new(history, baseline).stuck()
}

/// Whether every client that is not done is stuck, three times as long as is called so.
pub(super) fn all_are_stuck(history: &History, baseline: Option<&Baseline>) -> bool {
    let trial = Trial::new(history, baseline);
    let long_us = LONG * trial.effects.patience_us.max(LEAST_STUCK_US);
    let stuck = trial.stuck();
    let waits_long = |client: &str| {
        let mut of_client = stuck.iter().filter(|s| s.client == client);
        of_client.any(|s| s.waited_us > long_us)
    };
    let is_over = |client: &str| trial.is_done(client) || trial.client_end(client).is_some();
    let mut clients = history.clients.iter().map(|role| role.client.as_str());
    !stuck.is_empty() && clients.all(|client| is_over(client) || waits_long(client))
}

impl Stuck<'_> {
    /// From when to when it waited without an excuse.
    pub(super) fn unexcused(&self) -> (u64, u64) {
        (self.until_us - self.waited_us, self.until_us)
    }

    fn symptom(&self, effects: &Effects) -> Symptom {
        let (op, phase, client, node) = (self.op, self.phase, self.client, self.node);
        let role = effects.role(node);
        let what = format!("{op} in phase {phase} never ended");
        Symptom {
            checker: "client".into(),
            shows: Misbehaviour::stuck(effects.side(node)),
            summary: format!("a client of {role} is stuck: {what}"),
            detail: vec![format!(
                "{client} of {node}: {what}, {} ms without an excuse",
                self.waited_us / 1_000
            )],
            at_us: self.since_us,
        }
    }
}

/// Failures told in full, per symptom.
pub(super) const DETAILS: usize = 4;

/// The phase in which clients look at what is left.
const FINALE: &str = "finale";

/// Whether an operation belongs to the finale; `finale_us` is when that stage began.
pub(super) fn in_finale(span: &Span<'_>, finale_us: Option<u64>) -> bool {
    span.phase == FINALE || finale_us.is_some_and(|at| span.began_us >= at)
}

/// A failure, for people.
pub(super) fn told(span: &Span<'_>) -> String {
    let (client, node, op) = (span.client, span.node, span.op);
    let end = span.end.as_ref();
    let how = end.map_or(String::new(), |end| format!("{:?}", end.ev));
    let error = end.and_then(|end| end.error).unwrap_or("no reason given");
    format!("{client} of {node}: {op}: {how}: {error}")
}

struct Trial<'a> {
    history: &'a History,
    effects: Effects,
    spans: Vec<Span<'a>>,
    deadline_us: Option<u64>,
}

/// How a client's process ended: when, and whether by its own fault.
struct ClientEnd {
    at_us: u64,
    clean: bool,
}

impl<'a> Trial<'a> {
    fn new(history: &'a History, baseline: Option<&Baseline>) -> Trial<'a> {
        let finale_us = stage_us(history, Stage::Finale);
        let deadline = history.events.iter().find_map(|event| {
            let is = matches!(event.what, What::Deadline { .. });
            let in_workload = finale_us.is_none_or(|finale| event.at_us < finale);
            (is && in_workload).then_some(event.at_us)
        });
        let mut spans = awaited(history);
        spans.retain(|span| !in_finale(span, finale_us));
        Trial {
            history,
            effects: Effects::of(history, baseline),
            spans,
            deadline_us: deadline,
        }
    }

    fn client_end(&self, name: &str) -> Option<ClientEnd> {
        let crashed = |event: &Event| match &event.what {
            What::Fired { node, fault, .. } => node == name && *fault == Fault::Crash.to_string(),
            _ => false,
        };
        let ours = self.history.events.iter().any(crashed);
        self.history
            .events
            .iter()
            .find_map(|event| match &event.what {
                What::ClientExited { client, code, .. } if client == name => Some(ClientEnd {
                    at_us: event.at_us,
                    // A client that the plan itself has killed did nothing wrong.
                    clean: ours || *code == Some(0),
                }),
                _ => None,
            })
    }

    fn is_done(&self, name: &str) -> bool {
        let done = |what: &What| matches!(what, What::OpsDone(done) if done.client == name);
        self.history.events.iter().any(|event| done(&event.what))
    }

    /// Until when a client could have gone on: the deadline, or where the lab ended things. None
    /// for a client that ended by itself before.
    fn watched_until_us(&self, client: &str) -> Option<u64> {
        let lab_ends = self.lab_ends_us();
        match self.client_end(client) {
            Some(end) if end.at_us < lab_ends => None,
            _ => Some(lab_ends),
        }
    }

    /// From here on the lab itself ends clients.
    fn lab_ends_us(&self) -> u64 {
        self.deadline_us.unwrap_or(self.effects.stop_us)
    }

    fn wrong(&self) -> Vec<Symptom> {
        let wrong = spans(self.history).into_iter().filter_map(|span| {
            let end = span.end.as_ref().filter(|e| e.ev == OpEvent::Wrong)?;
            let (op, phase, error) = (span.op, span.phase, end.error.unwrap_or("no reason given"));
            let wrong = normalise(error);
            Some(Symptom {
                checker: "client".into(),
                summary: format!("a wrong answer: {op} in phase {phase}: {wrong}"),
                shows: Misbehaviour::Wrong(wrong),
                detail: vec![format!("{} of {}: {op}: {error}", span.client, span.node)],
                at_us: end.at_us,
            })
        });
        wrong.collect()
    }

    fn stuck(&self) -> Vec<Stuck<'a>> {
        let pending = self.spans.iter().filter(|span| span.end.is_none());
        pending.filter_map(|span| self.waits(span)).collect()
    }

    fn waits(&self, span: &Span<'a>) -> Option<Stuck<'a>> {
        let until_us = self.watched_until_us(span.client)?;
        let since_us = span.began_us;
        let quiet_us = self.effects.quiet_since(span.node, since_us, until_us);
        let waited_us = until_us.checked_sub(quiet_us)?;
        (waited_us > self.effects.patience_us.max(LEAST_STUCK_US)).then_some(Stuck {
            node: span.node,
            client: span.client,
            phase: span.phase,
            op: span.op,
            since_us,
            waited_us,
            until_us,
        })
    }

    fn no_progress(&self) -> Vec<Symptom> {
        let mut phases: BTreeMap<(&str, &str), BTreeMap<&str, Vec<&Span<'a>>>> = BTreeMap::new();
        for span in &self.spans {
            let kinds = phases.entry((span.client, span.phase)).or_default();
            kinds.entry(span.op).or_default().push(span);
        }
        let failing = phases.values().filter_map(|kinds| {
            let tails: Vec<Vec<&Span<'a>>> = kinds.values().map(|k| self.failing_tail(k)).collect();
            self.keeps_failing(&tails.concat())
        });
        failing.collect()
    }

    /// The unexcused failures at the end of one kind of operation.
    fn failing_tail<'s>(&self, kind: &[&'s Span<'a>]) -> Vec<&'s Span<'a>> {
        let tail = kind.iter().rev().take_while(|span| span.failed());
        let unexcused = tail.filter(|span| {
            let end_us = span.end_us(self.effects.stop_us);
            !self.effects.explains(span.node, span.began_us, end_us)
        });
        unexcused.copied().collect()
    }

    /// `failures`: all of one client in one phase.
    fn keeps_failing(&self, failures: &[&Span<'a>]) -> Option<Symptom> {
        let first = failures.iter().min_by_key(|span| span.began_us)?;
        let healed_us = stage_us(self.history, Stage::Recovery).unwrap_or(u64::MAX);
        let needed = if first.began_us >= healed_us {
            FAILURES_HEALED
        } else {
            FAILURES
        };
        if failures.len() < needed {
            return None;
        }
        let others_go_on = self.spans.iter().any(|span| {
            span.client != first.client && span.began_us >= first.began_us && span.is_ok()
        });
        let (who, side) = if others_go_on {
            let who = format!("a client of {}", self.effects.role(first.node));
            (who, self.effects.side(first.node))
        } else {
            ("every client".into(), None)
        };
        let ops: BTreeSet<&str> = failures.iter().map(|span| span.op).collect();
        let ops: Vec<&str> = ops.into_iter().collect();
        let (ops, phase) = (ops.join(" and "), first.phase);
        Some(Symptom {
            checker: "client".into(),
            shows: Misbehaviour::stuck(side),
            summary: format!("{who} makes no progress: {ops} in phase {phase} keeps failing"),
            detail: failures.iter().take(DETAILS).map(|s| told(s)).collect(),
            at_us: first.began_us,
        })
    }

    fn late_timeouts(&self) -> Vec<Symptom> {
        let mut kinds: BTreeMap<(&str, &str), Vec<&Span<'a>>> = BTreeMap::new();
        let timed_out = |span: &&Span<'a>| {
            let ev = span.end.as_ref().map(|end| end.ev);
            ev == Some(OpEvent::Timeout) && !self.effects.injected.is_empty()
        };
        for span in self.spans.iter().filter(timed_out) {
            let end_us = span.end_us(self.effects.stop_us);
            let quiet_us = self.effects.quiet_since(span.node, 0, end_us);
            if span.began_us > quiet_us.saturating_add(self.effects.late_us) {
                kinds.entry((span.phase, span.op)).or_default().push(span);
            }
        }
        let enough = kinds
            .into_iter()
            .filter(|(_, late)| late.len() >= LATE_TIMEOUTS);
        let symptom = |((phase, op), late): ((&str, &str), Vec<&Span<'a>>)| Symptom {
            checker: "client".into(),
            shows: Misbehaviour::STUCK,
            summary: format!("time-outs long after the fault: {op} in phase {phase}"),
            detail: late.iter().take(DETAILS).map(|s| told(s)).collect(),
            at_us: late[0].began_us,
        };
        enough.map(symptom).collect()
    }

    /// Clients that did not do their part, where no fault explains it.
    fn odd_clients(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for role in &self.history.clients {
            let (client, node) = (&role.client, &role.node);
            let excused = |at_us| self.effects.explains(node, at_us, at_us);
            if let Some(end) = self.client_end(client)
                && !end.clean
                && end.at_us < self.lab_ends_us()
                && !excused(end.at_us)
            {
                reasons.push(format!("client {client} of {node} exited badly"));
            }
            let garbage = self
                .history
                .events
                .iter()
                .find_map(|event| match &event.what {
                    What::Garbage { client: c, line } if c == client && !excused(event.at_us) => {
                        Some(line)
                    }
                    _ => None,
                });
            if let Some(line) = garbage {
                let start: String = line.chars().take(80).collect();
                reasons.push(format!(
                    "client {client} printed what is no operation: {start}"
                ));
            }
        }
        let worked = stage_us(self.history, Stage::Workload).is_some();
        if worked && self.spans.is_empty() && !self.history.clients.is_empty() {
            reasons.push("no client reported an operation".into());
        }
        reasons
    }

    /// Clients cut off by the deadline that nothing accounts for.
    fn unfinished(&self) -> Option<String> {
        let deadline_us = self.deadline_us?;
        let cut_off = self.history.clients.iter().find(|role| {
            let ended = self.client_end(&role.client);
            let by_itself = ended.is_some_and(|end| end.at_us < deadline_us);
            !by_itself
                && !self.is_done(&role.client)
                && !self.effects.is_down(&role.node, deadline_us)
        })?;
        Some(format!(
            "the deadline came before {} was done, too early to blame anybody",
            cut_off.client
        ))
    }
}

#[cfg(test)]
mod tests;
