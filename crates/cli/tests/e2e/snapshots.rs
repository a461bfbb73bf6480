//! Trials that go on from a frozen cluster find what trials from a cold start find, and leave
//! nothing behind: no process, no frozen folder, no image. The bundled target and the tests' own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use temblor_cluster::artifact::Cache;
use temblor_model::bug::Verdict;
use temblor_model::campaign::Purpose;
use temblor_model::event::{Event, Stage, What};
use temblor_model::op::OpEvent;
use temblor_report::Store;

use crate::mini::Mini;
use crate::program::{LIMIT, Output, Running, Turn, assert_nothing_runs, sources, temblor};
use crate::watch::{signal, until};

/// Brief campaigns on the bundled target.
const TRIO: [&str; 11] = [
    "run",
    "trio",
    "--baselines",
    "2",
    "--confirm-unwarped",
    "0",
    "--shrink",
    "0",
    "--jobs",
    "2",
    "--json",
];
/// A slow disk under a session's renewal: every one of these plans shows a planted bug.
const RENEWAL: [&str; 8] = [
    "--faults",
    "delay",
    "--delay",
    "30s",
    "--sites",
    r"trio\.SessionFile\.touch\(",
    "--trials",
    "4",
];
const LATE_RENEWAL: &str = "trio-4-late-renewal";

/// Runs to the end and looks for what is left.
fn run(mini: &Mini, args: &[&str]) -> Output {
    finish(mini, mini.start(args))
}

fn finish(mini: &Mini, running: Running) -> Output {
    let lab = running.child.id();
    let output = running.wait(LIMIT);
    assert_nothing_is_left(mini, lab);
    output
}

fn assert_nothing_is_left(mini: &Mini, lab: u32) {
    assert_nothing_runs(mini.folder());
    let frozen = mini.latest().join("snapshots");
    assert!(!frozen.exists(), "{} is left", frozen.display());
    assert_eq!(images_of(mini, lab), Vec::<PathBuf>::new());
}

/// Where a lab has its images, in memory or in the campaign's folder.
fn images_of(mini: &Mini, lab: u32) -> Vec<PathBuf> {
    let in_memory = std::fs::read_dir("/dev/shm").into_iter().flatten();
    let in_memory = in_memory.flatten().map(|entry| entry.path());
    let ours = in_memory.filter(|path| path.to_string_lossy().contains("/temblor-"));
    let bases = ours.chain([mini.latest().join("snapshots/images")]);
    let places = bases.flat_map(|base| std::fs::read_dir(base).into_iter().flatten().flatten());
    let is_its_own = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&format!("{lab}-"))
    };
    places
        .map(|entry| entry.path())
        .filter(is_its_own)
        .collect()
}

fn store(mini: &Mini) -> Store {
    Store::open(&mini.latest()).unwrap()
}

/// How many trials of the search began in which way.
fn starts(summary: &Value) -> BTreeMap<String, u64> {
    let lines = summary["starts"].as_array().expect("starts");
    let line = |line: &Value| {
        let from = line["from"].as_str().unwrap().to_string();
        (from, line["trials"].as_u64().unwrap())
    };
    lines.iter().map(line).collect()
}

fn all_from(point: &str, trials: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([(point.to_string(), trials)])
}

/// Signatures with the names under which they are known.
fn bugs(summary: &Value) -> BTreeSet<(String, String)> {
    let bugs = summary["bugs"].as_array().expect("bugs");
    let text = |bug: &Value, field: &str| bug[field].as_str().unwrap_or_default().to_string();
    bugs.iter()
        .map(|bug| (text(bug, "signature"), text(bug, "known")))
        .collect()
}

fn events(mini: &Mini, trial: u64) -> Vec<Event> {
    store(mini).events(trial).unwrap().values
}

/// The trials of one purpose that are done.
fn trials_of(mini: &Mini, purpose: Purpose) -> Vec<u64> {
    let purposes = store(mini).purposes().unwrap();
    let outcomes = store(mini).outcomes().unwrap();
    let trials = purposes.into_iter().filter(|(_, p)| *p == purpose);
    let done = trials.filter(|(trial, _)| outcomes.contains_key(trial));
    done.map(|(trial, _)| trial).collect()
}

/// How a trial's nodes came up. To the microsecond the same only in forks of one snapshot.
fn start_up(mini: &Mini, trial: u64) -> Vec<String> {
    let all = events(mini, trial);
    let of_nodes = |e: &&Event| {
        matches!(
            e.what,
            What::NodeStarted { incarnation: 1, .. } | What::NodeReady { .. }
        )
    };
    let before = all.iter().take_while(|e| !is_stage(e, Stage::Workload));
    let start_up: Vec<String> = before
        .filter(of_nodes)
        .map(|e| serde_json::to_string(e).unwrap())
        .collect();
    assert!(!start_up.is_empty(), "trial {trial}: {all:#?}");
    start_up
}

fn is_stage(event: &Event, wanted: Stage) -> bool {
    matches!(event.what, What::Stage { stage } if stage == wanted)
}

#[test]
fn a_campaign_from_snapshots_finds_what_a_cold_one_finds() {
    let _turn = Turn::wait(2);
    let campaign = |start: &str| {
        let mini = Mini::new();
        let start = ["--confirm", "1", "--start", start];
        let output = run(&mini, &[&TRIO[..], &RENEWAL, &start].concat());
        assert_eq!(output.code, 1, "a bug: {output:#?}");
        let different = |purpose| -> BTreeSet<Vec<String>> {
            let trials = trials_of(&mini, purpose).into_iter();
            trials.map(|trial| start_up(&mini, trial)).collect()
        };
        let start_ups = (different(Purpose::Search), different(Purpose::Confirm));
        (output.json(), start_ups)
    };
    let (warm, (searched, confirmed)) = campaign("snapshot");
    assert_eq!(starts(&warm), all_from("ready", 4), "{warm:#}");
    assert_eq!(searched.len(), 1, "all are forks of one: {searched:#?}");
    assert!(!confirmed.is_empty(), "{warm:#}");
    assert!(
        confirmed.is_disjoint(&searched),
        "what is reported was seen after a cold start: {confirmed:#?}"
    );
    let (cold, (searched, _)) = campaign("cold");
    assert_eq!(starts(&cold), all_from("cold", 4), "{cold:#}");
    assert_eq!(searched.len(), 4, "each started its own: {searched:#?}");

    assert_eq!(bugs(&warm), bugs(&cold));
    assert_eq!(bugs(&warm).len(), 1, "{warm:#}");
    for summary in [&warm, &cold] {
        let bug = &summary["bugs"][0];
        assert_eq!(bug["known"], LATE_RENEWAL, "{summary:#}");
        assert_eq!(bug["confirmed"], "1 of 1", "{summary:#}");
    }
}

#[test]
fn forks_without_faults_pass() {
    let _turn = Turn::wait(2);
    let mini = Mini::new();
    let clean = ["--policy", "clean", "--trials", "15"];
    let output = run(&mini, &[&TRIO[..], &clean].concat());
    let summary = output.check(0, &["snapshot `ready`"]).json();
    assert_eq!(starts(&summary), all_from("ready", 15), "{summary:#}");
    assert_eq!(summary["unknown"], 0, "{summary:#}");
    let outcomes = store(&mini).outcomes().unwrap();
    assert_eq!(outcomes.len(), 17, "clean runs and trials");
    for (trial, (_, outcome)) in outcomes {
        assert_eq!(
            outcome.verdict,
            Verdict::Pass,
            "trial {trial}: {outcome:#?}"
        );
    }
}

/// The steps of a plan that the bundled target documents.
fn documented(name: &str) -> String {
    let file = sources().join(format!("targets/trio/1/known/{name}.toml"));
    let text = std::fs::read_to_string(file).unwrap();
    let steps = text.find("[[plan.step]]").expect("steps");
    text[steps..].replace("[[plan.step]]", "[[step]]")
}

/// Faults of the lab reach what was thawed: its network, its files, its processes.
#[test]
fn documented_plans_show_their_bugs_in_a_thawed_cluster() {
    let _turn = Turn::wait(2);
    for (name, known) in [
        ("member-returns", "trio-7-member-returns"),
        ("unverified-read", "trio-8-unverified-read"),
        ("recovery-record", "trio-5-recovery-record"),
    ] {
        let mini = Mini::new();
        let plan = mini.write("plan.toml", &documented(name));
        let replay = ["--policy", "replay", "--plan", &plan, "--trials", "2"];
        let output = run(&mini, &[&TRIO[..], &replay, &["--confirm", "0"]].concat());
        let summary = output.check(1, &[known]).json();
        assert_eq!(
            starts(&summary),
            all_from("ready", 2),
            "{name}: {summary:#}"
        );
        assert_eq!(summary["unreached"], 0, "{name}: {summary:#}");
    }
}

/// In a mount namespace of its own, where the machine's CRIU cannot be started, runs a command.
const WITHOUT_CRIU: &str = r#"
for folder in $(echo "$PATH" | tr : ' ') /usr/local/sbin /usr/sbin /sbin; do
    [ ! -e "$folder/criu" ] || mount --bind /dev/null "$folder/criu" || exit 90
done
exec "$@"
"#;

#[test]
fn without_criu_trials_start_cold_and_one_line_says_how_to_get_it() {
    let _turn = Turn::wait(2);
    let mini = Mini::new();
    // All that the user has fetched, but for CRIU; archives belong to the paths they are made with.
    let cache = mini.folder().join("cache");
    std::fs::create_dir(&cache).unwrap();
    for entry in std::fs::read_dir(Cache::of_user().unwrap().root()).unwrap() {
        let (name, path) = entry.map(|e| (e.file_name(), e.path())).unwrap();
        let begins = |with: &str| name.to_string_lossy().starts_with(with);
        if !begins("criu") && !begins("archives") {
            std::os::unix::fs::symlink(path, cache.join(name)).unwrap();
        }
    }
    // SAFETY: plain system call without arguments.
    let root = unsafe { libc::geteuid() } == 0;
    let mut command = Command::new("unshare");
    command.arg(if root { "-m" } else { "-rm" });
    command
        .args(["sh", "-c", WITHOUT_CRIU, "sh"])
        .arg(temblor())
        .args([&TRIO[..], &RENEWAL, &["--confirm", "1"]].concat())
        .env("TEMBLOR_CACHE", cache);
    let output = finish(&mini, Running::start(command, mini.folder()));
    let summary = output.check(1, &[]).json();
    let told: Vec<&str> = output
        .stderr
        .lines()
        .filter(|line| line.contains("trials start cold") && line.contains("targets fetch criu"))
        .collect();
    assert_eq!(told.len(), 1, "{output:#?}");
    let told_at = output.stderr.find(told[0]);
    assert!(output.stderr.find("trio@1 ·") < told_at, "{output:#?}");
    assert_eq!(starts(&summary), all_from("cold", 4), "{summary:#}");
    assert_eq!(summary["bugs"][0]["known"], LATE_RENEWAL, "{summary:#}");
}

#[test]
fn a_lab_killed_with_a_frozen_cluster_resumes_and_leaves_nothing() {
    let _turn = Turn::wait(2);
    let mini = Mini::new();
    let args = ["--policy", "clean", "--trials", "12", "--jobs", "2"];
    let mut killed = mini.start(&Mini::campaign(&args));
    until("two trials are done", || {
        assert!(!killed.has_ended(), "ended too soon: {:?}", killed.said());
        mini.latest().is_dir() && trials_of(&mini, Purpose::Search).len() >= 2
    });
    let lab = killed.child.id();
    signal(&killed, libc::SIGKILL);
    assert_eq!(killed.wait(LIMIT).code, -libc::SIGKILL);
    assert_nothing_runs(mini.folder());
    // It could not clear up: so the looking finds what there is.
    assert!(!images_of(&mini, lab).is_empty());
    assert!(mini.latest().join("snapshots").is_dir());
    let before = store(&mini).outcomes().unwrap();

    let resumed = run(&mini, &["resume", "--json"]);
    assert_nothing_is_left(&mini, lab);
    let summary = resumed.check(0, &[]).json();
    assert_eq!(summary["trials"], 12, "{summary:#}");
    let again = starts(&summary);
    assert_eq!(again.keys().collect::<Vec<_>>(), ["ready"], "{summary:#}");
    let after = store(&mini).outcomes().unwrap();
    assert_eq!(after.len(), 13, "the clean run and twelve trials");
    for (trial, stored) in &before {
        assert_eq!(after.get(trial), Some(stored), "trial {trial} is as it was");
    }
    for (trial, (_, outcome)) in after {
        assert_eq!(
            outcome.verdict,
            Verdict::Pass,
            "trial {trial}: {outcome:#?}"
        );
    }
}

/// When each step fired, as often as it did.
fn fired(events: &[Event]) -> BTreeMap<u32, Vec<(u64, String)>> {
    let mut fired: BTreeMap<u32, Vec<(u64, String)>> = BTreeMap::new();
    for event in events {
        if let What::Fired { step, node, .. } = &event.what {
            let times = fired.entry(*step).or_default();
            times.push((event.at_us, node.clone()));
        }
    }
    fired
}

/// The tests' own target lives ten times faster than the wall: a delay of three seconds there.
const DELAY_US: u64 = 300_000;
/// What a client's clock, in milliseconds of the target's, may be off.
const ROUNDING_US: u64 = 1_000;

#[test]
fn second_faults_strike_forks_of_the_first_and_time_goes_on() {
    let _turn = Turn::wait(2);
    let mini = Mini::new();
    let args = [
        "--policy", "pairs", "--trials", "24", "--jobs", "2", "--json",
    ];
    let output = run(&mini, &Mini::campaign(&args));
    assert!([0, 1].contains(&output.code), "{output:#?}");
    let summary = output.json();
    let began = starts(&summary);
    assert_eq!(began, all_from("after a fault", 24), "{summary:#}");

    let mut firsts: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let mut delayed = 0;
    for (trial, (plan, outcome)) in store(&mini).outcomes().unwrap() {
        if plan.steps.is_empty() {
            continue;
        }
        let events = events(&mini, trial);
        for client in ["c1", "c2"] {
            let times: Vec<u64> = operations_of(&events, client).map(|e| e.at_us).collect();
            assert!(times.is_sorted(), "trial {trial}, {client}: {events:#?}");
        }
        let fired = fired(&events);
        let said = format!("trial {trial}: {plan:#?} {fired:#?}");
        assert_eq!(fired[&0].len(), 1, "the first fault strikes once: {said}");
        assert!(fired.values().all(|times| times.len() == 1), "{said}");
        let (first_us, node) = fired[&0][0].clone();
        assert!(fired.values().all(|t| t[0].0 >= first_us), "{said}");
        // The time it was frozen does not count.
        let end_us = events.iter().map(|e| e.at_us).max().unwrap();
        let ran_us = (outcome.seconds * 1e6) as u64;
        assert!(end_us <= first_us + ran_us, "{end_us}, {ran_us}: {said}");
        let first = toml::to_string(&plan.steps[0]).unwrap();
        // A delay that had begun when the cluster was frozen is as long as it was meant to be.
        if first.contains("delay") {
            let ended_us = first_answer_after(&events, first_us, &node.replace('n', "c"));
            assert!(
                ended_us + ROUNDING_US >= first_us + DELAY_US,
                "{ended_us}: {said}"
            );
            delayed += 1;
        }
        firsts.entry(first).or_default().insert(first_us);
    }
    assert!(delayed > 0, "no first fault is a delay: {firsts:#?}");
    assert_eq!(firsts.len(), 3, "eight trials each: {firsts:#?}");
    let once = firsts.values().all(|times| times.len() == 1);
    assert!(once, "a first fault struck before the fork: {firsts:#?}");
}

fn operations_of<'a>(events: &'a [Event], client: &'a str) -> impl Iterator<Item = &'a Event> {
    let is_its_own = move |e: &&Event| matches!(&e.what, What::Op(op) if op.client == client);
    events.iter().filter(is_its_own)
}

/// When the first operation of a client ended after some time.
fn first_answer_after(events: &[Event], us: u64, client: &str) -> u64 {
    let is_answer = |e: &&Event| matches!(&e.what, What::Op(op) if op.ev != OpEvent::Invoke);
    let mut later = operations_of(events, client).filter(|e| e.at_us >= us);
    let answer = later.find(is_answer);
    answer.expect("the delayed operation ends").at_us
}

/// The first thing a node of the tests' own target does when it can be asked.
const EARLY: &str = r#"
[[step]]
fault = { kind = "delay", ms = 3000 }

[step.when]
at = "hit"
site = "mini.Node.main(String[])>java.net.ServerSocket.accept#0"
node = "n2"
nth = 1
"#;

#[test]
fn a_fault_of_the_start_up_strikes_a_cluster_frozen_before_it() {
    let _turn = Turn::wait(1);
    let mini = Mini::new();
    let plan = mini.write("early.toml", EARLY);
    let args = [
        "--policy", "replay", "--plan", &plan, "--trials", "3", "--json",
    ];
    let output = run(&mini, &Mini::campaign(&args));
    let summary = output.check(0, &["snapshot `booted`"]).json();
    assert_eq!(starts(&summary), all_from("booted", 3), "{summary:#}");
    assert_eq!(summary["fired"], 3, "{summary:#}");
    let mut ready_us = BTreeSet::new();
    for trial in trials_of(&mini, Purpose::Search) {
        let events = events(&mini, trial);
        let fired = fired(&events);
        assert_eq!(fired[&0].len(), 1, "{fired:#?}");
        let (fired_us, node) = &fired[&0][0];
        assert_eq!(node, "n2", "{fired:#?}");
        let ready = |e: &&Event| matches!(&e.what, What::NodeReady { node } if node == "n2");
        let ready = events.iter().find(ready).expect("n2 serves").at_us;
        assert!(ready >= fired_us + DELAY_US, "{ready} after {fired:#?}");
        ready_us.insert(ready);
    }
    assert_eq!(ready_us.len(), 3, "each became ready by itself");
}
