//! Policies compared: campaigns in the store, a folder that tells what they came to.

use std::path::PathBuf;

use crate::mini::Mini;
use crate::program::Turn;

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
    let mut args = vec!["compare", "mini", "--policies", "exhaustive,random"];
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
    for (campaign, policy) in campaigns.iter().zip(["exhaustive", "random"]) {
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
    output.check(
        code,
        &["campaign 1 of 2: exhaustive, seed 0", "compare.html"],
    );
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
    let resumed = mini.run(&["compare", "--resume", &name]);
    resumed.check(
        code,
        &["campaign 2 of 2: random, seed 0", "trials per hour"],
    );
    let again = std::fs::read_to_string(folder.join("compare.json")).unwrap();
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["campaigns"][0], told["campaigns"][0], "not run again");
    assert_eq!(again["campaigns"][1]["trials"], 2, "{again}");
}

#[test]
fn what_cannot_be_compared_is_said_before_anything_runs() {
    let mini = Mini::new();
    let cases: [(&[&str], &[&str]); 8] = [
        (&["mini"], &["--policies"]),
        (&["--policies", "random"], &["TARGET"]),
        (
            &["mini", "--policies", "random,lucky"],
            &["`lucky`", "exhaustive"],
        ),
        (&["mini", "--policies", "random,random"], &["twice"]),
        (&["mini", "--policies", "replay"], &["replay"]),
        (
            &["mini", "--policies", "random", "--seeds", "0"],
            &["--seeds"],
        ),
        (
            &["mini", "--policies", "random", "--faults", "melt"],
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
