//! The console: live progress on a terminal, plain lines in a pipe, bugs as they are found, and
//! a summary at the end.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use temblor_model::bug::{Bug, Verdict};
use temblor_model::campaign::{
    CampaignEvent, CampaignSpec, EventSink, StartLine, Summary, WarpSpec,
};

use crate::escape;
pub use crate::progress::Paint;
use crate::progress::{Line, Progress, Style, jobs, live_lines, plain_line, plural};
use crate::view::{short_plan, span};

/// The display is redrawn at most this often.
const REDRAW_EVERY: Duration = Duration::from_millis(100);
/// A pipe gets a line of progress at most this often.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// Where the width is not known.
const DEFAULT_WIDTH: usize = 80;
/// What is cut nowhere: lines in a pipe, paths and commands.
const UNBOUNDED: usize = usize::MAX;

/// How the console may draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Redraws in place; otherwise lines only.
    pub live: bool,
    pub colour: bool,
    /// Columns; `None` asks the terminal each time, for it may be resized.
    pub width: Option<usize>,
}

impl Look {
    /// Lines without colours, as for a pipe.
    pub const PLAIN: Look = Look {
        live: false,
        colour: false,
        width: Some(UNBOUNDED),
    };

    /// What fits standard error.
    pub fn of_stderr() -> Look {
        Look::of(io::stderr().is_terminal())
    }

    /// What fits standard output.
    pub fn of_stdout() -> Look {
        Look::of(io::stdout().is_terminal())
    }

    fn of(terminal: bool) -> Look {
        let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        match terminal && !dumb {
            true => Look {
                live: true,
                colour: !set("NO_COLOR"),
                width: None,
            },
            false => Look::PLAIN,
        }
    }

    fn columns(self) -> usize {
        let asked = || terminal_size::terminal_size().map(|(w, _)| usize::from(w.0));
        let width = self.width.or_else(asked).unwrap_or(DEFAULT_WIDTH);
        // The last column stays free: some terminals wrap as soon as it is written.
        width.max(20) - 1
    }
}

/// Shows a campaign to people. Takes any writer: standard error when `--json` has the output.
pub struct Console<W> {
    out: W,
    look: Look,
    progress: Progress,
    started: Instant,
    /// Lines of the live block on the screen.
    drawn: usize,
    last_draw: Option<Duration>,
    /// Says neither that the campaign begins nor what it came to.
    in_passing: bool,
}

impl<W: Write + Send> Console<W> {
    pub fn new(out: W, look: Look) -> Console<W> {
        Console {
            out,
            look,
            progress: Progress::default(),
            started: Instant::now(),
            drawn: 0,
            last_draw: None,
            in_passing: false,
        }
    }

    /// For one campaign of several: progress and bugs only.
    pub fn in_passing(mut self) -> Console<W> {
        self.in_passing = true;
        self
    }

    /// Keeps time running on the display while nothing happens; call it a few times a second.
    pub fn tick(&mut self) {
        self.tick_at(self.started.elapsed());
    }

    /// As [`Console::tick`], at a given time since the start.
    pub fn tick_at(&mut self, elapsed: Duration) {
        self.draw(&[], elapsed, false);
    }

    /// Consumes an event at a given time since the start.
    pub fn event_at(&mut self, event: &CampaignEvent, elapsed: Duration) {
        if let CampaignEvent::Trial { .. } = event {
            return;
        }
        self.progress.apply(event, elapsed);
        let paint = Paint(self.look.colour);
        let last = matches!(event, CampaignEvent::Finished { .. });
        let outer = last || matches!(event, CampaignEvent::Started { .. });
        let lines = match outer && self.in_passing {
            true => Vec::new(),
            false => announcement(event, self.look.columns(), paint),
        };
        self.draw(&lines, elapsed, last);
    }

    /// Prints lines that stay, and the live block below them unless it was the last event.
    fn draw(&mut self, lines: &[String], elapsed: Duration, last: bool) {
        let every = if self.look.live {
            REDRAW_EVERY
        } else {
            PLAIN_EVERY
        };
        let due = self.last_draw.is_none_or(|d| elapsed >= d + every);
        if lines.is_empty() && !due && !last {
            return;
        }
        let mut text = String::new();
        if self.look.live {
            let paint = Paint(self.look.colour);
            let block = match last {
                true => Vec::new(),
                false => live_lines(&self.progress, elapsed, self.look.columns(), paint),
            };
            text = frame(self.drawn, lines, &block);
            self.drawn = block.len();
            self.last_draw = Some(elapsed);
        } else {
            for line in lines {
                text.push_str(line);
                text.push('\n');
            }
            // The first progress line comes after an interval, not at once.
            let begun = self.progress.searching_since.is_some();
            if begun && due && !last && self.last_draw.is_some() {
                text.push_str(&plain_line(&self.progress, elapsed));
                text.push('\n');
            }
            if begun && due {
                self.last_draw = Some(elapsed);
            }
        }
        // A reader that went away is no reason to end a campaign.
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }

    /// A handle that several threads can use, one of them to tick.
    pub fn shared(self) -> SharedConsole<W> {
        SharedConsole(Arc::new(Mutex::new(self)))
    }
}

impl<W: Write + Send> EventSink for Console<W> {
    fn event(&mut self, event: &CampaignEvent) {
        self.event_at(event, self.started.elapsed());
    }
}

/// A console used from several threads.
pub struct SharedConsole<W>(Arc<Mutex<Console<W>>>);

impl<W> Clone for SharedConsole<W> {
    fn clone(&self) -> Self {
        SharedConsole(Arc::clone(&self.0))
    }
}

impl<W: Write + Send> SharedConsole<W> {
    pub fn tick(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).tick();
    }
}

impl<W: Write + Send> EventSink for SharedConsole<W> {
    fn event(&mut self, event: &CampaignEvent) {
        let mut console = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        console.event(event);
    }
}

/// Goes back over the block of `drawn` lines; writes lines that stay, and the new block.
fn frame(drawn: usize, lines: &[String], block: &[String]) -> String {
    let mut text = String::new();
    if drawn > 0 {
        text.push_str(&format!("\x1b[{drawn}A\r"));
    }
    for line in lines.iter().chain(block) {
        text.push_str(line);
        // Clears what the old block had further right.
        text.push_str("\x1b[K\n");
    }
    // And further down.
    text.push_str("\x1b[J");
    text
}

/// The lines an event is worth, if any: they stay on the screen.
pub fn announcement(event: &CampaignEvent, width: usize, paint: Paint) -> Vec<String> {
    let one = |line: Line| vec![line.render(width, paint)];
    match event {
        CampaignEvent::Started {
            spec,
            store,
            sites,
            before,
            ..
        } => started(spec, store, *sites, before.trials, paint),
        CampaignEvent::Note { text } => one(Line::default().with(Style::Dim, escape::line(text))),
        CampaignEvent::BaselineDone { baseline } => one(Line::default()
            .with(Style::Good, "✓ ")
            .with(Style::Plain, plural(baseline.runs.into(), "clean run"))
            .with(
                Style::Dim,
                format!(
                    ", {} reached, clock ×{}",
                    plural(distinct_sites(baseline), "site"),
                    baseline.warp
                ),
            )),
        CampaignEvent::NotConfirmed {
            trial,
            signature,
            times,
            of,
        } => {
            let how = match of {
                0 => "its fault did not come about again".to_string(),
                of => format!("{times} of {of}"),
            };
            one(Line::default()
                .with(Style::Dim, format!("trial {trial} not confirmed ({how}): "))
                .with(Style::Dim, escape::line(signature)))
        }
        CampaignEvent::TrialDone { trial, outcome, .. } if outcome.verdict == Verdict::Unknown => {
            let reason = outcome.judgements.iter().find_map(|j| j.reason.as_deref());
            let reason = escape::line(reason.unwrap_or("no checker could tell"));
            one(Line::default().with(Style::Dim, format!("trial {trial} unknown: {reason}")))
        }
        CampaignEvent::BugFound { bug } => bug_found(bug, width, paint),
        CampaignEvent::Finished { summary } => summary_lines(summary, paint),
        _ => Vec::new(),
    }
}

fn distinct_sites(baseline: &temblor_model::history::Baseline) -> u64 {
    let sites: std::collections::BTreeSet<_> = baseline.reached.iter().map(|r| r.site).collect();
    sites.len() as u64
}

fn started(
    spec: &CampaignSpec,
    store: &str,
    sites: usize,
    resumed: u64,
    paint: Paint,
) -> Vec<String> {
    let warp = match spec.warp {
        WarpSpec::Off => "off".into(),
        WarpSpec::Auto => "auto".into(),
        WarpSpec::Factor(k) => format!("×{k}"),
    };
    let head = Line::default()
        .with(Style::Bold, escape::line(&spec.target))
        .with(
            Style::Plain,
            format!(
                " · {} · seed {} · {} · {} · warp {warp}",
                escape::line(&spec.policy),
                spec.seed,
                plural(sites as u64, "site"),
                jobs(spec.jobs),
            ),
        );
    let mut lines = vec![
        head.render(UNBOUNDED, paint),
        Line::default()
            .with(Style::Dim, format!("store {}", escape::line(store)))
            .render(UNBOUNDED, paint),
    ];
    if resumed > 0 {
        lines.push(format!("resumed: {} done before", plural(resumed, "trial")));
    }
    lines
}

fn bug_found(bug: &Bug, width: usize, paint: Paint) -> Vec<String> {
    let known = bug.known.as_ref();
    let known = known.map_or(String::new(), |k| format!(" (known: {})", escape::line(k)));
    let confirmed = bug.confirmed;
    let clock = match confirmed.unwarped_of {
        0 => String::new(),
        of => format!(", {} of {of} on the real clock", confirmed.unwarped_times),
    };
    let lines = [
        Line::default()
            .with(Style::Bad, format!("BUG {} ", escape::line(&bug.id)))
            .with(Style::Bold, escape::line(&bug.title))
            .with(Style::Plain, known),
        Line::default()
            .with(Style::Dim, "    plan      ")
            .with(Style::Plain, escape::line(&short_plan(&bug.plan))),
        Line::default().with(Style::Dim, "    confirmed ").with(
            Style::Plain,
            format!("{} of {}{clock}", confirmed.times, confirmed.of),
        ),
    ];
    lines.iter().map(|l| l.render(width, paint)).collect()
}

/// The end of a campaign: counts, then each bug with its report and replay command.
pub fn summary_lines(summary: &Summary, paint: Paint) -> Vec<String> {
    let ended = if summary.interrupted {
        " (ended early)"
    } else {
        ""
    };
    let mut lines = vec![
        String::new(),
        Line::default()
            .with(Style::Bold, escape::line(&summary.target))
            .with(
                Style::Plain,
                format!(
                    " · {} · seed {}: {} in {}{ended}",
                    escape::line(&summary.policy),
                    summary.seed,
                    plural(summary.trials, "trial"),
                    span(summary.seconds.max(0.0).round() as u64),
                ),
            )
            .render(UNBOUNDED, paint),
        format!(
            "  {} fired · {} unreached · {} unknown · {} not confirmed",
            summary.fired, summary.unreached, summary.unknown, summary.unconfirmed
        ),
    ];
    let is_warm = |s: &StartLine| s.from != "cold";
    if summary.starts.iter().any(is_warm) {
        let starts: Vec<String> = (summary.starts.iter())
            .map(|s| format!("{} {}", s.trials, escape::line(&s.from)))
            .collect();
        lines.push(format!("  began: {}", starts.join(" · ")));
    }
    if let Some((covered, of)) = summary.covered {
        lines.push(format!("  {covered} of {of} basic blocks covered"));
    }
    let style = match summary.bugs.is_empty() {
        true => Style::Good,
        false => Style::Bad,
    };
    let count = plural(summary.bugs.len() as u64, "bug");
    lines.push(
        Line::default()
            .with(style, format!("  {count}"))
            .render(UNBOUNDED, paint),
    );
    for bug in &summary.bugs {
        lines.push(String::new());
        lines.push(
            Line::default()
                .with(Style::Bad, format!("  {}  ", escape::line(&bug.id)))
                .with(Style::Bold, escape::line(&bug.title))
                .render(UNBOUNDED, paint),
        );
        let known = bug.known.as_ref().map(|known| ("known", known.clone()));
        let rows = [
            ("confirmed", bug.confirmed.clone()),
            ("plan", short_plan(&bug.plan)),
            ("report", bug.report.clone()),
            ("replay", bug.replay.clone()),
        ];
        for (name, value) in known.into_iter().chain(rows) {
            lines.push(
                Line::default()
                    .with(Style::Dim, format!("    {name:<10}"))
                    .with(Style::Plain, escape::line(&value))
                    .render(UNBOUNDED, paint),
            );
        }
    }
    lines.push(String::new());
    lines.push(
        Line::default()
            .with(
                Style::Dim,
                format!("store {}", escape::line(&summary.store)),
            )
            .render(UNBOUNDED, paint),
    );
    lines
}
