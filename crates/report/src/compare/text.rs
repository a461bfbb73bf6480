//! A comparison as lines for a terminal, and as Markdown.

use std::fmt::Write;

use super::{Comparison, Found, SameBug, Side};
use crate::escape::{line, markdown, markdown_code};
use crate::progress::{Line, Paint, Style, plural};
use crate::view::span;

const UNKNOWN: &str = "–";
const UNBOUNDED: usize = usize::MAX;

impl Comparison {
    /// What is counted, with the value of each side.
    pub fn rows(&self) -> Vec<(&'static str, [String; 2])> {
        let row = |name, value: fn(&Side) -> String| (name, [value(&self.a), value(&self.b)]);
        let or_unknown = |text: Option<String>| text.unwrap_or(UNKNOWN.into());
        let optional = |name, value: fn(&Side) -> Option<String>| {
            (name, [&self.a, &self.b].map(|side| or_unknown(value(side))))
        };
        let mut rows = vec![
            row("bugs", |s| s.found_after.len().to_string()),
            row("signatures", |s| s.signatures.to_string()),
            row("search trials", |s| s.trials.to_string()),
            optional("time", |s| s.seconds.map(|s| span(s.round() as u64))),
            optional("trials per hour", |s| {
                s.trials_per_hour.map(|rate| format!("{rate:.0}"))
            }),
            row("pass", |s| s.verdicts.pass.to_string()),
            row("unknown", |s| s.verdicts.unknown.to_string()),
            row("fail", |s| s.verdicts.fail.to_string()),
            row("fired", |s| s.fired.to_string()),
            row("unreached", |s| s.unreached.to_string()),
            row("sites injected", |s| s.sites.to_string()),
            row("contexts injected", |s| s.contexts.to_string()),
        ];
        if self.a.covered.is_some() || self.b.covered.is_some() {
            rows.push(optional("blocks covered", |s| {
                s.covered.map(|(covered, of)| format!("{covered} of {of}"))
            }));
        }
        rows
    }

    /// The three groups of bugs with their headings.
    pub fn groups(&self) -> [(&'static str, &[SameBug]); 3] {
        [
            ("in both", &self.both),
            ("only in A", &self.only_a),
            ("only in B", &self.only_b),
        ]
    }

    /// Lines for a terminal or a pipe.
    pub fn lines(&self, paint: Paint) -> Vec<String> {
        let mut out = Vec::new();
        for (name, side) in [("A", &self.a), ("B", &self.b)] {
            let head = Line::default()
                .with(Style::Bold, format!("{name}  {}", line(&side.store)))
                .with(Style::Dim, format!("  {}", line(&side_words(side))));
            out.push(head.render(UNBOUNDED, paint));
        }
        for differ in &self.differ {
            let values = format!("{} in A, {} in B", said(&differ.a), said(&differ.b));
            let text = format!("   {}: {}", differ.what, line(&values));
            out.push(
                Line::default()
                    .with(Style::Dim, text)
                    .render(UNBOUNDED, paint),
            );
        }
        out.push(String::new());
        out.push(format!("{:<20}{:>14}{:>14}", "", "A", "B"));
        for (name, [a, b]) in self.rows() {
            out.push(format!("{name:<20}{a:>14}{b:>14}"));
        }
        for (place, bugs) in self.groups() {
            out.push(String::new());
            let count = plural(bugs.len() as u64, "bug");
            let style = if bugs.is_empty() {
                Style::Dim
            } else {
                Style::Bold
            };
            let head = Line::default().with(style, format!("{count} {place}"));
            out.push(head.render(UNBOUNDED, paint));
            for bug in bugs {
                out.extend(bug_lines(bug, paint));
            }
        }
        out
    }

    /// For a pull request or a wiki.
    pub fn markdown(&self) -> String {
        let mut out = format!(
            "# Two campaigns compared\n\n- **A** {}: {}\n- **B** {}: {}\n",
            markdown_code(&self.a.store),
            markdown(&side_words(&self.a)),
            markdown_code(&self.b.store),
            markdown(&side_words(&self.b))
        );
        for differ in &self.differ {
            let (a, b) = (markdown(&said(&differ.a)), markdown(&said(&differ.b)));
            let _ = writeln!(out, "- {}: {a} in A, {b} in B", differ.what);
        }
        out.push_str("\n| | A | B |\n|---|---:|---:|\n");
        for (name, [a, b]) in self.rows() {
            let _ = writeln!(out, "| {name} | {a} | {b} |");
        }
        for (place, bugs) in self.groups() {
            let count = plural(bugs.len() as u64, "bug");
            let _ = writeln!(out, "\n## {count} {place}");
            if bugs.is_empty() {
                continue;
            }
            out.push_str("\n| bug | known | A | B |\n|---|---|---|---|\n");
            for bug in bugs {
                let known = bug.known.as_deref().map_or(String::new(), markdown_code);
                let _ = writeln!(
                    out,
                    "| {} | {known} | {} | {} |",
                    markdown(&bug.title),
                    markdown(&found_words(&bug.a)),
                    markdown(&found_words(&bug.b))
                );
            }
        }
        out
    }
}

fn said(value: &str) -> String {
    match value {
        "" => "the default".into(),
        value => value.into(),
    }
}

/// A campaign in a few words.
pub(crate) fn side_words(side: &Side) -> String {
    let unfinished = if side.unfinished {
        ", not finished"
    } else {
        ""
    };
    format!(
        "{} · {} · seed {}{unfinished}",
        side.target, side.policy, side.seed
    )
}

/// When a side found a bug: `b3f9c1d2 after 12 trials`.
pub(crate) fn found_words(found: &[Found]) -> String {
    let one = |f: &Found| {
        let trials = plural(f.after, "trial");
        format!("{} after {trials}, confirmed {}", f.id, f.confirmed)
    };
    let all: Vec<String> = found.iter().map(one).collect();
    match all.is_empty() {
        true => UNKNOWN.into(),
        false => all.join("; "),
    }
}

fn bug_lines(bug: &SameBug, paint: Paint) -> Vec<String> {
    let known = bug.known.as_ref();
    let known = known.map_or(String::new(), |k| format!(" (known: {})", line(k)));
    let head = Line::default()
        .with(Style::Bad, "  ")
        .with(Style::Bold, line(&bug.title))
        .with(Style::Plain, known);
    let mut out = vec![head.render(UNBOUNDED, paint)];
    for (name, found) in [("A", &bug.a), ("B", &bug.b)] {
        if !found.is_empty() {
            let text = format!("    {name}  {}", line(&found_words(found)));
            out.push(
                Line::default()
                    .with(Style::Dim, text)
                    .render(UNBOUNDED, paint),
            );
        }
    }
    out
}
