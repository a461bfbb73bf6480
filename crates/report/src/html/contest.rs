//! `compare.html`: which policy exposed which bugs, as a table and as curves over trials and time.

use std::fmt::Write;

use super::plot::{CHAR, Plot, Scale, Shape, line_key, whole};
use super::{badge, command, page};
use crate::contest::table::EXPLAINED;
use crate::contest::{Contest, Entry, Over, Row, median_steps, resume_command, steps};
use crate::escape::{html, uri};
use crate::progress::plural;
use crate::store::folder_name;
use crate::view::span;

/// How many curves have a colour and a dash of their own, in `style.css`.
const CURVES: usize = 8;
/// Not as many as there are curves, so that more policies than colours still differ.
const SHAPES: [Shape; 5] = [
    Shape::Circle,
    Shape::Square,
    Shape::Triangle,
    Shape::Cross,
    Shape::Diamond,
];

/// The page. The folder is for the command that goes on with what is not finished.
pub fn contest(contest: &Contest, folder: &str) -> String {
    let mut body = header(contest, folder);
    body.push_str(&table(contest));
    for (over, name, caption) in [
        (Over::Trials, "Bugs over search trials", "search trials"),
        (Over::Minutes, "Bugs over time", "minutes of searching"),
    ] {
        let _ = write!(
            body,
            "<section><h2>{name}</h2>\n<div class=\"scroll\">{}</div>\
             <p class=\"legend\">{}</p></section>\n",
            curves(contest, over, name, caption),
            legend(contest)
        );
    }
    body.push_str(&campaigns(contest));
    page(
        &format!("Policies compared on {}", contest.spec.target),
        &body,
    )
}

fn header(contest: &Contest, folder: &str) -> String {
    let s = &contest.spec;
    let (badges, go_on) = match contest.left().is_empty() {
        true => (String::new(), String::new()),
        false => (
            badge("some", "not finished"),
            command(&resume_command(folder)),
        ),
    };
    let delay = s
        .delay_ms
        .map_or(String::new(), |ms| format!(" · delay {}", span(ms / 1000)));
    let workload = s.workload.as_ref();
    let workload = workload.map_or(String::new(), |w| format!(" · workload {}", html(w)));
    format!(
        "<header><p class=\"crumb\">{}{workload} · faults {}{delay}</p>\n\
         <h1>Policies compared on {}</h1>\n<p class=\"badges\">{badges}</p>\n{go_on}</header>\n",
        html(&contest.words()),
        html(&s.faults.join(", ")),
        html(&s.target)
    )
}

fn table(contest: &Contest) -> String {
    let table = contest.table();
    let mut out = String::from(
        "<section><h2>Bugs</h2>\n<div class=\"scroll\"><table class=\"contest\"><thead><tr>\
         <th>bug</th>",
    );
    for policy in &table.head {
        let _ = write!(out, "<th>{}</th>", html(policy));
    }
    out.push_str("</tr></thead><tbody>\n");
    if table.bugs.is_empty() {
        out.push_str("<tr><td class=\"dim\">None was found.</td>");
        out.push_str(&"<td></td>".repeat(table.head.len()));
        out.push_str("</tr>\n");
    }
    for row in &table.bugs {
        let name = format!(
            "<b>{}</b><br/><span class=\"dim\">{}</span>",
            html(&row.name),
            html(&row.title)
        );
        out.push_str(&table_row("", &name, row));
    }
    for row in &table.totals {
        out.push_str(&table_row(" class=\"total\"", &html(&row.name), row));
    }
    let _ = writeln!(
        out,
        "</tbody></table></div>\n<p class=\"dim\">{EXPLAINED}</p></section>"
    );
    out
}

fn table_row(class: &str, name: &str, row: &Row) -> String {
    let mut out = format!("<tr{class}><td class=\"plan\">{name}</td>");
    for cell in &row.cells {
        let _ = match cell.split_once(", ") {
            Some((times, when)) => write!(
                out,
                "<td>{}<br/><span class=\"dim\">{}</span></td>",
                html(times),
                html(when)
            ),
            None => write!(out, "<td>{}</td>", html(cell)),
        };
    }
    out.push_str("</tr>\n");
    out
}

fn look(policy: usize) -> (String, Shape) {
    (
        format!("c{}", policy % CURVES),
        SHAPES[policy % SHAPES.len()],
    )
}

fn curves(contest: &Contest, over: Over, name: &str, caption: &str) -> String {
    let entries = || contest.campaigns.iter();
    let end = entries().map(|e| over.end(e)).fold(0.0, f64::max);
    let most = entries().map(|e| e.bugs.len()).max().unwrap_or(0);
    let axis = |to| Scale::Linear { from: 0.0, to };
    let end = match over {
        Over::Trials => end.max(1.0),
        Over::Minutes => end.max(0.1),
    };
    let mut plot = Plot::wide(320.0, axis(end), axis(most.max(1) as f64));
    let longest = contest.policies.iter().map(|p| p.chars().count()).max();
    plot.right = 40.0 + longest.unwrap_or(0) as f64 * CHAR;
    plot.y_axis(whole);
    match over {
        Over::Trials => plot.x_axis(caption, whole),
        Over::Minutes => plot.x_axis(caption, minutes),
    }
    let policies = || contest.policies.iter().enumerate();
    // The seeds first, so that the medians lie on top of them.
    for (i, policy) in policies() {
        let campaigns = contest.of_policy(policy);
        for entry in campaigns.iter().filter(|_| campaigns.len() > 1) {
            let class = format!("{} seed", look(i).0);
            plot.steps(&class, false, &steps(entry, over));
        }
    }
    let mut labels = Vec::new();
    for (i, policy) in policies() {
        let campaigns = contest.of_policy(policy);
        let points = median_steps(&campaigns, over);
        let Some(last) = points.last().copied() else {
            continue;
        };
        let (class, shape) = look(i);
        plot.steps(&class, false, &points);
        let mut before = 0.0;
        for (x, count) in points {
            if count > before {
                let title = format!("{policy}: {count} bugs at {x:.1} {caption}");
                plot.mark(shape, &class, (x, count), 4.0, &title);
            }
            before = count;
        }
        labels.push((class, format!("{policy}: {}", last.1), last.1));
    }
    plot.margin_labels(&labels);
    plot.svg(name)
}

/// A time on the axis, short: 5, 2.5, 0.05.
fn minutes(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn legend(contest: &Contest) -> String {
    let mut out = String::new();
    for (i, policy) in contest.policies.iter().enumerate() {
        let (class, shape) = look(i);
        out.push_str(&line_key(shape, &class, &html(policy)));
    }
    if contest.seeds.len() > 1 {
        out.push_str("<span class=\"dim\">thick: median over seeds · thin: each seed</span>\n");
    }
    out
}

fn campaigns(contest: &Contest) -> String {
    let mut out = String::from(
        "<section><h2>Campaigns</h2>\n<div class=\"scroll\"><table><thead><tr><th>policy</th>\
         <th class=\"count\">seed</th><th>campaign</th><th class=\"count\">trials</th>\
         <th class=\"count\">fired</th><th class=\"count\">unreached</th>\
         <th class=\"count\">unknown</th><th class=\"count\">minutes</th><th>bugs</th></tr></thead>\
         <tbody>\n",
    );
    for e in &contest.campaigns {
        let folder = uri(&folder_name(&e.folder));
        let unfinished = if e.finished { "" } else { ", not finished" };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"count\">{}</td>\
             <td><a href=\"../{folder}/campaign.html\">{}</a>{unfinished}</td>\
             <td class=\"count\">{}</td><td class=\"count\">{}</td><td class=\"count\">{}</td>\
             <td class=\"count\">{}</td><td class=\"count\">{:.1}</td><td>{}</td></tr>",
            html(&e.policy),
            e.seed,
            html(&e.folder),
            e.trials,
            e.fired,
            e.unreached,
            e.unknown,
            e.seconds / 60.0,
            bug_links(e, &folder)
        );
    }
    for turn in contest.left().iter().filter(|t| t.folder.is_none()) {
        let _ = writeln!(
            out,
            "<tr class=\"dim\"><td>{}</td><td class=\"count\">{}</td><td>not begun</td>{}</tr>",
            html(&turn.policy),
            turn.seed,
            "<td></td>".repeat(6)
        );
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}

fn bug_links(entry: &Entry, folder: &str) -> String {
    let link = |bug: &crate::contest::Exposed| {
        format!(
            "<a href=\"../{folder}/bugs/{}/report.html\" title=\"{}\">{}</a> \
             <span class=\"dim\">after {}</span>",
            uri(&folder_name(&bug.id)),
            html(&bug.title),
            html(bug.known.as_deref().unwrap_or(&bug.id)),
            plural(bug.trial, "trial")
        )
    };
    let links: Vec<String> = entry.bugs.iter().map(link).collect();
    links.join("<br/>")
}
