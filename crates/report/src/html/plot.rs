//! The plot of bugs over trials: does more searching still find more?

use std::fmt::Write;

use temblor_model::bug::Verdict;
use temblor_model::campaign::Purpose;

use crate::escape::html;
use crate::view::CampaignView;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 36.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// Marks below the curve; a longer campaign shows each n-th failing trial.
const MARKS_MOST: usize = 1500;

/// The section with the plot; nothing for a campaign without trials.
pub(super) fn section(view: &CampaignView) -> String {
    let search = view.trials.iter();
    let search = search.filter(|t| t.purpose == Purpose::Search);
    let trials: Vec<(u64, Verdict)> = search.map(|t| (t.trial, t.outcome.verdict)).collect();
    if trials.is_empty() {
        return String::new();
    }
    // A bug counts from the first search trial at or after the one that showed it first.
    let order = |trial: u64| trials.partition_point(|(t, _)| *t < trial);
    let first = |b: &temblor_model::bug::Bug| b.trials.iter().min().copied().unwrap_or(0);
    let found = view.bugs.iter().map(|(b, _)| (order(first(b)), &b.title));
    let mut found: Vec<(usize, &String)> = found.collect();
    found.sort();
    format!(
        "<section><h2>Bugs over trials</h2>\n<div class=\"scroll\">{}</div></section>\n",
        draw(&trials, &found)
    )
}

fn draw(trials: &[(u64, Verdict)], found: &[(usize, &String)]) -> String {
    let most = found.len().max(1) as f64;
    let last = trials.len().max(1) as f64;
    let x = |n: usize| LEFT + (n as f64 / last) * (WIDTH - LEFT - RIGHT);
    let ground = HEIGHT - BOTTOM;
    let y = |bugs: usize| ground - bugs as f64 / most * (ground - TOP);
    let mut out = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Bugs found over trials\" xmlns=\"http://www.w3.org/2000/svg\">\n"
    );
    let every = found.len().div_ceil(5).max(1);
    for bugs in (0..=found.len().max(1)).step_by(every) {
        let y = y(bugs);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{bugs}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0
        );
    }
    let mut path = format!("M{LEFT} {ground}");
    for (bugs, (n, _)) in found.iter().enumerate() {
        let _ = write!(path, " H{:.1} V{:.1}", x(*n + 1), y(bugs + 1));
    }
    let _ = write!(path, " H{:.1}", WIDTH - RIGHT);
    let area = format!("{path} V{ground} H{LEFT} Z");
    let _ = writeln!(
        out,
        "<path class=\"area\" d=\"{area}\"/><path class=\"curve\" d=\"{path}\"/>"
    );
    for (bugs, (n, title)) in found.iter().enumerate() {
        let _ = writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4.5\"><title>{}</title></circle>",
            x(*n + 1),
            y(bugs + 1),
            html(title)
        );
    }
    verdict_marks(trials, &x, ground + 5.0, &mut out);
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{base}\">0</text>\
         <text class=\"mid\" x=\"{middle:.1}\" y=\"{base}\">search trials; marks: failing, \
         unknown</text><text class=\"end\" x=\"{:.1}\" y=\"{base}\">{}</text>\n</svg>",
        WIDTH - RIGHT,
        trials.len(),
        base = HEIGHT - 10.0
    );
    out
}

fn verdict_marks(trials: &[(u64, Verdict)], x: &impl Fn(usize) -> f64, y: f64, out: &mut String) {
    let marked = trials.iter().enumerate();
    let marked = marked.filter(|(_, (_, v))| *v != Verdict::Pass);
    let marked: Vec<_> = marked.collect();
    let every = marked.len().div_ceil(MARKS_MOST).max(1);
    for (n, (trial, verdict)) in marked.into_iter().step_by(every) {
        let class = if *verdict == Verdict::Fail {
            "fail"
        } else {
            "unknown"
        };
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"2\" height=\"9\">\
             <title>trial {trial}: {class}</title></rect>",
            x(n + 1) - 1.0
        );
    }
}
