//! What the lab wants on a board, and the bytes of a fresh one.

use std::sync::atomic::AtomicU32;

use super::view::{AskCell, FaultRec, Header, SiteFaults, SlotHeader, StepRec};
use super::{ASK_CELLS, MAGIC, NO_STEP, VERSION};

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
}

impl TriggerKind {
    pub fn from_u32(value: u32) -> Option<Self> {
        use TriggerKind::*;
        [AtHit, Random, NewContext, Ask, Lab]
            .into_iter()
            .find(|k| *k as u32 == value)
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
    pub block_count: u32,
    pub steps: Vec<StepSpec>,
    pub faults: Vec<FaultSpec>,
    /// Per site, the range of `faults` it may take at random (`ANY_FAULT`). May be empty.
    pub site_faults: Vec<(u32, u32)>,
    /// Contexts already explored, for `NewContext`: `context_key(site, stack)`.
    pub contexts: Vec<u64>,
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
            block_count: 0,
            steps: Vec::new(),
            faults: Vec::new(),
            site_faults: Vec::new(),
            contexts: Vec::new(),
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
        header.arms_at = place(self.arms.len());
        header.asks_at = place(ASK_CELLS * size_of::<AskCell>());
        let plan_at = place(0);
        header.site_faults_at = place(self.site_faults.len() * size_of::<SiteFaults>());
        header.steps_at = place(self.steps.len() * size_of::<StepRec>());
        header.faults_at = place(self.faults.len() * size_of::<FaultRec>());
        header.contexts_at = place(self.contexts.len() * 8);
        header.strings_at = place(strings.len());
        let plan_end = place(0).max(plan_at + self.plan_room);
        let ring = self.ring_units as usize * 64;
        header.counters_in_slot = align(size_of::<SlotHeader>() as u64);
        header.coverage_in_slot = align(header.counters_in_slot + self.arms.len() as u64 * 4);
        header.ring_in_slot = align(header.coverage_in_slot + u64::from(self.block_count));
        // Whole pages, so that untouched slots never cost memory.
        header.slot_len = (header.ring_in_slot + ring as u64).next_multiple_of(4096);
        header.slots_at = plan_end.next_multiple_of(4096);
        header.file_len = header.slots_at + header.slot_len * u64::from(self.slots);
        header.magic = MAGIC;
        header.version = VERSION;
        header.catalog_hash = self.catalog_hash;
        header.seed = self.seed;
        header.site_count = self.arms.len() as u32;
        header.block_count = self.block_count;
        header.step_count = self.steps.len() as u32;
        header.fault_count = self.faults.len() as u32;
        header.site_fault_count = self.site_faults.len() as u32;
        header.context_count = self.contexts.len() as u32;
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
        let mut contexts = self.contexts.clone();
        contexts.sort_unstable();
        for (i, context) in contexts.iter().enumerate() {
            put(header.contexts_at + (i * 8) as u64, &context.to_le_bytes());
        }
        put(header.strings_at, &strings);
        (out, header.file_len)
    }
}
