//! The store keeps what it is given, through crashes, full disks and foreign versions.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use temblor_model::bug::Verdict;
use temblor_model::campaign::{CampaignEvent, EventSink, Purpose};
use temblor_model::catalog::SiteCatalog;
use temblor_model::plan::Plan;
use temblor_report::{Store, StoreError, StoreSink, find_bug, find_campaign};

use crate::sample;

fn stored() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let store = Store::create(root.path(), &sample::spec(), "20260101T120000").unwrap();
    let path = store.path().to_owned();
    let mut sink = StoreSink::new(store);
    for event in sample::campaign("store") {
        sink.event(&event);
    }
    assert!(sink.failure().first().is_none(), "{:?}", sink.failure());
    (root, path)
}

#[test]
fn a_campaign_reads_back_as_it_was_told() {
    let (_root, path) = stored();
    let store = Store::open(&path).unwrap();
    assert_eq!(*store.spec(), sample::spec());
    assert_eq!(store.baseline().unwrap(), Some(sample::baseline()));
    let trials = store.trials().unwrap();
    assert_eq!(trials.done.len(), 60);
    assert!(trials.torn.is_empty());
    assert_eq!(trials.done[&12].0, sample::delay_plan());
    assert_eq!(trials.done[&12].1.verdict, Verdict::Fail);
    let events = store.events(12).unwrap();
    assert_eq!((events.values, events.torn), (sample::delay_events(), 0));
    assert_eq!(store.purposes().unwrap()[&31], Purpose::Search);
    let bugs = store.bugs().unwrap();
    assert_eq!(bugs[0].trials, [12, 20, 44]);
    assert_eq!(bugs[1], sample::crash_bug());
    // The campaign's own stream has no events from inside trials.
    let stream = store.campaign_events().unwrap();
    let inside = |e: &CampaignEvent| matches!(e, CampaignEvent::Trial { .. });
    assert!(!stream.values.iter().any(inside));
    assert_eq!(stream.torn, 0);
    let leftovers = walk(&path);
    let leftover = leftovers.iter().find(|p| p.ends_with(".tmp"));
    assert_eq!(leftover, None);
    for file in ["bug.json", "plan.toml", "report.html", "report.md"] {
        assert!(path.join("bugs/b3f9c1d2").join(file).is_file(), "{file}");
    }
}

fn walk(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        all.push(entry.path().display().to_string());
        if entry.file_type().unwrap().is_dir() {
            all.extend(walk(&entry.path()));
        }
    }
    all
}

#[test]
fn latest_leads_to_the_newest_campaign() {
    let root = tempfile::tempdir().unwrap();
    let first = Store::create(root.path(), &sample::spec(), "20260101T120000").unwrap();
    let second = Store::create(root.path(), &sample::spec(), "20260101T120000").unwrap();
    assert_ne!(first.path(), second.path());
    for link in ["latest", "trio@1/latest"] {
        let found = fs::canonicalize(root.path().join(link)).unwrap();
        assert_eq!(found, fs::canonicalize(second.path()).unwrap(), "{link}");
    }
    let find = |wanted: &str| find_campaign(root.path(), wanted).unwrap();
    for wanted in ["latest", "trio@1", "120000-2"] {
        let found = fs::canonicalize(find(wanted)).unwrap();
        assert_eq!(found, fs::canonicalize(second.path()).unwrap(), "{wanted}");
    }
    assert_eq!(find(&first.path().display().to_string()), first.path());
    fs::remove_file(root.path().join("latest")).unwrap();
    assert_eq!(find("latest"), second.path());
}

#[test]
fn bugs_are_found_by_id_beginning_and_path() {
    let (root, path) = stored();
    let folder = path.join("bugs/b3f9c1d2");
    let report = folder.join("report.html").display().to_string();
    for wanted in ["b3f9c1d2", "b3f", &folder.display().to_string(), &report] {
        assert_eq!(find_bug(root.path(), wanted).unwrap(), folder, "{wanted}");
    }
    assert_eq!(Store::of_bug(&folder).unwrap().spec(), &sample::spec());
    let error = find_bug(root.path(), "77aa01ff").unwrap_err().to_string();
    assert!(error.contains("there is: 77aa01fe, b3f9c1d2"), "{error}");
    let nowhere = root.path().join("nothing");
    let error = find_bug(&nowhere, "x").unwrap_err().to_string();
    assert!(error.contains("./temblor demo"), "{error}");
    let error = find_campaign(root.path(), "trio@2x").unwrap_err();
    assert!(
        error.to_string().contains("trio@1/20260101T120000"),
        "{error}"
    );
}

#[test]
fn a_killed_lab_loses_no_recorded_event_and_its_trial_can_run_again() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::create(root.path(), &sample::spec(), "t").unwrap();
    let path = store.path().to_owned();
    let mut sink = StoreSink::new(store);
    let plan = sample::delay_plan();
    let start = |trial| CampaignEvent::TrialStarted {
        trial,
        purpose: Purpose::Search,
        plan: sample::delay_plan(),
    };
    sink.event(&start(1));
    for event in sample::delay_events() {
        sink.event(&CampaignEvent::Trial { trial: 1, event });
    }
    // As kill -9: nothing is flushed, nothing is dropped in order.
    std::mem::forget(sink);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.events(1).unwrap().values, sample::delay_events());
    let trials = store.trials().unwrap();
    assert!(trials.done.is_empty());
    assert_eq!(trials.torn[0].0, "1");

    let mut sink = StoreSink::new(store.clone());
    sink.event(&start(1));
    sink.event(&CampaignEvent::TrialDone {
        trial: 1,
        purpose: Purpose::Search,
        plan: plan.clone(),
        outcome: sample::outcome(1, Verdict::Pass, true),
        at_s: None,
    });
    assert!(sink.failure().first().is_none(), "{:?}", sink.failure());
    let trials = store.trials().unwrap();
    assert_eq!(trials.done[&1].0, plan);
    assert_eq!(trials.torn[0].0, "1.interrupted-1");
    // What is whole is never overwritten.
    sink.event(&start(1));
    let error = sink.failure().first().unwrap();
    assert!(matches!(*error, StoreError::TrialExists { trial: 1, .. }));
}

#[test]
fn torn_files_are_left_out_and_listed() {
    let (_root, path) = stored();
    let events = path.join("trials/12/events.jsonl");
    let text = fs::read_to_string(&events).unwrap();
    fs::write(&events, &text[..text.len() - 7]).unwrap();
    fs::write(path.join("trials/3/outcome.json"), "{\"format\":1,").unwrap();
    fs::write(path.join("trials/4/plan.toml"), "seed = ").unwrap();
    fs::remove_file(path.join("trials/5/outcome.json")).unwrap();
    let campaign = path.join("campaign.jsonl");
    let text = fs::read_to_string(&campaign).unwrap();
    fs::write(&campaign, &text[..text.len() - 30]).unwrap();

    let store = Store::open(&path).unwrap();
    let trials = store.trials().unwrap();
    assert_eq!(trials.done.len(), 57);
    let torn: Vec<&str> = trials.torn.iter().map(|t| t.0.as_str()).collect();
    assert_eq!(torn, ["3", "4", "5"]);
    let events = store.events(12).unwrap();
    assert_eq!(events.torn, 1);
    assert_eq!(events.values.len(), sample::delay_events().len() - 1);
    // A line appended after a torn one is not swallowed by it.
    let mut sink = StoreSink::new(store.clone());
    let note = CampaignEvent::Note { text: "on".into() };
    sink.event(&note);
    let stream = store.campaign_events().unwrap();
    assert_eq!((stream.values.last(), stream.torn), (Some(&note), 1));
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let (_root, path) = stored();
    let outcome = path.join("trials/3/outcome.json");
    fs::write(&outcome, "{\"format\":9,\"new\":true}").unwrap();
    let error = Store::open(&path)
        .unwrap()
        .outcomes()
        .unwrap_err()
        .to_string();
    assert!(error.contains("trials/3/outcome.json"), "{error}");
    assert!(
        error.contains("format 9") && error.contains("newer Temblor"),
        "{error}"
    );
    fs::write(path.join("campaign.toml"), "format = 2\nnovel = 1\n").unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(
        matches!(error, StoreError::Newer { found: 2, .. }),
        "{error}"
    );
    fs::write(path.join("campaign.toml"), "format = 1\nnovel = 1\n").unwrap();
    let error = Store::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("campaign.toml") && error.contains("novel"),
        "{error}"
    );
}

#[test]
fn a_full_disk_is_recorded_and_the_rest_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::create(root.path(), &sample::spec(), "t").unwrap();
    let mut sink = StoreSink::new(store.clone());
    let failure = sink.failure();
    // The device that is always full stands in for the disk.
    fs::create_dir(store.trial_dir(12)).unwrap();
    symlink("/dev/full", store.events_path(12)).unwrap();
    for event in sample::campaign("store") {
        sink.event(&event);
    }
    let error = failure.first().unwrap();
    assert!(error.is_disk_full(), "{error}");
    let text = error.to_string();
    assert!(text.contains("trials/12/events.jsonl"), "{text}");
    assert!(
        text.contains("free some space") && text.contains("temblor resume"),
        "{text}"
    );
    assert!(failure.lost() > 0);
    assert!(store.outcomes().unwrap().contains_key(&13));
}

#[test]
fn a_store_that_cannot_be_made_says_where() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::create(&file, &sample::spec(), "t").unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&file.display().to_string()), "{text}");
    // Names from outside never lead out of the store.
    let mut spec = sample::spec();
    spec.target = "../../escape me".into();
    let store = Store::create(root.path(), &spec, "../x").unwrap();
    assert!(store.path().starts_with(root.path()));
    let inside = store.path().components();
    assert!(!inside.into_iter().any(|c| c.as_os_str() == ".."));
}

#[test]
fn catalog_and_clean_plans_survive() {
    let root = tempfile::tempdir().unwrap();
    let mut spec = sample::spec();
    spec.plan = Some(sample::crash_plan());
    let store = Store::create(root.path(), &spec, "t").unwrap();
    assert_eq!(*Store::open(store.path()).unwrap().spec(), spec);
    assert_eq!(store.catalog().unwrap(), None);
    let catalog = SiteCatalog {
        format: SiteCatalog::FORMAT,
        block_count: 3,
        ..SiteCatalog::default()
    };
    store.write_catalog(&catalog).unwrap();
    assert_eq!(store.catalog().unwrap(), Some(catalog));
    store.start_trial(0, &Plan::clean()).unwrap();
    store
        .write_outcome(&sample::outcome(0, Verdict::Pass, false))
        .unwrap();
    assert_eq!(store.outcomes().unwrap()[&0].0, Plan::clean());
}
