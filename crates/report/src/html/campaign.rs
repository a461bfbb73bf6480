//! `campaign.html`: what a campaign came to, its bugs, its trials.

use std::fmt::Write;

use temblor_model::bug::Verdict;
use temblor_model::campaign::Purpose;

use super::{badge, charts, command, lengths, page};
use crate::escape::{html, shorten};
use crate::progress::{jobs, plural};
use crate::store::folder_name;
use crate::view::{CampaignView, TrialLine, short_plan, span};

/// Rows of trials on the page; a longer campaign shows its last ones.
const TRIALS_MOST: usize = 5000;
const PLAN_MOST: usize = 240;

/// The page of a campaign.
pub fn campaign(view: &CampaignView) -> String {
    let mut body = header(view);
    body.push_str(&bugs(view));
    body.push_str(&charts::sections(view));
    body.push_str(&lengths::section(view));
    body.push_str(&trials(view));
    page(&format!("Campaign on {}", view.spec.target), &body)
}

fn header(view: &CampaignView) -> String {
    let s = &view.summary;
    let mut badges = String::new();
    if view.unfinished {
        badges.push_str(&badge("some", "not finished"));
    } else if s.interrupted {
        badges.push_str(&badge("some", "ended early"));
    }
    let mut tiles = String::new();
    let seconds = span(s.seconds.max(0.0).round() as u64);
    for (class, name, value) in [
        ("bad", "bugs", view.bugs.len().to_string()),
        ("", "trials", s.trials.to_string()),
        ("", "fired", s.fired.to_string()),
        ("", "unreached", s.unreached.to_string()),
        ("", "unknown", s.unknown.to_string()),
        ("", "not confirmed", s.unconfirmed.to_string()),
        ("", "time", seconds),
    ] {
        let _ = write!(
            tiles,
            "<div class=\"tile {class}\"><b>{value}</b><span>{name}</span></div>"
        );
    }
    let tracked = (view.baseline.as_ref()).is_some_and(|b| !b.moves.is_empty());
    let states = match tracked {
        true => "<p><a href=\"states.html\">States of tasks in clean runs</a></p>\n",
        false => "",
    };
    format!(
        "<header><p class=\"crumb\">{} · seed {} · {} · faults {} · store <code>{}</code></p>\n\
         <h1>Campaign on {}</h1>\n<p class=\"badges\">{badges}</p>\n\
         <div class=\"tiles\">{tiles}</div>\n{states}</header>\n",
        html(&view.spec.policy),
        view.spec.seed,
        jobs(view.spec.jobs),
        html(&view.spec.faults.join(", ")),
        html(&view.store),
        html(&view.spec.target)
    )
}

fn bugs(view: &CampaignView) -> String {
    let mut out = String::from("<section><h2>Bugs</h2>\n");
    if view.bugs.is_empty() {
        out.push_str("<p>None was found.</p></section>\n");
        return out;
    }
    for (bug, replay) in &view.bugs {
        let known = match &bug.known {
            Some(known) => badge("known", &format!("known: {known}")),
            None => badge("new", "not known before"),
        };
        let c = bug.confirmed;
        let class = if c.times == c.of { "good" } else { "some" };
        let confirmed = badge(class, &format!("confirmed {} of {}", c.times, c.of));
        let seen = format!("seen in {}", plural(bug.trials.len() as u64, "trial"));
        let _ = writeln!(
            out,
            "<article class=\"card symptom\"><h3><a href=\"bugs/{}/report.html\">{}</a></h3>\
             <p class=\"badges\">{known}{confirmed}{}</p>\
             <p class=\"plan\" title=\"{}\">{}</p>{}</article>",
            folder_name(&bug.id),
            html(&bug.title),
            badge("checker", &seen),
            html(&bug.plan.to_string()),
            html(&short_plan(&bug.plan)),
            command(replay)
        );
    }
    out.push_str("</section>\n");
    out
}

fn trials(view: &CampaignView) -> String {
    let skipped = view.trials.len().saturating_sub(TRIALS_MOST);
    let mut out = format!(
        "<section><h2>Trials</h2>\n<p class=\"filter\"><input type=\"search\" \
         data-filter=\"trials\" placeholder=\"Filter: fail, unreached, a site, a node\" \
         aria-label=\"Filter trials\"><span class=\"dim\">{} of {}</span></p>\n\
         <div class=\"scroll\"><table class=\"trials\" id=\"trials\"><thead><tr><th>trial</th>\
         <th>verdict</th><th>fired</th><th>plan</th><th>seconds</th></tr></thead><tbody>\n",
        view.trials.len() - skipped,
        plural(view.trials.len() as u64, "trial")
    );
    for line in &view.trials[skipped..] {
        out.push_str(&trial_row(line));
    }
    out.push_str("</tbody></table></div>\n");
    for (trial, why) in &view.torn {
        let _ = writeln!(
            out,
            "<p class=\"dim\">Trial {} is left out: {}</p>",
            html(trial),
            html(why)
        );
    }
    out.push_str("</section>\n");
    out
}

fn trial_row(line: &TrialLine) -> String {
    let verdict = match line.outcome.verdict {
        Verdict::Pass => "pass",
        Verdict::Unknown => "unknown",
        Verdict::Fail => "fail",
    };
    let purpose = match line.purpose {
        Purpose::Baseline => " clean run",
        Purpose::Search => "",
        Purpose::Confirm => " replay",
        Purpose::Shrink => " smaller plan",
    };
    let unreached = match line.outcome.unreached.is_empty() {
        true => "",
        false => " <span class=\"dim\">unreached</span>",
    };
    let mut links = String::new();
    for id in &line.bugs {
        let folder = folder_name(id);
        let id = html(id);
        let _ = write!(links, " <a href=\"bugs/{folder}/report.html\">{id}</a>");
    }
    let symptoms: Vec<&str> = line
        .outcome
        .symptoms()
        .map(|s| s.summary.as_str())
        .collect();
    format!(
        "<tr class=\"{verdict}\" data-more=\"{full}\">\
         <td>{}<span class=\"dim\">{purpose}</span></td>\
         <td class=\"verdict\" title=\"{}\">{verdict}{links}</td><td>{}{unreached}</td>\
         <td class=\"plan\" title=\"{full}\">{}</td>\
         <td class=\"time\">{:.1}</td></tr>\n",
        line.trial,
        html(&shorten(&symptoms.join("\n"), PLAN_MOST)),
        line.outcome.fired.len(),
        html(&shorten(&short_plan(&line.plan), PLAN_MOST)),
        line.outcome.seconds,
        full = html(&shorten(&line.plan.to_string(), 4 * PLAN_MOST))
    )
}
