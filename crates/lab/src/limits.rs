//! Every wait of a trial has a bound; here they come from what clean runs needed.
//!
//! Two kinds of time add up in a trial: work, which takes real time however fast the virtual
//! clock runs, and waiting, which takes virtual time divided by the warp factor. Baselines give
//! the real time both take together when nothing goes wrong.

use std::time::Duration;

use temblor_model::history::Baseline;
use temblor_model::plan::Plan;

/// A loaded machine may be this much slower than the baselines were.
const SLACK: u32 = 3;
/// Added to everything: JVM start-up hiccups, a slow disk. Real milliseconds.
const FLOOR_MS: u64 = 1_500;
/// Elections and catching up once everything is healed. Virtual milliseconds.
const RECOVERY_MS: u64 = 35_000;

/// How long each stage of a trial may take, in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the nodes until all serve.
    pub ready: Duration,
    /// From the start of the clients until all are done.
    pub workload: Duration,
    /// From healing until all nodes serve again.
    pub recovery: Duration,
}

impl Limits {
    /// Before anything is known: what the target itself promises.
    pub fn first(ready_within_ms: u64) -> Limits {
        let ready = Duration::from_millis(ready_within_ms);
        Limits {
            ready,
            workload: ready * 3,
            recovery: ready,
        }
    }

    /// For a trial under this plan, at this warp factor, of a target whose clients may take
    /// `reaction_ms` virtual milliseconds longer if there are faults.
    pub fn derive(baseline: &Baseline, plan: &Plan, warp: f64, reaction_ms: u64) -> Limits {
        let virtual_ms = |ms: u64| Duration::from_secs_f64(ms as f64 / 1000.0 / warp.max(1.0));
        // A slower clock than the baselines' makes their waiting longer by that factor at most.
        let slower = (baseline.warp / warp).max(1.0);
        let real = |ms: u64| Duration::from_millis(ms).mul_f64(slower) * SLACK;
        let floor = Duration::from_millis(FLOOR_MS);
        let reaction = virtual_ms(plan.added_ms() + reaction_ms);
        let ready = real(baseline.ready_ms) + floor;
        if plan.steps.is_empty() {
            return Limits {
                ready,
                workload: real(baseline.workload_ms) + floor,
                recovery: ready,
            };
        }
        Limits {
            ready: ready + virtual_ms(plan.added_ms()),
            workload: real(baseline.workload_ms) + floor + reaction,
            recovery: ready + virtual_ms(RECOVERY_MS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use temblor_model::plan::{Fault, Trigger};

    #[test]
    fn a_long_delay_is_waited_for_in_virtual_time() {
        let baseline = Baseline {
            warp: 20.0,
            ready_ms: 500,
            workload_ms: 1000,
            ..Baseline::default()
        };
        let trigger = Trigger::Hit {
            site: "s".into(),
            node: None,
            stack: None,
            state: None,
            nth: 1,
        };
        let plan = Plan::single(1, trigger, Fault::Delay { ms: 60_000 });
        let warped = Limits::derive(&baseline, &plan, 20.0, 90_000);
        assert_eq!(
            warped.workload,
            Duration::from_millis(3_000 + 1_500 + 7_500)
        );
        let real = Limits::derive(&baseline, &plan, 1.0, 90_000);
        assert!(real.workload > Duration::from_secs(120));
    }
}
