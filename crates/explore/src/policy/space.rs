//! What can be injected where: the reached contexts of a campaign's sites, and their faults.

use std::collections::BTreeSet;

use temblor_model::campaign::CampaignSpec;
use temblor_model::plan::{Fault, Plan, Step, Trigger};
use temblor_model::site::{Site, SiteId};

use super::{FaultKind, Scope};

/// A context of a site as baselines reached it, with the nodes they reached it on.
pub struct Context {
    pub site_id: SiteId,
    pub site: String,
    pub stack: String,
    pub nodes: Vec<OnNode>,
    /// Every baseline reached it, on whichever node: most likely trials will too.
    pub sure: bool,
    /// Not all nodes reach it: which one does may be another's turn in the next trial.
    pub roams: bool,
    /// The faults to try first: one of each kind.
    pub faults: Vec<Fault>,
    /// Exceptions beyond the most general one.
    pub more: Vec<Fault>,
}

/// How one node reached a context.
pub struct OnNode {
    pub node: String,
    /// As many as every run had that reached it, of those that are in scope.
    pub hits: u32,
    /// Baselines that reached it there.
    pub runs: u32,
    /// Whether every baseline reached it there.
    pub always: bool,
}

/// A node that was crashed comes back after so long, virtual milliseconds: what crashes break
/// shows when they recover.
const RESTART_AFTER_MS: u64 = 5_000;

/// The plan of one injection.
pub fn plan(seed: u64, when: Trigger, fault: Fault) -> Plan {
    let crashes = fault == Fault::Crash;
    let mut plan = Plan::single(seed, when, fault);
    if crashes {
        let when = Trigger::After {
            ms: RESTART_AFTER_MS,
        };
        let fault = Fault::Restart { node: "*".into() };
        plan.steps.push(Step { when, fault });
    }
    plan
}

/// The reached contexts in scope that have faults, in an order that depends on their names only.
pub fn contexts(scope: &Scope<'_>) -> Vec<Context> {
    let mut reached: Vec<_> = scope.baseline.reached.iter().collect();
    reached.sort_by(|a, b| (a.site, &a.stack, &a.node).cmp(&(b.site, &b.stack, &b.node)));
    let mut contexts: Vec<Context> = Vec::new();
    for r in reached {
        let skip = if scope.working { r.early } else { 0 };
        if skip > 0 && r.least <= skip {
            continue;
        }
        let on_node = OnNode {
            node: r.node.clone(),
            hits: r.least.max(1) - skip,
            runs: r.runs,
            always: r.runs >= scope.baseline.runs,
        };
        if let Some(last) = contexts.last_mut()
            && (last.site_id, &last.stack) == (r.site, &r.stack)
        {
            last.nodes.push(on_node);
            continue;
        }
        let Some(site) = scope.catalog.site(r.site) else {
            continue;
        };
        let frames = scope.baseline.contexts.get(&r.stack);
        let in_memory = frames.is_some_and(|frames| site.is_in_memory(frames));
        let (faults, more) = faults(site, in_memory, scope);
        if is_wanted(site, scope) && !faults.is_empty() {
            contexts.push(Context {
                site_id: r.site,
                site: site.name.clone(),
                stack: r.stack.clone(),
                nodes: vec![on_node],
                sure: true,
                roams: false,
                faults,
                more,
            });
        }
    }
    let nodes: BTreeSet<&str> = scope
        .baseline
        .reached
        .iter()
        .map(|r| r.node.as_str())
        .collect();
    for context in &mut contexts {
        context.roams = context.nodes.len() < nodes.len();
        let runs: u32 = context.nodes.iter().map(|n| n.runs).sum();
        context.sure = runs >= scope.baseline.runs;
    }
    contexts
}

/// Whether the campaign looks at the site at all.
pub fn is_wanted(site: &Site, scope: &Scope<'_>) -> bool {
    scope.sites.as_ref().is_none_or(|s| s.is_match(&site.name))
}

/// The sites in scope that have faults, by their ids: their hits are requests for one.
pub fn requesting(scope: &Scope<'_>) -> Vec<bool> {
    let requests = |site: &Site| {
        let (faults, _) = faults(site, false, scope);
        is_wanted(site, scope) && !faults.is_empty()
    };
    scope.catalog.sites.iter().map(requests).collect()
}

/// What meets only memory neither fails nor is slow; the node may still crash there.
fn faults(site: &Site, in_memory: bool, scope: &Scope<'_>) -> (Vec<Fault>, Vec<Fault>) {
    let enabled = |kind| {
        let real = !in_memory || kind == FaultKind::Crash;
        real && scope.faults.contains(&kind)
    };
    let mut throws = site.throwable().map(|exception| Fault::Throw {
        exception: exception.clone(),
    });
    let mut first = Vec::new();
    let mut more = Vec::new();
    if enabled(FaultKind::Throw) {
        first.extend(throws.next());
        more.extend(throws);
    }
    if enabled(FaultKind::Delay) && site.can_be_slow() {
        let ms = scope.delay_ms.unwrap_or(CampaignSpec::DELAY_MS);
        first.push(Fault::Delay { ms });
    }
    if enabled(FaultKind::Crash) {
        first.push(Fault::Crash);
    }
    (first, more)
}
