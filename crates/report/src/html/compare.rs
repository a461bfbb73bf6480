//! The page of a comparison: two curves, two columns of counts, and the bugs of both sides.

use std::fmt::Write;

use super::page;
use super::plot::{Plot, Scale, Shape, whole};
use crate::compare::{Comparison, Found, SameBug, Side};
use crate::escape::{html, uri};
use crate::progress::plural;
use crate::store::folder_name;

/// The page. The two folders are where each campaign lies, seen from the page; without one its
/// bugs are not linked.
pub fn comparison(
    comparison: &Comparison,
    a_folder: Option<&str>,
    b_folder: Option<&str>,
) -> String {
    let c = comparison;
    let mut body = format!(
        "<header><p class=\"crumb\">{} bugs in both · {} only in A · {} only in B</p>\n\
         <h1>Two campaigns compared</h1>\n<dl>{}{}</dl></header>\n",
        c.both.len(),
        c.only_a.len(),
        c.only_b.len(),
        side("A", &c.a, a_folder),
        side("B", &c.b, b_folder)
    );
    let _ = write!(
        body,
        "<section><h2>Bugs over search trials</h2>\n<div class=\"scroll\">{}</div></section>\n",
        curves(c)
    );
    body.push_str(&counts(c));
    for (place, bugs) in c.groups() {
        body.push_str(&bug_table(place, bugs, a_folder, b_folder));
    }
    page("Two campaigns compared", &body)
}

fn side(name: &str, side: &Side, folder: Option<&str>) -> String {
    let store = match folder {
        Some(folder) => format!(
            "<a href=\"{}/campaign.html\">{}</a>",
            uri(folder),
            html(&side.store)
        ),
        None => html(&side.store),
    };
    let words = crate::compare::side_words(side);
    format!(
        "<dt>{name}</dt><dd>{store} <span class=\"dim\">{}</span></dd>\n",
        html(&words)
    )
}

fn curves(c: &Comparison) -> String {
    let trials = c.a.trials.max(c.b.trials).max(1) as f64;
    let most = c.a.found_after.len().max(c.b.found_after.len()).max(1);
    let axis = |to| Scale::Linear { from: 0.0, to };
    let mut plot = Plot::wide(260.0, axis(trials), axis(most as f64));
    plot.y_axis(whole);
    plot.x_axis("search trials", whole);
    let mut labels = Vec::new();
    for (class, shape, name, side) in [
        ("one", Shape::Circle, "A", &c.a),
        ("two", Shape::Square, "B", &c.b),
    ] {
        let bugs = side.found_after.len();
        let steps = side.found_after.iter().enumerate();
        let steps = steps.map(|(i, after)| (*after as f64, i as f64 + 1.0));
        let mut steps: Vec<(f64, f64)> = steps.collect();
        let marks = steps.clone();
        steps.push((side.trials as f64, bugs as f64));
        plot.steps(class, false, &steps);
        for (after, n) in marks {
            let title = format!("{name}: bug {n} after {after} search trials");
            plot.mark(shape, class, (after, n), 4.0, &title);
        }
        let label = format!("{name}: {}", plural(bugs as u64, "bug"));
        labels.push((class, label, (side.trials as f64, bugs as f64)));
    }
    plot.end_labels(&labels);
    plot.svg("Bugs of both campaigns over search trials")
}

fn counts(c: &Comparison) -> String {
    let mut out = String::from(
        "<section><h2>Counts</h2>\n<div class=\"pair\"><div class=\"scroll\"><table><thead><tr>\
         <th></th><th class=\"count\">A</th><th class=\"count\">B</th></tr></thead><tbody>\n",
    );
    for (name, [a, b]) in c.rows() {
        let _ = writeln!(
            out,
            "<tr><td>{name}</td><td class=\"count\">{a}</td><td class=\"count\">{b}</td></tr>"
        );
    }
    out.push_str("</tbody></table></div>\n<div class=\"scroll\">");
    if c.differ.is_empty() {
        out.push_str("<p>Both were asked to do the same.</p>");
    } else {
        out.push_str(
            "<table><thead><tr><th>asked differently</th><th>A</th><th>B</th></tr></thead><tbody>\n",
        );
        for differ in &c.differ {
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                differ.what,
                html(&differ.a),
                html(&differ.b)
            );
        }
        out.push_str("</tbody></table>");
    }
    out.push_str("</div></div></section>\n");
    out
}

fn bug_table(place: &str, bugs: &[SameBug], a: Option<&str>, b: Option<&str>) -> String {
    let mut out = format!(
        "<section><h2>{} {place}</h2>\n",
        plural(bugs.len() as u64, "bug")
    );
    if bugs.is_empty() {
        out.push_str("<p class=\"dim\">None.</p></section>\n");
        return out;
    }
    out.push_str(
        "<div class=\"scroll\"><table><thead><tr><th>bug</th><th>known</th><th>A</th><th>B</th>\
         </tr></thead><tbody>\n",
    );
    for bug in bugs {
        let _ = writeln!(
            out,
            "<tr><td class=\"plan\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            html(&bug.title),
            html(bug.known.as_deref().unwrap_or("")),
            found(&bug.a, a),
            found(&bug.b, b)
        );
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}

fn found(found: &[Found], folder: Option<&str>) -> String {
    let one = |f: &Found| {
        let id = html(&f.id);
        let id = match folder {
            Some(folder) => format!(
                "<a href=\"{}/bugs/{}/report.html\">{id}</a>",
                uri(folder),
                uri(&folder_name(&f.id))
            ),
            None => id,
        };
        let trials = plural(f.after, "trial");
        format!(
            "{id} <span class=\"dim\">after {trials}, confirmed {}</span>",
            f.confirmed
        )
    };
    let all: Vec<String> = found.iter().map(one).collect();
    match all.is_empty() {
        true => "–".into(),
        false => all.join("<br/>"),
    }
}
