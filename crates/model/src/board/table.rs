//! Small tables on the board that many threads fill without locks and nobody empties.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::fnv64_from;

/// Places for visits in each process's part.
pub const VISITS: u32 = 1 << 12;
/// Places for moves in each process's part.
pub const MOVES: u32 = 1 << 10;
/// Places for what is new in a trial, of all processes together.
pub const SEEN: u32 = 1 << 12;

/// Hits of a site in a state under a stack, of one process.
#[repr(C)]
#[derive(Debug, Default)]
pub struct VisitRec {
    /// 0: free.
    key: AtomicU64,
    pub stack: AtomicU64,
    pub site: AtomicU32,
    /// Id of the state + 1; 0 outside all tasks.
    pub state: AtomicU32,
    pub hits: AtomicU32,
    /// Its place in the order of all nodes' first visits.
    pub first: AtomicU32,
}

/// A task went from one state into another, in one process.
#[repr(C)]
#[derive(Debug, Default)]
pub struct MoveRec {
    /// 0: free. Else the two states, each + 1; where the task began the first is 0.
    key: AtomicU64,
    count: AtomicU64,
}

const _: () = assert!(size_of::<VisitRec>() == 32);
const _: () = assert!(size_of::<MoveRec>() == 16);

/// What has a key that is 0 while its place is free.
trait Keyed {
    fn key(&self) -> &AtomicU64;
}

impl Keyed for VisitRec {
    fn key(&self) -> &AtomicU64 {
        &self.key
    }
}

impl Keyed for MoveRec {
    fn key(&self) -> &AtomicU64 {
        &self.key
    }
}

impl Keyed for AtomicU64 {
    fn key(&self) -> &AtomicU64 {
        self
    }
}

/// The place of a key, which may be taken now: of racing threads exactly one is told that it is
/// new. `None` when the table is full.
fn place<T: Keyed>(table: &[T], key: u64) -> Option<(&T, bool)> {
    let key = key.max(1);
    let start = (key ^ key >> 32) as usize;
    for step in 0..table.len() {
        let at = &table[(start + step) % table.len()];
        match at
            .key()
            .compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => return Some((at, true)),
            Err(known) if known == key => return Some((at, false)),
            Err(_) => {}
        }
    }
    None
}

/// Counts a hit; gives which one of its kind it is. `ticket` orders first visits. 0 when the table
/// is full.
pub fn count_visit(
    table: &[VisitRec],
    (site, state, stack): (u32, Option<u32>, u64),
    ticket: &AtomicU32,
) -> u32 {
    let state = state.map_or(0, |s| s + 1);
    let key = fnv64_from(stack, &site.to_le_bytes());
    let key = fnv64_from(key, &state.to_le_bytes());
    let Some((rec, new)) = place(table, key) else {
        return 0;
    };
    if new {
        rec.stack.store(stack, Ordering::Relaxed);
        rec.site.store(site, Ordering::Relaxed);
        rec.state.store(state, Ordering::Relaxed);
        let first = ticket.fetch_add(1, Ordering::Relaxed);
        rec.first.store(first, Ordering::Relaxed);
    }
    rec.hits.fetch_add(1, Ordering::AcqRel) + 1
}

/// Counts that a task went from one state (`None`: it began) into another.
pub fn count_move(table: &[MoveRec], from: Option<u32>, to: u32) {
    let from = from.map_or(0, |s| u64::from(s) + 1);
    if let Some((rec, _)) = place(table, from << 32 | (u64::from(to) + 1)) {
        rec.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether the key is seen for the first time in this trial.
pub fn is_first(table: &[AtomicU64], key: u64) -> bool {
    place(table, key).is_some_and(|(_, new)| new)
}

/// What a table says of hits of a site in a state under a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub site: u32,
    pub state: Option<u32>,
    /// 0: it was not walked.
    pub stack: u64,
    pub hits: u32,
    pub first: u32,
}

/// The visits in a table.
pub fn visits(table: &[VisitRec]) -> impl Iterator<Item = Counted> {
    let used = table.iter().filter(|r| r.hits.load(Ordering::Acquire) > 0);
    let read = |n: &AtomicU32| n.load(Ordering::Relaxed);
    used.map(move |r| Counted {
        site: read(&r.site),
        state: read(&r.state).checked_sub(1),
        stack: r.stack.load(Ordering::Relaxed),
        hits: read(&r.hits),
        first: read(&r.first),
    })
}

/// The moves in a table: from, to, how often.
pub fn moves(table: &[MoveRec]) -> impl Iterator<Item = (Option<u32>, u32, u64)> {
    let used = table.iter().filter_map(|r| {
        let key = r.key.load(Ordering::Acquire);
        (key != 0).then(|| (key, r.count.load(Ordering::Relaxed)))
    });
    used.map(|(key, count)| {
        let from = ((key >> 32) as u32).checked_sub(1);
        (from, key as u32 - 1, count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table<T: Default>(len: usize) -> Vec<T> {
        (0..len).map(|_| T::default()).collect()
    }

    #[test]
    fn visits_count_by_site_state_and_stack() {
        let (table, ticket) = (table::<VisitRec>(8), AtomicU32::new(0));
        let visit = |site, state, stack| count_visit(&table, (site, state, stack), &ticket);
        assert_eq!(visit(3, None, 7), 1);
        assert_eq!(visit(3, Some(0), 7), 1);
        assert_eq!(visit(3, None, 7), 2);
        let mut all: Vec<_> = visits(&table).collect();
        all.sort_by_key(|one| one.first);
        let counted = |state, hits, first| Counted {
            site: 3,
            state,
            stack: 7,
            hits,
            first,
        };
        assert_eq!(all, [counted(None, 2, 0), counted(Some(0), 1, 1)]);
    }

    #[test]
    fn a_full_table_counts_what_it_knows_and_nothing_else() {
        let (table, ticket) = (table::<VisitRec>(4), AtomicU32::new(0));
        for site in 0..4 {
            assert_eq!(count_visit(&table, (site, None, 0), &ticket), 1);
        }
        assert_eq!(count_visit(&table, (9, None, 0), &ticket), 0);
        assert_eq!(count_visit(&table, (2, None, 0), &ticket), 2);
    }

    #[test]
    fn moves_tell_where_tasks_began() {
        let table = table::<MoveRec>(8);
        count_move(&table, None, 0);
        count_move(&table, Some(0), 5);
        count_move(&table, Some(0), 5);
        let mut all: Vec<_> = moves(&table).collect();
        all.sort();
        assert_eq!(all, [(None, 0, 1), (Some(0), 5, 2)]);
    }

    #[test]
    fn of_many_threads_one_sees_a_key_first() {
        let table = table::<AtomicU64>(64);
        let first: usize = std::thread::scope(|scope| {
            let one = || (1..40).filter(|k| is_first(&table, *k)).count();
            let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(first, 39);
    }
}
