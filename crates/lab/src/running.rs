//! A trial while it runs: its cell, nodes and clients, and one place where everything that
//! happens becomes an event.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use temblor_cluster::cell::{Cell, CellError, ExitNotice, ProcId};
use temblor_cluster::start::{self, Extra, TrialPlace};
use temblor_cluster::tail::{ClientLine, LogTail, OpTail, Seen};
use temblor_cluster::target::{Client, Node};
use temblor_model::board::record::{Record, RecordWhat};
use temblor_model::event::{Event, Stage, What};
use temblor_model::history::History;
use temblor_model::op::{OpEvent, Reg};
use temblor_model::plan::{Fault, Plan, Trigger};

use crate::LabError;
use crate::board::BoardFile;
use crate::faults::Due;
use crate::probes::HealthWatch;
use crate::trial::{Jvms, Setup, TrialSpec, VirtualClock};

/// Where the stream of a trial's events goes.
pub type EventOut<'a> = &'a mut dyn FnMut(&Event);

/// A node of the trial.
pub struct NodeRun {
    pub name: String,
    pub facts: Node,
    pub process: Option<ProcId>,
    pub incarnation: u32,
    pub ready: bool,
    /// Its end was ours: a fault of the plan, or the lab's own doing.
    pub end_expected: bool,
    pub paused: bool,
    pub(crate) health: HealthWatch,
    pub(crate) asked_ready: Option<Instant>,
    log: LogTail,
    pub(crate) log_path: PathBuf,
    /// A thread dump is being printed: its lines are no log.
    in_dump: bool,
}

impl NodeRun {
    /// As it is, with a copy of its log at another place.
    pub(crate) fn forked(&self, place: &TrialPlace) -> NodeRun {
        let log_path = place.log_file(&self.name);
        NodeRun {
            name: self.name.clone(),
            facts: self.facts.clone(),
            health: HealthWatch::default(),
            asked_ready: None,
            log: self.log.resumed(&log_path),
            log_path,
            ..*self
        }
    }

    /// A late node before its time.
    pub fn is_yet_to_come(&self) -> bool {
        self.facts.late && self.incarnation == 0
    }
}

/// A client of the trial.
pub struct ClientRun {
    pub name: String,
    pub facts: Client,
    pub process: Option<ProcId>,
    pub exited: bool,
    pub started: bool,
    /// It has said that its work is over.
    pub done: bool,
    ops: OpTail,
    /// Operations begun and not ended: id and when.
    pub(crate) open: Vec<(u64, u64)>,
    /// When it began the first operation since its last answer.
    pub(crate) unanswered_us: Option<u64>,
}

impl ClientRun {
    /// As it is, with a copy of its report at another place.
    pub(crate) fn forked(&self, place: &TrialPlace) -> ClientRun {
        ClientRun {
            name: self.name.clone(),
            facts: self.facts.clone(),
            ops: self.ops.resumed(place.ops_file(&self.name)),
            open: self.open.clone(),
            ..*self
        }
    }
}

/// Everything of one running trial.
pub struct Running<'a> {
    pub setup: &'a Setup,
    pub plan: &'a Plan,
    jvms: Jvms,
    pub cell: Cell,
    pub place: TrialPlace,
    pub board: BoardFile,
    pub nodes: Vec<NodeRun>,
    pub clients: Vec<ClientRun>,
    pub clock: VirtualClock,
    pub events: Vec<Event>,
    /// When the clients began to warm up; none when they did not.
    pub counted_us: Option<u64>,
    /// When each part of this trial began.
    pub laps: Vec<(&'static str, Instant)>,
    /// When this trial itself began; its clock may be older.
    pub began: Instant,
    /// When the step that waits became the current one.
    pub(crate) step_since: (u32, Instant),
    pub(crate) due: Vec<Due>,
    pub(crate) stage: Stage,
    out: EventOut<'a>,
    stop: &'a AtomicBool,
}

impl<'a> Running<'a> {
    pub fn new(
        setup: &'a Setup,
        spec: &TrialSpec<'a>,
        cell: Cell,
        board: BoardFile,
        clock: VirtualClock,
        out: EventOut<'a>,
        stop: &'a AtomicBool,
    ) -> Result<Running<'a>, LabError> {
        let mut running = Running::forked(setup, spec, cell, board, clock, out, stop);
        let place = &running.place;
        let mut nodes = Vec::new();
        for facts in setup.target.cast.nodes.clone() {
            start::write_node_files(&setup.target, place, &facts)?;
            let log_path = place.log_file(&facts.name);
            nodes.push(NodeRun {
                name: facts.name.clone(),
                log: LogTail::new(&log_path, setup.target.log_line.clone()),
                log_path,
                in_dump: false,
                health: HealthWatch::default(),
                asked_ready: None,
                facts,
                process: None,
                incarnation: 0,
                ready: false,
                end_expected: false,
                paused: false,
            });
        }
        let mut clients = Vec::new();
        for facts in setup.target.cast.clients.clone() {
            clients.push(ClientRun {
                name: facts.name.clone(),
                ops: OpTail::new(place.ops_file(&facts.name)),
                facts,
                process: None,
                exited: false,
                started: false,
                done: false,
                open: Vec::new(),
                unanswered_us: None,
            });
        }
        (running.nodes, running.clients) = (nodes, clients);
        Ok(running)
    }

    /// Without nodes and clients: those of a snapshot follow.
    pub(crate) fn forked(
        setup: &'a Setup,
        spec: &TrialSpec<'a>,
        cell: Cell,
        board: BoardFile,
        clock: VirtualClock,
        out: EventOut<'a>,
        stop: &'a AtomicBool,
    ) -> Running<'a> {
        let place = TrialPlace {
            dir: cell.dir().to_path_buf(),
            seed: spec.plan.seed,
            load: spec.plan.load,
        };
        Running {
            setup,
            plan: spec.plan,
            jvms: spec.jvms,
            cell,
            place,
            board,
            nodes: Vec::new(),
            clients: Vec::new(),
            clock,
            events: Vec::new(),
            counted_us: None,
            laps: Vec::new(),
            began: Instant::now(),
            step_since: (0, Instant::now()),
            due: Vec::new(),
            stage: Stage::Start,
            out,
            stop,
        }
    }

    pub fn now_us(&self) -> u64 {
        self.clock.started.elapsed().as_micros() as u64
    }

    pub fn emit(&mut self, what: What) {
        self.emit_at(self.now_us(), what);
    }

    fn emit_at(&mut self, at_us: u64, what: What) {
        self.relay(Event { at_us, what });
    }

    /// Passes on what has happened, here or before a freeze.
    pub(crate) fn relay(&mut self, event: Event) {
        (self.out)(&event);
        self.events.push(event);
    }

    pub fn notice(&mut self, source: &str, text: String) {
        self.emit(What::Notice {
            source: source.into(),
            text,
        });
    }

    pub fn begin(&mut self, stage: Stage) {
        self.stage = stage;
        self.laps.push((stage.name(), Instant::now()));
        if stage == Stage::Workload {
            self.board.arm();
        }
        if stage == Stage::Workload && self.board.current_step() == 0 {
            // A first step that waits for time counts from here.
            self.step_since = (0, Instant::now());
        }
        self.emit(What::Stage { stage });
    }

    /// Starts a node, for the first time or again.
    pub fn start_node(&mut self, i: usize) -> Result<(), LabError> {
        let node = &self.nodes[i];
        let mut jvm = self.setup.archives.node.options(self.jvms, i);
        if self.jvms != Jvms::Lasting {
            jvm.extend(self.setup.target.node.cold_jvm.clone());
        }
        if matches!(self.jvms, Jvms::Hooked | Jvms::Lasting) {
            jvm.extend(self.setup.agent_options(self.board.path(), &node.name));
        }
        let extra = Extra {
            jvm,
            env: self.clock.env(),
        };
        let spec = start::node_process(&self.setup.target, &self.place, &node.facts, &extra)?;
        let (process, pid) = self.cell.start_with_pid(spec)?;
        let node = &mut self.nodes[i];
        node.process = Some(process);
        node.ready = false;
        node.end_expected = false;
        node.paused = false;
        node.incarnation += 1;
        let (name, incarnation) = (node.name.clone(), node.incarnation);
        self.emit(What::NodeStarted {
            node: name,
            incarnation,
            pid,
        });
        Ok(())
    }

    pub fn start_client(&mut self, i: usize) -> Result<(), LabError> {
        let client = &self.clients[i];
        let mut jvm = self.setup.archives.client.options(self.jvms, i);
        if self.jvms != Jvms::Lasting {
            jvm.extend(self.setup.target.workload.cold_jvm.clone());
        }
        if self.setup.hook_clients && matches!(self.jvms, Jvms::Hooked | Jvms::Lasting) {
            jvm.extend(self.setup.agent_options(self.board.path(), &client.name));
        }
        let extra = Extra {
            jvm,
            env: self.clock.env(),
        };
        let spec = start::client_process(&self.setup.target, &self.place, &client.facts, &extra)?;
        let (process, pid) = self.cell.start_with_pid(spec)?;
        self.clients[i].process = Some(process);
        self.clients[i].started = true;
        let client = self.clients[i].name.clone();
        self.emit(What::ClientStarted { client, pid });
        Ok(())
    }

    /// Takes in everything that has happened, does what is due, waits a moment.
    pub fn turn(&mut self, pause: Duration) -> Result<(), LabError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        if self.cell.is_gone() {
            let dir = self.cell.dir().to_path_buf();
            return Err(LabError::Cell(CellError::Gone { dir }));
        }
        self.take_in();
        self.do_due()?;
        // A question ends the wait: its asker is held meanwhile.
        if let Some(question) = self.board.wait_question(pause) {
            self.answer(question)?;
        }
        Ok(())
    }

    /// Everything that has happened becomes events.
    pub fn take_in(&mut self) {
        self.take_exits();
        self.take_records();
        self.take_ops();
        self.take_logs(false);
    }

    fn take_exits(&mut self) {
        // An agent's last records come before the news of its end.
        let exits = self.cell.poll_exits();
        if !exits.is_empty() {
            self.take_records();
        }
        for exit in exits {
            self.take_exit(exit);
        }
    }

    fn take_exit(&mut self, exit: ExitNotice) {
        let ExitNotice { id, code, signal } = exit;
        if let Some(node) = self.nodes.iter_mut().find(|n| n.process == Some(id)) {
            node.process = None;
            node.ready = false;
            let (node, injected) = (node.name.clone(), node.end_expected);
            self.emit(What::NodeExited {
                node,
                code,
                signal,
                injected,
            });
        } else if let Some(client) = self.clients.iter_mut().find(|c| c.process == Some(id)) {
            client.process = None;
            client.exited = true;
            let client = client.name.clone();
            // Its last lines are read before its end is told.
            self.take_ops();
            self.emit(What::ClientExited {
                client,
                code,
                signal,
            });
        }
    }

    fn take_records(&mut self) {
        let (nodes, clients) = (&self.nodes, &self.clients);
        let gone = |name: &str| {
            let node = nodes.iter().any(|n| n.name == name && n.process.is_none());
            node || clients
                .iter()
                .any(|c| c.name == name && c.process.is_none())
        };
        let records = self.board.drain(|name, _| gone(name));
        for (node, record) in records {
            self.take_record(node, record);
        }
    }

    fn take_record(&mut self, node: String, record: Record) {
        let at_us = self.clock.us_of_monotonic(record.at_ns);
        let lines = |text: String| text.lines().map(str::to_string).collect();
        let hex = |stack: u64| format!("{stack:016x}");
        let what = match record.what {
            RecordWhat::Hit {
                site,
                count,
                stack,
                thread,
            } => What::Hit {
                node,
                site,
                count,
                stack: hex(stack),
                thread,
            },
            RecordWhat::Context { stack, frames } => What::Context {
                node,
                stack: hex(stack),
                frames: lines(frames),
            },
            RecordWhat::Fired {
                step,
                site,
                count,
                fault,
                stack,
                thread,
                frames,
                state,
                nth,
                access,
            } => {
                let fault = self.fault_of(step, fault);
                if fault == Fault::Crash
                    && let Some(run) = self.nodes.iter_mut().find(|n| n.name == node)
                {
                    run.end_expected = true;
                }
                What::Fired {
                    step,
                    node,
                    site,
                    count,
                    fault: fault.to_string(),
                    stack: hex(stack),
                    thread,
                    frames: lines(frames),
                    state: state.checked_sub(1),
                    nth,
                    access: access.checked_sub(1),
                }
            }
            RecordWhat::Timeout { timeout, value } => {
                let known = self.setup.catalog.timeouts.get(timeout as usize);
                let ms = known.map_or(value, |t| t.unit.ms(value));
                What::Captured { node, timeout, ms }
            }
            RecordWhat::Notice { text } => What::Notice { source: node, text },
        };
        self.emit_at(at_us, what);
    }

    /// The fault a step took: the plan's own, or the one drawn from the site's list.
    fn fault_of(&self, step: u32, fault: u32) -> Fault {
        use temblor_model::board::spec::FaultKind;
        let planned = self.plan.steps.get(step as usize).map(|s| s.fault.clone());
        match planned {
            Some(fault) if !matches!(fault, Fault::Any | Fault::SiteDelay { .. }) => fault,
            _ => match self.board.board().faults().get(fault as usize) {
                Some(rec) => match FaultKind::from_u32(rec.kind) {
                    Some(FaultKind::Throw) => {
                        let class = self.board.board().class_of(rec);
                        Fault::Throw {
                            exception: class.replace('/', "."),
                        }
                    }
                    Some(FaultKind::Delay) => Fault::Delay { ms: rec.amount },
                    Some(FaultKind::Crash) => Fault::Crash,
                    _ => Fault::Any,
                },
                None => Fault::Any,
            },
        }
    }

    fn take_ops(&mut self) {
        for i in 0..self.clients.len() {
            match self.clients[i].ops.lines() {
                Ok(lines) => lines
                    .into_iter()
                    .for_each(|line| self.take_client_line(i, line)),
                Err(e) => self.notice("lab", format!("cannot read a client's report: {e}")),
            }
        }
    }

    fn take_client_line(&mut self, i: usize, line: ClientLine) {
        let name = self.clients[i].name.clone();
        match line {
            ClientLine::Op(op) => {
                let at_us = self.clock.us_of_virtual_ms(op.t).min(self.now_us());
                let client = &mut self.clients[i];
                match op.ev {
                    // A watch is asked for and may never be told: nobody waits for it.
                    OpEvent::Invoke if op.reg == Some(Reg::Watch) => {}
                    OpEvent::Invoke => {
                        client.open.push((op.id, at_us));
                        client.unanswered_us.get_or_insert(at_us);
                    }
                    ev => {
                        client.open.retain(|(id, _)| *id != op.id);
                        if ev != OpEvent::Timeout {
                            client.unanswered_us = client.open.iter().map(|o| o.1).min();
                        }
                    }
                }
                self.emit_at(at_us, What::Op(op));
            }
            ClientLine::Done(done) => {
                self.clients[i].done = true;
                self.emit(What::OpsDone(done));
            }
            ClientLine::Garbage(line) => self.emit(What::Garbage { client: name, line }),
        }
    }

    pub(crate) fn take_logs(&mut self, last: bool) {
        for i in 0..self.nodes.len() {
            let entries = match last {
                false => self.nodes[i].log.entries(),
                true => self.nodes[i].log.finish(),
            };
            let entries = entries.unwrap_or_else(|e| {
                self.notice("lab", format!("cannot read a node's log: {e}"));
                Vec::new()
            });
            for Seen { at, entry } in entries {
                let mut line = entry;
                let at_us = at.saturating_duration_since(self.clock.started).as_micros() as u64;
                let in_dump = &mut self.nodes[i].in_dump;
                // Nothing is logged while the JVM prints a dump, so an entry ends it: its own end
                // may be among the lines that were cut.
                *in_dump &= line.level.is_empty();
                line.more.retain(|text| !is_dump_line(in_dump, text));
                let raw = line.level.is_empty();
                if raw && is_dump_line(in_dump, &line.message) {
                    continue;
                }
                let node = self.nodes[i].name.clone();
                let role = self.setup.target.log_role.as_ref();
                let role = role.and_then(|role| role.captures(&line.message)?.name("role"));
                if let Some(role) = role.map(|role| role.as_str().to_string()) {
                    let node = node.clone();
                    self.emit_at(at_us, What::Becomes { node, role });
                }
                let what = What::Log {
                    node,
                    level: line.level,
                    logger: line.logger,
                    thread: line.thread,
                    message: line.message,
                    more: line.more,
                };
                self.emit_at(at_us, what);
            }
        }
    }

    /// What has happened by now.
    pub fn history_so_far(&self) -> Option<History> {
        let mut events = self.events.clone();
        events.sort_by_key(|e| e.at_us);
        History::from_events(self.plan.clone(), events)
    }

    /// Nothing more will come: what is left is taken in.
    pub fn finish(&mut self) {
        self.take_in();
        self.take_logs(true);
        for what in self.board.visited() {
            self.emit(what);
        }
        if self.board.lost_visits() {
            let text = "the table of visits is full: what came later is not counted";
            self.notice("agent", text.into());
        }
        let dropped = self.board.dropped();
        if dropped > 0 {
            let text = format!("{dropped} recorded hits found the event ring full and are lost");
            self.notice("agent", text);
        }
        self.events.sort_by_key(|e| e.at_us);
    }

    /// The plan's steps that wait for time, not for a hit.
    pub(crate) fn waiting_step(&mut self) -> Option<(u32, u64, Instant)> {
        let current = self.board.current_step();
        if self.step_since.0 != current {
            self.step_since = (current, Instant::now());
        }
        match self.plan.steps.get(current as usize)?.when {
            Trigger::After { ms } => Some((current, ms, self.step_since.1)),
            _ => None,
        }
    }
}

/// Whether a line of a log belongs to a thread dump; remembers where one begins and ends.
fn is_dump_line(in_dump: &mut bool, line: &str) -> bool {
    if line.starts_with("Full thread dump") {
        *in_dump = true;
    }
    let inside = *in_dump;
    if line.starts_with("JNI global ref") {
        *in_dump = false;
    }
    inside
}
