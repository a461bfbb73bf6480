//! What the agent writes into its ring, and how it reads back.

/// An event of the agent, in real nanoseconds of the machine's monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub at_ns: u64,
    pub what: RecordWhat,
}

/// What the agent has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordWhat {
    /// A recorded hit; `stack` is 0 where it was not walked.
    Hit {
        site: u32,
        count: u32,
        stack: u64,
        thread: String,
    },
    /// The frames behind a context, once per process.
    Context { stack: u64, frames: String },
    /// A step fired here. `fault` is the index on the board.
    Fired {
        step: u32,
        site: u32,
        count: u32,
        fault: u32,
        stack: u64,
        thread: String,
        /// One frame a line.
        frames: String,
        /// Id of the state + 1; 0 outside all tasks, or where states are not told.
        state: u32,
        /// Which hit of this site, state and stack it was; 0 where they are not counted.
        nth: u32,
        /// Id of the access just before + 1; 0: none.
        access: u32,
    },
    /// A timeout has this value: milliseconds where its unit is given with it, else in its unit.
    Timeout { timeout: u32, value: u64 },
    /// Something people should know: a class left alone, a fault that could not be made.
    Notice { text: String },
}

const HIT: u16 = 1;
const CONTEXT: u16 = 2;
const FIRED: u16 = 3;
const NOTICE: u16 = 4;
const TIMEOUT: u16 = 5;

impl Record {
    /// Kind and body for the ring.
    pub fn encode(&self) -> (u16, Vec<u8>) {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&self.at_ns.to_le_bytes());
        let n32 = |out: &mut Vec<u8>, v: u32| out.extend_from_slice(&v.to_le_bytes());
        let n64 = |out: &mut Vec<u8>, v: u64| out.extend_from_slice(&v.to_le_bytes());
        let text = |out: &mut Vec<u8>, s: &str| {
            out.extend_from_slice(&(s.len() as u32).to_le_bytes());
            out.extend_from_slice(s.as_bytes());
        };
        let kind = match &self.what {
            RecordWhat::Hit {
                site,
                count,
                stack,
                thread,
            } => {
                n32(&mut out, *site);
                n32(&mut out, *count);
                n64(&mut out, *stack);
                text(&mut out, thread);
                HIT
            }
            RecordWhat::Context { stack, frames } => {
                n64(&mut out, *stack);
                text(&mut out, frames);
                CONTEXT
            }
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
                n32(&mut out, *step);
                n32(&mut out, *site);
                n32(&mut out, *count);
                n32(&mut out, *fault);
                n64(&mut out, *stack);
                for n in [state, nth, access] {
                    n32(&mut out, *n);
                }
                text(&mut out, thread);
                text(&mut out, frames);
                FIRED
            }
            RecordWhat::Timeout { timeout, value } => {
                n32(&mut out, *timeout);
                n64(&mut out, *value);
                TIMEOUT
            }
            RecordWhat::Notice { text: said } => {
                text(&mut out, said);
                NOTICE
            }
        };
        (kind, out)
    }

    /// `None` for a kind or body this build does not know.
    pub fn decode(kind: u16, body: &[u8]) -> Option<Record> {
        let mut rest = Rest(body);
        let at_ns = rest.n64()?;
        let what = match kind {
            HIT => RecordWhat::Hit {
                site: rest.n32()?,
                count: rest.n32()?,
                stack: rest.n64()?,
                thread: rest.text()?,
            },
            CONTEXT => RecordWhat::Context {
                stack: rest.n64()?,
                frames: rest.text()?,
            },
            FIRED => RecordWhat::Fired {
                step: rest.n32()?,
                site: rest.n32()?,
                count: rest.n32()?,
                fault: rest.n32()?,
                stack: rest.n64()?,
                state: rest.n32()?,
                nth: rest.n32()?,
                access: rest.n32()?,
                thread: rest.text()?,
                frames: rest.text()?,
            },
            TIMEOUT => RecordWhat::Timeout {
                timeout: rest.n32()?,
                value: rest.n64()?,
            },
            NOTICE => RecordWhat::Notice { text: rest.text()? },
            _ => return None,
        };
        Some(Record { at_ns, what })
    }
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn n32(&mut self) -> Option<u32> {
        let (head, tail) = self.0.split_first_chunk::<4>()?;
        self.0 = tail;
        Some(u32::from_le_bytes(*head))
    }

    fn n64(&mut self) -> Option<u64> {
        let (head, tail) = self.0.split_first_chunk::<8>()?;
        self.0 = tail;
        Some(u64::from_le_bytes(*head))
    }

    /// A text that the ring cut short is taken as far as it goes.
    fn text(&mut self) -> Option<String> {
        let len = self.n32()? as usize;
        let (head, tail) = self.0.split_at(len.min(self.0.len()));
        self.0 = tail;
        Some(String::from_utf8_lossy(head).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        let fired = RecordWhat::Fired {
            step: 1,
            site: 2,
            count: 3,
            fault: 4,
            stack: 5,
            thread: "main".into(),
            frames: "a.B.c:1\na.B.d:2".into(),
            state: 6,
            nth: 7,
            access: 8,
        };
        let timeout = RecordWhat::Timeout {
            timeout: 3,
            value: 30_000,
        };
        let hit = RecordWhat::Hit {
            site: 9,
            count: 1,
            stack: 0,
            thread: String::new(),
        };
        for what in [fired, hit, timeout, RecordWhat::Notice { text: "ü".into() }] {
            let record = Record { at_ns: 42, what };
            let (kind, body) = record.encode();
            assert_eq!(Record::decode(kind, &body), Some(record));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_decode_without_panic(kind in 0u16..7, body: Vec<u8>) {
            let _ = Record::decode(kind, &body);
        }
    }
}
