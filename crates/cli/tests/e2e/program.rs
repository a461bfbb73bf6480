//! Runs the real program, waits for it with a limit, and looks for what it left running.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a run takes at the very most, on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(240);
/// How long processes may take to vanish after the lab has ended.
const VANISH_LIMIT: Duration = Duration::from_secs(20);
pub const POLL: Duration = Duration::from_millis(20);
/// Clusters that run at a time, over all tests of one binary.
const MOST_CLUSTERS: u32 = 2;
/// In the environment of everything that a test starts.
const MARK: &str = "TEMBLOR_E2E_MARK";

/// The program, which needs its libraries beside it.
pub fn temblor() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_temblor"));
    for name in ["libtemblor_agent.so", "libtemblor_warp.so", "temblor-cell"] {
        let beside = program.with_file_name(name);
        assert!(
            beside.is_file(),
            "{} is missing; build it with: cargo build --release --workspace",
            beside.display()
        );
    }
    program
}

/// The root of the sources.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

static CLUSTERS: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());

/// The right to run so many clusters at a time; given back when dropped.
pub struct Turn(u32);

impl Turn {
    pub fn wait(clusters: u32) -> Turn {
        let (busy, freed) = &CLUSTERS;
        let mut busy = busy.lock().unwrap_or_else(PoisonError::into_inner);
        while *busy + clusters > MOST_CLUSTERS {
            busy = freed.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        *busy += clusters;
        Turn(clusters)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *CLUSTERS.0.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        CLUSTERS.1.notify_all();
    }
}

/// What a finished run said.
#[derive(Debug)]
pub struct Output {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// Asserts the exit code and that all the words are in what was said.
    pub fn check(&self, code: i32, words: &[&str]) -> &Output {
        assert_eq!(self.code, code, "{self:#?}");
        for word in words {
            let there = self.stderr.contains(word) || self.stdout.contains(word);
            assert!(there, "`{word}` is missing: {self:#?}");
        }
        self
    }

    /// Standard output, which must be one JSON object on one line.
    pub fn json(&self) -> serde_json::Value {
        let lines: Vec<&str> = self.stdout.lines().collect();
        assert_eq!(lines.len(), 1, "one line: {self:#?}");
        let value: serde_json::Value = serde_json::from_str(lines[0]).expect("JSON");
        assert!(value.is_object(), "{value}");
        value
    }
}

/// A program that runs; killed when dropped, which ends its cells too.
pub struct Running {
    pub child: Child,
    out: [PathBuf; 2],
}

impl Running {
    /// Starts a command with its output in files, so that no pipe can fill up.
    pub fn start(mut command: Command, mark: &Path) -> Running {
        static COUNT: Mutex<u32> = Mutex::new(0);
        let number = {
            let mut count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
            *count += 1;
            *count
        };
        let out = ["stdout", "stderr"].map(|name| mark.join(format!("{name}-{number}")));
        let file = |path: &PathBuf| Stdio::from(File::create(path).unwrap());
        command
            .env(MARK, mark)
            .env("TEMBLOR_ROOT", sources())
            .current_dir(mark);
        command
            .stdin(Stdio::null())
            .stdout(file(&out[0]))
            .stderr(file(&out[1]));
        Running {
            child: command.spawn().expect("starts"),
            out,
        }
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end; a program that hangs fails the test with what it said.
    pub fn wait(mut self, limit: Duration) -> Output {
        use std::os::unix::process::ExitStatusExt;
        let deadline = Instant::now() + limit;
        while !self.has_ended() {
            if Instant::now() > deadline {
                panic!("still running after {limit:?}: {:?}", self.said());
            }
            std::thread::sleep(POLL);
        }
        let status = self.child.wait().unwrap();
        let code = status
            .code()
            .unwrap_or_else(|| -status.signal().unwrap_or(0));
        let [stdout, stderr] = self.said();
        Output {
            code,
            stdout,
            stderr,
        }
    }

    pub fn said(&self) -> [String; 2] {
        self.out.clone().map(|path| {
            String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes with the folder in their command line or environment, by id.
pub fn processes_of(folder: &Path) -> BTreeMap<u32, String> {
    let needle = folder.as_os_str().as_encoded_bytes();
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<u32>().ok())
        else {
            continue;
        };
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let (line, environment) = (read("cmdline"), read("environ"));
        let has = |bytes: &[u8]| bytes.windows(needle.len()).any(|w| w == needle);
        if id != std::process::id() && (has(&line) || has(&environment)) {
            found.insert(id, String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}

/// Asserts that nothing a test started in its folder runs any more, or soon will not.
pub fn assert_nothing_runs(folder: &Path) {
    let deadline = Instant::now() + VANISH_LIMIT;
    loop {
        let left = processes_of(folder);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "still running: {left:#?}");
        std::thread::sleep(POLL);
    }
}
