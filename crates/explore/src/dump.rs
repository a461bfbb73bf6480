//! Thread dumps of HotSpot (jstack or SIGQUIT, JDK 8 to 25), and the lock graph in them.

use std::collections::BTreeMap;

/// A thread as a dump shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    pub name: String,
    /// `RUNNABLE`, `BLOCKED`, `WAITING`, ...; empty for the JVM's own threads.
    pub state: String,
    /// `pkg.Class.method`, innermost first.
    pub frames: Vec<String>,
    pub held: Vec<Held>,
    /// The lock it cannot get.
    pub wants: Option<Lock>,
    /// The monitor it gave up in `Object.wait()`.
    pub awaits: Option<Lock>,
}

impl Thread {
    /// The innermost frame that is neither the JDK's nor the agent's.
    pub fn outside(&self) -> Option<&String> {
        self.frames.iter().find(|f| !is_jdk(f) && !is_hook(f))
    }

    /// The method of the JDK that is called there: `take`, `await`, `join`.
    pub fn waits_by(&self) -> Option<&str> {
        let outside = self.frames.iter().position(|f| !is_jdk(f) && !is_hook(f))?;
        let called = self.frames.get(outside.checked_sub(1)?)?;
        called.rsplit('.').next()
    }
}

/// A lock: its address in this dump, and the class of its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub address: String,
    pub class: String,
}

/// A lock that a thread holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub lock: Lock,
    /// Index of the frame that took it; none for `java.util.concurrent` locks.
    pub frame: Option<usize>,
}

/// Threads that cannot go on until one other does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jam<'a> {
    /// The thread everybody waits for; it waits for no lock itself.
    pub holder: &'a Thread,
    pub lock: &'a Lock,
    /// The method that took the lock.
    pub inside: &'a str,
    /// What the holder is doing.
    pub doing: &'a str,
    /// All that wait, directly or behind others.
    pub waiters: Vec<&'a Thread>,
}

/// Who holds and who waits.
#[derive(Debug, Default)]
pub struct LockGraph<'a> {
    pub jams: Vec<Jam<'a>>,
    /// Each a ring of threads, each waiting for the next.
    pub deadlocks: Vec<Vec<&'a Thread>>,
}

/// The threads of a dump. Lines that are no part of a thread are skipped.
pub fn parse(text: &str) -> Vec<Thread> {
    let mut threads: Vec<Thread> = Vec::new();
    let mut synchronizers = false;
    for line in text.lines() {
        // The JVM's own account of deadlocks shows the same threads again.
        if line.starts_with("Found ") && line.contains("deadlock") {
            break;
        }
        if let Some(name) = header(line) {
            synchronizers = false;
            threads.push(Thread {
                name: name.into(),
                ..Thread::default()
            });
            continue;
        }
        let Some(thread) = threads.last_mut() else {
            continue;
        };
        let line = line.trim();
        if let Some(state) = line.strip_prefix("java.lang.Thread.State: ") {
            thread.state = state.split_whitespace().next().unwrap_or("").into();
        } else if let Some(frame) = line.strip_prefix("at ") {
            thread.frames.push(method(frame).into());
        } else if line.starts_with("Locked ownable synchronizers") {
            synchronizers = true;
        } else if let Some(note) = line.strip_prefix("- ") {
            annotate(thread, note, synchronizers);
        }
    }
    threads
}

/// The name in a thread's first line: `"main" #1 prio=5 ... tid=0x... nid=...`.
fn header(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('"')?;
    let tid = rest.rfind(" tid=")?;
    let quote = rest[..tid].rfind('"')?;
    Some(&rest[..quote])
}

/// `pkg.Class.method` of `[module/]pkg.Class.method(Source.java:1)`. A hidden class's name has a
/// slash of its own, before its address: `Foo$$Lambda/0x...`.
fn method(frame: &str) -> &str {
    let name = frame.split('(').next().unwrap_or(frame);
    match name.split_once('/') {
        Some((module, rest)) if !module.contains('$') && !rest.starts_with("0x") => rest,
        _ => name,
    }
}

fn annotate(thread: &mut Thread, note: &str, synchronizers: bool) {
    let Some(lock) = lock(note) else {
        return;
    };
    let frame = thread.frames.len().checked_sub(1);
    let is = |start: &str| note.starts_with(start);
    if synchronizers {
        thread.held.push(Held { lock, frame: None });
    } else if is("locked ") {
        // In Object.wait() the monitor is given up, though a frame below still lists it.
        let given_up = [&thread.awaits, &thread.wants];
        if !given_up.into_iter().flatten().any(|l| *l == lock) {
            thread.held.push(Held { lock, frame });
        }
    } else if is("waiting to lock ") || is("waiting to re-lock ") || is("parking to wait for ") {
        thread.wants = Some(lock);
    } else if is("waiting on ") {
        thread.awaits = Some(lock);
    }
}

/// The lock in `locked <0x000000069ec18b28> (a java.lang.Object)`.
fn lock(note: &str) -> Option<Lock> {
    let (_, rest) = note.split_once('<')?;
    let (address, rest) = rest.split_once('>')?;
    let class = rest.split_once("(a ").map_or("", |(_, class)| class);
    address.starts_with("0x").then(|| Lock {
        address: address.into(),
        class: class.trim_end_matches(')').into(),
    })
}

impl<'a> LockGraph<'a> {
    pub fn of(threads: &'a [Thread]) -> LockGraph<'a> {
        let mut holders: BTreeMap<&str, (usize, &'a Held)> = BTreeMap::new();
        for (i, thread) in threads.iter().enumerate() {
            for held in &thread.held {
                holders.entry(&held.lock.address).or_insert((i, held));
            }
        }
        let holder = |i: usize| {
            let wants = threads[i].wants.as_ref()?;
            let found = holders.get(wants.address.as_str()).copied();
            found.filter(|&(held_by, _)| held_by != i)
        };
        let mut graph = LockGraph::default();
        let mut jams: BTreeMap<usize, (&'a Held, Vec<&'a Thread>)> = BTreeMap::new();
        for i in 0..threads.len() {
            let Some(mut last) = holder(i) else {
                continue;
            };
            let mut chain = vec![i];
            let ring = loop {
                let (at, _) = last;
                if let Some(start) = chain.iter().position(|&seen| seen == at) {
                    break Some(chain.split_off(start));
                }
                chain.push(at);
                match holder(at) {
                    Some(next) => last = next,
                    None => break None,
                }
            };
            match ring {
                // Each ring is told once, by its first thread.
                Some(ring) if ring.iter().min() == Some(&i) => {
                    graph
                        .deadlocks
                        .push(ring.iter().map(|&t| &threads[t]).collect());
                }
                Some(_) => {}
                None => {
                    let (root, held) = last;
                    let jam = jams.entry(root).or_insert((held, Vec::new()));
                    jam.1.push(&threads[i]);
                }
            }
        }
        let jam = |(root, (held, waiters)): (usize, (&'a Held, Vec<&'a Thread>))| {
            let holder = &threads[root];
            Jam {
                holder,
                lock: &held.lock,
                inside: inside(holder, held),
                doing: doing(holder),
                waiters,
            }
        };
        graph.jams = jams.into_iter().map(jam).collect();
        graph
    }
}

/// The method that holds the lock: the frame that took it, or, where the dump does not tell, the
/// innermost one outside the JDK.
fn inside<'a>(holder: &'a Thread, held: &Held) -> &'a str {
    let took = held.frame.and_then(|frame| holder.frames.get(frame));
    took.or_else(|| holder.outside())
        .map_or("an unknown method", String::as_str)
}

fn doing(holder: &Thread) -> &str {
    let real = holder.frames.iter().find(|frame| !is_hook(frame));
    real.map_or("an unknown method", String::as_str)
}

fn is_jdk(frame: &str) -> bool {
    ["java.", "javax.", "jdk.", "sun.", "com.sun."]
        .iter()
        .any(|start| frame.starts_with(start))
}

/// A frame of the agent's own hook (hidden on most JDKs, but not on all).
fn is_hook(frame: &str) -> bool {
    frame.starts_with("java.lang.FaultHook.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::data;

    /// Jams as `holder inside doing <- waiters`, deadlocks as rings of names.
    #[track_caller]
    fn check(name: &str, expected: &[&str]) {
        let threads = parse(&data(name));
        assert!(threads.len() > 10, "{name}: {} threads", threads.len());
        assert!(
            threads
                .iter()
                .any(|t| t.name == "main" && t.state == "TIMED_WAITING")
        );
        let graph = LockGraph::of(&threads);
        let names = |threads: &[&Thread]| {
            let names: Vec<&str> = threads.iter().map(|t| t.name.as_str()).collect();
            names.join(",")
        };
        let jams = graph.jams.iter().map(|jam| {
            let doing = jam.doing.rsplit('.').next().unwrap();
            let waiters = names(&jam.waiters);
            format!("{} {} {doing} <- {waiters}", jam.holder.name, jam.inside)
        });
        let rings = graph
            .deadlocks
            .iter()
            .map(|ring| format!("ring {}", names(ring)));
        let all: Vec<String> = jams.chain(rings).collect();
        assert_eq!(all, expected, "{name}");
    }

    #[test]
    fn a_monitor_held_across_a_write_is_seen() {
        let jam =
            |doing: &str, waiters: &str| format!("sync-n2 Stuck$Store.send {doing} <- {waiters}");
        // HotSpot 8 lists the newest thread first.
        check(
            "blocked-8.txt",
            &[&jam("socketWrite0", "writer-2,writer-1")],
        );
        for name in [
            "blocked-17.txt",
            "blocked-25.txt",
            "blocked-quit-17.txt",
            "blocked-quit-25.txt",
        ] {
            check(name, &[&jam("write0", "writer-1,writer-2")]);
        }
    }

    #[test]
    fn a_deadlock_is_a_ring_and_told_once() {
        check("deadlock-8.txt", &["ring right-1,left-1"]);
        check("deadlock-17.txt", &["ring left-1,right-1"]);
        check("deadlock-25.txt", &["ring left-1,right-1"]);
    }

    #[test]
    fn owned_synchronizers_name_the_holder_and_conditions_block_nobody() {
        check(
            "locks-8.txt",
            &["holder-7 Stuck.lambda$main$5 sleep <- waiter-8"],
        );
        check(
            "locks-17.txt",
            &["holder-7 Stuck.lambda$main$5 sleep <- waiter-8"],
        );
        check(
            "locks-25.txt",
            &["holder-7 Stuck.lambda$main$4 sleepNanos0 <- waiter-8"],
        );
    }

    #[test]
    fn waiting_for_a_notification_holds_nothing() {
        for name in ["blocked-8.txt", "blocked-17.txt", "blocked-25.txt"] {
            let threads = parse(&data(name));
            let idle = threads.iter().find(|t| t.name == "idle-3").unwrap();
            assert_eq!(
                (idle.held.len(), idle.awaits.is_some()),
                (0, true),
                "{name}"
            );
        }
    }

    #[test]
    fn those_who_wait_behind_a_waiter_count_too() {
        let text = r#"
"a \"quoted\" name" #1 prio=5 tid=0x1 nid=0x1 runnable
   java.lang.Thread.State: RUNNABLE
	at app//x.A.work(A.java:1)
	- locked <0x01> (a x.One)
"b" #2 prio=5 tid=0x2 nid=0x2 waiting for monitor entry
	at x.B.work(B.java:1)
	- waiting to lock <0x01> (a x.One)
	- locked <0x02> (a x.Two)
"c" #3 prio=5 tid=0x3 nid=0x3 waiting for monitor entry
	at x.C.work(C.java:1)
	- waiting to lock <0x02> (a x.Two)
"#;
        let threads = parse(text);
        let graph = LockGraph::of(&threads);
        assert_eq!(graph.jams.len(), 1);
        let jam = &graph.jams[0];
        assert_eq!(jam.holder.name, r#"a \"quoted\" name"#);
        assert_eq!((jam.lock.class.as_str(), jam.waiters.len()), ("x.One", 2));
    }

    #[test]
    fn cut_and_foreign_text_does_no_harm() {
        let text = data("blocked-17.txt");
        for end in (0..text.len())
            .step_by(97)
            .filter(|&i| text.is_char_boundary(i))
        {
            LockGraph::of(&parse(&text[..end]));
        }
        for line in [
            "\"",
            "\" tid=",
            "\"x\" tid=1\n- locked <",
            "- locked <0x1>",
            "at ",
            "\"x\" tid=\n\tat ",
        ] {
            LockGraph::of(&parse(line));
        }
    }
}
