//! A contest as a table: a row for each bug, a column for each policy; for a terminal and as
//! Markdown.

use std::fmt::Write;

use super::curve::median;
use super::{Contest, Entry, Exposed};
use crate::escape::{line, markdown, markdown_code, shell, shorten};
use crate::progress::{Line, Paint, Style, plural};

const NONE: &str = "–";
const UNBOUNDED: usize = usize::MAX;
const TITLE_MOST: usize = 100;

/// What a contest came to so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The policies.
    pub head: Vec<String>,
    pub bugs: Vec<Row>,
    /// Counts, each the median over the seeds.
    pub totals: Vec<Row>,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The known bug, else the bug's id; or what is counted.
    pub name: String,
    /// Empty for counts.
    pub title: String,
    /// One for each policy.
    pub cells: Vec<String>,
}

impl Contest {
    pub fn table(&self) -> Table {
        let of_policy: Vec<Vec<&Entry>> = self.policies.iter().map(|p| self.of_policy(p)).collect();
        let mut bugs: Vec<(usize, Row)> = Vec::new();
        for bug in self.distinct() {
            let found: Vec<Vec<&Exposed>> = of_policy.iter().map(|e| exposed(e, bug)).collect();
            let cells = found.iter().zip(&of_policy);
            let row = Row {
                name: bug.known.clone().unwrap_or_else(|| bug.id.clone()),
                title: bug.title.clone(),
                cells: cells.map(|(found, of)| cell(found, of.len())).collect(),
            };
            bugs.push((found.iter().map(Vec::len).sum(), row));
        }
        bugs.sort_by(|(a, x), (b, y)| (b, &x.name).cmp(&(a, &y.name)));
        let total = |name: &str, count: fn(&Entry) -> Option<f64>| Row {
            name: name.into(),
            title: String::new(),
            cells: of_policy.iter().map(|e| median_of(e, count)).collect(),
        };
        let any_seed = |entries: &Vec<&Entry>| {
            let keys = entries.iter().flat_map(|e| e.bugs.iter().map(|b| &b.key));
            let keys: std::collections::BTreeSet<&String> = keys.collect();
            match entries.is_empty() {
                true => NONE.to_owned(),
                false => keys.len().to_string(),
            }
        };
        let mut totals = vec![
            total("bugs in total", |e| Some(e.bugs.len() as f64)),
            total("trials", |e| Some(e.trials as f64)),
            total("trials per hour", Entry::trials_per_hour),
            total("injections fired", |e| Some(e.injections as f64)),
        ];
        if self.seeds.len() > 1 {
            let row = Row {
                name: "bugs with any seed".into(),
                title: String::new(),
                cells: of_policy.iter().map(any_seed).collect(),
            };
            totals.insert(1, row);
        }
        Table {
            head: self.policies.clone(),
            bugs: bugs.into_iter().map(|(_, row)| row).collect(),
            totals,
        }
    }

    /// Every bug once, as the first campaign that has it tells it.
    pub fn distinct(&self) -> Vec<&Exposed> {
        let mut all: Vec<&Exposed> = Vec::new();
        for bug in self.campaigns.iter().flat_map(|e| &e.bugs) {
            if all.iter().all(|known| known.key != bug.key) {
                all.push(bug);
            }
        }
        all
    }

    /// The campaigns in a few words.
    pub fn words(&self) -> String {
        let (done, of) = self.done();
        let s = &self.spec;
        format!(
            "{} · {} with {} · {} each · {done} of {} done",
            s.target,
            match self.policies.len() {
                1 => "1 policy".to_owned(),
                n => format!("{n} policies"),
            },
            plural(self.seeds.len() as u64, "seed"),
            plural(s.trials, "trial"),
            plural(of as u64, "campaign")
        )
    }

    /// Lines for a terminal or a pipe.
    pub fn lines(&self, paint: Paint) -> Vec<String> {
        let table = self.table();
        let rows = || table.bugs.iter().chain(&table.totals);
        let wide = |text: &str| line(text).chars().count();
        let first = rows().map(|r| wide(&r.name)).max().unwrap_or(0).max(3);
        let column = |i: usize| {
            let cells = rows().map(|r| wide(&r.cells[i]));
            cells.chain([wide(&table.head[i])]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..table.head.len()).map(column).collect();
        let text = |name: &str, cells: &[String]| {
            let mut out = format!("{:<first$}", line(name));
            for (cell, width) in cells.iter().zip(&widths) {
                let _ = write!(out, "  {:<width$}", line(cell));
            }
            out.trim_end().to_owned()
        };
        let styled = |style, text: String| Line::default().with(style, text);
        let mut out = vec![styled(Style::Bold, line(&self.words())), Line::default()];
        out.push(styled(Style::Dim, text("bug", &table.head)));
        let plain = |row: &Row| styled(Style::Plain, text(&row.name, &row.cells));
        out.extend(table.bugs.iter().map(plain));
        if table.bugs.is_empty() {
            out.push(styled(Style::Dim, "none was found".into()));
        }
        out.push(Line::default());
        out.extend(table.totals.iter().map(plain));
        if !table.bugs.is_empty() {
            out.push(Line::default());
        }
        for row in &table.bugs {
            let title = shorten(&line(&row.title), TITLE_MOST);
            let name = format!("{:<first$}  ", line(&row.name));
            let both = Line::default().with(Style::Plain, name);
            out.push(both.with(Style::Dim, title));
        }
        out.iter().map(|l| l.render(UNBOUNDED, paint)).collect()
    }

    /// For a pull request or a wiki.
    pub fn markdown(&self, folder: &str) -> String {
        let table = self.table();
        let mut out = format!("# Policies compared\n\n{}\n\n", markdown(&self.words()));
        let head: Vec<String> = table.head.iter().map(|p| markdown(p)).collect();
        let _ = writeln!(out, "| bug | {} |", head.join(" | "));
        let _ = writeln!(out, "|---|{}", "---|".repeat(head.len()));
        let row = |name: String, cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|c| markdown(c)).collect();
            format!("| {name} | {} |\n", cells.join(" | "))
        };
        for bug in &table.bugs {
            let title = markdown(&shorten(&bug.title, TITLE_MOST));
            let name = format!("{} {title}", markdown_code(&bug.name));
            out.push_str(&row(name, &bug.cells));
        }
        for total in &table.totals {
            out.push_str(&row(format!("*{}*", total.name), &total.cells));
        }
        let _ = writeln!(out, "\n{EXPLAINED}\n");
        out.push_str("| campaign | trials | bugs | minutes |\n|---|---:|---:|---:|\n");
        for e in &self.campaigns {
            let unfinished = if e.finished { "" } else { ", not finished" };
            let _ = writeln!(
                out,
                "| {}, seed {}{unfinished}: {} | {} | {} | {:.1} |",
                markdown(&e.policy),
                e.seed,
                markdown_code(&e.folder),
                e.trials,
                e.bugs.len(),
                e.seconds / 60.0
            );
        }
        if !self.left().is_empty() {
            let _ = writeln!(out, "\nGo on with: `{}`", resume_command(folder));
        }
        out
    }
}

/// What cells mean.
pub(crate) const EXPLAINED: &str = "A cell tells in how many of a policy's campaigns the bug was \
    exposed, and, as medians over these, in which trial of the search and after how many minutes. \
    The last rows are medians over seeds.";

/// What goes on with a contest.
pub fn resume_command(folder: &str) -> String {
    format!("./temblor compare --resume {}", shell(folder))
}

/// A bug in the campaigns of one policy.
fn exposed<'a>(entries: &[&'a Entry], bug: &Exposed) -> Vec<&'a Exposed> {
    let all = entries.iter().flat_map(|e| &e.bugs);
    all.filter(|b| b.key == bug.key).collect()
}

/// `2/3, trial 14, 3.5 min`.
fn cell(found: &[&Exposed], of: usize) -> String {
    let trials = found.iter().map(|b| b.trial as f64).collect();
    let Some(trial) = median(trials) else {
        return NONE.into();
    };
    let minutes = found.iter().filter_map(|b| b.seconds).map(|s| s / 60.0);
    let minutes = median(minutes.collect());
    let minutes = minutes.map_or(String::new(), |m| format!(", {m:.1} min"));
    format!("{}/{of}, trial {}{minutes}", found.len(), number(trial))
}

fn median_of(entries: &[&Entry], count: fn(&Entry) -> Option<f64>) -> String {
    let counts = entries.iter().filter_map(|e| count(e)).collect();
    median(counts).map_or(NONE.into(), number)
}

/// A count, or half of one between two.
fn number(value: f64) -> String {
    match value.fract() == 0.5 && value < 1000.0 {
        true => format!("{value:.1}"),
        false => format!("{value:.0}"),
    }
}
