//! JDKs to test on, and the Java programs compiled for all of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A JDK by its home.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Jdk {
    pub feature: u32,
    pub home: PathBuf,
}

impl Jdk {
    fn at(home: PathBuf) -> Jdk {
        let release = std::fs::read_to_string(home.join("release"))
            .unwrap_or_else(|e| panic!("{} is not a JDK ({e}); {HINT}", home.display()));
        let version = release
            .lines()
            .find_map(|line| line.strip_prefix("JAVA_VERSION=\""))
            .unwrap_or_else(|| panic!("{}/release names no version", home.display()));
        let version = version.strip_prefix("1.").unwrap_or(version);
        let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
        let feature = digits.parse().expect("a version starts with a number");
        Jdk { feature, home }
    }

    pub fn tool(&self, name: &str) -> PathBuf {
        self.home.join("bin").join(name)
    }
}

const HINT: &str = "get one with `temblor targets fetch jdk@17`, or set TEMBLOR_TEST_JDKS";

/// The JDKs to test on, oldest first; never empty.
pub fn all() -> &'static [Jdk] {
    static ALL: OnceLock<Vec<Jdk>> = OnceLock::new();
    ALL.get_or_init(|| {
        let given = |key| std::env::var(key).ok().filter(|v| !v.is_empty());
        let homes: Vec<PathBuf> = match (given("TEMBLOR_TEST_JDKS"), given("JAVA_HOME")) {
            (Some(list), _) => list.split(':').map(PathBuf::from).collect(),
            (None, Some(home)) => vec![home.into()],
            (None, None) => vec![on_path()],
        };
        let mut jdks: Vec<Jdk> = homes.into_iter().map(Jdk::at).collect();
        jdks.sort();
        jdks
    })
}

fn on_path() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let java = std::env::split_paths(&path)
        .filter_map(|dir| dir.join("javac").canonicalize().ok())
        .next();
    let java = java.unwrap_or_else(|| panic!("no javac on the PATH; {HINT}"));
    java.parent()
        .and_then(Path::parent)
        .expect("javac is in bin")
        .to_owned()
}

/// The folder with all test programs compiled, for Java 8.
pub fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
            "java-{}-{}",
            env!("CARGO_CRATE_NAME"),
            std::process::id()
        ));
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        // LinkAll is shared with the crate that rewrites.
        let folders =
            ["tests/java", "bench", "../classfile/tests/java"].map(|f| crate_folder.join(f));
        let jdk = all().last().expect("at least one");
        let mut javac = Command::new(jdk.tool("javac"));
        if jdk.feature > 8 {
            javac.args(["--release", "8", "-Xlint:-options"]);
        }
        javac.arg("-g").arg("-d").arg(&out);
        std::fs::create_dir_all(&out).expect("cargo's folder for tests is writable");
        for folder in folders {
            for entry in std::fs::read_dir(&folder).expect("the sources are there") {
                javac.arg(entry.expect("readable").path());
            }
        }
        let done = javac
            .output()
            .unwrap_or_else(|e| panic!("{:?}: {e}; {HINT}", jdk.tool("javac")));
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        out
    })
}

/// The agent that cargo built for this very test; the one beside it, in the folder above, is only
/// renewed by `cargo build`.
pub fn agent() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let agent = test.with_file_name("libtemblor_agent.so");
    assert!(
        agent.exists(),
        "{} is missing: it is built with this test",
        agent.display()
    );
    agent
}
