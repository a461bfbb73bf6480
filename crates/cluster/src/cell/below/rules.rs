//! Which operations are held back, and the waiting itself.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{DiskOp, HeldOp, SlowDisk};
use crate::glob;

/// Later ones are held as well, but not listed.
const LISTED_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct Rules {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    active: Vec<Active>,
    listed: Vec<HeldOp>,
    /// How often everything was let go.
    times_freed: u64,
}

#[derive(Debug)]
struct Active {
    rule: SlowDisk,
    skip: u32,
    left: Option<u32>,
    until: Option<Instant>,
}

/// An operation that must wait.
#[derive(Debug)]
pub struct Hold {
    from: Instant,
    until: Instant,
    times_freed: u64,
    /// Its place in the list.
    listed: Option<usize>,
}

impl Rules {
    // Nothing is left half-done by a thread that panics here.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, rule: SlowDisk, now: Instant) {
        self.state().active.push(Active {
            skip: rule.skip,
            left: rule.count,
            until: rule.for_ms.map(|ms| now + Duration::from_millis(ms)),
            rule,
        });
    }

    /// Ends all rules and lets go what is held.
    pub fn free(&self) {
        let mut state = self.state();
        state.active.clear();
        state.times_freed += 1;
        self.freed.notify_all();
    }

    pub fn held(&self) -> Vec<HeldOp> {
        self.state().listed.clone()
    }

    /// Whether an operation must wait. Its paths are looked up only when a rule asks for them.
    pub fn claim(
        &self,
        op: DiskOp,
        now: Instant,
        paths: impl FnOnce() -> Vec<String>,
    ) -> Option<Hold> {
        let mut state = self.state();
        state.active.retain(|active| !active.is_over(now));
        if !state
            .active
            .iter()
            .any(|active| active.rule.ops.contains(&op))
        {
            return None;
        }
        let paths = paths();
        let chosen = state.active.iter_mut().find_map(|active| {
            let rule = &active.rule;
            let meant =
                rule.ops.contains(&op) && paths.iter().any(|p| glob::path_matches(&rule.path, p));
            (meant && active.take()).then_some(Duration::from_millis(active.rule.delay_ms))
        })?;
        let listed = (state.listed.len() < LISTED_MAX).then(|| {
            state.listed.push(HeldOp {
                op,
                path: paths.into_iter().next().unwrap_or_default(),
                held_ms: None,
            });
            state.listed.len() - 1
        });
        Some(Hold {
            from: now,
            until: now + chosen,
            times_freed: state.times_freed,
            listed,
        })
    }

    /// Waits until the operation may be done.
    pub fn wait(&self, hold: &Hold) {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let left = hold.until.saturating_duration_since(now);
            if left.is_zero() || state.times_freed != hold.times_freed {
                if let Some(held) = hold.listed.and_then(|at| state.listed.get_mut(at)) {
                    held.held_ms = Some(now.duration_since(hold.from).as_millis() as u64);
                }
                return;
            }
            let waited = self.freed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Active {
    fn is_over(&self, now: Instant) -> bool {
        self.left == Some(0) || self.until.is_some_and(|until| now >= until)
    }

    /// Counts one operation that matches; whether it is held.
    fn take(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match &mut self.left {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(ops: &[DiskOp], path: &str) -> SlowDisk {
        SlowDisk {
            ops: ops.to_vec(),
            path: path.into(),
            delay_ms: 5,
            skip: 0,
            count: None,
            for_ms: None,
        }
    }

    /// Which of the operations, one a millisecond, are held.
    fn check(rule: SlowDisk, ops: &[(DiskOp, &str)], expected: &[bool]) {
        let rules = Rules::default();
        let start = Instant::now();
        rules.add(rule.clone(), start);
        let held: Vec<bool> = (0u64..)
            .zip(ops)
            .map(|(i, (op, path))| {
                let now = start + Duration::from_millis(i);
                rules.claim(*op, now, || vec![path.to_string()]).is_some()
            })
            .collect();
        assert_eq!(held, expected, "{rule:?}");
    }

    #[test]
    fn a_rule_holds_its_operations_on_its_paths() {
        use DiskOp::{Sync, Write};
        let ops = [
            (Write, "log.1"),
            (Sync, "log.1"),
            (Sync, "deep/log.2"),
            (Sync, "log.3"),
            (Sync, "snapshot"),
            (Sync, "log.4"),
        ];
        let t = true;
        let f = false;
        check(rule(&[Sync], "log.*"), &ops, &[f, t, f, t, f, t]);
        check(rule(&[Sync, Write], "**"), &ops, &[t, t, t, t, t, t]);
        let second = SlowDisk {
            skip: 1,
            count: Some(1),
            ..rule(&[Sync], "log.*")
        };
        check(second, &ops, &[f, f, f, t, f, f]);
        let soon = SlowDisk {
            for_ms: Some(3),
            ..rule(&[Sync], "log.*")
        };
        check(soon, &ops, &[f, t, f, f, f, f]);
    }

    #[test]
    fn what_is_held_is_listed_and_let_go() {
        let rules = Rules::default();
        let now = Instant::now();
        rules.add(
            SlowDisk {
                delay_ms: 3_600_000,
                ..rule(&[DiskOp::Rename], "new")
            },
            now,
        );
        let names = || vec!["old".to_string(), "new".to_string()];
        let hold = rules.claim(DiskOp::Rename, now, names).unwrap();
        let listed = |held_ms| HeldOp {
            op: DiskOp::Rename,
            path: "old".into(),
            held_ms,
        };
        assert_eq!(rules.held(), [listed(None)]);
        rules.free();
        rules.wait(&hold);
        assert!(rules.held()[0].held_ms.is_some());
        assert!(rules.claim(DiskOp::Rename, now, names).is_none());
    }
}
