//! Freezing the keeper with all its descendants into image files, and bringing them back: CRIU, run
//! by init inside the cell, whose namespaces it shares with what it freezes.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::kernel;
use super::message::{Clocks, IceOrder};

const DUMP_LOG: &str = "dump.log";
const RESTORE_LOG: &str = "restore.log";
/// CRIU keeps what it learned of the kernel here, if this is a tmpfs; else it asks again each time.
const RUN: &str = "/run";
const KERNEL_FACTS: &str = "criu.kdat";

/// What both directions need. Nobody else is in the cell's network, so nothing needs to be locked
/// out while connections are taken apart or put together.
const COMMON: [&str; 5] = [
    "--tcp-established",
    "--network-lock",
    "skip",
    "--file-locks",
    "--ext-unix-sk",
];

/// Freezes; the processes are gone when it returns. Gives the order that thaws them.
pub fn freeze(order: IceOrder, keeper: i32) -> Result<IceOrder, String> {
    fs::create_dir_all(&order.images)
        .map_err(|error| format!("cannot make {}: {error}", order.images.display()))?;
    // Stopped before CRIU looks at them one after the other, and by the same signal afterwards:
    // so it is known from when to when they stood still.
    signal_all(keeper, libc::SIGSTOP);
    let order = IceOrder {
        keeper,
        stopped_ns: kernel::monotonic_ns(),
        ..order
    };
    let pid = keeper.to_string();
    let args = ["dump", "--tree", &pid, "--log-file", DUMP_LOG];
    criu(&order, &args, DUMP_LOG).inspect_err(|_| signal_all(keeper, libc::SIGCONT))?;
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
    criu(order, &args, &log)?;
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
    signal_all(order.keeper, libc::SIGCONT);
    Ok(clocks)
}

/// Signals every process of the cell but init and the keeper.
fn signal_all(keeper: i32, signal: i32) {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for pid in pids.filter(|pid| *pid > 1 && *pid != keeper) {
        // It may be gone by now.
        let _ = kernel::signal(pid, signal);
    }
}

fn criu(order: &IceOrder, args: &[&str], log: &str) -> Result<(), String> {
    let (program, before) = order.criu.split_first().ok_or("no CRIU is given")?;
    let output = Command::new(program)
        .args(before)
        .args(args)
        .arg("--images-dir")
        .arg(&order.images)
        .args(COMMON)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let told = fs::read_to_string(order.images.join(log)).unwrap_or_default();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    let errors: Vec<&str> = told
        .lines()
        .chain(printed.lines())
        .filter(|line| line.contains("Error"))
        .take(4)
        .collect();
    Err(format!(
        "criu {} ended with {}: {}",
        args[0],
        output.status,
        errors.join("; ")
    ))
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
}
