//! Consumers of a campaign's event stream: store, console, JSON, Markdown, HTML, and what CI
//! systems read: JUnit XML and SARIF.
//!
//! Invariant: this crate never knows how events arose. It reads events, outcomes and bugs, and
//! nothing it writes is anything but a view of them.

pub mod compare;
pub mod console;
pub mod contest;
pub mod explain;
pub mod html;
pub mod json;
pub mod junit;
pub mod lengths;
pub mod machines;
pub mod markdown;
pub mod moments;
pub mod progress;
pub mod publish;
pub mod sarif;
pub mod store;
pub mod tally;
pub mod terminal_svg;
pub mod timeline;
pub mod view;

mod escape;
mod timeline_svg;
mod told;

pub use compare::{Comparison, compare};
pub use console::Console;
pub use contest::{Contest, find_contest};
pub use json::JsonSink;
pub use store::{
    Listed, Store, StoreError, StoreFailure, StoreSink, Trials, find_bug, find_campaign,
    load_events, running,
};
pub use terminal_svg::terminal_svg;
