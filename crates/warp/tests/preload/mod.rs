//! How the integration tests find the library, and run a program on a virtual clock.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The base of a trial's clock, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Base {
    pub mono: i64,
    pub wall: i64,
}

impl Base {
    pub fn now() -> Self {
        Self {
            mono: read(libc::CLOCK_MONOTONIC),
            wall: read(libc::CLOCK_REALTIME),
        }
    }
}

/// A clock of this machine; the tests themselves never run under the preload.
pub fn read(id: libc::clockid_t) -> i64 {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: ts is ours to write.
    let answer = unsafe { libc::clock_gettime(id, &mut ts) };
    assert_eq!(answer, 0, "clock {id} cannot be read");
    ts.tv_sec * 1_000_000_000 + ts.tv_nsec
}

/// Cargo builds the library into the folder of the test executables, or the one above.
pub fn library() -> PathBuf {
    let executable = std::env::current_exe().expect("the test's own path");
    let folders = executable.ancestors().skip(1).take(2);
    let mut candidates = folders.map(|folder| folder.join("libtemblor_warp.so"));
    candidates
        .find(|library| library.is_file())
        .unwrap_or_else(|| {
            let executable = executable.display();
            panic!(
                "no libtemblor_warp.so near {executable}: `cargo build -p temblor-warp` makes it"
            )
        })
}

/// The command with the library preloaded but no setting at all.
pub fn preload(command: &mut Command) -> &mut Command {
    for name in ["FACTOR", "MONO_NS", "REAL_NS"] {
        command.env_remove(format!("TEMBLOR_WARP_{name}"));
    }
    command
        .env_remove("TEMBLOR_SOURCE_ADDR")
        .env("LD_PRELOAD", library())
}

/// The command on a virtual clock.
pub fn warp<'a>(command: &'a mut Command, factor: &str, base: Base) -> &'a mut Command {
    preload(command)
        .env("TEMBLOR_WARP_FACTOR", factor)
        .env("TEMBLOR_WARP_MONO_NS", base.mono.to_string())
        .env("TEMBLOR_WARP_REAL_NS", base.wall.to_string())
}

/// Generous: what hangs is to be found, what is slow is not.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs to the end and gives what it printed; anything but success is a failed test. The output
/// must fit into a pipe, because it is read at the end.
pub fn output(command: &mut Command) -> String {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let start = Instant::now();
    while child.try_wait().expect("our own child").is_none() {
        if start.elapsed() > LIMIT {
            child.kill().expect("our own child");
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("its output");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{stdout}\n{stderr}",
        output.status
    );
    stdout.into_owned()
}
