//! The section of a campaign's page on what the length of a delay changes.

use std::fmt::Write;

use temblor_model::bug::Verdict;
use temblor_model::plan::Fault;

use super::badge;
use crate::escape::{html, shorten};
use crate::lengths::{Length, Swept, swept};
use crate::progress::plural;
use crate::view::{CampaignView, short_site};

/// Rows on the page; the rest is in the file.
const ROWS_MOST: usize = 100;
/// Lines told of one length.
const LINES_MOST: usize = 6;
const LINE_MOST: usize = 200;

/// Empty where no call was delayed for several lengths, or none of them made a difference.
pub(super) fn section(view: &CampaignView) -> String {
    let swept = swept(view);
    if swept.is_empty() {
        return String::new();
    }
    let turning = swept.iter().filter(|s| s.turns()).count() as u64;
    let mut out = format!(
        "<section><h2>What the length of a delay changes</h2>\n<p class=\"dim\">Trials that \
         delayed one call in one context, and differ only in how long. {} came to different \
         verdicts. Below each length: what showed with it, and not with every other one. All {} \
         are in <a href=\"lengths.json\">lengths.json</a>.</p>\n<div class=\"scroll\"><table>\
         <thead><tr><th>call</th><th>delays</th></tr></thead><tbody>\n",
        plural(turning, "call"),
        swept.len()
    );
    for place in swept.iter().take(ROWS_MOST) {
        out.push_str(&row(place));
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}

fn row(place: &Swept) -> String {
    let lengths: String = place.lengths.iter().map(length).collect();
    let state = place.state.as_deref().map_or(String::new(), |state| {
        format!("<div class=\"dim\">in {}</div>", html(state))
    });
    format!(
        "<tr><td title=\"{}, stack {}\">{}{state}</td><td>{lengths}</td></tr>\n",
        html(&place.site),
        html(&place.stack),
        html(&short_site(&place.site))
    )
}

fn length(length: &Length) -> String {
    let (class, verdict) = match length.verdict {
        Verdict::Pass => ("good", "pass"),
        Verdict::Unknown => ("some", "unknown"),
        Verdict::Fail => ("new", "fail"),
    };
    let trials: Vec<String> = length.trials.iter().map(u64::to_string).collect();
    let fault = Fault::Delay { ms: length.ms };
    let word = match trials.len() {
        1 => "trial",
        _ => "trials",
    };
    let mut out = format!(
        "<p class=\"badges\">{}<span class=\"dim\">{word} {}</span></p>",
        badge(class, &format!("{fault}: {verdict}")),
        trials.join(", ")
    );
    if length.only.is_empty() {
        return out;
    }
    out.push_str("<ul>");
    for what in length.only.iter().take(LINES_MOST) {
        let _ = write!(out, "<li>{}</li>", html(&shorten(what, LINE_MOST)));
    }
    out.push_str("</ul>\n");
    out
}
