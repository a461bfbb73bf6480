//! `hang`: who holds what the others wait for, read from thread dumps.
//!
//! A dump alone proves little: locks are held all the time. Rules:
//! - A deadlock always fails.
//! - Threads that wait for a lock fail when users notice: an operation is stuck (as `client` has
//!   it), or the deadline came. The same holder and waiter must show in two dumps of the node
//!   where there are two; a single dump counts only with a stuck operation.
//! - A thread that sleeps in its own injected delay is what was asked for, and so is one that
//!   waits behind it, as long as only the faulted node's clients notice. When clients of *other*
//!   nodes wait or time out meanwhile, the slow call holds a lock it should not hold (Legolas
//!   fig. 1, Sieve fig. 1): that fails. One dump taken during the delay is enough for it.

use temblor_model::bug::{Judgement, Symptom};
use temblor_model::event::What;
use temblor_model::history::{Baseline, History};
use temblor_model::op::OpEvent;
use temblor_model::plan::Fault;

use super::{Checker, client, conclude};
use crate::dump::{Jam, LockGraph, Thread, parse};
use crate::effects::{Effects, Injected};
use crate::ops::{Span, spans};
use crate::template::normalise;

/// See the module.
pub struct Hang;

struct Dump<'a> {
    at_us: u64,
    node: &'a str,
    threads: Vec<Thread>,
}

impl Checker for Hang {
    fn name(&self) -> &'static str {
        "hang"
    }

    fn judge(&self, history: &History, baseline: Option<&Baseline>) -> Judgement {
        let dumps: Vec<Dump<'_>> = dumps(history);
        let effects = Effects::of(history, baseline);
        let is_deadline = |what: &What| matches!(what, What::Deadline { .. });
        let trial = Trial {
            spans: spans(history),
            op_stuck: !client::stuck(history, baseline).is_empty(),
            deadline: history.events.iter().any(|e| is_deadline(&e.what)),
            effects,
            dumps: &dumps,
        };
        let mut symptoms = Vec::new();
        for dump in &dumps {
            let graph = LockGraph::of(&dump.threads);
            symptoms.extend(graph.deadlocks.iter().map(|ring| deadlock(dump, ring)));
            for jam in &graph.jams {
                if let Some(noticed) = trial.noticed(dump, jam) {
                    symptoms.push(jammed(dump, jam, noticed));
                }
            }
        }
        conclude(self.name(), symptoms, &[])
    }
}

fn dumps(history: &History) -> Vec<Dump<'_>> {
    let all = history.events.iter().filter_map(|event| match &event.what {
        What::Dump { node, text } => Some(Dump {
            at_us: event.at_us,
            node,
            threads: parse(text),
        }),
        _ => None,
    });
    all.collect()
}

struct Trial<'a> {
    effects: Effects,
    spans: Vec<Span<'a>>,
    op_stuck: bool,
    deadline: bool,
    dumps: &'a [Dump<'a>],
}

impl Trial<'_> {
    /// How users notice the jam, if they do.
    fn noticed(&self, dump: &Dump<'_>, jam: &Jam<'_>) -> Option<String> {
        if let Some(delay) = self.delay_of(dump, jam.holder) {
            let hurt = self.spans.iter().find(|s| self.is_hurt(s, dump, delay))?;
            return Some(format!(
                "meanwhile {} of {} waits for {} in phase {}",
                hurt.client, hurt.node, hurt.op, hurt.phase
            ));
        }
        let of_node = self.dumps.iter().filter(|d| d.node == dump.node);
        let taken = of_node.clone().count();
        let showing = of_node.filter(|d| shows(d, jam)).count();
        let lasting = showing >= 2 || (taken == 1 && self.op_stuck);
        (lasting && (self.op_stuck || self.deadline)).then(|| {
            let what = if self.op_stuck {
                "an operation is stuck"
            } else {
                "the workload did not end in time"
            };
            what.into()
        })
    }

    /// The injected delay that this thread is sleeping in.
    fn delay_of(&self, dump: &Dump<'_>, thread: &Thread) -> Option<&Injected> {
        self.effects.injected.iter().find(|i| {
            matches!(i.fault, Fault::Delay { .. })
                && i.node.as_deref() == Some(dump.node)
                && i.thread == thread.name
                && (i.at_us..=i.until_us).contains(&dump.at_us)
        })
    }

    /// A client of another node waits too long, or gave up, while the delay runs.
    fn is_hurt(&self, span: &Span<'_>, dump: &Dump<'_>, delay: &Injected) -> bool {
        let since_us = span.began_us.max(delay.at_us);
        let waits = span.pending_at(dump.at_us)
            && dump.at_us.saturating_sub(since_us) > self.effects.patience_us;
        let gave_up = span.end.as_ref().is_some_and(|end| {
            end.ev == OpEvent::Timeout && (delay.at_us..=delay.until_us).contains(&end.at_us)
        });
        span.node != dump.node && (waits || gave_up)
    }
}

/// Whether a dump has the same holder and one of the same waiters.
fn shows(dump: &Dump<'_>, jam: &Jam<'_>) -> bool {
    LockGraph::of(&dump.threads).jams.iter().any(|other| {
        let same = |t: &&Thread| jam.waiters.iter().any(|w| w.name == t.name);
        other.holder.name == jam.holder.name && other.waiters.iter().any(same)
    })
}

fn jammed(dump: &Dump<'_>, jam: &Jam<'_>, noticed: String) -> Symptom {
    let (inside, doing) = (normalise(jam.inside), normalise(jam.doing));
    let at = if inside == doing {
        String::new()
    } else {
        format!(", which is in {doing}")
    };
    let count = jam.waiters.len();
    let mut detail = vec![
        format!(
            "{}: {count} thread(s) wait for a {} held by `{}` ({})",
            dump.node, jam.lock.class, jam.holder.name, jam.holder.state
        ),
        noticed,
    ];
    detail.extend(jam.holder.frames.iter().map(|f| format!("  holder at {f}")));
    detail.extend(jam.waiters.iter().take(5).map(|w| {
        let at = w
            .frames
            .iter()
            .find(|f| !f.starts_with("j"))
            .or(w.frames.first());
        format!("  `{}` waits in {}", w.name, at.map_or("?", String::as_str))
    }));
    Symptom {
        checker: "hang".into(),
        summary: format!(
            "threads wait for a lock: held by `{}` inside {inside}{at}",
            normalise(&jam.holder.name)
        ),
        detail,
        at_us: dump.at_us,
    }
}

fn deadlock(dump: &Dump<'_>, ring: &[&Thread]) -> Symptom {
    let mut names: Vec<String> = ring
        .iter()
        .map(|t| format!("`{}`", normalise(&t.name)))
        .collect();
    names.sort();
    let detail = ring.iter().map(|t| {
        let class = t.wants.as_ref().map_or("lock", |lock| &lock.class);
        let at = t.frames.first().map_or("?", String::as_str);
        format!("{}: `{}` wants a {class} in {at}", dump.node, t.name)
    });
    Symptom {
        checker: "hang".into(),
        summary: format!("a deadlock: {}", names.join(", ")),
        detail: detail.collect(),
        at_us: dump.at_us,
    }
}

#[cfg(test)]
mod tests {
    use temblor_model::bug::Verdict;

    use super::*;
    use crate::scripted::{baseline, history};

    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        let judgement = Hang.judge(&history(script), Some(&baseline()));
        let said: Vec<&str> = match judgement.verdict {
            Verdict::Pass => vec!["pass"],
            Verdict::Unknown => vec!["unknown"],
            Verdict::Fail => judgement
                .symptoms
                .iter()
                .map(|s| s.summary.as_str())
                .collect(),
        };
        assert_eq!(said, expected, "{judgement:#?}");
    }

    const JAM: &str = "threads wait for a lock: held by `sync-n<*>` inside Stuck$Store.send, \
                       which is in sun.nio.ch.FileDispatcherImpl.write<*>";
    const THROW: &str = "up\n 300 fired n1 t throw java.io.IOException\n";
    const STUCK: &str = " 9000 op c2 put 1 invoke\n 30000 deadline\n";

    #[test]
    fn a_jam_with_a_stuck_operation_fails() {
        let script = |dump| format!("{THROW}{STUCK} 30001 dump n1 {dump}\n 31000 stage stop");
        check(&script("blocked-17.txt"), &[JAM]);
        let newer = JAM.replace("FileDispatcherImpl", "SocketDispatcher");
        check(&script("blocked-25.txt"), &[&newer]);
    }

    #[test]
    fn a_jam_that_nobody_notices_passes() {
        check(
            &format!("{THROW} 5000 dump n1 blocked-17.txt\n 31000 stage stop"),
            &["pass"],
        );
    }

    #[test]
    fn a_jam_that_is_gone_in_the_next_dump_passes() {
        check(
            &format!(
                "{THROW}{STUCK} 30001 dump n1 blocked-17.txt\n 30500 dump n1 locks-none.txt\n\
                 31000 stage stop"
            ),
            &["pass"],
        );
    }

    #[test]
    fn a_jam_in_two_dumps_at_the_deadline_fails() {
        let deadline = " 9000 op c2 put 1 invoke\n 9010 op c2 put 1 ok\n 90000 done c1\n\
         90000 done c2\n 90000 done c3\n 90001 deadline\n";
        let dump = " 90002 dump n1 blocked-17.txt\n";
        let again = " 90502 dump n1 blocked-17.txt\n";
        check(
            &format!("{THROW}{deadline}{dump}{again} 91000 stage stop"),
            &[JAM],
        );
        // One dump of a slow run shows only that locks are held at times.
        check(
            &format!("{THROW}{deadline}{dump} 91000 stage stop"),
            &["pass"],
        );
    }

    #[test]
    fn a_deadlock_always_fails() {
        for dump in ["deadlock-8.txt", "deadlock-17.txt", "deadlock-25.txt"] {
            check(
                &format!("up\n 500 dump n1 {dump}\n 900 stage stop"),
                &["a deadlock: `left<*>`, `right<*>`"],
            );
        }
    }

    const DELAY: &str = "up\n 300 fired n1 sync-n2 delay 60000\n";

    #[test]
    fn a_delay_under_a_lock_that_stops_clients_of_other_nodes_fails() {
        let waits =
            " 1000 op c2 put 1 invoke\n 30000 dump n1 blocked-17.txt\n 61000 op c2 put 1 ok\n";
        check(&format!("{DELAY}{waits} 90000 stage stop"), &[JAM]);
        let gave_up =
            " 1000 op c3 put 1 invoke\n 11000 op c3 put 1 timeout\n 30000 dump n1 blocked-17.txt\n";
        check(&format!("{DELAY}{gave_up} 90000 stage stop"), &[JAM]);
    }

    #[test]
    fn a_delay_under_a_lock_that_only_its_own_clients_notice_passes() {
        let own =
            " 1000 op c1 put 1 invoke\n 30000 dump n1 blocked-17.txt\n 61000 op c1 put 1 ok\n";
        check(&format!("{DELAY}{own} 90000 stage stop"), &["pass"]);
    }

    #[test]
    fn an_operation_that_has_only_begun_does_not_wait_yet() {
        let brief =
            " 29000 op c2 put 1 invoke\n 30000 dump n1 blocked-17.txt\n 30100 op c2 put 1 ok\n";
        check(&format!("{DELAY}{brief} 90000 stage stop"), &["pass"]);
    }

    #[test]
    fn a_delay_that_holds_nothing_passes() {
        let waits =
            " 1000 op c2 put 1 invoke\n 30000 dump n1 locks-none.txt\n 61000 op c2 put 1 ok\n";
        check(&format!("{DELAY}{waits} 90000 stage stop"), &["pass"]);
    }

    #[test]
    fn a_delay_on_another_thread_is_no_explanation() {
        let other = "up\n 300 fired n1 elsewhere delay 1000\n";
        check(
            &format!("{other}{STUCK} 30001 dump n1 blocked-17.txt\n 31000 stage stop"),
            &[JAM],
        );
    }
}
