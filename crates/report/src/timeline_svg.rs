//! Draws a [`Timeline`] as inline SVG. Colours are classes, so that the page's light and dark
//! styles apply; every piece says on hover what it is.

use std::fmt::Write;

use crate::escape::{html, shorten};
use crate::timeline::{Band, BandKind, Bar, Lane, Mark, MarkKind, OpEnd, RoleSpan, Timeline};
use crate::view::seconds;

pub(crate) const WIDTH: f64 = 1200.0;
pub(crate) const GUTTER: f64 = 92.0;
pub(crate) const RIGHT: f64 = 10.0;
const NODE_HEIGHT: f64 = 30.0;
const CLIENT_ROW: f64 = 11.0;
const CLIENT_ROWS_MOST: usize = 4;
const LANE_GAP: f64 = 7.0;
const LABEL_ROW: f64 = 18.0;
/// Width of a character of the label font, for placing labels side by side.
const CHAR: f64 = 7.0;
/// Operations that end well and lie closer than this are drawn as one.
const MERGE_PX: f64 = 1.5;
/// But no merged bar grows longer, so that bursts stay visible as such.
const MERGED_MOST_PX: f64 = 14.0;

struct Canvas<'a> {
    timeline: &'a Timeline,
    out: String,
}

/// The drawing, as one `<svg>` element.
pub(crate) fn draw(timeline: &Timeline) -> String {
    let mut canvas = Canvas {
        timeline,
        out: String::new(),
    };
    let labels = canvas.fault_labels();
    let label_rows = labels.iter().map(|l| l.row + 1).max().unwrap_or(0);
    let top = LABEL_ROW + label_rows as f64 * LABEL_ROW + 6.0;
    let mut y = top;
    let mut places = Vec::new();
    for lane in &timeline.lanes {
        let rows = rows_of(&lane.bars);
        let count = rows.iter().max().map_or(1, |r| r + 1) as f64;
        let height = match lane.is_node {
            true => NODE_HEIGHT,
            false => count * CLIENT_ROW + 9.0,
        };
        places.push((y, height, rows));
        y += height + LANE_GAP;
    }
    let bottom = y;
    canvas.stages(bottom);
    for (lane, (y, height, rows)) in timeline.lanes.iter().zip(&places) {
        canvas.lane(lane, *y, *height, rows);
    }
    for label in &labels {
        let x = canvas.x(label.at_us);
        let y = LABEL_ROW * (label.row as f64 + 2.0) - 3.0;
        canvas.fault(label, x, y, bottom);
    }
    for (lane, (y, height, _)) in timeline.lanes.iter().zip(&places) {
        canvas.fault_dots(lane, *y + *height / 2.0);
    }
    canvas.symptoms(top, bottom);
    canvas.axis(bottom);
    let height = bottom + 40.0;
    format!(
        "<svg class=\"timeline\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         aria-label=\"Timeline of the trial\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n{PATTERNS}{}</svg>\n",
        canvas.out
    )
}

const PATTERNS: &str = r#"<defs>
<pattern id="down" width="6" height="6" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)"><rect class="hatch" width="2.4" height="6"/></pattern>
<pattern id="never" width="6" height="6" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)"><rect class="hatch-bad" width="3.4" height="6"/></pattern>
</defs>
"#;

struct Label {
    at_us: u64,
    row: usize,
    ends_here: bool,
    label: String,
    text: String,
}

impl Canvas<'_> {
    fn x(&self, at_us: u64) -> f64 {
        let t = self.timeline;
        let span = t.to_us.saturating_sub(t.from_us).max(1) as f64;
        let at = at_us.clamp(t.from_us, t.to_us) - t.from_us;
        GUTTER + at as f64 / span * (WIDTH - GUTTER - RIGHT)
    }

    fn piece(&mut self, args: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(args);
        self.out.push('\n');
    }

    /// Labels of faults, in rows so that none covers another.
    fn fault_labels(&self) -> Vec<Label> {
        const ROWS_MOST: usize = 4;
        let mut ends = [0.0f64; ROWS_MOST];
        let mut labels = Vec::new();
        for (i, fault) in self.timeline.faults.iter().enumerate() {
            let label = shorten(&format!("{} {}", i + 1, fault.label), 90);
            let width = label.chars().count() as f64 * CHAR + 14.0;
            let x = self.x(fault.at_us);
            let ends_here = x + width > WIDTH;
            let from = if ends_here { x - width } else { x };
            let row = ends.iter().position(|end| *end <= from);
            let row = row.unwrap_or(ROWS_MOST - 1);
            ends[row] = from + width;
            labels.push(Label {
                at_us: fault.at_us,
                row,
                ends_here,
                label,
                text: fault.text.clone(),
            });
        }
        labels
    }

    fn stages(&mut self, bottom: f64) {
        let stages = &self.timeline.stages;
        for (i, (at, stage)) in stages.iter().enumerate() {
            let end = stages.get(i + 1).map_or(self.timeline.to_us, |s| s.0);
            if end < self.timeline.from_us {
                continue;
            }
            let (x, to) = (self.x(*at), self.x(end));
            let name = stage.name();
            let class = if i % 2 == 0 { "even" } else { "odd" };
            let width = to - x;
            self.piece(format_args!(
                "<g class=\"stage {class}\"><rect x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" \
                 height=\"{bottom:.1}\"/><title>{name}: {} to {}</title>",
                seconds(*at),
                seconds(end)
            ));
            if width > name.len() as f64 * CHAR + 8.0 {
                let x = x + 5.0;
                self.piece(format_args!("<text x=\"{x:.1}\" y=\"13\">{name}</text>"));
            }
            self.piece(format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom:.1}\"/></g>"
            ));
        }
    }

    fn lane(&mut self, lane: &Lane, y: f64, height: f64, rows: &[usize]) {
        let middle = y + height / 2.0;
        let (x, width) = (GUTTER, WIDTH - GUTTER - RIGHT);
        let class = if lane.is_node { "node" } else { "client" };
        self.piece(format_args!(
            "<g class=\"lane {class}\"><rect class=\"ground\" x=\"{x:.1}\" y=\"{y:.1}\" \
             width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\"/>"
        ));
        let name = html(&shorten(&lane.name, 12));
        self.piece(format_args!(
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{name}",
            4.0,
            middle + 4.0
        ));
        if !lane.talks_to.is_empty() && name.len() < 9 {
            let to = html(&shorten(&lane.talks_to, 6));
            self.piece(format_args!("<tspan class=\"to\"> → {to}</tspan>"));
        }
        self.piece(format_args!("</text>"));
        for band in &lane.bands {
            self.band(band, y, height);
        }
        for role in &lane.roles {
            self.role(&lane.name, role, y);
        }
        for (bar, row) in merged(lane, rows, |at| self.x(at)) {
            self.bar(&bar, y + 4.5 + row as f64 * CLIENT_ROW);
        }
        self.marks(&lane.marks, y, height);
        self.piece(format_args!("</g>"));
    }

    fn band(&mut self, band: &Band, y: f64, height: f64) {
        if band.to_us < self.timeline.from_us {
            return;
        }
        let (x, to) = (self.x(band.from_us), self.x(band.to_us));
        let class = match band.kind {
            BandKind::Starting => "starting",
            BandKind::Delay => "delay",
            BandKind::Pause => "pause",
            BandKind::Down => "down",
            BandKind::Partition => "partition",
        };
        let length = seconds(band.to_us.saturating_sub(band.from_us));
        let width = (to - x).max(1.5);
        self.piece(format_args!(
            "<g class=\"band {class}\"><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/><title>{}, {length}</title>",
            html(&band.text)
        ));
        let words = match band.kind {
            BandKind::Starting => "starting",
            BandKind::Delay => "delayed",
            BandKind::Pause => "paused",
            BandKind::Down => "down",
            BandKind::Partition => "cut off",
        };
        if width > words.len() as f64 * CHAR + 22.0 {
            let (x, y) = (x + 10.0, y + height - 5.0);
            self.piece(format_args!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>"
            ));
        }
        self.piece(format_args!("</g>"));
    }

    /// What the node says it is: a line along the lane's upper edge, with the name below it.
    fn role(&mut self, node: &str, role: &RoleSpan, y: f64) {
        if role.to_us < self.timeline.from_us {
            return;
        }
        let (x, to) = (self.x(role.from_us), self.x(role.to_us));
        let class = if role.single { "single" } else { "plain" };
        let name = html(&shorten(&role.role, 24));
        self.piece(format_args!(
            "<g class=\"role {class}\"><title>{} says it is {name}, {} to {}</title>\
             <line x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
            html(node),
            seconds(role.from_us),
            seconds(role.to_us),
            to.max(x + 1.5)
        ));
        if to - x > name.len() as f64 * CHAR + 8.0 {
            let (x, y) = (x + 5.0, y + 12.0);
            self.piece(format_args!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\">{name}</text>"
            ));
        }
        self.piece(format_args!("</g>"));
    }

    fn bar(&mut self, bar: &Bar, y: f64) {
        let (x, to) = (self.x(bar.from_us), self.x(bar.to_us));
        let width = (to - x).max(1.2);
        let height = CLIENT_ROW - 2.0;
        let length = seconds(bar.to_us.saturating_sub(bar.from_us));
        self.piece(format_args!(
            "<rect class=\"op {}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height}\" rx=\"1\"><title>{}, {length}</title></rect>",
            bar.end.name(),
            html(&bar.text)
        ));
    }

    /// Ticks of one lane; those that would lie on one another become one.
    fn marks(&mut self, marks: &[Mark], y: f64, height: f64) {
        const NEAR_PX: f64 = 3.0;
        const TEXTS_MOST: usize = 6;
        let mut rest = marks;
        while let Some(first) = rest.first() {
            let x = self.x(first.at_us);
            let near = |m: &Mark| self.x(m.at_us) - x < NEAR_PX;
            let count = rest.iter().take_while(|m| near(m)).count().max(1);
            let (group, others) = rest.split_at(count);
            rest = others;
            let worst = group.iter().map(|m| m.kind).max().unwrap_or(first.kind);
            let texts = group.iter().take(TEXTS_MOST);
            let texts = texts.map(|m| shorten(&m.text, 160));
            let mut texts: Vec<String> = texts.collect();
            if count > TEXTS_MOST {
                texts.push(format!("and {} more", count - TEXTS_MOST));
            }
            let class = match worst {
                MarkKind::Warn => "warn",
                MarkKind::Error => "error",
                MarkKind::Unhealthy => "unhealthy",
                MarkKind::Symptom => "symptom",
            };
            let (top, tall) = (y + 3.0, height * 0.45);
            self.piece(format_args!(
                "<rect class=\"mark {class}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"2.4\" \
                 height=\"{tall:.1}\"><title>{}: {}</title></rect>",
                x - 1.2,
                seconds(first.at_us),
                html(&texts.join("\n"))
            ));
        }
    }

    fn fault(&mut self, label: &Label, x: f64, y: f64, bottom: f64) {
        let (anchor, at) = match label.ends_here {
            true => ("end", x - 5.0),
            false => ("start", x + 5.0),
        };
        self.piece(format_args!(
            "<g class=\"fault\"><title>{} at {}</title>\
             <line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>\
             <text x=\"{at:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text></g>",
            html(&label.text),
            seconds(label.at_us),
            y - 10.0,
            html(&label.label)
        ));
    }

    /// Where the fault struck: a dot on the lane of its node.
    fn fault_dots(&mut self, lane: &Lane, middle: f64) {
        let timeline = self.timeline;
        let here = timeline.faults.iter().enumerate();
        let here = here.filter(|(_, f)| lane.is_node && f.node == lane.name);
        for (i, fault) in here {
            let x = self.x(fault.at_us);
            self.piece(format_args!(
                "<g class=\"dot\"><title>{}</title><circle cx=\"{x:.1}\" cy=\"{middle:.1}\" \
                 r=\"7.5\"/><text x=\"{x:.1}\" y=\"{:.1}\">{}</text></g>",
                html(&fault.text),
                middle + 3.8,
                i + 1
            ));
        }
    }

    fn symptoms(&mut self, top: f64, bottom: f64) {
        let timeline = self.timeline;
        for symptom in &timeline.symptoms {
            let x = self.x(symptom.at_us);
            self.piece(format_args!(
                "<g class=\"symptom\"><title>{}: {}</title>\
                 <line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>\
                 <path d=\"M{x:.1} {:.1} l6 6 l-6 6 l-6 -6 z\"/></g>",
                seconds(symptom.at_us),
                html(&symptom.text),
                bottom - 4.0,
            ));
        }
    }

    fn axis(&mut self, bottom: f64) {
        const TICKS: f64 = 12.0;
        let (from, to) = (self.timeline.from_us, self.timeline.to_us);
        let step = nice_step((to.saturating_sub(from)) as f64 / TICKS);
        let y = bottom + 12.0;
        self.piece(format_args!(
            "<g class=\"axis\"><line x1=\"{GUTTER}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
            WIDTH - RIGHT
        ));
        let mut at = from.div_ceil(step) * step;
        while at <= to {
            let x = self.x(at);
            let text = match step {
                0..100_000 => format!("{:.2} s", at as f64 / 1e6),
                100_000..1_000_000 => format!("{:.1} s", at as f64 / 1e6),
                _ => format!("{} s", at / 1_000_000),
            };
            self.piece(format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y:.1}\" y2=\"{:.1}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\">{text}</text>",
                y + 4.0,
                y + 17.0
            ));
            at += step;
        }
        self.piece(format_args!("</g>"));
    }
}

/// A step of 1, 2 or 5 times a power of ten, at least `wanted` microseconds.
pub(crate) fn nice_step(wanted: f64) -> u64 {
    let mut step = 1000u64;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle().take(60) {
        if step as f64 >= wanted {
            break;
        }
        step = (step as f64 * factor) as u64;
    }
    step
}

/// A row for each bar: the first where it does not cover another.
fn rows_of(bars: &[Bar]) -> Vec<usize> {
    let mut ends = [0u64; CLIENT_ROWS_MOST];
    let mut rows = Vec::with_capacity(bars.len());
    for bar in bars {
        let free = ends.iter().position(|end| *end <= bar.from_us);
        let row = free.unwrap_or(CLIENT_ROWS_MOST - 1);
        ends[row] = ends[row].max(bar.to_us);
        rows.push(row);
    }
    rows
}

/// Bars as they are drawn: many short ones that ended well become one.
fn merged(lane: &Lane, rows: &[usize], x: impl Fn(u64) -> f64) -> Vec<(Bar, usize)> {
    let mut out: Vec<(Bar, usize, u32)> = Vec::new();
    for (bar, row) in lane.bars.iter().zip(rows) {
        if let Some((last, last_row, count)) = out.last_mut() {
            let fits = last_row == row
                && last.end == OpEnd::Ok
                && bar.end == OpEnd::Ok
                && x(bar.from_us) - x(last.to_us) < MERGE_PX
                && x(bar.to_us) - x(last.from_us) < MERGED_MOST_PX;
            if fits {
                last.to_us = last.to_us.max(bar.to_us);
                *count += 1;
                continue;
            }
        }
        out.push((bar.clone(), *row, 1));
    }
    let text = |(mut bar, row, count): (Bar, usize, u32)| {
        if count > 1 {
            bar.text = format!("{count} operations ok, the first: {}", bar.text);
        }
        (bar, row)
    };
    out.into_iter().map(text).collect()
}
