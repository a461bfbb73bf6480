//! How far a campaign has come: counts folded from the stream, and the lines that show them.
//! Pure: no clock, no terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use temblor_model::campaign::{CampaignEvent, CampaignSpec, Purpose, Tally};

use crate::escape;
use crate::view::{short_plan, span};

/// Counts of a campaign so far.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    pub spec: Option<CampaignSpec>,
    pub sites: usize,
    /// Search trials finished before this session.
    pub resumed: u64,
    pub baselines: u64,
    pub confirms: u64,
    /// Search trials finished, the resumed ones included.
    pub search: Tally,
    /// Signatures that replays have not shown again so far.
    pub unconfirmed: BTreeSet<String>,
    pub bugs: u64,
    pub running: BTreeMap<u64, (Purpose, String)>,
    /// When the first search trial began, for the rate.
    pub searching_since: Option<Duration>,
}

impl Progress {
    pub fn apply(&mut self, event: &CampaignEvent, elapsed: Duration) {
        match event {
            CampaignEvent::Started {
                spec,
                sites,
                before,
                bugs,
                ..
            } => {
                self.spec = Some(spec.clone());
                self.sites = *sites;
                self.resumed = before.trials;
                self.search = *before;
                self.bugs = *bugs;
            }
            CampaignEvent::TrialStarted {
                trial,
                purpose,
                plan,
            } => {
                if *purpose == Purpose::Search {
                    self.searching_since.get_or_insert(elapsed);
                }
                let plan = escape::line(&short_plan(plan));
                self.running.insert(*trial, (*purpose, plan));
            }
            CampaignEvent::TrialDone {
                trial,
                purpose,
                outcome,
                ..
            } => {
                self.running.remove(trial);
                match purpose {
                    Purpose::Baseline => self.baselines += 1,
                    Purpose::Confirm | Purpose::Shrink => self.confirms += 1,
                    Purpose::Search => self.search.count(outcome),
                }
            }
            CampaignEvent::NotConfirmed { signature, .. } => {
                self.unconfirmed.insert(signature.clone());
            }
            CampaignEvent::BugFound { bug } => {
                self.unconfirmed.remove(&bug.signature);
                self.bugs += 1;
            }
            _ => {}
        }
    }

    /// Search trials a minute in this session, once there is something to measure.
    pub fn rate_per_minute(&self, elapsed: Duration) -> Option<f64> {
        let time = elapsed.checked_sub(self.searching_since?)?;
        let done = self.search.trials.checked_sub(self.resumed)?;
        (done > 0 && time.as_secs_f64() > 0.5).then(|| done as f64 * 60.0 / time.as_secs_f64())
    }

    /// Seconds left: until all trials are run or the budget ends, whichever is first.
    pub fn seconds_left(&self, elapsed: Duration) -> Option<u64> {
        let spec = self.spec.as_ref()?;
        let trials = (spec.trials > 0)
            .then(|| self.rate_per_minute(elapsed))
            .flatten()
            .map(|rate| {
                (spec.trials.saturating_sub(self.search.trials) as f64 * 60.0 / rate) as u64
            });
        let budget = (spec.budget_s > 0).then(|| spec.budget_s.saturating_sub(elapsed.as_secs()));
        match (trials, budget) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn counts(&self) -> String {
        let mut text = format!(
            "{} fired, {} unreached, {} unknown",
            self.search.fired, self.search.unreached, self.search.unknown
        );
        if !self.unconfirmed.is_empty() {
            text.push_str(&format!(", {} not confirmed", self.unconfirmed.len()));
        }
        text
    }

    fn trials_text(&self) -> String {
        match self.spec.as_ref().map_or(0, |s| s.trials) {
            0 => format!("{} trials", self.search.trials),
            total => format!("{}/{total} trials", self.search.trials),
        }
    }

    fn times(&self, elapsed: Duration) -> String {
        let mut text = span(elapsed.as_secs());
        if let Some(left) = self.seconds_left(elapsed) {
            text.push_str(&format!(", about {} left", span(left)));
        }
        text
    }
}

/// One line of progress, for a pipe.
pub fn plain_line(progress: &Progress, elapsed: Duration) -> String {
    let rate = progress.rate_per_minute(elapsed);
    let rate = rate.map_or(String::new(), |r| format!(", {r:.0}/min"));
    format!(
        "{}{rate}; {}; {}; {}",
        progress.trials_text(),
        progress.counts(),
        plural(progress.bugs, "bug"),
        progress.times(elapsed)
    )
}

/// The block that is redrawn on a terminal; no line is wider than `width`.
pub fn live_lines(
    progress: &Progress,
    elapsed: Duration,
    width: usize,
    paint: Paint,
) -> Vec<String> {
    const RUNNING_SHOWN: usize = 6;
    let Some(spec) = &progress.spec else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    let searching = progress.searching_since.is_some();
    let first = match searching {
        true => Line::default()
            .with(
                Style::Accent,
                bar(progress.search.trials, spec.trials, bar_width(width)),
            )
            .with(Style::Bold, format!(" {}", progress.trials_text()))
            .with(Style::Plain, rate_text(progress, elapsed))
            .with(Style::Dim, format!(" · {}", progress.times(elapsed))),
        false => Line::default()
            .with(
                Style::Accent,
                bar(progress.baselines, spec.baselines.into(), 10),
            )
            .with(Style::Bold, " baselines")
            .with(
                Style::Plain,
                format!(" {}/{}", progress.baselines, spec.baselines),
            )
            .with(Style::Dim, format!(" · {}", span(elapsed.as_secs()))),
    };
    lines.push(first);
    if searching {
        let bugs = match progress.bugs {
            0 => Style::Dim,
            _ => Style::Bad,
        };
        lines.push(
            Line::default()
                .with(bugs, plural(progress.bugs, "bug"))
                .with(Style::Plain, format!(" · {}", progress.counts())),
        );
    }
    for (trial, (purpose, plan)) in progress.running.iter().take(RUNNING_SHOWN) {
        let why = match purpose {
            Purpose::Baseline => "clean run",
            Purpose::Search => "trial",
            Purpose::Confirm => "replay",
            Purpose::Shrink => "smaller plan",
        };
        lines.push(
            Line::default()
                .with(Style::Dim, format!("  {why} {trial} "))
                .with(Style::Plain, plan.clone()),
        );
    }
    let more = progress.running.len().saturating_sub(RUNNING_SHOWN);
    if more > 0 {
        lines.push(Line::default().with(Style::Dim, format!("  and {more} more")));
    }
    lines.iter().map(|l| l.render(width, paint)).collect()
}

fn rate_text(progress: &Progress, elapsed: Duration) -> String {
    let rate = progress.rate_per_minute(elapsed);
    rate.map_or(String::new(), |r| format!(" · {r:.0}/min"))
}

fn bar_width(width: usize) -> usize {
    (width / 4).clamp(4, 30)
}

fn bar(done: u64, total: u64, width: usize) -> String {
    let full = match total {
        0 => 0,
        total => (done.min(total) as usize * width) / total as usize,
    };
    format!("{}{}", "█".repeat(full), "░".repeat(width - full))
}

pub fn plural(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

/// How many trials run side by side.
pub fn jobs(count: u32) -> String {
    match count {
        0 => "jobs by load".to_owned(),
        count => plural(count.into(), "job"),
    }
}

/// Whether colours may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint(pub bool);

/// How a piece of a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    Dim,
    Accent,
    Good,
    Bad,
}

/// A line of styled pieces, cut to a width when it is rendered.
#[derive(Clone, Debug, Default)]
pub struct Line(Vec<(Style, String)>);

impl Line {
    pub fn with(mut self, style: Style, text: impl Into<String>) -> Line {
        self.0.push((style, text.into()));
        self
    }

    pub fn render(&self, width: usize, paint: Paint) -> String {
        let mut left = width;
        let mut out = String::new();
        for (style, text) in &self.0 {
            let text = escape::shorten(text, left);
            left -= text.chars().count();
            let code = match style {
                Style::Plain => "",
                Style::Bold => "1",
                Style::Dim => "2",
                Style::Accent => "36",
                Style::Good => "32",
                Style::Bad => "1;31",
            };
            match paint.0 && !code.is_empty() && !text.is_empty() {
                true => out.push_str(&format!("\x1b[{code}m{text}\x1b[0m")),
                false => out.push_str(&text),
            }
        }
        out
    }
}
