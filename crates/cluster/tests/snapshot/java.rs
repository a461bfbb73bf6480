//! JVMs in frozen cells: connections with lines on their way, timers, threads that wait.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::thread;

use temblor_cluster::artifact::{self, JdkUse};
use temblor_cluster::cell::{Cell, ProcessSpec};

use crate::bench::{Frozen, counted, open, read, spec, wait_until};

const PORT: &str = "4711";
/// So many that at some of them there is always something to send at the freeze.
const CONNECTIONS: usize = 40;
/// As many at once as keep the machine busy.
const AT_ONCE: usize = 2;

/// Compiled for the oldest.
pub fn classes() -> &'static Path {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let jdk = artifact::find_jdk_for(17, JdkUse::Compile).unwrap_or_else(|e| panic!("{e}"));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshot");
        let name = format!("java-snapshot-{}", std::process::id());
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let done = Command::new(jdk.javac().unwrap())
            .args(["--release", "8", "-Xlint:-options", "-d"])
            .arg(&out)
            .args(["Alive.java", "Watch.java"].map(|name| folder.join(name)))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        out
    })
}

/// The JVM for tests that need just one.
pub fn home_of_17() -> PathBuf {
    let jdk = artifact::find_jdk_for(17, JdkUse::Run).unwrap_or_else(|e| panic!("{e}"));
    jdk.home
}

/// A Java program as the lab starts one: without the file in /tmp that says how it fares, which is
/// named by a process id that others have, too.
pub fn java(cell: &Cell, home: &Path, name: &str, options: &[&str], args: &[&str]) -> ProcessSpec {
    let (java, classes) = (home.join("bin/java"), classes());
    let mut argv = vec![java.to_str().unwrap(), "-XX:-UsePerfData", "-Xmx48m"];
    argv.extend(options);
    argv.extend(["-cp", classes.to_str().unwrap()]);
    argv.extend(args);
    spec(cell, name, &argv)
}

/// How far all files of a folder have come.
fn counts(dir: &Path, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| counted(dir, name)).collect()
}

/// Waits until all have gone on; whoever ended says why.
fn wait_for_all(cell: &Cell, names: &[&str], from: &[u64], what: &str) {
    for (name, from) in names.iter().zip(from) {
        wait_until(&format!("10 more lines in {name}, {what}"), || {
            let exits = cell.poll_exits();
            let said = || read(&cell.dir().join("jvm.log"));
            assert!(exits.is_empty(), "{what}: {exits:?} {}", said());
            counted(cell.dir(), name) >= from + 10
        });
    }
}

fn goes_on(frozen: &Frozen, names: &[&str], what: &str) {
    let at = counts(frozen.dir(), names);
    let cell = frozen.fork();
    wait_for_all(&cell, names, &at, what);
    cell.close().unwrap();
    // From 1 on without a gap, to the last line.
    counts(cell.dir(), names);
}

#[test]
fn connections_survive_with_all_that_is_on_its_way() {
    let bench = open();
    let home = home_of_17();
    let [served, answered] = ["served", "answered"].map(|name| {
        let files = (0..CONNECTIONS).map(|i| format!("{name}{i}"));
        files.collect::<Vec<_>>()
    });
    for role in ["serve", "ask"] {
        let options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        let args = ["Alive", role, PORT, &CONNECTIONS.to_string()];
        let jvm = java(&bench.cell, &home, "jvm", &options, &args);
        bench.cell.start(jvm).unwrap();
        // Made when it listens.
        wait_until("the server", || {
            served
                .iter()
                .all(|name| bench.cell.dir().join(name).exists())
        });
    }
    let names: Vec<&str> = served.iter().chain(&answered).map(String::as_str).collect();
    wait_for_all(&bench.cell, &names, &vec![50; names.len()], "before");
    let frozen = bench.freeze();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| goes_on(&frozen, &names, "after"));
        }
    });
    frozen.discard();
}

#[test]
fn every_jdk_goes_on_with_either_collector() {
    let names = [
        "served",
        "answered",
        "ticked",
        "waited",
        "parked",
        "allocated",
    ];
    let homes: Vec<PathBuf> = match std::env::var_os("TEMBLOR_TEST_JDKS") {
        Some(list) => std::env::split_paths(&list).collect(),
        None => vec![home_of_17()],
    };
    let todo: Vec<(PathBuf, &str)> = homes
        .into_iter()
        .flat_map(|home| ["-XX:+UseSerialGC", "-XX:+UseG1GC"].map(|gc| (home.clone(), gc)))
        .collect();
    assert!(
        !todo.is_empty(),
        "TEMBLOR_TEST_JDKS is empty; `temblor targets fetch jdk@17`"
    );
    let todo = Mutex::new(todo);
    let next = || todo.lock().unwrap().pop();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((home, gc)) = next() {
                    let what = format!("{} {gc}", home.display());
                    let bench = open();
                    let jvm = java(&bench.cell, &home, "jvm", &[gc], &["Alive", "all", PORT]);
                    bench.cell.start(jvm).unwrap();
                    wait_for_all(&bench.cell, &names, &[0; 6], &what);
                    let frozen = bench.freeze();
                    goes_on(&frozen, &names, &what);
                    println!("{what}: {} MB", frozen.snapshot().bytes() / 1_000_000);
                }
            });
        }
    });
}
