//! What makes I/O worth delaying (Sieve §4.3): the critical regions, barriers, queues and timeouts
//! around it, and the basic blocks that group it.
//!
//! - [`scene`]: what all passes look at, with [`verbs`]: what JDK calls mean to other threads.
//! - [`path`], [`spots`], [`runs`]: which lock, which object a value is, what a task runs.
//! - [`flow`]: what comes before, after, between.
//! - [`locks`], [`held`], [`regions`]: what is taken, where it is held, what lies under it.
//! - [`barriers`], [`joins`], [`queues`]: what other threads wait for.
//! - [`bounds`], [`clocks`], [`elapsed`]: timeouts of I/O calls, and by the clock.
//! - [`draft`], [`spread`]: guards as found, and from them to all the sites they reach.
//! - [`groups`]: guarded sites by basic block.

mod barriers;
mod bounds;
mod clocks;
mod draft;
mod elapsed;
mod flow;
mod groups;
mod held;
mod joins;
mod locks;
mod path;
mod queues;
mod regions;
mod runs;
mod scene;
mod spots;
mod spread;
mod verbs;

use temblor_model::catalog::{Diagnostic, Group, GuardedBy, Region, Timeout};
use temblor_model::settings::AnalysisSettings;

use crate::calls::CallGraph;
use crate::found::FoundSite;
use crate::program::Program;
use crate::rules::Rules;

use clocks::Clocks;
use draft::{Draft, What};
use locks::Locks;
use scene::Scene;
use spread::Spread;

/// Everything found, by id.
#[derive(Debug, Default)]
pub struct Guards {
    pub regions: Vec<Region>,
    pub timeouts: Vec<Timeout>,
    pub groups: Vec<Group>,
}

/// Finds what guards the sites that do I/O, and tells each of them. Groups name sites by their
/// places in the list.
pub fn find(
    program: &Program,
    graph: &CallGraph,
    settings: &AnalysisSettings,
    sites: &mut [FoundSite],
    diagnostics: &mut Vec<Diagnostic>,
) -> Guards {
    let wrappers = settings.lock_wrappers.iter().map(|name| (name.clone(), ()));
    let wrappers = Rules::new(program, "analysis.lock_wrappers", wrappers, diagnostics);
    let scene = Scene::new(program, graph, sites);
    let locks = Locks::new(&scene, settings, diagnostics);
    let clocks = Clocks::new(&scene, settings, diagnostics);
    let mut drafts = regions::find(&scene, &locks, &wrappers);
    drafts.extend(barriers::find(&scene, &clocks));
    drafts.extend(joins::find(&scene, &clocks));
    drafts.extend(queues::find(&scene));
    drafts.extend(bounds::find(&scene));
    drafts.extend(elapsed::find(&scene, &clocks));
    // What guards no I/O makes nobody wait for long.
    drafts.retain(|draft| guards_io(&scene, draft));
    drafts.sort_by(|a, b| order(a).cmp(&order(b)));
    let chosen = Spread::new(&scene, &drafts).guards(sites);
    let mut guards = Guards::default();
    let ids = guards.number(program, drafts);
    for (found, mut chosen) in sites.iter_mut().zip(chosen) {
        for guard in &mut chosen {
            let (GuardedBy::Region(at) | GuardedBy::Timeout(at)) = guard.by;
            guard.by = ids[at as usize];
        }
        found.site.guards = chosen;
    }
    guards.groups = groups::find(sites);
    guards
}

fn guards_io(scene: &Scene<'_>, draft: &Draft) -> bool {
    draft
        .scope
        .iter()
        .any(|(method, call)| match draft.shallow {
            true => scene.site(*method, *call).is_some(),
            false => scene.does_io(*method, *call),
        })
}

/// By place; at one place, whatever order is always the same.
fn order(draft: &Draft) -> impl Ord + '_ {
    let (kind, text) = match &draft.what {
        What::Region { kind, on, .. } => (*kind as u8, on),
        What::Timeout {
            kind, expression, ..
        } => (100 + *kind as u8, expression),
    };
    (draft.method, draft.pc, kind, text)
}

impl Guards {
    /// Gives the drafts their ids: an index into the list of their kind.
    fn number(&mut self, program: &Program, drafts: Vec<Draft>) -> Vec<GuardedBy> {
        drafts
            .into_iter()
            .map(|draft| self.add(program, draft))
            .collect()
    }

    fn add(&mut self, program: &Program, draft: Draft) -> GuardedBy {
        let place = program.place(draft.method, draft.pc);
        match draft.what {
            What::Region { kind, on, waiters } => {
                let id = self.regions.len() as u32;
                let places = waiters.into_iter();
                let waiters = places
                    .map(|(method, pc)| program.place(method, pc))
                    .collect();
                self.regions.push(Region {
                    id,
                    kind,
                    place,
                    on,
                    waiters,
                });
                GuardedBy::Region(id)
            }
            What::Timeout {
                kind,
                above,
                wide,
                unit,
                constant,
                expression,
            } => {
                let id = self.timeouts.len() as u32;
                self.timeouts.push(Timeout {
                    id,
                    kind,
                    place,
                    above,
                    wide,
                    unit,
                    constant,
                    expression,
                });
                GuardedBy::Timeout(id)
            }
        }
    }
}
