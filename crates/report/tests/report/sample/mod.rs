//! A plausible campaign on a three-node cluster, made up: what the report's tests read.
#![allow(dead_code)] // each test file uses a part

mod events;
pub mod tasks;

use temblor_model::bug::{
    Bug, Confirmation, FiredFault, Judgement, Misbehaviour, Outcome, Symptom, Verdict,
};
use temblor_model::campaign::{BugLine, CampaignEvent, CampaignSpec, Purpose, Summary, Tally};
use temblor_model::history::{Baseline, Reached};
use temblor_model::plan::{Fault, Plan, Step, Trigger};

pub use events::{crash_events, delay_events, noise};

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
        state: None,
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
        load: 100,
        working: false,
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
        shrunk: None,
        below: None,
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
        shrunk: None,
        below: None,
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

pub fn symptom(checker: &str, summary: &str, detail: &[&str], at_us: u64) -> Symptom {
    Symptom {
        checker: checker.into(),
        shows: match checker {
            "crash" => Misbehaviour::Death(summary.into()),
            _ => Misbehaviour::STUCK,
        },
        summary: summary.into(),
        detail: detail.iter().map(|d| d.to_string()).collect(),
        at_us,
    }
}

pub fn fired_fault(node: &str, site: &str, fault: &str, at_us: u64) -> FiredFault {
    FiredFault {
        step: 0,
        node: node.into(),
        site: site.into(),
        fault: fault.into(),
        stack: "5f2e9a01c44d7b36".into(),
        at_us,
        ..FiredFault::default()
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
        cpu_seconds: 0.5,
        visits: Vec::new(),
        from: None,
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
            least: 3,
            early: 1,
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
        search_seconds: 0.0,
        starts: Vec::new(),
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
            before: Tally::default(),
            bugs: 0,
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
        at_s: Some(trial as f64 * 1.5),
    });
    events.extend(after);
    events
}
