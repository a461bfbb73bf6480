//! The states of tasks: the page, the export, and what is said where there are none.

use std::fs;
use std::path::Path;

use temblor_model::campaign::{CampaignEvent, EventSink};
use temblor_model::catalog::{Place, SiteCatalog, State, Task, TaskKind};
use temblor_model::history::Baseline;
use temblor_model::visit::Move;
use temblor_report::machines::Machines;
use temblor_report::{Store, StoreSink, html, publish};

use crate::pages::{assert_balanced, assert_harmless};
use crate::sample;

fn catalog() -> SiteCatalog {
    let task = |id, name: &str| Task {
        id,
        name: name.into(),
        kind: TaskKind::Runnable,
        closure: false,
        place: Place::default(),
        variables: Vec::new(),
    };
    let state = |id, task: u32, index, condition: &str| State {
        id,
        name: format!("x.Task{task}.run():{index}"),
        task,
        index,
        place: Place::default(),
        condition: condition.into(),
    };
    SiteCatalog {
        format: SiteCatalog::FORMAT,
        tasks: vec![task(0, "x.Task0.run()"), task(1, sample::HOSTILE)],
        states: vec![
            state(0, 0, 0, ""),
            state(1, 1, 0, ""),
            state(2, 1, 1, sample::HOSTILE),
            state(3, 1, 2, "never"),
        ],
        ..SiteCatalog::default()
    }
}

fn moves() -> Vec<Move> {
    let one = |node: &str, from, to, count| Move {
        node: node.into(),
        from,
        to,
        count,
    };
    vec![
        one("n1", None, 0, 3),
        one("n1", None, 1, 4),
        one("n2", Some(1), 2, 5),
        one(sample::HOSTILE, Some(2), 1, 6),
    ]
}

/// The sample campaign, with these moves in its clean runs.
fn stored(root: &Path, moves: Vec<Move>) -> Store {
    let store = Store::create(root, &sample::spec(), "t").unwrap();
    store.write_catalog(&catalog()).unwrap();
    let mut sink = StoreSink::new(store.clone());
    for event in sample::campaign("store") {
        sink.event(&match event {
            CampaignEvent::BaselineDone { baseline } => CampaignEvent::BaselineDone {
                baseline: Baseline {
                    moves: moves.clone(),
                    ..baseline
                },
            },
            other => other,
        });
    }
    assert!(sink.failure().first().is_none(), "{:?}", sink.failure());
    store
}

fn read(store: &Store, name: &str) -> String {
    fs::read_to_string(store.path().join(name)).unwrap()
}

#[test]
fn the_page_is_well_formed_harmless_and_complete() {
    let machines = Machines::of(&catalog(), &moves());
    let page = html::machines("trio@1", &machines);
    assert_balanced(&page);
    // A condition is broken between words, and so is what it is known by.
    assert_harmless(&page.replace(">src=x", ">"));
    assert_eq!(page.matches("<svg class=\"machine\"").count(), 1);
    assert_eq!(page.matches("<g class=\"state\"").count(), 2);
    assert_eq!(page.matches("<g class=\"edge").count(), 3);
    assert!(page.contains("2 of 3 states reached"));
    assert!(page.contains("begins 0: 4 times (n1 4)"));
    let (_, listed) = page.split_once("<details>").unwrap();
    assert!(listed.contains("x.Task0.run()"), "with one state: listed");
}

#[test]
fn a_campaign_has_the_page_and_links_to_it() {
    let root = tempfile::tempdir().unwrap();
    let store = stored(root.path(), moves());
    assert!(read(&store, "campaign.html").contains("href=\"states.html\""));
    assert!(read(&store, "states.html").contains("<svg class=\"machine\""));
    let export: Machines = serde_json::from_str(&read(&store, "machines.json")).unwrap();
    assert_eq!(export, Machines::of(&catalog(), &moves()));
    let edge = &export.machines[0].edges[2];
    assert_eq!(edge.from.as_deref(), Some("x.Task1.run():1"));
    assert_eq!((edge.to.as_str(), edge.count), ("x.Task1.run():0", 6));
    // `report` makes them again.
    for name in ["states.html", "machines.json"] {
        fs::remove_file(store.path().join(name)).unwrap();
    }
    publish::campaign(&store).unwrap();
    assert!(read(&store, "states.html").contains("<svg class=\"machine\""));
    assert!(store.path().join("machines.json").is_file());
}

#[test]
fn where_states_were_not_tracked_the_page_says_so() {
    let root = tempfile::tempdir().unwrap();
    let store = stored(root.path(), Vec::new());
    let page = read(&store, "states.html");
    assert_balanced(&page);
    assert!(page.contains("States were not tracked"));
    assert!(!page.contains("<svg"));
    assert!(!read(&store, "campaign.html").contains("states.html"));
    for link in ["campaign.html", "machines.json"] {
        assert!(page.contains(&format!("href=\"{link}\"")));
        assert!(store.path().join(link).is_file(), "{link}");
    }
}
