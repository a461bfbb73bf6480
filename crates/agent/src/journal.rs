//! What this process writes into its ring.

use std::collections::HashSet;
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use temblor_model::board::record::{Record, RecordWhat};
use temblor_model::board::ring::Ring;

use crate::clock;
use crate::stack::Stack;

/// Pauses of real milliseconds while evidence of a fault waits for room in a full ring. Few,
/// because the ring counts every attempt as a dropped event.
const PAUSES_MS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Writes records; knows which contexts it has told already.
#[derive(Debug)]
pub struct Journal {
    ring: Ring,
    told: Mutex<HashSet<u64>>,
}

impl Journal {
    pub fn new(ring: Ring) -> Journal {
        Journal {
            ring,
            told: Mutex::default(),
        }
    }

    /// False when the ring was full: the record is lost, and counted.
    pub fn write(&self, what: RecordWhat) -> bool {
        let (kind, body) = Record {
            at_ns: clock::now_ns(),
            what,
        }
        .encode();
        self.ring.write(kind, &body)
    }

    /// Waits a while for room: without this record nobody knows that the fault was made.
    pub fn write_evidence(&self, what: RecordWhat) {
        let (kind, body) = Record {
            at_ns: clock::now_ns(),
            what,
        }
        .encode();
        let nobody = AtomicU32::new(0);
        for pause in PAUSES_MS {
            if self.ring.write(kind, &body) {
                return;
            }
            clock::wait(&nobody, 0, Duration::from_millis(pause));
        }
        self.ring.write(kind, &body);
    }

    pub fn notice(&self, text: String) {
        self.write(RecordWhat::Notice { text });
    }

    /// Tells the frames of a context the first time it is seen.
    pub fn context(&self, stack: &Stack) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.insert(stack.hash) {
            return;
        }
        drop(told);
        let told = self.write(RecordWhat::Context {
            stack: stack.hash,
            frames: stack.text(),
        });
        if !told {
            // Said again when there is room.
            self.told
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&stack.hash);
        }
    }
}
