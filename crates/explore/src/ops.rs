//! Operations as spans: the beginning and the end that clients report, tied together.

use std::collections::HashMap;

use temblor_model::event::What;
use temblor_model::history::History;
use temblor_model::op::OpEvent;

/// One operation of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span<'a> {
    pub client: &'a str,
    /// The node the client talks to.
    pub node: &'a str,
    pub phase: &'a str,
    pub op: &'a str,
    pub began_us: u64,
    pub end: Option<End<'a>>,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End<'a> {
    pub at_us: u64,
    pub ev: OpEvent,
    pub error: Option<&'a str>,
}

impl Span<'_> {
    pub fn is_ok(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.ev == OpEvent::Ok)
    }

    /// Ended without success, but not with a wrong answer.
    pub fn failed(&self) -> bool {
        let ev = self.end.as_ref().map(|end| end.ev);
        matches!(ev, Some(OpEvent::Fail | OpEvent::Timeout))
    }

    /// Begun, and not over yet at `at_us`.
    pub fn pending_at(&self, at_us: u64) -> bool {
        self.began_us <= at_us && self.end.as_ref().is_none_or(|end| end.at_us > at_us)
    }

    /// When it ended, or `otherwise` if it never did.
    pub fn end_us(&self, otherwise: u64) -> u64 {
        self.end.as_ref().map_or(otherwise, |end| end.at_us)
    }
}

/// All operations, in order of their beginnings. An end without a beginning (the client's first
/// line was lost) is a span that begins where it ends.
pub fn spans(history: &History) -> Vec<Span<'_>> {
    let mut spans: Vec<Span<'_>> = Vec::new();
    let mut open: HashMap<(&str, u64), usize> = HashMap::new();
    for event in &history.events {
        let What::Op(op) = &event.what else {
            continue;
        };
        let mut begin = || {
            spans.push(Span {
                client: &op.client,
                node: &op.node,
                phase: &op.phase,
                op: &op.op,
                began_us: event.at_us,
                end: None,
            });
            spans.len() - 1
        };
        if op.ev == OpEvent::Invoke {
            open.insert((&op.client, op.id), begin());
            continue;
        }
        let span = open
            .remove(&(op.client.as_str(), op.id))
            .unwrap_or_else(&mut begin);
        spans[span].end = Some(End {
            at_us: event.at_us,
            ev: op.ev,
            error: op.error.as_deref(),
        });
    }
    spans
}
