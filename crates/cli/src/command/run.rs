//! `temblor run`: a campaign from the beginning.

use std::path::Path;

use temblor_cluster::target::Choice;
use temblor_lab::Past;
use temblor_model::campaign::CampaignSpec;
use temblor_model::plan::Plan;

use super::campaign;
use crate::args::RunArgs;
use crate::exit::{BadInput, Exit};
use crate::prepare;

pub fn run(root: &Path, args: &RunArgs) -> anyhow::Result<Exit> {
    let shared = &args.campaign;
    let choice = Choice {
        workload: shared.workload.clone(),
        nodes: shared.nodes,
    };
    let prepared = prepare::prepare(&args.target, &choice, shared.jdk_sites)?;
    let spec = CampaignSpec {
        policy: args.policy.clone(),
        seed: args.seed,
        trials: args.trials,
        confirm: args.confirm,
        confirm_unwarped: args.confirm_unwarped,
        shrink: args.shrink,
        plan: args.plan.as_deref().map(read_plan).transpose()?,
        ..campaign::spec(&args.target, shared, &prepared)
    };
    let store = campaign::create_store(root, &spec, &prepared)?;
    let summary = campaign::run(&prepared, store, Past::default(), shared.json, None)?;
    Ok(campaign::exit_of(&summary))
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
