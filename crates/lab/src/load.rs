//! How many trials run side by side: as many as asked for, or as many as the machine has time for.
//!
//! A trial mostly starts JVMs, which takes all the cores it can get, but one whose cluster waits
//! for a time-out takes none. So by default another trial may begin whenever the cores are idle
//! enough, and never fewer run than there are cores. Trials that wait at the same time will work at
//! the same time, too: there are no more of them than the cores have time for on average.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::campaign::lock;

/// Another trial beyond one per core begins while less of the machine is in use than this.
const BUSY: f64 = 0.90;
/// All that run take no more of the machine than this on average.
const FULL: f64 = 0.80;
/// How much the newest trial counts in what they take on average.
const WEIGHT: f64 = 0.1;
/// What a trial that has just begun costs shows after this long.
const SETTLE: Duration = Duration::from_millis(400);
/// Trials per core at most, however idle: each takes memory.
const MOST_PER_CORE: u32 = 8;
/// Another trial needs this much memory, MiB.
const LEAST_FREE_MIB: u64 = 1_200;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Lets trials begin.
pub struct Gate {
    /// So many always may.
    least: u32,
    /// So many at most.
    pub most: u32,
    state: Mutex<State>,
}

struct State {
    running: u32,
    last_began: Instant,
    since: (Instant, Ticks),
    busy: f64,
    /// What a trial takes on average; none before the first has ended.
    takes: Option<Takes>,
}

/// How long a trial runs, and for how long it keeps a core busy.
#[derive(Clone, Copy)]
struct Takes {
    seconds: f64,
    cpu_seconds: f64,
}

/// Processor time of the machine since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
}

/// One trial may run as long as this is kept.
pub struct Pass<'a>(&'a Gate);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).running -= 1;
    }
}

impl Gate {
    /// `jobs` side by side; 0: as the machine allows.
    pub fn new(jobs: u32) -> Gate {
        let cores = cores();
        let (least, most) = match jobs {
            0 => (cores, cores * MOST_PER_CORE),
            jobs => (jobs, jobs),
        };
        let now = Instant::now();
        Gate {
            least,
            most,
            state: Mutex::new(State {
                running: 0,
                last_began: now,
                since: (now, read_ticks()),
                busy: 1.0,
                takes: None,
            }),
        }
    }

    /// Waits until a trial may begin; none when `stop` says so first.
    pub fn enter(&self, stop: impl Fn() -> bool) -> Option<Pass<'_>> {
        while !stop() {
            if self.try_enter() {
                return Some(Pass(self));
            }
            std::thread::sleep(LOOK);
        }
        None
    }

    /// What a trial took from its beginning to its end, and of the processors.
    pub fn learn(&self, seconds: f64, cpu_seconds: f64) {
        let mut state = lock(&self.state);
        let newest = Takes {
            seconds,
            cpu_seconds,
        };
        let before = state.takes.unwrap_or(newest);
        let towards = |from: f64, to: f64| from + WEIGHT * (to - from);
        state.takes = Some(Takes {
            seconds: towards(before.seconds, seconds),
            cpu_seconds: towards(before.cpu_seconds, cpu_seconds),
        });
    }

    fn try_enter(&self) -> bool {
        let mut state = lock(&self.state);
        let now = Instant::now();
        if now - state.since.0 >= SETTLE {
            let ticks = read_ticks();
            state.busy = busy_between(state.since.1, ticks);
            state.since = (now, ticks);
        }
        let idle = state.busy < BUSY && now - state.last_began >= SETTLE;
        let fits = state.running < self.least
            || state.running < self.most.min(state.bearable())
                && idle
                && free_mib() > LEAST_FREE_MIB;
        if fits {
            state.running += 1;
            state.last_began = now;
        }
        fits
    }
}

impl State {
    /// Trials for which there is time on average; two per core before that is known.
    fn bearable(&self) -> u32 {
        let time = FULL * f64::from(cores());
        self.takes.map_or(2 * cores(), |takes| {
            (time * takes.seconds / takes.cpu_seconds.max(0.001)) as u32
        })
    }
}

/// Cores of this machine. Asked for once: the answer is read from many files.
pub fn cores() -> u32 {
    static CORES: OnceLock<u32> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u32))
}

fn busy_between(before: Ticks, after: Ticks) -> f64 {
    let all = after.all.saturating_sub(before.all);
    match all {
        // Nothing is known: as good as busy.
        0 => 1.0,
        all => after.busy.saturating_sub(before.busy) as f64 / all as f64,
    }
}

fn read_ticks() -> Ticks {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    ticks_of(&stat).unwrap_or_default()
}

/// From the first line: user, nice, system, idle, iowait, irq, softirq, steal.
fn ticks_of(stat: &str) -> Option<Ticks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let all = fields.iter().sum();
    let idle = fields.get(3)? + fields.get(4)?;
    Some(Ticks {
        busy: all - idle,
        all,
    })
}

fn free_mib() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_as_busy_as_its_ticks_say() {
        let stat = "cpu  10 0 20 60 10 0 0 0 0 0\ncpu0 1 2 3";
        let before = Ticks { busy: 30, all: 100 };
        assert_eq!(ticks_of(stat), Some(before));
        let after = Ticks { busy: 80, all: 200 };
        assert_eq!(busy_between(before, after), 0.5);
        assert_eq!(busy_between(before, before), 1.0);
        assert_eq!(ticks_of("intr 5"), None);
    }

    #[test]
    fn as_many_as_asked_for_and_no_more() {
        let gate = Gate::new(2);
        let (first, second) = (gate.enter(|| false), gate.enter(|| false));
        assert!(first.is_some() && second.is_some() && !gate.try_enter());
        drop(first);
        assert!(gate.try_enter());
    }

    #[test]
    fn trials_that_work_more_leave_room_for_fewer() {
        let gate = Gate::new(0);
        let bearable = || lock(&gate.state).bearable();
        assert_eq!(bearable(), cores() * 2);
        gate.learn(10.0, 2.0);
        assert_eq!(bearable(), cores() * 4);
        for _ in 0..100 {
            gate.learn(10.0, 4.0);
        }
        assert_eq!(bearable(), cores() * 2);
    }

    /// Most of the time, what runs is what takes long.
    #[test]
    fn short_trials_that_work_count_less_than_long_ones_that_wait() {
        let gate = Gate::new(0);
        for _ in 0..100 {
            gate.learn(1.0, 1.0);
            gate.learn(9.0, 1.0);
        }
        assert_eq!(lock(&gate.state).bearable(), cores() * 4);
    }

    #[test]
    fn nobody_waits_for_a_place_when_all_is_over() {
        let gate = Gate::new(1);
        let _first = gate.enter(|| false);
        assert!(gate.enter(|| true).is_none());
    }
}
