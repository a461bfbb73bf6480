//! `states.html`: the state machines of tasks, as clean runs went through them.

use std::fmt::Write;

use super::{badge, page};
use crate::escape::{html, shorten};
use crate::machines::layout::{BOX_HEIGHT, BOX_WIDTH, DOT, Layout, Way, layout};
use crate::machines::{Drawn, Edge, Machine, MachineState, Machines};
use crate::progress::plural;

/// Machines that are drawn; of more, those with fewer moves are only listed.
const MACHINES_MOST: usize = 60;
/// States of one machine that are drawn.
const STATES_MOST: usize = 40;
/// Characters that fit into a box, and lines of a condition.
const LINE_MOST: usize = 31;
const LINES_MOST: usize = 2;
const TITLE_MOST: usize = 600;

/// The page. Without machines it says why there are none.
pub fn machines(target: &str, machines: &Machines) -> String {
    let title = format!("States of {target}");
    let mut body = format!(
        "<header><p class=\"crumb\"><a href=\"campaign.html\">campaign</a> · clean runs, all nodes \
         together · <a href=\"machines.json\">machines.json</a></p>\n<h1>{}</h1></header>\n",
        html(&title)
    );
    let (several, single): (Vec<&Machine>, Vec<&Machine>) =
        (machines.machines.iter()).partition(|m| m.reached().len() > 1);
    if machines.machines.is_empty() {
        body.push_str(
            "<section><p>States were not tracked: the clean runs of this campaign tell of no task \
             that went into a state.</p></section>\n",
        );
    }
    let drawn = several.len().min(MACHINES_MOST);
    several[..drawn].iter().for_each(|m| section(&mut body, m));
    let more: Vec<&Machine> = several[drawn..].iter().chain(&single).copied().collect();
    if !more.is_empty() {
        body.push_str(&listed(&more, several.len() > drawn));
    }
    if machines.unknown > 0 {
        let moves = plural(machines.unknown, "move");
        let _ = writeln!(
            body,
            "<p class=\"dim\">{moves} into states that the catalog does not have are left out.</p>"
        );
    }
    page(&title, &body)
}

fn section(out: &mut String, machine: &Machine) {
    let drawn = machine.drawn(STATES_MOST);
    let (reached, all) = (machine.reached().len(), machine.states.len());
    let _ = write!(
        out,
        "<section><h2>{}</h2>\n<p class=\"badges\">{}{}{}</p>\n\
         <div class=\"scroll\">{}</div>",
        html(&machine.task),
        badge("", &kind(machine)),
        badge("", &plural(machine.moves, "move")),
        badge(
            "",
            &format!("{reached} of {} reached", plural(all as u64, "state"))
        ),
        svg(machine, &drawn)
    );
    if drawn.left_out > 0 {
        let _ = write!(
            out,
            "<p class=\"dim\">The {STATES_MOST} states that were entered most often are drawn; \
             {} more are in machines.json.</p>",
            drawn.left_out
        );
    }
    out.push_str("</section>\n");
}

/// `runnable`.
fn kind(machine: &Machine) -> String {
    format!("{:?}", machine.kind).to_lowercase()
}

fn svg(machine: &Machine, drawn: &Drawn<'_>) -> String {
    let edges: Vec<(Option<usize>, usize)> = drawn.edges.iter().map(|e| (e.0, e.1)).collect();
    let place = layout(drawn.states.len(), &edges);
    let mut out = format!(
        "<svg class=\"machine\" viewBox=\"0 0 {w:.0} {h:.0}\" \
         style=\"width:{w:.0}px;min-width:{least:.0}px\" \
         role=\"img\" aria-label=\"States of {}\" xmlns=\"http://www.w3.org/2000/svg\">\n",
        html(&machine.task),
        w = place.width,
        // Shrunk a little where that spares scrolling.
        least = place.width * 0.75,
        h = place.height
    );
    if drawn.edges.iter().any(|(from, _, _)| from.is_none()) {
        let (x, y) = place.dot;
        let _ = writeln!(
            out,
            "<circle class=\"begin\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{DOT}\">\
             <title>the task begins</title></circle>"
        );
    }
    for ((from, to, edge), way) in drawn.edges.iter().zip(&place.edges) {
        let from = from.map(|i| drawn.states[i]);
        out.push_str(&edge_svg(
            &place,
            *to,
            way,
            &words(from, drawn.states[*to], edge),
            edge,
        ));
    }
    for (state, at) in drawn.states.iter().zip(&place.boxes) {
        out.push_str(&box_svg(state, *at));
    }
    // Above lines and boxes, so that no count is struck through.
    for ((_, _, edge), way) in drawn.edges.iter().zip(&place.edges) {
        let (x, y) = way.label;
        let class = if way.is_loop { "of-loop" } else { "of-edge" };
        let count = edge.count;
        let _ = writeln!(
            out,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{count}</text>"
        );
    }
    out.push_str("</svg>\n");
    out
}

/// What an edge says on hover.
fn words(from: Option<&MachineState>, to: &MachineState, edge: &Edge) -> String {
    let from = from.map_or("begins".into(), |s| format!("{} to", s.index));
    let nodes: Vec<String> = edge.nodes.iter().map(|(n, c)| format!("{n} {c}")).collect();
    format!(
        "{from} {}: {} ({})",
        to.index,
        plural(edge.count, "time"),
        nodes.join(", ")
    )
}

fn edge_svg(place: &Layout, to: usize, way: &Way, words: &str, edge: &Edge) -> String {
    let width = 1.0 + (edge.count.max(1) as f64).log10() * 0.5;
    let class = match (way.back, way.is_loop) {
        (true, _) => "edge back",
        (_, true) => "edge loop",
        _ => "edge",
    };
    let (path, head) = match way.is_loop {
        true => loop_paths(place.boxes[to]),
        false => paths(way),
    };
    format!(
        "<g class=\"{class}\"><path d=\"{path}\" stroke-width=\"{width:.1}\"/>\
         <path class=\"head\" d=\"{head}\"/><title>{}</title></g>\n",
        html(words)
    )
}

/// The curve of an edge, and its head.
fn paths(way: &Way) -> (String, String) {
    let mut path = String::new();
    for (i, [(x, y), (to_x, to_y)]) in way.bends.iter().enumerate() {
        let middle = (y + to_y) / 2.0;
        let start = if i == 0 { 'M' } else { 'L' };
        let _ = write!(
            path,
            "{start}{x:.1} {y:.1}C{x:.1} {middle:.1} {to_x:.1} {middle:.1} {to_x:.1} {to_y:.1}"
        );
    }
    let head = match (way.back, way.bends.first(), way.bends.last()) {
        (true, Some([(x, y), _]), _) => format!("M{x:.1} {y:.1}l-4.5 9h9z"),
        (false, _, Some([_, (x, y)])) => format!("M{x:.1} {y:.1}l-4.5 -9h9z"),
        _ => String::new(),
    };
    (path, head)
}

fn loop_paths((left, top): (f64, f64)) -> (String, String) {
    let (x, upper, lower) = (left + BOX_WIDTH, top + 14.0, top + BOX_HEIGHT - 14.0);
    let far = x + 34.0;
    (
        format!("M{x:.1} {upper:.1}C{far:.1} {upper:.1} {far:.1} {lower:.1} {x:.1} {lower:.1}"),
        format!("M{x:.1} {lower:.1}l9 -4.5v9z"),
    )
}

fn box_svg(state: &MachineState, (left, top): (f64, f64)) -> String {
    let condition = match (state.index, state.condition.is_empty()) {
        (0, true) => "entry of the task".to_owned(),
        _ => state.condition.clone(),
    };
    let line = state.line.map_or(String::new(), |l| format!(", line {l}"));
    let mut out = format!(
        "<g class=\"state\"><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{BOX_WIDTH}\" \
         height=\"{BOX_HEIGHT}\" rx=\"6\"/><title>{}{line}\n{}</title>\
         <text class=\"index\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
         <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">entered {}</text>",
        html(&state.name),
        html(&shorten(&condition, TITLE_MOST)),
        left + 9.0,
        top + 17.0,
        state.index,
        left + BOX_WIDTH - 9.0,
        top + 17.0,
        state.entered
    );
    for (i, text) in wrapped(&condition).iter().enumerate() {
        let _ = write!(
            out,
            "<text class=\"condition\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left + 9.0,
            top + 34.0 + 15.0 * i as f64,
            html(text)
        );
    }
    out.push_str("</g>\n");
    out
}

/// A condition in few and short lines, broken between words where it can be.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    let long = |s: &str| s.chars().count();
    for word in text.split_whitespace() {
        let last = lines.last().map_or(0, |l| long(l));
        if last > 0 && last + 1 + long(word) > LINE_MOST {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            let space = if line.is_empty() { "" } else { " " };
            line.push_str(space);
            line.push_str(word);
        }
    }
    if lines.len() > LINES_MOST {
        let rest = lines.split_off(LINES_MOST - 1).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|l| shorten(l, LINE_MOST)).collect()
}

fn listed(machines: &[&Machine], has_others: bool) -> String {
    let name = match has_others {
        true => "Other tasks",
        false => "Tasks that were in one state only",
    };
    let mut out = format!(
        "<section><h2>{name}</h2>\n<details><summary>{}</summary><div class=\"scroll\"><table>\
         <thead><tr><th>task</th><th>kind</th><th>states</th><th class=\"count\">moves</th>\
         <th>nodes</th></tr></thead><tbody>\n",
        plural(machines.len() as u64, "task")
    );
    for machine in machines {
        let mut nodes: Vec<&String> = machine.edges.iter().flat_map(|e| e.nodes.keys()).collect();
        nodes.sort();
        nodes.dedup();
        let nodes: Vec<&str> = nodes.into_iter().map(String::as_str).collect();
        let reached = machine.reached();
        let states: Vec<String> = reached.iter().map(|s| s.index.to_string()).collect();
        let _ = writeln!(
            out,
            "<tr><td class=\"plan\">{}</td><td>{}</td><td>{} <span class=\"dim\">of {}</span></td>\
             <td class=\"count\">{}</td><td>{}</td></tr>",
            html(&machine.task),
            kind(machine),
            shorten(&states.join(", "), TITLE_MOST),
            machine.states.len(),
            machine.moves,
            html(&nodes.join(", "))
        );
    }
    out.push_str("</tbody></table></div></details></section>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::tests::{catalog, went};

    #[test]
    fn conditions_are_broken_between_words() {
        assert_eq!(wrapped("a == b"), ["a == b"]);
        let two = wrapped("this.state == LOOKING && this.running && this.other > this.limit * 12");
        assert_eq!(
            two,
            [
                "this.state == LOOKING &&",
                "this.running && this.other > t…"
            ]
        );
        let long = "x".repeat(50);
        assert_eq!(wrapped(&long)[0].chars().count(), LINE_MOST);
    }

    #[test]
    fn a_small_machine_is_drawn_like_this() {
        let catalog = catalog(&[("x.Log.run()", 3)]);
        let moves = [
            went("n1", None, 0, 1),
            went("n1", Some(0), 1, 10),
            went("n2", Some(1), 1, 2),
            went("n1", Some(1), 0, 9),
        ];
        let machines = Machines::of(&catalog, &moves);
        let machine = &machines.machines[0];
        let text = svg(machine, &machine.drawn(9));
        assert_eq!(text, include_str!("small_machine.svg"));
    }

    #[test]
    fn every_edge_is_drawn_with_its_count() {
        let catalog = catalog(&[("x.Log.run()", 7)]);
        let mut moves = vec![went("n1", None, 0, 1)];
        for from in 0..7u32 {
            moves.extend((0..7).map(|to| went("n1", Some(from), to, 100 + 7 * from + to)));
        }
        let machines = Machines::of(&catalog, &moves);
        let machine = &machines.machines[0];
        let text = svg(machine, &machine.drawn(9));
        assert_eq!(text.matches("<g class=\"edge").count(), 50);
        assert_eq!(text.matches("class=\"head\"").count(), 50);
        for count in 100..149 {
            assert!(text.contains(&format!(">{count}</text>")), "{count}");
        }
        assert_eq!(text.matches("class=\"of-loop\"").count(), 7);
    }
}
