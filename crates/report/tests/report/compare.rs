//! Two campaigns side by side: which bugs are the same, and what is said of them.

use std::path::Path;

use temblor_model::bug::Bug;
use temblor_model::campaign::{CampaignEvent, EventSink};
use temblor_report::compare::{Found, SameBug, of_views};
use temblor_report::console::Paint;
use temblor_report::view::CampaignView;
use temblor_report::{Comparison, Store, StoreSink, compare, publish};

use crate::folded::{folded, sample_view};
use crate::sample;

fn third_bug() -> Bug {
    Bug {
        id: "cc00dd11".into(),
        signature: "throw | death".into(),
        title: "n2 dies".into(),
        known: None,
        trials: vec![60],
        ..sample::crash_bug()
    }
}

/// The other campaign: finds the delay bug under another signature but the same known id, not
/// the crash bug, and a third one at the end; trial 44 was lost.
fn other_events() -> Vec<CampaignEvent> {
    let change = |event| match event {
        CampaignEvent::BugFound { bug } if bug.id == sample::crash_bug().id => {
            Some(CampaignEvent::BugFound { bug: third_bug() })
        }
        CampaignEvent::BugFound { bug } => Some(CampaignEvent::BugFound {
            bug: Bug {
                signature: "another".into(),
                ..bug
            },
        }),
        CampaignEvent::TrialDone { trial: 44, .. } => None,
        other => Some(other),
    };
    let events = sample::campaign("store/trio@1/t").into_iter();
    events.filter_map(change).collect()
}

fn other_view() -> CampaignView {
    let mut spec = sample::spec();
    spec.policy = "random".into();
    spec.seed = 8;
    folded(spec, other_events())
}

fn two() -> Comparison {
    of_views(&sample_view(), &other_view())
}

fn ids(bugs: &[SameBug]) -> Vec<(Vec<&str>, Vec<&str>)> {
    fn names(found: &[Found]) -> Vec<&str> {
        found.iter().map(|f| f.id.as_str()).collect()
    }
    bugs.iter().map(|b| (names(&b.a), names(&b.b))).collect()
}

#[test]
fn bugs_are_the_same_by_known_id_else_by_signature() {
    let c = two();
    assert_eq!(ids(&c.both), [(vec!["b3f9c1d2"], vec!["b3f9c1d2"])]);
    assert_eq!(ids(&c.only_a), [(vec!["77aa01fe"], vec![])]);
    assert_eq!(ids(&c.only_b), [(vec![], vec!["cc00dd11"])]);
    assert_eq!(c.both[0].known.as_deref(), Some("snapshot-under-lock"));
    assert_eq!(c.both[0].b[0].signature, "another");
}

#[test]
fn one_bug_ties_others_together_by_id_and_by_signature() {
    let (mut a, mut b) = (sample_view(), sample_view());
    // In A a second signature of the known bug; in B that signature, not yet known.
    let second = |known: Option<&str>| Bug {
        id: "ee000000".into(),
        signature: "second".into(),
        known: known.map(str::to_owned),
        trials: vec![50],
        ..sample::delay_bug()
    };
    let known = second(Some("snapshot-under-lock"));
    a.bugs.push((known, String::new()));
    b.bugs.push((second(None), String::new()));
    let c = of_views(&a, &b);
    assert_eq!(
        ids(&c.both),
        [
            (vec!["b3f9c1d2", "ee000000"], vec!["b3f9c1d2", "ee000000"]),
            (vec!["77aa01fe"], vec!["77aa01fe"]),
        ]
    );
    assert_eq!(
        (c.a.signatures, c.a.found_after.as_slice()),
        (3, &[12, 31][..])
    );
}

#[test]
fn sides_are_counted_from_their_own_stores() {
    let c = two();
    assert_eq!((c.a.trials, c.b.trials), (60, 59));
    let v = c.a.verdicts;
    assert_eq!((v.pass, v.unknown, v.fail), (54, 2, 4));
    assert_eq!((c.a.fired, c.a.unreached), (52, 8));
    assert_eq!((c.a.sites, c.a.contexts), (1, 1));
    assert_eq!(c.a.found_after, [12, 31]);
    // Trial 44 is not whole in B: what came after it took one search trial less.
    assert_eq!(c.b.found_after, [12, 59]);
    assert_eq!(c.only_b[0].b[0].trial, 60);
    assert_eq!(c.a.seconds, Some(96.4));
    let rate = c.a.trials_per_hour.unwrap();
    assert!((rate - 60.0 * 3600.0 / 96.4).abs() < 1e-6, "{rate}");
    let differ: Vec<_> = c.differ.iter().map(|d| (d.what, &*d.a, &*d.b)).collect();
    assert_eq!(
        differ,
        [("policy", "exhaustive", "random"), ("seed", "7", "8")]
    );
}

#[test]
fn a_killed_session_leaves_the_rate_unknown() {
    let events = other_events().into_iter();
    let killed = events.filter(|e| !matches!(e, CampaignEvent::Finished { .. }));
    let c = of_views(&sample_view(), &folded(sample::spec(), killed));
    assert!(c.b.unfinished);
    assert_eq!((c.b.seconds, c.b.trials_per_hour), (None, None));
    let rows = c.rows();
    let rate = rows.iter().find(|(name, _)| *name == "trials per hour");
    assert_eq!(rate.unwrap().1, ["2241", "–"]);
}

#[test]
fn a_comparison_reads_well_as_text_markdown_and_json() {
    let c = two();
    let text = c.lines(Paint(false)).join("\n");
    assert!(!text.contains('\x1b'), "hostile titles stay on their line");
    for line in [
        "   policy: exhaustive in A, random in B",
        "bugs                             2             2",
        "trials per hour               2241          2203",
        "1 bug in both",
        "    A  b3f9c1d2 after 12 trials, confirmed 3 of 3",
        "1 bug only in A",
        "1 bug only in B",
        "    B  cc00dd11 after 59 trials, confirmed 2 of 3",
    ] {
        assert!(
            text.lines().any(|l| l == line),
            "{line:?} is missing in\n{text}"
        );
    }
    let text = c.markdown();
    for part in [
        "| search trials | 60 | 59 |",
        "## 1 bug in both",
        "`snapshot-under-lock` | b3f9c1d2 after 12 trials",
        "| n2 dies |  | – | cc00dd11 after 59 trials, confirmed 2 of 3 |",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("<script>"));
    let json: serde_json::Value = serde_json::from_str(&c.json()).unwrap();
    assert_eq!(json["format"], 1);
    assert_eq!(json["a"]["verdicts"]["fail"], 4);
    assert_eq!(json["only_b"][0]["b"][0]["after"], 59);
    assert!(json["only_b"][0].get("known").is_none());
}

/// The first trials of a campaign, on disk.
fn stored(root: &Path, name: &str, events: Vec<CampaignEvent>) -> Store {
    let store = Store::create(root, &sample::spec(), name).unwrap();
    let mut sink = StoreSink::new(store.clone());
    for event in events {
        let kept = match &event {
            CampaignEvent::TrialStarted { trial, .. } | CampaignEvent::TrialDone { trial, .. } => {
                *trial <= 12
            }
            CampaignEvent::BugFound { .. } => true,
            CampaignEvent::BugSeen { .. } => false,
            _ => true,
        };
        if kept {
            sink.event(&event);
        }
    }
    assert!(sink.failure().first().is_none(), "{:?}", sink.failure());
    store
}

#[test]
fn the_page_links_to_both_stores_and_is_harmless() {
    let root = tempfile::tempdir().unwrap();
    let a = stored(root.path(), "a", sample::campaign("store"));
    let b = stored(root.path(), "b", other_events());
    let c = compare(&a, &b).unwrap();
    assert_eq!((c.a.trials, c.b.trials, c.both.len()), (12, 12, 1));
    assert_eq!(c.a.seconds, Some(96.4), "the one session's");
    let folder = root.path().join("compared");
    let page = publish::comparison(&c, &folder).unwrap();
    assert_eq!(page, folder.join("comparison.html"));
    let text = std::fs::read_to_string(&page).unwrap();
    crate::pages::assert_balanced(&text);
    crate::pages::assert_harmless(&text);
    assert_eq!(text.matches("<path class=\"curve").count(), 2);
    for link in [
        "../trio@1/a/campaign.html",
        "../trio@1/a/bugs/77aa01fe/report.html",
        "../trio@1/b/bugs/cc00dd11/report.html",
    ] {
        assert!(text.contains(&format!("href=\"{link}\"")), "{link}");
        assert!(folder.join(link).is_file(), "{link}");
    }
    let json = std::fs::read_to_string(folder.join("comparison.json")).unwrap();
    assert_eq!(json, c.json() + "\n");
    assert!(folder.join("comparison.md").is_file());
}
