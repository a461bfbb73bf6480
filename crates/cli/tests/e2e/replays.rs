//! Plans given by hand, and bugs shown again.

use crate::mini::Mini;
use crate::program::Turn;

const SYNC: &str = "mini.Node.put(String,String)>java.io.FileDescriptor.sync#0";

/// The bug of the target: an exception in either of these is swallowed, the value is lost.
const LOST_WRITE: [&str; 2] = [
    "mini.Node.pour(FileOutputStream,byte[])>java.io.FileOutputStream.write#0",
    "mini.Node.pourRest(FileOutputStream,byte[])>java.io.FileOutputStream.write#0",
];

fn plan(site: &str, nth: u32) -> String {
    format!(
        "[[step]]\nwhen = {{ at = \"hit\", site = \"{site}\", nth = {nth} }}\n\
         fault = {{ kind = \"crash\" }}\n"
    )
}

/// The bug that a failing write at this site is reported as.
fn lost_write(mini: &Mini, site: &str) -> serde_json::Value {
    let thrown = r#"kind = "throw", exception = "java.io.IOException""#;
    let plan = plan(site, 2).replace(r#"kind = "crash""#, thrown);
    let file = mini.write("lost.toml", &plan);
    let args = Mini::campaign(&[
        "--policy", "replay", "--plan", &file, "--trials", "1", "--json",
    ]);
    let summary = mini.run(&args).check(1, &[]).json();
    summary["bugs"][0].clone()
}

#[test]
fn a_fault_that_is_never_reached_is_reported_as_such() {
    let _turn = Turn::wait(2);
    let mini = Mini::new();
    let file = mini.write("late.toml", &plan(SYNC, 5_000));
    let args = [
        "replay", &file, "--target", "mini", "--times", "2", "--json",
    ];
    let output = mini.run(&args);
    output.check(2, &["never reached"]);
    let summary = output.json();
    assert_eq!(
        (&summary["trials"], &summary["unreached"]),
        (&2.into(), &2.into()),
        "{summary}"
    );
    assert_eq!(summary["fired"], 0, "{summary}");
}

#[test]
fn plans_that_do_not_fit_are_refused_before_anything_runs() {
    let mini = Mini::new();
    let cases: [(&str, String, &[&str]); 5] = [
        (
            "site.toml",
            plan(&SYNC.replace("sync", "synk"), 1),
            &["synk", SYNC, "step 1"],
        ),
        (
            "other.toml",
            plan("mini.Node.putt(String,String)>x#0", 1),
            &["no site", "analyze"],
        ),
        (
            "key.toml",
            plan(SYNC, 1).replace("nth", "nht"),
            &["key.toml", "nht"],
        ),
        (
            "broken.toml",
            "[[step]\n".into(),
            &["broken.toml", "line 1"],
        ),
        (
            "newer.toml",
            "format = 9\n".into(),
            &["newer.toml", "format 9"],
        ),
    ];
    for (name, text, words) in cases {
        let file = mini.write(name, &text);
        mini.run(&["replay", &file, "--target", "mini"])
            .check(254, words);
        let args = ["run", "mini", "--policy", "replay", "--plan", &file];
        mini.run(&args).check(254, words);
    }
    let file = mini.write("fine.toml", &plan(SYNC, 1));
    mini.run(&["replay", &file]).check(254, &["--target"]);
    assert!(
        !mini.store().join("latest/trials/1").exists(),
        "no trial was run"
    );
}

#[test]
fn a_bug_found_on_a_target_in_a_folder_is_shown_again_by_its_id() {
    let _turn = Turn::wait(2);
    let mini = Mini::new();
    let bug = lost_write(&mini, LOST_WRITE[0]);
    let id = bug["id"].as_str().expect("an id").to_string();
    for field in ["signature", "known", "plan", "replay"] {
        assert!(bug.get(field).is_some(), "{field}: {bug}");
    }
    for name in ["report.html", "report.md", "plan.toml", "bug.json"] {
        assert!(
            mini.latest().join("bugs").join(&id).join(name).is_file(),
            "{name}"
        );
    }
    mini.run(&["report"]).check(1, &[&id, "replay"]);
    mini.run(&["report", "--json"]).check(1, &[&id]).json();
    let again = mini.run(&["replay", &id, "--times", "2", "--json"]);
    again.check(1, &["shown 2 of 2"]).json();
    // What is not there lists what is.
    mini.run(&["replay", "no-such-bug"])
        .check(254, &["no-such-bug", &id]);
    mini.run(&["report", "no-such"])
        .check(254, &["no-such", "e2e-mini@1/"]);
    mini.run(&["resume", "no-such"])
        .check(254, &["no-such", "e2e-mini@1/"]);
}

#[test]
fn exceptions_that_one_place_handles_are_one_bug_at_whichever_depth() {
    let _turn = Turn::wait(2);
    let mini = Mini::new();
    let [one, other] = LOST_WRITE.map(|site| lost_write(&mini, site));
    assert_ne!(one["plan"], other["plan"], "{one}");
    assert_eq!(one["id"], other["id"], "{one} {other}");
}
