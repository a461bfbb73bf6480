//! The virtual clock over a freeze: for those inside, no time has passed.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use temblor_cluster::cell::Cell;

use crate::bench::{clock_page, criu, open, read, wait_until};
use crate::java::{home_of_17, java};

const FACTOR: i64 = 10;
const FROZEN_FOR: Duration = Duration::from_secs(3);
/// CRIU hides the time between its two works, but not that before each of them: 5 virtual seconds.
const SLOW_CRIU: (&str, i64) = ("sleep 0.5; exec \"$@\"", 500_000_000);
/// 300 ms of real time. On a quiet machine the step is 30 to 100 ms, on one with 30 processes waiting
/// for each core 1600; a clock that went on would step 5000 at least.
const STEP_MAX_MS: i64 = 3000;

/// Cargo builds the library for this test beside it.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name("libtemblor_warp.so");
    assert!(
        library.is_file(),
        "{} is built with this test",
        library.display()
    );
    library
}

fn now_ns(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the timespec is valid for the call.
    let answer = unsafe { libc::clock_gettime(clock, &mut now) };
    assert_eq!(answer, 0);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Both clocks in milliseconds, reading by reading.
fn readings(cell: &Cell) -> Vec<[i64; 2]> {
    let text = read(&cell.dir().join("clocks"));
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().map(|line| {
        let (nanos, millis) = line.split_once(' ').unwrap();
        let nanos: i64 = nanos.parse().unwrap();
        [nanos / 1_000_000, millis.parse().unwrap()]
    });
    lines.collect()
}

#[test]
fn by_the_virtual_clock_no_time_passes_while_a_cell_is_frozen() {
    let bench = open();
    let cell = &bench.cell;
    let mut jvm = java(
        cell,
        &home_of_17(),
        "watch",
        &["-XX:+UseSerialGC"],
        &["Watch"],
    );
    let text = |value: i64| value.to_string();
    jvm.env.extend(
        [
            ("LD_PRELOAD", library().display().to_string()),
            ("TEMBLOR_WARP_FACTOR", text(FACTOR)),
            ("TEMBLOR_WARP_MONO_NS", text(now_ns(libc::CLOCK_MONOTONIC))),
            ("TEMBLOR_WARP_REAL_NS", text(now_ns(libc::CLOCK_REALTIME))),
            ("TEMBLOR_WARP_PAGE", clock_page(cell).display().to_string()),
        ]
        .map(|(key, value)| (key.to_string(), value)),
    );
    cell.start(jvm).unwrap();
    wait_until("the first readings", || readings(cell).len() >= 100);
    let mut slow_criu = ["/bin/sh", "-c", SLOW_CRIU.0, "criu"]
        .map(String::from)
        .to_vec();
    slow_criu.extend(criu());
    let frozen = bench.freeze_with(&slow_criu);

    let at_once = frozen.fork_with_clocks();
    thread::sleep(FROZEN_FOR);
    let later = frozen.fork_with_clocks();
    for (name, (cell, clocks)) in [("at once", at_once), ("later", later)] {
        assert!(clocks.gap_ns >= SLOW_CRIU.1, "{clocks:?}");
        let before = readings_at(&frozen);
        wait_until("more readings", || readings(&cell).len() >= before + 50);
        cell.close().unwrap();
        assert_eq!(read(&cell.dir().join("back")), "", "no clock goes back");
        let all = readings(&cell);
        // A reading from before the freeze may be written after it.
        let around = &all[before - 2..before + 3];
        let steps = [0, 1].map(|clock| {
            let steps = around
                .windows(2)
                .map(|pair| pair[1][clock] - pair[0][clock]);
            steps.max().unwrap()
        });
        println!(
            "thawed {name}: the clocks step {steps:?} virtual ms over {} real ms",
            clocks.gap_ns / 1_000_000
        );
        for (clock, step) in ["monotonic", "wall"].iter().zip(steps) {
            assert!(
                step < STEP_MAX_MS,
                "{name}: {clock} steps {step} ms: {around:?}"
            );
        }
        let goes_back = |clock: usize| all.windows(2).any(|pair| pair[1][clock] < pair[0][clock]);
        assert!(!goes_back(0) && !goes_back(1));
    }
}

fn readings_at(frozen: &crate::bench::Frozen) -> usize {
    let text = read(&frozen.dir().join("clocks"));
    text.matches('\n').count()
}
