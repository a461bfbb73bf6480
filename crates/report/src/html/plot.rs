//! A small plotting kit: axes, step curves and marks as inline SVG. What differs, differs by
//! shape or dash as well as by colour; colours are classes, so that light and dark styles apply.

use std::fmt::Write;

use crate::escape::html;

/// Pixels of a character of the label font, about.
pub(super) const CHAR: f64 = 6.4;

/// Where the values of an axis lie.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scale {
    Linear { from: f64, to: f64 },
    Log { from: f64, to: f64 },
}

impl Scale {
    /// From 0 to 1 for what lies on the axis; what does not is moved to its end.
    fn share(self, value: f64) -> f64 {
        let (value, from, to) = match self {
            Scale::Linear { from, to } => (value, from, to),
            Scale::Log { from, to } => (value.max(from).ln(), from.ln(), to.ln()),
        };
        ((value - from) / (to - from).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }

    /// Round values on the axis, about as many as wanted.
    fn ticks(self, wanted: f64) -> Vec<f64> {
        let mut ticks = Vec::new();
        match self {
            Scale::Linear { from, to } => {
                let step = round_step((to - from) / wanted);
                let mut n = (from / step).ceil();
                while n * step <= to + step * 1e-9 {
                    ticks.push(n * step);
                    n += 1.0;
                }
            }
            Scale::Log { from, to } => {
                // Powers of ten; where few of them fit, also 2 and 5 times each.
                let factors: &[f64] = match (to / from).log10() < 3.0 {
                    true => &[1.0, 2.0, 5.0],
                    false => &[1.0],
                };
                let mut power = from.log10().floor();
                while 10f64.powf(power) <= to {
                    let values = factors.iter().map(|f| f * 10f64.powf(power));
                    ticks.extend(values.filter(|v| *v >= from && *v <= to));
                    power += 1.0;
                }
            }
        }
        ticks
    }
}

/// 1, 2 or 5 times a power of ten, at least `wanted`.
fn round_step(wanted: f64) -> f64 {
    let wanted = wanted.max(1e-6);
    let power = 10f64.powf(wanted.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fits = |f: &f64| f * power >= wanted * 0.999_999;
    power * factors.into_iter().find(fits).unwrap_or(10.0)
}

/// The form of a mark; each one reads without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Circle,
    Square,
    Triangle,
    Cross,
    Diamond,
    /// Open above: it was at least this much.
    Arrow,
}

impl Shape {
    /// A path around a point, `r` pixels in each direction.
    fn path(self, x: f64, y: f64, r: f64) -> String {
        let d = 2.0 * r;
        match self {
            Shape::Circle => format!(
                "M{:.1} {y:.1}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z",
                x - r
            ),
            Shape::Square => format!("M{:.1} {:.1}h{d}v{d}h-{d}z", x - r, y - r),
            // Taller than the others: a triangle has half the area of the square around it.
            Shape::Triangle => {
                let (r, d) = (1.25 * r, 2.5 * r);
                format!("M{x:.1} {:.1}l{r} {d}h-{d}z", y - r)
            }
            Shape::Cross => format!("M{:.1} {:.1}l{d} {d}m0 -{d}l-{d} {d}", x - r, y - r),
            Shape::Diamond => {
                let (r, d) = (1.3 * r, 2.6 * r);
                format!("M{:.1} {y:.1}l{r} -{r}l{r} {r}l-{r} {r}z", x - d / 2.0)
            }
            Shape::Arrow => format!(
                "M{x:.1} {:.1}v-{:.1}m-{r} {r}l{r} -{r}l{r} {r}",
                y + r,
                2.6 * r
            ),
        }
    }
}

/// A key of a legend: the mark as it is drawn, and its name.
pub(super) fn shape_key(shape: Shape, class: &str, name: &str) -> String {
    format!(
        "<span><svg class=\"glyph\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">\
         <path class=\"pt {class}\" d=\"{}\"/></svg>{name}</span>\n",
        shape.path(8.0, 8.0, 4.0)
    )
}

/// A key of a curve with marks: both as they are drawn, and the name.
pub(super) fn line_key(shape: Shape, class: &str, name: &str) -> String {
    format!(
        "<span><svg class=\"glyph wide plot\" viewBox=\"0 0 48 16\" aria-hidden=\"true\">\
         <path class=\"curve {class}\" d=\"M0 8H48\"/>\
         <path class=\"pt {class}\" d=\"{}\"/></svg>{name}</span>\n",
        shape.path(24.0, 8.0, 4.0)
    )
}

/// A plot while it is drawn.
pub(super) struct Plot {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub x: Scale,
    pub y: Scale,
    out: String,
}

impl Plot {
    /// A plot over the whole width of a page.
    pub(super) fn wide(height: f64, x: Scale, y: Scale) -> Plot {
        Plot {
            width: 1200.0,
            height,
            left: 52.0,
            right: 14.0,
            top: 14.0,
            bottom: 40.0,
            x,
            y,
            out: String::new(),
        }
    }

    pub(super) fn px(&self, value: f64) -> f64 {
        self.left + self.x.share(value) * (self.width - self.left - self.right)
    }

    pub(super) fn py(&self, value: f64) -> f64 {
        self.ground() - self.y.share(value) * (self.ground() - self.top)
    }

    /// The lower end of the plot.
    pub(super) fn ground(&self) -> f64 {
        self.height - self.bottom
    }

    /// Adds SVG as it is.
    pub(super) fn piece(&mut self, args: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(args);
        self.out.push('\n');
    }

    /// Lines across the plot at round values, where there is text for them.
    pub(super) fn y_axis(&mut self, text: impl Fn(f64) -> String) {
        let room = (self.ground() - self.top) / 34.0;
        for value in self.y.ticks(room.clamp(2.0, 6.0)) {
            let text = text(value);
            if text.is_empty() {
                continue;
            }
            let (y, left, to) = (self.py(value), self.left, self.width - self.right);
            self.piece(format_args!(
                "<line class=\"grid\" x1=\"{left}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                left - 8.0,
                y + 4.0
            ));
        }
    }

    /// Ticks below the plot where there is text for them, with what they count in the middle.
    pub(super) fn x_axis(&mut self, caption: &str, text: impl Fn(f64) -> String) {
        let ground = self.ground();
        for value in self.x.ticks(12.0) {
            let (x, text) = (self.px(value), text(value));
            if text.is_empty() {
                continue;
            }
            self.piece(format_args!(
                "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{ground:.1}\" \
                 y2=\"{:.1}\"/><text class=\"mid\" x=\"{x:.1}\" y=\"{:.1}\">{text}</text>",
                ground + 4.0,
                ground + 16.0
            ));
        }
        let middle = (self.left + self.width - self.right) / 2.0;
        let base = self.height - 6.0;
        self.piece(format_args!(
            "<text class=\"mid\" x=\"{middle:.1}\" y=\"{base:.1}\">{}</text>",
            html(caption)
        ));
    }

    /// A curve of steps: each value holds from its x on. Begins at 0 on the left.
    pub(super) fn steps(&mut self, class: &str, filled: bool, points: &[(f64, f64)]) {
        let mut path = format!("M{:.1} {:.1}", self.left, self.py(0.0));
        let mut last = 0.0;
        for (x, y) in points.iter().filter(|(_, y)| {
            let changes = *y != last;
            last = *y;
            changes
        }) {
            let _ = write!(path, "H{:.1}V{:.1}", self.px(*x), self.py(*y));
        }
        let end = points.last().map_or(self.left, |(x, _)| self.px(*x));
        let _ = write!(path, "H{end:.1}");
        if filled {
            let (ground, left) = (self.ground(), self.left);
            self.piece(format_args!(
                "<path class=\"area {class}\" d=\"{path}V{ground:.1}H{left}Z\"/>"
            ));
        }
        self.piece(format_args!("<path class=\"curve {class}\" d=\"{path}\"/>"));
    }

    /// A mark that says on hover what it is.
    pub(super) fn mark(&mut self, shape: Shape, class: &str, at: (f64, f64), r: f64, title: &str) {
        let path = shape.path(self.px(at.0), self.py(at.1), r);
        self.piece(format_args!(
            "<path class=\"pt {class}\" d=\"{path}\"><title>{}</title></path>",
            html(title)
        ));
    }

    /// A value to compare with: a dotted line across, named at its right end.
    pub(super) fn level(&mut self, class: &str, value: f64, name: &str) {
        let (y, left, to) = (self.py(value), self.left, self.width - self.right);
        let text = if y < self.top + 16.0 {
            y + 13.0
        } else {
            y - 4.0
        };
        self.piece(format_args!(
            "<line class=\"level {class}\" x1=\"{left}\" x2=\"{to:.1}\" y1=\"{y:.1}\" \
             y2=\"{y:.1}\"/><text class=\"end\" x=\"{:.1}\" y=\"{text:.1}\">{}</text>",
            to - 6.0,
            html(name)
        ));
    }

    /// Names of curves at their right ends, moved apart where they would lie on one another.
    pub(super) fn end_labels(&mut self, labels: &[(&str, String, (f64, f64))]) {
        const APART: f64 = 14.0;
        let mut placed: Vec<(f64, usize)> = Vec::new();
        for (i, (_, _, at)) in labels.iter().enumerate() {
            placed.push((self.py(at.1) - 5.0, i));
        }
        placed.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut above = self.ground() - 3.0;
        for (y, i) in placed {
            let (class, name, at) = &labels[i];
            let y = y.min(above);
            above = y - APART;
            let right = self.px(at.0) - 4.0;
            let x = right.max(self.left + name.chars().count() as f64 * CHAR);
            self.piece(format_args!(
                "<text class=\"end label {class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
                html(name)
            ));
        }
    }

    /// Names of curves in the margin on the right, each near its curve's end, none on another.
    pub(super) fn margin_labels(&mut self, labels: &[(String, String, f64)]) {
        const APART: f64 = 14.0;
        let mut placed: Vec<(f64, usize)> = labels
            .iter()
            .enumerate()
            .map(|(i, (_, _, value))| (self.py(*value) + 4.0, i))
            .collect();
        placed.sort_by(|a, b| a.0.total_cmp(&b.0));
        for i in 1..placed.len() {
            placed[i].0 = placed[i].0.max(placed[i - 1].0 + APART);
        }
        // What was pushed below the plot pushes back.
        let mut lowest = self.ground();
        for (y, _) in placed.iter_mut().rev() {
            *y = y.min(lowest);
            lowest = *y - APART;
        }
        let x = self.width - self.right + 8.0;
        for (y, i) in placed {
            let (class, name, _) = &labels[i];
            self.piece(format_args!(
                "<text class=\"label {class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
                html(name)
            ));
        }
    }

    /// The whole drawing.
    pub(super) fn svg(self, name: &str) -> String {
        format!(
            "<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" \
             xmlns=\"http://www.w3.org/2000/svg\">\n{}</svg>\n",
            self.width,
            self.height,
            html(name),
            self.out
        )
    }
}

/// A count, as an axis says it; fractions of counts are not said.
pub(super) fn whole(value: f64) -> String {
    match value.fract().abs() < 1e-6 {
        true => format!("{value:.0}"),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        let linear = |to, wanted| Scale::Linear { from: 0.0, to }.ticks(wanted);
        assert_eq!(
            linear(1.0, 5.0),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        assert_eq!(linear(60.0, 6.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(linear(7.0, 4.0), [0.0, 2.0, 4.0, 6.0]);
        let log = |from, to| Scale::Log { from, to }.ticks(5.0);
        assert_eq!(log(0.5, 600.0), [1.0, 10.0, 100.0]);
        assert_eq!(log(8.0, 40.0), [10.0, 20.0]);
    }

    #[test]
    fn values_off_the_axis_stay_in_the_picture() {
        let plot = Plot::wide(
            200.0,
            Scale::Linear {
                from: 0.0,
                to: 10.0,
            },
            Scale::Log {
                from: 1.0,
                to: 100.0,
            },
        );
        assert_eq!((plot.px(0.0), plot.px(10.0)), (52.0, 1186.0));
        assert_eq!((plot.px(-5.0), plot.px(50.0)), (52.0, 1186.0));
        assert_eq!(
            (plot.py(1.0), plot.py(10.0), plot.py(100.0)),
            (160.0, 87.0, 14.0)
        );
        assert_eq!(plot.py(0.0), 160.0);
    }
}
