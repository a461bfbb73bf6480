//! A mapped board: its records, and their places as atomics. The crate's only unsafe code.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::ring::Ring;
use super::spec::{FaultSpec, Points, StepSpec, context_key};
use super::table::{MOVES, MoveRec, SEEN, VISITS, VisitRec};
use super::{ASK_CELLS, MAGIC, NAME_LEN, VERSION};
use crate::site::SiteId;

macro_rules! plain {
    ($($t:ty),*) => {$(impl $t {
        /// The record's bytes, as they stand on the board.
        pub fn bytes(&self) -> &[u8] {
            // SAFETY: the type is repr(C), has no padding (asserted below) and only integers
            // or atomics of integers, so that every byte is initialised.
            unsafe { std::slice::from_raw_parts((self as *const Self).cast(), size_of::<Self>()) }
        }
    })*};
}

/// The first page of a board.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    pub magic: u64,
    pub file_len: u64,
    pub catalog_hash: u64,
    pub seed: u64,
    pub arms_at: u64,
    pub site_faults_at: u64,
    pub steps_at: u64,
    pub faults_at: u64,
    pub contexts_at: u64,
    pub barred_at: u64,
    pub strings_at: u64,
    pub asks_at: u64,
    pub seen_at: u64,
    pub slots_at: u64,
    pub slot_len: u64,
    pub counters_in_slot: u64,
    pub coverage_in_slot: u64,
    pub visits_in_slot: u64,
    pub moves_in_slot: u64,
    pub ring_in_slot: u64,
    pub version: u32,
    pub site_count: u32,
    /// Other points with an arm byte, after the sites and in this order.
    pub state_count: u32,
    pub task_count: u32,
    pub access_count: u32,
    pub timeout_count: u32,
    pub block_count: u32,
    pub step_count: u32,
    pub fault_count: u32,
    pub site_fault_count: u32,
    pub context_count: u32,
    pub barred_count: u32,
    pub strings_len: u32,
    pub slot_count: u32,
    pub ring_units: u32,
    pub stacks_per_site: u32,
    pub hits_per_site: u32,
    pub ask_deadline_ms: u32,
    /// The cluster-wide step counter: the step that may fire next.
    pub current_step: AtomicU32,
    /// Slots handed out so far.
    pub next_slot: AtomicU32,
    /// Changes with every question; the lab waits on it.
    pub doorbell: AtomicU32,
    /// 1: whoever comes to a hook waits there.
    pub hold: AtomicU32,
    /// `hold` becomes 1 when so many steps have fired; 0: never.
    pub hold_after: u32,
    /// 1: visits and moves are counted.
    pub counts: u32,
    /// Orders first visits.
    pub ticket: AtomicU32,
    /// Changes when the lab heals: delays that had begun end.
    pub heals: AtomicU32,
}

/// A step of the plan.
#[repr(C)]
#[derive(Debug)]
pub struct StepRec {
    pub node: u64,
    pub stack: u64,
    /// A drawn u64 below this fires.
    pub threshold: u64,
    pub trigger: u32,
    pub site: u32,
    pub nth: u32,
    pub fault: u32,
    /// Matching hits since the step became current.
    pub count: AtomicU32,
    /// Id of the state + 1, 0 outside all tasks, or [`super::ANY_STATE`].
    pub state: u32,
    /// Limit of `AfterAccess`, real nanoseconds.
    pub within_ns: u32,
    /// One of [`Contexts`].
    pub by: u32,
    pub spare: [u32; 2],
}

/// A fault of the plan or of a site.
#[repr(C)]
#[derive(Debug)]
pub struct FaultRec {
    pub amount: u64,
    pub kind: u32,
    pub class_at: u32,
    pub class_len: u32,
    pub spare: u32,
}

/// The faults a site may take.
#[repr(C)]
#[derive(Debug)]
pub struct SiteFaults {
    pub first: u32,
    pub count: u32,
}

/// States of an [`AskCell`].
pub mod ask {
    pub const FREE: u32 = 0;
    pub const CLAIMED: u32 = 1;
    pub const ASKED: u32 = 2;
    pub const ANSWERED: u32 = 3;
}

/// A question of an agent to the lab. The state word is a futex.
#[repr(C)]
#[derive(Debug)]
pub struct AskCell {
    pub state: AtomicU32,
    pub slot: AtomicU32,
    pub step: AtomicU32,
    pub site: AtomicU32,
    pub stack: AtomicU64,
    pub count: AtomicU32,
    /// 0: go on; n + 1: inject fault n; on a question about a lab fault: it was done.
    pub answer: AtomicU32,
    pub spare: [AtomicU64; 4],
}

/// The head of a process's part of the board.
#[repr(C)]
#[derive(Debug)]
pub struct SlotHeader {
    /// 0 free, 1 being filled, 2 in use.
    pub state: AtomicU32,
    pub pid: AtomicU32,
    pub name: [AtomicU8; NAME_LEN],
    /// Units written and units read; the difference is what waits for the lab.
    pub head: AtomicU64,
    pub tail: AtomicU64,
    /// Events that found the ring full.
    pub dropped: AtomicU64,
    /// Classes rewritten, and left alone though planned.
    pub rewritten: AtomicU32,
    pub left_alone: AtomicU32,
    /// Threads that wait because of `Header::hold`.
    pub held: AtomicU32,
    pub small_spare: AtomicU32,
    pub spare: [AtomicU64; 4],
}

plain!(Header, StepRec, FaultRec, SiteFaults);

const _: () = assert!(size_of::<Header>() == 20 * 8 + 25 * 4 + 4);
const _: () = assert!(size_of::<StepRec>() == 64);
const _: () = assert!(size_of::<FaultRec>() == 24);
const _: () = assert!(size_of::<AskCell>() == 64);
const _: () = assert!(size_of::<SlotHeader>() == 128);

impl Header {
    pub fn zeroed() -> Header {
        // SAFETY: integers and atomics of integers; all-zero is a value of each.
        unsafe { std::mem::zeroed() }
    }

    pub fn points(&self) -> Points {
        Points {
            sites: self.site_count,
            states: self.state_count,
            tasks: self.task_count,
            accesses: self.access_count,
            timeouts: self.timeout_count,
        }
    }
}

impl StepRec {
    pub fn new(step: &StepSpec) -> StepRec {
        // 2^64 as a float rounds up to itself; the cast saturates, so rate 1 always fires.
        let threshold = (step.rate.clamp(0.0, 1.0) * 18_446_744_073_709_551_616.0) as u64;
        StepRec {
            node: step.node,
            stack: step.stack,
            threshold,
            trigger: step.trigger as u32,
            site: step.site,
            nth: step.nth,
            fault: step.fault,
            count: AtomicU32::new(0),
            state: step.state,
            by: step.by as u32,
            within_ns: step.within_ns,
            spare: [0; 2],
        }
    }
}

impl FaultRec {
    pub fn new(fault: &FaultSpec, class_at: u32) -> FaultRec {
        FaultRec {
            amount: fault.amount,
            kind: fault.kind as u32,
            class_at,
            class_len: fault.class.len() as u32,
            spare: 0,
        }
    }
}

/// Why a board cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBoard(pub String);

impl std::fmt::Display for BadBoard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for BadBoard {}

/// A view of a mapped board.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    base: *const u8,
}

// SAFETY: all shared mutable parts are reached as atomics; the rest is written before the file
// is handed out and never changes.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

impl Board {
    /// Takes a mapping for a board after checking every offset in it.
    ///
    /// # Safety
    /// `base` must be page-aligned, mapped shared, readable and writable for `len` bytes for as
    /// long as the returned view or anything borrowed from it is used.
    pub unsafe fn at(base: *const u8, len: usize) -> Result<Board, BadBoard> {
        let bad = |text: String| Err(BadBoard(text));
        if len < size_of::<Header>() {
            return bad(format!("the board has only {len} bytes"));
        }
        let board = Board { base };
        let h = board.header();
        if h.magic != MAGIC {
            return bad("the file is not a board".into());
        }
        if h.version != VERSION {
            let theirs = h.version;
            return bad(format!(
                "board version {theirs}, this build speaks version {VERSION}"
            ));
        }
        if h.file_len != len as u64 {
            return bad(format!(
                "the board says {} bytes, the file has {len}",
                h.file_len
            ));
        }
        let end = |at: u64, count: u64, size: usize| {
            count
                .checked_mul(size as u64)
                .and_then(|n| n.checked_add(at))
        };
        let points = u64::from(h.points().total());
        let ends = [
            end(h.arms_at, points, 1),
            end(
                h.site_faults_at,
                h.site_fault_count.into(),
                size_of::<SiteFaults>(),
            ),
            end(h.steps_at, h.step_count.into(), size_of::<StepRec>()),
            end(h.faults_at, h.fault_count.into(), size_of::<FaultRec>()),
            end(h.contexts_at, h.context_count.into(), 8),
            end(h.barred_at, h.barred_count.into(), 8),
            end(h.seen_at, SEEN.into(), 8),
            end(h.strings_at, h.strings_len.into(), 1),
            end(h.asks_at, ASK_CELLS as u64, size_of::<AskCell>()),
        ];
        let parts_fit = ends.iter().all(|e| e.is_some_and(|e| e <= h.slots_at));
        let slots_end = h.slot_len.checked_mul(h.slot_count.into());
        let slots_fit = slots_end
            .and_then(|n| n.checked_add(h.slots_at))
            .is_some_and(|e| e <= len as u64);
        let ring_end = end(h.ring_in_slot, h.ring_units.into(), 64);
        let slot_fits = h.ring_units.is_power_of_two()
            && end(h.counters_in_slot, points, 4).is_some_and(|e| e <= h.coverage_in_slot)
            && end(h.coverage_in_slot, h.block_count.into(), 1)
                .is_some_and(|e| e <= h.visits_in_slot)
            && end(h.visits_in_slot, VISITS.into(), size_of::<VisitRec>())
                .is_some_and(|e| e <= h.moves_in_slot)
            && end(h.moves_in_slot, MOVES.into(), size_of::<MoveRec>())
                .is_some_and(|e| e <= h.ring_in_slot)
            && ring_end.is_some_and(|e| e <= h.slot_len);
        let offsets = [
            h.arms_at,
            h.site_faults_at,
            h.steps_at,
            h.faults_at,
            h.contexts_at,
            h.barred_at,
            h.strings_at,
            h.asks_at,
            h.seen_at,
            h.slots_at,
            h.slot_len,
            h.counters_in_slot,
            h.coverage_in_slot,
            h.visits_in_slot,
            h.moves_in_slot,
            h.ring_in_slot,
        ];
        if !(parts_fit && slots_fit && slot_fits && offsets.iter().all(|o| o % 64 == 0)) {
            return bad("the board's parts do not fit into the file".into());
        }
        Ok(board)
    }

    fn part<T>(&self, at: u64, count: u32) -> &'static [T] {
        // SAFETY: `at` checked the range and alignment of every part; the mapping outlives the
        // view by the contract of `at`. T is plain data or atomics.
        unsafe { std::slice::from_raw_parts(self.base.add(at as usize).cast(), count as usize) }
    }

    pub fn header(&self) -> &'static Header {
        // SAFETY: the mapping is at least a header long and page-aligned.
        unsafe { &*self.base.cast() }
    }

    pub fn base(&self) -> *const u8 {
        self.base
    }

    /// Of sites, then of the other points.
    pub fn arms(&self) -> &'static [AtomicU8] {
        self.part(self.header().arms_at, self.header().points().total())
    }

    pub fn steps(&self) -> &'static [StepRec] {
        self.part(self.header().steps_at, self.header().step_count)
    }

    pub fn faults(&self) -> &'static [FaultRec] {
        self.part(self.header().faults_at, self.header().fault_count)
    }

    pub fn site_faults(&self, site: u32) -> Option<&'static SiteFaults> {
        let all: &[SiteFaults] =
            self.part(self.header().site_faults_at, self.header().site_fault_count);
        all.get(site as usize)
    }

    /// Sorted context keys.
    pub fn contexts(&self) -> &'static [u64] {
        self.part(self.header().contexts_at, self.header().context_count)
    }

    /// Sorted keys of contexts in which no step fires that leaves the site open.
    pub fn barred(&self) -> &'static [u64] {
        self.part(self.header().barred_at, self.header().barred_count)
    }

    /// Whether no such step fires at the site under this stack.
    pub fn is_barred(&self, site: SiteId, stack: u64) -> bool {
        let key = context_key(site, stack);
        self.barred().binary_search(&key).is_ok()
    }

    /// What was new in this trial.
    pub fn seen(&self) -> &'static [AtomicU64] {
        self.part(self.header().seen_at, SEEN)
    }

    pub fn class_of(&self, fault: &FaultRec) -> &'static str {
        let strings: &[u8] = self.part(self.header().strings_at, self.header().strings_len);
        let from = fault.class_at as usize;
        let bytes = strings
            .get(from..from + fault.class_len as usize)
            .unwrap_or(&[]);
        std::str::from_utf8(bytes).unwrap_or("")
    }

    pub fn asks(&self) -> &'static [AskCell] {
        self.part(self.header().asks_at, ASK_CELLS as u32)
    }

    fn slot_at(&self, slot: u32) -> u64 {
        assert!(
            slot < self.header().slot_count,
            "slot {slot} is not on the board"
        );
        self.header().slots_at + self.header().slot_len * u64::from(slot)
    }

    pub fn slot(&self, slot: u32) -> &'static SlotHeader {
        &self.part::<SlotHeader>(self.slot_at(slot), 1)[0]
    }

    /// Hits per site of one process.
    pub fn counters(&self, slot: u32) -> &'static [AtomicU32] {
        let h = self.header();
        self.part(self.slot_at(slot) + h.counters_in_slot, h.site_count)
    }

    /// What one process came by.
    pub fn visits(&self, slot: u32) -> &'static [VisitRec] {
        self.part(self.slot_at(slot) + self.header().visits_in_slot, VISITS)
    }

    /// How the tasks of one process went from state to state.
    pub fn moves(&self, slot: u32) -> &'static [MoveRec] {
        self.part(self.slot_at(slot) + self.header().moves_in_slot, MOVES)
    }

    /// One byte per basic block of one process.
    pub fn coverage(&self, slot: u32) -> &'static [AtomicU8] {
        let h = self.header();
        self.part(self.slot_at(slot) + h.coverage_in_slot, h.block_count)
    }

    pub fn ring(&self, slot: u32) -> Ring {
        let h = self.header();
        let words = self.part(self.slot_at(slot) + h.ring_in_slot, h.ring_units * 8);
        Ring::new(self.slot(slot), words)
    }

    /// Takes the next free slot for a process. `None` when all are taken.
    pub fn join(&self, name: &str, pid: u32) -> Option<u32> {
        let h = self.header();
        let slot = h.next_slot.fetch_add(1, Ordering::Relaxed);
        if slot >= h.slot_count {
            return None;
        }
        let head = self.slot(slot);
        head.state.store(1, Ordering::Relaxed);
        head.pid.store(pid, Ordering::Relaxed);
        for (place, byte) in head.name.iter().zip(name.bytes().take(NAME_LEN)) {
            place.store(byte, Ordering::Relaxed);
        }
        head.state.store(2, Ordering::Release);
        Some(slot)
    }

    /// Name and process id of a slot in use.
    pub fn joined(&self, slot: u32) -> Option<(String, u32)> {
        let head = self.slot(slot);
        if head.state.load(Ordering::Acquire) != 2 {
            return None;
        }
        let bytes: Vec<u8> = head
            .name
            .iter()
            .map(|b| b.load(Ordering::Relaxed))
            .collect();
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        let name = String::from_utf8_lossy(&bytes[..end]).into_owned();
        Some((name, head.pid.load(Ordering::Relaxed)))
    }

    /// Puts the state of another board here: who has joined, what they have counted, written and
    /// asked. Only the plan stays. False when the two are not alike.
    ///
    /// Nobody may write to either board meanwhile: the processes of both are frozen, or not there.
    pub fn inherit(&self, other: &Board) -> bool {
        let (mine, theirs) = (self.header(), other.header());
        let shape = |h: &Header| {
            let places = [h.arms_at, h.asks_at, h.slots_at, h.slot_len, h.file_len];
            (places, h.catalog_hash, h.points(), h.block_count)
        };
        if shape(mine) != shape(theirs) {
            return false;
        }
        let slots = theirs.next_slot.load(Ordering::Acquire);
        let slots_end = mine.slot_len * u64::from(slots.min(mine.slot_count));
        let asks = (mine.asks_at, (ASK_CELLS * size_of::<AskCell>()) as u64);
        for (at, len) in [asks, (mine.slots_at, slots_end)] {
            let words = (len / 8) as u32;
            let to = self.part::<AtomicU64>(at, words);
            for (to, from) in to.iter().zip(other.part::<AtomicU64>(at, words)) {
                let word = from.load(Ordering::Relaxed);
                // Pages that nobody has used stay untouched.
                if word != 0 {
                    to.store(word, Ordering::Relaxed);
                }
            }
        }
        mine.next_slot.store(slots, Ordering::Release);
        let rings = theirs.doorbell.load(Ordering::Acquire);
        mine.doorbell.store(rings, Ordering::Release);
        true
    }

    /// Moves the step counter from `step` to the next: true for exactly one caller.
    pub fn take_step(&self, step: u32) -> bool {
        let counter = &self.header().current_step;
        counter
            .compare_exchange(step, step + 1, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::{BoardSpec, FaultKind, FaultSpec, TriggerKind};
    use super::*;

    /// A board in private memory.
    pub struct Memory(Vec<u128>, usize);

    impl Memory {
        pub fn of(spec: &BoardSpec) -> Memory {
            let (bytes, len) = spec.encode();
            let mut words = vec![0u128; (len as usize).div_ceil(16)];
            // SAFETY: the vector has at least `bytes.len()` bytes.
            unsafe {
                let to = words.as_mut_ptr().cast::<u8>();
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            }
            Memory(words, len as usize)
        }

        pub fn board(&self) -> Result<Board, BadBoard> {
            // SAFETY: the memory lives as long as the test.
            unsafe { Board::at(self.0.as_ptr().cast(), self.1) }
        }
    }

    fn spec() -> BoardSpec {
        BoardSpec {
            arms: vec![0, 1, 2],
            block_count: 10,
            steps: vec![StepSpec {
                trigger: TriggerKind::AtHit,
                site: 2,
                node: 5,
                stack: 0,
                nth: 3,
                rate: 1.0,
                fault: 1,
                ..StepSpec::default()
            }],
            faults: vec![
                FaultSpec {
                    kind: FaultKind::Delay,
                    amount: 60_000,
                    class: String::new(),
                },
                FaultSpec {
                    kind: FaultKind::Throw,
                    amount: 0,
                    class: "java/io/EOFException".into(),
                },
            ],
            contexts: vec![9, 3],
            ring_units: 64,
            slots: 2,
            ..BoardSpec::default()
        }
    }

    #[test]
    fn a_board_reads_back_what_was_specified() {
        let memory = Memory::of(&spec());
        let board = memory.board().unwrap();
        assert_eq!(board.arms()[2].load(Ordering::Relaxed), 2);
        assert_eq!(board.steps()[0].nth, 3);
        assert_eq!(board.class_of(&board.faults()[1]), "java/io/EOFException");
        assert_eq!(board.contexts(), [3, 9]);
        assert_eq!(board.coverage(1).len(), 10);
        assert!(board.take_step(0) && !board.take_step(0));
    }

    #[test]
    fn processes_join_until_the_slots_are_taken() {
        let memory = Memory::of(&spec());
        let board = memory.board().unwrap();
        assert_eq!(board.join("n1", 77), Some(0));
        assert_eq!(board.join("n2", 78), Some(1));
        assert_eq!(board.join("n3", 79), None);
        assert_eq!(board.joined(1), Some(("n2".into(), 78)));
    }

    #[test]
    fn another_plan_takes_over_what_was_joined_counted_and_written() {
        let (old, new) = (
            Memory::of(&spec()),
            Memory::of(&BoardSpec {
                steps: Vec::new(),
                hold: true,
                ..spec()
            }),
        );
        let (old, new) = (old.board().unwrap(), new.board().unwrap());
        assert_eq!(old.join("n1", 77), Some(0));
        old.counters(0)[2].store(5, Ordering::Relaxed);
        assert!(old.ring(0).write(1, b"not read yet"));
        assert!(new.inherit(&old));
        assert_eq!(new.joined(0), Some(("n1".into(), 77)));
        assert_eq!(new.counters(0)[2].load(Ordering::Relaxed), 5);
        assert_eq!(new.ring(0).read(false).unwrap().body, b"not read yet");
        assert_eq!(new.join("n2", 78), Some(1));
        assert!(new.steps().is_empty() && new.header().hold.load(Ordering::Relaxed) == 1);
        let wider = BoardSpec {
            block_count: 999_999,
            ..spec()
        };
        assert!(!Memory::of(&wider).board().unwrap().inherit(&old));
    }

    #[test]
    fn a_damaged_header_is_refused() {
        for (word, value) in [(0, 0u64), (1, 1), (4, 1 << 60), (11, 3), (13, u64::MAX)] {
            let mut memory = Memory::of(&spec());
            let words: &mut [u128] = &mut memory.0;
            let half = word % 2 * 64;
            let keep = !(u128::from(u64::MAX) << half);
            words[word / 2] = words[word / 2] & keep | u128::from(value) << half;
            assert!(memory.board().is_err(), "word {word}");
        }
    }
}
