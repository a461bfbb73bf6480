//! Text of foreign origin made harmless: logs, stacks and operation values are hostile input.

/// For HTML and SVG, in text and in attributes. Control characters become visible pictures.
pub(crate) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c => out.push(visible(c)),
        }
    }
    out
}

/// For one line on a terminal: no escape sequences, no line ends.
pub(crate) fn line(text: &str) -> String {
    let one = |c: char| if c == '\t' { ' ' } else { visible(c) };
    text.chars().map(one).collect()
}

/// For a cell of a Markdown table or running text.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '|' | '[' | ']' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\t' => out.push(' '),
            c => out.push(visible(c)),
        }
    }
    out
}

/// A code span that no content can end early, also inside a table.
pub(crate) fn markdown_code(text: &str) -> String {
    let text = line(text).replace('|', "\\|");
    let fence = "`".repeat(longest_run(&text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// A code block that no content can end early.
pub(crate) fn markdown_block(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    let keep = |c: char| if c == '\n' { c } else { visible(c) };
    let text: String = text.trim_end().chars().map(keep).collect();
    format!("{fence}{language}\n{text}\n{fence}\n")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or(0)
}

/// Control characters and those that reorder text become something that can be seen.
fn visible(c: char) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{feff}'
        | '\u{fffe}'
        | '\u{ffff}' => '\u{fffd}',
        c => c,
    }
}

/// At most `width` characters, the cut marked.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// A relative path as part of a URI: `/` and `$` stay, all that is not plain is encoded.
pub(crate) fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'/' | b'.' | b'-' | b'_' | b'~' | b'@' | b'$' | b'+' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// A shell word that needs no thought when it is copied.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/@._+-:,=%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_harmless() {
        assert_eq!(
            html("<b a='\"'>&\x1b"),
            "&lt;b a=&#39;&quot;&#39;&gt;&amp;␛"
        );
        assert_eq!(line("a\x1b[31m\nb\u{202e}"), "a␛[31m␊b\u{fffd}");
        assert_eq!(markdown("a|b`c`<i>"), "a\\|b\\`c\\`&lt;i&gt;");
        assert_eq!(markdown_code("a``b"), "```a``b```");
        assert!(markdown_block("text", "```\nx").starts_with("````text\n```\nx\n````"));
        assert_eq!(uri("a/b c/é.java"), "a/b%20c/%C3%A9.java");
        assert_eq!(shell("store/trio@1/x"), "store/trio@1/x");
        assert_eq!(shell("a b'c"), r"'a b'\''c'");
        assert_eq!(shorten("abcdef", 4), "abc…");
    }
}
