//! The index says what the files say: fast, while they are written, and whatever happened to it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use temblor_model::bug::Verdict;
use temblor_model::campaign::{CampaignEvent, EventSink, Purpose};
use temblor_model::plan::Plan;
use temblor_report::{Listed, Store, StoreSink};

use crate::sample;

/// A store of so many trials, with no index yet. Written without the store, which would flush
/// each of its files to the disk.
fn synthetic(root: &Path, trials: u64) -> Store {
    let store = Store::create(root, &sample::spec(), "t").unwrap();
    let mut stream = fs::File::create(store.path().join("campaign.jsonl")).unwrap();
    for trial in 1..=trials {
        let (purpose, plan) = match trial {
            1..=4 => (Purpose::Baseline, Plan::clean()),
            n if n % 10 == 0 => (Purpose::Confirm, sample::crash_plan()),
            _ => (Purpose::Search, sample::delay_plan()),
        };
        let verdict = match trial % 50 {
            7 => Verdict::Unknown,
            3 | 11 => Verdict::Fail,
            _ => Verdict::Pass,
        };
        let outcome = sample::outcome(trial, verdict, trial % 3 > 0);
        let folder = store.trial_dir(trial);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("plan.toml"), toml::to_string(&plan).unwrap()).unwrap();
        let text = serde_json::to_string_pretty(&outcome).unwrap();
        fs::write(folder.join("outcome.json"), text).unwrap();
        let event = CampaignEvent::TrialDone {
            trial,
            purpose,
            plan,
            outcome,
            at_s: None,
        };
        writeln!(stream, "{}", serde_json::to_string(&event).unwrap()).unwrap();
    }
    store.write_bug(&sample::delay_bug()).unwrap();
    store
}

fn index(store: &Store) -> PathBuf {
    store.path().join("index.sqlite")
}

fn count(store: &Store, sql: &str) -> i64 {
    let connection = Connection::open(index(store)).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn counts(lines: &[Listed]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        let key = format!("{:?} {:?}", line.purpose, line.verdict);
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// What the store answers is what its files say, and its index is whole.
fn check(store: &Store, case: &str) {
    let (lines, files) = (store.listing().unwrap(), store.listing_of_files().unwrap());
    assert_eq!(lines.len(), files.len(), "{case}");
    for (line, of_file) in lines.iter().zip(&files) {
        assert_eq!(line, of_file, "{case}");
    }
    let (trials, of_files) = (store.trials().unwrap(), store.trials_of_files().unwrap());
    assert!(trials.done.keys().eq(of_files.done.keys()), "{case}");
    for (trial, whole) in &trials.done {
        assert_eq!(*whole, of_files.done[trial], "{case}");
    }
    assert_eq!(trials.torn, of_files.torn, "{case}");
    let rows = count(store, "SELECT count(*) FROM trials");
    assert_eq!(rows as usize, files.len(), "{case}");
}

#[test]
fn two_thousand_trials_are_counted_as_in_the_files() {
    let root = tempfile::tempdir().unwrap();
    let store = synthetic(root.path(), 2_000);
    check(&store, "first made");
    let lines = store.listing().unwrap();
    let files = counts(&store.listing_of_files().unwrap());
    assert_eq!(counts(&lines), files);
    assert_eq!(files["Search Fail"], 79);
    assert_eq!(files["Baseline Pass"], 3);
    let failing = "SELECT count(*) FROM trials WHERE verdict = 'fail'";
    assert_eq!(count(&store, failing), 80);
    let symptoms = "SELECT count(*) FROM symptoms WHERE checker = 'hang'";
    assert_eq!(count(&store, symptoms), 80);
    assert_eq!(lines[11].bugs, ["b3f9c1d2"]);
    let words = |text: &Option<String>| text.clone().unwrap_or_default();
    assert_eq!(words(&lines[10].checker), "hang");
    assert_eq!(words(&lines[10].symptom), "threads blocked on trio.Store");
    assert_eq!(words(&lines[6].symptom), "the history is cut off");
    assert_eq!(words(&lines[6].fault), "throw java.io.IOException");
}

#[test]
fn the_index_answers_and_a_changed_file_wins_over_it() {
    let root = tempfile::tempdir().unwrap();
    let store = synthetic(root.path(), 20);
    check(&store, "first made");
    let connection = Connection::open(index(&store)).unwrap();
    connection
        .execute("UPDATE trials SET seconds = 77 WHERE number IN (5, 6)", [])
        .unwrap();
    drop(connection);
    let seconds = |trial: usize| store.listing().unwrap()[trial - 1].seconds;
    assert_eq!((seconds(5), seconds(6)), (77.0, 77.0));
    // The same bytes, written again: only the file's stamp is another one.
    let path = store.trial_dir(5).join("outcome.json");
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    assert_ne!(seconds(5), 77.0);
    assert_eq!(seconds(6), 77.0);
    // What is gone from the files is gone from the index.
    fs::remove_dir_all(store.trial_dir(6)).unwrap();
    check(&store, "one less");
    fs::write(store.trial_dir(7).join("plan.toml"), "seed = ").unwrap();
    check(&store, "one torn");
    assert_eq!(count(&store, "SELECT count(*) FROM wholes"), 18);
}

#[test]
fn purposes_follow_the_stream_as_it_grows_and_shrinks() {
    let root = tempfile::tempdir().unwrap();
    let store = synthetic(root.path(), 12);
    let path = store.path().join("campaign.jsonl");
    assert_eq!(store.purposes().unwrap().len(), 12);
    let event = CampaignEvent::TrialStarted {
        trial: 13,
        purpose: Purpose::Confirm,
        plan: Plan::clean(),
    };
    let line = serde_json::to_string(&event).unwrap();
    let mut stream = fs::OpenOptions::new().append(true).open(&path).unwrap();
    // A lab killed in mid-line, and one that went on after it.
    stream.write_all(&line.as_bytes()[..30]).unwrap();
    assert_eq!(store.purposes().unwrap().len(), 12);
    write!(stream, "\n{line}").unwrap();
    assert_eq!(store.purposes().unwrap()[&13], Purpose::Confirm);
    let far = "SELECT bytes FROM stream";
    let known = count(&store, far);
    writeln!(stream).unwrap();
    assert_eq!(store.purposes().unwrap().len(), 13);
    assert_eq!(count(&store, far), known + line.len() as i64 + 1);
    let text = fs::read_to_string(&path).unwrap();
    let first: Vec<&str> = text.lines().take(3).collect();
    fs::write(&path, first.join("\n")).unwrap();
    assert_eq!(store.purposes().unwrap().len(), 3);
}

#[test]
fn whatever_happens_to_the_index_the_answers_stay() {
    type Harm = fn(&Path);
    let resize = |path: &Path, bytes: u64| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(bytes).unwrap();
    };
    let cases: [(&str, bool, Harm); 8] = [
        ("missing", false, |path| fs::remove_file(path).unwrap()),
        ("emptied", false, |path| fs::write(path, "").unwrap()),
        ("not a database", true, |path| {
            fs::write(path, "once upon a time, ".repeat(500)).unwrap();
        }),
        ("zeroes in the middle", true, |path| {
            let mut bytes = fs::read(path).unwrap();
            let most = bytes.len();
            bytes[4096..most / 2].fill(0);
            fs::write(path, bytes).unwrap();
        }),
        ("another version", true, |path| {
            let connection = Connection::open(path).unwrap();
            connection.pragma_update(None, "user_version", 99).unwrap();
        }),
        ("a table is gone", true, |path| {
            let connection = Connection::open(path).unwrap();
            connection.execute_batch("DROP TABLE wholes").unwrap();
        }),
        ("foreign tables", true, |path| {
            fs::remove_file(path).unwrap();
            let connection = Connection::open(path).unwrap();
            let sql = "CREATE TABLE trials (x); PRAGMA user_version = 1";
            connection.execute_batch(sql).unwrap();
        }),
        ("a verdict nobody knows", true, |path| {
            let connection = Connection::open(path).unwrap();
            let sql = "UPDATE trials SET verdict = 'maybe'";
            connection.execute(sql, []).unwrap();
        }),
    ];
    let root = tempfile::tempdir().unwrap();
    let store = synthetic(root.path(), 60);
    let aside = store.path().join("index.sqlite.broken");
    check(&store, "first made");
    for (case, set_aside, harm) in cases {
        let _ = fs::remove_file(&aside);
        harm(&index(&store));
        check(&store, case);
        assert_eq!(aside.exists(), set_aside, "{case}");
    }
    let _ = fs::remove_file(&aside);
    let whole = fs::metadata(index(&store)).unwrap().len();
    resize(&index(&store), whole / 2 + 100);
    check(&store, "cut in half");
    assert!(aside.exists());
    // No index can be had there at all, and none is missed.
    fs::remove_file(index(&store)).unwrap();
    fs::create_dir(index(&store)).unwrap();
    fs::write(index(&store).join("file"), "").unwrap();
    let _ = fs::remove_file(&aside);
    assert_eq!(store.trials().unwrap().done.len(), 60);
}

#[test]
fn a_writer_killed_in_mid_transaction_leaves_the_state_before_it() {
    let root = tempfile::tempdir().unwrap();
    let store = synthetic(root.path(), 200);
    check(&store, "first made");
    // One that is dropped in the middle.
    let mut connection = Connection::open(index(&store)).unwrap();
    let transaction = connection.transaction().unwrap();
    transaction.execute("DELETE FROM trials", []).unwrap();
    drop(transaction);
    drop(connection);
    check(&store, "dropped");
    // One that is killed: pages of its transaction are in the file, and its journal beside it.
    let connection = Connection::open(index(&store)).unwrap();
    connection.pragma_update(None, "cache_size", 1).unwrap();
    let half = "BEGIN IMMEDIATE; DELETE FROM symptoms; DELETE FROM wholes;
                UPDATE trials SET symptom = hex(zeroblob(2000))";
    connection.execute_batch(half).unwrap();
    let journal = store.path().join("index.sqlite-journal");
    let (half, journal_bytes) = (
        fs::read(index(&store)).unwrap(),
        fs::read(&journal).unwrap(),
    );
    drop(connection);
    assert_ne!(half, fs::read(index(&store)).unwrap());
    fs::write(index(&store), &half).unwrap();
    fs::write(&journal, &journal_bytes).unwrap();
    let rows = count(
        &store,
        "SELECT count(*) FROM trials WHERE length(symptom) > 1000",
    );
    assert_eq!(rows, 0, "the journal is played back");
    assert!(!journal.exists());
    check(&store, "killed");
    assert!(!store.path().join("index.sqlite.broken").exists());
    // Its journal must not be played into the index that replaces a broken one.
    fs::write(index(&store), "no database at all".repeat(100)).unwrap();
    fs::write(&journal, &journal_bytes).unwrap();
    check(&store, "broken, with a journal");
}

fn run_sample(store: &Store) -> StoreSink {
    let mut sink = StoreSink::new(store.clone());
    for event in sample::campaign("store") {
        sink.event(&event);
    }
    sink
}

#[test]
fn a_running_campaign_keeps_its_index() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::create(root.path(), &sample::spec(), "t").unwrap();
    let mut sink = StoreSink::new(store.clone());
    for event in sample::campaign("store") {
        sink.event(&event);
        // As it is told, no reader has helped yet; the report at the end is one.
        if let CampaignEvent::TrialDone { trial, .. } = event {
            let rows = count(&store, "SELECT max(number) FROM trials");
            assert_eq!(rows as u64, trial);
            let purposes = count(&store, "SELECT count(*) FROM purposes");
            assert_eq!(purposes as u64, trial);
        }
        if let CampaignEvent::BugSeen { trial, .. } = event {
            let seen = format!("SELECT count(*) FROM bug_trials WHERE trial = {trial}");
            assert_eq!(count(&store, &seen), 1);
        }
    }
    drop(sink);
    check(&store, "the sample");
}

#[test]
fn a_campaign_goes_on_without_its_index() {
    // It is locked for longer than the campaign waits.
    let root = tempfile::tempdir().unwrap();
    let store = synthetic(root.path(), 3);
    check(&store, "first made");
    let reader = Connection::open(index(&store)).unwrap();
    reader.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut sink = StoreSink::new(store.clone());
    let plan = sample::delay_plan();
    sink.event(&CampaignEvent::TrialStarted {
        trial: 4,
        purpose: Purpose::Search,
        plan: plan.clone(),
    });
    sink.event(&CampaignEvent::TrialDone {
        trial: 4,
        purpose: Purpose::Search,
        plan,
        outcome: sample::outcome(4, Verdict::Fail, true),
        at_s: None,
    });
    assert!(sink.failure().first().is_none(), "{:?}", sink.failure());
    reader.execute_batch("ROLLBACK").unwrap();
    drop(sink);
    check(&store, "locked");
    // There is no room for it: the device that is always full.
    let store = Store::create(root.path(), &sample::spec(), "full").unwrap();
    symlink("/dev/full", index(&store)).unwrap();
    symlink("/dev/full", store.path().join("index.sqlite-journal")).unwrap();
    let sink = run_sample(&store);
    assert!(sink.failure().first().is_none(), "{:?}", sink.failure());
    drop(sink);
    assert_eq!(store.listing().unwrap().len(), 60);
}

#[test]
fn readers_see_a_growing_campaign_whole() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::create(root.path(), &sample::spec(), "t").unwrap();
    let reading = store.clone();
    let reader = std::thread::spawn(move || {
        let mut seen = Vec::new();
        while seen.last() != Some(&60) {
            let lines = reading.listing().unwrap();
            let numbers: Vec<u64> = lines.iter().map(|line| line.trial).collect();
            let all: Vec<u64> = (1..=numbers.len() as u64).collect();
            assert_eq!(numbers, all);
            seen.push(numbers.len());
        }
        seen
    });
    let sink = run_sample(&store);
    assert!(sink.failure().first().is_none(), "{:?}", sink.failure());
    let seen = reader.join().unwrap();
    assert!(seen.is_sorted(), "{seen:?}");
    drop(sink);
    check(&store, "read and written at once");
    assert!(!store.path().join("index.sqlite.broken").exists());
}
