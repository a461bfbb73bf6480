//! The events of a trial, linearised by the lab: the one truth that checkers and reports read.

use serde::{Deserialize, Serialize};

use crate::history::ClientRole;
use crate::op::{Done, Op};
use crate::site::SiteId;
use crate::visit::{Move, Visit};

/// Something that happened in a trial, in real microseconds since the trial began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub at_us: u64,
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    /// The trial began: who takes part.
    Began {
        nodes: Vec<String>,
        clients: Vec<ClientRole>,
        warp: f64,
        /// Roles that at most one node may have at a time.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        single_roles: Vec<String>,
        /// Roles, as logs have them, in which a node should serve.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        serving_roles: Vec<String>,
    },
    /// A stage of the trial began: see [`Stage`].
    Stage {
        stage: Stage,
    },
    NodeStarted {
        node: String,
        incarnation: u32,
        pid: u32,
    },
    NodeReady {
        node: String,
    },
    /// `injected`: a fault of the plan (or the lab's own stop) ended it.
    NodeExited {
        node: String,
        code: Option<i32>,
        signal: Option<i32>,
        injected: bool,
    },
    ClientStarted {
        client: String,
        pid: u32,
    },
    ClientExited {
        client: String,
        code: Option<i32>,
        signal: Option<i32>,
    },
    Op(Op),
    OpsDone(Done),
    /// A line of a client that is not what the protocol says.
    Garbage {
        client: String,
        line: String,
    },
    /// A recorded hit.
    Hit {
        node: String,
        site: SiteId,
        count: u32,
        stack: String,
        thread: String,
    },
    /// The frames behind a context hash, said once per process.
    Context {
        node: String,
        stack: String,
        frames: Vec<String>,
    },
    /// A fault was injected in a node: the evidence.
    Fired {
        step: u32,
        node: String,
        site: SiteId,
        count: u32,
        fault: String,
        stack: String,
        thread: String,
        frames: Vec<String>,
        /// Id of the abstract state of the task that was hit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<u32>,
        /// Which hit of this site, state and stack it was; 0 where they were not counted.
        #[serde(default)]
        nth: u32,
        /// The access of data about nodes that was just before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<u32>,
    },
    /// What a node's process came by, told once at the end.
    Visited {
        node: String,
        visits: Vec<Visit>,
    },
    /// How the tasks of a node's process went from state to state, told once at the end.
    Moved {
        node: String,
        moves: Vec<Move>,
    },
    /// The value that a timeout has, virtual milliseconds.
    Captured {
        node: String,
        timeout: u32,
        ms: u64,
    },
    /// The lab executed a fault of its own.
    LabFault {
        step: u32,
        fault: String,
        result: String,
    },
    /// A log line of a node with what followed it (stack traces).
    Log {
        node: String,
        level: String,
        logger: String,
        thread: String,
        message: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        more: Vec<String>,
    },
    /// A thread dump of a node.
    Dump {
        node: String,
        text: String,
    },
    /// What a node says of itself.
    Health {
        node: String,
        ok: bool,
        /// What it says it is, where the target has roles: `leader`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// It gave no answer at all; `answer` says how that was.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        silent: bool,
        answer: String,
    },
    /// What a node takes itself for, by its log: `LEADING`.
    Becomes {
        node: String,
        role: String,
    },
    /// The workload itself cuts a node off from the others for so long, virtual milliseconds.
    CutOff {
        node: String,
        ms: u64,
    },
    /// The workload did not end in time.
    Deadline {
        limit_ms: u64,
    },
    /// The agent or the lab has something to say: a class left alone, events dropped.
    Notice {
        source: String,
        text: String,
    },
}

/// The stages of a trial, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    Start,
    Workload,
    Heal,
    Recovery,
    /// Clients look at what is left, once all is healed.
    Finale,
    Stop,
}

impl Stage {
    pub fn name(self) -> &'static str {
        match self {
            Stage::Start => "start",
            Stage::Workload => "workload",
            Stage::Heal => "heal",
            Stage::Recovery => "recovery",
            Stage::Finale => "finale",
            Stage::Stop => "stop",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_json_object() {
        let line = r#"{"at_us":5,"event":"op","t":1,"client":"c1","node":"n1","phase":"write","op":"put","id":3,"ev":"invoke"}"#;
        let event: Event = serde_json::from_str(line).unwrap();
        assert!(matches!(&event.what, What::Op(op) if op.id == 3));
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
    }
}
