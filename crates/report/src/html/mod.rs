//! Self-contained pages: no external resource, readable offline, light and dark, wide and narrow.

mod bug;
mod campaign;
mod charts;
mod compare;
mod contest;
mod latency;
mod lengths;
mod machines;
mod plot;

pub use bug::bug;
pub use campaign::campaign;
pub use compare::comparison;
pub use contest::contest;
pub use machines::machines;

use crate::escape::html;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// A whole page. `body` is HTML, `title` is text.
fn page(title: &str, body: &str) -> String {
    let title = html(title);
    // The policy is a second fence: should some text ever get past the escaping, it loads nothing.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// A command with a button that copies it.
fn command(text: &str) -> String {
    format!(
        "<div class=\"command\"><code>{}</code>\
         <button type=\"button\" data-copy>Copy</button></div>\n",
        html(text)
    )
}

fn badge(class: &str, text: &str) -> String {
    format!("<span class=\"badge {class}\">{}</span>\n", html(text))
}

/// A folded block of preformatted text.
fn folded(summary: &str, text: &str) -> String {
    format!(
        "<details><summary>{}</summary><pre>{}</pre></details>\n",
        html(summary),
        html(text)
    )
}
