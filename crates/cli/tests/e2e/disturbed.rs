//! What nobody planned: somebody else kills a node or a client, or steps the machine's clock. The
//! campaign goes on, nothing is called a bug for it, and nothing is left running.

use std::collections::BTreeMap;

use temblor_model::bug::{Outcome, Verdict};
use temblor_report::Store;

use crate::mini::Mini;
use crate::program::{LIMIT, Turn, assert_nothing_runs, processes_of, temblor};
use crate::watch::until;

const TRIALS: usize = 3;
/// The first is the clean run.
const KILLED: u64 = 2;

/// Kills the first process of this class in one trial of a campaign without faults, however its
/// trials start.
#[track_caller]
fn check_kill(class: &str, told: &str) {
    let _turn = Turn::wait(1);
    for start in ["cold", "snapshot"] {
        check_kill_from(start, class, told);
    }
}

#[track_caller]
fn check_kill_from(start: &str, class: &str, told: &str) {
    let mini = Mini::new();
    let clean = ["--policy", "clean", "--trials", "3", "--json"];
    let args = Mini::campaign(&[&clean[..], &["--start", start]].concat());
    let mut running = mini.start(&args);
    let mut killed = None;
    until(&format!("{class} of trial {KILLED} is killed"), || {
        assert!(!running.has_ended(), "ended too soon: {:?}", running.said());
        let processes = processes_of(mini.folder());
        let mut wanted = processes
            .iter()
            .filter(|(pid, line)| line.contains(class) && is_of_trial(**pid, line))
            .filter(|_| has_begun(&mini));
        if let Some((pid, _)) = wanted.next() {
            // SAFETY: a plain system call; the process was started by this test.
            killed = (unsafe { libc::kill(*pid as i32, libc::SIGKILL) } == 0).then_some(*pid);
        }
        killed.is_some()
    });
    let output = running.wait(LIMIT);
    assert_nothing_runs(mini.folder());
    let summary = output.json();
    assert_eq!(summary["trials"], TRIALS, "{output:#?}");
    assert_eq!(summary["bugs"].as_array().unwrap().len(), 0, "{output:#?}");
    assert_eq!(summary["unknown"], 1, "{output:#?}");
    assert_eq!(output.code, 2, "nobody can tell: {output:#?}");
    let outcomes = outcomes(&mini);
    assert_eq!(outcomes.len(), TRIALS, "every trial has an outcome");
    for (trial, outcome) in &outcomes {
        let expected = match *trial {
            KILLED => Verdict::Unknown,
            _ => Verdict::Pass,
        };
        assert_eq!(outcome.verdict, expected, "trial {trial}: {outcome:#?}");
    }
    let events = store(&mini).events(KILLED).unwrap().values;
    let exits: Vec<String> = events
        .iter()
        .map(|event| serde_json::to_string(event).unwrap())
        .filter(|line| line.contains(told))
        .collect();
    assert!(
        exits.iter().any(|line| line.contains("\"signal\":9")),
        "{exits:#?}"
    );
}

/// A thawed process has the frozen one's command line; the trial's folder is mounted there.
fn is_of_trial(pid: u32, line: &str) -> bool {
    let folder = format!("/trials/{KILLED}");
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    line.contains(&format!("{folder}/")) || mounts.contains(&format!("{folder} "))
}

/// Before that, a process may be half thawed.
fn has_begun(mini: &Mini) -> bool {
    let events = mini.latest().join(format!("trials/{KILLED}/events.jsonl"));
    std::fs::metadata(events).is_ok_and(|file| file.len() > 0)
}

fn store(mini: &Mini) -> Store {
    Store::open(&mini.latest()).unwrap()
}

/// All but the clean run's.
fn outcomes(mini: &Mini) -> BTreeMap<u64, Outcome> {
    let outcomes = store(mini).outcomes().unwrap().into_iter();
    let all = outcomes.map(|(trial, (_, outcome))| (trial, outcome));
    all.filter(|(trial, _)| *trial >= KILLED).collect()
}

#[test]
fn a_node_that_somebody_else_kills_is_no_bug() {
    check_kill("mini.Node", "\"event\":\"node-exited\"");
}

#[test]
fn a_client_that_somebody_else_kills_is_no_bug() {
    check_kill("mini.Workload", "\"event\":\"client-exited\"");
}

/// The first process in the cell: all others go with it.
#[test]
fn a_cell_that_somebody_else_kills_costs_one_trial() {
    let _turn = Turn::wait(1);
    let mini = Mini::new();
    let args = ["--policy", "clean", "--trials", "3", "--start", "cold"];
    let mut running = mini.start(&Mini::campaign(&args));
    until("the cell of a trial is killed", || {
        assert!(!running.has_ended(), "ended too soon: {:?}", running.said());
        let opens = format!("temblor-cell open {}", mini.store().display());
        let folder = format!("/trials/{KILLED} ");
        let is_cell = |line: &str| line.contains(&opens) && line.contains(&folder);
        // Its parent, outside, comes before it.
        let mut processes = processes_of(mini.folder()).into_iter();
        let cell = processes.rfind(|(_, line)| is_cell(line));
        // SAFETY: a plain system call; the process was started by this test.
        let kill = |pid| unsafe { libc::kill(pid, libc::SIGKILL) } == 0;
        has_begun(&mini) && cell.is_some_and(|(pid, _)| kill(pid as i32))
    });
    let output = running.wait(LIMIT);
    assert_nothing_runs(mini.folder());
    assert_eq!(output.code, 2, "nobody can tell: {output:#?}");
    let outcomes = outcomes(&mini);
    assert_eq!(outcomes.len(), TRIALS, "every trial has an outcome");
    for (trial, outcome) in &outcomes {
        let reason = outcome.judgements.iter().find_map(|j| j.reason.as_deref());
        match *trial {
            KILLED => assert!(
                reason.is_some_and(|r| r.starts_with("its cell broke down: ")),
                "{outcome:#?}"
            ),
            _ => assert_eq!(outcome.verdict, Verdict::Pass, "{outcome:#?}"),
        }
    }
}

/// Nanoseconds of one of the machine's clocks.
fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the timespec is valid for the call.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A campaign is resumed by a lab whose wall clock shows another time than it would: in the past,
/// so that what is stored is from the future, and then far ahead.
#[test]
fn a_clock_that_steps_loses_nothing_and_finds_nothing() {
    const DAY_NS: i64 = 86_400_000_000_000;
    let _turn = Turn::wait(1);
    let mini = Mini::new();
    let args = Mini::campaign(&["--policy", "clean", "--trials", "1", "--json"]);
    assert_eq!(mini.run(&args).json()["trials"], 1);
    for (trials, step_ns) in [("2", -DAY_NS), ("3", 30 * DAY_NS)] {
        let before = outcomes(&mini);
        let mut command = mini.command(&["resume", "--trials", trials, "--json"]);
        let wall_ns = now_ns(libc::CLOCK_REALTIME).saturating_add_signed(step_ns);
        command
            .env("LD_PRELOAD", temblor().with_file_name("libtemblor_warp.so"))
            // One would mean that nothing is to be changed.
            .env("TEMBLOR_WARP_FACTOR", "1.000001")
            .env(
                "TEMBLOR_WARP_MONO_NS",
                now_ns(libc::CLOCK_MONOTONIC).to_string(),
            )
            .env("TEMBLOR_WARP_REAL_NS", wall_ns.to_string());
        let output = crate::program::Running::start(command, mini.folder()).wait(LIMIT);
        assert_nothing_runs(mini.folder());
        let summary = output.json();
        assert_eq!(summary["trials"].to_string(), trials, "{output:#?}");
        assert_eq!(summary["unknown"], 0, "{output:#?}");
        assert_eq!(output.code, 0, "{output:#?}");
        let after = outcomes(&mini);
        assert_eq!(after.len(), before.len() + 1, "{after:#?}");
        for (trial, stored) in &before {
            assert_eq!(after.get(trial), Some(stored), "trial {trial} is as it was");
        }
    }
    // Times count from the trial's own beginning, whatever the wall says.
    for trial in outcomes(&mini).into_keys() {
        let events = store(&mini).events(trial).unwrap().values;
        let last_s = events.last().unwrap().at_us / 1_000_000;
        assert!(!events.is_empty() && last_s < LIMIT.as_secs(), "{last_s} s");
    }
}
