//! What scripts rely on: one JSON object, exit codes, the same plans for the same seed.

use temblor_model::plan::Plan;

use crate::mini::Mini;
use crate::program::Turn;

fn plans(args: &[&str]) -> Vec<Plan> {
    let mini = Mini::new();
    let output = mini.run(&Mini::campaign(args));
    assert!([0, 1, 2].contains(&output.code), "{output:#?}");
    mini.plans()
}

#[test]
fn the_same_seed_gives_the_same_plans_however_many_jobs() {
    let _turn = Turn::wait(2);
    for policy in ["survey", "scatter"] {
        let run = |seed: &str, jobs: &str| {
            plans(&[
                "--policy", policy, "--seed", seed, "--jobs", jobs, "--trials", "4",
            ])
        };
        let one = run("7", "1");
        assert_eq!(one.len(), 4, "{policy}");
        assert_eq!(one, run("7", "2"), "{policy}");
        assert_ne!(one, run("8", "2"), "{policy}");
    }
}

#[test]
fn json_is_one_object_and_nothing_else() {
    let _turn = Turn::wait(1);
    let mini = Mini::new();
    let output = mini.run(&Mini::campaign(&["--trials", "2", "--json"]));
    let summary = output.json();
    assert_eq!(summary["trials"], 2, "{summary}");
    for field in ["fired", "unreached", "unknown"] {
        assert!(summary[field].is_u64(), "{field}: {summary}");
    }
    assert!(
        summary["bugs"].is_array() && summary["seconds"].is_number(),
        "{summary}"
    );
    assert!(
        output.stderr.contains("clean"),
        "progress is on stderr: {output:#?}"
    );
    let bugs = summary["bugs"].as_array().unwrap().len();
    assert_eq!(output.code, if bugs > 0 { 1 } else { 0 }, "{output:#?}");
}

#[test]
fn looking_commands_print_json_that_parses() {
    let mini = Mini::new();
    let analysis = mini.run(&["analyze", "mini", "--json"]);
    let analysis = analysis.check(0, &[]).json();
    assert_eq!(analysis["target"], "e2e-mini@1");
    assert!(analysis["sites"].as_u64() > Some(5), "{analysis}");
    let targets = mini.run(&["targets", "--json"]);
    let targets = targets.check(0, &[]).json();
    let names: Vec<_> = targets["targets"].as_array().unwrap().iter().collect();
    assert!(names.iter().any(|t| t["name"] == "trio"), "{targets}");
    assert!(!targets["jdks"].as_array().unwrap().is_empty(), "{targets}");
    let doctor = mini.run(&["doctor", "--json"]).json();
    let findings = doctor["findings"].as_array().unwrap();
    assert!(
        findings
            .iter()
            .any(|f| f["what"] == "libtemblor_agent.so" && f["ok"] == true)
    );
    let sites = mini.run(&["analyze", "mini", "--list", "sites"]);
    sites.check(
        0,
        &["mini.Node.put(String,String)>java.io.FileDescriptor.sync#0"],
    );
}
