//! What a campaign came to, drawn and counted: does more searching still find more?

use std::fmt::Write;

use temblor_model::bug::Verdict;
use temblor_model::campaign::Purpose;

use super::plot::{Plot, Scale, Shape, shape_key, whole};
use crate::escape::html;
use crate::progress::plural;
use crate::tally::{self, Verdicts};
use crate::view::{CampaignView, TrialLine};

/// Marks in one plot; of more passing trials each n-th is drawn, of others all up to this many.
const MARKS_MOST: usize = 1500;
/// Points of a curve; a longer one loses those between.
const CURVE_POINTS_MOST: usize = 2000;

/// The sections with plots and counts; no plots for a campaign without search trials.
pub(super) fn sections(view: &CampaignView) -> String {
    let mut out = String::new();
    let trials: Vec<&TrialLine> = tally::search(view).collect();
    if !trials.is_empty() {
        let _ = write!(
            out,
            "<section><h2>Bugs over search trials</h2>\n<div class=\"scroll\">{}</div></section>\n\
             <section><h2>Where faults fired</h2>\n<div class=\"scroll\">{}</div>{}</section>\n\
             <section><h2>Seconds of each search trial</h2>\n<div class=\"scroll\">{}</div>\
             <p class=\"legend\">{}</p></section>\n",
            bugs(view, trials.len()),
            reach(view),
            covered(view),
            durations(&trials),
            verdict_keys()
        );
    }
    out.push_str(&counts(view));
    out
}

/// The axis of search trials: from none to all of them.
fn trial_axis(trials: usize) -> Scale {
    Scale::Linear {
        from: 0.0,
        to: trials.max(1) as f64,
    }
}

fn count_axis(most: u64) -> Scale {
    Scale::Linear {
        from: 0.0,
        to: most.max(1) as f64,
    }
}

fn bugs(view: &CampaignView, trials: usize) -> String {
    let found = tally::found_after(view);
    let mut plot = Plot::wide(200.0, trial_axis(trials), count_axis(found.len() as u64));
    plot.y_axis(whole);
    plot.x_axis("search trials", whole);
    let steps = found.iter().enumerate();
    let mut steps: Vec<(f64, f64)> = steps
        .map(|(i, (after, _))| (*after as f64, i as f64 + 1.0))
        .collect();
    steps.push((trials as f64, found.len() as f64));
    plot.steps("bugs", true, &steps);
    for (i, (after, bug)) in found.iter().enumerate() {
        let at = (*after as f64, i as f64 + 1.0);
        let title = format!("after {after} search trials: {}", bug.title);
        plot.mark(Shape::Circle, "bug", at, 4.5, &title);
    }
    plot.svg("Bugs found over search trials")
}

/// A curve with few enough points; the last one always stays.
fn curve(totals: &[u64]) -> Vec<(f64, f64)> {
    let every = totals.len().div_ceil(CURVE_POINTS_MOST).max(1);
    let last = totals.len().saturating_sub(1);
    let kept = totals.iter().enumerate();
    let kept = kept.filter(|(i, _)| i % every == 0 || *i == last);
    kept.map(|(i, n)| (i as f64 + 1.0, *n as f64)).collect()
}

fn reach(view: &CampaignView) -> String {
    let growth = tally::growth(view);
    let reached = reached_in_clean_runs(view);
    let most = |totals: &[u64]| totals.last().copied().unwrap_or(0);
    let top = most(&growth.faults).max(most(&growth.contexts));
    // What clean runs reach is a goal worth showing, unless it would flatten all the rest.
    let goal = reached.filter(|(sites, _)| *sites <= 4 * top.max(1));
    let top = goal.map_or(top, |(sites, _)| top.max(sites));
    let trials = growth.faults.len();
    let mut plot = Plot::wide(220.0, trial_axis(trials), count_axis(top));
    plot.y_axis(whole);
    plot.x_axis("search trials", whole);
    if let Some((sites, _)) = goal {
        let name = format!("{} reached in clean runs", plural(sites, "site"));
        plot.level("two", sites as f64, &name);
    }
    let mut labels = Vec::new();
    for (class, name, totals) in [
        ("three", "fault", &growth.faults),
        ("one", "context", &growth.contexts),
        ("two", "site", &growth.sites),
    ] {
        plot.steps(class, false, &curve(totals));
        let last = most(totals);
        let at = (trials as f64, last as f64);
        labels.push((class, plural(last, name), at));
    }
    plot.end_labels(&labels);
    plot.svg("Faults fired, and the sites and contexts they fired in, over search trials")
}

/// Distinct sites and contexts that clean runs reached.
fn reached_in_clean_runs(view: &CampaignView) -> Option<(u64, u64)> {
    use std::collections::BTreeSet;
    let reached = &view.baseline.as_ref()?.reached;
    let sites: BTreeSet<_> = reached.iter().map(|r| r.site).collect();
    let contexts: BTreeSet<_> = reached.iter().map(|r| (r.site, &r.stack)).collect();
    (!sites.is_empty()).then_some((sites.len() as u64, contexts.len() as u64))
}

fn covered(view: &CampaignView) -> String {
    let mut facts = Vec::new();
    if let Some((sites, contexts)) = reached_in_clean_runs(view) {
        facts.push(format!(
            "Clean runs reached {} in {}.",
            plural(sites, "site"),
            plural(contexts, "context")
        ));
    }
    if let Some((covered, of)) = view.summary.covered {
        let share = covered as f64 * 100.0 / of.max(1) as f64;
        facts.push(format!(
            "All trials together covered {covered} of {of} basic blocks ({share:.1} %)."
        ));
    }
    match facts.is_empty() {
        true => String::new(),
        false => format!("<p class=\"dim\">{}</p>\n", facts.join(" ")),
    }
}

fn verdict_mark(verdict: Verdict) -> (Shape, &'static str, &'static str) {
    match verdict {
        Verdict::Pass => (Shape::Circle, "ok", "pass"),
        Verdict::Unknown => (Shape::Triangle, "unknown", "unknown"),
        Verdict::Fail => (Shape::Cross, "wrong", "fail"),
    }
}

fn verdict_keys() -> String {
    let key = |verdict| {
        let (shape, class, name) = verdict_mark(verdict);
        shape_key(shape, class, name)
    };
    [Verdict::Pass, Verdict::Unknown, Verdict::Fail]
        .map(key)
        .concat()
}

fn durations(trials: &[&TrialLine]) -> String {
    let seconds = |t: &TrialLine| t.outcome.seconds.max(0.0);
    let longest = trials.iter().map(|t| seconds(t)).fold(0.0, f64::max);
    let y = Scale::Linear {
        from: 0.0,
        to: (longest * 1.08).max(0.1),
    };
    let mut plot = Plot::wide(200.0, trial_axis(trials.len()), y);
    plot.y_axis(|s| format!("{} s", (s * 10.0).round() / 10.0));
    plot.x_axis("search trials", whole);
    // Passing trials first, so that the others lie on top of them.
    for verdict in [Verdict::Pass, Verdict::Unknown, Verdict::Fail] {
        let same = trials.iter().enumerate();
        let same: Vec<_> = same.filter(|(_, t)| t.outcome.verdict == verdict).collect();
        let every = same.len().div_ceil(MARKS_MOST).max(1);
        let (shape, class, name) = verdict_mark(verdict);
        let r = if verdict == Verdict::Pass { 2.8 } else { 3.8 };
        for (i, trial) in same.into_iter().step_by(every) {
            let title = format!("trial {}: {name}, {:.1} s", trial.trial, seconds(trial));
            let at = (i as f64 + 1.0, seconds(trial));
            plot.mark(shape, class, at, r, &title);
        }
    }
    plot.svg("Seconds of each search trial")
}

fn counts(view: &CampaignView) -> String {
    let row = |name: &str, v: Verdicts, more: &str| {
        format!(
            "<tr><td>{}</td><td class=\"count\">{}</td><td class=\"count\">{}</td>\
             <td class=\"count\">{}</td><td class=\"count\">{}</td>{more}</tr>\n",
            html(name),
            v.pass,
            v.unknown,
            v.fail,
            v.all()
        )
    };
    let head = "<th class=\"count\">pass</th><th class=\"count\">unknown</th>\
                <th class=\"count\">fail</th><th class=\"count\">all</th>";
    let mut out = format!(
        "<section><h2>Verdicts</h2>\n<div class=\"pair\"><div class=\"scroll\"><table>\
         <thead><tr><th>trials</th>{head}</tr></thead><tbody>\n"
    );
    for (name, purpose) in [
        ("clean runs", Purpose::Baseline),
        ("search", Purpose::Search),
        ("replays", Purpose::Confirm),
        ("smaller plans", Purpose::Shrink),
    ] {
        out.push_str(&row(name, tally::verdicts(view, purpose), ""));
    }
    let _ = writeln!(
        out,
        "</tbody></table></div>\n<div class=\"scroll\"><table><thead><tr>\
         <th>checker, in search trials</th>{head}<th class=\"count\">bugs</th></tr></thead><tbody>"
    );
    for checker in tally::checkers(view) {
        let bugs = format!("<td class=\"count\">{}</td>", checker.bugs);
        out.push_str(&row(&checker.checker, checker.verdicts, &bugs));
    }
    out.push_str("</tbody></table></div></div></section>\n");
    out
}
