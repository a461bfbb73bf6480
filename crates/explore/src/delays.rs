//! How long a delay at a site has to be to be interesting (Sieve §4.4).
//!
//! Where others wait for the site: long enough to look like for ever. Where a timeout protects it:
//! a share of that timeout, as clean runs showed its value.

use temblor_model::catalog::{GuardedBy, SiteCatalog, TimeUnit};
use temblor_model::history::Baseline;
use temblor_model::plan::FOR_EVER_MS;
use temblor_model::site::Site;

/// Timeouts that nobody could read count as this, virtual milliseconds.
const UNKNOWN_TIMEOUT_MS: u64 = 20_000;

/// The delay for a site, virtual milliseconds; none where it is guarded by neither of what is asked
/// for. Of both, others that wait come first.
pub fn of_site(
    catalog: &SiteCatalog,
    baseline: Option<&Baseline>,
    site: &Site,
    sync_ms: Option<u64>,
    timeout_percent: Option<u32>,
) -> Option<u64> {
    let is_sync = site.guards.iter().any(|g| !g.is_timeout());
    if let Some(ms) = sync_ms.filter(|_| is_sync) {
        return Some(ms);
    }
    let percent = u64::from(timeout_percent?);
    let timeout_ms = timeout_ms(catalog, baseline, site)?;
    Some((timeout_ms * percent / 100).clamp(1, FOR_EVER_MS))
}

/// The shortest timeout that protects a site: it is the first to end.
fn timeout_ms(catalog: &SiteCatalog, baseline: Option<&Baseline>, site: &Site) -> Option<u64> {
    let ids = site.guards.iter().filter_map(|g| match g.by {
        GuardedBy::Timeout(id) => Some(id),
        GuardedBy::Region(_) => None,
    });
    let known = |id: u32| {
        let captured = baseline.and_then(|b| b.timeouts.get(&id));
        let longest = captured.and_then(|values| values.last().copied());
        longest.or_else(|| constant_ms(catalog, id))
    };
    let mut protected = false;
    let mut shortest: Option<u64> = None;
    for id in ids {
        protected = true;
        if let Some(ms) = known(id).filter(|ms| *ms > 0) {
            shortest = Some(shortest.map_or(ms, |s| s.min(ms)));
        }
    }
    protected.then(|| shortest.unwrap_or(UNKNOWN_TIMEOUT_MS))
}

fn constant_ms(catalog: &SiteCatalog, id: u32) -> Option<u64> {
    let timeout = catalog.timeouts.get(id as usize)?;
    let value = u64::try_from(timeout.constant?).ok()?;
    let known = timeout.unit != TimeUnit::Argument;
    known.then(|| timeout.unit.ms(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use temblor_model::catalog::{Guard, Place, Timeout, TimeoutKind};

    fn catalog() -> SiteCatalog {
        let timeout = |id, constant| Timeout {
            id,
            kind: TimeoutKind::Elapsed,
            place: Place::default(),
            above: 0,
            wide: true,
            unit: TimeUnit::Seconds,
            constant,
            expression: String::new(),
        };
        SiteCatalog {
            timeouts: vec![timeout(0, Some(4)), timeout(1, None), timeout(2, None)],
            ..SiteCatalog::default()
        }
    }

    fn delay(
        guards: &[GuardedBy],
        captured: &[(u32, &[u64])],
        sync_ms: Option<u64>,
        timeout_percent: Option<u32>,
    ) -> Option<u64> {
        let site = Site {
            guards: guards
                .iter()
                .map(|by| Guard {
                    by: *by,
                    via: Vec::new(),
                })
                .collect(),
            ..Site::default()
        };
        let baseline = Baseline {
            timeouts: captured.iter().map(|(id, v)| (*id, v.to_vec())).collect(),
            ..Baseline::default()
        };
        of_site(&catalog(), Some(&baseline), &site, sync_ms, timeout_percent)
    }

    #[test]
    fn each_guard_has_its_own_delay() {
        use GuardedBy::{Region, Timeout};
        let (sync, timeout) = (Some(300_000), Some(150));
        let delay = |guards: &[GuardedBy], sync, timeout| delay(guards, &[], sync, timeout);
        let both = [Timeout(0), Region(3)];
        assert_eq!(delay(&both, sync, timeout), Some(300_000));
        assert_eq!(delay(&both, None, timeout), Some(6_000));
        assert_eq!(delay(&both[..1], sync, timeout), Some(6_000));
        assert_eq!(delay(&both[..1], sync, None), None);
        assert_eq!(delay(&both[1..], None, timeout), None);
        assert_eq!(delay(&[], sync, timeout), None);
    }

    #[test]
    fn a_timeout_is_overstepped_by_half() {
        use GuardedBy::Timeout;
        let delay = |guards: &[GuardedBy], captured: &[(u32, &[u64])]| {
            delay(guards, captured, None, Some(150))
        };
        assert_eq!(delay(&[Timeout(1)], &[(1, &[900_000])]), Some(FOR_EVER_MS));
        assert_eq!(delay(&[Timeout(1)], &[(1, &[500, 2_000])]), Some(3_000));
        // The constant, where nothing was seen; then what nobody knows.
        assert_eq!(delay(&[Timeout(0)], &[]), Some(6_000));
        assert_eq!(delay(&[Timeout(2)], &[]), Some(30_000));
        // The first to end counts.
        assert_eq!(
            delay(&[Timeout(0), Timeout(1)], &[(1, &[1_000])]),
            Some(1_500)
        );
    }
}
