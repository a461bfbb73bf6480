//! A plausible campaign on a three-node cluster, made up: what the report's tests read.
#![allow(dead_code)] // each test file uses a part

use temblor_model::bug::{Bug, Confirmation, FiredFault, Judgement, Outcome, Symptom, Verdict};
use temblor_model::campaign::{BugLine, CampaignEvent, CampaignSpec, Purpose, Summary};
use temblor_model::event::{Event, Stage, What};
use temblor_model::history::{Baseline, Reached};
use temblor_model::op::{Op, OpEvent};
use temblor_model::plan::{Fault, Plan, Step, Trigger};

pub const HOSTILE: &str = "</pre><script>alert('x')</script><img src=x onerror=\"y\">&\x1b[31m|`*";
pub const WARP: f64 = 8.0;
const MS: u64 = 1000;

/// As a file, so that a new key with a default changes nothing here.
pub fn spec() -> CampaignSpec {
    let text = r#"
        format = 1
        target = "trio@1"
        policy = "exhaustive"
        seed = 7
        trials = 60
        budget_s = 120
        jobs = 2
        warp = "auto"
        faults = ["throw", "delay", "crash"]
        delay_ms = 60000
        sites = ""
        baselines = 2
        confirm = 3
        confirm_unwarped = 1
    "#;
    toml::from_str(text).expect("a campaign's spec")
}

pub fn hit(site: &str, node: &str, nth: u32) -> Trigger {
    Trigger::Hit {
        site: site.into(),
        node: Some(node.into()),
        stack: Some("5f2e9a01c44d7b36".into()),
        nth,
    }
}

pub const SNAPSHOT_SITE: &str =
    "trio.Snapshots.send(trio.Peer,trio.Store)>java.io.DataOutputStream.writeUTF#2";
pub const ACCEPT_SITE: &str = "trio.net.Acceptor.run()>java.net.ServerSocket.accept#0";

pub fn delay_plan() -> Plan {
    let delay = Fault::Delay { ms: 60_000 };
    Plan::single(7, hit(SNAPSHOT_SITE, "n1", 1), delay)
}

pub fn crash_plan() -> Plan {
    let step = |when, fault| Step { when, fault };
    let cut = vec![vec!["n1".into()], vec!["n2".into(), "n3".into()]];
    Plan {
        format: Plan::FORMAT,
        seed: 11,
        steps: vec![
            step(
                hit(
                    "trio.Log.append(byte[])>java.nio.channels.FileChannel.force#0",
                    "n2",
                    14,
                ),
                Fault::Crash,
            ),
            step(
                Trigger::After { ms: 4000 },
                Fault::Restart { node: "n2".into() },
            ),
            step(
                Trigger::After { ms: 6000 },
                Fault::Partition { groups: cut },
            ),
            step(Trigger::After { ms: 12_000 }, Fault::Heal),
        ],
    }
}

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

    pub fn start(&mut self) {
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
            let (client, pid) = (format!("c{n}"), 4300 + n as u32);
            self.at(1200 * MS, What::ClientStarted { client, pid });
        }
    }

    pub fn stop(&mut self, heal: u64) {
        self.at(heal, What::Stage { stage: Stage::Heal });
        let stage = Stage::Recovery;
        self.at(heal + 250 * MS, What::Stage { stage });
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
    let (node, ok, answer) = ("n1".to_owned(), true, "ok".to_owned());
    s.at(fault + 3000 * MS, What::Health { node, ok, answer });
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
    }
}

pub fn delay_bug() -> Bug {
    let detail = [
        "c1 put k4 → n1 has waited 6.4 s, 210 times the longest wait of clean runs (30 ms)",
        "n1 worker-1 BLOCKED on trio.Store@1f2e held by snapshot-sender-3",
        "n1 worker-2 BLOCKED on trio.Store@1f2e held by snapshot-sender-3",
        "n1 snapshot-sender-3 TIMED_WAITING in trio.Snapshots.send, holds trio.Store@1f2e",
    ];
    Bug {
        format: 1,
        id: "b3f9c1d2".into(),
        signature: format!("delay@{SNAPSHOT_SITE} → hang: threads blocked on trio.Store"),
        title: "delay in Snapshots.send: writes hang while n1 says it is healthy".into(),
        known: Some("snapshot-under-lock".into()),
        plan: delay_plan(),
        symptoms: vec![
            symptom("hang", "threads blocked on trio.Store", &detail, 8200 * MS),
            symptom("client", "an operation never ended", &[HOSTILE], 9500 * MS),
        ],
        fired: vec![fired_fault("n1", SNAPSHOT_SITE, "delay 60 s", 3100 * MS)],
        trials: vec![12],
        confirmed: Confirmation {
            times: 3,
            of: 3,
            unwarped_times: 1,
            unwarped_of: 1,
        },
    }
}

pub fn crash_bug() -> Bug {
    Bug {
        id: "77aa01fe".into(),
        signature: "crash+restart+partition → crash: n3 exits".into(),
        title: format!("a decommissioned node comes back {HOSTILE}"),
        known: None,
        plan: crash_plan(),
        symptoms: vec![symptom(
            "crash",
            "a node exited by itself",
            &["n3 exited with code 1"],
            6900 * MS,
        )],
        fired: vec![fired_fault(
            "n2",
            "trio.Log.append(byte[])>java.nio.channels.FileChannel.force#0",
            "crash",
            2600 * MS,
        )],
        trials: vec![31],
        confirmed: Confirmation {
            times: 2,
            of: 3,
            unwarped_times: 0,
            unwarped_of: 0,
        },
        ..delay_bug()
    }
}

fn symptom(checker: &str, summary: &str, detail: &[&str], at_us: u64) -> Symptom {
    Symptom {
        checker: checker.into(),
        summary: summary.into(),
        detail: detail.iter().map(|d| d.to_string()).collect(),
        at_us,
    }
}

fn fired_fault(node: &str, site: &str, fault: &str, at_us: u64) -> FiredFault {
    FiredFault {
        step: 0,
        node: node.into(),
        site: site.into(),
        fault: fault.into(),
        stack: "5f2e9a01c44d7b36".into(),
        at_us,
    }
}

pub fn outcome(trial: u64, verdict: Verdict, fired: bool) -> Outcome {
    let reason = (verdict == Verdict::Unknown).then(|| "the history is cut off".to_owned());
    let symptoms = match verdict {
        Verdict::Fail => delay_bug().symptoms,
        _ => Vec::new(),
    };
    Outcome {
        format: Outcome::FORMAT,
        trial,
        verdict,
        judgements: vec![Judgement {
            checker: "hang".into(),
            verdict,
            symptoms,
            reason,
        }],
        fired: match fired {
            true => vec![fired_fault(
                "n1",
                ACCEPT_SITE,
                "throw java.io.IOException",
                2000 * MS,
            )],
            false => Vec::new(),
        },
        unreached: if fired { Vec::new() } else { vec![0] },
        warp: WARP,
        seconds: 1.5 + (noise(trial) % 900) as f64 / 100.0,
    }
}

pub fn baseline() -> Baseline {
    Baseline {
        format: 1,
        runs: 2,
        warp: WARP,
        ready_ms: 1100,
        workload_ms: 2400,
        op_ms: 30,
        reached: vec![Reached {
            site: 12,
            node: "n1".into(),
            stack: "5f2e9a01c44d7b36".into(),
            hits: 3,
            runs: 2,
        }],
        ..Baseline::default()
    }
}

pub fn summary(store: &str) -> Summary {
    let line = |bug: Bug, confirmed: &str| BugLine {
        report: format!("{store}/bugs/{}/report.html", bug.id),
        replay: format!("./temblor replay {}", bug.id),
        id: bug.id,
        signature: bug.signature,
        known: bug.known,
        title: bug.title,
        plan: bug.plan,
        confirmed: confirmed.into(),
    };
    Summary {
        target: "trio@1".into(),
        policy: "exhaustive".into(),
        seed: 7,
        store: store.into(),
        trials: 60,
        fired: 52,
        unreached: 8,
        unknown: 2,
        unconfirmed: 1,
        bugs: vec![line(delay_bug(), "3 of 3"), line(crash_bug(), "2 of 3")],
        seconds: 96.4,
        covered: None,
        interrupted: false,
    }
}

/// The whole stream of a campaign of 60 trials that finds two bugs.
pub fn campaign(store: &str) -> Vec<CampaignEvent> {
    let mut events = vec![
        CampaignEvent::Started {
            spec: spec(),
            store: store.into(),
            sites: 412,
            resumed: 0,
        },
        CampaignEvent::Note {
            text: "compiling trio".into(),
        },
        CampaignEvent::BaselineDone {
            baseline: baseline(),
        },
    ];
    for trial in 1..=60u64 {
        events.extend(trial_events(trial));
    }
    events.push(CampaignEvent::Finished {
        summary: summary(store),
    });
    events
}

fn trial_events(trial: u64) -> Vec<CampaignEvent> {
    let purpose = Purpose::Search;
    let (plan, inside, verdict, after) = match trial {
        12 => (
            delay_plan(),
            delay_events(),
            Verdict::Fail,
            vec![CampaignEvent::BugFound { bug: delay_bug() }],
        ),
        31 => (
            crash_plan(),
            crash_events(),
            Verdict::Fail,
            vec![CampaignEvent::BugFound { bug: crash_bug() }],
        ),
        20 | 44 => {
            let seen = CampaignEvent::BugSeen {
                id: delay_bug().id,
                trial,
            };
            (delay_plan(), Vec::new(), Verdict::Fail, vec![seen])
        }
        n => {
            let exception = "java.io.IOException".into();
            let plan = Plan::single(
                n,
                hit(ACCEPT_SITE, "n1", n as u32),
                Fault::Throw { exception },
            );
            let verdict = if n % 25 == 0 {
                Verdict::Unknown
            } else {
                Verdict::Pass
            };
            let not = CampaignEvent::NotConfirmed {
                trial,
                signature: "crash".into(),
                times: 0,
                of: 3,
            };
            (
                plan,
                Vec::new(),
                verdict,
                if n == 8 { vec![not] } else { Vec::new() },
            )
        }
    };
    let mut events = vec![CampaignEvent::TrialStarted {
        trial,
        purpose,
        plan: plan.clone(),
    }];
    let inside = inside.into_iter();
    events.extend(inside.map(|event| CampaignEvent::Trial { trial, event }));
    let outcome = outcome(trial, verdict, !trial.is_multiple_of(7));
    events.push(CampaignEvent::TrialDone {
        trial,
        purpose,
        plan,
        outcome,
    });
    events.extend(after);
    events
}
