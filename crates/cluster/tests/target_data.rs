//! Targets as data: what a version inherits, what it tells the analysis, and what a target that
//! can only be analysed lacks. And the bundled targets themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use temblor_cluster::artifact::{Cache, Depot, Machine, Tools};
use temblor_cluster::target::{
    Choice, Target, TargetCode, TargetError, list_targets, parse_target, target_status,
};
use temblor_model::site::{Direction, Medium};

/// Can only be analysed.
const OWN: &str = r#"format = 1
inherit = "../base.toml"
name = "tiny"
version = "2"
jdk = ["17", "21", "25", "11", "8"]
[source]
java = "src"
"#;

const BASE: &str = r#"summary = "small"
[analysis]
packages = ["tiny."]
exclude = ["tiny.generated."]
tasks = [
    { base = "tiny.Worker", method = "work" },
]
io = [{ call = "tiny.Record.write", medium = "network", direction = "write" }]
"#;

const RUN: &str = r#"[node]
names = ["n1", "n2"]
main = "tiny.Main"
env = { A = "base", B = "base" }
ports = { client = 7200 }
[ready]
port = "client"
expect = "^ok"
[log]
line = '^(?<level>[A-Z]+) (?<message>.*)$'
[workload]
main = "tiny.Client"
"#;

/// `tiny/2/target.toml` and `tiny/base.toml`, with a class to compile.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(own: &str, base: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { folder };
        fs::create_dir_all(files.dir().join("src/tiny")).unwrap();
        fs::write(files.dir().join("target.toml"), own).unwrap();
        fs::write(files.folder.path().join("tiny/base.toml"), base).unwrap();
        let java = "package tiny; public class Main { public static void main(String[] a) {} }";
        fs::write(files.dir().join("src/tiny/Main.java"), java).unwrap();
        files
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("tiny/2")
    }

    fn depot(&self) -> Depot {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let tools = Tools::new(path, Duration::from_secs(600));
        let cache = Cache::at(self.folder.path().join("cache"));
        Depot::new(cache, tools, Machine::this())
    }

    fn code(&self) -> Result<TargetCode, TargetError> {
        TargetCode::resolve_with(&self.dir(), &self.depot(), None, &mut |_| {})
    }

    fn target(&self) -> Result<Target, TargetError> {
        Target::resolve_with(
            &self.dir(),
            &Choice::default(),
            &self.depot(),
            None,
            &mut |_| {},
        )
    }

    /// Expects an error at this place of this file, with these words.
    fn check(&self, place: &str, words: &str) {
        let error = self.code().expect_err(words).to_string();
        assert!(
            error.contains(&format!("/{place}: ")),
            "{error}\n  is not at {place}"
        );
        assert!(error.contains(words), "{error}\n  does not say: {words}");
    }
}

fn base(from: &str, to: &str) -> Files {
    assert!(BASE.contains(from), "the base has no `{from}`");
    Files::new(OWN, &BASE.replacen(from, to, 1))
}

fn own(more: &str) -> Files {
    Files::new(&format!("{OWN}{more}"), BASE)
}

#[test]
fn what_a_version_leaves_out_it_inherits() {
    let files = own("");
    let code = files.code().unwrap();
    assert_eq!(
        (code.full_name().as_str(), code.summary.as_str()),
        ("tiny@2", "small")
    );
    assert_eq!(code.analysis.packages, ["tiny."]);
    assert_eq!(code.analysis.tasks[0].method, "work");
    let io = &code.analysis.io[0];
    assert_eq!(
        (io.medium, io.direction),
        (Medium::Network, Direction::Write)
    );
    let jar = std::fs::read(&code.classpath[0]).unwrap();
    let class = b"tiny/Main.class";
    assert!(jar.windows(class.len()).any(|name| name == class));
}

#[test]
fn a_versions_own_values_win_tables_are_joined_and_lists_replaced() {
    let files = Files::new(
        &format!("{OWN}[analysis]\nexclude = [\"tiny.old.\"]\n[node.env]\nB = \"own\"\n"),
        &format!("{BASE}{RUN}"),
    );
    let target = files.target().unwrap();
    assert_eq!(target.code.analysis.exclude, ["tiny.old."]);
    assert_eq!(target.code.analysis.packages, ["tiny."]);
    let env: Vec<(&str, &str)> = target
        .node
        .env
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(env, [("A", "base"), ("B", "own")]);
    assert_eq!(target.cast.nodes.len(), 2);
}

#[test]
fn mistakes_are_named_with_the_file_they_are_in() {
    base("exclude =", "exlude =").check(
        "base.toml:4:1",
        "`analysis.exlude`: unknown key `exlude`; did you mean `exclude`?",
    );
    base("method =", "metod =").check("base.toml:6:29", "unknown key `metod`; did you mean");
    base("\"network\"", "\"netwrok\"").check(
        "base.toml:8:46",
        "unknown value `netwrok`; did you mean `network`?",
    );
    base("packages = [\"tiny.\"]", "packages = 5").check("base.toml:3:12", "expected a list");
    base("method = \"work\"", "method = 5").check("base.toml:6:38", "expected a string");
    base("method = \"work\"", "").check("base.toml:6:5", "the key `method` is missing");
    base("[analysis]", "[analysis").check("base.toml:2:10", "`analysis`: unclosed table");
    base("summary =", "sumary =").check("base.toml:1:1", "did you mean `summary`?");
    own("[analysis]\nmemory = \"x\"\n").check("target.toml:9:10", "expected a list");
    own("[analysis]\nmemry = []\n").check("target.toml:9:1", "did you mean `memory`?");
    own("[[analysis.clocks]]\ncall = \"a.b\"\nunit = \"hours\"\n")
        .check("target.toml:10:8", "unknown value `hours`");
}

#[test]
fn a_base_must_be_there_and_be_the_last() {
    let gone = Files::new(&OWN.replace("../base", "../bsae"), BASE);
    gone.check("target.toml:2:11", "`inherit`: there is no file ");
    let chain = Files::new(OWN, &format!("inherit = \"x.toml\"\n{BASE}"));
    chain.check("base.toml:1:11", "a file that is inherited cannot inherit");
    let number = Files::new(&OWN.replace("\"../base.toml\"", "5"), BASE);
    number.check("target.toml:2:11", "expected a string");
}

#[test]
fn names_that_can_match_nothing_are_mistakes() {
    base("\"tiny.generated.\"", "\"tiny/generated\"").check(
        "base.toml:4:12",
        "is not the beginning of class names, as `org.example.`; write dots instead of slashes",
    );
    base("\"tiny.Record.write\"", "\"write\"").check(
        "base.toml:8:16",
        "`analysis.io.call`: `write` is not a class and its method",
    );
    base("\"work\"", "\"Worker.work\"").check("base.toml:6:38", "is not a method's name alone");
    base("\"tiny.Worker\"", "\"tiny..Worker\"").check("base.toml:6:14", "is not a class with");
    base("\"tiny.\"]", "]").check("base.toml:3:12", "expected at least one prefix");
    base("packages = [\"tiny.\"]", "").check("base.toml:2:1", "expected at least one prefix");
    own("[analysis]\nsends = [\"a.B.c\", \"a.B.c d\"]\n").check(
        "target.toml:9:19",
        "`a.B.c d` is not a class and its method",
    );
}

#[test]
fn a_target_without_nodes_can_be_analysed_but_not_run() {
    let files = own("");
    files.code().unwrap();
    let error = files.target().unwrap_err().to_string();
    assert!(
        error.contains("tiny@2 can be analysed but not run yet: its target.toml has no [node]"),
        "{error}"
    );
    let status = target_status(&files.dir(), &files.depot()).unwrap();
    assert!(!status.runs && status.is_here(), "{status:?}");
}

#[test]
fn half_of_what_a_run_needs_names_the_other_half() {
    let without = |table: &str| {
        let start = RUN.find(&format!("[{table}]")).unwrap();
        let end = RUN[start + 1..]
            .find("\n[")
            .map_or(RUN.len(), |at| start + at + 2);
        format!("{}{}", &RUN[..start], &RUN[end..])
    };
    for table in ["ready", "log", "workload"] {
        let words = format!("`node` is given, but `{table}` is missing");
        own(&without(table)).check("target.toml:8:1", &words);
    }
    own(&without("node")).check(
        "target.toml:8:1",
        "`ready`: `ready` is given, but `node` is missing; a target that can only be analysed",
    );
    own("[log]\nline = 'x'\n").check(
        "target.toml:8:1",
        "`log` is given, but `node`, `ready`, `workload` are missing",
    );
    own("[warp]\nmax = 2\n").check("target.toml:8:1", "`warp` is given, but `node`");
    Files::new(OWN, &format!("{BASE}{RUN}")).target().unwrap();
}

fn bundled() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_bundled_target_is_well_formed_and_lies_where_its_name_says() {
    let targets = list_targets(&[bundled()]);
    assert!(targets.len() >= 20, "only {} targets", targets.len());
    let folder = tempfile::tempdir().unwrap();
    let tools = Tools::new("", Duration::from_secs(60));
    let depot = Depot::new(Cache::at(folder.path()), tools, Machine::default());
    for place in targets {
        let config = parse_target(&place.dir).unwrap_or_else(|e| panic!("{e}"));
        let said = (config.name.get_ref(), config.version.get_ref());
        assert_eq!(said, (&place.name, &place.version));
        let status = target_status(&place.dir, &depot).unwrap_or_else(|e| panic!("{e}"));
        let line = &status.summary;
        assert!(
            (10..=70).contains(&line.len()),
            "the summary of {}@{} is no short line: {line:?}",
            place.name,
            place.version
        );
    }
}
