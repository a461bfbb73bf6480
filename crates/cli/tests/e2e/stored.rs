//! A stored campaign: paused from outside, claimed by one process, thinned, judged again.

use crate::mini::Mini;
use crate::program::{LIMIT, Turn, assert_nothing_runs};
use crate::watch::until;

#[test]
fn a_campaign_is_paused_from_outside_and_judged_again_as_it_was() {
    let _turn = Turn::wait(1);
    let mini = Mini::new();
    let mut running = mini.start(&Mini::campaign(&["--trials", "500"]));
    until("three trials are done", || {
        assert!(!running.has_ended(), "ended too soon: {:?}", running.said());
        mini.searched().len() > 2
    });
    // Not `run`, which looks for processes that are left: the campaign's own are there.
    let second = mini.start(&["resume"]).wait(LIMIT);
    second.check(254, &["runs this campaign already", "temblor pause"]);
    let paused = mini.start(&["pause"]).wait(LIMIT);
    paused.check(0, &["paused", "temblor resume"]);
    let output = running.wait(LIMIT);
    assert_nothing_runs(mini.folder());
    assert!([1, 2].contains(&output.code), "not a pass: {output:#?}");
    assert!(output.stderr.contains("temblor resume"), "{output:#?}");
    assert!(mini.latest().join("campaign.html").is_file());
    mini.run(&["pause"]).check(0, &["not running"]);

    // Of trials that passed only what is judged was kept, and it is judged the same.
    let (mut whole, mut thin) = (0, 0);
    for (trial, (_, outcome)) in mini.searched() {
        let folder = mini.latest().join("trials").join(trial.to_string());
        let outcome: serde_json::Value = serde_json::from_str(&outcome).unwrap();
        let passed = outcome["verdict"] == "pass";
        assert_eq!(!folder.join("nodes").exists(), passed, "trial {trial}");
        assert_eq!(folder.join("events.jsonl.gz").exists(), passed);
        *if passed { &mut thin } else { &mut whole } += 1;
    }
    assert!(thin > 0, "{whole} whole");
    let checked = mini.run(&["check", "--json"]);
    assert_eq!(checked.code, 0, "{checked:#?}");
    let checked = checked.json();
    assert_eq!(checked["changed"], serde_json::json!([]), "{checked}");
    // The clean run too.
    assert_eq!(checked["judged"], thin + whole + 1, "{checked}");
    let latest = mini.latest().display().to_string();
    let compared = mini.run(&["report", "--compare", "latest", &latest]);
    compared.check(0, &["search trials"]);
    assert!(mini.store().join("compared/comparison.html").is_file());
}
