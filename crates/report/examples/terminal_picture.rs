//! Turns what a terminal showed (standard input, colours included) into an SVG picture:
//! `cargo run --release -p temblor-report --example terminal_picture -- TITLE < TEXT > docs/demo.svg`.

use std::io::Read;

fn main() {
    let title = std::env::args().nth(1).unwrap_or_default();
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .expect("standard input is text");
    print!("{}", temblor_report::terminal_svg(&text, &title));
}
