//! Several policies on one target: the table, the curves, what is stored, what is left to run.

use std::path::Path;

use temblor_model::campaign::{CampaignEvent, CampaignSpec, EventSink, Purpose, Summary, Tally};
use temblor_report::console::Paint;
use temblor_report::contest::{Entry, Exposed, Over, Turn, median_steps, steps};
use temblor_report::{Contest, Store, StoreError, StoreSink, find_contest, html, publish};

use crate::pages::{assert_balanced, assert_harmless};
use crate::sample;

fn exposed(key: &str, trial: u64, seconds: f64) -> Exposed {
    Exposed {
        key: key.into(),
        known: key.starts_with("KNOWN").then(|| key.into()),
        id: format!("stuck-{key}"),
        title: format!("{key} {}", sample::HOSTILE),
        trial,
        seconds: Some(seconds),
    }
}

fn entry(policy: &str, seed: u64, bugs: Vec<Exposed>) -> Entry {
    Entry {
        policy: policy.into(),
        seed,
        folder: format!("t-{policy}-{seed}"),
        finished: true,
        trials: 200,
        fired: 180,
        unreached: 20,
        unknown: 1,
        injections: 190 + seed,
        seconds: 600.0 + 60.0 * seed as f64,
        bugs,
    }
}

/// Two of three policies have run; the third has only begun.
fn contest() -> Contest {
    let policies = ["exhaustive", "random", "pairs"].map(String::from);
    let mut contest = Contest::new(sample::spec(), policies.to_vec(), vec![0, 1, 2]);
    let known = |trial| exposed("KNOWN-1", trial, 6.0 * trial as f64);
    for entry in [
        entry("exhaustive", 0, vec![known(12), exposed("b", 40, 130.0)]),
        entry("random", 0, vec![exposed("c", 3, 9.0)]),
        entry("exhaustive", 1, vec![known(20), exposed("b", 90, 250.0)]),
        entry("random", 1, vec![known(101), exposed("c", 7, 30.0)]),
        entry("exhaustive", 2, vec![known(13)]),
        entry("random", 2, Vec::new()),
    ] {
        contest.put(entry);
    }
    contest
}

#[test]
fn the_table_reads_well_as_text() {
    let text = contest().lines(Paint(false)).join("\n");
    let (table, titles) = text.rsplit_once("\n\n").unwrap();
    let expected = "\
trio@1 · 3 policies with 3 seeds · 60 trials each · 6 of 9 campaigns done

bug                 exhaustive              random                    pairs
KNOWN-1             3/3, trial 13, 1.3 min  1/3, trial 101, 10.1 min  –
stuck-b             2/3, trial 65, 3.2 min  –                         –
stuck-c             –                       2/3, trial 5, 0.3 min     –

bugs in total       2                       1                         –
bugs with any seed  2                       2                         –
trials              200                     200                       –
trials per hour     1091                    1091                      –
injections fired    191                     191                       –";
    assert_eq!(table, expected);
    assert_eq!(titles.lines().count(), 3);
    assert!(!text.contains('\x1b'), "hostile titles stay on their line");
}

#[test]
fn markdown_and_page_are_complete_and_harmless() {
    let contest = contest();
    let text = contest.markdown("store/trio@1/compare-t");
    for part in [
        "| bug | exhaustive | random | pairs |",
        "| 3/3, trial 13, 1.3 min |",
        "| *trials per hour* | 1091 | 1091 | – |",
        "| random, seed 2: `t-random-2` | 200 | 0 | 12.0 |",
        "./temblor compare --resume store/trio@1/compare-t",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("<script>"));
    let page = html::contest(&contest, "store/trio@1/compare-t");
    assert_balanced(&page);
    assert_harmless(&page);
    // In each of two plots: three seeds and the median of two policies; and their legends.
    assert_eq!(page.matches("<path class=\"curve c0 seed\"").count(), 2 * 3);
    assert_eq!(page.matches("<path class=\"curve c1\"").count(), 2 * 2);
    assert_eq!(page.matches("<td>not begun</td>").count(), 3);
    assert!(page.contains("href=\"../t-random-0/bugs/stuck-c/report.html\""));
    assert!(page.contains("not finished"));
}

#[test]
fn curves_never_fall_and_end_where_the_campaigns_did() {
    let contest = contest();
    for policy in ["exhaustive", "random"] {
        let entries = contest.of_policy(policy);
        for over in [Over::Trials, Over::Minutes] {
            let mut curves: Vec<_> = entries.iter().map(|e| steps(e, over)).collect();
            curves.push(median_steps(&entries, over));
            for curve in curves {
                for pair in curve.windows(2) {
                    assert!(
                        pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1,
                        "{curve:?}"
                    );
                }
            }
        }
    }
    let exhaustive = contest.of_policy("exhaustive");
    let median = median_steps(&exhaustive, Over::Trials);
    let steps: Vec<(f64, f64)> = vec![
        (12.0, 0.0),
        (13.0, 1.0),
        (20.0, 1.0),
        (40.0, 1.0),
        (90.0, 2.0),
        (200.0, 2.0),
    ];
    assert_eq!(median, steps);
    let median = median_steps(&exhaustive, Over::Minutes);
    assert_eq!(median.last(), Some(&(12.0, 2.0)));
    assert_eq!(median_steps(&[], Over::Trials), []);
}

#[test]
fn what_is_missing_and_what_was_begun_is_left() {
    let mut contest = contest();
    let half = Entry {
        finished: false,
        trials: 3,
        ..entry("pairs", 1, Vec::new())
    };
    contest.put(half);
    let turn = |seed, folder: Option<&str>| Turn {
        policy: "pairs".into(),
        seed,
        folder: folder.map(String::from),
    };
    let left = contest.left();
    assert_eq!(
        left,
        [turn(0, None), turn(1, Some("t-pairs-1")), turn(2, None)]
    );
    let spec = contest.spec_of(&left[1]);
    assert_eq!((spec.policy.as_str(), spec.seed), ("pairs", 1));
    assert_eq!(spec.trials, contest.spec.trials);
    for seed in 0..3 {
        contest.put(entry("pairs", seed, Vec::new()));
    }
    assert_eq!((contest.left(), contest.done()), (Vec::new(), (9, 9)));
    assert_eq!(contest.campaigns.len(), 9, "entries are replaced");
    assert!(!contest.markdown("x").contains("--resume"));
}

#[test]
fn a_stored_contest_is_found_and_read_again() {
    let root = tempfile::tempdir().unwrap();
    let contest = contest();
    let folder = contest
        .create_folder(root.path(), "20260101-120000")
        .unwrap();
    assert!(folder.ends_with("trio@1/compare-20260101-120000"));
    let page = publish::contest(&contest, &folder).unwrap();
    assert_eq!(Contest::open(&folder).unwrap(), contest);
    let line: Contest = serde_json::from_str(&contest.json()).unwrap();
    assert_eq!(line, contest);
    for wanted in [
        folder.display().to_string(),
        page.display().to_string(),
        "trio@1/compare-20260101-120000".into(),
        "compare-20260101-120000".into(),
    ] {
        assert_eq!(find_contest(root.path(), &wanted).unwrap(), folder);
    }
    let error = find_contest(root.path(), "compare-2025").unwrap_err();
    assert!(error.to_string().contains("trio@1/compare-20260101-120000"));
    // A second one in the same second, and one of a version to come.
    let second = contest
        .create_folder(root.path(), "20260101-120000")
        .unwrap();
    assert_ne!(second, folder);
    let newer = Contest {
        format: Contest::FORMAT + 1,
        ..contest
    };
    publish::contest(&newer, &second).unwrap();
    assert!(matches!(
        Contest::open(&second),
        Err(StoreError::Newer { .. })
    ));
}

/// The sample campaign in two sessions: killed after trial 30, then resumed.
fn two_sessions(root: &Path) -> Store {
    let spec: CampaignSpec = sample::spec();
    let store = Store::create(root, &spec, "t").unwrap();
    let mut sink = StoreSink::new(store.clone());
    for event in sample::campaign("store") {
        let first = matches!(&event, CampaignEvent::TrialStarted { trial: 31, .. });
        if first {
            sink.event(&CampaignEvent::Started {
                spec: spec.clone(),
                store: "store".into(),
                sites: 412,
                before: Tally {
                    trials: 30,
                    ..Tally::default()
                },
                bugs: 0,
            });
        }
        sink.event(&match event {
            // The clock of a session begins with it.
            CampaignEvent::TrialDone {
                trial,
                plan,
                outcome,
                ..
            } => CampaignEvent::TrialDone {
                trial,
                purpose: Purpose::Search,
                plan,
                outcome,
                at_s: Some(match trial {
                    0..=30 => trial as f64 * 2.0,
                    later => (later - 30) as f64 * 3.0,
                }),
            },
            CampaignEvent::Finished { summary } => CampaignEvent::Finished {
                summary: Summary {
                    search_seconds: 95.0,
                    ..summary
                },
            },
            other => other,
        });
    }
    assert!(sink.failure().first().is_none(), "{:?}", sink.failure());
    store
}

#[test]
fn a_campaign_tells_when_it_exposed_its_bugs() {
    let root = tempfile::tempdir().unwrap();
    let entry = Entry::gather(&two_sessions(root.path()), true).unwrap();
    assert_eq!((entry.policy.as_str(), entry.seed), ("exhaustive", 7));
    assert_eq!((entry.folder.as_str(), entry.finished), ("t", true));
    assert_eq!((entry.trials, entry.fired, entry.unreached), (60, 52, 8));
    assert_eq!((entry.unknown, entry.injections), (2, 52));
    assert_eq!(entry.seconds, 30.0 * 2.0 + 95.0, "two sessions");
    let bugs = entry.bugs.iter();
    let bugs: Vec<_> = bugs.map(|b| (b.key.as_str(), b.trial, b.seconds)).collect();
    assert_eq!(
        bugs,
        [
            ("snapshot-under-lock", 12, Some(24.0)),
            ("crash+restart+partition → crash: n3 exits", 31, Some(63.0)),
        ]
    );
}
