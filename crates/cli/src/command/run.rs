//! `temblor run`: a campaign from the beginning.

use std::path::Path;

use temblor_cluster::target::Choice;
use temblor_lab::Past;
use temblor_model::campaign::CampaignSpec;
use temblor_model::plan::Plan;

use super::campaign;
use crate::args::{During, RunArgs};
use crate::exit::{BadInput, Exit};
use crate::prepare::{self, Prepared};

pub fn run(root: &Path, args: &RunArgs) -> anyhow::Result<Exit> {
    let choice = Choice {
        workload: args.workload.clone(),
        nodes: args.nodes,
    };
    let prepared = prepare::prepare(&args.target, &choice, args.jdk_sites)?;
    let spec = spec(args, &prepared)?;
    let store = campaign::create_store(root, &spec, &prepared)?;
    let summary = campaign::run(&prepared, store, Past::default(), args.json, None)?;
    Ok(campaign::exit_of(&summary))
}

fn spec(args: &RunArgs, prepared: &Prepared) -> anyhow::Result<CampaignSpec> {
    let plan = args.plan.as_deref().map(read_plan).transpose()?;
    Ok(CampaignSpec {
        format: CampaignSpec::FORMAT,
        target: prepared.target.full_name(),
        target_dir: prepare::given_by_folder(&args.target, &prepared.target),
        workload: args.workload.clone(),
        nodes: args.nodes,
        policy: args.policy.clone(),
        seed: args.seed,
        trials: args.trials,
        budget_s: args.budget.map_or(0, |b| b.ms.div_ceil(1000)),
        jobs: args.jobs.unwrap_or(0),
        hook_clients: args.hook_clients,
        working: args.during == During::Workload,
        start: args.start.spec(),
        warp: args.warp.0,
        faults: args.faults.clone(),
        delay_ms: args.delay.ms,
        level: args.states.level(),
        sweep: args.sweep,
        sites: args.sites.clone(),
        jdk_sites: args.jdk_sites,
        coverage: args.coverage,
        baselines: args.baselines,
        confirm: args.confirm,
        confirm_unwarped: args.confirm_unwarped,
        keep_mb: args.keep.mb,
        shrink: args.shrink,
        plan,
    })
}

/// A plan from a file; errors say where.
pub fn read_plan(path: &Path) -> anyhow::Result<Plan> {
    let bad = |text: String| BadInput(format!("{}: {text}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    let plan: Plan = toml::from_str(&text).map_err(|e| bad(e.to_string()))?;
    if plan.format > Plan::FORMAT {
        let text = format!("plan format {} is newer than this build knows", plan.format);
        return Err(bad(text).into());
    }
    Ok(plan)
}
