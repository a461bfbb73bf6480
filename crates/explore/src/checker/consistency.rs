//! `consistency`: each key is a register, and the nodes end with the same state.
//!
//! - The operations on a key, as far as they are `ok`, took effect one after another, each at
//!   some time between its beginning and its end; those of unknown outcome at some time since
//!   their beginning, or never; those that failed, never. A key is empty at first. Where no such
//!   order exists, the checker fails: plain contradictions are looked for first, since they have
//!   a name, then [`linear`] searches. A search that is given up is unknown.
//! - A stale read may give any value that some operation may have written until then, or none.
//! - What the nodes have at the finale must be equal. While an update of unknown outcome may
//!   still be on its way, a difference is unknown. A node that says nothing is for others to
//!   blame.

use std::collections::{BTreeMap, HashMap};

use temblor_model::bug::{Judgement, Misbehaviour, Symptom};
use temblor_model::event::{Stage, What};
use temblor_model::history::{Baseline, History};
use temblor_model::op::{OpEvent, Reg};

use super::{Checker, conclude};
use crate::effects::{Effects, stage_us};
use crate::ops::{Extent, Span, spans, tick_us};
use linear::{Answer, Call, Effect};

mod linear;

/// Steps of the search for all keys of a trial, about a second's work.
const STEPS: u64 = 1_000_000;
/// The same for one key, so that one cannot take all.
const STEPS_PER_KEY: u64 = 200_000;
/// Steps to make a contradiction small. It is told in any case.
const STEPS_TO_SHRINK: u64 = 200_000;
/// Operations told in full, per symptom.
const DETAILS: usize = 12;
/// The phase in which clients look at what is left.
const FINALE: &str = "finale";

/// See the module.
pub struct Consistency;

impl Checker for Consistency {
    fn name(&self) -> &'static str {
        "consistency"
    }

    fn judge(&self, history: &History, baseline: Option<&Baseline>) -> Judgement {
        let spans = spans(history);
        let mut keys: BTreeMap<&str, Vec<&Span<'_>>> = BTreeMap::new();
        for span in &spans {
            if let (Some(key), Some(_)) = (span.key, part(span)) {
                keys.entry(key).or_default().push(span);
            }
        }
        let (mut symptoms, mut given_up, mut steps) = (Vec::new(), 0, STEPS);
        for (key, spans) in &keys {
            let register = Register::of(key, spans, tick_us(history));
            match register.contradiction() {
                Some(symptom) => symptoms.push(symptom),
                None => match register.search(&mut steps) {
                    Ok(symptom) => symptoms.extend(symptom),
                    Err(GivenUp) => given_up += 1,
                },
            }
        }
        let mut reasons = Vec::new();
        if given_up > 0 {
            reasons.push(format!(
                "too many orders to try: {given_up} of {} keys are not told",
                keys.len()
            ));
        }
        match different_ends(history, &spans, baseline) {
            Some(Ok(symptom)) => symptoms.push(symptom),
            Some(Err(reason)) => reasons.push(reason),
            None => {}
        }
        conclude(self.name(), symptoms, &reasons)
    }
}

/// The search was given up.
#[derive(Debug)]
struct GivenUp;

/// What an operation says of its key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    /// The key has this from here on.
    Put(&'a str),
    /// The same, where the key had nothing.
    Create(&'a str),
    /// The key has this from here on, or what it had.
    Ensure(&'a str),
    Delete,
    Read(Option<&'a str>),
    /// As of any time before.
    StaleRead(Option<&'a str>),
}

impl<'a> Part<'a> {
    /// What the key may have through it: `Some(None)` is nothing.
    fn leaves(self) -> Option<Option<&'a str>> {
        match self {
            Part::Put(value) | Part::Create(value) | Part::Ensure(value) => Some(Some(value)),
            Part::Delete => Some(None),
            Part::Read(_) | Part::StaleRead(_) => None,
        }
    }

    /// Whether the key surely had something else than `value` when it was done.
    fn excludes(self, value: Option<&str>) -> bool {
        match self {
            Part::Put(left) | Part::Create(left) => value != Some(left),
            Part::Ensure(_) => value.is_none(),
            Part::Delete => value.is_some(),
            Part::Read(seen) => seen != value,
            Part::StaleRead(_) => false,
        }
    }

    fn is_read(self) -> bool {
        matches!(self, Part::Read(_) | Part::StaleRead(_))
    }
}

/// An operation that happened, or may have.
struct Done<'a> {
    span: &'a Span<'a>,
    part: Part<'a>,
    /// Without an end where the outcome is unknown.
    extent: Extent<'a>,
}

impl Done<'_> {
    fn is_sure(&self) -> bool {
        self.extent.end.is_some()
    }
}

/// Why an order cannot be, with the operations that show it.
struct Finding<'r> {
    summary: &'static str,
    shown: Vec<&'r Span<'r>>,
    at_us: u64,
}

/// One key with what was done to it.
struct Register<'a> {
    key: &'a str,
    /// In order of their beginnings.
    done: Vec<Done<'a>>,
    /// Updates that failed.
    failed: Vec<&'a Span<'a>>,
    tick_us: u64,
}

impl<'a> Register<'a> {
    fn of(key: &'a str, spans: &[&'a Span<'a>], tick_us: u64) -> Register<'a> {
        let mut register = Register {
            key,
            done: Vec::new(),
            failed: Vec::new(),
            tick_us,
        };
        for span in spans {
            let ev = span.end.as_ref().map(|end| end.ev);
            let Some(part) = part(span) else {
                continue;
            };
            let mut extent = Extent::of(span);
            match ev {
                Some(OpEvent::Ok) => {}
                // Only updates that may have happened matter.
                _ if part.is_read() => continue,
                Some(OpEvent::Fail) if !matches!(part, Part::Ensure(_)) => {
                    register.failed.push(span);
                    continue;
                }
                Some(OpEvent::Fail) => {}
                _ => extent.end = None,
            }
            register.done.push(Done { span, part, extent });
        }
        register.forgive_second_tries();
        register
    }

    /// A client that creates once more, not knowing how it went, may take its first try for the
    /// second.
    fn forgive_second_tries(&mut self) {
        for i in 0..self.done.len() {
            let (tries, rest) = self.done.split_at_mut(i);
            let again = |first: &Done<'_>, second: &Done<'_>| {
                !first.is_sure()
                    && first.part == second.part
                    && first.extent.client == second.extent.client
            };
            if let Part::Create(value) = rest[0].part
                && rest[0].is_sure()
                && tries.iter().any(|first| again(first, &rest[0]))
            {
                rest[0].part = Part::Ensure(value);
            }
        }
    }

    fn precedes(&self, first: &Done<'_>, second: &Done<'_>) -> bool {
        first.extent.precedes(&second.extent, self.tick_us)
    }

    /// Contradictions between a few operations, which need no search. One per key: a lost update
    /// shows in every later read.
    fn contradiction(&self) -> Option<Symptom> {
        let reads = self.done.iter().filter(|done| done.part.is_read());
        let mut findings: Vec<Finding<'_>> = reads
            .filter_map(|read| self.unwritten(read).or_else(|| self.overwritten(read)))
            .collect();
        findings.extend(self.created_twice());
        let rank = |finding: &&Finding<'_>| {
            let lost = [LOST_WRITE, LOST_DELETE].contains(&finding.summary);
            (!lost, finding.at_us)
        };
        let worst = findings.iter().min_by_key(rank)?;
        Some(self.symptom(worst.summary, &worst.shown, worst.at_us))
    }

    /// A read gives what nothing can have put there.
    fn unwritten<'r>(&'r self, read: &'r Done<'a>) -> Option<Finding<'r>> {
        let (Part::Read(value) | Part::StaleRead(value)) = read.part else {
            return None;
        };
        let value = value?;
        let mut writers = self.writers(Some(value)).peekable();
        let (summary, mut shown) = if writers.peek().is_none() {
            let failed = self.failed.iter().find(|span| span.value == Some(value));
            match failed {
                Some(failed) => (FAILED_WRITE, vec![*failed]),
                None => (NOBODY_WROTE, Vec::new()),
            }
        } else {
            let writers: Vec<&Done<'_>> = writers.collect();
            let later = writers.iter().all(|writer| self.precedes(read, writer));
            later.then(|| (FROM_THE_FUTURE, vec![writers[0].span]))?
        };
        shown.push(read.span);
        Some(finding(summary, shown, read))
    }

    /// A read gives what something else had surely replaced.
    fn overwritten<'r>(&'r self, read: &'r Done<'a>) -> Option<Finding<'r>> {
        let Part::Read(value) = read.part else {
            return None;
        };
        let writers: Vec<&Done<'_>> = self.writers(value).collect();
        let replaces = |by: &&Done<'a>| {
            by.is_sure()
                && by.part.excludes(value)
                && self.precedes(by, read)
                // The last ones first: they are the likeliest to spoil it.
                && writers.iter().rev().all(|writer| self.precedes(writer, by))
        };
        let updates = self.done.iter().filter(|done| !done.part.is_read());
        let seen = self.done.iter().filter(|done| done.part.is_read());
        let by = updates.chain(seen).find(replaces)?;
        let reads = |done: &&Done<'_>| matches!(done.part, Part::Read(_));
        let is_last = self
            .done
            .iter()
            .rfind(reads)
            .is_some_and(|last| std::ptr::eq(last, read));
        let summary = match by.part {
            Part::Delete if is_last => LOST_DELETE,
            _ if is_last && !by.part.is_read() => LOST_WRITE,
            _ => OVERWRITTEN,
        };
        let shown = writers.last().into_iter().map(|writer| writer.span);
        Some(finding(
            summary,
            shown.chain([by.span, read.span]).collect(),
            read,
        ))
    }

    /// A creation succeeds though something was there, and nothing can have taken it away.
    fn created_twice<'r>(&'r self) -> Option<Finding<'r>> {
        let deletes: Vec<&Done<'_>> = self.writers(None).collect();
        let is_creation = |done: &&Done<'a>| matches!(done.part, Part::Create(_));
        self.done
            .iter()
            .filter(is_creation)
            .filter(|c| c.is_sure())
            .find_map(|creation| {
                let there = self.done.iter().find(|there| {
                    there.is_sure()
                        && there.part.excludes(None)
                        && self.precedes(there, creation)
                        && deletes.iter().rev().all(|delete| {
                            self.precedes(delete, there) || self.precedes(creation, delete)
                        })
                })?;
                Some(finding(
                    CREATED_TWICE,
                    vec![there.span, creation.span],
                    creation,
                ))
            })
    }

    /// What may have put the value there, or taken it away.
    fn writers<'r>(&'r self, value: Option<&'r str>) -> impl Iterator<Item = &'r Done<'a>> {
        self.done
            .iter()
            .filter(move |done| done.part.leaves() == Some(value))
    }

    /// The whole truth, at a price.
    fn search(&self, steps: &mut u64) -> Result<Option<Symptom>, GivenUp> {
        let calls = self.calls();
        let mut own = STEPS_PER_KEY.min(*steps);
        let granted = own;
        let answer = linear::search(&calls, self.tick_us, &mut own);
        *steps -= granted - own;
        match answer {
            Answer::Fits => Ok(None),
            Answer::Unknown => Err(GivenUp),
            Answer::Stuck { .. } => {
                let small = linear::smallest(&calls, self.tick_us, &mut STEPS_TO_SHRINK.clone());
                let shown: Vec<&Span<'_>> =
                    small.iter().map(|call| self.done[call.id].span).collect();
                let at_us = shown.iter().map(|s| s.end_us(0)).max().unwrap_or(0);
                Ok(Some(self.symptom(NO_ORDER, &shown, at_us)))
            }
        }
    }

    fn calls(&self) -> Vec<Call<'a>> {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut number = |value| {
            let next = numbers.len() as u32;
            *numbers.entry(value).or_insert(next)
        };
        let calls = self.done.iter().enumerate().filter_map(|(id, done)| {
            let effect = match done.part {
                Part::Put(value) => Effect::Write(number(value)),
                Part::Create(value) => Effect::Create(number(value)),
                Part::Ensure(value) => Effect::Ensure(number(value)),
                Part::Delete => Effect::Delete,
                Part::Read(value) => Effect::Read(value.map(&mut number)),
                Part::StaleRead(_) => return None,
            };
            let extent = done.extent;
            Some(Call { id, extent, effect })
        });
        calls.collect()
    }

    fn symptom(&self, summary: &str, shown: &[&Span<'_>], at_us: u64) -> Symptom {
        let mut detail = vec![format!("key {}", self.key)];
        detail.extend(shown.iter().take(DETAILS).map(|span| span.told()));
        if shown.len() > DETAILS {
            detail.push(format!("and {} more", shown.len() - DETAILS));
        }
        Symptom {
            checker: "consistency".into(),
            shows: Misbehaviour::Broken(summary.into()),
            summary: summary.into(),
            detail,
            at_us,
        }
    }
}

const NOBODY_WROTE: &str = "a read gave a value that nobody wrote";
const FAILED_WRITE: &str = "a read gave the value of a write that failed";
const FROM_THE_FUTURE: &str = "a read gave a value before it was written";
const OVERWRITTEN: &str = "a read gave a value that was overwritten before it began";
const LOST_WRITE: &str = "an acknowledged write was lost";
const LOST_DELETE: &str = "an acknowledged delete was lost";
const CREATED_TWICE: &str = "a create succeeded where a value was";
const NO_ORDER: &str = "the operations on a key fit no order";
const DIFFERENT_ENDS: &str = "nodes end with different state";

fn finding<'r>(summary: &'static str, shown: Vec<&'r Span<'r>>, by: &Done<'_>) -> Finding<'r> {
    Finding {
        summary,
        shown,
        at_us: by.span.end_us(by.span.began_us),
    }
}

fn part<'a>(span: &Span<'a>) -> Option<Part<'a>> {
    let end = span.end.as_ref();
    let written = span.value.or(end.and_then(|end| end.value)).unwrap_or("");
    let seen = end.and_then(|end| end.value);
    Some(match span.reg? {
        Reg::Write => Part::Put(written),
        Reg::Create if exists(span) => Part::Ensure(written),
        Reg::Create => Part::Create(written),
        Reg::Delete => Part::Delete,
        Reg::Read => Part::Read(seen),
        Reg::StaleRead => Part::StaleRead(seen),
        Reg::Watch | Reg::Digest => return None,
    })
}

/// A creation that failed because there is something already: maybe its own, when the client had
/// to send it twice.
fn exists(span: &Span<'_>) -> bool {
    let Some(end) = span.end.as_ref().filter(|end| end.ev == OpEvent::Fail) else {
        return false;
    };
    let error = end.error.unwrap_or_default().to_ascii_lowercase();
    error.contains("exist")
        && !["not exist", "n't exist"]
            .iter()
            .any(|no| error.contains(no))
}

/// What the nodes have in the end: a symptom where it differs, a reason where it may yet become
/// equal.
fn different_ends(
    history: &History,
    spans: &[Span<'_>],
    baseline: Option<&Baseline>,
) -> Option<Result<Symptom, String>> {
    let finale_us = stage_us(history, Stage::Finale).unwrap_or(u64::MAX);
    let is_end = |span: &&Span<'_>| {
        let late = span.phase == FINALE || span.began_us >= finale_us;
        span.reg == Some(Reg::Digest) && span.is_ok() && late
    };
    // The last word of each node.
    let mut digests: BTreeMap<&str, (&str, u64)> = BTreeMap::new();
    for span in spans.iter().filter(is_end) {
        if let Some(end) = &span.end {
            digests.insert(span.node, (end.value.unwrap_or(""), end.at_us));
        }
    }
    let (first, _) = digests.values().next()?;
    if digests.values().all(|(digest, _)| digest == first) {
        return None;
    }
    let taken_us = digests.values().map(|(_, at_us)| *at_us);
    let (since_us, at_us) = (taken_us.clone().min()?, taken_us.max()?);
    let effects = Effects::of(history, baseline);
    if let Some(span) = spans.iter().find(|span| {
        let over_us = unknown_until_us(history, span);
        over_us.is_some_and(|over_us| over_us.saturating_add(effects.late_us) >= since_us)
    }) {
        return Some(Err(format!(
            "nodes end with different state, but this may be on its way: {}",
            span.told()
        )));
    }
    let detail = digests
        .iter()
        .map(|(node, (digest, at_us))| format!("{:.1} ms: {node}: {digest}", *at_us as f64 / 1e3));
    Some(Ok(Symptom {
        checker: "consistency".into(),
        shows: Misbehaviour::Broken(DIFFERENT_ENDS.into()),
        summary: DIFFERENT_ENDS.into(),
        detail: detail.collect(),
        at_us,
    }))
}

/// For an update of unknown outcome: when its client stopped to care, which may be never.
fn unknown_until_us(history: &History, span: &Span<'_>) -> Option<u64> {
    let may_update = match span.reg {
        Some(Reg::Write | Reg::Create | Reg::Delete) | None => true,
        Some(Reg::Read | Reg::StaleRead | Reg::Watch | Reg::Digest) => false,
    };
    let exited = || {
        let mut exits = history.events.iter().filter(|event| {
            matches!(&event.what, What::ClientExited { client, .. } if client == span.client)
        });
        exits
            .find(|event| event.at_us >= span.began_us)
            .map_or(u64::MAX, |event| event.at_us)
    };
    let until_us = match &span.end {
        None => exited(),
        Some(end) if end.ev == OpEvent::Timeout => end.at_us,
        Some(_) => return None,
    };
    may_update.then_some(until_us)
}

#[cfg(test)]
mod tests;
