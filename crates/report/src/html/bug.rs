//! `report.html` of a bug: what happened, drawn and told, and how to see it again.

use std::fmt::Write;

use temblor_model::event::What;

use super::{badge, command, folded, latency, page};
use crate::escape::{html, shorten};
use crate::explain::explain;
use crate::moments::{Tone, moments, relative};
use crate::timeline::{MarkKind, Timeline, log_mark};
use crate::timeline_svg;
use crate::view::{BugView, Evidence, short_site};

const MOMENTS_MOST: usize = 60;
/// Log lines shown, around the fault.
const LOG_LINES_MOST: usize = 400;
const TEXT_MOST: usize = 4000;
const DUMP_MOST: usize = 200_000;

/// The page of a bug.
pub fn bug(view: &BugView) -> String {
    let mut body = header(view);
    body.push_str(&timeline(view));
    body.push_str(&faults(view));
    body.push_str(&symptoms(view));
    body.push_str(&story_table(view));
    body.push_str(&logs(view));
    body.push_str(&dumps(view));
    let plan = toml::to_string(&view.bug.plan);
    let plan = plan.unwrap_or_else(|e| format!("# the plan cannot be written as TOML: {e}"));
    let _ = write!(
        body,
        "<section><h2>Plan</h2>\n<p class=\"dim\">As in <code>plan.toml</code> beside this \
         page.</p><pre>{}</pre>\n<p class=\"dim\">Signature: <code>{}</code></p></section>\n\
         <footer><a href=\"../../campaign.html\">The whole campaign</a></footer>\n",
        html(&plan),
        html(&view.bug.signature)
    );
    page(&view.bug.title, &body)
}

fn header(view: &BugView) -> String {
    let bug = &view.bug;
    let mut badges = String::new();
    match &bug.known {
        Some(known) => badges.push_str(&badge("known", &format!("known: {known}"))),
        None => badges.push_str(&badge("new", "not known before")),
    }
    let c = bug.confirmed;
    let class = |times, of| if times == of { "good" } else { "some" };
    if c.of > 0 {
        let text = format!("confirmed {} of {}", c.times, c.of);
        badges.push_str(&badge(class(c.times, c.of), &text));
    }
    if c.unwarped_of > 0 {
        let text = format!("real clock {} of {}", c.unwarped_times, c.unwarped_of);
        badges.push_str(&badge(class(c.unwarped_times, c.unwarped_of), &text));
    }
    let mut checkers: Vec<&str> = bug.symptoms.iter().map(|s| s.checker.as_str()).collect();
    checkers.dedup();
    for checker in checkers {
        badges.push_str(&badge("checker", checker));
    }
    format!(
        "<header><p class=\"crumb\">{} · {} · seed {} · trial {} · bug <code>{}</code></p>\n\
         <h1>{}</h1>\n<p class=\"badges\">{badges}</p>\n<p class=\"story\">{}</p>\n{}</header>\n",
        html(&view.spec.target),
        html(&view.spec.policy),
        view.spec.seed,
        view.trial,
        html(&bug.id),
        html(&bug.title),
        html(&explain(view).join(" ")),
        command(&view.replay)
    )
}

fn timeline(view: &BugView) -> String {
    if view.events.is_empty() {
        return "<section><h2>Timeline</h2><p>The trial's events are not in the store.</p>\
                </section>\n"
            .into();
    }
    let timeline = Timeline::of(view);
    let clock = match view.warp {
        1.0 => "Times are real seconds since the trial began.".to_owned(),
        warp => format!(
            "Times are real seconds since the trial began; the cluster's clock ran {warp} times \
             faster."
        ),
    };
    let skipped = match timeline.from_us {
        0 => String::new(),
        us => format!(
            " The first {:.1} s, the start, are left out.",
            us as f64 / 1e6
        ),
    };
    format!(
        "<section><h2>Timeline</h2>\n<div class=\"scroll\">{}</div>\n\
         <p class=\"legend\">{}</p>\n\
         <p class=\"dim\">{clock}{skipped} Point at anything to read what it is.</p></section>\n{}",
        timeline_svg::draw(&timeline),
        legend(),
        latency::section(view, &timeline)
    )
}

fn legend() -> String {
    let keys = [
        ("ok", "ok"),
        ("fail", "failed"),
        ("timeout", "timeout"),
        ("wrong", "wrong"),
        ("never", "never ended"),
        ("fault", "fault"),
        ("warn", "WARN"),
        ("error", "ERROR"),
        ("unhealthy", "not healthy"),
        ("symptom", "symptom"),
    ];
    let key = |(class, name)| format!("<span><i class=\"key {class}\"></i>{name}</span>\n");
    keys.map(key).concat()
}

fn faults(view: &BugView) -> String {
    let mut out = String::from("<section><h2>Injected</h2>\n");
    if view.evidence.is_empty() {
        out.push_str("<p>No fault is recorded as fired.</p>\n");
    }
    for fault in &view.evidence {
        out.push_str(&fault_card(fault));
    }
    out.push_str("</section>\n");
    out
}

fn fault_card(fault: &Evidence) -> String {
    let mut facts = String::new();
    let at = format!("{:.3} s", fault.at_us as f64 / 1e6);
    for (name, value) in [
        ("time", &at),
        ("node", &fault.node),
        ("thread", &fault.thread),
        ("site", &fault.site),
        ("result", &fault.result),
    ] {
        if !value.is_empty() {
            let value = html(&shorten(value, TEXT_MOST));
            let _ = write!(facts, "<dt>{name}</dt><dd>{value}</dd>");
        }
    }
    let stack = match fault.frames.is_empty() {
        true => String::new(),
        false => format!("<pre>{}</pre>", html(&fault.frames.join("\n"))),
    };
    let place = match fault.site.as_str() {
        "" => String::new(),
        site => format!(" <span class=\"dim\">at {}</span>", html(&short_site(site))),
    };
    format!(
        "<article class=\"card fault\"><h3><span class=\"number\">{}</span> {}{place}</h3>\
         <dl>{facts}</dl>{stack}</article>\n",
        fault.step + 1,
        html(&fault.fault)
    )
}

fn symptoms(view: &BugView) -> String {
    let mut out = String::from("<section><h2>Symptoms</h2>\n");
    for symptom in &view.bug.symptoms {
        let detail = symptom.detail.join("\n");
        let detail = match detail.is_empty() {
            true => String::new(),
            false => format!("<pre>{}</pre>", html(&shorten(&detail, DUMP_MOST))),
        };
        let _ = writeln!(
            out,
            "<article class=\"card symptom\"><h3>{}<span class=\"dim\"> · {} checker, {}</span>\
             </h3>{detail}</article>",
            html(&symptom.summary),
            html(&symptom.checker),
            relative(symptom.at_us, view.fault_at_us())
        );
    }
    out.push_str("</section>\n");
    out
}

fn story_table(view: &BugView) -> String {
    let rows = moments(view, MOMENTS_MOST);
    if rows.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<section><h2>Step by step</h2>\n<div class=\"scroll\"><table class=\"moments\">\
         <thead><tr><th>from the fault</th><th>who</th><th>what</th></tr></thead><tbody>\n",
    );
    for row in rows {
        let class = match row.tone {
            Tone::Quiet => "quiet",
            Tone::Fault => "fault",
            Tone::Warn => "warn",
            Tone::Bad => "bad",
        };
        let times = match row.times {
            1 => String::new(),
            n => format!(
                " <span class=\"dim\">×{n}, until {}</span>",
                relative(row.until_us, view.fault_at_us())
            ),
        };
        let _ = writeln!(
            out,
            "<tr class=\"{class}\"><td class=\"time\">{}</td><td>{}</td><td>{}{times}</td></tr>",
            relative(row.at_us, view.fault_at_us()),
            html(&row.who),
            html(&shorten(&row.what, 600))
        );
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}

fn logs(view: &BugView) -> String {
    let lines = view.events.iter();
    let lines = lines.filter(|e| matches!(e.what, What::Log { .. }));
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() {
        return String::new();
    }
    let fault = view.fault_at_us();
    let middle = lines.partition_point(|e| e.at_us < fault.unwrap_or(0));
    let from = middle.saturating_sub(LOG_LINES_MOST / 4);
    let shown = &lines[from..lines.len().min(from + LOG_LINES_MOST)];
    let mut out = format!(
        "<section><h2>Logs around the fault</h2>\n\
         <p class=\"filter\"><input type=\"search\" data-filter=\"logs\" \
         placeholder=\"Filter: a node, a level, a word\" aria-label=\"Filter log lines\">\
         <span class=\"dim\">{} of {} lines</span></p>\n\
         <div class=\"scroll\"><table class=\"logs\" id=\"logs\"><tbody>\n",
        shown.len(),
        lines.len()
    );
    for event in shown {
        if let What::Log {
            node,
            level,
            logger,
            thread,
            message,
            more,
        } = &event.what
        {
            let class = match log_mark(level) {
                Some(MarkKind::Error) => "error",
                Some(_) => "warn",
                None => "info",
            };
            let trace = match more.len() {
                0 => String::new(),
                n => folded(
                    &format!("{n} more lines"),
                    &shorten(&more.join("\n"), DUMP_MOST),
                ),
            };
            let _ = writeln!(
                out,
                "<tr class=\"{class}\"><td class=\"time\">{}</td><td>{}</td>\
                 <td class=\"level\">{}</td><td title=\"{}\">{}{trace}</td></tr>",
                relative(event.at_us, fault),
                html(node),
                html(level),
                html(&format!("{logger}, thread {thread}")),
                html(&shorten(message, TEXT_MOST))
            );
        }
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}

fn dumps(view: &BugView) -> String {
    let mut out = String::new();
    for event in &view.events {
        if let What::Dump { node, text } = &event.what {
            let at = relative(event.at_us, view.fault_at_us());
            let text = shorten(text, DUMP_MOST);
            out.push_str(&folded(&format!("{node} at {at}"), &text));
        }
    }
    match out.is_empty() {
        true => out,
        false => format!("<section><h2>Thread dumps</h2>\n{out}</section>\n"),
    }
}
