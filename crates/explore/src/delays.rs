//! How long a delay at a site has to be to be interesting (Sieve §4.4).
//!
//! Where others wait for the site: long enough to look like for ever. Where a timeout protects it:
//! a share of that timeout, as clean runs showed its value. A timeout that they never came to, or
//! that was 0 there, is none: nobody waits.

use temblor_model::catalog::GuardedBy;
use temblor_model::history::Baseline;
use temblor_model::plan::{FOR_EVER_MS, Fault};
use temblor_model::site::Site;

/// How long a [`Fault::SiteDelay`] is at a site, virtual milliseconds; none where the site is not
/// guarded by what the fault is for.
pub fn of_site(fault: &Fault, site: &Site, baseline: Option<&Baseline>) -> Option<u64> {
    let Fault::SiteDelay {
        sync_ms,
        timeout_percent,
    } = fault
    else {
        return None;
    };
    let is_sync = site.guards.iter().any(|g| !g.is_timeout());
    if let Some(ms) = sync_ms.filter(|_| is_sync) {
        return Some(ms);
    }
    let percent = u64::from((*timeout_percent)?);
    let timeout_ms = timeout_ms(site, baseline?)?;
    Some((timeout_ms * percent / 100).clamp(1, FOR_EVER_MS))
}

/// The shortest timeout that protects a site: it is the first to end. Each is as long as it ever
/// was.
fn timeout_ms(site: &Site, baseline: &Baseline) -> Option<u64> {
    let longest = |by: GuardedBy| match by {
        GuardedBy::Timeout(id) => baseline.timeouts.get(&id)?.last().copied(),
        GuardedBy::Region(_) => None,
    };
    let all = site.guards.iter().filter_map(|guard| longest(guard.by));
    all.filter(|ms| *ms > 0).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use GuardedBy::{Region, Timeout};
    use temblor_model::catalog::Guard;

    fn check(
        (sync_ms, timeout_percent): (Option<u64>, Option<u32>),
        guards: &[GuardedBy],
        captured: &[(u32, &[u64])],
        expected: Option<u64>,
    ) {
        let guard = |by: &GuardedBy| Guard {
            by: *by,
            via: Vec::new(),
        };
        let site = Site {
            guards: guards.iter().map(guard).collect(),
            ..Site::default()
        };
        let baseline = Baseline {
            timeouts: captured.iter().map(|(id, v)| (*id, v.to_vec())).collect(),
            ..Baseline::default()
        };
        let fault = Fault::SiteDelay {
            sync_ms,
            timeout_percent,
        };
        let found = of_site(&fault, &site, Some(&baseline));
        assert_eq!(found, expected, "{fault} under {guards:?}, {captured:?}");
    }

    #[test]
    fn each_guard_has_its_own_delay() {
        let both = [Timeout(0), Region(3)];
        let seen: &[(u32, &[u64])] = &[(0, &[4_000])];
        let (sync, timeout) = (Some(300_000), Some(150));
        check((sync, timeout), &both, seen, Some(300_000));
        check((None, timeout), &both, seen, Some(6_000));
        check((sync, timeout), &both[..1], seen, Some(6_000));
        check((sync, None), &both[..1], seen, None);
        check((None, timeout), &both[1..], seen, None);
        check((sync, timeout), &[], seen, None);
    }

    #[test]
    fn a_timeout_is_overstepped_by_half() {
        let check = |guards: &[GuardedBy], captured: &[(u32, &[u64])], expected| {
            check((None, Some(150)), guards, captured, expected);
        };
        check(&[Timeout(1)], &[(1, &[500, 2_000])], Some(3_000));
        check(&[Timeout(1)], &[(1, &[900_000])], Some(FOR_EVER_MS));
        // The first to end counts, of those that anybody waited for.
        let seen: &[(u32, &[u64])] = &[(0, &[0]), (1, &[4_000]), (2, &[1_000, 6_000])];
        check(&[Timeout(0), Timeout(1), Timeout(2)], seen, Some(6_000));
        check(&[Timeout(0)], seen, None);
        check(&[Timeout(3)], seen, None);
    }
}
