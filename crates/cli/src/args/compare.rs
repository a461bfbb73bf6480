//! The arguments of `compare`.

use clap::Args;

use super::CampaignArgs;

/// What a contest was begun with cannot be changed when it goes on.
const FIXED: [&str; 25] = [
    "target",
    "policies",
    "trials",
    "seeds",
    "confirm",
    "confirm_unwarped",
    "shrink",
    "workload",
    "nodes",
    "budget",
    "jobs",
    "start",
    "hook_clients",
    "during",
    "faults",
    "states",
    "contexts",
    "sweep",
    "delay",
    "sites",
    "jdk_sites",
    "coverage",
    "warp",
    "baselines",
    "keep",
];

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CompareArgs {
    /// `NAME`, `NAME@VERSION`, or a folder with a target.toml.
    #[arg(required_unless_present = "resume")]
    pub target: Option<String>,
    /// The policies, comma-separated.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        required_unless_present = "resume"
    )]
    pub policies: Vec<String>,
    /// Trials of each campaign's search; clean runs and confirmations come on top.
    #[arg(long, default_value_t = 200)]
    pub trials: u64,
    /// Campaigns of each policy, with the seeds 0, 1, 2 and so on.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Go on with a comparison that was interrupted: its folder, `compare-<time>`.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = FIXED)]
    pub resume: Option<String>,
    /// Replays that a failing trial must survive to be a bug.
    #[arg(long, default_value_t = 2)]
    pub confirm: u32,
    /// Replays on the real clock, of which one must show the bug.
    #[arg(long, default_value_t = 0)]
    pub confirm_unwarped: u32,
    /// Replays that may go into making each bug's plan smaller; 0 leaves plans as they are.
    #[arg(long, default_value_t = 0)]
    pub shrink: u32,
    #[command(flatten)]
    pub campaign: CampaignArgs,
}

const EXAMPLES: &str = "\
Examples:
  temblor compare trio --policies survey,scatter --trials 50
  temblor compare trio --policies bsrr,random --seeds 5 --budget 30m
  temblor compare --resume store/trio@1/compare-20260101-120000

docs/comparing.md tells how to read the result.";
