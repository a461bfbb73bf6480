//! Histories written as text, for tests: one event a line, times in milliseconds.
//!
//! ```text
//! 0 stage workload            10 start n1          20 ready n1
//! 30 exit n1 code 1           30 exit n1 signal 9  30 kill n1        (injected)
//! 40 op c1 put 7 invoke       50 op c1 put 7 fail: reason   (phase `write`; put@read for others)
//! 45 op c1 get 8 ok {reg=read key=a value=1 order=9 session=s}
//! 60 fired n1 worker throw java.io.IOException     60 lab partition n1 | n2,n3
//! 70 log n1 ERROR a.Logger worker: message // line // line
//! 80 client c1 exit 1         80 done c1           80 garbage c1 text
//! 90 dump n1 FILE             90 deadline          90 health n1 ok leader   (or bad, silent)
//! 95 hit n1 3 stack
//! ```
//!
//! `up` stands for three nodes that start at 0 and are ready at 100. Nodes are n1 to n3, and
//! client cK talks to nK. The plan is made of the faults that fire. One node may be `leader`.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use temblor_model::bug::{Judgement, Verdict};
use temblor_model::event::{Event, Stage, What};
use temblor_model::history::{Baseline, ClientRole, History};
use temblor_model::op::{Done, Op, OpEvent, Reg};
use temblor_model::plan::{Fault, Plan, Step, Trigger};

use crate::checker::Checker;

/// What a checker says of a script: `pass`, `pass, N observed`, `unknown`, or the summaries of
/// its symptoms in their order.
#[track_caller]
pub fn check(checker: &dyn Checker, script: &str, expected: &[&str]) {
    let judgement = checker.judge(&history(script), Some(&baseline()));
    assert_eq!(said(&judgement), expected, "{judgement:#?}");
}

/// A judgement in the words that `check` expects.
pub fn said(judgement: &Judgement) -> Vec<String> {
    let symptoms = &judgement.symptoms;
    match judgement.verdict {
        Verdict::Pass if symptoms.is_empty() => vec!["pass".into()],
        Verdict::Pass => vec![format!("pass, {} observed", symptoms.len())],
        Verdict::Unknown => vec!["unknown".into()],
        Verdict::Fail => symptoms.iter().map(|s| s.summary.clone()).collect(),
    }
}

/// Ten operations of a client, `every` ms apart from `from` on, each 10 ms long.
pub fn ops(client: &str, kind: &str, from: u64, every: u64, how: &str) -> String {
    let line = |k: u64| {
        let (began, id) = (from + every * k, from + k);
        let ended = began + 10;
        format!("{began} op {client} {kind} {id} invoke\n{ended} op {client} {kind} {id} {how}\n")
    };
    (0..10).map(line).collect()
}

/// Three nodes, three clients, no warp.
pub fn history(script: &str) -> History {
    let mut history = History {
        plan: Plan::clean(),
        nodes: ["n1", "n2", "n3"].map(String::from).to_vec(),
        clients: (1..=3)
            .map(|k| ClientRole {
                client: format!("c{k}"),
                node: format!("n{k}"),
            })
            .collect(),
        warp: 1.0,
        single_roles: vec!["leader".into(), "LEADING".into()],
        serving_roles: vec!["LEADING".into(), "FOLLOWING".into()],
        events: Vec::new(),
    };
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        if line == "up" {
            for node in ["n1", "n2", "n3"] {
                push(&mut history, &format!("0 start {node}"));
                push(&mut history, &format!("100 ready {node}"));
            }
            push(&mut history, "100 stage workload");
        } else {
            push(&mut history, line);
        }
    }
    history.events.sort_by_key(|event| event.at_us);
    history
}

/// Ready after 100 ms, operations take 10 ms: grace is 5 s, patience 2 s.
pub fn baseline() -> Baseline {
    Baseline {
        format: 1,
        runs: 3,
        warp: 1.0,
        ready_ms: 100,
        workload_ms: 5_000,
        op_ms: 10,
        ..Baseline::default()
    }
}

fn push(history: &mut History, line: &str) {
    let (at, rest) = line.split_once(' ').unwrap_or((line, ""));
    let at_us = at
        .parse::<u64>()
        .unwrap_or_else(|_| panic!("no time: {line}"))
        * 1_000;
    let what = what(history, rest).unwrap_or_else(|| panic!("no event: {line}"));
    history.events.push(Event { at_us, what });
}

fn what(history: &mut History, text: &str) -> Option<What> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (name, tail) = rest.split_once(' ').unwrap_or((rest, ""));
    let node = || name.to_owned();
    let client = node;
    let what = match verb {
        "stage" => What::Stage {
            stage: match name {
                "start" => Stage::Start,
                "workload" => Stage::Workload,
                "heal" => Stage::Heal,
                "recovery" => Stage::Recovery,
                "finale" => Stage::Finale,
                "stop" => Stage::Stop,
                _ => return None,
            },
        },
        "start" => What::NodeStarted {
            node: node(),
            incarnation: 0,
            pid: 1,
        },
        "ready" => What::NodeReady { node: node() },
        "exit" | "kill" => exit(node(), verb, tail)?,
        "client" => What::ClientExited {
            client: client(),
            code: tail.strip_prefix("exit ").and_then(|n| n.parse().ok()),
            signal: tail.strip_prefix("signal ").and_then(|n| n.parse().ok()),
        },
        "op" => op(name, tail)?,
        "done" => What::OpsDone(Done {
            client: client(),
            ok: 0,
            fail: 0,
            timeout: 0,
            wrong: 0,
        }),
        "garbage" => What::Garbage {
            client: client(),
            line: tail.into(),
        },
        "fired" => fired(history, node(), tail)?,
        "lab" => lab_fault(history, rest)?,
        "log" => log(node(), tail)?,
        "dump" => What::Dump {
            node: node(),
            text: data(tail),
        },
        "health" => What::Health {
            node: node(),
            ok: tail.starts_with("ok"),
            role: tail.strip_prefix("ok ").map(String::from),
            silent: tail == "silent",
            answer: tail.into(),
        },
        "becomes" => What::Becomes {
            node: node(),
            role: tail.into(),
        },
        "cut-off" => What::CutOff {
            node: node(),
            ms: tail.parse().ok()?,
        },
        "hit" => {
            let (site, stack) = tail.split_once(' ')?;
            What::Hit {
                node: node(),
                site: site.parse().ok()?,
                count: 1,
                stack: stack.into(),
                thread: "main".into(),
            }
        }
        "deadline" => What::Deadline { limit_ms: 1 },
        _ => return None,
    };
    Some(what)
}

fn exit(node: String, verb: &str, tail: &str) -> Option<What> {
    let number = |name| tail.strip_prefix(name).and_then(|n| n.parse().ok());
    let injected = verb == "kill";
    Some(What::NodeExited {
        node,
        code: number("code "),
        signal: number("signal ").or(injected.then_some(9)),
        injected,
    })
}

fn op(client: &str, tail: &str) -> Option<What> {
    let mut words = tail.splitn(3, ' ');
    let (kind, id, how) = (words.next()?, words.next()?, words.next()?);
    let (op, phase) = kind.split_once('@').unwrap_or((kind, "write"));
    let (how, facts) = how.split_once(" {").unwrap_or((how, ""));
    let (ev, error) = how.split_once(": ").unwrap_or((how, ""));
    let fact = |name: &str| {
        let words = facts.trim_end_matches('}').split(' ');
        let found = words
            .filter_map(|word| word.split_once('='))
            .find(|f| f.0 == name);
        found.map(|(_, value)| value.to_owned())
    };
    let reg: Option<Result<Reg, serde::de::value::Error>> =
        fact("reg").map(|reg| Reg::deserialize(reg.into_deserializer()));
    Some(What::Op(Op {
        t: 0,
        client: client.into(),
        node: client.replace('c', "n"),
        phase: phase.into(),
        op: op.into(),
        id: id.parse().ok()?,
        key: fact("key"),
        value: fact("value"),
        reg: reg.transpose().ok()?,
        order: fact("order").and_then(|order| order.parse().ok()),
        session: fact("session"),
        ev: match ev {
            "invoke" => OpEvent::Invoke,
            "ok" => OpEvent::Ok,
            "fail" => OpEvent::Fail,
            "timeout" => OpEvent::Timeout,
            "wrong" => OpEvent::Wrong,
            _ => return None,
        },
        error: (!error.is_empty()).then(|| error.into()),
    }))
}

fn fired(history: &mut History, node: String, tail: &str) -> Option<What> {
    let (thread, text) = tail.split_once(' ')?;
    let fault = match text.split_once(' ').unwrap_or((text, "")) {
        ("throw", exception) => Fault::Throw {
            exception: exception.into(),
        },
        ("delay", ms) => Fault::Delay {
            ms: ms.parse().ok()?,
        },
        ("crash", _) => Fault::Crash,
        _ => return None,
    };
    let printed = fault.to_string();
    Some(What::Fired {
        step: plan_step(history, fault),
        node,
        site: 0,
        count: 1,
        fault: printed,
        stack: "ab".into(),
        thread: thread.into(),
        frames: vec![
            "x.Log.append(Log.java:7)".into(),
            "x.Store.put(Store.java:3)".into(),
        ],
        state: None,
        nth: 0,
        access: None,
    })
}

fn lab_fault(history: &mut History, text: &str) -> Option<What> {
    let fault = match text.split_once(' ').unwrap_or((text, "")) {
        ("partition", groups) => Fault::Partition {
            groups: groups
                .split(" | ")
                .map(|group| group.split(',').map(String::from).collect())
                .collect(),
        },
        ("heal", _) => Fault::Heal,
        ("pause", rest) => {
            let (node, ms) = rest.split_once(' ')?;
            Fault::Pause {
                node: node.into(),
                ms: ms.parse().ok()?,
            }
        }
        _ => return None,
    };
    let printed = fault.to_string();
    Some(What::LabFault {
        step: plan_step(history, fault),
        fault: printed,
        result: "ok".into(),
    })
}

fn plan_step(history: &mut History, fault: Fault) -> u32 {
    let when = Trigger::After { ms: 0 };
    history.plan.steps.push(Step { when, fault });
    history.plan.steps.len() as u32 - 1
}

fn log(node: String, tail: &str) -> Option<What> {
    let (head, text) = tail.split_once(": ")?;
    let mut words = head.split(' ');
    let mut lines = text.split(" // ").map(String::from);
    Some(What::Log {
        node,
        level: words.next()?.into(),
        logger: words.next()?.into(),
        thread: words.next()?.into(),
        message: lines.next()?,
        more: lines.collect(),
    })
}

/// A thread dump of the tests' data.
pub fn data(name: &str) -> String {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read {path}: {e}"))
}
