//! The trial's board as a file: made, mapped, and read as the nodes write it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use memmap2::MmapMut;
use temblor_model::board::NO_STEP;
use temblor_model::board::record::Record;
use temblor_model::board::spec::BoardSpec;
use temblor_model::board::table::{self, Counted};
use temblor_model::board::view::{AskCell, Board, ask};
use temblor_model::event::What;
use temblor_model::visit::{self, Move, Visit};

use crate::LabError;

/// The board's file in a trial's folder.
pub const BOARD_FILE: &str = "board";

/// Where one question was asked, others often follow: the next one is looked for this long before
/// the lab sleeps again, since waking up takes longer than answering.
const LOOK: Duration = Duration::from_micros(100);

/// A board that this process made and may read.
pub struct BoardFile {
    board: Board,
    path: PathBuf,
    /// A question was handed out, and no time has passed without one since.
    in_demand: AtomicBool,
    /// Keeps the mapping alive; only ever touched through `board`.
    _map: MmapMut,
}

impl BoardFile {
    /// Writes a fresh board and maps it.
    pub fn create(path: &Path, spec: &BoardSpec) -> Result<BoardFile, LabError> {
        let failed = |cause| LabError::io("write the board", path, cause);
        let (bytes, len) = spec.encode();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        file.set_len(len).map_err(failed)?;
        reserve(&file, len).map_err(failed)?;
        // SAFETY: the file is this trial's own; nobody truncates it while it is mapped.
        let mut map = unsafe { MmapMut::map_mut(&file) }.map_err(failed)?;
        // SAFETY: the mapping is page-aligned, shared and lives as long as `self`; the views
        // handed out do not outlive the trial, which owns `self`.
        let board = unsafe { Board::at(map.as_mut_ptr(), map.len()) }
            .map_err(|e| LabError::Internal(format!("a fresh board is unusable: {e}")))?;
        // Nodes open it from folders of their own.
        let path = path.canonicalize().map_err(failed)?;
        Ok(BoardFile {
            board,
            path,
            in_demand: AtomicBool::new(false),
            _map: map,
        })
    }

    pub fn board(&self) -> Board {
        self.board
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Index of the step that waits; all before it have fired.
    pub fn current_step(&self) -> u32 {
        match self.board.header().current_step.load(Ordering::Acquire) {
            NO_STEP => 0,
            step => step,
        }
    }

    /// Lets the first step fire, where it has waited for that.
    pub fn arm(&self) {
        let step = &self.board.header().current_step;
        let _ = step.compare_exchange(NO_STEP, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Delays that have begun end.
    pub fn end_delays(&self) {
        self.board.header().heals.fetch_add(1, Ordering::AcqRel);
    }

    /// The names of the nodes whose processes are all held.
    pub fn held(&self) -> Vec<String> {
        let is_held = |s: &u32| self.board.slot(*s).held.load(Ordering::Acquire) > 0;
        (0..self.slots_used())
            .filter(is_held)
            .filter_map(|s| self.board.joined(s).map(|(name, _)| name))
            .collect()
    }

    /// Whether whoever comes to a hook waits there.
    pub fn holds(&self) -> bool {
        self.board.header().hold.load(Ordering::Acquire) != 0
    }

    /// Takes what the nodes have written since the last call. `dead` tells for a slot's name
    /// and process id whether its process is gone, so that holes are stepped over.
    pub fn drain(&self, dead: impl Fn(&str, u32) -> bool) -> Vec<(String, Record)> {
        let mut out = Vec::new();
        for slot in 0..self.slots_used() {
            let Some((name, pid)) = self.board.joined(slot) else {
                continue;
            };
            let gone = dead(&name, pid);
            let ring = self.board.ring(slot);
            while let Some(raw) = ring.read(gone) {
                if let Some(record) = Record::decode(raw.kind, &raw.body) {
                    out.push((name.clone(), record));
                }
            }
        }
        out
    }

    /// Events that found a ring full, over all processes.
    pub fn dropped(&self) -> u64 {
        let slot = |s| self.board.slot(s).dropped.load(Ordering::Relaxed);
        (0..self.slots_used()).map(slot).sum()
    }

    /// The basic blocks that were reached in any process.
    pub fn covered_blocks(&self) -> Vec<u32> {
        let mut covered = Vec::new();
        let slots: Vec<_> = (0..self.slots_used())
            .map(|s| self.board.coverage(s))
            .collect();
        for block in 0..self.board.header().block_count {
            let reached = |s: &&[AtomicU8]| s[block as usize].load(Ordering::Relaxed) != 0;
            if slots.iter().any(reached) {
                covered.push(block);
            }
        }
        covered
    }

    /// What each process came by, where that was counted.
    pub fn visited(&self) -> Vec<What> {
        if self.board.header().counts == 0 {
            return Vec::new();
        }
        let mut told = Vec::new();
        for slot in 0..self.slots_used() {
            let Some((node, _)) = self.board.joined(slot) else {
                continue;
            };
            let visit = |one: Counted| Visit {
                node: node.clone(),
                state: one.state,
                site: one.site,
                hits: one.hits,
                first: one.first,
                in_memory: self.board.is_barred(one.site, one.stack),
            };
            let one = |(from, to, count): (_, _, u64)| Move {
                node: node.clone(),
                from,
                to,
                count: u32::try_from(count).unwrap_or(u32::MAX),
            };
            let visits: Vec<Visit> = table::visits(self.board.visits(slot)).map(visit).collect();
            let moves: Vec<Move> = table::moves(self.board.moves(slot)).map(one).collect();
            let visits = visit::summed(visits);
            told.push(What::Visited {
                node: node.clone(),
                visits,
            });
            told.push(What::Moved { node, moves });
        }
        told
    }

    /// Some process had no room to count all that it came by.
    pub fn lost_visits(&self) -> bool {
        let is_full = |s| table::visits(self.board.visits(s)).count() == table::VISITS as usize;
        self.board.header().counts != 0 && (0..self.slots_used()).any(is_full)
    }

    fn slots_used(&self) -> u32 {
        let h = self.board.header();
        h.next_slot.load(Ordering::Acquire).min(h.slot_count)
    }

    /// Waits for a question, at most this long. A question is answered by [`answer`].
    pub fn wait_question(&self, limit: Duration) -> Option<&'static AskCell> {
        let bell = &self.board.header().doorbell;
        let seen = bell.load(Ordering::Acquire);
        let open = || {
            let asked = |c: &&AskCell| c.state.load(Ordering::Acquire) == ask::ASKED;
            self.board.asks().iter().find(asked)
        };
        let until = Instant::now() + LOOK.min(limit);
        let mut question = open();
        while question.is_none() && self.in_demand.load(Ordering::Relaxed) && Instant::now() < until
        {
            std::thread::yield_now();
            question = open();
        }
        let question = question.or_else(|| {
            futex_wait(bell, seen, limit);
            open()
        });
        self.in_demand.store(question.is_some(), Ordering::Relaxed);
        question
    }
}

/// Reserves the file's space, so that a full disk is an error now and not a SIGBUS later in
/// whoever writes to the mapping.
fn reserve(file: &std::fs::File, len: u64) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: plain system call on a file descriptor we own.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) } {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}

/// Answers a question and wakes who asked. 0: go on; n + 1: inject fault n.
pub fn answer(cell: &AskCell, value: u32) {
    cell.answer.store(value, Ordering::Relaxed);
    let state = &cell.state;
    let asked = state.compare_exchange(
        ask::ASKED,
        ask::ANSWERED,
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    if asked.is_ok() {
        futex_wake(state);
    }
}

fn futex_wait(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: the word is mapped and aligned; the timespec outlives the call. Not private: the
    // other side is another process.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            seen,
            &limit as *const libc::timespec,
        );
    }
}

fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is mapped and aligned.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}
