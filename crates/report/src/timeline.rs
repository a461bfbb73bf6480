//! A trial as a drawing needs it: lanes, operations, fault bands and marks, from its events.
//! Pure data; `timeline_svg` draws it.

use std::collections::BTreeMap;

use temblor_model::event::{Event, Stage, What};
use temblor_model::op::{Op, OpEvent};
use temblor_model::plan::{Fault, Plan};

use crate::view::BugView;

/// One trial, ready to be drawn. Times are real microseconds since the trial began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    pub from_us: u64,
    pub to_us: u64,
    pub stages: Vec<(u64, Stage)>,
    /// Nodes first, then clients, each by name.
    pub lanes: Vec<Lane>,
    pub faults: Vec<FaultMark>,
    pub symptoms: Vec<Mark>,
}

/// A node or a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    pub name: String,
    /// The node a client talks to; empty for nodes.
    pub talks_to: String,
    pub is_node: bool,
    pub bars: Vec<Bar>,
    pub bands: Vec<Band>,
    pub marks: Vec<Mark>,
    /// What a node said it was, in order.
    pub roles: Vec<RoleSpan>,
}

/// A time during which a node said it had a role.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleSpan {
    pub from_us: u64,
    pub to_us: u64,
    pub role: String,
    /// At most one node may have it at a time.
    pub single: bool,
}

/// An operation of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    pub from_us: u64,
    pub to_us: u64,
    pub end: OpEnd,
    pub text: String,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpEnd {
    Ok,
    Fail,
    Timeout,
    Wrong,
    /// It never did.
    Never,
}

impl OpEnd {
    pub fn name(self) -> &'static str {
        match self {
            OpEnd::Ok => "ok",
            OpEnd::Fail => "fail",
            OpEnd::Timeout => "timeout",
            OpEnd::Wrong => "wrong",
            OpEnd::Never => "never",
        }
    }
}

/// A time during which a node was not itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    pub from_us: u64,
    pub to_us: u64,
    pub kind: BandKind,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandKind {
    Starting,
    Delay,
    Pause,
    Down,
    Partition,
}

/// The moment a fault fired.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultMark {
    pub at_us: u64,
    /// Empty for the lab's own faults.
    pub node: String,
    pub label: String,
    pub text: String,
}

/// Something seen at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    pub at_us: u64,
    pub kind: MarkKind,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkKind {
    Warn,
    Error,
    /// The node itself says that it is not well.
    Unhealthy,
    Symptom,
}

/// Whether a log level is worth a mark, and which.
pub fn log_mark(level: &str) -> Option<MarkKind> {
    match level.to_ascii_uppercase().as_str() {
        "WARN" | "WARNING" => Some(MarkKind::Warn),
        "ERROR" | "SEVERE" | "FATAL" => Some(MarkKind::Error),
        _ => None,
    }
}

impl Timeline {
    pub fn of(view: &BugView) -> Timeline {
        let symptom = |s: &temblor_model::bug::Symptom| Mark {
            at_us: s.at_us,
            kind: MarkKind::Symptom,
            text: format!("{}: {}", s.checker, s.summary),
        };
        let mut timeline = Timeline {
            to_us: view.events.last().map_or(0, |e| e.at_us),
            symptoms: view.bug.symptoms.iter().map(symptom).collect(),
            ..Timeline::default()
        };
        let mut lanes = Lanes::default();
        for event in &view.events {
            if let What::Stage { stage } = event.what {
                timeline.stages.push((event.at_us, stage));
            }
            lanes.add(event);
        }
        timeline.stretch();
        lanes.close(timeline.to_us, timeline.stage_at(Stage::Stop));
        for fault in &view.evidence {
            timeline.faults.push(FaultMark {
                at_us: fault.at_us,
                node: fault.node.clone(),
                label: fault.words(),
                text: format!("step {}: {} {}", fault.step, fault.fault, fault.site),
            });
        }
        lanes.add_fault_bands(view, timeline.to_us, timeline.stage_at(Stage::Heal));
        timeline.lanes = lanes.sorted();
        timeline.skip_start();
        timeline
    }

    /// When a stage began, if it did.
    pub fn stage_at(&self, wanted: Stage) -> Option<u64> {
        let found = self.stages.iter().find(|(_, stage)| *stage == wanted);
        found.map(|(at, _)| *at)
    }

    /// Everything that is shown lies within the picture, which is never empty.
    fn stretch(&mut self) {
        let symptoms = self.symptoms.iter().map(|s| s.at_us);
        let last = symptoms.max().unwrap_or(0).max(self.to_us);
        self.to_us = last.max(1000);
    }

    /// The start of the cluster is left out where nothing happened in it.
    fn skip_start(&mut self) {
        let Some(workload) = self.stage_at(Stage::Workload) else {
            return;
        };
        let marks = self.lanes.iter().flat_map(|l| &l.marks);
        let first_mark = marks.map(|m| m.at_us).min();
        let faults = self.faults.iter().map(|f| f.at_us);
        let symptoms = self.symptoms.iter().map(|s| s.at_us);
        let first = faults.chain(symptoms).chain(first_mark).min();
        let lead = (self.to_us.saturating_sub(workload)) / 25;
        let first = first.unwrap_or(u64::MAX).min(workload);
        self.from_us = first.saturating_sub(lead);
    }
}

/// Lanes while events come in.
#[derive(Default)]
struct Lanes {
    lanes: BTreeMap<(bool, String), Lane>,
    open_ops: BTreeMap<(String, u64), (u64, Op)>,
    client_ends: BTreeMap<String, u64>,
    /// Since when a node is starting, or down.
    starting: BTreeMap<String, u64>,
    down: BTreeMap<String, (u64, String)>,
    /// The role each node has, and since when.
    roles: BTreeMap<String, (u64, String)>,
    single_roles: Vec<String>,
}

impl Lanes {
    fn lane(&mut self, is_node: bool, name: &str) -> &mut Lane {
        let lane = self.lanes.entry((!is_node, name.to_owned())).or_default();
        lane.is_node = is_node;
        if lane.name.is_empty() {
            lane.name = name.to_owned();
        }
        lane
    }

    fn add(&mut self, event: &Event) {
        let at = event.at_us;
        match &event.what {
            What::Began { single_roles, .. } => self.single_roles.clone_from(single_roles),
            What::NodeStarted { node, .. } => {
                self.lane(true, node);
                self.starting.insert(node.clone(), at);
                if let Some((since, text)) = self.down.remove(node) {
                    self.band(node, since, at, BandKind::Down, text);
                }
            }
            What::NodeReady { node } => {
                if let Some(since) = self.starting.remove(node) {
                    self.band(node, since, at, BandKind::Starting, "starting".into());
                }
            }
            What::NodeExited {
                node,
                code,
                signal,
                injected,
            } => {
                if let Some(since) = self.starting.remove(node) {
                    self.band(node, since, at, BandKind::Starting, "starting".into());
                }
                let text = exit_words(*code, *signal, *injected);
                self.end_role(node, at);
                // A node that is down stays down: the first exit tells why.
                self.down.entry(node.clone()).or_insert((at, text));
            }
            What::Op(op) => self.op(at, op),
            What::ClientStarted { client, .. } => {
                self.lane(false, client);
            }
            What::ClientExited { client, .. } => {
                self.client_ends.insert(client.clone(), at);
            }
            What::Log {
                node,
                level,
                message,
                ..
            } => {
                if let Some(kind) = log_mark(level) {
                    let text = format!("{level} {message}");
                    self.mark(
                        node,
                        Mark {
                            at_us: at,
                            kind,
                            text,
                        },
                    );
                }
            }
            What::Health {
                node,
                ok,
                role,
                answer,
                ..
            } => {
                if let Some(role) = role {
                    self.role(node, role, at);
                }
                if !ok {
                    let text = format!("says it is not healthy: {answer}");
                    let kind = MarkKind::Unhealthy;
                    self.mark(
                        node,
                        Mark {
                            at_us: at,
                            kind,
                            text,
                        },
                    );
                }
            }
            What::Fired { node, .. } => {
                self.lane(true, node);
            }
            _ => {}
        }
    }

    fn role(&mut self, node: &str, role: &str, at: u64) {
        if self.roles.get(node).is_some_and(|(_, had)| had == role) {
            return;
        }
        self.end_role(node, at);
        self.roles.insert(node.to_owned(), (at, role.to_owned()));
    }

    fn end_role(&mut self, node: &str, to_us: u64) {
        let Some((from_us, role)) = self.roles.remove(node) else {
            return;
        };
        let single = self.single_roles.contains(&role);
        self.lane(true, node).roles.push(RoleSpan {
            from_us,
            to_us,
            role,
            single,
        });
    }

    fn mark(&mut self, node: &str, mark: Mark) {
        self.lane(true, node).marks.push(mark);
    }

    fn band(&mut self, node: &str, from_us: u64, to_us: u64, kind: BandKind, text: String) {
        self.lane(true, node).bands.push(Band {
            from_us,
            to_us,
            kind,
            text,
        });
    }

    fn op(&mut self, at: u64, op: &Op) {
        let key = (op.client.clone(), op.id);
        let end = match op.ev {
            OpEvent::Invoke => {
                // Its own node comes first; later it may look at others.
                let lane = self.lane(false, &op.client);
                if lane.talks_to.is_empty() {
                    lane.talks_to = op.node.clone();
                }
                self.open_ops.insert(key, (at, op.clone()));
                return;
            }
            OpEvent::Ok => OpEnd::Ok,
            OpEvent::Fail => OpEnd::Fail,
            OpEvent::Timeout => OpEnd::Timeout,
            OpEvent::Wrong => OpEnd::Wrong,
        };
        // An end without a beginning still shows, as a moment.
        let (from, invoked) = self.open_ops.remove(&key).unwrap_or((at, op.clone()));
        let mut text = op_words(&invoked);
        text.push_str(&format!(": {}", end.name()));
        if let Some(value) = &op.value {
            text.push_str(&format!(" {value}"));
        }
        if let Some(error) = &op.error {
            text.push_str(&format!(" ({error})"));
        }
        self.lane(false, &op.client).bars.push(Bar {
            from_us: from,
            to_us: at,
            end,
            text,
        });
    }

    /// Ends what the trial left open.
    fn close(&mut self, to_us: u64, stop: Option<u64>) {
        for ((client, _), (from_us, op)) in std::mem::take(&mut self.open_ops) {
            let to_us = *self.client_ends.get(&client).unwrap_or(&to_us);
            let text = format!("{}: never ended", op_words(&op));
            self.lane(false, &client).bars.push(Bar {
                from_us,
                to_us: to_us.max(from_us),
                end: OpEnd::Never,
                text,
            });
        }
        for (node, since) in std::mem::take(&mut self.starting) {
            self.band(
                &node,
                since,
                to_us,
                BandKind::Starting,
                "never ready".into(),
            );
        }
        for (node, (since, text)) in std::mem::take(&mut self.down) {
            // Everything ends when the lab stops the trial: no news.
            if stop.is_none_or(|stop| since < stop) {
                self.band(&node, since, to_us, BandKind::Down, text);
            }
        }
        let with_role: Vec<String> = self.roles.keys().cloned().collect();
        for node in with_role {
            self.end_role(&node, to_us);
        }
        for lane in self.lanes.values_mut() {
            lane.bars.sort_by_key(|b| b.from_us);
        }
    }

    fn add_fault_bands(&mut self, view: &BugView, to_us: u64, heal: Option<u64>) {
        let real_us = |virtual_ms: u64| (virtual_ms as f64 * 1000.0 / view.warp) as u64;
        let mut cut: Option<(u64, String)> = None;
        for fault in &view.evidence {
            let from = fault.at_us;
            match fault_of(&view.bug.plan, fault.step, &fault.fault) {
                Some(Fault::Delay { ms }) if !fault.node.is_empty() => {
                    let to = (from + real_us(ms)).min(to_us);
                    self.band(&fault.node, from, to, BandKind::Delay, fault.fault.clone());
                }
                Some(Fault::Pause { node, ms }) => {
                    let to = (from + real_us(ms)).min(to_us);
                    self.band(&node, from, to, BandKind::Pause, fault.fault.clone());
                }
                Some(Fault::Partition { .. }) => cut = Some((from, fault.fault.clone())),
                Some(Fault::Heal) => self.partition(cut.take(), from),
                _ => {}
            }
        }
        // What no step mends, the lab mends when the faults are healed.
        self.partition(cut, heal.unwrap_or(to_us));
    }

    fn partition(&mut self, cut: Option<(u64, String)>, to_us: u64) {
        let Some((from_us, text)) = cut else { return };
        for lane in self.lanes.values_mut().filter(|l| l.is_node) {
            lane.bands.push(Band {
                from_us,
                to_us: to_us.max(from_us),
                kind: BandKind::Partition,
                text: text.clone(),
            });
        }
    }

    fn sorted(self) -> Vec<Lane> {
        self.lanes.into_values().collect()
    }
}

/// The fault that fired, with its amounts. A step with `any` fault drew it at run time: then its
/// words are all there is.
fn fault_of(plan: &Plan, step: u32, words: &str) -> Option<Fault> {
    let planned = plan.steps.get(step as usize).map(|s| s.fault.clone());
    match planned {
        Some(Fault::Any) | None => {
            let amount = words.strip_prefix("delay")?.trim();
            let (number, unit) = amount.split_once(' ').unwrap_or((amount, "s"));
            let number: f64 = number.parse().ok()?;
            let ms = if unit == "ms" { number } else { number * 1e3 };
            Some(Fault::Delay { ms: ms as u64 })
        }
        planned => planned,
    }
}

/// An operation in a few words.
pub fn op_words(op: &Op) -> String {
    let mut text = format!("{} {}", op.client, op.op);
    for part in [&op.key, &op.value].into_iter().flatten() {
        text.push_str(&format!(" {part}"));
    }
    text.push_str(&format!(" → {}", op.node));
    text
}

/// How a process ended, in words.
pub fn exit_words(code: Option<i32>, signal: Option<i32>, injected: bool) -> String {
    let how = match (code, signal) {
        (_, Some(signal)) => format!("ended by signal {signal}"),
        (Some(code), None) => format!("exited with code {code}"),
        (None, None) => "ended".into(),
    };
    let why = if injected { " (injected)" } else { "" };
    format!("{how}{why}")
}
