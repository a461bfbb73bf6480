//! The campaign's event stream: console, store, JSON and web consume it and nothing else.

use serde::{Deserialize, Serialize};

use crate::bug::{Bug, Outcome, Verdict};
use crate::event::Event;
use crate::history::Baseline;
use crate::plan::{Contexts, Plan};

/// What a campaign was asked to do: stored first, read by `resume`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignSpec {
    pub format: u32,
    /// `name@version`.
    pub target: String,
    /// Where the target lies, when it was given by its folder and not by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_dir: Option<String>,
    /// One of the target's workloads; its default when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// How many nodes; the target's choice when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    pub policy: String,
    pub seed: u64,
    pub trials: u64,
    /// Wall-clock limit in seconds; 0 is none.
    pub budget_s: u64,
    /// Trials side by side; 0: as many as the machine has time for.
    pub jobs: u32,
    pub warp: WarpSpec,
    /// How trials of the search begin.
    #[serde(default)]
    pub start: StartSpec,
    /// Inject only after clients began to work.
    #[serde(default)]
    pub working: bool,
    /// Kinds of faults to inject: `throw`, `delay`, `crash`.
    pub faults: Vec<String>,
    /// Length of an injected delay, virtual milliseconds; the policy's own when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// What counts as one state, for policies that go by states.
    #[serde(default)]
    pub level: StateLevel,
    /// What tells the contexts of a site apart, for policies that go by contexts.
    #[serde(default)]
    pub contexts: Contexts,
    /// Policies that choose lengths of delays try shorter and longer ones, too.
    #[serde(default)]
    pub sweep: bool,
    /// Regular expression on site names; empty takes all.
    pub sites: String,
    /// Also the entries of the JDK's own I/O methods.
    #[serde(default)]
    pub jdk_sites: bool,
    /// The agent is in clients, too: they can be hit like nodes, by their names.
    #[serde(default)]
    pub hook_clients: bool,
    /// Count the basic blocks that trials reach.
    #[serde(default)]
    pub coverage: bool,
    pub baselines: u32,
    /// Replays that confirm a bug, and of these on the real clock.
    pub confirm: u32,
    pub confirm_unwarped: u32,
    /// Replays that may go into making a bug's plan smaller.
    #[serde(default)]
    pub shrink: u32,
    /// What the folders of trials may take, in megabytes, before failing ones are thinned too.
    #[serde(default = "CampaignSpec::usual_keep_mb")]
    pub keep_mb: u64,
    /// The plan to run, for policy `replay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

impl CampaignSpec {
    pub const FORMAT: u32 = 1;
    /// Two gigabytes: some thousand failing trials of a usual target.
    pub const KEEP_MB: u64 = 2_000;
    /// Length of a delay where neither user nor policy chooses it, virtual milliseconds.
    pub const DELAY_MS: u64 = 60_000;

    fn usual_keep_mb() -> u64 {
        CampaignSpec::KEEP_MB
    }
}

/// What counts as one state, for policies that go by states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateLevel {
    /// An abstract state of a node.
    #[default]
    State,
    /// A site in an abstract state of a node.
    Operation,
}

/// How trials of the search begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartSpec {
    /// Each starts its own cluster.
    #[default]
    Cold,
    /// From a frozen cluster, where the machine can freeze one.
    Snapshot,
}

/// How fast virtual time runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarpSpec {
    Off,
    /// Baselines choose the largest factor that still passes.
    Auto,
    Factor(f64),
}

/// Why a trial is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    Baseline,
    Search,
    /// Replays that tell a bug from an accident.
    Confirm,
    /// Replays of smaller plans.
    Shrink,
}

/// What happens in a campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "campaign", rename_all = "kebab-case")]
pub enum CampaignEvent {
    Started {
        spec: CampaignSpec,
        store: String,
        sites: usize,
        /// What a resumed campaign had come to before.
        #[serde(default)]
        before: Tally,
        /// The bugs it had confirmed.
        #[serde(default)]
        bugs: u64,
    },
    /// A line for people: what is going on.
    Note {
        text: String,
    },
    BaselineDone {
        baseline: Baseline,
    },
    TrialStarted {
        trial: u64,
        purpose: Purpose,
        plan: Plan,
    },
    /// An event of a running trial, as it is linearised.
    Trial {
        trial: u64,
        event: Event,
    },
    TrialDone {
        trial: u64,
        purpose: Purpose,
        plan: Plan,
        outcome: Outcome,
        /// Seconds from the beginning of this session's search; none for clean runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_s: Option<f64>,
    },
    /// A failing trial could not be made to fail again often enough.
    NotConfirmed {
        trial: u64,
        signature: String,
        times: u32,
        of: u32,
    },
    BugFound {
        bug: Bug,
    },
    /// The same bug again, in another trial.
    BugSeen {
        id: String,
        trial: u64,
    },
    Finished {
        summary: Summary,
    },
}

/// Trials of the search, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub trials: u64,
    /// Trials in which at least one fault fired.
    pub fired: u64,
    /// Trials in which a planned fault was never reached.
    pub unreached: u64,
    /// Trials without a verdict.
    pub unknown: u64,
}

impl Tally {
    pub fn count(&mut self, outcome: &Outcome) {
        self.trials += 1;
        self.fired += u64::from(!outcome.fired.is_empty());
        self.unreached += u64::from(!outcome.unreached.is_empty());
        self.unknown += u64::from(outcome.verdict == Verdict::Unknown);
    }
}

/// What a campaign came to: the object that `--json` ends with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub target: String,
    pub policy: String,
    pub seed: u64,
    pub store: String,
    pub trials: u64,
    /// Trials in which at least one fault fired.
    pub fired: u64,
    /// Trials in which a planned fault was never reached.
    pub unreached: u64,
    /// Trials without a verdict.
    pub unknown: u64,
    /// Failing trials that replays did not confirm.
    pub unconfirmed: u64,
    pub bugs: Vec<BugLine>,
    pub seconds: f64,
    /// Of these, the search and what it confirmed, without clean runs.
    #[serde(default)]
    pub search_seconds: f64,
    /// Basic blocks reached in any trial, of all; only with coverage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered: Option<(u64, u64)>,
    /// How trials of the search began, and what they took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartLine>,
    /// Ended by the user or the budget before all trials were run.
    pub interrupted: bool,
}

/// Trials of the search that began in one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StartLine {
    /// `cold`, or the point at which the cluster was frozen.
    pub from: String,
    pub trials: u64,
    /// Of all of them together, as all that follows.
    pub seconds: f64,
    /// Processor time of nodes and clients.
    pub cpu_seconds: f64,
    /// Seconds in each part of a trial, in their order.
    pub parts: Vec<(String, f64)>,
}

/// A bug in a summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BugLine {
    pub id: String,
    pub signature: String,
    pub known: Option<String>,
    pub title: String,
    pub plan: Plan,
    /// Path of the report, from where the campaign was started.
    pub report: String,
    /// The command that shows it again.
    pub replay: String,
    pub confirmed: String,
}

/// Consumes the stream.
pub trait EventSink: Send {
    fn event(&mut self, event: &CampaignEvent);
}
