//! Plans: the ordered injections of one trial, as data that prints, stores and replays.

use serde::{Deserialize, Serialize};

/// What one trial does. A plan without steps is a clean run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    #[serde(default = "Plan::format")]
    pub format: u32,
    /// Seeds everything random in the trial.
    #[serde(default)]
    pub seed: u64,
    /// How much of its work the workload does, in percent, where the target's can do less.
    #[serde(
        default = "Plan::whole_load",
        skip_serializing_if = "Plan::is_whole_load"
    )]
    pub load: u8,
    /// Its steps wait until clients begin to work: hits before that are not counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub working: bool,
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
}

/// One fault and the condition it waits for. Steps fire strictly in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub when: Trigger,
    pub fault: Fault,
}

/// When a step fires. The agent evaluates all but `After` locally, at each hit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Trigger {
    /// The `nth` matching hit since the step became the current one (1 is the next).
    Hit {
        site: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// Context: hash of the stack, in hex.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stack: Option<String>,
        /// Abstract state of the task that hits, by its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<String>,
        #[serde(default = "one")]
        nth: u32,
    },
    /// Any site; each hit with this probability, drawn from the plan's seed.
    Random {
        rate: f64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
    },
    /// Any site while the task that hits is in this abstract state; each hit with this
    /// probability, drawn from the plan's seed.
    InState {
        /// Its name; none stands for what runs outside all tasks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// Only hits of this site.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        site: Option<String>,
        rate: f64,
    },
    /// The first hit in an abstract state of a node that is not among `known`.
    NewState {
        /// Names made by [`crate::visit::state_name`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        known: Vec<String>,
        /// Of the new ones, in the order in which the trial comes to them (1 is the first).
        #[serde(default = "one", skip_serializing_if = "is_one")]
        nth: u32,
    },
    /// The first hit in a context that is not among `known`.
    NewContext {
        /// Names made by [`crate::visit::context_name`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        known: Vec<String>,
        /// Of the new ones, in the order in which the trial comes to them (1 is the first).
        #[serde(default = "one", skip_serializing_if = "is_one")]
        nth: u32,
        #[serde(default, skip_serializing_if = "Among::is_all")]
        among: Among,
        #[serde(default, skip_serializing_if = "Contexts::is_stack")]
        by: Contexts,
    },
    /// The first hit so soon after an access of data about nodes that is not among `known`.
    AfterAccess {
        /// Real milliseconds.
        within_ms: u64,
        /// Ids of accesses in the catalog.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        known: Vec<u32>,
        /// Of the new ones, in the order in which the trial comes to them (1 is the first).
        #[serde(default = "one", skip_serializing_if = "is_one")]
        nth: u32,
    },
    /// The next hit of one of these sites, of those where no step has fired yet.
    AnyOf { sites: Vec<String> },
    /// The lab is asked at each hit and decides.
    Ask {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        site: Option<String>,
    },
    /// This many virtual milliseconds after the previous step fired (or the workload began).
    After { ms: u64 },
}

fn one() -> u32 {
    1
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

/// What tells the contexts of a site apart, the coarsest first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u32)]
pub enum Contexts {
    /// Nothing: a site is one context.
    Site = 1,
    /// The abstract state of the task that hits.
    State = 2,
    #[default]
    Stack = 3,
    /// Stack and node.
    Node = 4,
}

impl Contexts {
    pub const ALL: [Contexts; 4] = [
        Contexts::Site,
        Contexts::State,
        Contexts::Stack,
        Contexts::Node,
    ];

    pub fn from_u32(value: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|by| *by as u32 == value)
    }

    fn is_stack(&self) -> bool {
        *self == Contexts::Stack
    }
}

/// Which sites a trigger looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Among {
    #[default]
    All,
    /// I/O that others wait for, or that a timeout protects.
    Guarded,
    /// Of these, the last one of each basic block.
    Groups,
    /// I/O that a timeout protects.
    Timed,
}

impl Among {
    fn is_all(&self) -> bool {
        *self == Among::All
    }
}

/// A delay that looks like for ever to whoever waits (Sieve §4.4), virtual milliseconds; those that
/// go by a timeout are no longer.
pub const FOR_EVER_MS: u64 = 300_000;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// The call at the site raises this exception instead of being made.
    Throw { exception: String },
    /// The call is made this many virtual milliseconds later.
    Delay { ms: u64 },
    /// The node that hits dies at once, as by `kill -9`.
    Crash,
    /// One of the faults the catalog lists for the site that is hit, drawn from the seed.
    Any,
    /// A delay as long as the site's guard makes it interesting; none where nothing guards it.
    SiteDelay {
        /// Where others wait for the site, virtual milliseconds; none: these are not delayed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sync_ms: Option<u64>,
        /// Else, where a timeout protects it, percent of what that was in clean runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_percent: Option<u32>,
    },
    /// The lab starts a node again; `*` is every node that is down.
    Restart { node: String },
    /// The lab freezes a node's processes for this many virtual milliseconds.
    Pause { node: String, ms: u64 },
    /// The lab cuts the network between the groups.
    Partition { groups: Vec<Vec<String>> },
    /// The lab mends the network.
    Heal,
    /// The lab makes the disk of the node that hits this much slower, once, below the program.
    SlowDisk { ms: u64, way: DiskWay },
    /// The lab holds what the node that hits sends, or is sent, for so long, below the program.
    SlowNet { ms: u64, way: NetWay },
    /// The lab damages bytes of a node's files.
    Corrupt {
        node: String,
        /// Glob relative to the node's folder; the newest match is damaged.
        file: String,
        #[serde(default)]
        offset: u64,
        #[serde(default = "one")]
        bytes: u32,
    },
}

/// What a slow disk does slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskWay {
    Read,
    Write,
    /// Opening, syncing, renaming, removing.
    Control,
}

/// In which direction a network is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetWay {
    In,
    Out,
}

impl Fault {
    /// Executed by the lab, not inside the target.
    pub fn is_lab(&self) -> bool {
        !matches!(
            self,
            Fault::Throw { .. }
                | Fault::Delay { .. }
                | Fault::Crash
                | Fault::Any
                | Fault::SiteDelay { .. }
        )
    }

    /// Which fault it is depends on the site that is hit.
    pub fn is_chosen_by_site(&self) -> bool {
        matches!(self, Fault::Any | Fault::SiteDelay { .. })
    }

    /// The fault behind the words that events have for what an agent did: the inverse of its
    /// `Display`, for those that need no more than these words.
    pub fn from_text(text: &str) -> Option<Fault> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["throw", exception] => Some(Fault::Throw {
                exception: (*exception).into(),
            }),
            ["delay", seconds, "s"] => {
                let seconds: f64 = seconds.parse().ok()?;
                let ms = (seconds * 1_000.0).round();
                (0.0..1e15)
                    .contains(&ms)
                    .then_some(Fault::Delay { ms: ms as u64 })
            }
            ["crash"] => Some(Fault::Crash),
            _ => None,
        }
    }

    /// For how long an operation of the node that hits is held back, virtual milliseconds: in the
    /// program or below it.
    pub fn delay_ms(&self) -> Option<u64> {
        match self {
            Fault::Delay { ms } | Fault::SlowDisk { ms, .. } | Fault::SlowNet { ms, .. } => {
                Some(*ms)
            }
            _ => None,
        }
    }

    /// Short and stable, for signatures and tables: the fault without its amounts.
    pub fn label(&self) -> String {
        match self {
            Fault::Throw { exception } => {
                format!(
                    "throw {}",
                    exception.rsplit('.').next().unwrap_or(exception)
                )
            }
            Fault::Delay { .. } => "delay".into(),
            Fault::Crash => "crash".into(),
            Fault::Any => "any".into(),
            Fault::SiteDelay { .. } => "delay".into(),
            Fault::Restart { .. } => "restart".into(),
            Fault::Pause { .. } => "pause".into(),
            Fault::Partition { .. } => "partition".into(),
            Fault::Heal => "heal".into(),
            Fault::SlowDisk { .. } => "slow-disk".into(),
            Fault::SlowNet { .. } => "slow-net".into(),
            Fault::Corrupt { .. } => "corrupt".into(),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Throw { exception } => write!(f, "throw {exception}"),
            Fault::Delay { ms } => write!(f, "delay {} s", *ms as f64 / 1000.0),
            Fault::Crash => write!(f, "crash"),
            Fault::Any => write!(f, "any fault of the site"),
            Fault::SiteDelay {
                sync_ms,
                timeout_percent,
            } => {
                let sync = sync_ms.map(|ms| format!("{} s where others wait", ms as f64 / 1000.0));
                let timeout = timeout_percent.map(|p| format!("{p} % of the site's timeout"));
                let ways: Vec<String> = sync.into_iter().chain(timeout).collect();
                write!(f, "delay {}", ways.join(", else "))
            }
            Fault::Restart { node } => write!(f, "restart {node}"),
            Fault::Pause { node, ms } => write!(f, "pause {node} {} s", *ms as f64 / 1000.0),
            Fault::Partition { groups } => {
                let sides: Vec<String> = groups.iter().map(|g| g.join(",")).collect();
                write!(f, "partition {}", sides.join(" | "))
            }
            Fault::Heal => write!(f, "heal the network"),
            Fault::SlowDisk { ms, way } => {
                write!(f, "slow-disk {} s, {way:?}", *ms as f64 / 1000.0)
            }
            Fault::SlowNet { ms, way } => {
                write!(f, "slow-net {} s, {way:?}", *ms as f64 / 1000.0)
            }
            Fault::Corrupt {
                node,
                file,
                offset,
                bytes,
            } => {
                write!(f, "corrupt {bytes} byte(s) of {node}:{file} at {offset}")
            }
        }
    }
}

impl std::fmt::Display for Trigger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trigger::Hit {
                site,
                node,
                stack,
                state,
                nth,
            } => {
                write!(f, "{site}")?;
                if let Some(node) = node {
                    write!(f, " on {node}")?;
                }
                if let Some(stack) = stack {
                    write!(f, " in context {stack}")?;
                }
                if let Some(state) = state {
                    write!(f, " in state {state}")?;
                }
                if *nth > 1 {
                    write!(f, ", hit {nth}")
                } else {
                    Ok(())
                }
            }
            Trigger::Random { rate, .. } => write!(f, "any hit with probability {rate}"),
            Trigger::InState {
                state,
                node,
                site,
                rate,
            } => {
                let state = state.as_deref().unwrap_or("outside all tasks");
                write!(f, "a hit in state {state}")?;
                if let Some(node) = node {
                    write!(f, " on {node}")?;
                }
                if let Some(site) = site {
                    write!(f, " of {site}")?;
                }
                write!(f, " with probability {rate:.3}")
            }
            Trigger::NewState { .. } => write!(f, "the first hit in a new state"),
            Trigger::NewContext { .. } => write!(f, "the first hit in a new context"),
            Trigger::AfterAccess { within_ms, .. } => write!(
                f,
                "the first hit within {within_ms} ms of a new access of data about nodes"
            ),
            Trigger::AnyOf { sites } => write!(f, "the next hit of one of {} sites", sites.len()),
            Trigger::Ask { .. } => write!(f, "when the lab says so"),
            Trigger::After { ms } => write!(f, "{} s later", *ms as f64 / 1000.0),
        }
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.steps.is_empty() {
            return write!(f, "no fault");
        }
        for (i, step) in self.steps.iter().enumerate() {
            let comma = if i > 0 { "; " } else { "" };
            write!(f, "{comma}{} at {}", step.fault, step.when)?;
        }
        match self.load {
            100 => Ok(()),
            load => write!(f, "; {load} % of the workload"),
        }
    }
}

impl Trigger {
    /// The agent chooses where it fires, among all hits.
    pub fn is_online(&self) -> bool {
        !matches!(
            self,
            Trigger::Hit { .. } | Trigger::After { .. } | Trigger::Ask { .. }
        )
    }
}

impl Plan {
    pub const FORMAT: u32 = 1;

    fn format() -> u32 {
        Self::FORMAT
    }

    fn whole_load() -> u8 {
        100
    }

    fn is_whole_load(load: &u8) -> bool {
        *load == Self::whole_load()
    }

    /// A run without faults.
    pub fn clean() -> Plan {
        Plan {
            format: Self::FORMAT,
            seed: 0,
            load: Self::whole_load(),
            working: false,
            steps: Vec::new(),
        }
    }

    pub fn single(seed: u64, when: Trigger, fault: Fault) -> Plan {
        Plan {
            format: Self::FORMAT,
            seed,
            load: Self::whole_load(),
            working: false,
            steps: vec![Step { when, fault }],
        }
    }

    /// Some step looks at abstract states.
    pub fn needs_states(&self) -> bool {
        let looks = |s: &Step| match &s.when {
            Trigger::Hit { state, .. } => state.is_some(),
            when => when.is_online(),
        };
        self.steps.iter().any(looks)
    }

    /// Virtual milliseconds the plan itself may add to a trial.
    pub fn added_ms(&self) -> u64 {
        let step = |s: &Step| {
            let wait = if let Trigger::After { ms } = s.when {
                ms
            } else {
                0
            };
            match s.fault {
                Fault::SiteDelay { sync_ms, .. } => wait + sync_ms.unwrap_or(FOR_EVER_MS),
                Fault::Delay { ms }
                | Fault::Pause { ms, .. }
                | Fault::SlowDisk { ms, .. }
                | Fault::SlowNet { ms, .. } => wait + ms,
                _ => wait,
            }
        };
        self.steps.iter().map(step).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_toml() {
        let text = r#"
            seed = 7
            [[step]]
            when = { at = "hit", site = "a.B.c()>d.E.f#0", node = "n2", nth = 3 }
            fault = { kind = "throw", exception = "java.io.IOException" }
            [[step]]
            when = { at = "after", ms = 3000 }
            fault = { kind = "partition", groups = [["n1"], ["n2", "n3"]] }
        "#;
        let plan: Plan = toml::from_str(text).unwrap();
        assert_eq!(plan.steps.len(), 2);
        let again: Plan = toml::from_str(&toml::to_string(&plan).unwrap()).unwrap();
        assert_eq!(plan, again);
        assert_eq!(plan.added_ms(), 3000);
    }

    #[test]
    fn what_an_agent_did_is_read_from_its_words() {
        let throw = Fault::Throw {
            exception: "x.Rare".into(),
        };
        let delays = [0, 1, 57, 290, 569, 570, 1_001, 300_000].map(|ms| Fault::Delay { ms });
        for fault in delays.into_iter().chain([throw, Fault::Crash]) {
            assert_eq!(Fault::from_text(&fault.to_string()), Some(fault));
        }
        let open = Fault::SiteDelay {
            sync_ms: Some(5),
            timeout_percent: Some(150),
        };
        for fault in [Fault::Any, Fault::Heal, open] {
            assert_eq!(Fault::from_text(&fault.to_string()), None);
        }
        for text in ["", "delay", "delay s", "delay -1 s", "delay NaN s", "throw"] {
            assert_eq!(Fault::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let text =
            "[[step]]\nwhen = { at = \"after\", ms = 1, sec = 2 }\nfault = { kind = \"heal\" }";
        assert!(toml::from_str::<Plan>(text).is_err());
    }
}
