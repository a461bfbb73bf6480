//! `target.toml`: every mistake is an error that names its place and what was expected; a good one
//! becomes facts.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use temblor_cluster::artifact::{Cache, Depot, Machine, Tools};
use temblor_cluster::cell::{Cell, CellSpec, ProbeSpec};
use temblor_cluster::start::{Extra, TrialPlace, client_process, node_process, write_node_files};
use temblor_cluster::tail::{ClientLine, LogTail, OpTail};
use temblor_cluster::target::{Choice, GO, HERE, Target, TargetError};

const GOOD: &str = r#"format = 1
name = "tiny"
version = "1"
summary = "one class"
jdk = ["17", "21", "25", "11", "8"]
[source]
java = "src"
[analysis]
packages = ["tiny."]
[node]
names = ["n1", "n2", "n3"]
main = "tiny.Main"
args = ["{dir}/tiny.properties", "{index}"]
jvm = ["-Xmx64m"]
env = { WHO = "{node}" }
[node.ports]
peer = 7100
client = 7200
[node.files]
"tiny.properties" = """
me={node}@{addr}:{port.peer}
all={nodes}
clients={nodes.client}
seed={seed}
"""
[ready]
port = "client"
send = "health\n"
expect = "^ok "
within_ms = 20000
[log]
line = '^\S+ (?<level>[A-Z]+) +\[(?<thread>[^\]]*)\] (?<logger>\S+) - (?<message>.*)$'
[workload]
main = "tiny.Client"
args = ["{client}", "{node}", "{addr}:{port.client}", "{dir}"]
clients = 4
reaction_ms = 90000
[warp]
max = 30
"#;

const KNOWN: &str = r#"id = "slow-snapshot"
title = "a snapshot holds the lock"
paper = "Legolas"
about = "why"
symptom = "writes stop"
[match]
checker = ["hang", "client"]
fault = "^delay "
site = "Snapshot"
[plan]
seed = 1
[[plan.step]]
when = { at = "hit", site = "tiny.Main.main()>x#0" }
fault = { kind = "delay", ms = 60000 }
"#;

fn write_target(dir: &Path, text: &str) {
    fs::create_dir_all(dir.join("src/tiny")).unwrap();
    fs::write(dir.join("target.toml"), text).unwrap();
    let java = "package tiny; public class Main { public static void main(String[] a) {} }";
    fs::write(dir.join("src/tiny/Main.java"), java).unwrap();
}

fn depot(cache: &Path) -> Depot {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = Tools::new(path, Duration::from_secs(600));
    Depot::new(Cache::at(cache), tools, Machine::this())
}

fn resolve(dir: &Path) -> Result<Target, TargetError> {
    Target::resolve_with(
        dir,
        &Choice::default(),
        &depot(&dir.join("cache")),
        None,
        &mut |_| {},
    )
}

/// Replaces one piece of the good file and expects an error at that line with these words.
fn check(from: &str, to: &str, line: usize, words: &str) {
    assert!(GOOD.contains(from), "the good file has no `{from}`");
    let dir = tempfile::tempdir().unwrap();
    write_target(dir.path(), &GOOD.replacen(from, to, 1));
    let error = resolve(dir.path()).expect_err(to).to_string();
    assert!(
        error.contains(words),
        "{to}\n  gave: {error}\n  not:  {words}"
    );
    let place = format!("target.toml:{line}:");
    assert!(
        error.contains(&place),
        "{to}\n  gave: {error}\n  not at line {line}"
    );
}

#[test]
fn mistakes_in_form_are_named_with_their_place() {
    check(
        "[ready]",
        "[redy]",
        26,
        "unknown key `redy`; did you mean `ready`?",
    );
    check(
        "within_ms = 20000",
        "within = 5",
        30,
        "unknown key `within`; did you mean `within_ms`?",
    );
    check(
        "name = \"tiny\"",
        "name = 5",
        2,
        "`name`: invalid type: integer `5`, expected a string",
    );
    check(
        "main = \"tiny.Main\"\n",
        "",
        10,
        "the key `main` is missing",
    );
    check("version = \"1\"\n", "", 1, "the key `version` is missing");
    check(
        "peer = 7100",
        "peer = 71000",
        17,
        "`node.ports.peer`: invalid value: integer `71000`",
    );
    check(
        "peer = 7100",
        "peer = 71000",
        17,
        "expected a number from 0 to 65535",
    );
    check(
        "packages = [\"tiny.\"]",
        "packages = \"tiny.\"",
        9,
        "expected a list",
    );
    check("format = 1", "format = ", 1, "target.toml:1:");
    check(
        "within_ms = 20000",
        "within_ms = -1",
        30,
        "expected a whole number, not negative",
    );
}

#[test]
fn mistakes_in_facts_are_named_with_their_place() {
    check(
        "format = 1",
        "format = 9",
        1,
        "`format`: format 9 is unknown; this version reads 1",
    );
    check(
        "name = \"tiny\"",
        "name = \"a/b\"",
        2,
        "`name`: expected letters, digits",
    );
    check(
        "jdk = [\"17\", \"21\", \"25\", \"11\", \"8\"]",
        "jdk = []",
        5,
        "`jdk`: the list is empty",
    );
    check("\"17\", ", "\"x\", ", 5, "`x` is not a major version");
    check(
        "java = \"src\"",
        "java = \"scr\"",
        7,
        "`source.java`: there is no folder `scr`",
    );
    check(
        "java = \"src\"",
        "",
        6,
        "exactly one of `java`, `jars` and `maven`",
    );
    check(
        "java = \"src\"",
        "jars = [\"lib/*.jar\"]",
        7,
        "nothing matches `lib/*.jar`",
    );
    check(
        "java = \"src\"",
        "maven = [\"a:b\"]",
        7,
        "`a:b` is not a Maven coordinate",
    );
    check(
        "packages = [\"tiny.\"]",
        "packages = []",
        9,
        "at least one prefix",
    );
    check(
        "[\"n1\", \"n2\", \"n3\"]",
        "[]",
        11,
        "`node.names`: expected 1 to 99 names, found 0",
    );
    check("\"n2\"", "\"n1\"", 11, "two nodes are named `n1`");
    check("\"n2\"", "\"n/2\"", 11, "`n/2` is no name");
    check(
        "peer = 7100",
        "peer = 0",
        17,
        "`node.ports.peer`: port 0 is no port",
    );
    check(
        "peer = 7100",
        "peer = 7200",
        17,
        "port 7200 is taken by `client`",
    );
    check(
        "port = \"client\"",
        "port = \"clent\"",
        27,
        "named `clent`; did you mean `client`?",
    );
    check(
        "\"^ok \"",
        "\"^ok (\"",
        29,
        "`ready.expect`: not a regular expression: unclosed group",
    );
    check(
        "(?<level>",
        "(?<lvl>",
        32,
        "`log.line`: the group `(?<level>...)` is missing",
    );
    check(
        "[workload]",
        "role = 'now (LEADING)'\n[workload]",
        33,
        "`log.role`: the group `(?<role>...)` is missing",
    );
    check(
        "[warp]",
        "[workload.kinds.restart]\nagain = [\"n2\", \"laeder\"]\n[warp]",
        39,
        "`workload.kinds.restart.again`: `laeder` is no node, and no role in `health.single`",
    );
    check(
        "[warp]",
        "[workload.kinds.bare]\naway = [\"n7\"]\n[warp]",
        39,
        "`workload.kinds.bare.away`: no node is named `n7`",
    );
    check(
        "[warp]",
        "[workload.kinds.bare]\nagain_by = \"stop\"\n[warp]",
        39,
        "`workload.kinds.bare.again_by`: unknown value `stop`; known are `kill`, `reset`",
    );
    check("within_ms = 20000", "within_ms = 0", 30, "within 0 ms");
    check(
        "clients = 4",
        "clients = 0",
        36,
        "`workload.clients`: expected 1 to 99, found 0",
    );
    check(
        "max = 30",
        "max = 0.5",
        39,
        "expected a factor of 1 or more, found 0.5",
    );
    check(
        "\"tiny.properties\" =",
        "\"../x\" =",
        20,
        "would lie outside its process's folder",
    );
}

#[test]
fn an_unknown_placeholder_is_named_with_the_known_ones() {
    check(
        "seed={seed}",
        "seed={sede}",
        24,
        "unknown placeholder `{sede}`; did you mean `seed`?",
    );
    check(
        "seed={seed}",
        "seed={client}",
        24,
        "known are `addr`, `dir`, `index`, `node`, `nodes`",
    );
    check(
        "\"{client}\"",
        "\"{port.cleint}\"",
        35,
        "did you mean `port.client`?",
    );
}

#[test]
fn a_good_target_becomes_facts_and_processes() {
    let dir = tempfile::tempdir().unwrap();
    write_target(dir.path(), GOOD);
    fs::create_dir_all(dir.path().join("known")).unwrap();
    fs::write(dir.path().join("known/slow.toml"), KNOWN).unwrap();
    let target = resolve(dir.path()).expect("a JDK: `apt-get install openjdk-17-jdk-headless`");
    assert_eq!(target.full_name(), "tiny@1");
    assert_eq!(target.cast.clients.len(), 4);
    assert_eq!(
        (
            target.cast.clients[3].node.as_str(),
            target.cast.nodes[1].addr.octets()[3]
        ),
        ("n1", 2)
    );
    assert_eq!(target.cast.clients[3].addr.to_string(), "127.0.0.104");
    let jar = fs::read(&target.code.classpath[0]).unwrap();
    let class = b"tiny/Main.class";
    assert!(jar.windows(class.len()).any(|name| name == class));
    assert_eq!(target.health.port, 7200);
    assert_eq!(target.reaction_ms, 90_000);
    let bug = &target.known[0];
    assert_eq!(
        (bug.id.as_str(), bug.matches.checkers.len()),
        ("slow-snapshot", 2)
    );
    assert!(bug.matches.fault.as_ref().unwrap().is_match("delay 60 s"));
    assert_eq!(bug.plan.steps.len(), 1);

    let place = TrialPlace {
        dir: dir.path().join("trial"),
        seed: 42,
        load: 100,
    };
    let node = &target.cast.nodes[1];
    write_node_files(&target, &place, node).unwrap();
    let text = fs::read_to_string(place.node_dir("n2").join("tiny.properties")).unwrap();
    assert_eq!(
        text,
        "me=n2@127.0.0.2:7100\nall=n1@127.0.0.1,n2@127.0.0.2,n3@127.0.0.3\n\
         clients=127.0.0.1:7200,127.0.0.2:7200,127.0.0.3:7200\nseed=42\n"
    );
    let extra = Extra {
        jvm: vec!["-agentpath:/x.so=node=n2".into()],
        env: vec![("LD_PRELOAD".into(), "/warp.so".into())],
    };
    let process = node_process(&target, &place, node, &extra).unwrap();
    let line = process.argv.join(" ");
    let own = place.node_dir("n2");
    let end = format!("tiny.Main {}/tiny.properties 2", own.display());
    assert!(
        line.contains("-agentpath:/x.so=node=n2 -Xmx64m -cp ") && line.ends_with(&end),
        "{line}"
    );
    let has = |key: &str, value: &str| process.env.iter().any(|(k, v)| k == key && v == value);
    assert!(has("TEMBLOR_SOURCE_ADDR", "127.0.0.2") && has("WHO", "n2"));
    assert!(has("LD_PRELOAD", "/warp.so"));
    assert_eq!(
        (&process.stdout, &process.stderr),
        (&place.log_file("n2"), &place.log_file("n2"))
    );

    let client =
        client_process(&target, &place, &target.cast.clients[1], &Extra::default()).unwrap();
    let end = format!("c2 n2 127.0.0.2:7200 {}", place.client_dir("c2").display());
    assert!(client.argv.join(" ").ends_with(&end), "{:?}", client.argv);
    assert!(
        client
            .env
            .contains(&("TEMBLOR_SOURCE_ADDR".into(), "127.0.0.102".into()))
    );
    assert_eq!(client.stdout, place.ops_file("c2"));
}

#[test]
fn sources_are_compiled_once_and_javacs_words_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    write_target(dir.path(), GOOD);
    let cache = depot(&dir.path().join("cache"));
    let mut said = Vec::new();
    let resolve = |said: &mut Vec<String>| {
        Target::resolve_with(dir.path(), &Choice::default(), &cache, None, &mut |line| {
            said.push(line.to_string())
        })
    };
    let first = resolve(&mut said).expect("a JDK: `apt-get install openjdk-17-jdk-headless`");
    let again = resolve(&mut said).unwrap();
    assert_eq!(first.code.classpath, again.code.classpath);
    assert_eq!(said.len(), 1, "compiled once: {said:?}");
    fs::write(
        dir.path().join("src/tiny/Main.java"),
        "package tiny; class Main { int x = ; }",
    )
    .unwrap();
    let error = resolve(&mut said).unwrap_err().to_string();
    assert!(
        error.starts_with("javac refused the sources of tiny@1"),
        "{error}"
    );
    assert!(
        error.contains("Main.java:1: error: illegal start of expression"),
        "{error}"
    );
    let left = fs::read_dir(dir.path().join("cache/classes/tiny@1"))
        .unwrap()
        .count();
    assert_eq!(left, 1, "nothing half-made stays");
}

#[test]
fn a_missing_jdk_is_named_with_the_command_that_gets_it() {
    let dir = tempfile::tempdir().unwrap();
    write_target(
        dir.path(),
        &GOOD.replace("[\"17\", \"21\", \"25\", \"11\", \"8\"]", "[\"6\", \"7\"]"),
    );
    let error = resolve(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("tiny@1 runs on JDK 6, 7, and none of them with javac is on"),
        "{error}"
    );
    assert!(error.contains("`./temblor targets fetch jdk@6`"), "{error}");
}

#[test]
fn a_broken_known_bug_is_named_with_its_place() {
    for (from, to, words) in [
        (
            "checker = [\"hang\", \"client\"]",
            "checker = 5",
            "expected a string or a list of strings",
        ),
        (
            "site = \"Snapshot\"",
            "site = \"(\"",
            "slow.toml:9:8: `match.site`: not a regular",
        ),
        (
            "fault = \"^delay \"",
            "fault = \"[\"",
            "slow.toml:8:9: `match.fault`: not a regular",
        ),
        (
            "title =",
            "titel =",
            "slow.toml:2:1: `titel`: unknown key `titel`; did you mean `title`?",
        ),
        (
            "kind = \"delay\", ms = 60000",
            "kind = \"dealy\"",
            "did you mean `delay`?",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write_target(dir.path(), GOOD);
        fs::create_dir_all(dir.path().join("known")).unwrap();
        fs::write(dir.path().join("known/slow.toml"), KNOWN.replace(from, to)).unwrap();
        let error = resolve(dir.path()).expect_err(to).to_string();
        assert!(
            error.contains(words),
            "{to}\n  gave: {error}\n  not:  {words}"
        );
    }
}

#[test]
fn a_folder_without_target_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = resolve(&dir.path().join("none")).unwrap_err().to_string();
    assert!(
        error.contains("cannot read") && error.contains("target.toml"),
        "{error}"
    );
}

#[test]
fn the_bundled_target_serves_its_workload_in_a_cell() {
    let trio = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets/trio/1");
    let dir = tempfile::tempdir().unwrap();
    let depot = depot(&dir.path().join("cache"));
    let target =
        Target::resolve_with(&trio, &Choice::default(), &depot, None, &mut |_| {}).unwrap();
    let cell = Cell::open(CellSpec::new(dir.path().join("trial"))).unwrap();
    let place = TrialPlace {
        dir: cell.dir().to_path_buf(),
        seed: 1,
        load: 100,
    };
    for node in &target.cast.nodes {
        write_node_files(&target, &place, node).unwrap();
        cell.start(node_process(&target, &place, node, &Extra::default()).unwrap())
            .unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    for node in &target.cast.nodes {
        let ready = &target.ready;
        let to = target.check_address(node, ready);
        let ask = ProbeSpec {
            to,
            send: ready.send.clone(),
            within_ms: 2_000,
            one_line: true,
        };
        loop {
            let answer = cell.probe(ask.clone()).unwrap();
            if answer
                .text()
                .is_some_and(|text| ready.expect.is_match(text))
            {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "{} is not ready: {answer:?}",
                node.name
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let client = &target.cast.clients[0];
    let process = client_process(&target, &place, client, &Extra::default()).unwrap();
    cell.start(process).unwrap();
    let here = place.client_dir(&client.name).join(HERE);
    while !here.exists() {
        assert!(Instant::now() < deadline, "the client does not connect");
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::write(place.client_dir(&client.name).join(GO), "1 100\n").unwrap();
    let mut tail = OpTail::new(place.ops_file(&client.name));
    let mut ops = 0;
    while ops < 10 {
        assert!(Instant::now() < deadline, "only {ops} lines of the client");
        for line in tail.lines().unwrap() {
            assert!(!matches!(line, ClientLine::Garbage(_)), "{line:?}");
            ops += 1;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    cell.close().unwrap();
    for node in &target.cast.nodes {
        let mut log = LogTail::new(place.log_file(&node.name), target.log_line.clone());
        let entries = log.finish().unwrap();
        let parsed = entries.iter().filter(|seen| seen.entry.is_parsed()).count();
        assert!(
            parsed > 0,
            "no line of {} looks like trio's: {entries:?}",
            node.name
        );
    }
}
