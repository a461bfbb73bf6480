//! The preload in real JVMs, every one on this machine: waits, clocks and source addresses.

#[allow(dead_code, reason = "each test file uses its part")]
mod preload;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use preload::{Base, output, read, warp};
use tempfile::TempDir;

/// A JDK and the test programs compiled by it.
struct Jdk {
    home: PathBuf,
    classes: TempDir,
}

impl Jdk {
    fn compiled(home: PathBuf) -> Self {
        let classes = tempfile::tempdir().expect("a temporary folder");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java");
        let mut javac = Command::new(home.join("bin/javac"));
        javac.arg("-d").arg(classes.path());
        for entry in std::fs::read_dir(&sources).expect("tests/java") {
            javac.arg(entry.expect("a file of tests/java").path());
        }
        output(&mut javac);
        Self { home, classes }
    }

    fn java(&self, arguments: &[&str]) -> Command {
        let mut java = Command::new(self.home.join("bin/java"));
        java.arg("-cp").arg(self.classes.path()).args(arguments);
        java
    }
}

/// JAVA_HOME, the homes in TEMBLOR_TEST_JDKS (a list as PATH is), the javac on the PATH, and what
/// the distribution has installed.
fn jdks() -> Vec<Jdk> {
    let mut compilers: Vec<PathBuf> = Vec::new();
    for name in ["JAVA_HOME", "TEMBLOR_TEST_JDKS"] {
        let homes = std::env::var_os(name).unwrap_or_default();
        compilers.extend(std::env::split_paths(&homes).map(|home| home.join("bin/javac")));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    compilers.extend(std::env::split_paths(&path).map(|folder| folder.join("javac")));
    if let Ok(entries) = std::fs::read_dir("/usr/lib/jvm") {
        compilers.extend(
            entries
                .flatten()
                .map(|entry| entry.path().join("bin/javac")),
        );
    }
    let mut homes: Vec<PathBuf> = compilers
        .iter()
        .filter_map(|compiler| compiler.canonicalize().ok())
        .filter_map(|compiler| Some(compiler.parent()?.parent()?.to_path_buf()))
        .filter(|home| home.join("bin/java").is_file())
        .collect();
    homes.sort();
    homes.dedup();
    assert!(
        !homes.is_empty(),
        "no JDK in JAVA_HOME, TEMBLOR_TEST_JDKS, PATH or /usr/lib/jvm: \
         `apt-get install openjdk-17-jdk-headless`"
    );
    homes.into_iter().map(Jdk::compiled).collect()
}

#[test]
fn every_wait_of_a_jvm_is_as_long_as_asked_by_its_own_clock_and_shorter_by_ours() {
    const MILLIS: i64 = 120_000;
    const FACTOR: i64 = 60;
    // A wait that is not scaled takes two real minutes, which are two hours inside.
    const TOO_LONG_MILLIS: i64 = 45 * MILLIS;
    for jdk in jdks() {
        let start = Instant::now();
        let mut java = jdk.java(&["Waits", &MILLIS.to_string()]);
        let printed = output(warp(&mut java, &FACTOR.to_string(), Base::now()));
        let real = start.elapsed();
        let waits: BTreeMap<&str, Vec<i64>> = printed
            .lines()
            .map(|line| {
                let (name, times) = line.split_once(' ').unwrap_or((line, ""));
                let time = |t: &str| {
                    t.parse()
                        .unwrap_or_else(|_| panic!("{:?}: {line}", jdk.home))
                };
                (name, times.split(' ').map(time).collect())
            })
            .collect();
        assert_eq!(waits.len(), 11, "{:?}: {printed}", jdk.home);
        for (name, times) in &waits {
            for time in times {
                // A wall clock in milliseconds may round one away.
                assert!(
                    *time >= MILLIS - 1,
                    "{:?}: {name} took only {time} ms",
                    jdk.home
                );
                assert!(
                    *time < TOO_LONG_MILLIS,
                    "{:?}: {name} took {time} ms",
                    jdk.home
                );
            }
        }
        assert!(
            real < Duration::from_millis(MILLIS as u64),
            "{:?}: took {real:?}",
            jdk.home
        );
    }
}

/// A JVM that tells its clocks on request.
struct ClockTeller(Child);

impl ClockTeller {
    fn start(jdk: &Jdk, factor: &str, base: Base) -> Self {
        let mut java = jdk.java(&["Clocks"]);
        warp(&mut java, factor, base)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Self(java.spawn().expect("java starts"))
    }

    /// Nanoseconds of nanoTime and milliseconds of currentTimeMillis.
    fn ask(&mut self) -> (i64, i64) {
        let stdin = self.0.stdin.as_mut().expect("its stdin");
        stdin.write_all(b"?\n").expect("it listens");
        let mut line = String::new();
        let stdout = self.0.stdout.as_mut().expect("its stdout");
        // One line is asked for at a time, so nothing is left in the reader.
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it answers");
        let (nanos, millis) = line.trim().split_once(' ').expect("two clocks");
        (
            nanos.parse().expect("nanoseconds"),
            millis.parse().expect("milliseconds"),
        )
    }
}

impl Drop for ClockTeller {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn all_processes_of_a_trial_read_one_clock() {
    const FACTOR: i64 = 25;
    for jdk in jdks() {
        let base = Base::now();
        let mut one = ClockTeller::start(&jdk, "25", base);
        let mut other = ClockTeller::start(&jdk, "25", base);
        let elapsed = || (read(libc::CLOCK_MONOTONIC) - base.mono) * FACTOR;
        for _ in 0..20 {
            let before = elapsed();
            let (first, second, third) = (one.ask(), other.ask(), one.ask());
            let after = elapsed();
            assert!(
                first.0 <= second.0 && second.0 <= third.0,
                "{first:?} {second:?} {third:?}"
            );
            assert!(
                first.1 <= second.1 && second.1 <= third.1,
                "{first:?} {second:?} {third:?}"
            );
            assert!(base.mono + before <= first.0 && third.0 <= base.mono + after);
            let wall = |nanos: i64| (base.wall + nanos) / 1_000_000;
            assert!(wall(before) <= first.1 && third.1 <= wall(after));
        }
    }
}

#[test]
fn the_clock_never_runs_backwards_and_its_cost_can_be_measured() {
    for jdk in jdks() {
        for factor in ["1", "10"] {
            let mut java = jdk.java(&["ClockCall", factor]);
            let printed = output(warp(&mut java, factor, Base::now()));
            let nanos: f64 = printed.trim().parse().expect("nanoseconds per call");
            assert!(nanos > 0.0, "{:?} at factor {factor}: {nanos} ns", jdk.home);
        }
    }
}

#[test]
fn connections_to_the_loopback_carry_the_nodes_own_address() {
    for jdk in jdks() {
        for stack in ["true", "false"] {
            let stack = format!("-Djava.net.preferIPv4Stack={stack}");
            let mut java = jdk.java(&[&stack, "Peers"]);
            warp(&mut java, "10", Base::now()).env("TEMBLOR_SOURCE_ADDR", "127.0.0.2");
            let expected = "Socket 127.0.0.2\nSocketWithTimeout 127.0.0.2\n\
                SocketChannel 127.0.0.2\nNonBlockingChannel 127.0.0.2\nBoundSocket 127.0.0.5\n";
            assert_eq!(output(&mut java), expected, "{:?} {stack}", jdk.home);
        }
        let mut java = jdk.java(&["Peers"]);
        let printed = output(warp(&mut java, "10", Base::now()));
        assert!(
            printed.starts_with("Socket 127.0.0.1\n"),
            "{:?}: {printed}",
            jdk.home
        );
    }
}
