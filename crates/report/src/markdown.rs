//! `report.md`: a bug, or a campaign, as text that reads well in a terminal and on a forge.

use std::fmt::Write;

use temblor_model::bug::Verdict;

use crate::escape::{markdown, markdown_block, markdown_code, shorten};
use crate::explain::explain;
use crate::moments::{moments, relative};
use crate::progress::plural;
use crate::view::{BugView, CampaignView, span};

const MOMENTS_MOST: usize = 40;
const CELL_MOST: usize = 300;

/// The report of a bug. Its last line is the command that shows it again.
pub fn bug(view: &BugView) -> String {
    let mut out = format!("# {}\n\n", markdown(&view.bug.title));
    let _ = writeln!(out, "{}\n", markdown(&explain(view).join(" ")));
    let _ = writeln!(
        out,
        "Bug {} · target {} · policy {} · trial {} · clock ×{}\n",
        markdown_code(&view.bug.id),
        markdown_code(&view.spec.target),
        markdown(&view.spec.policy),
        view.trial,
        view.warp
    );
    if let Some(known) = &view.bug.known {
        let _ = writeln!(out, "**Known bug:** {}\n", markdown_code(known));
    }
    plan(view, &mut out);
    evidence(view, &mut out);
    symptoms(view, &mut out);
    timeline(view, &mut out);
    let _ = writeln!(out, "## Confirmation\n\n{}", view.confirmation());
    let trials: Vec<String> = view.bug.trials.iter().map(u64::to_string).collect();
    let shown = shorten(&trials.join(", "), CELL_MOST);
    let _ = writeln!(out, "Trials that showed it: {shown}.\n");
    let _ = writeln!(out, "Signature: {}\n", markdown_code(&view.bug.signature));
    // The command stands in an indented block, so that the last line is it and nothing else.
    let _ = write!(out, "## See it again\n\n    {}\n", view.replay);
    out
}

fn plan(view: &BugView, out: &mut String) {
    out.push_str("## Plan\n\n| step | when | fault |\n|---|---|---|\n");
    for (i, step) in view.bug.plan.steps.iter().enumerate() {
        let (when, fault) = (step.when.to_string(), step.fault.to_string());
        let (when, fault) = (markdown_code(&when), markdown_code(&fault));
        let _ = writeln!(out, "| {} | {when} | {fault} |", i + 1);
    }
    let _ = writeln!(out, "\nSeed {}.\n", view.bug.plan.seed);
}

fn evidence(view: &BugView, out: &mut String) {
    out.push_str("## Evidence\n\n");
    if view.evidence.is_empty() {
        out.push_str("No fault is recorded as fired.\n\n");
    }
    for fault in &view.evidence {
        let at = fault.at_us as f64 / 1e6;
        let what = markdown(&fault.fault);
        let _ = write!(out, "{}. **{what}** at {at:.3} s", fault.step + 1);
        for (name, value) in [
            ("node", &fault.node),
            ("thread", &fault.thread),
            ("site", &fault.site),
        ] {
            if !value.is_empty() {
                let _ = write!(out, ", {name} {}", markdown_code(value));
            }
        }
        if !fault.result.is_empty() {
            let _ = write!(out, ": {}", markdown(&fault.result));
        }
        out.push_str("\n\n");
        if !fault.frames.is_empty() {
            let block = markdown_block("text", &fault.frames.join("\n"));
            let _ = writeln!(out, "{block}");
        }
    }
}

fn symptoms(view: &BugView, out: &mut String) {
    out.push_str("## Symptoms\n\n");
    for symptom in &view.bug.symptoms {
        let at = relative(symptom.at_us, view.fault_at_us());
        let checker = markdown(&symptom.checker);
        let summary = markdown(&symptom.summary);
        let _ = writeln!(out, "- **{checker}** ({at}): {summary}\n");
        if !symptom.detail.is_empty() {
            let block = markdown_block("text", &symptom.detail.join("\n"));
            let _ = writeln!(out, "{block}");
        }
    }
}

fn timeline(view: &BugView, out: &mut String) {
    let rows = moments(view, MOMENTS_MOST);
    if rows.is_empty() {
        return;
    }
    out.push_str("## Timeline\n\nReal time, seen from the first fault.\n\n");
    out.push_str("| time | who | what |\n|---:|---|---|\n");
    for row in rows {
        let at = relative(row.at_us, view.fault_at_us());
        let what = markdown(&shorten(&row.what, CELL_MOST));
        let times = match row.times {
            1 => String::new(),
            n => format!(
                " (×{n}, until {})",
                relative(row.until_us, view.fault_at_us())
            ),
        };
        let _ = writeln!(out, "| {at} | {} | {what}{times} |", markdown(&row.who));
    }
    out.push('\n');
}

/// The summary of a campaign.
pub fn campaign(view: &CampaignView) -> String {
    let s = &view.summary;
    let mut out = format!("# Campaign on {}\n\n", markdown(&view.spec.target));
    let _ = writeln!(
        out,
        "Policy {}, seed {}: {} in {}{}; {} fired, {} unreached, {} unknown, {} not confirmed.\n",
        markdown(&view.spec.policy),
        view.spec.seed,
        plural(s.trials, "trial"),
        span(s.seconds.max(0.0).round() as u64),
        ended(view),
        s.fired,
        s.unreached,
        s.unknown,
        s.unconfirmed
    );
    let _ = writeln!(out, "## {}\n", plural(view.bugs.len() as u64, "bug"));
    if !view.bugs.is_empty() {
        out.push_str("| bug | title | known | confirmed | trials | replay |\n");
        out.push_str("|---|---|---|---|---:|---|\n");
    }
    for (bug, replay) in &view.bugs {
        let known = bug.known.as_deref().map_or(String::new(), markdown_code);
        let _ = writeln!(
            out,
            "| [{}](bugs/{}/report.md) | {} | {known} | {} of {} | {} | {} |",
            markdown(&bug.id),
            crate::store::folder_name(&bug.id),
            markdown(&bug.title),
            bug.confirmed.times,
            bug.confirmed.of,
            bug.trials.len(),
            markdown_code(replay)
        );
    }
    let failed = view.trials.iter();
    let failed = failed.filter(|t| t.outcome.verdict == Verdict::Fail);
    let _ = writeln!(out, "\n{} failed.", plural(failed.count() as u64, "trial"));
    for (trial, why) in &view.torn {
        let _ = writeln!(
            out,
            "- trial {} left out: {}",
            markdown(trial),
            markdown(why)
        );
    }
    out
}

fn ended(view: &CampaignView) -> &'static str {
    match (view.unfinished, view.summary.interrupted) {
        (true, _) => " (not finished)",
        (false, true) => " (ended early)",
        (false, false) => "",
    }
}
