//! The summary of an analysis: counts by kind, what could not be read, time and memory.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use serde_json::{Value, json};
use temblor_model::catalog::SiteCatalog;
use temblor_model::site::{Direction, Io, Medium, Site, SiteKind};

use super::Examined;
use super::text::{WIDTH, clip, clip_start, flow, kebab, number, words, wrap};

/// Rows of the table of exceptions.
const EXCEPTIONS_SHOWN: usize = 12;
const DIAGNOSTICS_SHOWN: usize = 10;
/// Lines of one message.
const MESSAGE_LINES: usize = 2;
const MEDIA: [Medium; 3] = [Medium::Disk, Medium::Network, Medium::Stream];
const DIRECTIONS: [Direction; 4] = [
    Direction::Read,
    Direction::Write,
    Direction::Control,
    Direction::Local,
];

/// Everything that is counted.
struct Counts {
    throwing: usize,
    io: usize,
    slow: usize,
    both: usize,
    entries: usize,
    may_be_memory: usize,
    sync: usize,
    timeout: usize,
    guarded: usize,
    grouped: usize,
    /// Most frequent first.
    exceptions: Vec<(String, usize)>,
    tasks: Vec<(String, usize)>,
    closures: usize,
    /// Fewest and most states of a task.
    states_min: usize,
    states_max: usize,
    states_mean: f64,
    regions: Vec<(String, usize)>,
    timeouts: Vec<(String, usize)>,
    messages: Vec<(String, usize)>,
    meta_writes: usize,
}

impl Counts {
    fn of(catalog: &SiteCatalog) -> Counts {
        let sites =
            |wanted: &dyn Fn(&Site) -> bool| catalog.sites.iter().filter(|s| wanted(s)).count();
        let throws = |s: &Site| !s.exceptions.is_empty();
        let mut of_task = vec![0usize; catalog.tasks.len()];
        for state in &catalog.states {
            if let Some(states) = of_task.get_mut(state.task as usize) {
                *states += 1;
            }
        }
        Counts {
            throwing: sites(&throws),
            io: sites(&|s| s.io.is_some()),
            slow: sites(&Site::can_be_slow),
            both: sites(&|s| throws(s) && s.can_be_slow()),
            entries: sites(&|s| s.kind == SiteKind::Entry),
            may_be_memory: sites(&|s| s.may_be_memory),
            sync: catalog.sync_sites().count(),
            timeout: catalog.timeout_sites().count(),
            guarded: sites(&|s| !s.guards.is_empty()),
            grouped: catalog.groups.iter().map(|g| g.sites.len()).sum(),
            exceptions: exceptions(catalog),
            tasks: by_kind(catalog.tasks.iter().map(|t| t.kind)),
            closures: catalog.tasks.iter().filter(|t| t.closure).count(),
            states_min: of_task.iter().min().copied().unwrap_or(0),
            states_max: of_task.iter().max().copied().unwrap_or(0),
            states_mean: catalog.states.len() as f64 / of_task.len().max(1) as f64,
            regions: by_kind(catalog.regions.iter().map(|r| r.kind)),
            timeouts: by_kind(catalog.timeouts.iter().map(|t| t.kind)),
            messages: by_kind(catalog.messages.iter().map(|m| m.side)),
            meta_writes: catalog.meta_accesses.iter().filter(|m| m.write).count(),
        }
    }
}

/// How many of each kind, in the order of the kinds.
fn by_kind<K: Ord + Serialize>(kinds: impl Iterator<Item = K>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<K, usize> = BTreeMap::new();
    for kind in kinds {
        *counts.entry(kind).or_default() += 1;
    }
    counts.into_iter().map(|(k, n)| (kebab(k), n)).collect()
}

fn exceptions(catalog: &SiteCatalog) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for exception in catalog.sites.iter().flat_map(|s| &s.exceptions) {
        *counts.entry(exception).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> =
        counts.into_iter().map(|(e, n)| (e.clone(), n)).collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

fn io_count(catalog: &SiteCatalog, medium: Medium, direction: Direction) -> usize {
    let wanted = Some(Io { medium, direction });
    catalog.sites.iter().filter(|s| s.io == wanted).count()
}

/// The summary as one JSON object.
pub fn json(examined: &Examined) -> String {
    let (catalog, effort) = (examined.catalog(), &examined.analysis.effort);
    let counts = Counts::of(catalog);
    let map = |counts: &[(String, usize)]| -> Value { counts.iter().cloned().collect() };
    let io: Value = MEDIA
        .iter()
        .map(|m| {
            let row = DIRECTIONS.map(|d| (kebab(d), io_count(catalog, *m, d)));
            (kebab(m), row.into_iter().collect::<Value>())
        })
        .collect();
    let stage = |(name, seconds): &(&str, f64)| json!({"name": name, "seconds": seconds});
    let stages: Vec<Value> = effort.stages.iter().map(stage).collect();
    let mut all = json!({
        "target": examined.name,
        "jdk": examined.jdk_major,
        "classes": effort.classes,
        "methods": effort.methods,
        "code_bytes": effort.code_bytes,
        "hooked_classes": catalog.classes.len(),
        "blocks": catalog.block_count,
        "sites": catalog.sites.len(),
        "throwing_sites": counts.throwing,
        "io_sites": counts.io,
        "slow_sites": counts.slow,
        "throwing_slow_sites": counts.both,
        "jdk_sites": counts.entries,
        "may_be_memory_sites": counts.may_be_memory,
        "io": io,
        "exceptions": map(&counts.exceptions),
        "tasks": catalog.tasks.len(),
        "tasks_by_kind": map(&counts.tasks),
        "closures": counts.closures,
        "states": catalog.states.len(),
        "states_per_task": {
            "mean": counts.states_mean, "min": counts.states_min, "max": counts.states_max,
        },
    });
    let rest = json!({
        "regions": catalog.regions.len(),
        "regions_by_kind": map(&counts.regions),
        "timeouts": catalog.timeouts.len(),
        "timeouts_by_kind": map(&counts.timeouts),
        "sync_sites": counts.sync,
        "timeout_sites": counts.timeout,
        "guarded_sites": counts.guarded,
        "groups": catalog.groups.len(),
        "grouped_sites": counts.grouped,
        "invalid_removed": catalog.invalid_removed(),
        "unreached_removed": catalog.removed.len() - catalog.invalid_removed(),
        "messages": catalog.messages.len(),
        "messages_by_side": map(&counts.messages),
        "meta_accesses": catalog.meta_accesses.len(),
        "meta_writes": counts.meta_writes,
        "diagnostics": examined.analysis.diagnostics,
        "seconds": examined.seconds,
        "stages": stages,
        "peak_mb": examined.peak_mb,
        "from_cache": effort.from_cache,
        "sources": effort.sources,
        "sources_from_cache": effort.sources_from_cache,
    });
    if let (Value::Object(all), Value::Object(rest)) = (&mut all, rest) {
        all.extend(rest);
    }
    all.to_string()
}

/// The summary for people: no line is wider than [`WIDTH`].
pub fn text(examined: &Examined) -> String {
    let (catalog, effort) = (examined.catalog(), &examined.analysis.effort);
    let counts = Counts::of(catalog);
    let mut out = clip(&examined.name, WIDTH - 12);
    let _ = writeln!(out, " on JDK {}\n", examined.jdk_major);
    let code = [
        format!("{} methods", number(effort.methods)),
        format!("{:.2} MB of code", effort.code_bytes as f64 / 1e6),
        format!("{} basic blocks", number(catalog.block_count as usize)),
    ];
    row(&mut out, "own classes", number(effort.classes), &code);
    out.push('\n');
    row(
        &mut out,
        "sites",
        number(catalog.sites.len()),
        &site_kinds(&counts),
    );
    io_table(&mut out, catalog, counts.io);
    exception_table(&mut out, &counts.exceptions);
    out.push('\n');
    kinds(&mut out, catalog, &counts);
    out.push('\n');
    effort_rows(&mut out, examined);
    diagnostics(&mut out, examined);
    out
}

/// A name, its number, and what it is made of; the last wraps.
fn row(out: &mut String, name: &str, figure: String, parts: &[String]) {
    const BEFORE: usize = 27;
    let mut lines = flow(parts, WIDTH - BEFORE).into_iter();
    let first = lines.next().unwrap_or_default();
    let line = format!("{name:<16} {figure:>7}   {first}");
    let _ = writeln!(out, "{}", line.trim_end());
    for line in lines {
        let _ = writeln!(out, "{:BEFORE$}{line}", "");
    }
}

fn parts(counts: &[(String, usize)]) -> Vec<String> {
    let part = |(kind, n): &(String, usize)| format!("{} {}", kind.replace('-', " "), number(*n));
    counts.iter().map(part).collect()
}

fn site_kinds(counts: &Counts) -> Vec<String> {
    let mut kinds = vec![
        format!("exceptions only {}", number(counts.throwing - counts.both)),
        format!("delays only {}", number(counts.slow - counts.both)),
        format!("both {}", number(counts.both)),
    ];
    if counts.entries > 0 {
        kinds.push(format!("inside the JDK {}", number(counts.entries)));
    }
    if counts.may_be_memory > 0 {
        kinds.push(format!(
            "at times in memory {}",
            number(counts.may_be_memory)
        ));
    }
    kinds
}

fn io_table(out: &mut String, catalog: &SiteCatalog, io: usize) {
    if io == 0 {
        return;
    }
    let line = |cells: [String; 4], all: String| {
        let cells = cells.into_iter().chain([all]);
        cells.map(|t| format!("{t:>9}")).collect::<String>()
    };
    let heads = line(DIRECTIONS.map(words), "all".into());
    let _ = writeln!(out, "\n{:<18}{heads}", "I/O sites");
    for medium in MEDIA {
        let row = DIRECTIONS.map(|d| io_count(catalog, medium, d));
        let all = number(row.iter().sum());
        let _ = writeln!(out, "  {:<16}{}", words(medium), line(row.map(number), all));
    }
}

fn exception_table(out: &mut String, exceptions: &[(String, usize)]) {
    const NAME: usize = 70;
    if exceptions.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{:<NAME$}   {:>7}", "exception", "sites");
    for (name, sites) in exceptions.iter().take(EXCEPTIONS_SHOWN) {
        let (name, sites) = (clip_start(name, NAME - 2), number(*sites));
        let _ = writeln!(out, "  {name:<width$}   {sites:>7}", width = NAME - 2);
    }
    if exceptions.len() > EXCEPTIONS_SHOWN {
        let more = exceptions.len() - EXCEPTIONS_SHOWN;
        let _ = writeln!(out, "  and {} more", number(more));
    }
}

/// Tasks, states, regions and the rest, a row each.
fn kinds(out: &mut String, catalog: &SiteCatalog, counts: &Counts) {
    let mut tasks = parts(&counts.tasks);
    if counts.closures > 0 {
        tasks.push(format!("of these closures {}", number(counts.closures)));
    }
    row(out, "tasks", number(catalog.tasks.len()), &tasks);
    let states = match catalog.tasks.is_empty() {
        true => Vec::new(),
        false => vec![
            format!("per task: mean {:.1}", counts.states_mean),
            format!("min {}", number(counts.states_min)),
            format!("max {}", number(counts.states_max)),
        ],
    };
    row(out, "states", number(catalog.states.len()), &states);
    row(
        out,
        "regions",
        number(catalog.regions.len()),
        &parts(&counts.regions),
    );
    row(
        out,
        "timeouts",
        number(catalog.timeouts.len()),
        &parts(&counts.timeouts),
    );
    let both = counts.sync + counts.timeout - counts.guarded;
    let guarded = [
        format!("in a region {}", number(counts.sync)),
        format!("under a timeout {}", number(counts.timeout)),
        format!("both {}", number(both)),
    ];
    row(out, "guarded sites", number(counts.guarded), &guarded);
    let grouped = format!("hold {} guarded sites", number(counts.grouped));
    row(out, "groups", number(catalog.groups.len()), &[grouped]);
    let removed = "calls that declare faults which cannot happen there".to_string();
    row(
        out,
        "removed",
        number(catalog.invalid_removed()),
        &[removed],
    );
    let unreached = catalog.removed.len() - catalog.invalid_removed();
    if unreached > 0 {
        let never = "calls in methods that nothing reaches".to_string();
        row(out, "unreached", number(unreached), &[never]);
    }
    row(
        out,
        "messages",
        number(catalog.messages.len()),
        &parts(&counts.messages),
    );
    let accesses = catalog.meta_accesses.len();
    let reads = [
        ("read".to_string(), accesses - counts.meta_writes),
        ("write".to_string(), counts.meta_writes),
    ];
    row(out, "meta accesses", number(accesses), &parts(&reads));
}

fn effort_rows(out: &mut String, examined: &Examined) {
    let effort = &examined.analysis.effort;
    let stage = |(name, seconds): &(&str, f64)| format!("{name} {seconds:.2}");
    let stages: Vec<String> = effort.stages.iter().map(stage).collect();
    row(out, "seconds", format!("{:.2}", examined.seconds), &stages);
    row(
        out,
        "peak memory, MB",
        format!("{:.0}", examined.peak_mb),
        &[],
    );
    let (sources, kept) = (effort.sources, effort.sources_from_cache);
    let cache = match (effort.from_cache, kept) {
        (true, _) => "the whole result was in the cache".to_string(),
        (false, 0) => "none of them was in the cache".to_string(),
        (false, kept) => format!("{} of them were in the cache", number(kept)),
    };
    row(out, "jars and folders", number(sources), &[cache]);
}

fn diagnostics(out: &mut String, examined: &Examined) {
    let all = &examined.analysis.diagnostics;
    if all.is_empty() {
        return;
    }
    let what = "not read or not understood in full; the rest was".to_string();
    out.push('\n');
    row(out, "diagnostics", number(all.len()), &[what]);
    for diagnostic in all.iter().take(DIAGNOSTICS_SHOWN) {
        let (place, message) = (&diagnostic.place, &diagnostic.message);
        let whole = format!("  {place}: {message}");
        // What does not fit on one line has several: place and message are both needed.
        if whole.chars().count() <= WIDTH {
            let _ = writeln!(out, "{whole}");
        } else {
            let _ = writeln!(out, "  {}:", clip_start(place, WIDTH - 3));
            for line in wrap(message, WIDTH - 4, MESSAGE_LINES) {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
    if all.len() > DIAGNOSTICS_SHOWN {
        let more = number(all.len() - DIAGNOSTICS_SHOWN);
        let _ = writeln!(out, "  and {more} more; --json has all");
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{catalog, examined};
    use super::*;

    #[test]
    fn the_summary_counts_everything_by_kind() {
        let text = text(&examined(catalog(), 1));
        let expected = "\
mine@1 on JDK 17

own classes        1,042   9,800 methods, 1.23 MB of code, 12,345 basic blocks

sites                  4   exceptions only 1, delays only 1, both 2, inside the JDK 1,
                           at times in memory 1

I/O sites              read    write  control    local      all
  disk                    0        1        1        0        2
  network                 1        0        0        0        1
  stream                  0        0        0        0        0

exception                                                                  sites
  java.io.IOException                                                          3
  org.mine.LogFull                                                             1

tasks                  1   thread 1
states                 2   per task: mean 2.0, min 2, max 2
regions                1   synchronized method 1
timeouts               1   wait 1
guarded sites          2   in a region 2, under a timeout 1, both 1
groups                 1   hold 2 guarded sites
removed                1   calls that declare faults which cannot happen there
messages               1   send 1
meta accesses          1   read 0, write 1

seconds             0.41   read 0.10, sites 0.25
peak memory, MB      212
jars and folders      12   3 of them were in the cache

diagnostics            1   not read or not understood in full; the rest was
  lib/broken-0.jar!org/mine/Thing.class: the constant pool ends early
";
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn long_tables_end_with_how_many_more_and_no_line_is_too_wide() {
        let mut many = catalog();
        for n in 0..30 {
            let long = "very.".repeat(20);
            many.sites[0]
                .exceptions
                .push(format!("org.{long}Exception{n:02}"));
        }
        let mut examined = examined(many, 14);
        examined.name = "./lib/a-long-name.jar ".repeat(9);
        examined.analysis.diagnostics[0].place = "/deep".repeat(50) + "/Last.class";
        examined.analysis.diagnostics[1].message = "wordy ".repeat(50);
        let text = text(&examined);
        assert!(text.contains("\n  and 20 more\n"), "{text}");
        assert!(text.contains("\n  and 4 more; --json has all\n"), "{text}");
        assert!(
            text.contains("deep/Last.class:\n    the constant pool"),
            "{text}"
        );
        assert!(text.contains("Thing.class:\n    wordy wordy"), "{text}");
        let widest = text.lines().max_by_key(|l| l.chars().count()).unwrap();
        assert!(widest.chars().count() <= WIDTH, "{widest}");
    }

    #[test]
    fn an_empty_catalog_is_no_trouble() {
        let text = text(&examined(SiteCatalog::default(), 0));
        assert!(text.contains("\nstates                 0\n"), "{text}");
        assert!(
            !text.contains("exception  ") && !text.contains("diagnostics"),
            "{text}"
        );
    }

    #[test]
    fn json_has_the_same_figures() {
        let all: Value = serde_json::from_str(&json(&examined(catalog(), 14))).unwrap();
        let figures = [
            ("classes", 1_042),
            ("methods", 9_800),
            ("code_bytes", 1_234_567),
            ("sites", 4),
            ("throwing_sites", 3),
            ("io_sites", 3),
            ("tasks", 1),
            ("states", 2),
            ("groups", 1),
            ("grouped_sites", 2),
            ("regions", 1),
            ("sync_sites", 2),
            ("timeout_sites", 1),
            ("guarded_sites", 2),
            ("invalid_removed", 1),
            ("messages", 1),
            ("meta_accesses", 1),
            ("blocks", 12_345),
        ];
        for (name, figure) in figures {
            assert_eq!(all[name], figure, "{name}");
        }
        assert_eq!(all["target"], "mine@1");
        assert_eq!(all["seconds"], 0.41);
        assert_eq!(all["peak_mb"], 212.4);
        assert_eq!(all["stages"][1], json!({"name": "sites", "seconds": 0.25}));
        assert_eq!(all["diagnostics"].as_array().unwrap().len(), 14);
        assert_eq!(all["io"]["disk"]["control"], 1);
        assert_eq!(all["exceptions"]["org.mine.LogFull"], 1);
    }
}
