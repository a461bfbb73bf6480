//! Operations as spans: the beginning and the end that clients report, tied together, and which
//! of two came first.

use std::collections::HashMap;

use temblor_model::event::What;
use temblor_model::history::History;
use temblor_model::op::{OpEvent, Reg};

/// One operation of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span<'a> {
    pub client: &'a str,
    /// The node the client talks to.
    pub node: &'a str,
    pub phase: &'a str,
    pub op: &'a str,
    pub id: u64,
    pub reg: Option<Reg>,
    pub key: Option<&'a str>,
    /// As asked for: what is to be written.
    pub value: Option<&'a str>,
    /// As asked for: what a watch is to go beyond.
    pub order: Option<u64>,
    pub session: Option<&'a str>,
    pub began_us: u64,
    /// Where the beginning stands among the events. None: the client's first line was lost, and
    /// it began at some time before.
    pub began_at: Option<usize>,
    pub end: Option<End<'a>>,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End<'a> {
    pub at_us: u64,
    /// Where it stands among the events.
    pub at: usize,
    pub ev: OpEvent,
    pub error: Option<&'a str>,
    pub value: Option<&'a str>,
    pub order: Option<u64>,
    pub session: Option<&'a str>,
}

impl<'a> Span<'a> {
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

    /// The session all of it was done in; none where it changed on the way.
    pub fn session(&self) -> Option<&'a str> {
        let end = self.end.as_ref().and_then(|end| end.session);
        match (self.session, end) {
            (Some(began), Some(ended)) => (began == ended).then_some(began),
            (began, ended) => began.or(ended),
        }
    }

    /// For people: who did what, when, and how it ended.
    pub fn told(&self) -> String {
        let ms = |us: u64| format!("{:.1}", us as f64 / 1_000.0);
        let began = self.began_at.map_or("?".into(), |_| ms(self.began_us));
        let ended = self.end.as_ref().map_or("?".into(), |end| ms(end.at_us));
        let (client, node, op) = (self.client, self.node, self.op);
        let mut told = format!("{began} to {ended} ms: {client} of {node}: {op}");
        let mut fact = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                told += &format!(" {name}{}", cut(value));
            }
        };
        let order = self.order.map(|order| order.to_string());
        fact("", self.key);
        fact("= ", self.value);
        fact("order ", order.as_deref());
        let Some(end) = &self.end else {
            return told + " -> never ended";
        };
        fact("-> ", Some(format!("{:?}", end.ev).to_lowercase().as_str()));
        let reads = matches!(self.reg, Some(Reg::Read | Reg::StaleRead));
        let nothing = (reads && self.is_ok()).then_some("nothing");
        let order = end.order.map(|order| order.to_string());
        fact("", end.value.or(nothing));
        fact("order ", order.as_deref());
        fact("", end.error);
        told
    }
}

/// The longest value told in full, characters.
const LONGEST_TOLD: usize = 60;

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TOLD) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.into(),
    }
}

/// A time in which a client got no answer, over as many operations as it tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait<'a> {
    pub client: &'a str,
    pub node: &'a str,
    pub from_us: u64,
    /// When an operation succeeded, or the last of those that did not was over.
    pub to_us: u64,
}

impl Wait<'_> {
    pub fn took_us(&self) -> u64 {
        self.to_us.saturating_sub(self.from_us)
    }
}

/// The times that clients waited for an answer to what they began before `until_us`, from
/// operations in order of their beginnings.
pub fn waits<'a>(spans: &[Span<'a>], until_us: u64) -> Vec<Wait<'a>> {
    let mut open: HashMap<&str, Wait<'a>> = HashMap::new();
    let mut over = Vec::new();
    for span in spans.iter().filter(|span| span.began_us < until_us) {
        let wait = open.entry(span.client).or_insert(Wait {
            client: span.client,
            node: span.node,
            from_us: span.began_us,
            to_us: span.began_us,
        });
        wait.to_us = wait.to_us.max(span.end_us(until_us));
        if span.is_ok() {
            over.extend(open.remove(span.client));
        }
    }
    over.extend(open.into_values());
    over.sort_unstable_by_key(|wait| (wait.from_us, wait.client));
    over
}

/// Beginning and end of an operation, as far as they tell which of two came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent<'a> {
    pub client: &'a str,
    pub began_us: u64,
    pub began_at: usize,
    /// Time and place of the end. None: it may happen at any time after its beginning.
    pub end: Option<(u64, usize)>,
}

impl<'a> Extent<'a> {
    pub fn of(span: &Span<'a>) -> Extent<'a> {
        Extent {
            client: span.client,
            began_us: span.began_at.map_or(0, |_| span.began_us),
            began_at: span.began_at.unwrap_or(0),
            end: span.end.as_ref().map(|end| (end.at_us, end.at)),
        }
    }

    /// Whether this was surely over before `other` began. A client's own lines are in order,
    /// however fast they follow each other; between clients, times less than `tick_us` apart may
    /// have been the other way round.
    pub fn precedes(&self, other: &Extent<'_>, tick_us: u64) -> bool {
        self.end.is_some_and(|(end_us, end_at)| {
            if self.client == other.client {
                end_at < other.began_at
            } else {
                end_us.saturating_add(tick_us) <= other.began_us
            }
        })
    }
}

/// One virtual millisecond, the unit of clients' clocks, in real microseconds.
pub fn tick_us(history: &History) -> u64 {
    let warp = if history.warp > 0.0 {
        history.warp
    } else {
        1.0
    };
    (1_000.0 / warp).ceil() as u64
}

/// All operations, in order of their beginnings. An end without a beginning (the client's first
/// line was lost) is a span that begins where it ends.
pub fn spans(history: &History) -> Vec<Span<'_>> {
    let mut spans: Vec<Span<'_>> = Vec::new();
    let mut open: HashMap<(&str, u64), usize> = HashMap::new();
    for (at, event) in history.events.iter().enumerate() {
        let What::Op(op) = &event.what else {
            continue;
        };
        let invoked = op.ev == OpEvent::Invoke;
        let mut begin = || {
            spans.push(Span {
                client: &op.client,
                node: &op.node,
                phase: &op.phase,
                op: &op.op,
                id: op.id,
                reg: op.reg,
                key: op.key.as_deref(),
                value: op.value.as_deref().filter(|_| invoked),
                order: op.order.filter(|_| invoked),
                session: op.session.as_deref().filter(|_| invoked),
                began_us: event.at_us,
                began_at: invoked.then_some(at),
                end: None,
            });
            spans.len() - 1
        };
        if invoked {
            open.insert((&op.client, op.id), begin());
            continue;
        }
        let span = open
            .remove(&(op.client.as_str(), op.id))
            .unwrap_or_else(&mut begin);
        let span = &mut spans[span];
        span.reg = span.reg.or(op.reg);
        span.key = span.key.or(op.key.as_deref());
        span.end = Some(End {
            at_us: event.at_us,
            at,
            ev: op.ev,
            error: op.error.as_deref(),
            value: op.value.as_deref(),
            order: op.order,
            session: op.session.as_deref(),
        });
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::history;

    #[test]
    fn an_operation_knows_what_was_asked_and_what_was_answered() {
        let history = history(
            "10 op c1 put 1 invoke {reg=write key=a value=x session=s}\n\
             12 op c1 put 1 ok {order=7 session=s}\n\
             13 op c1 get 2 invoke {session=s}\n\
             14 op c1 get 2 ok {reg=read key=a value=x order=7 session=t}",
        );
        let spans = spans(&history);
        assert_eq!(
            (spans[0].reg, spans[0].key, spans[0].value, spans[0].order),
            (Some(Reg::Write), Some("a"), Some("x"), None)
        );
        assert_eq!(spans[0].end.as_ref().unwrap().order, Some(7));
        assert_eq!(spans[0].session(), Some("s"));
        assert_eq!(
            (spans[1].reg, spans[1].key, spans[1].value),
            (Some(Reg::Read), Some("a"), None)
        );
        assert_eq!(spans[1].session(), None, "it changed on the way");
        assert_eq!(
            spans[0].told(),
            "10.0 to 12.0 ms: c1 of n1: put a = x -> ok order 7"
        );
        assert_eq!(
            spans[1].told(),
            "13.0 to 14.0 ms: c1 of n1: get a -> ok x order 7"
        );
    }

    #[test]
    fn an_end_alone_began_at_some_time_before() {
        let history = history("10 op c2 put 1 ok\n 20 op c1 put 1 invoke");
        let spans = spans(&history);
        let [alone, pending] = [0, 1].map(|i| Extent::of(&spans[i]));
        assert_eq!(spans[0].began_at, None);
        assert!(alone.precedes(&pending, 1_000));
        assert!(!pending.precedes(&alone, 0), "it never ended");
        let early = Extent {
            client: "c3",
            began_us: 0,
            began_at: 0,
            end: Some((0, 0)),
        };
        assert!(!early.precedes(&alone, 1));
        assert_eq!(
            spans[1].told(),
            "20.0 to ? ms: c1 of n1: put -> never ended"
        );
    }

    #[track_caller]
    fn check_order(first: &str, second: &str, expected: bool) {
        let history = history(&format!(
            "5 op {first} put 1 invoke\n 10 op {first} put 1 ok\n{second}"
        ));
        let spans = spans(&history);
        let [first, second] = [0, 1].map(|i| Extent::of(&spans[i]));
        assert_eq!(first.precedes(&second, tick_us(&history)), expected);
    }

    #[test]
    fn within_a_millisecond_only_one_clients_own_operations_are_in_order() {
        check_order("c1", "10 op c1 put 2 invoke", true);
        check_order("c1", "10 op c2 put 2 invoke", false);
        check_order("c1", "11 op c2 put 2 invoke", true);
        check_order("c1", "9 op c1 put 2 invoke", false);
    }

    #[test]
    fn a_tick_is_a_virtual_millisecond() {
        let mut history = history("");
        for (warp, expected) in [(1.0, 1_000), (7.0, 143), (0.0, 1_000)] {
            history.warp = warp;
            assert_eq!(tick_us(&history), expected);
        }
    }
}
