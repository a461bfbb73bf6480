//! Fetching against broken archives. And the JDKs that were really fetched: each must compile and
//! run a program.

mod bench;
mod criu;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use bench::{Bench, file_name, script};
use temblor_cluster::artifact::{ArtifactError, JdkUse, KNOWN_MAJORS, find_jdk_for};
use temblor_cluster::target::{TargetCode, TargetError, fetch_target_with, target_status};

#[test]
fn a_download_that_was_killed_goes_on_where_it_broke() {
    let bench = Bench::new();
    bench.set("break-openjdk-11-jdk-headless");
    let text = bench.fetch_11().expect_err("killed").to_string();
    assert!(
        text.contains("download openjdk-11-jdk-headless from suite bullseye"),
        "{text}"
    );
    assert!(text.contains("signal: 9"), "{text}");
    assert!(
        bench.depot.find_jdk(11, JdkUse::Run).is_err(),
        "half a JDK is none"
    );

    let home = bench.fetch_11().expect("resumed");
    assert!(home.join("bin/javac").exists());
    assert_eq!(
        bench.count("download openjdk-11-jre-headless"),
        1,
        "kept from the first try"
    );
    assert_eq!(bench.count("download openjdk-11-jdk-headless"), 2);
    assert_eq!(bench.count("update"), 1);

    let left: Vec<String> = fs::read_dir(bench.depot.cache().root().join("jdk"))
        .expect("cache")
        .map(|entry| file_name(&entry.expect("entry").path()))
        .filter(|name| name.contains("part"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_finished_jdk_is_not_fetched_again_and_a_broken_one_is() {
    let bench = Bench::new();
    let home = bench.fetch_11().expect("fetched");
    assert_eq!(bench.fetch_11().expect("there"), home);
    assert_eq!(bench.count("download openjdk-11-jdk-headless"), 1);
    script(&home.join("bin/java"), "exit 3");
    assert_eq!(bench.fetch_11().expect("made again"), home);
    assert_eq!(bench.count("download openjdk-11-jdk-headless"), 2);
}

#[test]
fn bytes_that_are_not_the_signed_ones_are_refused() {
    let bench = Bench::new();
    bench.set("lie-openjdk-11-jre-headless");
    let text = bench.fetch_11().expect_err("lied to").to_string();
    assert!(text.contains("not the signed one"), "{text}");
    bench.fetch_11().expect("the next download is good");
}

#[test]
fn an_unsigned_index_is_refused_before_any_download() {
    let bench = Bench::new();
    bench.set("unsigned");
    let error = bench.fetch_11().expect_err("unsigned");
    assert!(matches!(error, ArtifactError::Unverified { .. }), "{error}");
    assert!(
        bench.log().iter().all(|line| line == "update"),
        "{:?}",
        bench.log()
    );
}

#[test]
fn a_missing_package_is_named_with_its_suite() {
    let bench = Bench::new();
    fs::remove_file(bench.state().join("pool/openjdk-11-jdk-headless.deb")).expect("removed");
    let text = bench.fetch_11().expect_err("missing").to_string();
    assert!(
        text.contains("openjdk-11-jdk-headless is not in suite bullseye"),
        "{text}"
    );
}

#[test]
fn no_network_and_a_full_disk_are_told_apart() {
    let bench = Bench::new();
    bench.set("offline");
    let error = bench.fetch_11().expect_err("offline");
    assert!(matches!(error, ArtifactError::Offline { .. }), "{error}");
    assert_eq!(
        bench.count("update"),
        1,
        "no other suite is tried without a network"
    );
    bench.unset("offline");
    bench.set("full");
    let text = bench.fetch_11().expect_err("full").to_string();
    assert!(text.contains("No space left on device"), "{text}");
    bench.unset("full");
    bench.fetch_11().expect("all is well again");
}

#[test]
fn two_fetches_of_the_same_jdk_download_it_once() {
    let bench = Bench::new();
    thread::scope(|scope| {
        let fetches = [0, 1].map(|_| scope.spawn(|| bench.fetch_11().expect("fetched")));
        let homes = fetches.map(|fetch| fetch.join().expect("no panic"));
        assert_eq!(homes[0], homes[1]);
    });
    assert_eq!(bench.count("download openjdk-11-jdk-headless"), 1);
}

#[test]
fn an_unknown_jdk_and_a_machine_without_apt_are_clear_errors() {
    let bench = Bench::new();
    let text = bench
        .depot
        .fetch_jdk(9, &mut |_| {})
        .expect_err("unknown")
        .to_string();
    assert!(text.contains("known are 8, 11, 17, 21 and 25"), "{text}");
    fs::remove_file(bench.folder.path().join("scripts/apt-get")).expect("removed");
    let text = bench.fetch_11().expect_err("no apt").to_string();
    assert!(text.contains("`apt-get` is not on the PATH"), "{text}");
    assert!(text.contains("set JAVA_HOME"), "{text}");
}

#[test]
fn jars_of_a_killed_maven_are_not_taken_for_whole() {
    let bench = Bench::new();
    bench.set("break");
    let text = bench.fetch_jars().expect_err("killed").to_string();
    assert!(text.contains("signal: 9"), "{text}");
    let text = bench
        .depot
        .find_jars("a@1")
        .expect_err("unfinished")
        .to_string();
    assert!(text.contains("`./temblor targets fetch a@1`"), "{text}");
    assert_eq!(bench.fetch_jars().expect("again"), ["a-1.jar", "b-2.jar"]);
    assert_eq!(bench.fetch_jars().expect("there"), ["a-1.jar", "b-2.jar"]);
    assert_eq!(
        bench.count("mvn"),
        2,
        "what is there is not asked for again"
    );
}

#[test]
fn a_damaged_jar_is_refused_on_use_and_replaced_by_a_fetch() {
    let bench = Bench::new();
    bench.fetch_jars().expect("fetched");
    let jar = bench.depot.find_jars("a@1").expect("whole").paths[0].clone();
    fs::write(&jar, "0ne").expect("damage");
    let error = bench.depot.find_jars("a@1").expect_err("damaged");
    assert!(matches!(error, ArtifactError::Damaged { .. }), "{error}");
    bench.fetch_jars().expect("replaced");
    bench.depot.find_jars("a@1").expect("whole again");
}

#[test]
fn a_jar_that_is_cut_in_mavens_own_repository_is_downloaded_afresh() {
    let bench = Bench::new();
    bench.set("cut");
    assert_eq!(bench.fetch_jars().expect("afresh"), ["a-1.jar", "b-2.jar"]);
    assert_eq!(bench.count("mvn"), 2);
    bench.set("always-cut");
    fs::remove_dir_all(bench.depot.cache().root().join("maven/a@1")).expect("removed");
    let text = bench.fetch_jars().expect_err("cut").to_string();
    assert!(text.contains("b-2.jar and it is not whole"), "{text}");
    bench
        .depot
        .find_jars("a@1")
        .expect_err("not taken for whole");
}

#[test]
fn what_maven_cannot_get_is_explained() {
    let bench = Bench::new();
    for (condition, expected) in [
        ("offline", "the network does not answer"),
        ("unknown", "check group, artifact and version of g:a:1"),
        ("empty", "copied nothing"),
    ] {
        bench.set(condition);
        let text = bench.fetch_jars().expect_err(condition).to_string();
        assert!(text.contains(expected), "{condition}: {text}");
        bench.unset(condition);
    }
    fs::remove_file(bench.folder.path().join("scripts/mvn")).expect("removed");
    let text = bench.fetch_jars().expect_err("no maven").to_string();
    assert!(text.contains("`apt-get install maven`"), "{text}");
    let text = bench
        .depot
        .find_jars("../x")
        .expect_err("bad name")
        .to_string();
    assert!(text.contains("cannot name an artifact"), "{text}");
}

/// A target whose jars and JDK have to be fetched.
const TARGET: &str = r#"format = 1
name = "far"
version = "1"
summary = "a system with nothing here"
jdk = ["11"]
[source]
maven = ["g:a:1"]
[analysis]
packages = ["g."]
"#;

impl Bench {
    fn target(&self, text: &str) -> PathBuf {
        let dir = self.folder.path().join("targets/far/1");
        fs::create_dir_all(&dir).expect("folder");
        fs::write(dir.join("target.toml"), text).expect("target");
        dir
    }

    fn fetch_target(&self, dir: &Path) -> Result<(), TargetError> {
        fetch_target_with(dir, &self.depot, &mut |_| {})
    }

    fn is_here(&self, dir: &Path) -> bool {
        target_status(dir, &self.depot).expect("good").is_here()
    }

    /// The class path of a target, or why it has none.
    fn classpath(&self, dir: &Path) -> Result<Vec<String>, String> {
        let code = TargetCode::resolve_with(dir, &self.depot, None, &mut |_| {});
        let code = code.map_err(|error| error.to_string())?;
        Ok(code.classpath.iter().map(|path| file_name(path)).collect())
    }
}

#[test]
fn a_fetched_target_has_its_jdk_and_its_jars() {
    let bench = Bench::new();
    let dir = bench.target(TARGET);
    assert!(!bench.is_here(&dir));
    let text = bench.classpath(&dir).expect_err("nothing is here");
    assert!(text.contains("`./temblor targets fetch jdk@11`"), "{text}");
    bench.fetch_11().expect("a JDK");
    let text = bench.classpath(&dir).expect_err("no jars");
    assert!(text.contains("`./temblor targets fetch far@1`"), "{text}");
    bench.fetch_target(&dir).expect("fetched");
    assert!(bench.is_here(&dir));
    let jars = bench.classpath(&dir).expect("whole");
    assert_eq!(jars, ["a-1.jar", "b-2.jar"]);
    bench.fetch_target(&dir).expect("there");
    let downloads = bench.count("download openjdk-11-jdk-headless");
    assert_eq!((bench.count("mvn"), downloads), (1, 1));
}

#[test]
fn a_targets_truncated_or_lost_jar_is_noticed_and_fetched_again() {
    let bench = Bench::new();
    let dir = bench.target(TARGET);
    bench.fetch_target(&dir).expect("fetched");
    let jar = bench.depot.find_jars("far@1").expect("whole").paths[1].clone();
    fs::write(&jar, "tw").expect("truncated");
    let text = bench.classpath(&dir).expect_err("damaged");
    assert!(text.contains("b-2.jar is damaged"), "{text}");
    assert!(text.contains("`./temblor targets fetch far@1`"), "{text}");
    bench.fetch_target(&dir).expect("again");
    bench.classpath(&dir).expect("whole");
    fs::remove_file(&jar).expect("lost");
    assert!(!bench.is_here(&dir));
    bench.fetch_target(&dir).expect("again");
    assert!(bench.is_here(&dir));
}

#[test]
fn a_targets_interrupted_fetch_goes_on_and_offline_says_so() {
    let bench = Bench::new();
    let dir = bench.target(TARGET);
    for step in ["the JDK", "the jars"] {
        bench.set("offline");
        let text = bench.fetch_target(&dir).expect_err(step).to_string();
        assert!(text.contains("the network does not answer"), "{text}");
        assert!(text.contains("run the same command again"), "{text}");
        bench.unset("offline");
        bench.set("break");
        bench.fetch_target(&dir).expect_err("killed");
        assert!(!bench.is_here(&dir), "half of it is nothing");
    }
    bench.fetch_target(&dir).expect("gone on");
    assert!(bench.is_here(&dir));
    let downloads = bench.count("download openjdk-11-jdk-headless");
    assert_eq!(downloads, 1, "the JDK was kept");
}

#[test]
fn jars_fetched_for_another_list_of_artifacts_do_not_count() {
    let bench = Bench::new();
    let dir = bench.target(TARGET);
    bench.fetch_target(&dir).expect("fetched");
    bench.target(&TARGET.replace("\"g:a:1\"", "\"g:a:1\", \"g:b:2\""));
    assert!(!bench.is_here(&dir));
    let text = bench.classpath(&dir).expect_err("stale");
    assert!(text.contains("not what is asked for now; get it"), "{text}");
    bench.fetch_target(&dir).expect("again");
    bench.classpath(&dir).expect("as asked");
    assert_eq!(bench.count("mvn"), 2);
}

#[test]
fn every_known_jdk_compiles_and_runs_a_program() {
    let folder = tempfile::tempdir().expect("a private folder");
    let source = folder.path().join("Hello.java");
    let text = "import java.net.*;\n\
        public class Hello {\n\
          public static void main(String[] words) throws Exception {\n\
            InetAddress here = InetAddress.getByName(\"127.0.0.1\");\n\
            try (ServerSocket server = new ServerSocket(0, 1, here)) {\n\
              int child = new ProcessBuilder(\"true\").start().waitFor();\n\
              java.security.MessageDigest.getInstance(\"SHA-256\");\n\
              System.out.println(System.getProperty(\"java.version\") + \" \" + child);\n\
            }\n\
          }\n\
        }\n";
    fs::write(&source, text).expect("source");
    for major in KNOWN_MAJORS {
        let jdk = find_jdk_for(major, JdkUse::Compile).unwrap_or_else(|error| panic!("{error}"));
        let classes = folder.path().join(major.to_string());
        fs::create_dir(&classes).expect("folder");
        let javac = jdk.javac().expect("asked for a compiler");
        let compiled = Command::new(javac)
            .arg("-d")
            .arg(&classes)
            .arg(&source)
            .output();
        let compiled = compiled.expect("javac starts");
        assert!(compiled.status.success(), "JDK {major}: {compiled:?}");
        let ran = Command::new(jdk.java())
            .arg("-cp")
            .arg(&classes)
            .arg("Hello")
            .output();
        let ran = ran.expect("java starts");
        assert!(ran.status.success(), "JDK {major}: {ran:?}");
        let printed = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(
            printed.trim(),
            format!("{} 0", jdk.full_version),
            "JDK {major}"
        );
    }
}
