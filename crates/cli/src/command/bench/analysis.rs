//! What the analysis costs: time and memory against the size of the code, target by target.
//!
//! Every analysis is a process of its own that takes nothing from the cache, so that its peak of
//! memory is its own and nothing is warm but the kernel's files.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::{Value, json};
use temblor_cluster::artifact::Depot;
use temblor_cluster::target::{find_target, list_targets, target_status};

use super::java::Scratch;
use super::log_plot::{Fit, Point, draw, fit};
use super::{Measure, machine, median};
use crate::args::AnalysisBenchArgs;
use crate::exit::{BadInput, Exit};
use crate::prepare::roots;

/// An analysis that takes longer has gone astray.
const LIMIT: Duration = Duration::from_secs(300);
/// The target that has a bar of its own, and what stands in for it where it is not fetched.
const USUAL: &str = "zookeeper@3.6.2";
const BUNDLED: &str = "trio@1";
/// Seconds that the analysis of the usual target and of any target may take, and megabytes.
const USUAL_BAR_S: f64 = 1.0;
const BAR_S: f64 = 8.0;
const BAR_MB: f64 = 1024.0;

/// What one target cost.
#[derive(Clone, Debug, Serialize)]
struct Row {
    target: String,
    classes: u64,
    methods: u64,
    code_bytes: u64,
    /// The median of the rounds.
    seconds: f64,
    all_seconds: Vec<f64>,
    /// The largest of the rounds.
    peak_mb: f64,
    bar_seconds: f64,
    bar_mb: f64,
    ok: bool,
}

impl Row {
    fn code_mb(&self) -> f64 {
        self.code_bytes as f64 / 1e6
    }
}

/// `temblor bench analysis`.
pub fn run(args: &AnalysisBenchArgs) -> anyhow::Result<Exit> {
    let targets = match args.targets.is_empty() {
        false => args.targets.clone(),
        true => fetched()?,
    };
    let mut rows = Vec::new();
    for target in &targets {
        eprintln!("temblor: measuring {target}");
        rows.push(row(target, args.rounds)?);
    }
    rows.sort_by_key(|row| row.code_bytes);
    let fit = fit(&points(&rows));
    if args.json {
        let ok = rows.iter().all(|row| row.ok);
        let all = json!({"machine": machine(), "rows": rows, "fit": fit, "ok": ok});
        println!("{all}");
    } else {
        println!("{}\n\n{}", machine(), text(&rows, fit.as_ref()));
    }
    Ok(match rows.iter().all(|row| row.ok) {
        true => Exit::Pass,
        false => Exit::Unknown,
    })
}

/// What `temblor bench` shows of it: one target, because all of them take minutes.
pub fn measure() -> anyhow::Result<Vec<Measure>> {
    let usual = find_target(USUAL, &roots()).is_ok_and(|dir| is_here(&dir));
    let (target, names) = match usual {
        true => (
            USUAL,
            [
                "analysis of ZooKeeper 3.6.2, no cache",
                "its peak of memory",
            ],
        ),
        false => (
            BUNDLED,
            ["analysis of trio, no cache", "its peak of memory"],
        ),
    };
    let row = row(target, 3)?;
    Ok(vec![
        Measure {
            name: names[0],
            value: row.seconds,
            unit: "s",
            bar: USUAL_BAR_S,
        },
        Measure {
            name: names[1],
            value: row.peak_mb,
            unit: "MB",
            bar: BAR_MB,
        },
    ])
}

fn is_here(dir: &Path) -> bool {
    let depot = Depot::of_user();
    depot.is_ok_and(|depot| target_status(dir, &depot).is_ok_and(|status| status.is_here()))
}

/// The targets that need no fetching.
fn fetched() -> anyhow::Result<Vec<String>> {
    let places = list_targets(&roots());
    let here = places.iter().filter(|place| is_here(&place.dir));
    let names: Vec<String> = here.map(|p| format!("{}@{}", p.name, p.version)).collect();
    match names.is_empty() {
        false => Ok(names),
        true => {
            let text = "no target is here; get one: ./temblor targets fetch zookeeper@3.6.2";
            Err(BadInput(text.into()).into())
        }
    }
}

/// Analyses a target so many times.
fn row(target: &str, rounds: u32) -> anyhow::Result<Row> {
    let mut seconds = Vec::new();
    let mut peaks = Vec::new();
    let mut last = Value::Null;
    for _ in 0..rounds {
        let summary = analyze(target)?;
        let figure = |name: &str| {
            let figure = summary[name].as_f64();
            figure.with_context(|| format!("the analysis did not tell its `{name}`"))
        };
        seconds.push(figure("seconds")?);
        peaks.push(figure("peak_mb")?);
        last = summary;
    }
    let whole = |name: &str| last[name].as_u64().unwrap_or_default();
    let bar_seconds = match last["target"] == USUAL {
        true => USUAL_BAR_S,
        false => BAR_S,
    };
    let all_seconds = seconds.clone();
    let median_seconds = median(&mut seconds);
    let peak_mb = peaks.into_iter().fold(0.0, f64::max);
    Ok(Row {
        target: last["target"].as_str().unwrap_or(target).to_string(),
        classes: whole("classes"),
        methods: whole("methods"),
        code_bytes: whole("code_bytes"),
        seconds: median_seconds,
        all_seconds,
        peak_mb,
        bar_seconds,
        bar_mb: BAR_MB,
        ok: median_seconds <= bar_seconds && peak_mb <= BAR_MB,
    })
}

/// `temblor analyze TARGET --json --no-cache` in a process of its own.
fn analyze(target: &str) -> anyhow::Result<Value> {
    let scratch = Scratch::new("bench-analysis")?;
    // Files, not pipes: a long list of diagnostics would fill a pipe that nobody reads.
    let [out, err] = ["out", "err"].map(|name| scratch.path().join(name));
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let mut child = Command::new(program)
        .args(["analyze", target, "--json", "--no-cache"])
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&out)?)
        .stderr(std::fs::File::create(&err)?)
        .spawn()
        .context("could not start the analysis")?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            bail!("{target} is not analysed after {} s", LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if !status.success() {
        let said = std::fs::read_to_string(&err).unwrap_or_default();
        let said = said.trim().trim_start_matches("temblor: ").to_string();
        match status.code() {
            Some(254) => return Err(BadInput(said).into()),
            _ => bail!("{target} could not be analysed ({status}): {said}"),
        }
    }
    let text = std::fs::read_to_string(&out)?;
    serde_json::from_str(&text).with_context(|| format!("the analysis of {target} printed no JSON"))
}

fn points(rows: &[Row]) -> Vec<Point> {
    let marks = ('a'..='z').chain('A'..='Z').chain(std::iter::repeat('*'));
    let point = |(row, mark): (&Row, char)| Point {
        mark,
        x: row.code_mb(),
        y: row.seconds,
    };
    rows.iter().zip(marks).map(point).collect()
}

fn text(rows: &[Row], fit: Option<&Fit>) -> String {
    let points = points(rows);
    let mut out = format!(
        "   {:<22} {:>7} {:>8} {:>8} {:>8} {:>9} {:>8}  {}\n",
        "target", "classes", "methods", "code MB", "seconds", "s per MB", "peak MB", "bars"
    );
    for (row, point) in rows.iter().zip(&points) {
        let per_mb = match row.code_bytes {
            0 => "-".to_string(),
            _ => format!("{:.2}", row.seconds / row.code_mb()),
        };
        let verdict = if row.ok { "hold" } else { "MISSED" };
        out += &format!(
            " {} {:<22} {:>7} {:>8} {:>8.2} {:>8.2} {per_mb:>9} {:>8.0}  {} s {verdict}\n",
            point.mark,
            row.target,
            row.classes,
            row.methods,
            row.code_mb(),
            row.seconds,
            row.peak_mb,
            row.bar_seconds,
        );
    }
    out += &format!("\nThe bar of memory is {BAR_MB:.0} MB for each.\n");
    if let Some(fit) = fit {
        out += &format!("\n{}\n", draw(&points, "seconds", "MB of code"));
        let growth = match fit.exponent {
            e if e > 1.15 => "faster than the code",
            e if e < 0.85 => "more slowly than the code",
            _ => "as the code does",
        };
        out += &format!(
            "Over {} targets the seconds grow as code^{:.2}: {growth}. 1 is linear, as the dots.\n",
            fit.points, fit.exponent
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(target: &str, code_bytes: u64, seconds: f64, peak_mb: f64) -> Row {
        let bar_seconds = if target == USUAL { USUAL_BAR_S } else { BAR_S };
        Row {
            target: target.into(),
            classes: 812,
            methods: 7_310,
            code_bytes,
            seconds,
            all_seconds: vec![seconds],
            peak_mb,
            bar_seconds,
            bar_mb: BAR_MB,
            ok: seconds <= bar_seconds && peak_mb <= BAR_MB,
        }
    }

    #[test]
    fn the_table_tells_bars_and_growth_in_a_hundred_columns() {
        let rows = [
            made("trio@1", 30_000, 0.05, 12.0),
            made(USUAL, 710_000, 1.2, 180.0),
            made("largest@1", 9_500_000, 6.1, 700.0),
        ];
        let text = text(&rows, fit(&points(&rows)).as_ref());
        let line = |word: &str| text.lines().find(|l| l.contains(word)).unwrap();
        assert_eq!(
            line("zookeeper"),
            " b zookeeper@3.6.2            812     7310     0.71     1.20      1.69      180  \
             1 s MISSED"
        );
        assert!(line("largest").ends_with("8 s hold"), "{text}");
        assert!(
            text.contains("Over 3 targets the seconds grow as code^0.8"),
            "{text}"
        );
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    }

    #[test]
    fn one_target_has_no_growth() {
        let rows = [made("trio@1", 30_000, 0.05, 12.0)];
        let text = text(&rows, fit(&points(&rows)).as_ref());
        assert!(!text.contains("grow"), "{text}");
    }
}
