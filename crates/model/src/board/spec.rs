//! What the lab wants on a board, and the bytes of a fresh one.

use std::sync::atomic::AtomicU32;

use super::table::{MOVES, MoveRec, SEEN, VISITS, VisitRec};
use super::view::{AskCell, FaultRec, Header, SiteFaults, SlotHeader, StepRec};
use super::{ANY_SITE, ANY_STATE, ARM_POINT, ASK_CELLS, MAGIC, NO_STEP, VERSION};
use crate::plan::Contexts;

/// How a step decides, on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TriggerKind {
    AtHit = 1,
    Random = 2,
    NewContext = 3,
    Ask = 4,
    /// The lab fires it; agents pass by.
    Lab = 5,
    NewState = 6,
    AfterAccess = 7,
    /// Sites of the set, each once in a trial.
    AnyOf = 8,
}

impl TriggerKind {
    pub fn from_u32(value: u32) -> Option<Self> {
        use TriggerKind::*;
        let all = [
            AtHit,
            Random,
            NewContext,
            Ask,
            Lab,
            NewState,
            AfterAccess,
            AnyOf,
        ];
        all.into_iter().find(|k| *k as u32 == value)
    }
}

/// What a fired step does, on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FaultKind {
    Throw = 1,
    /// `amount` in virtual milliseconds.
    Delay = 2,
    Crash = 3,
    /// The agent asks; the lab acts, then answers.
    Lab = 4,
}

impl FaultKind {
    pub fn from_u32(value: u32) -> Option<Self> {
        use FaultKind::*;
        [Throw, Delay, Crash, Lab]
            .into_iter()
            .find(|k| *k as u32 == value)
    }
}

/// One step as the agent evaluates it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSpec {
    pub trigger: TriggerKind,
    /// A site, or [`super::ANY_SITE`].
    pub site: u32,
    /// `fnv64` of the node's name; 0 is any node.
    pub node: u64,
    /// Context hash; 0 is any context.
    pub stack: u64,
    pub nth: u32,
    /// Probability of `Random`.
    pub rate: f64,
    /// Index into the faults, or [`super::ANY_FAULT`].
    pub fault: u32,
    /// Id of the state + 1, 0 outside all tasks, or [`super::ANY_STATE`].
    pub state: u32,
    /// What tells contexts apart, for `NewContext`.
    pub by: Contexts,
    /// Limit of `AfterAccess`, real nanoseconds.
    pub within_ns: u32,
}

impl Default for StepSpec {
    /// The next hit of any site.
    fn default() -> Self {
        StepSpec {
            trigger: TriggerKind::AtHit,
            site: ANY_SITE,
            node: 0,
            stack: 0,
            nth: 1,
            rate: 0.0,
            fault: 0,
            state: ANY_STATE,
            by: Contexts::Stack,
            within_ns: 0,
        }
    }
}

/// How many points of each kind a target has. Each has an arm byte; their numbers follow one
/// another in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Points {
    pub sites: u32,
    /// Where abstract states are entered.
    pub states: u32,
    /// Where tasks are left.
    pub tasks: u32,
    /// Where data about nodes is accessed.
    pub accesses: u32,
    /// Where a timeout's value can be read.
    pub timeouts: u32,
}

/// A number among the points, as what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointId {
    Site(u32),
    State(u32),
    Task(u32),
    Access(u32),
    Timeout(u32),
}

impl Points {
    pub fn total(&self) -> u32 {
        // A damaged header may say anything.
        [self.states, self.tasks, self.accesses, self.timeouts]
            .iter()
            .fold(self.sites, |sum, n| sum.saturating_add(*n))
    }

    pub fn number(&self, point: PointId) -> u32 {
        let tasks = self.sites + self.states;
        match point {
            PointId::Site(n) => n,
            PointId::State(n) => self.sites + n,
            PointId::Task(n) => tasks + n,
            PointId::Access(n) => tasks + self.tasks + n,
            PointId::Timeout(n) => tasks + self.tasks + self.accesses + n,
        }
    }

    pub fn point(&self, number: u32) -> Option<PointId> {
        type Kind = fn(u32) -> PointId;
        let kinds: [(u32, Kind); 5] = [
            (self.sites, PointId::Site),
            (self.states, PointId::State),
            (self.tasks, PointId::Task),
            (self.accesses, PointId::Access),
            (self.timeouts, PointId::Timeout),
        ];
        let mut left = number;
        for (count, kind) in kinds {
            if left < count {
                return Some(kind(left));
            }
            left -= count;
        }
        None
    }
}

/// One fault as the agent executes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSpec {
    pub kind: FaultKind,
    pub amount: u64,
    /// Exception class of `Throw`, internal name with slashes.
    pub class: String,
}

/// Everything a fresh board says.
#[derive(Clone, Debug, PartialEq)]
pub struct BoardSpec {
    pub catalog_hash: u64,
    pub seed: u64,
    /// One arm byte per site.
    pub arms: Vec<u8>,
    /// What else has one; `sites` is not looked at.
    pub points: Points,
    /// Which of these are told.
    pub tell_states: bool,
    pub tell_accesses: bool,
    pub tell_timeouts: bool,
    /// Visits and moves are counted.
    pub counts: bool,
    pub block_count: u32,
    pub steps: Vec<StepSpec>,
    pub faults: Vec<FaultSpec>,
    /// Per site, the range of `faults` it may take at random (`ANY_FAULT`). May be empty.
    pub site_faults: Vec<(u32, u32)>,
    /// What is known already, for `NewContext`, `NewState` and `AfterAccess`.
    pub contexts: Vec<u64>,
    /// Contexts in which no step fires that leaves the site open: `context_key(site, stack)`.
    pub barred: Vec<u64>,
    /// Processes that may join.
    pub slots: u32,
    /// Units of 64 bytes in each ring; a power of two.
    pub ring_units: u32,
    /// Recorded hits carry their stack this many times per site and process.
    pub stacks_per_site: u32,
    /// Recorded hits are events this many times per site and process; later ones only count.
    pub hits_per_site: u32,
    /// Real milliseconds an agent waits for an answer before it goes on without.
    pub ask_deadline_ms: u32,
    /// Whoever comes to a hook waits there: a cluster about to be frozen at its first step.
    pub hold: bool,
    /// No step may fire until the lab says so.
    pub unarmed: bool,
    /// As `hold`, once so many steps have fired; 0: never.
    pub hold_after: u32,
    /// At least so many bytes for the plan's parts, so that other plans fit into the same places.
    pub plan_room: u64,
}

/// A plan of some steps takes a few hundred bytes, one that knows all contexts some 100 KB.
const PLAN_ROOM: u64 = 512 * 1024;

impl Default for BoardSpec {
    fn default() -> Self {
        BoardSpec {
            catalog_hash: 0,
            seed: 0,
            arms: Vec::new(),
            points: Points::default(),
            tell_states: false,
            tell_accesses: false,
            tell_timeouts: false,
            counts: false,
            block_count: 0,
            steps: Vec::new(),
            faults: Vec::new(),
            site_faults: Vec::new(),
            contexts: Vec::new(),
            barred: Vec::new(),
            slots: 16,
            ring_units: 1 << 13,
            stacks_per_site: 200,
            hits_per_site: 200,
            ask_deadline_ms: 10_000,
            hold: false,
            unarmed: false,
            hold_after: 0,
            plan_room: PLAN_ROOM,
        }
    }
}

/// One number for a site in a context.
pub fn context_key(site: u32, stack: u64) -> u64 {
    crate::fnv64_from(stack, &site.to_le_bytes())
}

/// What `context_key` takes for the stack where something else tells contexts apart.
pub fn place_key(by: Contexts, node: u64, state: Option<u32>, stack: impl FnOnce() -> u64) -> u64 {
    match by {
        Contexts::Site => 0,
        Contexts::State => state_key(0, state),
        Contexts::Stack => stack(),
        Contexts::Node => crate::fnv64_from(stack(), &node.to_le_bytes()),
    }
}

/// One number for an access of data about nodes.
pub fn access_key(access: u32) -> u64 {
    crate::fnv64(&access.to_le_bytes())
}

/// One number for an abstract state of a node, given by the hash of its name.
pub fn state_key(node: u64, state: Option<u32>) -> u64 {
    let state = state.map_or(0, |s| s + 1);
    crate::fnv64_from(node, &state.to_le_bytes())
}

fn align(at: u64) -> u64 {
    at.next_multiple_of(64)
}

impl BoardSpec {
    /// The bytes of the board file, without the (all zero) process slots at its end, and the
    /// length the file must have. Write the bytes, then extend the file to the length.
    ///
    /// Where questions and slots are does not depend on the plan, if that fits into its room:
    /// processes that have joined can then be given another plan.
    pub fn encode(&self) -> (Vec<u8>, u64) {
        assert!(
            self.ring_units.is_power_of_two(),
            "ring_units must be a power of two"
        );
        let strings: Vec<u8> = self.faults.iter().flat_map(|f| f.class.bytes()).collect();
        let mut header = Header::zeroed();
        let mut at = size_of::<Header>() as u64;
        let mut place = |len: usize| {
            let here = align(at);
            at = here + len as u64;
            here
        };
        let points = Points {
            sites: self.arms.len() as u32,
            ..self.points
        };
        header.arms_at = place(points.total() as usize);
        header.asks_at = place(ASK_CELLS * size_of::<AskCell>());
        header.seen_at = place(SEEN as usize * 8);
        let plan_at = place(0);
        header.site_faults_at = place(self.site_faults.len() * size_of::<SiteFaults>());
        header.steps_at = place(self.steps.len() * size_of::<StepRec>());
        header.faults_at = place(self.faults.len() * size_of::<FaultRec>());
        header.contexts_at = place(self.contexts.len() * 8);
        header.barred_at = place(self.barred.len() * 8);
        header.strings_at = place(strings.len());
        let plan_end = place(0).max(plan_at + self.plan_room);
        let ring = self.ring_units as usize * 64;
        header.counters_in_slot = align(size_of::<SlotHeader>() as u64);
        let counters = u64::from(points.total()) * 4;
        header.coverage_in_slot = align(header.counters_in_slot + counters);
        header.visits_in_slot = align(header.coverage_in_slot + u64::from(self.block_count));
        let visits = VISITS as usize * size_of::<VisitRec>();
        header.moves_in_slot = align(header.visits_in_slot + visits as u64);
        let moves = MOVES as usize * size_of::<MoveRec>();
        header.ring_in_slot = align(header.moves_in_slot + moves as u64);
        // Whole pages, so that untouched slots never cost memory.
        header.slot_len = (header.ring_in_slot + ring as u64).next_multiple_of(4096);
        header.slots_at = plan_end.next_multiple_of(4096);
        header.file_len = header.slots_at + header.slot_len * u64::from(self.slots);
        header.magic = MAGIC;
        header.version = VERSION;
        header.catalog_hash = self.catalog_hash;
        header.seed = self.seed;
        header.site_count = points.sites;
        header.state_count = points.states;
        header.task_count = points.tasks;
        header.access_count = points.accesses;
        header.timeout_count = points.timeouts;
        header.counts = self.counts.into();
        header.block_count = self.block_count;
        header.step_count = self.steps.len() as u32;
        header.fault_count = self.faults.len() as u32;
        header.site_fault_count = self.site_faults.len() as u32;
        header.context_count = self.contexts.len() as u32;
        header.barred_count = self.barred.len() as u32;
        header.strings_len = strings.len() as u32;
        header.slot_count = self.slots;
        header.ring_units = self.ring_units;
        header.stacks_per_site = self.stacks_per_site;
        header.hits_per_site = self.hits_per_site;
        header.ask_deadline_ms = self.ask_deadline_ms;
        let first = if self.unarmed { NO_STEP } else { 0 };
        header.current_step = AtomicU32::new(first);
        header.hold = AtomicU32::new(self.hold.into());
        header.hold_after = self.hold_after;

        let mut out = vec![0u8; header.slots_at as usize];
        out[..size_of::<Header>()].copy_from_slice(header.bytes());
        let mut put = |at: u64, bytes: &[u8]| {
            out[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(header.arms_at, &self.arms);
        let arm = |tell: bool| if tell { ARM_POINT } else { 0 };
        for (number, count, tell) in [
            (
                points.number(PointId::State(0)),
                points.states + points.tasks,
                self.tell_states,
            ),
            (
                points.number(PointId::Access(0)),
                points.accesses,
                self.tell_accesses,
            ),
            (
                points.number(PointId::Timeout(0)),
                points.timeouts,
                self.tell_timeouts,
            ),
        ] {
            let arms = vec![arm(tell); count as usize];
            put(header.arms_at + u64::from(number), &arms);
        }
        for (i, (first, count)) in self.site_faults.iter().enumerate() {
            let rec = SiteFaults {
                first: *first,
                count: *count,
            };
            put(
                header.site_faults_at + (i * size_of::<SiteFaults>()) as u64,
                rec.bytes(),
            );
        }
        for (i, step) in self.steps.iter().enumerate() {
            let rec = StepRec::new(step);
            put(
                header.steps_at + (i * size_of::<StepRec>()) as u64,
                rec.bytes(),
            );
        }
        let mut text_at = 0u32;
        for (i, fault) in self.faults.iter().enumerate() {
            let rec = FaultRec::new(fault, text_at);
            text_at += fault.class.len() as u32;
            put(
                header.faults_at + (i * size_of::<FaultRec>()) as u64,
                rec.bytes(),
            );
        }
        for (at, keys) in [
            (header.contexts_at, &self.contexts),
            (header.barred_at, &self.barred),
        ] {
            let mut keys = keys.clone();
            keys.sort_unstable();
            for (i, key) in keys.iter().enumerate() {
                put(at + (i * 8) as u64, &key.to_le_bytes());
            }
        }
        put(header.strings_at, &strings);
        (out, header.file_len)
    }
}
