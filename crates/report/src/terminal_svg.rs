//! A picture of a terminal: plain or ANSI-coloured text as one self-contained SVG.

use std::fmt::Write;

use crate::escape::{html, line};

const CHAR: f64 = 8.4;
const LINE: f64 = 19.0;
const PAD: f64 = 18.0;
const TITLE: f64 = 36.0;
const COLUMNS_LEAST: usize = 60;
/// Black, red, green, yellow, blue, magenta, cyan, white; then the same, bright.
const COLOURS: [&str; 16] = [
    "#5b6573", "#ff7b86", "#7fd6a2", "#ecc66f", "#86b0ff", "#d19cf0", "#73d0dd", "#dbe2ec",
    "#7d8899", "#ff9aa2", "#9fe6bb", "#f5d893", "#a8c7ff", "#e2baf8", "#98e3ec", "#ffffff",
];
const FOREGROUND: &str = "#dbe2ec";
const BACKGROUND: &str = "#151a21";

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pen {
    colour: Option<usize>,
    bold: bool,
    dim: bool,
}

/// Text with colour codes as a picture. Cursor movements and other sequences are left out.
pub fn terminal_svg(text: &str, title: &str) -> String {
    let mut pen = Pen::default();
    let text = text.trim_end_matches('\n');
    let lines: Vec<Vec<(Pen, String)>> = text.split('\n').map(|l| spans(l, &mut pen)).collect();
    let columns = |spans: &Vec<(Pen, String)>| -> usize {
        spans.iter().map(|(_, text)| text.chars().count()).sum()
    };
    let widest = lines.iter().map(columns).max().unwrap_or(0);
    let width = widest.max(COLUMNS_LEAST) as f64 * CHAR + 2.0 * PAD;
    let height = TITLE + lines.len() as f64 * LINE + PAD;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\" \
         font-family=\"ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"{BACKGROUND}\"/>\n\
         <circle cx=\"20\" cy=\"18\" r=\"6\" fill=\"#ff6057\"/>\
         <circle cx=\"40\" cy=\"18\" r=\"6\" fill=\"#febc2e\"/>\
         <circle cx=\"60\" cy=\"18\" r=\"6\" fill=\"#28c840\"/>\n\
         <text x=\"50%\" y=\"23\" fill=\"#8a95a5\" text-anchor=\"middle\" font-size=\"13\">{title}\
         </text>\n",
        title = html(&line(title))
    );
    for (row, spans) in lines.iter().enumerate() {
        let y = TITLE + (row as f64 + 0.8) * LINE;
        let mut column = 0;
        for (pen, text) in spans {
            let count = text.chars().count();
            if !text.trim().is_empty() {
                out.push_str(&span(*pen, text, column, y));
            }
            column += count;
        }
    }
    out.push_str("</svg>\n");
    out
}

/// One run of text. Its length is given, so that columns line up whatever font is at hand.
fn span(pen: Pen, text: &str, column: usize, y: f64) -> String {
    let indent = text.chars().take_while(|c| *c == ' ').count();
    let text = text.trim();
    let x = PAD + (column + indent) as f64 * CHAR;
    let length = text.chars().count() as f64 * CHAR;
    let fill = pen.colour.map_or(FOREGROUND, |c| COLOURS[c % 16]);
    let mut style = String::new();
    if pen.bold {
        style.push_str(" font-weight=\"bold\"");
    }
    if pen.dim {
        style.push_str(" opacity=\"0.62\"");
    }
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{fill}\"{style} textLength=\"{length:.1}\" \
         lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\">{}</text>",
        html(text)
    );
    out
}

/// Splits a line at its colour codes.
fn spans(text: &str, pen: &mut Pen) -> Vec<(Pen, String)> {
    let mut spans = Vec::new();
    let mut run = String::new();
    let mut rest = text.trim_end_matches('\r').chars();
    while let Some(c) = rest.next() {
        if c != '\x1b' {
            run.push(if c == '\t' { ' ' } else { c });
            continue;
        }
        if !rest.as_str().starts_with('[') {
            continue;
        }
        rest.next();
        let mut codes = String::new();
        let last = rest.find(|c| {
            let parameter = c.is_ascii_digit() || ";?:<=>".contains(*c);
            if parameter {
                codes.push(*c);
            }
            !parameter
        });
        if last == Some('m') {
            if !run.is_empty() {
                spans.push((*pen, std::mem::take(&mut run)));
            }
            pen.apply(&codes);
        }
    }
    if !run.is_empty() {
        spans.push((*pen, run));
    }
    spans
}

impl Pen {
    fn apply(&mut self, codes: &str) {
        for code in codes.split(';') {
            match code.parse::<usize>().unwrap_or(0) {
                0 => *self = Pen::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                22 => (self.bold, self.dim) = (false, false),
                n @ 30..=37 => self.colour = Some(n - 30),
                39 => self.colour = None,
                n @ 90..=97 => self.colour = Some(n - 82),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_kept_and_other_sequences_dropped() {
        let svg = terminal_svg("\x1b[1;31mBUG\x1b[0m <x>\x1b[2K\x1b[3A ok", "a <title>");
        assert!(svg.contains("fill=\"#ff7b86\" font-weight=\"bold\""));
        assert!(svg.contains(">BUG</text>"));
        assert!(svg.contains("&lt;x&gt; ok"));
        assert!(svg.contains("a &lt;title&gt;"));
        assert!(!svg.contains('\x1b'));
    }

    #[test]
    fn a_cut_sequence_ends_the_line_quietly() {
        assert!(terminal_svg("abc\x1b[31", "t").contains(">abc</text>"));
        assert!(terminal_svg("abc\x1b", "t").contains(">abc</text>"));
    }
}
