//! `temblor analyze` and `temblor bench analysis`, as users run them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::mini::Mini;
use crate::program::{LIMIT, Output, Running};

const BAD_ARGUMENTS: i32 = 254;
const SYNC: &str = "mini.Node.put(String,String)>java.io.FileDescriptor.sync#0";

/// Home of a JDK that can compile.
fn jdk_home(mini: &Mini) -> PathBuf {
    let targets = mini.run(&["targets", "--json"]).json();
    let jdks = targets["jdks"].as_array().unwrap();
    let homes = jdks
        .iter()
        .map(|j| PathBuf::from(j["home"].as_str().unwrap()));
    let mut compilers = homes.filter(|home| home.join("bin/javac").is_file());
    compilers
        .next_back()
        .expect("a JDK with javac; ./temblor targets fetch jdk@17")
}

/// Compiles the target's sources into a folder of the test's own, and packs them into a jar.
fn classes_and_jar(mini: &Mini) -> (PathBuf, PathBuf) {
    let home = jdk_home(mini);
    let (classes, lib) = (mini.folder().join("classes"), mini.folder().join("lib"));
    for folder in [&classes, &lib] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let jar = lib.join("mini.jar");
    let sources = mini.target().join("src/mini");
    let mut javac = Command::new(home.join("bin/javac"));
    javac.arg("-d").arg(&classes);
    javac.args([sources.join("Node.java"), sources.join("Workload.java")]);
    let mut pack = Command::new(home.join("bin/jar"));
    pack.arg("cf").arg(&jar).arg("-C").arg(&classes).arg(".");
    for command in [&mut javac, &mut pack] {
        let done = command.output().unwrap();
        assert!(done.status.success(), "{command:?}: {done:?}");
    }
    (classes, jar)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn site_names(output: &Output) -> Vec<String> {
    let all = output.check(0, &[]).json();
    let items = all["items"].as_array().unwrap();
    assert_eq!(all["count"], items.len());
    let name = |item: &Value| item["name"].as_str().unwrap().to_string();
    items.iter().map(name).collect()
}

#[test]
fn the_summary_fits_a_terminal_and_names_what_it_counts() {
    let output = Mini::new().run(&["analyze", "mini"]);
    let words = [
        "e2e-mini@1 on JDK",
        "own classes",
        "sites",
        "java.io.IOException",
        "seconds",
    ];
    output.check(0, &words);
    let widest = output.stdout.lines().map(|l| l.chars().count()).max();
    assert!(widest <= Some(100), "{output:#?}");
    let peak = output
        .stdout
        .lines()
        .find_map(|l| l.strip_prefix("peak memory, MB"));
    let peak: f64 = peak.unwrap().trim().parse().unwrap();
    assert!((1.0..4096.0).contains(&peak), "{output:#?}");
}

#[test]
fn every_list_is_there_for_people_and_machines() {
    let mini = Mini::new();
    let kinds = [
        "sites", "tasks", "states", "regions", "timeouts", "groups", "messages", "meta", "removed",
    ];
    for kind in kinds {
        let lines = mini.run(&["analyze", "mini", "--list", kind]);
        let lines = lines.check(0, &[]).stdout.lines().count();
        let all = mini
            .run(&["analyze", "mini", "--list", kind, "--json"])
            .json();
        assert_eq!(all["what"], kind);
        // An empty list is one line that says so.
        let count = all["count"].as_u64().unwrap();
        assert_eq!(lines as u64, count.max(1), "{kind}");
    }
    mini.run(&["analyze", "mini", "--list", "sights"])
        .check(BAD_ARGUMENTS, &["sights", "sites", "regions"]);
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mini = Mini::new();
    let mut shell = Command::new("bash");
    let script = "set -o pipefail; \"$0\" analyze \"$1\" --list sites | head -n 1";
    shell
        .args(["-c", script])
        .arg(crate::program::temblor())
        .arg(mini.target());
    let output = Running::start(shell, mini.folder()).wait(LIMIT);
    output.check(0, &["mini.Node"]);
    assert!(!output.stderr.contains("panicked"), "{output:#?}");
}

#[test]
fn a_site_is_explained_by_name_part_and_id() {
    let mini = Mini::new();
    let words = [
        SYNC,
        "java.io.SyncFailedException",
        "calls",
        "java.io.FileDescriptor.sync",
    ];
    mini.run(&["analyze", "mini", "--explain", SYNC])
        .check(0, &words);
    let part = mini.run(&[
        "analyze",
        "mini",
        "--explain",
        "FileDescriptor.sync",
        "--json",
    ]);
    let part = part.json();
    let id = part["explained"][0]["id"].as_u64().unwrap().to_string();
    assert_eq!(part["matches"][0], SYNC);
    assert_eq!(
        part["explained"][0]["exceptions"][0]["name"],
        "java.io.SyncFailedException"
    );
    mini.run(&["analyze", "mini", "--explain", &id])
        .check(0, &[SYNC]);
    let words = [
        "no site matches `Descriptor.synk`",
        "nearest",
        SYNC,
        "--list sites",
    ];
    mini.run(&["analyze", "mini", "--explain", "Descriptor.synk"])
        .check(BAD_ARGUMENTS, &words);
    mini.run(&["analyze", "mini", "--explain", "123456"])
        .check(BAD_ARGUMENTS, &["123456"]);
}

#[test]
fn plain_jars_and_class_folders_give_the_sites_of_the_target() {
    let mini = Mini::new();
    let (classes, jar) = classes_and_jar(&mini);
    let sites = |args: &[&str]| {
        let args = [&["analyze"], args, &["--list", "sites", "--json"]].concat();
        site_names(&mini.run(&args))
    };
    let of_target = sites(&["mini"]);
    assert!(of_target.len() > 5 && of_target.contains(&SYNC.to_string()));
    let lib = jar.parent().unwrap();
    for path in [&classes, &jar, &lib.to_path_buf()] {
        assert_eq!(
            sites(&[text(path), "--package", "mini."]),
            of_target,
            "{path:?}"
        );
        assert_eq!(sites(&[text(path)]), of_target, "all is own: {path:?}");
    }
    assert_eq!(
        sites(&[text(&classes), text(&jar)]),
        of_target,
        "the first of a name wins"
    );
    mini.run(&["analyze", text(&jar), "--package", "elsewhere.,other."])
        .check(BAD_ARGUMENTS, &["`elsewhere.` or `other.`", "--package"]);
    let summary = mini.run(&["analyze", "lib", "--json"]).json();
    assert_eq!(summary["target"], "lib", "relative to where one is");
}

#[test]
fn exceptions_on_the_command_line_replace_the_usual_ones() {
    let mini = Mini::new();
    let found = |pattern: &str| -> Vec<String> {
        let args = ["analyze", "mini", "--json", "--exceptions", pattern];
        let summary = mini.run(&args).check(0, &[]).json();
        let found = summary["exceptions"].as_object().unwrap();
        found.keys().cloned().collect()
    };
    let usual = mini.run(&["analyze", "mini", "--json"]).json();
    assert!(
        usual["exceptions"]["java.io.IOException"].is_u64(),
        "{usual}"
    );
    let missing = "java.io.FileNotFoundException";
    assert_eq!(found(missing), [missing]);
    assert_eq!(found("java.io.*NotFoundException"), [missing]);
    let both = ["java.io.SyncFailedException", missing].join(",");
    assert_eq!(found(&both).len(), 2);
    assert_eq!(found("no.such.Thing"), Vec::<String>::new());
}

#[test]
fn input_that_cannot_be_analysed_is_named() {
    let mini = Mini::new();
    let (classes, jar) = classes_and_jar(&mini);
    let bad = |args: &[&str], words: &[&str]| {
        let args = [&["analyze"], args].concat();
        mini.run(&args).check(BAD_ARGUMENTS, words);
    };
    let whole = std::fs::read(&jar).unwrap();
    let cut = mini.folder().join("cut.jar");
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    bad(&["cut.jar"], &["cut.jar", "damaged"]);
    bad(&[text(&classes), "cut.jar"], &["cut.jar", "damaged"]);
    bad(&["no-such.jar"], &["no file or folder `no-such.jar`"]);
    bad(
        &["./lib", "./elsewhere"],
        &["no file or folder `./elsewhere`"],
    );
    bad(
        &["triio"],
        &["no target `triio`", "trio@1", "no file or folder"],
    );
    bad(&["./lib", "trio"], &["`trio` is a target", "--diff"]);
    std::fs::create_dir(mini.folder().join("empty")).unwrap();
    bad(&["empty"], &["empty holds neither jars nor classes"]);
    bad(&["lib", "--jdk", "98"], &["98"]);
    bad(
        &["mini", "--package", "mini."],
        &["--package", "target.toml"],
    );
    bad(&[], &["TARGET|PATH"]);
    bad(&["mini", "--out", "nowhere/x.json"], &["nowhere/x.json"]);
    bad(&["--diff", "mini"], &["--diff"]);
    bad(&["--diff", "mini", "no-such"], &["no target `no-such`"]);
}

#[test]
fn the_catalog_is_written_whole() {
    let mini = Mini::new();
    let summary = mini
        .run(&["analyze", "mini", "--json", "--out", "catalog.json"])
        .json();
    let bytes = std::fs::read(mini.folder().join("catalog.json")).unwrap();
    let catalog: temblor_model::catalog::SiteCatalog = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(summary["sites"], catalog.sites.len());
    assert_eq!(summary["blocks"], catalog.block_count);
    assert!(catalog.by_name(SYNC).is_some());
}

#[test]
fn two_versions_differ_by_what_was_changed() {
    let old = Mini::new();
    let new = Mini::new();
    let node = new.target().join("src/mini/Node.java");
    let source = std::fs::read_to_string(&node).unwrap();
    let (twice, gone) = ("file.getFD().sync();", "socket.getOutputStream().write");
    assert!(source.contains(twice) && source.contains(gone));
    let source = source.replace(twice, &twice.repeat(2));
    std::fs::write(&node, source.replace(gone, "System.out.write")).unwrap();
    let (a, b) = (classes_and_jar(&old).1, classes_and_jar(&new).1);
    let all = old.run(&["analyze", "--diff", text(&a), text(&b), "--json"]);
    let all = all.check(0, &[]).json();
    let added: Vec<&str> = all["sites"]["added"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_str().unwrap())
        .collect();
    assert!(added.contains(&SYNC.replace("#0", "#1").as_str()), "{all}");
    let removed = all["sites"]["removed"].to_string();
    assert!(
        removed.contains("mini.Node.serve(Socket)>java.io.OutputStream.write#0"),
        "{all}"
    );
    let changed = all["classes"]["changed"].as_array().unwrap();
    assert_eq!(changed.len(), 1, "{all}");
    assert_eq!(changed[0]["name"], "mini.Node");
    let text_output = old.run(&["analyze", "--diff", text(&a), text(&b)]);
    text_output.check(
        0,
        &[
            "before",
            "sites added",
            "+ mini.Node.put",
            "- mini.Node.serve",
        ],
    );
    let none = old
        .run(&["analyze", "--diff", "mini", text(&a)])
        .check(0, &[])
        .stdout
        .clone();
    assert!(
        !none.contains("sites added") && !none.contains("sites removed"),
        "{none}"
    );
}

#[test]
fn the_second_analysis_comes_from_the_cache_unless_it_may_not() {
    let mini = Mini::new();
    let analyze = |more: &[&str]| {
        let args = [&["analyze", "mini", "--json"], more].concat();
        mini.run(&args).check(0, &[]).json()
    };
    analyze(&[]);
    let (kept, cold) = (analyze(&[]), analyze(&["--no-cache"]));
    assert_eq!(kept["from_cache"], true);
    assert_eq!(cold["from_cache"], false);
    assert_eq!(cold["sources_from_cache"], 0);
    let same = [
        "classes",
        "methods",
        "code_bytes",
        "sites",
        "blocks",
        "exceptions",
        "io",
    ];
    for field in same {
        assert_eq!(kept[field], cold[field], "{field}");
        assert!(!cold[field].is_null(), "{field}");
    }
    let other = analyze(&["--exceptions", "no.such.Thing"]);
    assert_eq!(other["throwing_sites"], 0, "other settings, another result");
}

#[test]
fn the_bench_of_the_analysis_measures_a_process_of_its_own() {
    let mini = Mini::new();
    let output = mini.run(&["bench", "analysis", "mini", "--rounds", "2", "--json"]);
    let all = output.check(0, &[]).json();
    let row = &all["rows"][0];
    assert_eq!(row["target"], "e2e-mini@1");
    assert_eq!(row["all_seconds"].as_array().unwrap().len(), 2);
    assert!(
        row["seconds"].as_f64() > Some(0.0) && row["ok"] == true,
        "{all}"
    );
    assert!(row["peak_mb"].as_f64() > Some(1.0), "{all}");
    assert!(all["fit"].is_null(), "one target is no curve: {all}");
    let table = mini.run(&["bench", "analysis", "mini", "--rounds", "1"]);
    table.check(0, &["e2e-mini@1", "peak MB", "8 s hold"]);
    mini.run(&["bench", "analysis", "no-such"])
        .check(BAD_ARGUMENTS, &["no target `no-such`"]);
}
