//! What a look at the clock costs on virtual time.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use temblor_cluster::artifact::Jdk;

use super::Measure;
use super::java::{Scratch, compile, figures};
use crate::prepare::library;

const SOURCE: &str = include_str!("../../../../warp/tests/java/ClockCall.java");
/// Virtual time runs so much faster in the measurement.
const FACTOR: &str = "10";

pub fn measure(jdk: &Jdk) -> anyhow::Result<Vec<Measure>> {
    let scratch = Scratch::new("bench-clock")?;
    compile(jdk, scratch.path(), "ClockCall", SOURCE)?;
    let java = |factor: &str| {
        let mut command = Command::new(jdk.java());
        command
            .arg("-cp")
            .arg(scratch.path())
            .args(["ClockCall", factor]);
        command
    };
    let plain = first(&mut java("1"))?;
    let mut warped = java(FACTOR);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)?
        .as_nanos()
        .to_string();
    let uptime = std::fs::read_to_string("/proc/uptime")?;
    let seconds: f64 = uptime.split(' ').next().unwrap_or("0").parse()?;
    warped
        .env("LD_PRELOAD", library("libtemblor_warp.so")?)
        .env("TEMBLOR_WARP_FACTOR", FACTOR)
        .env("TEMBLOR_WARP_MONO_NS", ((seconds * 1e9) as u64).to_string())
        .env("TEMBLOR_WARP_REAL_NS", now);
    let warped = first(&mut warped)?;
    Ok(vec![
        Measure {
            name: "a look at the virtual clock",
            value: warped,
            unit: "ns",
            bar: 100.0,
        },
        Measure {
            name: "a look at the virtual clock, against the real",
            value: warped / plain,
            unit: "x",
            bar: 2.0,
        },
    ])
}

fn first(command: &mut Command) -> anyhow::Result<f64> {
    let figures = figures(command)?;
    let first = figures.first().map(|(_, value)| *value);
    first.ok_or_else(|| anyhow::anyhow!("the clock measurement printed nothing"))
}
