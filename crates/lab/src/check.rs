//! What can be wrong with what a campaign is asked to do: told before anything runs.

use temblor_explore::policy::{self, FaultKind};
use temblor_model::campaign::CampaignSpec;
use temblor_model::catalog::SiteCatalog;

use crate::LabError;
use crate::compile::{self, AnyFaults, Ground, Hold, Recording};

/// Checks all of a campaign that needs no clean runs.
pub fn check(spec: &CampaignSpec, catalog: &SiteCatalog, nodes: &[String]) -> Result<(), LabError> {
    let known: Vec<&str> = policy::names().collect();
    if !known.contains(&spec.policy.as_str()) {
        let known = known.join(", ");
        let text = format!("there is no policy `{}`; choose {known}", spec.policy);
        return Err(LabError::Command(text));
    }
    for fault in &spec.faults {
        fault.parse::<FaultKind>()?;
    }
    site_pattern(&spec.sites)?;
    match &spec.plan {
        Some(plan) => {
            // Which faults a site may take changes nothing about whether the plan fits.
            let any = AnyFaults {
                throw: true,
                crash: true,
                delay_ms: None,
                sites: None,
            };
            let ground = Ground {
                catalog,
                nodes,
                any: &any,
                baseline: None,
            };
            compile::board(plan, ground, Recording::None, Hold::Nowhere)?;
        }
        None if spec.policy == "replay" => {
            let text = "policy `replay` needs a plan: add `--plan FILE`, the plan.toml of a bug \
                        or a trial";
            return Err(LabError::Command(text.into()));
        }
        None => {}
    }
    Ok(())
}

/// The sites a campaign is about; all when the text is empty.
pub fn site_pattern(text: &str) -> Result<Option<regex::Regex>, LabError> {
    if text.is_empty() {
        return Ok(None);
    }
    let pattern = regex::Regex::new(text);
    pattern
        .map(Some)
        .map_err(|e| LabError::Command(format!("`{text}` is not a pattern for site names: {e}")))
}
