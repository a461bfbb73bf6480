//! Every function we stand before, called as a C program would, under the preload.
//!
//! This test runs itself again for each probe, on a clock sixty times faster. A probe judges by
//! the virtual clock it sees: what was asked for must have passed, and not the sixty-fold that
//! passes if a wait is not scaled. All probes run at once, as nearly all of them only wait.

#[allow(dead_code, reason = "each test file uses its part")]
mod preload;
mod probes;

use std::process::{Command, ExitCode, Stdio};

use preload::{Base, warp};

const FACTOR: &str = "60";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, name] = arguments.as_slice()
        && word == "probe"
    {
        return run_probe(name);
    }
    let base = Base::now();
    let executable = std::env::current_exe().expect("the test's own path");
    let children: Vec<_> = probes::ALL
        .iter()
        .map(|(name, _)| {
            let mut command = Command::new(&executable);
            command
                .args(["probe", name])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let child = warp(&mut command, FACTOR, base)
                .env("TEMBLOR_SOURCE_ADDR", "127.0.0.2")
                .spawn();
            (name, child.expect("the test starts itself"))
        })
        .collect();
    let mut failed = 0;
    for (name, child) in children {
        let output = child.wait_with_output().expect("its output");
        let said_done = output.stdout == b"done\n";
        if output.status.success() && said_done {
            println!("probe {name} ... ok");
        } else {
            failed += 1;
            let stderr = String::from_utf8_lossy(&output.stderr);
            println!("probe {name} ... FAILED, {}\n{stderr}", output.status);
        }
    }
    println!("{} probes, {failed} failed", probes::ALL.len());
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_probe(name: &str) -> ExitCode {
    match probes::ALL.iter().find(|(known, _)| *known == name) {
        Some((_, probe)) => {
            // What hangs is ended, in real seconds, by the kernel.
            // SAFETY: no pointers.
            unsafe { libc::alarm(120) };
            probe();
            println!("done");
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}
