//! `guarantees`: what a session may rely on, where the system tells its order of writes.
//!
//! No fault excuses these, but for the last: they hold for whatever is answered.
//! - **monotonic reads**: within a session, reads of one key never go back.
//! - **read your writes**: a read comes after the session's own acknowledged writes of that key.
//! - Without an order to go by, a key that the session saw or wrote is there, unless some delete
//!   may have come since.
//! - **linearizable writes**: a write of a key comes after those that were acknowledged before it
//!   began, whoever wrote them. Keys are not compared with each other: not every system has one
//!   order for all.
//! - **watches**: one fires at most once, and before its session reads what is newer. Nor is one
//!   lost: when a newer write was acknowledged, and the same session still works `grace` later
//!   with nothing to excuse its node, it must have fired. A watch that failed has lost its
//!   rights, as when the session ended.

use std::collections::BTreeMap;

use temblor_model::bug::{Judgement, Misbehaviour, Symptom};
use temblor_model::history::{Baseline, History};
use temblor_model::op::{OpEvent, Reg};

use super::{Checker, conclude};
use crate::effects::Effects;
use crate::ops::{End, Extent, Span, spans, tick_us};

/// How long a client may take to report that a watch fired, real microseconds: another of its
/// threads does so than the one that reads, and a loaded machine stops for a while.
const REPORT_US: u64 = 500_000;

const WENT_BACK: &str = "the reads of a session went back";
const NOT_OWN_WRITE: &str = "a session did not see its own write";
const WRITES_SWAPPED: &str = "a write came before one that was acknowledged before it began";
const FIRED_TWICE: &str = "a watch fired twice";
const NEW_BEFORE_WATCH: &str = "a client saw new data before its watch fired";
const WATCH_LOST: &str = "a watch was lost";

/// See the module.
pub struct Guarantees;

impl Checker for Guarantees {
    fn name(&self) -> &'static str {
        "guarantees"
    }

    fn judge(&self, history: &History, baseline: Option<&Baseline>) -> Judgement {
        let spans = spans(history);
        let trial = Trial::new(history, &spans, baseline);
        let mut symptoms = trial.reads();
        symptoms.extend(trial.writes());
        symptoms.extend(trial.fired_twice());
        for watch in spans.iter().filter(|span| span.reg == Some(Reg::Watch)) {
            symptoms.extend(trial.new_before(watch).or_else(|| trial.lost(watch)));
        }
        conclude(self.name(), symptoms, &[])
    }
}

/// A session of a client, and a key in it.
type Place<'a> = (&'a str, &'a str, &'a str);

struct Trial<'a> {
    spans: &'a [Span<'a>],
    effects: Effects,
    tick_us: u64,
    /// Reads and updates that are `ok`.
    by_place: BTreeMap<Place<'a>, Vec<&'a Span<'a>>>,
    /// Updates, however they ended.
    updates: BTreeMap<&'a str, Vec<&'a Span<'a>>>,
}

impl<'a> Trial<'a> {
    fn new(history: &History, spans: &'a [Span<'a>], baseline: Option<&Baseline>) -> Trial<'a> {
        let mut trial = Trial {
            spans,
            effects: Effects::of(history, baseline),
            tick_us: tick_us(history),
            by_place: BTreeMap::new(),
            updates: BTreeMap::new(),
        };
        for span in spans {
            let Some(key) = span.key.filter(|_| is_read(span) || is_update(span)) else {
                continue;
            };
            if is_update(span) {
                trial.updates.entry(key).or_default().push(span);
            }
            if let (true, Some(place)) = (span.is_ok(), place(span)) {
                trial.by_place.entry(place).or_default().push(span);
            }
        }
        trial
    }

    fn reads(&self) -> Vec<Symptom> {
        let mut symptoms = Vec::new();
        for (place, spans) in &self.by_place {
            let before = newest_before(spans, by_line);
            for (read, newest) in spans.iter().zip(before).filter(|(span, _)| is_read(span)) {
                let older =
                    |newest: &&Span<'_>| order(read).is_some_and(|o| Some(o) < order(newest));
                let Some(seen) = newest
                    .filter(older)
                    .or_else(|| self.vanished(place.2, spans, read))
                else {
                    continue;
                };
                let summary = if is_read(seen) {
                    WENT_BACK
                } else {
                    NOT_OWN_WRITE
                };
                symptoms.push(symptom(summary, &[seen, read], read));
            }
        }
        symptoms
    }

    /// What showed that the key is there, when the read shows nothing and nothing can have taken
    /// it away.
    fn vanished(&self, key: &str, spans: &[&'a Span<'a>], read: &Span<'_>) -> Option<&'a Span<'a>> {
        if end(read)?.value.is_some() {
            return None;
        }
        let precedes =
            |a: &Span<'_>, b: &Span<'_>| Extent::of(a).precedes(&Extent::of(b), self.tick_us);
        let mut updates = self.updates.get(key).into_iter().flatten();
        let deleted = updates.any(|update| {
            let failed = end(update).is_some_and(|end| end.ev == OpEvent::Fail);
            update.reg == Some(Reg::Delete) && !failed && !precedes(read, update)
        });
        let there = |span: &&&'a Span<'a>| {
            let has = match span.reg {
                Some(Reg::Write | Reg::Create) => true,
                _ => is_read(span) && end(span).is_some_and(|end| end.value.is_some()),
            };
            has && precedes(span, read)
        };
        spans.iter().rfind(there).filter(|_| !deleted).copied()
    }

    fn writes(&self) -> Vec<Symptom> {
        let mut symptoms = Vec::new();
        for updates in self.updates.values() {
            let told = |span: &&&Span<'_>| span.is_ok() && order(span).is_some();
            let updates: Vec<&Span<'_>> = updates.iter().filter(told).copied().collect();
            let mut check = |updates: &[&'a Span<'a>], before: Vec<Option<&'a Span<'a>>>| {
                for (update, newest) in updates.iter().zip(before) {
                    let swapped = newest.filter(|newest| order(update) <= order(newest));
                    symptoms.extend(swapped.map(|n| symptom(WRITES_SWAPPED, &[n, update], update)));
                }
            };
            let by_time = newest_before(&updates, |span| {
                let end_us = span.end_us(u64::MAX).saturating_add(self.tick_us);
                (span.began_at.map(|_| span.began_us), end_us)
            });
            check(&updates, by_time);
            // Within a client also those that follow each other within a tick.
            let mut own: BTreeMap<&str, Vec<&'a Span<'a>>> = BTreeMap::new();
            for update in &updates {
                own.entry(update.client).or_default().push(update);
            }
            for updates in own.values() {
                check(updates, newest_before(updates, by_line));
            }
        }
        symptoms
    }

    /// An end without a beginning, of a watch that had ended already.
    fn fired_twice(&self) -> Vec<Symptom> {
        let mut fired: BTreeMap<(&str, u64), &Span<'_>> = BTreeMap::new();
        let mut symptoms = Vec::new();
        let watches = self
            .spans
            .iter()
            .filter(|span| span.reg == Some(Reg::Watch));
        for watch in watches.filter(|span| span.is_ok()) {
            let id = (watch.client, watch.id);
            match fired.get(&id) {
                Some(first) if watch.began_at.is_none() => {
                    symptoms.push(symptom(FIRED_TWICE, &[first, watch], watch));
                }
                _ => {
                    fired.insert(id, watch);
                }
            }
        }
        symptoms
    }

    /// The session read something newer, and the watch did not fire, or only later.
    fn new_before(&self, watch: &'a Span<'a>) -> Option<Symptom> {
        let silent_us = match end(watch) {
            None => self.alive_us(watch),
            Some(end) if end.ev == OpEvent::Ok => end.at_us,
            Some(_) => return None,
        };
        let (set_at, set_order) = (watch.began_at?, watch.order?);
        let newer = |span: &&&Span<'_>| {
            is_read(span)
                && order(span).is_some_and(|order| order > set_order)
                && span.began_at.is_some_and(|at| at > set_at)
                && span.end_us(u64::MAX).saturating_add(REPORT_US) < silent_us
        };
        let read = self.by_place.get(&place(watch)?)?.iter().find(newer)?;
        Some(symptom(NEW_BEFORE_WATCH, &[watch, read], read))
    }

    /// When something was last heard in the session of a watch.
    fn alive_us(&self, watch: &Span<'_>) -> u64 {
        let same = self.spans.iter().filter(|span| in_session_of(span, watch));
        same.map(|span| span.end_us(span.began_us))
            .max()
            .unwrap_or(0)
    }

    /// The key changed, the session lived on, and nothing was told.
    fn lost(&self, watch: &'a Span<'a>) -> Option<Symptom> {
        let until_us = match end(watch) {
            None => u64::MAX,
            Some(end) if end.ev == OpEvent::Timeout => end.at_us,
            Some(_) => return None,
        };
        let set_order = watch.order?;
        let set = Extent {
            end: Some((watch.began_us, watch.began_at?)),
            ..Extent::of(watch)
        };
        let later = |update: &&&Span<'_>| {
            let newer = match order(update) {
                Some(order) => order > set_order,
                None => set.precedes(&Extent::of(update), self.tick_us),
            };
            update.is_ok() && newer
        };
        let update = self.updates.get(watch.key?)?.iter().find(later)?;
        let changed_us = update.end_us(u64::MAX).max(watch.began_us);
        let lives_on = self.spans.iter().find(|span| {
            let quiet_us = || {
                self.effects
                    .quiet_since(span.node, changed_us, span.began_us)
            };
            in_session_of(span, watch)
                && span.reg != Some(Reg::Watch)
                && span.is_ok()
                && span.began_at.is_some()
                && span.end_us(u64::MAX) <= until_us
                && span.began_us >= quiet_us().saturating_add(self.effects.grace_us)
        })?;
        Some(symptom(WATCH_LOST, &[watch, update, lives_on], lives_on))
    }
}

fn in_session_of(span: &Span<'_>, watch: &Span<'_>) -> bool {
    let session = span.session();
    span.client == watch.client && session.is_some() && session == watch.session()
}

/// For each, the newest by the system's order among those that were over before it began. `extent`
/// gives the beginning, where it is known, and the end, on one scale.
fn newest_before<'a>(
    spans: &[&'a Span<'a>],
    extent: impl Fn(&Span<'_>) -> (Option<u64>, u64),
) -> Vec<Option<&'a Span<'a>>> {
    // Ends come first where they are as late as a beginning.
    const END: u8 = 0;
    const BEGIN: u8 = 1;
    let mut points: Vec<(u64, u8, usize)> = Vec::new();
    for (i, span) in spans.iter().enumerate() {
        let (began, ended) = extent(span);
        points.push((ended, END, i));
        points.extend(began.map(|began| (began, BEGIN, i)));
    }
    points.sort_unstable();
    let mut before = vec![None; spans.len()];
    let mut newest: Option<&Span<'_>> = None;
    for (_, kind, i) in points {
        if kind == BEGIN {
            before[i] = newest;
        } else if order(spans[i]) > newest.and_then(order) {
            newest = Some(spans[i]);
        }
    }
    before
}

/// On the scale of a client's own lines, whose order says all.
fn by_line(span: &Span<'_>) -> (Option<u64>, u64) {
    let ended = end(span).map_or(u64::MAX, |end| end.at as u64);
    (span.began_at.map(|at| at as u64), ended)
}

fn end<'s, 'a>(span: &'s Span<'a>) -> Option<&'s End<'a>> {
    span.end.as_ref()
}

/// Where the answer stands in the system's order.
fn order(span: &Span<'_>) -> Option<u64> {
    end(span).and_then(|end| end.order)
}

fn place<'a>(span: &Span<'a>) -> Option<Place<'a>> {
    Some((span.client, span.session()?, span.key?))
}

fn is_read(span: &Span<'_>) -> bool {
    matches!(span.reg, Some(Reg::Read | Reg::StaleRead))
}

fn is_update(span: &Span<'_>) -> bool {
    matches!(span.reg, Some(Reg::Write | Reg::Create | Reg::Delete))
}

/// Shown by these operations, the last of which is `by`.
fn symptom(summary: &str, shown: &[&Span<'_>], by: &Span<'_>) -> Symptom {
    Symptom {
        checker: "guarantees".into(),
        shows: Misbehaviour::Broken(summary.into()),
        summary: summary.into(),
        detail: shown.iter().map(|span| span.told()).collect(),
        at_us: by.end_us(by.began_us),
    }
}

#[cfg(test)]
mod tests;
