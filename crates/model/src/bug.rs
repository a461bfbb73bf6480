//! Verdicts, symptoms, outcomes and bugs.

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::visit::Visit;

/// What a checker, and then a trial, comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Pass,
    /// The checker could not tell.
    Unknown,
    Fail,
}

/// A kind of misbehaviour, with what of it is the same in each trial that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misbehaviour {
    /// An answer contradicts what the client knows. The contradiction counts, not which read
    /// noticed it.
    Wrong(String),
    /// What clients saw together contradicts what the system promises.
    Broken(String),
    /// A node ended by itself, or does not survive a restart.
    Death(String),
    /// Two nodes claim a role that only one may have.
    Rivals(String),
    /// A node takes itself for what it is not.
    Outsider(String),
    /// All goes on, but after far more time than that takes.
    Outage,
    /// All goes on, but much slower than before.
    Slow,
    /// Something that should go on does not. Whether this shows as an operation that never ends, as
    /// time-outs, as a node that never serves or as threads that wait for a lock, and in which
    /// phase, depends on the moment.
    Stuck {
        /// The method that holds the lock which others wait for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
        /// On which side of the fault; none where it is not one node that is stuck.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side: Option<Side>,
    },
    /// Only the log complains.
    Log(String),
    /// The same, and it is the thread that was hit that does.
    Reaction(String),
}

impl Misbehaviour {
    /// Something is stuck, on whichever side.
    pub const STUCK: Misbehaviour = Misbehaviour::stuck(None);

    pub const fn stuck(side: Option<Side>) -> Misbehaviour {
        Misbehaviour::Stuck { holder: None, side }
    }

    /// The kind, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Misbehaviour::Wrong(_) => "wrong",
            Misbehaviour::Broken(_) => "broken",
            Misbehaviour::Death(_) => "death",
            Misbehaviour::Rivals(_) => "rivals",
            Misbehaviour::Outsider(_) => "outsider",
            Misbehaviour::Outage => "outage",
            Misbehaviour::Slow => "slow",
            Misbehaviour::Stuck { .. } => "stuck",
            Misbehaviour::Log(_) | Misbehaviour::Reaction(_) => "log",
        }
    }

    /// What exactly, where that does not depend on the moment.
    pub fn essence(&self) -> &str {
        match self {
            Misbehaviour::Wrong(what)
            | Misbehaviour::Broken(what)
            | Misbehaviour::Death(what)
            | Misbehaviour::Rivals(what)
            | Misbehaviour::Outsider(what)
            | Misbehaviour::Log(what)
            | Misbehaviour::Reaction(what) => what,
            Misbehaviour::Outage | Misbehaviour::Slow | Misbehaviour::Stuck { .. } => "",
        }
    }
}

/// A node as seen from the faults: the same when the same happens on other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// A fault was injected in it.
    Faulted,
    /// Faults were injected in others.
    Other,
}

impl Side {
    /// The node, in words; not every fault is in a node.
    pub fn name(side: Option<Side>) -> &'static str {
        match side {
            Some(Side::Faulted) => "the faulted node",
            Some(Side::Other) => "another node",
            None => "a node",
        }
    }
}

/// Something a checker saw that should not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symptom {
    /// The checker's name.
    pub checker: String,
    pub shows: Misbehaviour,
    /// Normalised: the same words for the same misbehaviour in another trial.
    pub summary: String,
    /// For people: names, times, stacks.
    pub detail: Vec<String>,
    /// When it showed, real microseconds since the trial began.
    pub at_us: u64,
}

/// One checker's judgement of one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub checker: String,
    pub verdict: Verdict,
    pub symptoms: Vec<Symptom>,
    /// Why it is unknown, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A fault that fired: the evidence, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiredFault {
    pub step: u32,
    /// Empty for faults the lab executes.
    pub node: String,
    /// The site's name; empty for faults the lab executes.
    pub site: String,
    pub fault: String,
    pub stack: String,
    pub at_us: u64,
    /// Name of the abstract state of the task that was hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Which hit of this site, state and stack it was in its node, where these were counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nth: u32,
    /// The last method that an exception leaves on its way up: the one above handles it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of: Option<String>,
    /// The access of data about nodes that was just before, by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<u32>,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// How one trial ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub format: u32,
    pub trial: u64,
    pub verdict: Verdict,
    pub judgements: Vec<Judgement>,
    pub fired: Vec<FiredFault>,
    /// Steps of the plan that never fired.
    pub unreached: Vec<u32>,
    pub warp: f64,
    pub seconds: f64,
    /// Processor time its nodes and clients used.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// What the trial came by, where its plan left the choice to the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub visits: Vec<Visit>,
    /// The snapshot it went on from; none from a cold start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

impl Outcome {
    pub const FORMAT: u32 = 1;

    pub fn symptoms(&self) -> impl Iterator<Item = &Symptom> {
        self.judgements.iter().flat_map(|j| &j.symptoms)
    }
}

/// Failing trials with one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bug {
    pub format: u32,
    /// Short, stable for the same signature: the name of its folder.
    pub id: String,
    /// Injection and symptom: what makes it this bug and not another.
    pub signature: String,
    pub title: String,
    /// Id of the known bug it matches, if any.
    pub known: Option<String>,
    /// The smallest plan that shows it.
    pub plan: Plan,
    /// What shrinking came to; none where it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shrunk: Option<ShrunkFrom>,
    pub symptoms: Vec<Symptom>,
    pub fired: Vec<FiredFault>,
    /// Trials that showed it, the first one first.
    pub trials: Vec<u64>,
    pub confirmed: Confirmation,
    /// The same delay below the program; none where it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Below>,
}

/// Whether a bug found by a delay in the program shows with a slow disk or network too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Below {
    pub times: u32,
    pub of: u32,
    /// Replays in which the slow disk or network held anything at all.
    pub met: u32,
    /// Why it could not be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl std::fmt::Display for Below {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Below { times, of, met, .. } = self;
        match (&self.reason, *times, *met) {
            (Some(reason), _, _) => write!(f, "not tried below the program: {reason}"),
            (None, 0, 0) => write!(
                f,
                "below the program the delay met no operation in {of} replays: nobody can tell"
            ),
            (None, 0, met) => write!(
                f,
                "below the program the bug does not show: 0 of {of}, though something was held in \
                 {met}; the operation may not really block"
            ),
            (None, times, _) => write!(
                f,
                "shown {times} of {of} times with the delay below the program"
            ),
        }
    }
}

/// How a bug's plan became as small as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShrunkFrom {
    /// The plan of the trial that found the bug.
    pub plan: Plan,
    /// Replays of smaller plans.
    pub replays: u32,
    /// Nothing smaller shows the bug; else the replays were used up before that was known.
    pub minimal: bool,
}

/// How often replays showed the bug again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    pub times: u32,
    pub of: u32,
    /// Of these, replays on the real clock.
    pub unwarped_times: u32,
    pub unwarped_of: u32,
}
