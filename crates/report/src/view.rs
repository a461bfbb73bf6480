//! What the reports show, gathered from the store: one bug with its trial, one campaign.

use std::path::Path;

use temblor_model::bug::{Bug, Confirmation, Outcome, Verdict};
use temblor_model::campaign::{CampaignEvent, CampaignSpec, Purpose, Summary};
use temblor_model::event::{Event, What};
use temblor_model::history::Baseline;
use temblor_model::plan::{Plan, Step, Trigger};

use crate::escape;
use crate::store::{Store, StoreError};

/// Trials of a bug that are looked at for one to show.
const TRIALS_TRIED: usize = 64;

/// The command that shows a bug again. The id is enough where the store is the default one.
pub fn replay_command(campaign: &Path, id: &str) -> String {
    let root = campaign.parent().and_then(Path::parent);
    if root == Some(Path::new("store")) {
        return format!("./temblor replay {}", escape::shell(id));
    }
    let bug = campaign.join("bugs").join(id);
    format!(
        "./temblor replay {}",
        escape::shell(&bug.display().to_string())
    )
}

/// A bug and the trial that shows it.
#[derive(Clone, Debug)]
pub struct BugView {
    pub bug: Bug,
    pub spec: CampaignSpec,
    /// The trial shown; 0 and no events where none was stored.
    pub trial: u64,
    pub warp: f64,
    pub events: Vec<Event>,
    pub evidence: Vec<Evidence>,
    pub replay: String,
    /// What nearly all operations of clean runs at this speed end within, real milliseconds.
    pub usual_op_ms: Option<u64>,
}

/// A fault that fired, with all that is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    pub step: u32,
    pub at_us: u64,
    pub fault: String,
    /// Empty for faults the lab executes, as are site, thread and frames.
    pub node: String,
    pub site: String,
    pub thread: String,
    pub frames: Vec<String>,
    /// What the lab said of its own fault.
    pub result: String,
}

impl BugView {
    /// Gathers a bug's view from the store. The trial shown is the first that ran exactly the
    /// bug's plan, which after shrinking need not be the one that found it.
    pub fn gather(store: &Store, bug: &Bug) -> Result<BugView, StoreError> {
        let mut shown = None;
        for trial in bug.trials.iter().take(TRIALS_TRIED) {
            let Ok(Some((plan, outcome))) = store.trial(*trial) else {
                continue;
            };
            let same = plan == bug.plan;
            if same || shown.is_none() {
                shown = Some((*trial, outcome.warp));
            }
            if same {
                break;
            }
        }
        let (trial, warp) = shown.unwrap_or((bug.trials.first().copied().unwrap_or(0), 1.0));
        let events = store.events(trial)?.values;
        let view = BugView::new(
            bug.clone(),
            store.spec().clone(),
            trial,
            warp,
            events,
            replay_command(store.path(), &bug.id),
        );
        // A trial on another clock has another usual time; that one is not stored.
        let usual = store.baseline()?.filter(|b| b.warp == view.warp);
        Ok(BugView {
            usual_op_ms: usual.map(|b| b.op_ms).filter(|ms| *ms > 0),
            ..view
        })
    }

    pub fn new(
        bug: Bug,
        spec: CampaignSpec,
        trial: u64,
        warp: f64,
        mut events: Vec<Event>,
        replay: String,
    ) -> BugView {
        events.sort_by_key(|e| e.at_us);
        let evidence = evidence(&bug, &events);
        BugView {
            bug,
            spec,
            trial,
            warp: if warp > 0.0 { warp } else { 1.0 },
            events,
            evidence,
            replay,
            usual_op_ms: None,
        }
    }

    /// When the first fault fired, if one did.
    pub fn fault_at_us(&self) -> Option<u64> {
        self.evidence.iter().map(|e| e.at_us).min()
    }

    /// How well the bug is confirmed, as a sentence.
    pub fn confirmation(&self) -> String {
        confirmation(self.bug.confirmed)
    }
}

/// How often replays showed a bug, as a sentence.
pub fn confirmation(c: Confirmation) -> String {
    if c.of == 0 && c.unwarped_of == 0 {
        return "No replay was made.".into();
    }
    let mut text = format!("Replays showed it {} of {} times", c.times, c.of);
    if c.unwarped_of > 0 {
        text.push_str(&format!(
            ", on the real clock {} of {}",
            c.unwarped_times, c.unwarped_of
        ));
    }
    text.push('.');
    text
}

impl Evidence {
    /// The fault with its place, short.
    pub fn words(&self) -> String {
        self.placed(simple_exception(&self.fault))
    }

    /// The fault as part of a sentence.
    pub(crate) fn phrase(&self) -> String {
        let fault = simple_exception(&self.fault);
        let phrase = match fault.split_once(' ') {
            Some(("throw", name)) => format!("an injected {name}"),
            Some(("delay", amount)) => format!("a delay of {amount}"),
            None if fault == "crash" => "a crash".into(),
            _ => format!("“{fault}”"),
        };
        self.placed(phrase)
    }

    fn placed(&self, fault: String) -> String {
        match (self.node.as_str(), self.site.as_str()) {
            ("", _) => fault,
            (node, "") => format!("{fault} on {node}"),
            (node, site) => format!("{fault} on {node} at {}", short_site(site)),
        }
    }
}

fn evidence(bug: &Bug, events: &[Event]) -> Vec<Evidence> {
    let site_of = |step: u32| {
        let fired = bug
            .fired
            .iter()
            .find(|f| f.step == step && !f.site.is_empty());
        fired.map_or(String::new(), |f| f.site.clone())
    };
    let seen = events.iter().filter_map(|event| match &event.what {
        What::Fired {
            step,
            node,
            fault,
            thread,
            frames,
            ..
        } => Some(Evidence {
            step: *step,
            at_us: event.at_us,
            fault: fault.clone(),
            node: node.clone(),
            site: site_of(*step),
            thread: thread.clone(),
            frames: frames.clone(),
            result: String::new(),
        }),
        What::LabFault {
            step,
            fault,
            result,
        } => Some(Evidence {
            step: *step,
            at_us: event.at_us,
            fault: fault.clone(),
            node: String::new(),
            site: String::new(),
            thread: String::new(),
            frames: Vec::new(),
            result: result.clone(),
        }),
        _ => None,
    });
    let seen: Vec<Evidence> = seen.collect();
    if !seen.is_empty() {
        return seen;
    }
    // The events are gone or torn; the bug itself still tells what fired.
    let told = bug.fired.iter().map(|f| Evidence {
        step: f.step,
        at_us: f.at_us,
        fault: f.fault.clone(),
        node: f.node.clone(),
        site: f.site.clone(),
        thread: String::new(),
        frames: Vec::new(),
        result: String::new(),
    });
    told.collect()
}

/// `pkg.Class.method(Params)>pkg.Callee.method#k` as `Class.method > Callee.method`.
pub fn short_site(site: &str) -> String {
    // The first `>` may belong to the name of a constructor: `a.B.<init>(int)>c.D.m`.
    let (_, callee) = site.split_once(")>").unwrap_or((site, ""));
    let caller = site_caller(site);
    let callee = callee.split('#').next().unwrap_or(callee);
    match callee {
        "" => last_two(caller),
        callee => format!("{} > {}", last_two(caller), last_two(callee)),
    }
}

/// The class that holds a site, with dots.
pub fn site_class(site: &str) -> String {
    let name = site_caller(site);
    name.rsplit_once('.')
        .map_or(name, |(class, _)| class)
        .to_owned()
}

/// The method that holds a site, without parameters.
pub(crate) fn site_method(site: &str) -> String {
    let name = site_caller(site);
    name.rsplit_once('.')
        .map_or("", |(_, method)| method)
        .to_owned()
}

fn site_caller(site: &str) -> &str {
    site.split('(').next().unwrap_or(site)
}

fn last_two(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    parts[parts.len().saturating_sub(2)..].join(".")
}

/// `throw java.io.IOException` as `throw IOException`.
pub(crate) fn simple_exception(fault: &str) -> String {
    match fault.strip_prefix("throw ") {
        Some(name) => format!("throw {}", name.rsplit('.').next().unwrap_or(name)),
        None => fault.to_owned(),
    }
}

/// A plan with short names and without context hashes, for tables and narrow lines.
pub fn short_plan(plan: &Plan) -> String {
    if plan.steps.is_empty() {
        return plan.to_string();
    }
    let step = |step: &Step| {
        let fault = simple_exception(&step.fault.to_string());
        match &step.when {
            Trigger::Hit {
                site, node, nth, ..
            } => {
                let node = node.as_ref().map_or(String::new(), |n| format!(" on {n}"));
                let nth = match nth {
                    0 | 1 => String::new(),
                    n => format!(", hit {n}"),
                };
                format!("{fault} at {}{node}{nth}", short_site(site))
            }
            when @ Trigger::After { .. } => format!("{fault} {when}"),
            when => format!("{fault} at {when}"),
        }
    };
    let steps: Vec<String> = plan.steps.iter().map(step).collect();
    steps.join("; ")
}

/// Microseconds as seconds, with the digits that matter.
pub fn seconds(us: u64) -> String {
    match us {
        0..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", us / 1000),
        1_000_000..10_000_000 => format!("{:.2} s", us as f64 / 1e6),
        10_000_000..120_000_000 => format!("{:.1} s", us as f64 / 1e6),
        _ => span(us / 1_000_000),
    }
}

/// Whole seconds for people: `42 s`, `3 min 5 s`, `2 h 10 min`.
pub fn span(s: u64) -> String {
    match s {
        0..60 => format!("{s} s"),
        60..3600 if s.is_multiple_of(60) => format!("{} min", s / 60),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

/// A campaign as its summary page shows it.
#[derive(Clone, Debug)]
pub struct CampaignView {
    pub spec: CampaignSpec,
    pub store: String,
    pub trials: Vec<TrialLine>,
    pub bugs: Vec<(Bug, String)>,
    /// Half-written trials and why.
    pub torn: Vec<(String, String)>,
    pub summary: Summary,
    /// The campaign has not ended, or was killed.
    pub unfinished: bool,
    /// How long all its sessions took together; not known where one was killed.
    pub session_seconds: Option<f64>,
    pub baseline: Option<Baseline>,
}

/// One finished trial.
#[derive(Clone, Debug)]
pub struct TrialLine {
    pub trial: u64,
    pub purpose: Purpose,
    pub plan: Plan,
    pub outcome: Outcome,
    /// Ids of the bugs it showed.
    pub bugs: Vec<String>,
}

impl CampaignView {
    pub fn gather(store: &Store) -> Result<CampaignView, StoreError> {
        let trials = store.trials()?;
        let purposes = store.purposes()?;
        let bugs = store.bugs()?;
        let line = |(trial, (plan, outcome)): (u64, (Plan, Outcome))| TrialLine {
            trial,
            purpose: purposes.get(&trial).copied().unwrap_or(Purpose::Search),
            plan,
            outcome,
            bugs: ids_of(&bugs, trial),
        };
        let lines: Vec<TrialLine> = trials.done.into_iter().map(line).collect();
        let sessions = Sessions::read(store)?;
        let unfinished = sessions.last.is_none();
        let session_seconds = sessions.seconds();
        let summary = sessions.last.unwrap_or_else(|| counted(store, &lines));
        let replay = |bug: Bug| {
            let command = replay_command(store.path(), &bug.id);
            (bug, command)
        };
        Ok(CampaignView {
            spec: store.spec().clone(),
            store: store.path().display().to_string(),
            trials: lines,
            bugs: bugs.into_iter().map(replay).collect(),
            torn: trials.torn,
            summary,
            unfinished,
            session_seconds,
            baseline: store.baseline()?,
        })
    }
}

fn ids_of(bugs: &[Bug], trial: u64) -> Vec<String> {
    let showing = bugs.iter().filter(|b| b.trials.contains(&trial));
    showing.map(|b| b.id.clone()).collect()
}

/// The runs of one campaign: the first, and one for each time it was resumed.
#[derive(Default)]
struct Sessions {
    started: u64,
    finished: u64,
    seconds: f64,
    /// What the last one came to. A resumed campaign is unfinished until it says otherwise.
    last: Option<Summary>,
}

impl Sessions {
    fn read(store: &Store) -> Result<Sessions, StoreError> {
        let mut sessions = Sessions::default();
        for event in store.campaign_events()?.values {
            match event {
                CampaignEvent::Started { .. } => {
                    sessions.started += 1;
                    sessions.last = None;
                }
                CampaignEvent::Finished { summary } => {
                    sessions.finished += 1;
                    sessions.seconds += summary.seconds;
                    sessions.last = Some(summary);
                }
                _ => {}
            }
        }
        Ok(sessions)
    }

    fn seconds(&self) -> Option<f64> {
        let whole = self.started == self.finished && self.seconds > 0.0;
        whole.then_some(self.seconds)
    }
}

/// The counts of a campaign that did not come to say them itself.
fn counted(store: &Store, lines: &[TrialLine]) -> Summary {
    let search = || lines.iter().filter(|l| l.purpose == Purpose::Search);
    let count = |keep: fn(&Outcome) -> bool| search().filter(|l| keep(&l.outcome)).count() as u64;
    Summary {
        target: store.spec().target.clone(),
        policy: store.spec().policy.clone(),
        seed: store.spec().seed,
        store: store.path().display().to_string(),
        trials: search().count() as u64,
        fired: count(|o| !o.fired.is_empty()),
        unreached: count(|o| !o.unreached.is_empty()),
        unknown: count(|o| o.verdict == Verdict::Unknown),
        seconds: lines.iter().map(|l| l.outcome.seconds).sum(),
        search_seconds: 0.0,
        starts: Vec::new(),
        interrupted: true,
        ..Summary::default()
    }
}
