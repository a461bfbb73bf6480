//! One trial: an empty folder becomes a cell, the cell a cluster, the cluster a history.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use temblor_cluster::cell::{Cell, CellSpec, Clocks};
use temblor_cluster::target::{AgainBy, FINALE, Target, WARM, WARMED};
use temblor_explore::checker;
use temblor_model::catalog::SiteCatalog;
use temblor_model::event::{Stage, What};
use temblor_model::history::{Baseline, ClientRole, History};
use temblor_model::plan::Plan;

use crate::LabError;
use crate::archive::Archives;
use crate::board::{BOARD_FILE, BoardFile};
use crate::compile::{self, AnyFaults, Ground, Hold, Recording};
use crate::frozen::{Frozen, HELD_LIMIT, Point, settle_files};
use crate::limits::Limits;
use crate::running::{EventOut, Running};

/// Between two looks at what happens; a question of an agent is heard at once.
const TURN: Duration = Duration::from_millis(8);
/// An operation open this many times longer than any in the baselines is worth a thread dump.
const STUCK_FACTOR: u32 = 4;
/// The least time an operation must be open for a thread dump, virtual milliseconds.
const STUCK_MS: u64 = 2_500;
/// An operation of the finale may take this long, beside what a cluster takes to form.
const FINALE_PATIENCE: Duration = Duration::from_secs(2);
/// What a cluster takes to form, before that is known.
const FIRST_PATIENCE_MS: u64 = 20_000;
/// Between two questions whether waiting longer would change the verdict.
const LOOK: Duration = Duration::from_millis(500);
/// And in real time: a JVM's first operations are slow for a reason.
const STUCK_LEAST: Duration = Duration::from_secs(1);
/// Thread dumps of one trial: the first when something sticks, the next to see whether it moves.
const DUMPS: u32 = 2;

/// The clock's page in a trial's folder.
const CLOCK_PAGE: &str = "clock";
const PAGE_BYTES: usize = 4096;

/// The workload resets connections for this long, virtual milliseconds: whoever sends a heartbeat
/// every few seconds meets it.
const RESET_MS: u64 = 3_000;

/// A JVM writes its archive when it ends; it takes a second or two.
const TRAINING_LIMIT: Duration = Duration::from_secs(60);

/// What all trials of a campaign share.
pub struct Setup {
    pub target: Arc<Target>,
    pub catalog: Arc<SiteCatalog>,
    /// The hooks file of the catalog.
    pub hooks: PathBuf,
    pub agent_library: PathBuf,
    pub warp_library: PathBuf,
    pub any_faults: AnyFaults,
    /// The agent is in clients, too.
    pub hook_clients: bool,
    /// Where classes that many JVMs load are kept ready to be mapped.
    pub archives: Archives,
}

impl Setup {
    /// What plans are made for, for those whose names are given.
    pub(crate) fn ground<'a>(
        &'a self,
        hooked: &'a [String],
        baseline: Option<&'a Baseline>,
    ) -> Ground<'a> {
        Ground {
            catalog: &self.catalog,
            nodes: hooked,
            any: &self.any_faults,
            baseline,
        }
    }

    /// The processes that faults can be injected into.
    pub fn hooked(&self) -> Vec<String> {
        self.target.cast.hooked(self.hook_clients)
    }

    /// The JVM option that loads the agent.
    pub fn agent_options(&self, board: &Path, node: &str) -> Vec<String> {
        vec![format!(
            "-agentpath:{}=board={},hooks={},node={node}",
            self.agent_library.display(),
            board.display(),
            self.hooks.display(),
        )]
    }
}

/// What a trial's JVMs have beside the target's own options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jvms {
    /// Nodes have the agent.
    Hooked,
    /// As `Hooked`; they will be warmed and frozen, and many trials go on with them.
    Lasting,
    /// Nothing: to measure what the agent costs.
    Bare,
    /// As `Bare`; one node and one client leave an archive of the classes they loaded.
    Training,
}

/// One trial to be run.
pub struct TrialSpec<'a> {
    pub plan: &'a Plan,
    /// The trial's own folder.
    pub dir: PathBuf,
    pub jvms: Jvms,
    pub recording: Recording,
    pub warp: f64,
    pub limits: Limits,
    /// What clean runs look like; none when this is one to learn from.
    pub baseline: Option<&'a Baseline>,
    /// So many first steps of the plan are those of many plans.
    pub shared: usize,
    /// Where it goes on from; else it starts cold.
    pub from: Option<&'a Frozen>,
}

/// What a trial leaves behind.
pub struct Finished {
    pub history: History,
    /// Steps that never fired.
    pub unreached: Vec<u32>,
    pub seconds: f64,
    /// Processor time its nodes and clients used.
    pub cpu_seconds: f64,
    /// All nodes served before the workload began.
    pub all_ready: bool,
    /// Basic blocks that were reached, where they are hooked.
    pub covered: Vec<u32>,
    /// Where it went on from.
    pub from: Option<Point>,
    /// What each part of it took, seconds.
    pub parts: Vec<(&'static str, f64)>,
}

/// The trial's clock: real, and virtual at its factor.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    pub started: Instant,
    pub factor: f64,
    library: PathBuf,
    /// The file by which a thaw tells the processes how long they stood still.
    page: PathBuf,
    mono_ns: u64,
    real_ns: u64,
    /// How long they did.
    gap_ns: u64,
}

impl VirtualClock {
    fn start(factor: f64, library: &Path, dir: &Path) -> Result<VirtualClock, LabError> {
        let page = dir.join(CLOCK_PAGE);
        std::fs::write(&page, [0; PAGE_BYTES]).map_err(|e| LabError::io("write", &page, e))?;
        let started = Instant::now();
        let (mono_ns, real_ns) = (
            read_clock(libc::CLOCK_MONOTONIC),
            read_clock(libc::CLOCK_REALTIME),
        );
        Ok(VirtualClock {
            started,
            factor,
            library: library.to_path_buf(),
            page,
            mono_ns,
            real_ns,
            gap_ns: 0,
        })
    }

    /// The same clock in a fork.
    pub(crate) fn forked(&self, clocks: Clocks, dir: &Path) -> VirtualClock {
        let now_ns = read_clock(libc::CLOCK_MONOTONIC).saturating_add_signed(clocks.ahead_ns);
        let gap_ns = self.gap_ns.saturating_add_signed(clocks.gap_ns);
        let age_ns = now_ns.saturating_sub(self.mono_ns + gap_ns);
        let now = Instant::now();
        let started = now.checked_sub(Duration::from_nanos(age_ns));
        VirtualClock {
            started: started.unwrap_or(now),
            page: dir.join(CLOCK_PAGE),
            gap_ns,
            ..self.clone()
        }
    }

    pub(crate) fn page(&self) -> &Path {
        &self.page
    }

    /// What a process needs in its environment to live on this clock.
    pub fn env(&self) -> Vec<(String, String)> {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("TEMBLOR_WARP_FACTOR", self.factor.to_string()),
            ("TEMBLOR_WARP_MONO_NS", self.mono_ns.to_string()),
            ("TEMBLOR_WARP_REAL_NS", self.real_ns.to_string()),
            ("TEMBLOR_WARP_PAGE", self.page.display().to_string()),
        ]
        .map(|(k, v)| (k.to_string(), v))
        .to_vec()
    }

    /// The real time that so many virtual milliseconds take.
    pub fn real(&self, virtual_ms: u64) -> Duration {
        Duration::from_secs_f64(virtual_ms as f64 / 1000.0 / self.factor)
    }

    /// Microseconds since the trial began, from the machine's monotonic clock.
    pub fn us_of_monotonic(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.mono_ns + self.gap_ns) / 1000
    }

    /// Microseconds since the trial began, from a virtual wall-clock time in milliseconds.
    pub fn us_of_virtual_ms(&self, ms: u64) -> u64 {
        let since_ns = ms.saturating_mul(1_000_000).saturating_sub(self.real_ns);
        (since_ns as f64 / self.factor / 1000.0) as u64
    }
}

fn read_clock(id: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the timespec is valid for the call.
    unsafe { libc::clock_gettime(id, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Runs a trial to its end. Whatever happens, none of its processes outlives the call.
pub fn run(
    setup: &Setup,
    spec: &TrialSpec<'_>,
    out: EventOut<'_>,
    stop: &AtomicBool,
) -> Result<Finished, LabError> {
    let mut running = match spec.from {
        Some(frozen) => frozen.fork(setup, spec, out, stop)?,
        None => cold(setup, spec, Hold::Nowhere, out, stop)?,
    };
    let staged = stages(&mut running, spec);
    running.take_in();
    running.begin(Stage::Stop);
    if staged.is_ok() {
        stop_nodes(&mut running)?;
        if spec.jvms == Jvms::Training {
            running.stop_node(0, TRAINING_LIMIT)?;
        }
    }
    let cpu_seconds = running.cell.cpu_seconds();
    running.laps.push(("end", Instant::now()));
    // All processes are gone before the last events are read: nothing is written after that.
    let closed = running.cell.close();
    running.finish();
    let all_ready = staged?;
    closed?;
    let fired = running.board.current_step();
    let unreached = (fired..spec.plan.steps.len() as u32).collect();
    let events = std::mem::take(&mut running.events);
    let history = History::from_events(spec.plan.clone(), events);
    let history = history.ok_or_else(|| LabError::Internal("a trial that never began".into()))?;
    let seconds = running.began.elapsed().as_secs_f64();
    let covered = running.board.covered_blocks();
    Ok(Finished {
        history,
        unreached,
        seconds,
        cpu_seconds,
        all_ready,
        covered,
        from: spec.from.map(|frozen| frozen.point),
        parts: parts(running.began, &running.laps),
    })
}

/// What each part took: from its beginning to the next one's, the last until now.
fn parts(began: Instant, laps: &[(&'static str, Instant)]) -> Vec<(&'static str, f64)> {
    let all: Vec<_> = std::iter::once(("begin", began))
        .chain(laps.iter().copied())
        .chain([("", Instant::now())])
        .collect();
    let took =
        |pair: &[(&'static str, Instant)]| (pair[0].0, (pair[1].1 - pair[0].1).as_secs_f64());
    all.windows(2).map(took).collect()
}

/// How long a cluster takes from `began` until every node serves, and how many megabytes its
/// processes take then. It is ended afterwards.
pub fn time_to_ready(
    setup: &Setup,
    spec: &TrialSpec<'_>,
    began: Instant,
    stop: &AtomicBool,
) -> Result<(f64, f64), LabError> {
    let mut ignore = |_: &temblor_model::event::Event| {};
    let mut running = match spec.from {
        Some(frozen) => frozen.fork(setup, spec, &mut ignore, stop)?,
        None => cold(setup, spec, Hold::Nowhere, &mut ignore, stop)?,
    };
    if spec.from.is_none() {
        boot(&mut running)?;
        await_ready(&mut running, spec.limits.ready)?;
    }
    await_service(&mut running, spec.limits.ready)?;
    let seconds = began.elapsed().as_secs_f64();
    let megabytes = running.cell.memory_bytes() as f64 / 1e6;
    running.cell.close()?;
    settle_files(&spec.dir, false)?;
    Ok((seconds, megabytes))
}

/// A trial at its very beginning: a cell, a board, no process yet.
pub(crate) fn cold<'a>(
    setup: &'a Setup,
    spec: &TrialSpec<'a>,
    hold: Hold,
    out: EventOut<'a>,
    stop: &'a AtomicBool,
) -> Result<Running<'a>, LabError> {
    std::fs::create_dir_all(&spec.dir)
        .map_err(|e| LabError::io("make the trial's folder", &spec.dir, e))?;
    // Of a fork that was cut short.
    settle_files(&spec.dir, false)?;
    let nodes = setup.target.cast.node_names();
    let hooked = setup.hooked();
    let ground = setup.ground(&hooked, spec.baseline);
    let board = compile::board(spec.plan, ground, spec.recording, hold)?;
    let board = BoardFile::create(&spec.dir.join(BOARD_FILE), &board)?;
    let cell = Cell::open(CellSpec::new(&spec.dir))?;
    let clock = VirtualClock::start(spec.warp, &setup.warp_library, cell.dir())?;
    let mut running = Running::new(setup, spec, cell, board, clock, out, stop)?;
    let roles = running.clients.iter().map(|c| ClientRole {
        client: c.name.clone(),
        node: c.facts.node.clone(),
    });
    let clients = roles.collect();
    running.emit(What::Began {
        nodes,
        clients,
        warp: spec.warp,
        single_roles: setup.target.single_roles.clone(),
        serving_roles: setup.target.serving_roles.clone(),
    });
    Ok(running)
}

/// Runs a cold trial up to the point where it is to be frozen.
pub(crate) fn until(
    running: &mut Running<'_>,
    spec: &TrialSpec<'_>,
    point: Point,
) -> Result<(), LabError> {
    boot(running)?;
    let missed = |what: &str| Err(LabError::NoSnapshot(what.to_string()));
    let deadline = Instant::now() + HELD_LIMIT;
    match point {
        Point::Booted => {
            while running.board.held().len()
                < running.nodes.iter().filter(|n| n.process.is_some()).count()
            {
                running.turn(TURN)?;
                if Instant::now() > deadline {
                    return missed("not every node came to a hook");
                }
            }
        }
        Point::Ready => {
            if !form(running, spec)? {
                return missed("the nodes did not become ready");
            }
            running.counted_us = Some(running.now_us());
            if running.setup.target.warms {
                running.tell_clients(WARM, "")?;
                while !running.clients_say(WARMED) {
                    running.turn(TURN)?;
                    if Instant::now() > deadline {
                        return missed("the clients did not warm up");
                    }
                }
            }
        }
        Point::After(steps) => {
            form(running, spec)?;
            running.begin(Stage::Workload);
            running.open_gate()?;
            let deadline = Instant::now() + spec.limits.workload;
            while running.board.current_step() < steps || !running.board.holds() {
                running.turn(TURN)?;
                running.probe_ready()?;
                running.start_clients()?;
                if Instant::now() > deadline || running.clients_done() {
                    return missed("the plan's first steps did not fire");
                }
            }
        }
    }
    Ok(())
}

/// All nodes that are there from the start are started.
fn boot(running: &mut Running<'_>) -> Result<(), LabError> {
    running.begin(Stage::Start);
    running.prepare_below()?;
    for i in 0..running.nodes.len() {
        if !running.nodes[i].is_yet_to_come() {
            running.start_node(i)?;
        }
    }
    Ok(())
}

/// Until all nodes serve, and clients are connected where they wait to be let in. True when all
/// nodes do.
fn form(running: &mut Running<'_>, spec: &TrialSpec<'_>) -> Result<bool, LabError> {
    let all_ready = await_ready(running, spec.limits.ready)?;
    if running.setup.target.gate {
        running.start_clients()?;
        let deadline = Instant::now() + spec.limits.ready;
        while !running.clients_here() && Instant::now() < deadline {
            running.turn(TURN)?;
        }
    }
    Ok(all_ready)
}

/// Start, workload, heal, recovery, finale. True when all nodes served before the workload.
fn stages(running: &mut Running<'_>, spec: &TrialSpec<'_>) -> Result<bool, LabError> {
    let point = spec.from.map(|frozen| frozen.point);
    if point.is_none() {
        boot(running)?;
    }
    let all_ready = match point {
        None | Some(Point::Booted) => form(running, spec)?,
        Some(_) => true,
    };
    if !matches!(point, Some(Point::After(_))) {
        running.begin(Stage::Workload);
        running.open_gate()?;
    }
    running.start_clients()?;
    workload(running, spec)?;
    running.begin(Stage::Heal);
    running.ask_health()?;
    running.heal_all()?;
    running.begin(Stage::Recovery);
    await_ready(running, spec.limits.recovery)?;
    await_service(running, spec.limits.recovery)?;
    running.ask_health()?;
    if running.setup.target.finale && !running.clients_gone() {
        finale(running, spec)?;
    }
    Ok(all_ready)
}

/// Clients look at what is left; until all are gone, or those left wait for what never comes, or
/// the time is up.
fn finale(running: &mut Running<'_>, spec: &TrialSpec<'_>) -> Result<(), LabError> {
    running.begin(Stage::Finale);
    let ready_ms = spec.baseline.map_or(FIRST_PATIENCE_MS, |b| b.ready_ms);
    let patience = Duration::from_millis(ready_ms) + FINALE_PATIENCE;
    running.tell_clients(FINALE, "")?;
    let deadline = Instant::now() + spec.limits.recovery;
    while !running.clients_gone() && !running.all_wait(patience) && Instant::now() < deadline {
        running.turn(TURN)?;
    }
    Ok(())
}

/// Asks nodes to end, in the target's order, where it has one. Who does not is killed with the
/// cell.
fn stop_nodes(running: &mut Running<'_>) -> Result<(), LabError> {
    let Some(stop) = running.setup.target.stop.clone() else {
        return Ok(());
    };
    let place = |i: usize| {
        let is = |wanted: &String| {
            *wanted == running.nodes[i].name || running.role_of(i) == Some(wanted)
        };
        stop.order.iter().position(is).unwrap_or(stop.order.len())
    };
    let mut order: Vec<(usize, usize)> = (0..running.nodes.len()).map(|i| (place(i), i)).collect();
    order.sort_unstable();
    for (_, i) in order {
        running.stop_node(i, Duration::from_millis(stop.within_ms))?;
    }
    Ok(())
}

/// Until all nodes serve, or the time is up, or one that should run has ended.
fn await_ready(running: &mut Running<'_>, limit: Duration) -> Result<bool, LabError> {
    let deadline = Instant::now() + limit;
    loop {
        running.turn(TURN)?;
        if running.probe_ready()? {
            return Ok(true);
        }
        let mut nodes = running.nodes.iter();
        let hopeless = nodes.all(|n| n.ready || n.process.is_none());
        if hopeless || Instant::now() > deadline {
            return Ok(false);
        }
    }
}

/// Until every node that runs serves, those too that were ready all along, or the time is up.
fn await_service(running: &mut Running<'_>, limit: Duration) -> Result<(), LabError> {
    let deadline = Instant::now() + limit;
    while !running.all_serve()? && Instant::now() < deadline {
        running.turn(TURN)?;
    }
    Ok(())
}

/// Until all clients are done, the time is up, or more of it would change nothing; thread dumps
/// where operations stick.
fn workload(running: &mut Running<'_>, spec: &TrialSpec<'_>) -> Result<(), LabError> {
    let began = Instant::now();
    let usual_op_ms = spec.baseline.map_or(0, |b| b.op_ms);
    let usual = Duration::from_millis(usual_op_ms) * STUCK_FACTOR;
    let patience = usual.max(running.clock.real(STUCK_MS)).max(STUCK_LEAST);
    let mut dumps = 0;
    let mut next_dump = patience;
    let mut next_look = Duration::ZERO;
    let late = running.clock.real(running.setup.target.late_ms);
    let again = running.clock.real(running.setup.target.again_ms);
    let mut restarts = !running.setup.target.again.is_empty();
    send_away(running)?;
    while !running.clients_done() {
        if began.elapsed() >= late {
            start_late_nodes(running)?;
        }
        if restarts && began.elapsed() >= again {
            restarts = !restart_nodes(running, again)?;
        }
        if began.elapsed() > spec.limits.workload {
            running.emit(What::Deadline {
                limit_ms: spec.limits.workload.as_millis() as u64,
            });
            running.dump_threads()?;
            return Ok(());
        }
        running.turn(TURN)?;
        // A node that was restarted by the plan is asked until it serves.
        running.probe_ready()?;
        running.start_clients()?;
        running.watch_health()?;
        if dumps < DUMPS && running.longest_wait() > next_dump {
            running.ask_health()?;
            running.dump_threads()?;
            dumps += 1;
            next_dump *= 2;
        }
        let all_fired = running.board.current_step() as usize >= spec.plan.steps.len();
        if dumps == DUMPS && all_fired && began.elapsed() > next_look {
            next_look = began.elapsed() + LOOK;
            let so_far = running.history_so_far();
            if so_far.is_some_and(|h| checker::is_decided(&h, spec.baseline)) {
                running.emit(What::Deadline {
                    limit_ms: began.elapsed().as_millis() as u64,
                });
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Nodes whose time has come.
fn start_late_nodes(running: &mut Running<'_>) -> Result<(), LabError> {
    for i in 0..running.nodes.len() {
        if running.nodes[i].is_yet_to_come() {
            running.start_node(i)?;
        }
    }
    Ok(())
}

/// Nodes that the workload begins without: they run, but the others cannot be reached.
fn send_away(running: &mut Running<'_>) -> Result<(), LabError> {
    let target = running.setup.target.clone();
    for i in 0..running.nodes.len() {
        if target.away.contains(&running.nodes[i].name) {
            running.reset_node(i, target.away_ms)?;
        }
    }
    Ok(())
}

/// Nodes that the workload kills and starts again, or cuts off, once they have served for so long.
/// True when that is done.
fn restart_nodes(running: &mut Running<'_>, served: Duration) -> Result<bool, LabError> {
    let is_meant = |i: &usize| {
        let meant = &running.setup.target.again;
        let role = running.role_of(*i);
        meant.contains(&running.nodes[*i].name) || meant.iter().any(|m| role == Some(m))
    };
    let meant: Vec<usize> = (0..running.nodes.len()).filter(is_meant).collect();
    // Who is ready was asked for the last time when it said so; a fork has not asked at all.
    let is_due = |i: &usize| {
        let node = &running.nodes[*i];
        node.ready && node.asked_ready.is_none_or(|at| at.elapsed() >= served)
    };
    if meant.is_empty() || !meant.iter().all(is_due) {
        return Ok(false);
    }
    for i in meant {
        match running.setup.target.again_by {
            AgainBy::Kill => running.restart_node(i)?,
            AgainBy::Reset => running.reset_node(i, RESET_MS)?,
        }
    }
    Ok(true)
}
