//! From guards to sites: a call under a guard puts everything it reaches under that guard.
//!
//! From all guards at once, the nearest first, so that the shortest way is found first. A method
//! keeps only the few guards nearest to it, of different locks: of a lock that half the program is
//! called under, one holder tells as much as a hundred.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use temblor_model::catalog::{Guard, GuardedBy, RegionKind, TimeoutKind};

use crate::found::FoundSite;
use crate::program::MethodId;

use super::draft::{Draft, What};
use super::regions;
use super::scene::{MAX_COST, Scene};

/// Guards of each family that a method keeps, if they are of the same few kinds: locks, other
/// regions, timeouts.
const KEPT: [usize; 3] = [4, 3, 4];
/// Guards of a site.
const MAX_GUARDS: usize = 6;
const NONE: u32 = u32::MAX;

/// A guard that reached a method through a call.
struct Arrival {
    guard: u32,
    method: MethodId,
    /// The arrival at the caller; none where the call itself lies under the guard.
    from: u32,
}

pub struct Spread<'s, 'a> {
    scene: &'s Scene<'a>,
    drafts: &'s [Draft],
    /// What each guard is, for choosing among them: family, and the lock.
    traits: Vec<(usize, u32)>,
    arrivals: Vec<Arrival>,
    at_method: Vec<Vec<u32>>,
    /// Guards that a site stands under itself.
    direct: FxHashMap<(MethodId, u32), Vec<u32>>,
}

impl<'s, 'a> Spread<'s, 'a> {
    pub fn new(scene: &'s Scene<'a>, drafts: &'s [Draft]) -> Spread<'s, 'a> {
        let mut locks: FxHashMap<&str, u32> = FxHashMap::default();
        let traits = drafts.iter().map(|draft| {
            let next = locks.len() as u32;
            let lock = *locks.entry(&draft.identity).or_insert(next);
            (family(&draft.what), lock)
        });
        let mut spread = Spread {
            scene,
            drafts,
            traits: traits.collect(),
            arrivals: Vec::new(),
            at_method: vec![Vec::new(); scene.program.method_count()],
            direct: FxHashMap::default(),
        };
        let mut waves: Vec<Vec<Arrival>> = Vec::new();
        waves.resize_with(usize::from(MAX_COST) + 1, Vec::new);
        spread.begin(&mut waves);
        for cost in 0..=MAX_COST {
            for arrival in std::mem::take(&mut waves[usize::from(cost)]) {
                let (guard, method) = (arrival.guard, arrival.method);
                let Some(from) = spread.arrive(arrival, cost) else {
                    continue;
                };
                for edge in scene.edges(method) {
                    if let Some(wave) = waves.get_mut(usize::from(cost + edge.cost)) {
                        wave.push(Arrival {
                            guard,
                            method: edge.callee,
                            from,
                        });
                    }
                }
            }
        }
        spread
    }

    fn begin(&mut self, waves: &mut [Vec<Arrival>]) {
        for (guard, draft) in self.drafts.iter().enumerate() {
            let guard = guard as u32;
            for (method, call) in &draft.scope {
                if self.scene.site(*method, *call).is_some() {
                    let direct = self.direct.entry((*method, *call)).or_default();
                    if direct.last() != Some(&guard) {
                        direct.push(guard);
                    }
                }
                if !draft.shallow {
                    for edge in self.scene.calls(*method, *call) {
                        waves[usize::from(edge.cost)].push(Arrival {
                            guard,
                            method: edge.callee,
                            from: NONE,
                        });
                    }
                }
            }
        }
    }

    /// Keeps an arrival if the method has use for it; gives its number.
    fn arrive(&mut self, arrival: Arrival, cost: u8) -> Option<u32> {
        let method = arrival.method;
        // Nothing to guard within the calls that are left.
        let away = self.scene.distance(method)?;
        if away + cost > MAX_COST {
            return None;
        }
        let (family, lock) = self.traits[arrival.guard as usize];
        let own_kind = kind(&self.drafts[arrival.guard as usize].what);
        let (mut of_family, mut is_new_kind) = (0, true);
        for other in &self.at_method[method.0 as usize] {
            let other = self.arrivals[*other as usize].guard;
            let (other_family, other_lock) = self.traits[other as usize];
            if other == arrival.guard || (other_family, other_lock) == (family, lock) {
                return None;
            }
            of_family += usize::from(other_family == family);
            is_new_kind &= kind(&self.drafts[other as usize].what) != own_kind;
        }
        (of_family < KEPT[family] || is_new_kind).then(|| {
            let at = self.arrivals.len() as u32;
            self.at_method[method.0 as usize].push(at);
            self.arrivals.push(arrival);
            at
        })
    }

    /// The guards of each site, nearest first.
    pub fn guards(&self, sites: &[FoundSite]) -> Vec<Vec<Guard>> {
        sites.par_iter().map(|found| self.of_site(found)).collect()
    }

    fn of_site(&self, found: &FoundSite) -> Vec<Guard> {
        if !found.site.can_be_slow() {
            return Vec::new();
        }
        let direct = self.direct.get(&(found.method, found.call));
        let direct = direct.map_or(&[][..], Vec::as_slice);
        let mut all: Vec<(usize, u32, u32)> =
            direct.iter().map(|guard| (0, *guard, NONE)).collect();
        for arrival in &self.at_method[found.method.0 as usize] {
            let guard = self.arrivals[*arrival as usize].guard;
            if !direct.contains(&guard) {
                all.push((self.length(*arrival), guard, *arrival));
            }
        }
        all.sort_unstable();
        all.dedup();
        let mut chosen: Vec<(usize, u32, u32)> = Vec::new();
        let mut kinds = Vec::new();
        let mut rest = Vec::new();
        for one in all {
            let kind = kind(&self.drafts[one.1 as usize].what);
            match kinds.contains(&kind) || chosen.len() == MAX_GUARDS {
                true => rest.push(one),
                false => {
                    kinds.push(kind);
                    chosen.push(one);
                }
            }
        }
        chosen.extend(rest.into_iter().take(MAX_GUARDS - chosen.len()));
        chosen.sort_unstable();
        let guard = |(_, guard, arrival): (usize, u32, u32)| Guard {
            by: match self.drafts[guard as usize].what {
                What::Region { .. } => GuardedBy::Region(guard),
                What::Timeout { .. } => GuardedBy::Timeout(guard),
            },
            via: self.via(arrival),
        };
        chosen.into_iter().map(guard).collect()
    }

    fn length(&self, mut arrival: u32) -> usize {
        let mut length = 0;
        while arrival != NONE {
            length += 1;
            arrival = self.arrivals[arrival as usize].from;
        }
        length
    }

    fn via(&self, mut arrival: u32) -> Vec<String> {
        let mut out = Vec::new();
        while arrival != NONE {
            let Arrival { method, from, .. } = self.arrivals[arrival as usize];
            out.push(self.scene.program.short_name(method));
            arrival = from;
        }
        out.reverse();
        out
    }
}

fn family(what: &What) -> usize {
    match what {
        What::Timeout { .. } => 2,
        what if regions::is_lock(what) => 0,
        _ => 1,
    }
}

fn kind(what: &What) -> (Option<RegionKind>, Option<TimeoutKind>) {
    match what {
        What::Region { kind, .. } => (Some(*kind), None),
        What::Timeout { kind, .. } => (None, Some(*kind)),
    }
}
