//! What is kept of trials, and who may run a campaign.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use temblor_model::bug::{Bug, Verdict};
use temblor_model::campaign::{CampaignEvent, EventSink, Purpose};
use temblor_model::plan::Plan;
use temblor_report::{Store, StoreError, StoreSink, running};

use crate::sample;

const ALL: &str = "clients events.jsonl logs nodes outcome.json plan.toml";
const THIN: &str = "events.jsonl.gz outcome.json plan.toml";
const KB: usize = 1_000;

fn store(root: &Path, keep_mb: u64) -> Store {
    let mut spec = sample::spec();
    spec.keep_mb = keep_mb;
    Store::create(root, &spec, "t").unwrap()
}

/// A trial as the lab leaves it, with so much data in its node's folder.
fn run(sink: &mut StoreSink, trial: u64, purpose: Purpose, verdict: Verdict, data_kb: usize) {
    let plan = match purpose {
        Purpose::Baseline => Plan::clean(),
        _ => sample::delay_plan(),
    };
    sink.event(&CampaignEvent::TrialStarted {
        trial,
        purpose,
        plan: plan.clone(),
    });
    for event in sample::delay_events() {
        sink.event(&CampaignEvent::Trial { trial, event });
    }
    let folder = sink.path().join("trials").join(trial.to_string());
    for part in ["nodes/n1/data", "clients/c1"] {
        fs::create_dir_all(folder.join(part)).unwrap();
    }
    fs::write(folder.join("nodes/n1/data/log"), vec![7; data_kb * KB]).unwrap();
    fs::write(folder.join("clients/c1/said"), "{}").unwrap();
    fs::write(folder.join("logs/n1.log"), "serving").unwrap();
    sink.event(&CampaignEvent::TrialDone {
        trial,
        purpose,
        plan,
        outcome: sample::outcome(trial, verdict, true),
        at_s: None,
    });
    assert!(sink.failure().first().is_none(), "{:?}", sink.failure());
}

fn parts(store: &Store, trial: u64) -> String {
    let entries = fs::read_dir(store.trial_dir(trial)).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.join(" ")
}

fn bug(trials: &[u64]) -> Bug {
    Bug {
        trials: trials.to_vec(),
        ..sample::delay_bug()
    }
}

#[test]
fn of_passing_trials_what_reports_and_checkers_read_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path(), 2_000);
    let mut sink = StoreSink::new(store.clone());
    run(&mut sink, 1, Purpose::Baseline, Verdict::Pass, 10);
    run(&mut sink, 2, Purpose::Baseline, Verdict::Pass, 10);
    run(&mut sink, 3, Purpose::Search, Verdict::Pass, 10);
    run(&mut sink, 4, Purpose::Search, Verdict::Fail, 10);
    run(&mut sink, 5, Purpose::Confirm, Verdict::Pass, 10);
    run(&mut sink, 6, Purpose::Search, Verdict::Unknown, 10);
    drop(sink);
    let clean = format!("{} logs outcome.json plan.toml", "events.jsonl.gz");
    for (trial, kept) in [
        (1, ALL),
        (2, &clean),
        (3, THIN),
        (4, ALL),
        (5, THIN),
        (6, ALL),
    ] {
        assert_eq!(parts(&store, trial), kept, "trial {trial}");
        let events = store.events(trial).unwrap();
        assert_eq!((events.values, events.torn), (sample::delay_events(), 0));
    }
    assert_eq!(store.trials().unwrap().done.len(), 6);
}

#[test]
fn compressed_events_that_were_cut_off_are_read_as_far_as_they_go() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path(), 2_000);
    let mut sink = StoreSink::new(store.clone());
    run(&mut sink, 1, Purpose::Search, Verdict::Pass, 0);
    drop(sink);
    let path = store.trial_dir(1).join("events.jsonl.gz");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let events = store.events(1).unwrap();
    let whole = sample::delay_events();
    assert!(events.torn > 0);
    assert_eq!(events.values, whole[..events.values.len()]);
    fs::remove_file(&path).unwrap();
    assert!(store.events(1).unwrap().values.is_empty());
}

#[test]
fn a_full_disk_leaves_the_events_as_they_were() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path(), 2_000);
    let mut sink = StoreSink::new(store.clone());
    let plan = sample::delay_plan();
    sink.event(&CampaignEvent::TrialStarted {
        trial: 1,
        purpose: Purpose::Search,
        plan: plan.clone(),
    });
    for event in sample::delay_events() {
        sink.event(&CampaignEvent::Trial { trial: 1, event });
    }
    let temporary = format!(".events.jsonl.gz.{}.tmp", std::process::id());
    symlink("/dev/full", store.trial_dir(1).join(temporary)).unwrap();
    sink.event(&CampaignEvent::TrialDone {
        trial: 1,
        purpose: Purpose::Search,
        plan,
        outcome: sample::outcome(1, Verdict::Pass, true),
        at_s: None,
    });
    let failure = sink.failure();
    drop(sink);
    assert!(failure.first().is_none(), "{failure:?}");
    assert_eq!(parts(&store, 1), "events.jsonl outcome.json plan.toml");
    assert_eq!(store.events(1).unwrap().values, sample::delay_events());
}

#[test]
fn over_the_limit_what_is_missed_least_goes_first() {
    let root = tempfile::tempdir().unwrap();
    // Room for the data of three trials, with what else there is of all of them.
    let store = store(root.path(), 10);
    let mut sink = StoreSink::new(store.clone());
    run(&mut sink, 1, Purpose::Baseline, Verdict::Pass, 1);
    run(&mut sink, 2, Purpose::Search, Verdict::Fail, 2_400);
    sink.event(&CampaignEvent::BugFound { bug: bug(&[2]) });
    run(&mut sink, 3, Purpose::Search, Verdict::Fail, 2_400);
    run(&mut sink, 4, Purpose::Search, Verdict::Fail, 2_400);
    let seen = CampaignEvent::BugSeen {
        id: bug(&[]).id,
        trial: 4,
    };
    sink.event(&seen);
    run(&mut sink, 5, Purpose::Search, Verdict::Unknown, 2_400);
    drop(sink);
    // The first trial of the bug stays, and what may still be one; its second sighting goes
    // though it is younger.
    let no_nodes = "clients events.jsonl logs outcome.json plan.toml";
    for (trial, kept) in [(1, ALL), (2, ALL), (3, ALL), (4, no_nodes), (5, ALL)] {
        assert_eq!(parts(&store, trial), kept, "trial {trial}");
    }
    // A smaller limit, and the next session: all that may go is gone, and all can be read.
    let mut store = Store::open(store.path()).unwrap();
    store.change_spec(|spec| spec.keep_mb = 0).unwrap();
    let mut sink = StoreSink::new(store.clone());
    run(&mut sink, 6, Purpose::Search, Verdict::Fail, 2_400);
    drop(sink);
    for (trial, kept) in [
        (1, ALL),
        (2, ALL),
        (3, THIN),
        (4, THIN),
        (5, THIN),
        (6, THIN),
    ] {
        assert_eq!(parts(&store, trial), kept, "trial {trial}");
        assert_eq!(store.events(trial).unwrap().values, sample::delay_events());
    }
}

#[test]
fn the_next_session_thins_what_a_killed_one_left() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path(), 2_000);
    let mut sink = StoreSink::new(store.clone());
    run(&mut sink, 1, Purpose::Baseline, Verdict::Pass, 1);
    run(&mut sink, 2, Purpose::Search, Verdict::Pass, 1);
    drop(sink);
    // Killed between the compressed events and the rest.
    let folder = store.trial_dir(2);
    fs::create_dir_all(folder.join("nodes/n1")).unwrap();
    let mut sink = StoreSink::new(store.clone());
    run(&mut sink, 3, Purpose::Search, Verdict::Pass, 1);
    drop(sink);
    for (trial, kept) in [(1, ALL), (2, THIN), (3, THIN)] {
        assert_eq!(parts(&store, trial), kept, "trial {trial}");
    }
}

#[test]
fn one_process_runs_a_campaign_at_a_time() {
    let root = tempfile::tempdir().unwrap();
    let mut first = store(root.path(), 2_000);
    let folder = first.path().to_owned();
    assert_eq!(running(&folder).unwrap(), None);
    first.claim().unwrap();
    first.claim().expect("asking again is free");
    let runner = running(&folder).unwrap().unwrap();
    assert_eq!(runner.pid, std::process::id());
    assert!(runner.is_here(&folder));
    let mut second = Store::open(&folder).unwrap();
    let error = second.claim().unwrap_err();
    assert!(matches!(error, StoreError::Running { .. }), "{error}");
    let text = error.to_string();
    for word in [&format!("process {}", runner.pid), "temblor pause"] {
        assert!(text.contains(word), "{text}");
    }
    // A sink's store is the same claim: it ends with the last of them.
    let sink = StoreSink::new(first.clone());
    drop(first);
    assert_eq!(running(&folder).unwrap(), Some(runner));
    drop(sink);
    assert_eq!(running(&folder).unwrap(), None);
    second.claim().unwrap();
}

#[test]
fn a_second_judgement_keeps_the_first_beside_it() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path(), 2_000);
    let mut sink = StoreSink::new(store.clone());
    run(&mut sink, 1, Purpose::Search, Verdict::Pass, 0);
    drop(sink);
    let path = store.trial_dir(1).join("outcome.json");
    let first = fs::read(&path).unwrap();
    for verdict in [Verdict::Fail, Verdict::Unknown] {
        let outcome = sample::outcome(1, verdict, true);
        store.rejudge(&outcome).unwrap();
        assert_eq!(store.outcomes().unwrap()[&1].1, outcome);
        let before = fs::read(path.with_file_name("outcome.json.before")).unwrap();
        assert_eq!(before, first);
    }
}
