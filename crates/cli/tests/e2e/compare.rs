//! Policies compared: campaigns in the store, a folder that tells what they came to.

use std::path::PathBuf;

use crate::mini::Mini;
use crate::program::{LIMIT, Running, Turn, assert_nothing_runs};
use crate::watch::{signal, until};

/// The folders of comparisons in a test's store.
fn folders(mini: &Mini) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(mini.store().join("e2e-mini@1"));
    let entries = entries.into_iter().flatten().flatten();
    let names = entries.filter(|e| e.file_name().to_string_lossy().starts_with("compare-"));
    names.map(|e| e.path()).collect()
}

#[test]
fn two_policies_are_compared_and_a_lost_campaign_is_run_again() {
    let _turn = Turn::wait(2);
    let mini = Mini::new();
    let mut args = vec!["compare", "mini", "--policies", "survey,scatter"];
    args.extend(["--trials", "2", "--seeds", "1", "--start", "cold"]);
    args.extend(Mini::campaign(&["--json"]).iter().skip(2));
    let output = mini.run(&args);
    let told = output.json();
    let folders = folders(&mini);
    assert_eq!(folders.len(), 1, "{folders:?}");
    let folder = &folders[0];
    for name in ["compare.json", "compare.html", "compare.md"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    let json = std::fs::read_to_string(folder.join("compare.json")).unwrap();
    let mut stored: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(stored, told);
    let campaigns = stored["campaigns"].as_array().unwrap();
    assert_eq!(campaigns.len(), 2, "{stored}");
    let mut bugs = 0;
    for (campaign, policy) in campaigns.iter().zip(["survey", "scatter"]) {
        assert_eq!(campaign["policy"], policy);
        assert_eq!(
            (
                &campaign["seed"],
                &campaign["trials"],
                &campaign["finished"]
            ),
            (&0.into(), &2.into(), &true.into()),
            "{campaign}"
        );
        assert!(campaign["seconds"].as_f64() > Some(0.0), "{campaign}");
        bugs += campaign["bugs"].as_array().unwrap().len();
        let own = folder.with_file_name(campaign["folder"].as_str().unwrap());
        assert!(own.join("campaign.html").is_file() && own.join("baseline.json").is_file());
    }
    let unknown = campaigns
        .iter()
        .any(|c| c["unknown"] != 0 || c["fired"] == 0);
    let code = match (bugs, unknown) {
        (0, false) => 0,
        (0, true) => 2,
        _ => 1,
    };
    output.check(code, &["campaign 1 of 2: survey, seed 0", "compare.html"]);
    // Clean runs are made once: the second campaign begins with its search.
    let second = campaigns[1]["folder"].as_str().unwrap();
    let stream = folder.with_file_name(second).join("campaign.jsonl");
    let stream = std::fs::read_to_string(stream).unwrap();
    assert!(!stream.contains("\"purpose\":\"baseline\""), "no clean run");
    // Nothing is left; without its second campaign, that one is.
    let name = folder.display().to_string();
    let idle = mini.run(&["compare", "--resume", &name, "--json"]);
    assert_eq!(idle.check(code, &[]).json(), told);
    stored["campaigns"].as_array_mut().unwrap().truncate(1);
    std::fs::write(folder.join("compare.json"), stored.to_string()).unwrap();
    // Whoever goes on with it stands somewhere else: the store is the one it was begun in.
    let elsewhere = mini.folder().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let command = mini.command(&["compare", "--resume", &name]);
    let resumed = Running::start(command, &elsewhere).wait(LIMIT);
    assert_nothing_runs(&elsewhere);
    resumed.check(
        code,
        &["campaign 2 of 2: scatter, seed 0", "trials per hour"],
    );
    let again = std::fs::read_to_string(folder.join("compare.json")).unwrap();
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["campaigns"][0], told["campaigns"][0], "not run again");
    assert_eq!(again["campaigns"][1]["trials"], 2, "{again}");
    let second = again["campaigns"][1]["folder"].as_str().unwrap();
    assert!(folder.with_file_name(second).is_dir(), "not beside");
}

#[test]
fn a_comparison_that_is_interrupted_goes_on_in_the_middle_of_a_campaign() {
    let _turn = Turn::wait(2);
    let mini = Mini::new();
    let mut args = vec!["compare", "mini", "--policies", "survey,scatter"];
    args.extend(["--trials", "5", "--seeds", "1", "--start", "cold"]);
    args.extend(Mini::campaign(&[]).iter().skip(2));
    let mut running = mini.start(&args);
    until("a trial is done", || {
        assert!(!running.has_ended(), "ended too soon: {:?}", running.said());
        !mini.searched().is_empty()
    });
    signal(&running, libc::SIGINT);
    let output = running.wait(LIMIT);
    assert_nothing_runs(mini.folder());
    assert!([1, 2].contains(&output.code), "not a pass: {output:#?}");
    output.check(output.code, &["ended early", "compare --resume", "0 of 2"]);
    let folder = folders(&mini).remove(0);
    let stored = std::fs::read_to_string(folder.join("compare.json")).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    let first = &stored["campaigns"][0];
    assert_eq!(first["finished"], false, "{stored}");
    assert!(first["trials"].as_u64() < Some(5), "{stored}");
    let before = mini.searched();
    // Its name in the store is enough.
    let name = folder.file_name().unwrap().to_str().unwrap();
    let resumed = mini.run(&["compare", "--resume", name, "--json"]).json();
    let campaigns = resumed["campaigns"].as_array().unwrap();
    assert_eq!(campaigns.len(), 2, "{resumed}");
    for campaign in campaigns {
        let facts = (&campaign["trials"], &campaign["finished"]);
        assert_eq!(facts, (&5.into(), &true.into()), "{campaign}");
    }
    assert_eq!(campaigns[0]["folder"], first["folder"]);
    for trial in before.keys() {
        let own = folder.with_file_name(first["folder"].as_str().unwrap());
        let outcome = own.join(format!("trials/{trial}/outcome.json"));
        assert_eq!(std::fs::read_to_string(outcome).unwrap(), before[trial].1);
    }
}

#[test]
fn what_cannot_be_compared_is_said_before_anything_runs() {
    let mini = Mini::new();
    let cases: [(&[&str], &[&str]); 8] = [
        (&["mini"], &["--policies"]),
        (&["--policies", "scatter"], &["TARGET"]),
        (
            &["mini", "--policies", "scatter,lucky"],
            &["`lucky`", "survey"],
        ),
        (&["mini", "--policies", "scatter,scatter"], &["twice"]),
        (&["mini", "--policies", "replay"], &["replay"]),
        (
            &["mini", "--policies", "scatter", "--seeds", "0"],
            &["--seeds"],
        ),
        (
            &["mini", "--policies", "scatter", "--faults", "melt"],
            &["melt", "delay"],
        ),
        (
            &["--resume", "no-such", "--trials", "9"],
            &["--resume", "--trials"],
        ),
    ];
    for (args, words) in cases {
        let args = [&["compare"], args].concat();
        mini.run(&args).check(254, words);
    }
    let missing = mini.run(&["compare", "--resume", "no-such"]);
    missing.check(254, &["comparison", "no-such"]);
    assert!(!mini.store().exists(), "nothing was run");
}
