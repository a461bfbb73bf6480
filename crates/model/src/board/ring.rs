//! The event ring of one process: many threads write, the lab reads, kill -9 loses nothing.
//!
//! Records take whole units of 64 bytes. A writer claims units by moving `head`, fills them and
//! commits by storing the record's position in its first word. A thread killed in between
//! leaves a hole; once the process is dead the reader steps over it unit by unit, because a
//! commit word is right for exactly one position. A full ring drops the new event and counts it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::view::SlotHeader;

const WORDS_PER_UNIT: usize = 8;
const UNIT: usize = 64;
/// Bytes before the body: commit word, then kind and length.
const PREFIX: usize = 16;

/// Longest body of a record.
pub const MAX_BODY: usize = 8 * 1024 - PREFIX;

/// A ring on a mapped board.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    slot: &'static SlotHeader,
    words: &'static [AtomicU64],
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord {
    pub kind: u16,
    pub body: Vec<u8>,
}

impl Ring {
    pub(super) fn new(slot: &'static SlotHeader, words: &'static [AtomicU64]) -> Ring {
        Ring { slot, words }
    }

    fn units(&self) -> u64 {
        (self.words.len() / WORDS_PER_UNIT) as u64
    }

    fn word(&self, unit: u64, word: usize) -> &'static AtomicU64 {
        let at = (unit % self.units()) as usize * WORDS_PER_UNIT + word;
        // Words run on into the next units, wrapping at the end of the ring.
        &self.words[at % self.words.len()]
    }

    /// Writes a record; false when the ring is full and the event was dropped (and counted).
    pub fn write(&self, kind: u16, body: &[u8]) -> bool {
        let body = &body[..body.len().min(MAX_BODY)];
        let units = (PREFIX + body.len()).div_ceil(UNIT) as u64;
        let Some(head) = self.claim(self.slot.head.load(Ordering::Relaxed), units) else {
            self.slot.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let meta = u64::from(kind) << 32 | body.len() as u64;
        self.word(head, 1).store(meta, Ordering::Relaxed);
        for (i, chunk) in body.chunks(8).enumerate() {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(head, 2 + i)
                .store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        self.word(head, 0).store(head + 1, Ordering::Release);
        true
    }

    /// Takes units at the head, which was `head` a while ago: others may have written, and the lab
    /// read, beyond it since. None when the ring is full.
    fn claim(&self, mut head: u64, units: u64) -> Option<u64> {
        loop {
            let tail = self.slot.tail.load(Ordering::Acquire);
            if head + units > tail + self.units() {
                return None;
            }
            match self.slot.head.compare_exchange_weak(
                head,
                head + units,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(head),
                Err(now) => head = now,
            }
        }
    }

    /// The next record, oldest first. `dead`: the process is gone, so holes are stepped over.
    /// Only one reader may call this.
    pub fn read(&self, dead: bool) -> Option<RawRecord> {
        let mut tail = self.slot.tail.load(Ordering::Relaxed);
        let head = self.slot.head.load(Ordering::Acquire);
        while tail < head {
            if let Some((record, units)) = self.record_at(tail, head) {
                self.slot.tail.store(tail + units, Ordering::Release);
                return Some(record);
            }
            if !dead {
                return None;
            }
            tail += 1;
            self.slot.tail.store(tail, Ordering::Release);
        }
        None
    }

    fn record_at(&self, at: u64, head: u64) -> Option<(RawRecord, u64)> {
        if self.word(at, 0).load(Ordering::Acquire) != at + 1 {
            return None;
        }
        let meta = self.word(at, 1).load(Ordering::Relaxed);
        let len = (meta & 0xffff_ffff) as usize;
        let units = (PREFIX + len).div_ceil(UNIT) as u64;
        if len > MAX_BODY || at + units > head {
            return None;
        }
        let mut body = Vec::with_capacity(len.next_multiple_of(8));
        for i in 0..len.div_ceil(8) {
            let word = self.word(at, 2 + i).load(Ordering::Relaxed);
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.truncate(len);
        Some((
            RawRecord {
                kind: (meta >> 32) as u16,
                body,
            },
            units,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(units: usize) -> Ring {
        // SAFETY: all-zero is a fresh slot header.
        let slot: SlotHeader = unsafe { std::mem::zeroed() };
        let words = (0..units * WORDS_PER_UNIT)
            .map(|_| AtomicU64::new(0))
            .collect::<Vec<_>>();
        Ring::new(Box::leak(Box::new(slot)), words.leak())
    }

    #[test]
    fn records_come_back_in_order_across_the_wrap() {
        let ring = ring(8);
        for round in 0..100u8 {
            let body = vec![round; usize::from(round)];
            assert!(ring.write(3, &body));
            assert!(ring.write(4, &[round]));
            assert_eq!(ring.read(false), Some(RawRecord { kind: 3, body }));
            assert_eq!(ring.read(false).unwrap().body, [round]);
            assert_eq!(ring.read(false), None);
        }
    }

    #[test]
    fn a_full_ring_drops_and_counts() {
        let ring = ring(4);
        assert_eq!((0..6).filter(|_| ring.write(1, &[0; 40])).count(), 4);
        assert_eq!(ring.slot.dropped.load(Ordering::Relaxed), 2);
        assert!(ring.read(false).is_some());
        assert!(ring.write(1, &[]));
    }

    #[test]
    fn a_hole_left_by_a_dead_writer_is_stepped_over() {
        let ring = ring(16);
        assert!(ring.write(1, b"before"));
        ring.slot.head.fetch_add(3, Ordering::Relaxed); // claimed, never committed
        assert!(ring.write(1, b"after"));
        assert_eq!(ring.read(false).unwrap().body, b"before");
        assert_eq!(ring.read(false), None, "a live writer may still commit");
        assert_eq!(ring.read(true).unwrap().body, b"after");
        assert_eq!(ring.read(true), None);
    }

    #[test]
    fn a_writer_that_was_overtaken_finds_the_head_again() {
        let ring = ring(4);
        for _ in 0..10 {
            assert!(ring.write(1, &[]) && ring.read(false).is_some());
        }
        assert_eq!(ring.claim(0, 1), Some(10));
    }

    #[test]
    fn many_writers_lose_nothing() {
        let ring = ring(1 << 12);
        let seen = std::thread::scope(|scope| {
            for writer in 0..4u8 {
                scope.spawn(move || {
                    for i in 0..5_000u32 {
                        let mut body = vec![writer];
                        body.extend_from_slice(&i.to_le_bytes());
                        while !ring.write(1, &body) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut next = [0u32; 4];
            while next.iter().any(|n| *n < 5_000) {
                if let Some(record) = ring.read(false) {
                    let i = u32::from_le_bytes(record.body[1..5].try_into().unwrap());
                    let expected = &mut next[usize::from(record.body[0])];
                    assert_eq!(i, *expected);
                    *expected += 1;
                } else {
                    std::thread::yield_now();
                }
            }
            next
        });
        assert_eq!(seen, [5_000; 4]);
    }
}
