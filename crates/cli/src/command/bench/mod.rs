//! `temblor bench`: what Temblor itself costs, each figure beside its bar.
//!
//! Figures are nanoseconds of the best rounds or ratios of alternating runs, because the
//! machines these run on are shared and noisy.

mod analysis;
mod clock;
mod hook;
mod java;
mod log_plot;
mod overhead;
mod startup;
mod trials;

use serde_json::json;

use crate::args::{BenchArgs, BenchWhat};
use crate::exit::Exit;
use crate::prepare;

/// One figure.
pub struct Measure {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
    /// The value must not be larger.
    pub bar: f64,
}

impl Measure {
    fn ok(&self) -> bool {
        self.value <= self.bar
    }
}

pub fn run(args: &BenchArgs) -> anyhow::Result<Exit> {
    match &args.what {
        Some(BenchWhat::Analysis(args)) => return analysis::run(args),
        Some(BenchWhat::Overhead(args)) => return overhead::run(args),
        Some(BenchWhat::Trials(args)) => return trials::run(args),
        None => {}
    }
    let target = prepare::prepare("trio", &Default::default(), false)?;
    let percent = if args.quick { 20 } else { 100 };
    let mut measures = hook::measure(&target.target.code.jdk, percent)?;
    measures.extend(clock::measure(&target.target.code.jdk)?);
    measures.push(startup::measure(&target, if args.quick { 5 } else { 21 })?);
    measures.extend(analysis::measure()?);
    if args.json {
        let line = |m: &Measure| {
            let (value, ok) = (m.value, m.ok());
            json!({"name": m.name, "value": value, "unit": m.unit, "bar": m.bar, "ok": ok})
        };
        let lines: Vec<_> = measures.iter().map(line).collect();
        println!("{}", json!({ "machine": machine(), "measures": lines }));
    } else {
        println!("{}\n", machine());
        for m in &measures {
            let verdict = if m.ok() { "holds" } else { "MISSED" };
            let (value, unit) = (format!("{:.3}", m.value), m.unit);
            println!(
                "  {:<44} {value:>10} {unit:<6} bar {:>8} {verdict}",
                m.name, m.bar
            );
        }
    }
    Ok(if measures.iter().all(Measure::ok) {
        Exit::Pass
    } else {
        Exit::Unknown
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What the figures were measured on.
fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .unwrap_or("an unknown CPU");
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    let model = model.trim_start_matches([' ', '\t', ':']);
    format!("{model}, {cores} cores, load {load} at the end")
}
