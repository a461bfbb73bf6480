//! `hang`: who holds what the others wait for, read from thread dumps.
//!
//! A dump alone proves little: locks are held all the time. Rules:
//! - A deadlock always fails.
//! - Threads that wait for a lock fail when users notice: an operation is stuck (as `client` has
//!   it), or the deadline came. The same holder and waiter must show in two dumps of the node
//!   where there are two; a single dump counts only with a stuck operation.
//! - A thread that sleeps in its own injected delay is what was asked for. One that waits behind it
//!   is not, once users notice: the slow call holds a lock it should not hold (Legolas fig. 1,
//!   Sieve fig. 1). Clients of *other* nodes that wait or time out meanwhile are enough. The
//!   faulted node's own clients may wait for the slow call itself, so for them it takes longer: as
//!   long as users would call it an outage, over as many operations as they try. One dump taken
//!   during the delay is enough for it.
//! - A thread that waits for no lock, but for something that nobody does (a queue, a latch, a
//!   thread's end), fails nothing: most threads of a healthy node wait like that. Where an
//!   operation is stuck, those are told that stood at the same place in all dumps of its node (two
//!   at least) and that no other node has: with the symptoms, or as an observation without any.
//!
//! How long a thread waits is told in virtual time, from the first dump that shows it (or from the
//! beginning of its delay) to the last.

use std::collections::BTreeSet;

use temblor_model::bug::{Judgement, Misbehaviour, Symptom};
use temblor_model::event::What;
use temblor_model::history::{Baseline, History};
use temblor_model::op::OpEvent;

use super::{Checker, client, conclude, observe};
use crate::dump::{Jam, LockGraph, Thread, parse};
use crate::effects::{Effects, Injected};
use crate::ops::{Span, spans};
use crate::template::normalise;

/// From when on clients of the node with the slow call count, virtual seconds.
const OUTAGE_S: f64 = 8.0;
/// Waiting threads that are named.
const WAITERS: usize = 5;
/// Threads told that wait for no lock.
const IDLE: usize = 5;

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
        let stuck = client::stuck(history, baseline);
        let trial = Trial {
            spans: spans(history),
            op_stuck: !stuck.is_empty(),
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
                    symptoms.push(trial.jammed(dump, jam, noticed));
                }
            }
        }
        let nodes: BTreeSet<&str> = stuck.iter().map(|s| s.node).collect();
        let mut idle: Vec<Symptom> = nodes.iter().filter_map(|n| trial.idle(n)).collect();
        match symptoms.first_mut() {
            None => return observe(self.name(), idle),
            Some(first) => idle
                .iter_mut()
                .for_each(|i| first.detail.append(&mut i.detail)),
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

    fn jammed(&self, dump: &Dump<'_>, jam: &Jam<'_>, noticed: String) -> Symptom {
        let (inside, doing) = (normalise(jam.inside), normalise(jam.doing));
        let at = if inside == doing {
            String::new()
        } else {
            format!(", which is in {doing}")
        };
        let mut detail = vec![self.story(dump, jam), noticed];
        let holder = jam.holder.frames.iter();
        detail.extend(holder.map(|frame| format!("  holder at {frame}")));
        detail.extend(jam.waiters.iter().take(WAITERS).map(|waiter| {
            let at = waiter.outside().or(waiter.frames.first());
            let at = at.map_or("?", String::as_str);
            format!("  `{}` waits in {at}", waiter.name)
        }));
        Symptom {
            checker: "hang".into(),
            summary: format!(
                "threads wait for a lock: held by `{}` inside {inside}{at}",
                normalise(&jam.holder.name)
            ),
            shows: Misbehaviour::Stuck {
                holder: Some(inside),
                side: None,
            },
            detail,
            at_us: dump.at_us,
        }
    }

    /// Who waits for whom, and how long already.
    fn story(&self, dump: &Dump<'_>, jam: &Jam<'_>) -> String {
        let of_node = self.dumps.iter().filter(|d| d.node == dump.node);
        let showing = of_node.filter(|d| shows(d, jam)).map(|d| d.at_us);
        let last_us = showing.clone().max().unwrap_or(dump.at_us);
        let delay = self.delay_of(dump, jam.holder);
        let since_us = delay
            .map(|delay| delay.at_us)
            .or(showing.min())
            .unwrap_or(dump.at_us);
        let waited = match last_us.saturating_sub(since_us) {
            0 => "is".into(),
            us => format!("has been for {} (virtual)", self.effects.virtual_s(us)),
        };
        let mut waiters: Vec<String> = jam
            .waiters
            .iter()
            .take(WAITERS)
            .map(|w| format!("`{}`", w.name))
            .collect();
        if let Some(more) = jam.waiters.len().checked_sub(WAITERS).filter(|&n| n > 0) {
            waiters.push(format!("{more} more"));
        }
        let wait = if jam.waiters.len() == 1 {
            "waits"
        } else {
            "wait"
        };
        format!(
            "{}: `{}` {waited} in {} holding a {}; {} {wait} for it",
            dump.node,
            jam.holder.name,
            jam.doing,
            jam.lock.class,
            waiters.join(", ")
        )
    }

    /// Threads of a node that stood at one place in all its dumps and wait for no lock, where
    /// threads of the same place are not on other nodes.
    fn idle(&self, node: &str) -> Option<Symptom> {
        let own: Vec<&Dump<'_>> = self.dumps.iter().filter(|d| d.node == node).collect();
        let (first, last) = (own.first()?, own.last()?);
        let elsewhere = |frames: &[String]| {
            let others = self.dumps.iter().filter(|d| d.node != node);
            others
                .flat_map(|d| &d.threads)
                .any(|other| is_same_place(&other.frames, frames))
        };
        let stays = |thread: &Thread| {
            let same = |t: &Thread| t.name == thread.name && t.frames == thread.frames;
            own.iter().all(|dump| dump.threads.iter().any(same))
        };
        let owned = LockGraph::of(&first.threads);
        let in_jam = |thread: &Thread| {
            let mut waiters = owned.jams.iter().flat_map(|jam| &jam.waiters);
            let mut rings = owned.deadlocks.iter().flatten();
            waiters.any(|w| w.name == thread.name) || rings.any(|t| t.name == thread.name)
        };
        let waiting = first.threads.iter().filter(|thread| {
            thread.state == "WAITING"
                && thread.outside().is_some()
                && own.len() >= 2
                && !in_jam(thread)
                && stays(thread)
                && !elsewhere(&thread.frames)
        });
        let waited = self.effects.virtual_s(last.at_us - first.at_us);
        let told = waiting.take(IDLE).map(|thread| {
            let at = thread.outside().map_or("?", String::as_str);
            let by = thread.waits_by().unwrap_or("wait");
            let name = &thread.name;
            format!("{node}: `{name}` has waited for {waited} (virtual) in {at}, by {by}")
        });
        let detail: Vec<String> = told.collect();
        (!detail.is_empty()).then(|| Symptom {
            checker: "hang".into(),
            shows: Misbehaviour::STUCK,
            summary: "threads wait for what nobody does, behind a stuck operation".into(),
            detail,
            at_us: first.at_us,
        })
    }

    /// The injected delay that this thread is sleeping in.
    fn delay_of(&self, dump: &Dump<'_>, thread: &Thread) -> Option<&Injected> {
        self.effects.injected.iter().find(|i| {
            i.fault.delay_ms().is_some()
                && i.node.as_deref() == Some(dump.node)
                && i.thread == thread.name
                && (i.at_us..=i.until_us).contains(&dump.at_us)
        })
    }

    /// A client waits too long, or gave up, while the delay runs.
    fn is_hurt(&self, span: &Span<'_>, dump: &Dump<'_>, delay: &Injected) -> bool {
        let pending = span.pending_at(dump.at_us);
        let gave_up = span.end.as_ref().is_some_and(|end| {
            end.ev == OpEvent::Timeout && (delay.at_us..=delay.until_us).contains(&end.at_us)
        });
        if span.node == dump.node {
            let waited_us = self.unanswered_us(span.client, dump, delay);
            let outage = waited_us as f64 * self.effects.warp / 1e6 >= OUTAGE_S;
            return outage && (pending || gave_up);
        }
        let waited_us = dump.at_us.saturating_sub(span.began_us.max(delay.at_us));
        gave_up || pending && waited_us > self.effects.patience_us
    }

    /// How long a client has got no answer: over as many operations as it tried meanwhile, and
    /// what it waited between them.
    fn unanswered_us(&self, client: &str, dump: &Dump<'_>, delay: &Injected) -> u64 {
        let (mut since_us, mut to_us) = (None, 0);
        for span in self.spans.iter().filter(|s| s.client == client) {
            to_us = span.began_us.min(dump.at_us);
            if span.began_us > dump.at_us {
                break;
            }
            match &span.end {
                Some(end) if end.at_us <= dump.at_us && end.ev != OpEvent::Timeout => {
                    since_us = None;
                }
                end => {
                    since_us.get_or_insert(span.began_us.max(delay.at_us));
                    to_us = end.as_ref().map_or(dump.at_us, |e| e.at_us.min(dump.at_us));
                }
            }
        }
        since_us.map_or(0, |since_us| to_us.saturating_sub(since_us))
    }
}

/// Whether two stacks are one in code: names of lambdas differ from process to process.
fn is_same_place(a: &[String], b: &[String]) -> bool {
    let code = |frame: &String| frame.find("$$Lambda").unwrap_or(frame.len());
    let same = |(a, b): (&String, &String)| a[..code(a)] == b[..code(b)];
    a.len() == b.len() && a.iter().zip(b).all(same)
}

/// Whether a dump has the same holder and one of the same waiters.
fn shows(dump: &Dump<'_>, jam: &Jam<'_>) -> bool {
    LockGraph::of(&dump.threads).jams.iter().any(|other| {
        let same = |t: &&Thread| jam.waiters.iter().any(|w| w.name == t.name);
        other.holder.name == jam.holder.name && other.waiters.iter().any(same)
    })
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
        shows: Misbehaviour::STUCK,
        summary: format!("a deadlock: {}", names.join(", ")),
        detail: detail.collect(),
        at_us: dump.at_us,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{self, baseline, history};

    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        scripted::check(&Hang, script, expected);
    }

    /// All lines of detail, which may not be of a failure.
    fn details(script: &str, warp: f64) -> Vec<String> {
        let mut history = history(script);
        history.warp = warp;
        let judgement = Hang.judge(&history, Some(&baseline()));
        let symptoms = judgement.symptoms.into_iter();
        symptoms.flat_map(|symptom| symptom.detail).collect()
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
    fn its_own_clients_count_when_they_are_cut_off_for_long() {
        let own = |dump_ms: u64| {
            format!(
                "{DELAY} 1000 op c1 put 1 invoke\n {dump_ms} dump n1 blocked-17.txt\n\
                 61000 op c1 put 1 ok\n 90000 stage stop"
            )
        };
        check(&own(30_000), &[JAM]);
        check(&own(8_500), &["pass"]);
        let gave_up = " 1000 op c1 put 1 invoke\n 7000 op c1 put 1 timeout\n";
        let dump = " 30000 dump n1 blocked-17.txt\n";
        check(
            &format!("{DELAY}{gave_up}{dump} 90000 stage stop"),
            &["pass"],
        );
        // Again and again, without an answer.
        let again = " 7000 op c1 put 2 invoke\n 13000 op c1 put 2 timeout\n";
        check(
            &format!("{DELAY}{gave_up}{again}{dump} 90000 stage stop"),
            &[JAM],
        );
        // What is told is what was tried meanwhile.
        let before = "up\n 200 op c1 get 7 invoke\n 201 op c1 get 7 ok\n";
        let delay = DELAY.replace("up\n", before);
        let told = details(
            &format!("{delay}{gave_up}{again}{dump} 90000 stage stop"),
            1.0,
        );
        assert!(told[1].contains("waits for put"), "{told:?}");
        let answered = again.replace("timeout", "fail: refused");
        check(
            &format!("{DELAY}{gave_up}{answered}{dump} 90000 stage stop"),
            &["pass"],
        );
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

    #[test]
    fn a_jam_is_told_as_who_waits_for_whom_since_when() {
        let again = " 30001 dump n1 blocked-17.txt\n 34001 dump n1 blocked-17.txt\n";
        let told = &details(&format!("{THROW}{STUCK}{again} 35000 stage stop"), 10.0)[0];
        assert_eq!(
            told,
            "n1: `sync-n2` has been for 40.0 s (virtual) in sun.nio.ch.FileDispatcherImpl.write0 \
             holding a java.lang.Object; `writer-1`, `writer-2` wait for it"
        );
        let waits = " 1000 op c2 put 1 invoke\n 30300 dump n1 blocked-17.txt\n";
        let told = &details(&format!("{DELAY}{waits} 90000 stage stop"), 1.0)[0];
        assert!(told.contains("for 30.0 s (virtual) in"), "{told}");
        let once = format!("{THROW}{STUCK} 30001 dump n1 blocked-17.txt\n 31000 stage stop");
        let told = &details(&once, 1.0)[0];
        assert!(told.starts_with("n1: `sync-n2` is in sun.nio"), "{told}");
    }

    #[test]
    fn threads_that_wait_without_a_lock_are_told_of_the_stuck_node_only() {
        let twice = |node: &str| {
            format!(" 30001 dump {node} blocked-17.txt\n 32001 dump {node} blocked-17.txt\n")
        };
        let idle = |script: &str| {
            let told = details(script, 1.0).into_iter();
            told.filter(|line| line.contains("idle-3"))
                .collect::<Vec<_>>()
        };
        let stop = " 35000 stage stop";
        let said = idle(&format!("{THROW}{STUCK}{}{stop}", twice("n2")));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("n2: `idle-3` has waited for 2.0 s (virtual) in Stuck"));
        // Of a node nobody waits for, of a thread that others have too, or seen only once.
        for dumps in [
            twice("n1"),
            twice("n2") + " 30001 dump n3 blocked-17.txt\n",
            " 30001 dump n2 blocked-17.txt\n".into(),
        ] {
            let said = idle(&format!("{THROW}{STUCK}{dumps}{stop}"));
            assert_eq!(said, [""; 0], "{dumps}");
        }
    }
}
