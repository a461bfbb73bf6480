//! The same delay below the program: Sieve's question whether the operation that was delayed would
//! really block when the disk or the network is slow.

use temblor_cluster::cell::{DiskCache, DiskOp, SlowDisk};
use temblor_model::catalog::SiteCatalog;
use temblor_model::event::{Event, What};
use temblor_model::plan::{DiskWay, Fault, NetWay, Plan, Trigger};
use temblor_model::site::{Direction, Medium};

use crate::LabError;
use crate::running::Running;

/// Who tells, in a trial's notices, what a delay below the program met.
pub const SOURCE: &str = "below";
/// What it tells when nothing was held: then the trial proves nothing.
pub const MET_NOTHING: &str = "the delay below the program met no operation";
/// The operation follows the hit within this, real milliseconds.
const SOON_MS: u64 = 3_000;

/// The plan with every delay at a site below the program instead.
pub fn plan(plan: &Plan, catalog: &SiteCatalog) -> Result<Plan, String> {
    let mut below = plan.clone();
    let mut found = false;
    for step in &mut below.steps {
        let (Fault::Delay { ms }, Trigger::Hit { site, .. }) = (&step.fault, &step.when) else {
            continue;
        };
        let known = catalog.sites.iter().find(|s| s.name == *site);
        let slow = known.filter(|s| s.can_be_slow());
        let io = slow.and_then(|s| s.io).ok_or_else(|| {
            format!(
                "{site} waits for no device and no peer, so nothing below the program can be slow"
            )
        })?;
        let ms = *ms;
        step.fault = match (io.medium, io.direction) {
            (Medium::Network, Direction::Read) => Fault::SlowNet {
                ms,
                way: NetWay::In,
            },
            (Medium::Network, _) => Fault::SlowNet {
                ms,
                way: NetWay::Out,
            },
            (Medium::Disk, Direction::Read) => Fault::SlowDisk {
                ms,
                way: DiskWay::Read,
            },
            (Medium::Disk, Direction::Write) => Fault::SlowDisk {
                ms,
                way: DiskWay::Write,
            },
            (Medium::Disk, Direction::Control | Direction::Local) => Fault::SlowDisk {
                ms,
                way: DiskWay::Control,
            },
            (Medium::Stream, _) => {
                let text = "leads to a file or to a peer, and the analysis cannot tell which";
                return Err(format!("{site} {text}"));
            }
        };
        found = true;
    }
    match found {
        true => Ok(below),
        false => Err("the bug's plan has no delay: only delays have a counterpart below".into()),
    }
}

/// Whether the delays of a trial below the program held anything.
pub fn met_something(events: &[Event]) -> bool {
    let told = |e: &Event| matches!(&e.what, What::Notice { source, .. } if source == SOURCE);
    let nothing = |e: &Event| matches!(&e.what, What::Notice { text, .. } if text == MET_NOTHING);
    events.iter().any(|e| told(e) && !nothing(e))
}

/// The next operation of this kind is held.
pub(crate) fn rule(way: DiskWay, delay_ms: u64) -> SlowDisk {
    let ops = match way {
        DiskWay::Read => vec![DiskOp::Read, DiskOp::List],
        DiskWay::Write => vec![DiskOp::Write],
        DiskWay::Control => vec![
            DiskOp::Sync,
            DiskOp::Open,
            DiskOp::Create,
            DiskOp::Rename,
            DiskOp::Remove,
            DiskOp::Resize,
        ],
    };
    SlowDisk {
        ops,
        path: "**".into(),
        delay_ms,
        skip: 0,
        count: Some(1),
        for_ms: Some(SOON_MS),
    }
}

impl Running<'_> {
    /// What faults below the program need before any node starts.
    pub(crate) fn prepare_below(&mut self) -> Result<(), LabError> {
        let plan = self.plan;
        let faults = || plan.steps.iter().map(|s| &s.fault);
        if faults().any(|f| matches!(f, Fault::SlowNet { .. })) {
            self.cell.stall_ready()?;
        }
        // A write that the page cache takes is not slow until it is flushed, as on a real disk.
        let writes = |f: &Fault| {
            matches!(
                f,
                Fault::SlowDisk {
                    way: DiskWay::Write,
                    ..
                }
            )
        };
        let cache = match faults().any(writes) {
            true => DiskCache::Back,
            false => DiskCache::Through,
        };
        if faults().any(|f| matches!(f, Fault::SlowDisk { .. })) {
            for i in 0..self.nodes.len() {
                let data = self.data_dir(i);
                std::fs::create_dir_all(&data).map_err(|e| LabError::io("make", &data, e))?;
                self.cell.slow_disk_mount(&data, cache)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use temblor_model::site::{Io, Site};

    fn catalog() -> SiteCatalog {
        let site = |name: &str, io| Site {
            name: name.into(),
            io,
            ..Site::default()
        };
        let io = |medium, direction| Some(Io { medium, direction });
        SiteCatalog {
            sites: vec![
                site("net", io(Medium::Network, Direction::Read)),
                site("local", io(Medium::Network, Direction::Local)),
                site("disk", io(Medium::Disk, Direction::Control)),
                site("stream", io(Medium::Stream, Direction::Write)),
                site("none", None),
            ],
            ..SiteCatalog::default()
        }
    }

    #[track_caller]
    fn check(site: &str, fault: Fault, expected: Result<Fault, &str>) {
        let when = Trigger::Hit {
            site: site.into(),
            node: None,
            stack: None,
            state: None,
            nth: 2,
        };
        let original = Plan::single(1, when, fault);
        match (plan(&original, &catalog()), expected) {
            (Ok(below), Ok(fault)) => {
                assert_eq!(below.steps[0].fault, fault);
                assert_eq!(below.steps[0].when, original.steps[0].when);
            }
            (Err(error), Err(words)) => assert!(error.contains(words), "{error}"),
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn a_delay_has_its_counterpart_where_the_medium_is_known() {
        let delay = || Fault::Delay { ms: 9 };
        let (ms, net, disk) = (9, NetWay::In, DiskWay::Control);
        check("net", delay(), Ok(Fault::SlowNet { ms, way: net }));
        check("disk", delay(), Ok(Fault::SlowDisk { ms, way: disk }));
        check("stream", delay(), Err("cannot tell which"));
        check("none", delay(), Err("waits for no device"));
        check("local", delay(), Err("waits for no device"));
        check("disk", Fault::Crash, Err("only delays"));
    }

    #[test]
    fn a_delay_that_met_nothing_is_told_apart() {
        let notice = |source: &str, text: &str| Event {
            at_us: 1,
            what: What::Notice {
                source: source.into(),
                text: text.into(),
            },
        };
        assert!(!met_something(&[]));
        assert!(!met_something(&[
            notice(SOURCE, MET_NOTHING),
            notice("n1", "left alone")
        ]));
        assert!(met_something(&[notice(
            SOURCE,
            "the slow network held 3 packets"
        )]));
    }
}
