//! Numbers, kinds, places and lines as people read them.

use serde::Serialize;
use temblor_model::catalog::Place;
use temblor_model::names::{dotted, parameters};

/// No line of the summary is longer.
pub const WIDTH: usize = 100;

/// `1,234,567`.
pub fn number(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 site`, `2 sites`.
pub fn count(n: usize, noun: &str) -> String {
    let ending = if n == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", number(n))
}

/// A kind as it is stored: `synchronized-method`.
pub fn kebab(kind: impl Serialize) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(word)) => word,
        other => format!("{other:?}"),
    }
}

/// A kind as it is read: `synchronized method`.
pub fn words(kind: impl Serialize) -> String {
    kebab(kind).replace('-', " ")
}

/// The text, or as much of it as fits, ending in `...`.
pub fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let kept: String = text.chars().take(width.saturating_sub(3)).collect();
    kept + "..."
}

/// The text without its beginning where it is too long: paths end with what tells them apart.
pub fn clip_start(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_string();
    }
    let kept = text.chars().skip(length + 3 - width.max(3));
    "...".chars().chain(kept).collect()
}

/// Items joined by commas, in lines of at most `width`, commas at their ends included.
pub fn flow(items: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + item.chars().count() < width => {
                line.push_str(", ");
                line.push_str(item);
            }
            last => {
                if let Some(line) = last {
                    line.push(',');
                }
                lines.push(item.clone());
            }
        }
    }
    lines
}

/// Words in lines of at most `width`; what does not fit into `most` lines ends in `...`.
pub fn wrap(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most - 1).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| clip(line, width)).collect()
}

/// `pkg.Class.method(Params)`, the way sites are named.
pub fn method_of(place: &Place) -> String {
    let (class, method) = (dotted(&place.class), &place.method);
    format!("{class}.{method}({})", parameters(&place.desc))
}

/// The method and, where it is known, the line.
pub fn place(place: &Place) -> String {
    format!("{}{}", method_of(place), line(place.line))
}

/// ` line 12`, or nothing.
pub fn line(line: Option<u32>) -> String {
    line.map(|line| format!(" line {line}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_nouns_their_plural() {
        let shown: Vec<String> = [0, 999, 1_000, 1_234_567].map(number).into();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(count(1, "site"), "1 site");
        assert_eq!(count(1_200, "site"), "1,200 sites");
    }

    #[test]
    fn long_texts_lose_their_end_and_long_paths_their_beginning() {
        assert_eq!(clip("abcdefgh", 8), "abcdefgh");
        assert_eq!(clip("abcdefghi", 8), "abcde...");
        assert_eq!(clip_start("/a/b/c/d.jar", 12), "/a/b/c/d.jar");
        assert_eq!(clip_start("/a/b/c/d.jar", 8), "...d.jar");
    }

    #[test]
    fn items_flow_into_lines_that_fit() {
        let items = ["one 1", "two 2", "three 3"].map(String::from);
        assert_eq!(flow(&items, 14), ["one 1, two 2,", "three 3"]);
        assert_eq!(flow(&items, 5), ["one 1,", "two 2,", "three 3"]);
        assert!(flow(&[], 5).is_empty());
    }

    #[test]
    fn words_wrap_and_the_last_line_tells_that_there_is_more() {
        assert_eq!(wrap("one two three", 7, 2), ["one two", "three"]);
        assert_eq!(wrap("one two three four", 7, 2), ["one two", "thre..."]);
        assert_eq!(wrap("enormously", 7, 2), ["enor..."]);
        assert!(wrap("", 7, 2).is_empty());
    }

    #[test]
    fn places_read_as_site_names_do() {
        let at = |desc: &str| Place {
            class: "a/b/C$D".into(),
            method: "m".into(),
            desc: desc.into(),
            pc: 3,
            line: Some(7),
        };
        let shown = place(&at("(Ljava/lang/String;[[JI[La/X$Y;)V"));
        assert_eq!(shown, "a.b.C$D.m(String,long[][],int,X$Y[]) line 7");
        assert_eq!(method_of(&at("()V")), "a.b.C$D.m()");
        assert_eq!(method_of(&at("(?I)V")), "a.b.C$D.m()");
        assert_eq!(method_of(&at("broken")), "a.b.C$D.m()");
    }
}
