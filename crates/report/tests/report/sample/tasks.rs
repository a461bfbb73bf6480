//! Tasks that went from state to state, and policies that were compared: made up, to be looked at.

use temblor_model::catalog::{Place, SiteCatalog, State, Task, TaskKind};
use temblor_model::visit::Move;
use temblor_report::Contest;
use temblor_report::contest::{Entry, Exposed};

use super::{noise, spec};

/// A follower's loop, a dispatcher with many cases, and a task with one state.
pub fn catalog() -> SiteCatalog {
    let follower = [
        "",
        "this.running",
        "this.role == LEADING && this.epoch > this.lastAccepted.epoch",
        "this.role == LOOKING",
        "packet != null",
        "packet.type == SNAPSHOT && this.log.lastIndex() < packet.firstIndex - this.margin",
        "this.pending.size() > 0",
        "!this.running",
    ];
    let cases: Vec<String> = (0..18)
        .map(|n| match n {
            0 => String::new(),
            1 => "!this.queue.isEmpty()".into(),
            n => format!("request.type == {}", n - 2),
        })
        .collect();
    let mut catalog = SiteCatalog {
        format: SiteCatalog::FORMAT,
        ..SiteCatalog::default()
    };
    let mut task = |name: &str, conditions: Vec<&str>| {
        let id = catalog.tasks.len() as u32;
        catalog.tasks.push(Task {
            id,
            name: name.into(),
            kind: TaskKind::Thread,
            closure: false,
            place: Place::default(),
            variables: Vec::new(),
        });
        for (index, condition) in conditions.into_iter().enumerate() {
            catalog.states.push(State {
                id: catalog.states.len() as u32,
                name: format!("{name}:{index}"),
                task: id,
                index: index as u32,
                place: Place {
                    line: Some(40 + 7 * index as u32),
                    ..Place::default()
                },
                condition: condition.into(),
            });
        }
    };
    task("x.Follower.run()", follower.to_vec());
    task(
        "x.Dispatcher.run()",
        cases.iter().map(String::as_str).collect(),
    );
    task("x.Sweeper.run()", vec![""]);
    catalog
}

pub fn moves() -> Vec<Move> {
    let mut moves = Vec::new();
    for node in ["n1", "n2", "n3"] {
        let mut went = |from, to, count| {
            moves.push(Move {
                node: node.into(),
                from,
                to,
                count,
            });
        };
        for (from, to, count) in [
            (None, 0, 1),
            (Some(0), 1, 1),
            (Some(1), 2, 4),
            (Some(1), 3, 12),
            (Some(2), 4, 210),
            (Some(3), 4, 11),
            (Some(4), 4, 5_300),
            (Some(4), 5, 2),
            (Some(4), 6, 840),
            (Some(5), 6, 2),
            (Some(6), 1, 800),
            (Some(4), 1, 31),
            (Some(1), 7, 1),
            (None, 26, 9),
            (None, 8, 2),
            (Some(8), 9, 2),
        ] {
            went(from, to, count);
        }
        for case in 10..26u32 {
            went(Some(9), case, 3 + (noise(case.into()) % 400) as u32);
            went(Some(case), 9, 3);
        }
    }
    moves
}

/// Five policies with three seeds.
pub fn contest() -> Contest {
    let policies = ["exhaustive", "random", "bsrr", "new-state", "sieve"];
    let mut contest = Contest::new(spec(), policies.map(String::from).to_vec(), vec![0, 1, 2]);
    for (p, policy) in policies.iter().enumerate() {
        for seed in 0..3u64 {
            let seconds = 700.0 + 130.0 * p as f64 + 20.0 * seed as f64;
            let exposes = |bug: u64| {
                let luck = noise(p as u64 * 97 + seed * 13 + bug * 7) % 260;
                let trial = luck * (9 - p as u64) / 9 + 1;
                let known = bug < 5;
                let key = format!("KNOWN-{}", 1200 + bug * 57);
                (trial <= 200).then(|| Exposed {
                    known: known.then(|| key.clone()),
                    key,
                    id: format!("stuck-{:08x}", bug * 0x1a2b_3c4d),
                    title: format!("delay in Log.roll: appends wait behind the lock ({bug})"),
                    trial,
                    seconds: Some(seconds * trial as f64 / 200.0),
                })
            };
            let mut bugs: Vec<Exposed> = (0..7).filter_map(exposes).collect();
            bugs.sort_by_key(|b| b.trial);
            contest.put(Entry {
                policy: policy.to_string(),
                seed,
                folder: format!("t-{policy}-{seed}"),
                finished: (p, seed) != (4, 2),
                trials: 200,
                fired: 180 + seed,
                unreached: 20 - seed,
                unknown: 0,
                injections: 185 + seed,
                seconds,
                bugs,
            });
        }
    }
    contest
}
