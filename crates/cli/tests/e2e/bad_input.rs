//! What a user may get wrong: each mistake is one clear error, and nothing is left running.

use crate::mini::Mini;
use crate::program::Turn;

const BAD_ARGUMENTS: i32 = 254;
const ERROR: i32 = 255;

#[test]
fn a_broken_target_file_says_where_and_what_was_meant() {
    let cases: [(&str, &str, &[&str]); 5] = [
        ("within_ms", "withn_ms", &["withn_ms", "within_ms"]),
        ("client = 7300", "client = \"x\"", &["node.ports.client"]),
        ("[log]", "[logs]", &["logs", "`log`"]),
        ("(?<message>", "(?<text>", &["(?<message>...)", "log.line"]),
        ("format = 1", "format == 1", &[]),
    ];
    for (good, bad, words) in cases {
        let mut line = 0;
        let mini = Mini::changed(|toml| {
            line = 1 + toml.split(good).next().unwrap().matches('\n').count();
            toml.replacen(good, bad, 1)
        });
        let place = format!("mini/target.toml:{line}:");
        for command in ["run", "analyze"] {
            let output = mini.run(&[command, "mini"]);
            output
                .check(BAD_ARGUMENTS, words)
                .check(BAD_ARGUMENTS, &[&place]);
        }
    }
    let mini = Mini::changed(|toml| {
        let (before, after) = toml.split_once("[workload]").unwrap();
        let (_, after) = after.split_once("[warp]").unwrap();
        format!("{before}[warp]{after}")
    });
    mini.run(&["run", "mini"])
        .check(BAD_ARGUMENTS, &["target.toml", "`workload`"]);
}

#[test]
fn a_missing_jdk_names_the_command_that_gets_it() {
    let mini = Mini::changed(|toml| toml.replace(r#"["17", "21", "11", "8", "25"]"#, r#"["98"]"#));
    let words = [
        "e2e-mini@1 runs on JDK 98",
        "./temblor targets fetch jdk@98",
    ];
    mini.run(&["run", "mini"]).check(BAD_ARGUMENTS, &words);
}

#[test]
fn sources_that_do_not_compile_show_what_the_compiler_says() {
    let mini = Mini::new();
    let node = mini.target().join("src/mini/Node.java");
    std::fs::write(node, "package mini; final class Node { int x = }").unwrap();
    mini.run(&["run", "mini"])
        .check(BAD_ARGUMENTS, &["javac refused", "Node.java:1"]);
}

#[test]
fn unknown_names_list_what_there_is() {
    let mini = Mini::new();
    mini.run(&["run", "tri"])
        .check(BAD_ARGUMENTS, &["no target `tri`", "trio@1"]);
    let args = ["run", "mini", "--policy", "lucky"];
    mini.run(&args)
        .check(BAD_ARGUMENTS, &["`lucky`", "survey", "scatter", "replay"]);
    let args = ["run", "mini", "--faults", "throw,melt"];
    mini.run(&args).check(BAD_ARGUMENTS, &["melt", "delay"]);
    let args = ["run", "mini", "--policy", "replay"];
    mini.run(&args).check(BAD_ARGUMENTS, &["--plan"]);
    mini.run(&["run", "mini", "--sites", "("])
        .check(BAD_ARGUMENTS, &["`(`", "pattern"]);
    mini.run(&["run", "mini", "--warp", "0"])
        .check(BAD_ARGUMENTS, &["--warp"]);
    mini.run(&["walk"]).check(BAD_ARGUMENTS, &["walk"]);
    for command in ["resume", "report", "replay"] {
        let words = ["no-such", "nothing is there yet"];
        let other = Mini::new();
        other
            .run(&[command, "no-such"])
            .check(BAD_ARGUMENTS, &words);
    }
}

/// The error of a campaign whose clean runs do not pass, and how far it is from the start.
fn check_baseline_error(mini: &Mini, words: &[&str]) {
    let _turn = Turn::wait(1);
    let output = mini.run(&Mini::campaign(&["--trials", "1", "--warp", "off"]));
    output
        .check(ERROR, words)
        .check(ERROR, &["fails without any fault", "trials/1/logs"]);
    let (_, named) = output
        .stderr
        .rsplit_once("\nsee ")
        .expect("where the logs are");
    let named = mini.folder().join(named.lines().next().unwrap());
    assert!(named.join("n1.log").is_file(), "logs are kept: {output:#?}");
}

#[test]
fn a_node_that_dies_at_once_is_named_with_its_last_words() {
    let mini = Mini::misbehaving("dies", "");
    let words = [
        "never ready: n2",
        "n2 ended by itself with exit code 3",
        "the vault is locked",
    ];
    check_baseline_error(&mini, &words);
}

#[test]
fn a_node_that_never_becomes_ready_is_named() {
    let mini = Mini::changed(|toml| {
        let toml = toml.replace("NODE_MODE", "mute").replace("CLIENT_MODE", "");
        toml.replace("within_ms = 20000", "within_ms = 4000")
    });
    check_baseline_error(&mini, &["never ready: n2"]);
}

#[test]
fn a_workload_that_prints_garbage_is_told_what_to_print() {
    let mini = Mini::misbehaving("", "garbage");
    let words = [
        "client c1",
        "`Hello, this is not JSON`",
        "one JSON object a line",
    ];
    check_baseline_error(&mini, &words);
}

#[test]
fn a_workload_that_gives_up_is_told_by_its_exit_code() {
    let mini = Mini::misbehaving("", "quits");
    check_baseline_error(&mini, &["client c1 ended", "7", "no quota left"]);
}

#[test]
fn a_port_that_another_node_took_shows_as_the_node_that_fails() {
    // Both nodes on one address: the second finds the port in use.
    let mini = Mini::changed(|toml| {
        toml.replace(
            "\"{addr}\", \"{port.client}\", \"{dir}\"",
            "\"127.0.0.1\", \"{port.client}\", \"{dir}\"",
        )
    });
    check_baseline_error(&mini, &["never ready:", "ended by itself", "BindException"]);
}
