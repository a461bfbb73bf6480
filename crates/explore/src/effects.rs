//! What the injected faults explain: whom each disturbs, and until when.
//!
//! Checkers are fault-aware through this file alone. The rules, all in real microseconds:
//!
//! - A fault disturbs every client from the moment it fires until its own effect is over (a delay
//!   or pause: its length in virtual time; a partition: until it is mended; all others: at once)
//!   plus `grace`. Healing ends delays, pauses and partitions.
//! - Where the workload itself cuts a node off, that disturbs its own clients until it is over
//!   plus `grace`, and the others like a fault that is over at once.
//! - A node that is down (killed, exited, or started and not ready) excuses its own clients until
//!   it is ready again plus `grace` (the first start: until it is ready, if that was before the
//!   workload began); it excuses the others for `grace` after it went down, and from its restart
//!   until `grace` after it is ready.
//! - While half of the nodes or more are down, everybody is excused.
//! - A fault may cost an election: when, within a fault's excuse, a node takes or loses a role
//!   that only one may have, everybody is excused for `grace` after that, too. Later changes add
//!   nothing, so that elections without end are no excuse for themselves.
//! - Everybody is excused from healing until it is done (`recovery` begins). Nodes that it starts
//!   excuse as above, so in the finale only the `grace` after their readiness counts.
//!
//! `grace` is what a healthy system may take to react: the longest time to readiness (a whole
//! cluster forms in it), three times the longest operation, and at least five virtual seconds,
//! whichever is longest.

use std::collections::BTreeMap;

use temblor_model::bug::Side;
use temblor_model::event::{Event, Stage, What};
use temblor_model::history::{Baseline, History};
use temblor_model::op::Reg;
use temblor_model::plan::Fault;

use crate::ops::{Span, spans};

/// Least reaction time of a healthy system, virtual milliseconds.
const LEAST_GRACE_VIRTUAL_MS: u64 = 5_000;
/// Least waiting that is out of the ordinary, virtual milliseconds.
const LEAST_PATIENCE_VIRTUAL_MS: u64 = 2_000;
/// What retries, time-outs and elections may take once the fault is over, virtual milliseconds.
const SETTLED_VIRTUAL_MS: u64 = 30_000;
/// Assumed where there is no baseline: generous, so that nothing is called a bug in haste.
const ASSUMED_READY_MS: u64 = 10_000;
const ASSUMED_OP_MS: u64 = 1_000;

/// A fault that fired.
#[derive(Clone, Debug)]
pub struct Injected {
    pub fault: Fault,
    /// The node it happened in; none for faults between nodes.
    pub node: Option<String>,
    pub thread: String,
    pub frames: Vec<String>,
    pub at_us: u64,
    /// When its own effect is over.
    pub until_us: u64,
}

/// One process of a node, from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    pub node: String,
    /// Counts the node's processes from 0.
    pub ordinal: usize,
    pub started_us: u64,
    pub ready_us: Option<u64>,
    pub exit: Option<Exit>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub at_us: u64,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub injected: bool,
}

/// A time in which clients are excused: `node` none is for all.
#[derive(Clone, Debug)]
struct Excuse {
    node: Option<String>,
    from_us: u64,
    to_us: u64,
}

/// The faults of one trial and what they explain.
pub struct Effects {
    pub injected: Vec<Injected>,
    pub lives: Vec<Life>,
    pub grace_us: u64,
    /// Nobody waits this long for an operation when all is well.
    pub patience_us: u64,
    /// From this long after the last excuse on, nothing is left to settle.
    pub late_us: u64,
    /// When the lab began to stop the nodes, or the last event.
    pub stop_us: u64,
    /// Longest time until a node serves that was started or healed, real milliseconds.
    pub recovery_ms: u64,
    /// Virtual time passes so many times faster than real time.
    pub warp: f64,
    excuses: Vec<Excuse>,
}

impl Effects {
    pub fn of(history: &History, baseline: Option<&Baseline>) -> Effects {
        let warp = if history.warp > 0.0 {
            history.warp
        } else {
            1.0
        };
        let real_us = |virtual_ms: u64| (virtual_ms as f64 * 1_000.0 / warp) as u64;
        let ready_ms = baseline.map_or(ASSUMED_READY_MS, |b| b.ready_ms);
        let op_ms = baseline.map_or(ASSUMED_OP_MS, |b| b.op_ms);
        let stop_us = stage_us(history, Stage::Stop)
            .or_else(|| history.events.last().map(|e| e.at_us))
            .unwrap_or(0);
        let mut effects = Effects {
            injected: injected(history, stop_us, real_us),
            lives: lives(history),
            grace_us: (1_000 * ready_ms)
                .max(3_000 * op_ms)
                .max(real_us(LEAST_GRACE_VIRTUAL_MS)),
            patience_us: (3_000 * op_ms).max(real_us(LEAST_PATIENCE_VIRTUAL_MS)),
            late_us: real_us(SETTLED_VIRTUAL_MS),
            stop_us,
            recovery_ms: baseline.map_or(ready_ms, Baseline::recovery_ms),
            warp,
            excuses: Vec::new(),
        };
        effects.excuses = effects.excuses(history, real_us);
        effects
    }

    fn excuses(&self, history: &History, real_us: impl Fn(u64) -> u64) -> Vec<Excuse> {
        let nodes = &history.nodes;
        let workload_us = stage_us(history, Stage::Workload).unwrap_or(u64::MAX);
        let elections_us = elections_us(history);
        let mut excuses = Vec::new();
        let mut add = |node: Option<&String>, from_us: u64, to_us: u64| {
            excuses.push(Excuse {
                node: node.cloned(),
                from_us,
                to_us,
            });
        };
        let mut disturbed: Vec<(u64, u64)> = Vec::new();
        for event in &history.events {
            if let What::CutOff { node, ms } = &event.what {
                let back_us = event.at_us + real_us(*ms);
                add(Some(node), event.at_us, back_us + self.grace_us);
                disturbed.extend([(event.at_us, event.at_us), (back_us, back_us)]);
            }
        }
        disturbed.extend(self.injected.iter().map(|i| (i.at_us, i.until_us)));
        for (at_us, until_us) in disturbed {
            let over_us = until_us.saturating_add(self.grace_us);
            let caused = |changed_us: &&u64| (at_us..=over_us).contains(changed_us);
            let election_us = elections_us.iter().filter(caused).max();
            let to_us = election_us.map_or(over_us, |at| over_us.max(at + self.grace_us));
            add(None, at_us, to_us);
        }
        if let Some(heal_us) = stage_us(history, Stage::Heal) {
            let done_us = stage_us(history, Stage::Recovery);
            add(None, heal_us, done_us.unwrap_or(heal_us));
        }
        let mut downs: Vec<(u64, u64)> = Vec::new();
        for node in nodes {
            for (from, to) in self.downs(node) {
                downs.push((from, to));
                if from == 0 {
                    // Where nobody works before the first readiness, nothing is left to settle.
                    let settles = if to > workload_us { self.grace_us } else { 0 };
                    add(Some(node), from, to.saturating_add(settles));
                    continue;
                }
                add(Some(node), from, to.saturating_add(self.grace_us));
                add(None, from, from + self.grace_us);
            }
        }
        let joins =
            |life: &&Life| life.ordinal > 0 || life.ready_us.is_some_and(|r| r > workload_us);
        for life in self.lives.iter().filter(joins) {
            if let Some(ready_us) = life.ready_us {
                add(None, life.started_us, ready_us + self.grace_us);
            }
        }
        for &(at, _) in &downs {
            let down = downs.iter().filter(|&&(from, to)| from <= at && at < to);
            let (count, first_up) = down.fold((0, u64::MAX), |(n, up), d| (n + 1, up.min(d.1)));
            if at > 0 && 2 * count >= nodes.len() {
                add(None, at, first_up.saturating_add(self.grace_us));
            }
        }
        excuses
    }

    /// The times in which a node is not ready; the last may never end.
    fn downs(&self, node: &str) -> Vec<(u64, u64)> {
        let mut downs = Vec::new();
        let mut lives = self
            .lives
            .iter()
            .filter(|life| life.node == node)
            .peekable();
        let mut down_since = lives.peek().map(|_| 0);
        for life in lives {
            if let Some(ready_us) = life.ready_us {
                downs.extend(down_since.take().map(|since| (since, ready_us)));
            }
            if let Some(exit) = &life.exit {
                down_since.get_or_insert(exit.at_us);
            }
        }
        downs.extend(down_since.map(|since| (since, u64::MAX)));
        downs
    }

    /// When the effects of all faults are over by themselves, and not before `from_us`.
    pub fn over_us(&self, from_us: u64) -> u64 {
        let ends = self.injected.iter().map(|i| i.until_us);
        ends.fold(from_us, u64::max)
    }

    /// A span of real time in virtual seconds, for people.
    pub fn virtual_s(&self, real_us: u64) -> String {
        format!("{:.1} s", real_us as f64 * self.warp / 1e6)
    }

    /// Whether the node is not ready at that time.
    pub fn is_down(&self, node: &str, at_us: u64) -> bool {
        let mut downs = self.downs(node).into_iter();
        downs.any(|(from, to)| from <= at_us && at_us < to)
    }

    /// Whether trouble of a client of `node` between the two times is explained.
    pub fn explains(&self, node: &str, from_us: u64, to_us: u64) -> bool {
        self.excuses_of(node)
            .any(|e| e.from_us <= to_us && from_us <= e.to_us)
    }

    /// The earliest time from which on, until `until_us`, nothing excuses a client of `node`.
    pub fn quiet_since(&self, node: &str, from_us: u64, until_us: u64) -> u64 {
        self.excuses_of(node)
            .filter(|e| e.from_us < until_us)
            .fold(from_us, |since, e| since.max(e.to_us))
    }

    fn excuses_of(&self, node: &str) -> impl Iterator<Item = &Excuse> {
        let concerns = move |e: &&Excuse| e.node.as_deref().is_none_or(|n| n == node);
        self.excuses.iter().filter(concerns)
    }

    /// A node as seen from the faults, in words.
    pub fn role(&self, node: &str) -> &'static str {
        Side::name(self.side(node))
    }

    /// None where no fault is in any node.
    pub fn side(&self, node: &str) -> Option<Side> {
        let mut faulted = self.injected.iter().filter_map(|i| i.node.as_deref());
        let first = faulted.next()?;
        let is_faulted = first == node || faulted.any(|n| n == node);
        Some(if is_faulted {
            Side::Faulted
        } else {
            Side::Other
        })
    }
}

/// Operations that somebody waits for, in order of their beginnings. A watch may rightly never be
/// told: how long it is open says nothing.
pub fn awaited(history: &History) -> Vec<Span<'_>> {
    let mut spans = spans(history);
    spans.retain(|span| span.reg != Some(Reg::Watch));
    spans
}

/// When a stage began.
pub fn stage_us(history: &History, wanted: Stage) -> Option<u64> {
    let is = |e: &&Event| matches!(&e.what, What::Stage { stage } if *stage == wanted);
    history.events.iter().find(is).map(|e| e.at_us)
}

fn injected(history: &History, stop_us: u64, real_us: impl Fn(u64) -> u64) -> Vec<Injected> {
    let mut all = Vec::new();
    for event in &history.events {
        let (step, text, thread, frames, in_node) = match &event.what {
            What::Fired {
                step,
                fault,
                thread,
                frames,
                node,
                ..
            } => (
                *step,
                fault,
                thread.clone(),
                frames.clone(),
                Some(node.clone()),
            ),
            What::LabFault { step, fault, .. } => (*step, fault, String::new(), Vec::new(), None),
            _ => continue,
        };
        let Some(fault) = fault_of(history, step, text) else {
            continue;
        };
        // What is slow below the program is told by the node that hits.
        if in_node.is_none() && fault.delay_ms().is_some() {
            continue;
        }
        let until_us = match (fault.delay_ms(), &fault) {
            (Some(ms), _) | (None, &Fault::Pause { ms, .. }) => {
                let healed_us = stage_us(history, Stage::Recovery);
                let healed_us = healed_us.filter(|healed_us| *healed_us > event.at_us);
                (event.at_us + real_us(ms)).min(healed_us.unwrap_or(u64::MAX))
            }
            (None, Fault::Partition { .. }) => mended_us(history, event.at_us).unwrap_or(stop_us),
            _ => event.at_us,
        };
        let named = match &fault {
            Fault::Restart { node } | Fault::Pause { node, .. } | Fault::Corrupt { node, .. } => {
                Some(node.clone())
            }
            _ => None,
        };
        all.push(Injected {
            // A fault of the lab that waited for a hit is not the hitting node's own.
            node: match fault.is_lab() && fault.delay_ms().is_none() {
                true => named,
                false => in_node,
            },
            fault,
            thread,
            frames,
            at_us: event.at_us,
            until_us,
        });
    }
    all
}

/// The fault that fired: the plan's, unless the plan left it open (`Any`) or does not fit.
fn fault_of(history: &History, step: u32, text: &str) -> Option<Fault> {
    let planned = history.plan.steps.get(step as usize).map(|s| &s.fault);
    if let Some(fault) = planned
        && (fault.to_string() == text || fault.label() == text)
    {
        return Some(fault.clone());
    }
    let named = || planned.filter(|fault| **fault != Fault::Any).cloned();
    Fault::from_text(text).or_else(named)
}

/// When a node took or lost a role that only one may have.
fn elections_us(history: &History) -> Vec<u64> {
    let mut roles: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    let mut changes = Vec::new();
    for event in &history.events {
        let What::Health { node, role, .. } = &event.what else {
            continue;
        };
        let is_single = |role: &&str| history.single_roles.iter().any(|r| r == role);
        let now = role.as_deref().filter(is_single);
        if roles.insert(node, now).flatten() != now {
            changes.push(event.at_us);
        }
    }
    changes
}

fn mended_us(history: &History, since_us: u64) -> Option<u64> {
    let mends = |event: &&Event| match &event.what {
        What::Stage { stage } => *stage >= Stage::Heal,
        What::LabFault { step, fault, .. } => {
            matches!(fault_of(history, *step, fault), Some(Fault::Heal))
        }
        _ => false,
    };
    let later = history.events.iter().filter(|e| e.at_us >= since_us);
    later.filter(mends).map(|e| e.at_us).next()
}

fn lives(history: &History) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    for event in &history.events {
        let at_us = event.at_us;
        match &event.what {
            What::NodeStarted { node, .. } => lives.push(Life {
                node: node.clone(),
                ordinal: lives.iter().filter(|l| l.node == *node).count(),
                started_us: at_us,
                ready_us: None,
                exit: None,
            }),
            What::NodeReady { node } => {
                if let Some(life) = lives.iter_mut().rfind(|l| l.node == *node) {
                    life.ready_us.get_or_insert(at_us);
                }
            }
            What::NodeExited {
                node,
                code,
                signal,
                injected,
            } => {
                if let Some(life) = lives.iter_mut().rfind(|l| l.node == *node) {
                    life.exit.get_or_insert(Exit {
                        at_us,
                        code: *code,
                        signal: *signal,
                        injected: *injected,
                    });
                }
            }
            _ => {}
        }
    }
    lives
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{baseline, history};

    #[track_caller]
    fn check(script: &str, node: &str, at_ms: u64, expected: bool) {
        let effects = Effects::of(&history(script), Some(&baseline()));
        let at_us = at_ms * 1_000;
        assert_eq!(
            effects.explains(node, at_us, at_us),
            expected,
            "{node} at {at_ms}"
        );
    }

    #[test]
    fn a_throw_is_over_at_once_but_for_the_grace() {
        let script = "up\n 1000 fired n1 t throw x.E\n 60000 stage stop";
        for (at, expected) in [(999, false), (1_000, true), (6_000, true), (6_001, false)] {
            check(script, "n1", at, expected);
            check(script, "n2", at, expected);
        }
    }

    #[test]
    fn a_pause_lasts_as_long_as_it_says() {
        let script = "up\n 1000 lab pause n1 3000\n 60000 stage stop";
        check(script, "n2", 8_999, true);
        check(script, "n2", 9_001, false);
    }

    #[test]
    fn what_the_workload_does_excuses_like_a_fault() {
        let script = "up\n 1000 cut-off n1 3000\n 60000 stage stop";
        for (at, expected) in [(999, false), (1_000, true), (9_000, true), (9_001, false)] {
            check(script, "n2", at, expected);
        }
        // The others go on without a node that is away for long.
        let script = "up\n 1000 cut-off n1 20000\n 60000 stage stop";
        for (node, at, expected) in [
            ("n1", 15_000, true),
            ("n2", 6_000, true),
            ("n2", 6_001, false),
            ("n2", 20_999, false),
            ("n2", 21_000, true),
            ("n1", 26_001, false),
        ] {
            check(script, node, at, expected);
        }
    }

    #[test]
    fn a_restart_excuses_everybody_again() {
        let script = "up\n 1000 fired n1 t crash\n 1001 kill n1\n 20000 start n1\n\
                      21000 ready n1\n 60000 stage stop";
        for (node, at, expected) in [
            ("n1", 15_000, true),
            ("n2", 15_000, false),
            ("n2", 20_500, true),
            ("n1", 26_001, false),
            ("n2", 26_001, false),
        ] {
            check(script, node, at, expected);
        }
    }

    #[test]
    fn an_election_within_the_grace_excuses_everybody_once_more() {
        let script = "up\n 200 health n1 ok leader\n 1000 fired n1 t throw x.E\n\
                      5000 health n2 ok leader\n 9000 health n3 ok leader\n 60000 stage stop";
        for (at, expected) in [(9_999, true), (10_001, false)] {
            check(script, "n3", at, expected);
        }
        let other = script.replace("leader", "follower");
        check(&other, "n3", 6_001, false);
    }

    #[test]
    fn healing_excuses_until_it_is_done_and_what_it_starts_is_ready() {
        let crash = "up\n 1000 fired n1 t crash\n 1001 kill n1\n 20000 stage heal\n";
        let healed = " 20400 stage recovery\n 21000 stage finale\n 60000 stage stop";
        let alone = format!("up\n 1000 fired n1 t throw x.E\n 20000 stage heal\n{healed}");
        for (at, expected) in [(20_000, true), (20_400, true), (20_401, false)] {
            check(&alone, "n2", at, expected);
        }
        let back = format!("{crash} 20100 start n1\n{healed}\n 20900 ready n1");
        for (at, expected) in [(20_050, true), (25_900, true), (25_901, false)] {
            check(&back, "n2", at, expected);
        }
    }

    #[test]
    fn healing_ends_pauses_and_delays_but_none_that_begin_later() {
        let healed = "5000 stage heal\n 5001 stage recovery\n";
        for fault in ["lab pause n1 60000", "fired n1 t delay 60000"] {
            let before = format!("up\n 1000 {fault}\n {healed} 90000 stage stop");
            check(&before, "n1", 10_001, true);
            check(&before, "n1", 10_002, false);
            let later = format!("up\n {healed} 6000 {fault}\n 90000 stage stop");
            check(&later, "n1", 71_000, true);
            check(&later, "n1", 71_001, false);
        }
    }

    #[test]
    fn a_node_first_ready_during_the_workload_excuses_for_a_while() {
        let late = "0 start n1\n 0 start n2\n 100 ready n2\n 200 stage workload\n\
                    3000 ready n1\n 60000 stage stop";
        for (node, at, expected) in [
            ("n1", 8_000, true),
            ("n1", 8_001, false),
            ("n2", 8_000, true),
            ("n2", 8_001, false),
        ] {
            check(late, node, at, expected);
        }
    }

    #[test]
    fn a_fault_left_open_by_the_plan_is_read_from_what_fired() {
        let mut history = history("up\n 1000 fired n1 t delay 3000\n 60000 stage stop");
        history.plan.steps[0].fault = Fault::Any;
        let effects = Effects::of(&history, Some(&baseline()));
        assert_eq!(effects.injected[0].fault, Fault::Delay { ms: 3_000 });
        assert_eq!(effects.injected[0].until_us, 4_000_000);
    }

    #[test]
    fn roles_are_seen_from_the_faults() {
        let faulted = Effects::of(&history("up\n 1000 fired n2 t crash"), None);
        assert_eq!(faulted.side("n2"), Some(Side::Faulted));
        assert_eq!(faulted.role("n2"), "the faulted node");
        assert_eq!(faulted.role("n1"), "another node");
        assert_eq!(Effects::of(&history("up"), None).role("n1"), "a node");
    }
}
