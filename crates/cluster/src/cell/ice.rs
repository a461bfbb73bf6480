//! Freezing the keeper with all its descendants into image files, and bringing them back: CRIU, run
//! by init inside the cell, whose namespaces it shares with what it freezes.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::message::{Clocks, IceOrder};
use super::{init, kernel};

const DUMP_LOG: &str = "dump.log";
const RESTORE_LOG: &str = "restore.log";
/// CRIU keeps what it learned of the kernel here, if this is a tmpfs; else it asks again each time.
const RUN: &str = "/run";
const KERNEL_FACTS: &str = "criu.kdat";
/// Shorter than the lab waits, so that it hears what took so long.
const CRIU_LIMIT: Duration = Duration::from_secs(25);
/// How long all processes together may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// After this long one of them waits for another that is stopped: a parent for its child that has
/// yet to execute its program.
const STOP_AGAIN: Duration = Duration::from_millis(200);
const STOP_TURN: Duration = Duration::from_millis(1);
/// CRIU complains of this where a container does not let it, and goes on.
const HARMLESS: &str = "Can't setup RLIMIT_NOFILE";

/// CRIU has one such image for each connection.
const CONNECTION: &str = "tcp-stream-";
/// While connections are put together, what one end sends may come before the other end is there.
/// The kernel's answer, that there is none, must not arrive: what was sent is sent again.
const LOCK_RESETS: &str = "table inet temblor-ice {
  chain resets {
    type filter hook input priority 0; policy accept;
    tcp flags & rst == rst drop
  }
}
";
const UNLOCK_RESETS: &str = "delete table inet temblor-ice\n";

/// What both directions need.
const COMMON: [&str; 3] = ["--tcp-established", "--file-locks", "--ext-unix-sk"];
/// Connections are taken apart one end after the other: what moves on in between, an
/// acknowledgement that was held back or what had waited for it, would be lost.
const LOCK_AT_DUMP: [&str; 2] = ["--network-lock", "nftables"];
/// A new network has no locks to undo.
const LOCK_AT_RESTORE: [&str; 2] = ["--network-lock", "skip"];

/// Freezes; the processes are gone when it returns. Gives the order that thaws them.
pub fn freeze(order: IceOrder, keeper: i32) -> Result<IceOrder, String> {
    fs::create_dir_all(&order.images)
        .map_err(|error| format!("cannot make {}: {error}", order.images.display()))?;
    // Stopped before CRIU looks at them one after the other, and let go by a signal afterwards:
    // so it is known from when to when they stood still.
    let paused = stop_all(keeper)?;
    let order = IceOrder {
        keeper,
        paused,
        stopped_ns: kernel::monotonic_ns(),
        ..order
    };
    let pid = keeper.to_string();
    let args = ["dump", "--tree", &pid, "--log-file", DUMP_LOG];
    criu(&order, &[&args[..], &LOCK_AT_DUMP].concat(), DUMP_LOG)?;
    let facts = Path::new(RUN).join(KERNEL_FACTS);
    // Without it a thaw takes a little longer.
    let _ = fs::copy(facts, order.images.join(KERNEL_FACTS));
    Ok(order)
}

/// Brings the frozen processes back; they run when it returns, and by the virtual clock no time has
/// passed.
pub fn thaw(order: &IceOrder) -> Result<Clocks, String> {
    let _ = fs::copy(
        order.images.join(KERNEL_FACTS),
        Path::new(RUN).join(KERNEL_FACTS),
    );
    // Others thaw from the same images at the same time.
    let log = Path::new(RUN).join(RESTORE_LOG);
    let log = log.to_string_lossy();
    let args = ["restore", "--restore-detached", "--log-file", &log];
    let connected = has_connections(&order.images);
    if connected {
        init::load_rules(LOCK_RESETS)?;
    }
    criu(order, &[&args[..], &LOCK_AT_RESTORE].concat(), &log)?;
    if connected {
        init::load_rules(UNLOCK_RESETS)?;
    }
    let ahead_ns = ahead_ns(order.keeper)?;
    let clocks = Clocks {
        ahead_ns,
        gap_ns: kernel::monotonic_ns() + ahead_ns - order.stopped_ns,
    };
    let page = &order.clock_page;
    let written = fs::OpenOptions::new()
        .write(true)
        .open(page)
        .and_then(|mut page| page.write_all(&clocks.gap_ns.to_ne_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", page.display()))?;
    let_go(order.keeper, &order.paused);
    Ok(clocks)
}

fn has_connections(images: &Path) -> bool {
    let mut entries = fs::read_dir(images).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with(CONNECTION))
}

/// Stops every process of the cell but init and the keeper; returns when no thread runs. Gives
/// those that had been stopped before.
fn stop_all(keeper: i32) -> Result<Vec<i32>, String> {
    let paused: Vec<i32> = others(keeper).filter(|pid| is_paused(*pid)).collect();
    let end = Instant::now() + STOP_LIMIT;
    loop {
        let Err(running) = stop_within(keeper, &paused, STOP_AGAIN) else {
            return Ok(paused);
        };
        let_go(keeper, &paused);
        if Instant::now() > end {
            return Err(format!("process {running} inside does not stop"));
        }
        thread::sleep(STOP_TURN);
    }
}

/// Gives one that still runs when the time is up.
fn stop_within(keeper: i32, paused: &[i32], limit: Duration) -> Result<(), i32> {
    let end = Instant::now() + limit;
    // A second signal would stay pending, and CRIU would stumble over it.
    let mut told: HashSet<i32> = paused.iter().copied().collect();
    let mut quiet_turns = 0;
    loop {
        let mut running = None;
        for pid in others(keeper).filter(|pid| !is_stopped(*pid)) {
            running = Some(pid);
            if told.insert(pid) {
                // It may be gone by now.
                let _ = kernel::signal(pid, libc::SIGSTOP);
            }
        }
        match running {
            Some(pid) if Instant::now() > end => return Err(pid),
            Some(_) => {
                quiet_turns = 0;
                thread::sleep(STOP_TURN);
            }
            // The last thing that one did may have been to start another, unseen in this turn.
            None if quiet_turns == 0 => quiet_turns += 1,
            None => return Ok(()),
        }
    }
}

fn let_go(keeper: i32, paused: &[i32]) {
    for pid in others(keeper).filter(|pid| !paused.contains(pid)) {
        // It may be gone by now.
        let _ = kernel::signal(pid, libc::SIGCONT);
    }
}

/// Every process of the cell but init and the keeper.
fn others(keeper: i32) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(move |pid| *pid > 1 && *pid != keeper)
}

/// Whether no thread of it runs any more.
fn is_stopped(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let mut states = (threads.into_iter().flatten().flatten())
        .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    states.all(|status| matches!(state_of(&status), Some('T' | 'Z' | 'X')))
}

/// Whether somebody has stopped it, or just told it to.
fn is_paused(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    state_of(&status) == Some('T') || awaits(&status, libc::SIGSTOP)
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.map(|value| value.trim_start_matches(':').trim())
}

fn state_of(status: &str) -> Option<char> {
    field(status, "State")?.chars().next()
}

/// Whether a signal to the process has yet to arrive.
fn awaits(status: &str, signal: i32) -> bool {
    let pending = field(status, "ShdPnd").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    pending.is_some_and(|bits| bits & (1 << (signal - 1)) != 0)
}

fn criu(order: &IceOrder, args: &[&str], log: &str) -> Result<(), String> {
    let (program, before) = order.criu.split_first().ok_or("no CRIU is given")?;
    let mut command = Command::new(program);
    command
        .args(before)
        .args(args)
        .arg("--images-dir")
        .arg(&order.images)
        .args(COMMON);
    let what = format!("criu {}", args[0]);
    let output = run_within(&mut command, CRIU_LIMIT)
        .map_err(|reason| format!("{what} ({program}): {reason}"))?;
    if output.status.success() {
        return Ok(());
    }
    let told = fs::read_to_string(order.images.join(log)).unwrap_or_default();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    let errors: Vec<&str> = told
        .lines()
        .chain(printed.lines())
        .filter(|line| line.contains("Error") && !line.contains(HARMLESS))
        .take(4)
        .collect();
    Err(format!(
        "{what} ended with {}: {}",
        output.status,
        errors.join("; ")
    ))
}

/// Runs to the end, or ends it.
fn run_within(command: &mut Command, limit: Duration) -> Result<Output, String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let ended = kernel::open_pidfd(child.id() as i32)
        .and_then(|pid| kernel::readable(&[pid.as_raw_fd()], Some(limit)));
    match ended {
        Ok(ready) if ready[0] => child.wait_with_output().map_err(|error| error.to_string()),
        other => {
            let _ = child.kill();
            let _ = child.wait();
            Err(match other {
                Ok(_) => format!("not done within {} ms", limit.as_millis()),
                Err(error) => error.to_string(),
            })
        }
    }
}

/// From the process's time namespace: `monotonic SECONDS NANOSECONDS`.
fn ahead_ns(pid: i32) -> Result<i64, String> {
    let path = format!("/proc/{pid}/timens_offsets");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    offset_of(&text).ok_or_else(|| format!("{path} says {text:?}"))
}

/// The offset of the monotonic clock.
pub fn offset_of(text: &str) -> Option<i64> {
    let line = text.lines().find(|line| line.starts_with("monotonic"))?;
    let mut numbers = line.split_whitespace().skip(1).map(|n| n.parse::<i64>());
    let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(seconds * 1_000_000_000 + nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_with_their_sign() {
        let text = "monotonic           -5   250000000\nboottime 0 0\n";
        assert_eq!(offset_of(text), Some(-4_750_000_000));
        assert_eq!(offset_of("boottime 1 1"), None);
        assert_eq!(offset_of("monotonic x 1"), None);
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let mut hangs = Command::new("/bin/sleep");
        let reason = run_within(hangs.arg("1000"), Duration::from_millis(20)).unwrap_err();
        assert_eq!(reason, "not done within 20 ms");
        let mut says = Command::new("/bin/sh");
        let says = says.args(["-c", "echo why >&2; exit 3"]);
        let output = run_within(says, Duration::from_secs(60)).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stderr, b"why\n");
    }

    #[test]
    fn a_stop_on_its_way_counts() {
        let status = "Name:\tjava\nState:\tS (sleeping)\nShdPnd:\t0000000000040000\n";
        assert_eq!(state_of(status), Some('S'));
        assert!(awaits(status, libc::SIGSTOP));
        assert!(!awaits(status, libc::SIGCONT));
        assert!(!awaits("State:\tT (stopped)\n", libc::SIGSTOP));
    }
}
