//! The events of the two trials that show the sample's bugs.

use temblor_model::event::{Event, Stage, What};
use temblor_model::history::ClientRole;
use temblor_model::op::{Op, OpEvent};

use super::{HOSTILE, MS, WARP};

/// Events in the order of their times, whatever order they are told in.
pub struct Script(pub Vec<Event>);

impl Script {
    pub fn at(&mut self, at_us: u64, what: What) {
        self.0.push(Event { at_us, what });
    }

    pub fn log(&mut self, at_us: u64, node: &str, level: &str, message: &str, more: &[&str]) {
        self.at(
            at_us,
            What::Log {
                node: node.into(),
                level: level.into(),
                logger: "trio.net.Peer".into(),
                thread: "worker-3".into(),
                message: message.into(),
                more: more.iter().map(|m| m.to_string()).collect(),
            },
        );
    }

    /// An operation from `from` to `to`; without an end it never ends.
    pub fn op(&mut self, client: u64, id: u64, from: u64, end: Option<(u64, OpEvent)>) {
        let op = |ev, error: Option<&str>| {
            What::Op(Op {
                t: 0,
                client: format!("c{client}"),
                node: format!("n{client}"),
                phase: "write".into(),
                op: if id.is_multiple_of(3) { "get" } else { "put" }.into(),
                id,
                key: Some(format!("k{}", id % 9)),
                value: (!id.is_multiple_of(3)).then(|| format!("v{id}")),
                reg: None,
                order: None,
                session: None,
                ev,
                error: error.map(str::to_owned),
            })
        };
        self.at(from, op(OpEvent::Invoke, None));
        if let Some((to, ev)) = end {
            let error = (ev != OpEvent::Ok).then_some("no answer from the leader");
            self.at(to, op(ev, error));
        }
    }

    pub fn health(&mut self, at_us: u64, node: &str, ok: bool, role: &str) {
        self.at(
            at_us,
            What::Health {
                node: node.into(),
                ok,
                role: (!role.is_empty()).then(|| role.to_owned()),
                silent: !ok,
                answer: if ok { "ok" } else { "no answer" }.into(),
            },
        );
    }

    pub fn start(&mut self) {
        let client = |n: u64| ClientRole {
            client: format!("c{n}"),
            node: format!("n{n}"),
        };
        self.at(
            0,
            What::Began {
                nodes: (1..=3).map(|n| format!("n{n}")).collect(),
                clients: (1..=3).map(client).collect(),
                warp: WARP,
                single_roles: vec!["leader".into()],
                serving_roles: vec![],
            },
        );
        self.at(
            0,
            What::Stage {
                stage: Stage::Start,
            },
        );
        for n in 1..=3u64 {
            let node = format!("n{n}");
            let (pid, incarnation) = (4200 + n as u32, 1);
            self.at(
                n * 5 * MS,
                What::NodeStarted {
                    node,
                    incarnation,
                    pid,
                },
            );
            let node = format!("n{n}");
            self.at(900 * MS + n * 60 * MS, What::NodeReady { node });
            self.log(
                880 * MS + n * 60 * MS,
                &format!("n{n}"),
                "INFO",
                "listening",
                &[],
            );
        }
        self.at(
            1200 * MS,
            What::Stage {
                stage: Stage::Workload,
            },
        );
        for n in 1..=3u64 {
            let role = if n == 1 { "leader" } else { "follower" };
            self.health(1190 * MS, &format!("n{n}"), true, role);
            let (client, pid) = (format!("c{n}"), 4300 + n as u32);
            self.at(1200 * MS, What::ClientStarted { client, pid });
        }
    }

    pub fn stop(&mut self, heal: u64) {
        self.at(heal, What::Stage { stage: Stage::Heal });
        let stage = Stage::Recovery;
        self.at(heal + 250 * MS, What::Stage { stage });
        let stage = Stage::Finale;
        self.at(heal + 2100 * MS, What::Stage { stage });
        self.at(heal + 2400 * MS, What::Stage { stage: Stage::Stop });
        for n in 1..=3u64 {
            let at = heal + 2400 * MS + n * 40 * MS;
            let (node, code, signal) = (format!("n{n}"), None, Some(9));
            let injected = true;
            self.at(
                at,
                What::NodeExited {
                    node,
                    code,
                    signal,
                    injected,
                },
            );
            let (client, code, signal) = (format!("c{n}"), Some(0), None);
            self.at(
                at,
                What::ClientExited {
                    client,
                    code,
                    signal,
                },
            );
        }
    }

    pub fn sorted(mut self) -> Vec<Event> {
        self.0.sort_by_key(|e| e.at_us);
        self.0
    }
}

/// Pseudo-random, the same everywhere.
pub fn noise(n: u64) -> u64 {
    n.wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
        >> 40
}

/// A slow snapshot under the store's lock: writes through n1 hang, n1 seems healthy.
pub fn delay_events() -> Vec<Event> {
    let mut s = Script(Vec::new());
    s.start();
    let fault = 3100 * MS;
    let heal = fault + 6500 * MS;
    for client in 1..=3u64 {
        let mut at = 1210 * MS + client * 3 * MS;
        let mut id = 0;
        while at < fault {
            let took = 4 * MS + noise(id * 3 + client) % (9 * MS);
            s.op(client, id, at, Some((at + took, OpEvent::Ok)));
            at += took + 6 * MS + noise(id + client) % (5 * MS);
            id += 1;
        }
        match client {
            1 => s.op(1, id, at, None),
            2 => {
                for n in 0..4 {
                    let from = at + n * 1500 * MS;
                    s.op(2, id + n, from, Some((from + 1400 * MS, OpEvent::Timeout)));
                }
                s.op(
                    2,
                    id + 5,
                    at + 6050 * MS,
                    Some((at + 6090 * MS, OpEvent::Wrong)),
                );
            }
            _ => {
                for n in 0..22 {
                    let from = at + n * 290 * MS;
                    let end = if n % 7 == 3 {
                        OpEvent::Fail
                    } else {
                        OpEvent::Ok
                    };
                    s.op(3, id + n, from, Some((from + 30 * MS, end)));
                }
            }
        }
    }
    s.at(fault, fired(0, "n1", "delay 60 s"));
    for n in 0..9u64 {
        let at = fault + 600 * MS + n * 610 * MS;
        let message = format!("no acknowledgement from n1 for {} ms", 600 + n * 610);
        s.log(at, "n2", "WARN", &message, &[]);
    }
    let trace = [
        "java.net.SocketTimeoutException: Read timed out",
        "\tat trio.net.Peer.read(Peer.java:88)",
    ];
    s.log(fault + 4100 * MS, "n3", "ERROR", HOSTILE, &trace);
    s.health(fault + 3000 * MS, "n1", true, "leader");
    s.health(fault + 3000 * MS, "n3", false, "");
    s.health(fault + 5000 * MS, "n3", true, "follower");
    let text =
        format!("\"snapshot-sender\" #31 TIMED_WAITING\n  at java.lang.Thread.sleep\n{HOSTILE}");
    s.at(
        heal - 100 * MS,
        What::Dump {
            node: "n1".into(),
            text,
        },
    );
    s.at(heal - 50 * MS, What::Deadline { limit_ms: 6400 });
    s.stop(heal);
    s.sorted()
}

/// A crash, a restart, then a partition that heals late.
pub fn crash_events() -> Vec<Event> {
    let mut s = Script(Vec::new());
    s.start();
    let crash = 2600 * MS;
    for client in 1..=3u64 {
        for id in 0..220u64 {
            let at = 1220 * MS + id * 30 * MS + client * 2 * MS;
            let cut = (4000 * MS..5400 * MS).contains(&at) && client == 1;
            let down = (crash..3300 * MS).contains(&at) && client == 2;
            let end = if cut || down {
                OpEvent::Fail
            } else {
                OpEvent::Ok
            };
            s.op(
                client,
                id,
                at,
                Some((at + 9 * MS + noise(id) % (12 * MS), end)),
            );
        }
    }
    s.at(crash, fired(0, "n2", "crash"));
    let (node, code, signal, injected) = ("n2".to_owned(), None, Some(9), true);
    s.at(
        crash + 3 * MS,
        What::NodeExited {
            node,
            code,
            signal,
            injected,
        },
    );
    s.log(crash + 20 * MS, "n1", "WARN", "lost n2", &[]);
    let lab = |step, fault: &str| What::LabFault {
        step,
        fault: fault.into(),
        result: "done".into(),
    };
    s.at(3100 * MS, lab(1, "restart n2"));
    let (node, incarnation, pid) = ("n2".to_owned(), 2, 4555);
    s.at(
        3105 * MS,
        What::NodeStarted {
            node,
            incarnation,
            pid,
        },
    );
    s.at(3600 * MS, What::NodeReady { node: "n2".into() });
    s.at(3850 * MS, lab(2, "partition n1 | n2,n3"));
    s.log(4200 * MS, "n1", "ERROR", "lost the majority", &[]);
    s.health(4500 * MS, "n3", true, "leader");
    s.health(5600 * MS, "n1", true, "follower");
    s.at(5350 * MS, lab(3, "heal the network"));
    let (node, code, signal, injected) = ("n3".to_owned(), Some(1), None, false);
    s.at(
        6900 * MS,
        What::NodeExited {
            node,
            code,
            signal,
            injected,
        },
    );
    s.stop(7900 * MS);
    s.sorted()
}

fn fired(step: u32, node: &str, fault: &str) -> What {
    let frames = [
        "trio.Snapshots.send(Snapshots.java:61)",
        "trio.Leader.join(Leader.java:140)",
        "trio.net.Acceptor$Session.handle(Acceptor.java:77)",
        "trio.net.Acceptor$Session.run(Acceptor.java:52)",
        "java.lang.Thread.run(Thread.java:840)",
    ];
    What::Fired {
        step,
        node: node.into(),
        site: 12,
        count: 1,
        fault: fault.into(),
        stack: "5f2e9a01c44d7b36".into(),
        thread: "snapshot-sender-3".into(),
        frames: frames.iter().map(|f| f.to_string()).collect(),
        state: None,
        nth: 0,
        access: None,
    }
}
