//! The command line, as data.

mod compare;
mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use temblor_model::campaign::{StartSpec, StateLevel};
use temblor_model::plan::Contexts;

pub use compare::CompareArgs;
pub use values::{Size, Span, Warp};

/// Finds the bugs that distributed systems only show when something goes wrong.
///
/// Temblor runs a real cluster again and again, injects faults inside its JVMs where they are
/// likely to matter, and hands back bugs: confirmed, explained, and replayable with one command.
///
/// Exit codes: 0 pass, 1 bugs found, 2 unknown, 254 bad arguments, 255 internal error.
#[derive(Debug, Parser)]
#[command(name = "temblor", version, max_term_width = 100)]
pub struct Cli {
    /// Where campaigns are stored.
    #[arg(long, global = true, default_value = "store", value_name = "DIR")]
    pub store: PathBuf,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Search the bundled three-node store for its planted bugs: a tour in two minutes.
    Demo(DemoArgs),
    /// List targets, or fetch what they need (jars, JDKs and CRIU, cached per user).
    Targets(TargetsArgs),
    /// Show where faults can happen: sites, tasks and states, locks and timeouts, without running.
    Analyze(AnalyzeArgs),
    /// Run a campaign: clean runs, then trials with faults, then bugs.
    Run(RunArgs),
    /// Run several policies on one target and tell which exposed which bugs, and how soon.
    Compare(CompareArgs),
    /// Go on with a campaign that was interrupted, killed or out of disk.
    Resume(ResumeArgs),
    /// End a running campaign in good order from another terminal; `resume` goes on with it.
    Pause(PauseArgs),
    /// Judge the stored trials of a campaign again, with the checkers of this version.
    Check(CheckArgs),
    /// Run a bug's plan again: the command every bug report ends with.
    Replay(ReplayArgs),
    /// How surely a bug shows again: on both clocks, and with the delay below the program.
    Confirm(ConfirmArgs),
    /// Find the smallest plan that still shows a bug.
    Shrink(ShrinkArgs),
    /// Write the reports of a campaign again, and print its summary.
    Report(ReportArgs),
    /// What this machine allows, and what to install for the rest.
    Doctor(DoctorArgs),
    /// Measure hooks, decisions, start-up, the clock and the analysis against their bars.
    Bench(BenchArgs),
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Trials of the search.
    #[arg(long, default_value_t = 32)]
    pub trials: u64,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Trials side by side.
    #[arg(long)]
    pub jobs: Option<u32>,
    /// End with one JSON object on standard output; progress goes to standard error.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TargetsArgs {
    #[command(subcommand)]
    pub action: Option<TargetsAction>,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum TargetsAction {
    /// Fetch what a target needs, or `all` of them; a JDK (`jdk@8`); `criu`, for trials that
    /// start warm; or jars (`group:artifact:version,...`).
    Fetch { name: String },
    /// Print where a fetched thing is: the home of a JDK, the program `criu`, the folder of jars.
    Path { name: String },
}

/// What `--list` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListWhat {
    /// Places where a fault may happen.
    Sites,
    /// What threads run.
    Tasks,
    /// Abstract states of tasks, and the condition under which each is entered.
    States,
    /// Code that other threads wait for.
    Regions,
    /// Waits, locks and I/O with a bound, and clocks that are compared.
    Timeouts,
    /// Guarded sites of one basic block, and the site that stands for them.
    Groups,
    /// Methods that send messages to other nodes or handle them.
    Messages,
    /// Reads and writes of fields that say which nodes there are.
    Meta,
    /// Calls that declare faults which cannot happen there.
    Removed,
}

#[derive(Debug, Args)]
#[command(after_long_help = ANALYZE_EXAMPLES)]
pub struct AnalyzeArgs {
    /// `NAME`, `NAME@VERSION`, a folder with a target.toml; or the jars and class folders of a
    /// system of yours.
    ///
    /// A folder of jars stands for its jars, a folder of classes for its classes. The name of a
    /// target wins over a file of the same name: write `./NAME` for the file.
    #[arg(required_unless_present = "diff", value_name = "TARGET|PATH")]
    pub subject: Vec<String>,
    /// List everything of one kind, a line each, instead of the summary.
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["explain", "diff"])]
    pub list: Option<ListWhat>,
    /// Tell why a site is there: its id, its name or any part of its name.
    ///
    /// Where its exceptions come from, what it reads or writes, which lock or timeout is around
    /// it and through which calls, its group, and the tasks and states that reach it. A site that
    /// was removed as an invalid injection tells why.
    #[arg(long, value_name = "SITE", conflicts_with = "diff")]
    pub explain: Option<String>,
    /// Compare two versions of a system: what is new, what is gone, what raises other exceptions.
    ///
    /// Sites, tasks and states are the same when their names are; names survive changes elsewhere.
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["subject", "out"])]
    pub diff: Option<Vec<String>>,
    /// With jars and folders: prefixes of the class names that are your own. Without it, all are.
    #[arg(long = "package", value_name = "PREFIX", value_delimiter = ',')]
    pub packages: Vec<String>,
    /// The JDK it runs on, such as 17, instead of the target's choice; without one, the newest.
    #[arg(long, value_name = "MAJOR")]
    pub jdk: Option<u32>,
    /// Exceptions to inject instead of the target's own choice; without one, the I/O family.
    ///
    /// A type stands for itself and its subtypes, a pattern with `*` for the types whose names
    /// match.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub exceptions: Vec<String>,
    /// Also the entries of the JDK's own file and socket methods.
    #[arg(long)]
    pub jdk_sites: bool,
    /// Read and analyse everything again, and keep nothing for the next time.
    #[arg(long)]
    pub no_cache: bool,
    /// Write the whole catalog as JSON.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// One JSON object on standard output, whatever is asked for.
    #[arg(long)]
    pub json: bool,
}

const ANALYZE_EXAMPLES: &str = "\
Examples:
  temblor analyze trio                                  the summary
  temblor analyze trio --list regions                   what other threads wait for
  temblor analyze trio --explain FileChannel.force      why these sites are there
  temblor analyze ./lib ./my.jar --package org.mine.    a system of yours, no target.toml needed
  temblor analyze --diff zookeeper@3.4.6 zookeeper@3.6.2

docs/analysis.md tells how to read the output.";

#[derive(Debug, Args)]
pub struct RunArgs {
    /// `NAME`, `NAME@VERSION`, or a folder with a target.toml.
    pub target: String,
    /// How plans are chosen: survey, scatter, random, exhaustive, bsrr, new-state, fate, crashtuner,
    /// sieve, sieve-s, sieve-i, chronos, pairs, replay; `clean` injects nothing (docs/policies.md).
    #[arg(long, default_value = "survey")]
    pub policy: String,
    /// Trials of the search; clean runs and confirmations come on top.
    #[arg(long, default_value_t = 100)]
    pub trials: u64,
    /// The same seed gives the same plans.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Replays that a failing trial must survive to be a bug.
    #[arg(long, default_value_t = 3)]
    pub confirm: u32,
    /// Replays on the real clock, of which one must show the bug.
    #[arg(long, default_value_t = 2)]
    pub confirm_unwarped: u32,
    /// Replays that may go into making each bug's plan smaller; 0 leaves plans as they are.
    #[arg(long, default_value_t = 10)]
    pub shrink: u32,
    /// A plan to run, with `--policy replay`.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    #[command(flatten)]
    pub campaign: CampaignArgs,
}

/// What `run` and `compare` ask of a campaign.
#[derive(Debug, Args)]
pub struct CampaignArgs {
    /// One of the target's workloads; its default when omitted.
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// How many nodes; the target's choice when omitted.
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// Stop a campaign after this long: 90s, 30m, 2h.
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Span>,
    /// Trials side by side; as many as the machine has time for when omitted.
    #[arg(long)]
    pub jobs: Option<u32>,
    /// How trials of the search begin; confirmations always start cold.
    #[arg(long, value_enum, default_value_t = Start::Snapshot)]
    pub start: Start,
    /// Put the agent into the clients, too; faults then strike them as well.
    #[arg(long)]
    pub hook_clients: bool,
    /// When faults may strike.
    #[arg(long, value_enum, default_value_t = During::All)]
    pub during: During,
    /// Kinds of faults, comma-separated.
    #[arg(long, default_value = "throw,delay,crash", value_delimiter = ',')]
    pub faults: Vec<String>,
    /// What counts as one state, for policies that go by abstract states.
    #[arg(long, value_enum, default_value_t = States::State)]
    pub states: States,
    /// What tells the contexts of a site apart, for fate, sieve and sieve-s.
    #[arg(long, value_enum, default_value_t = ContextsBy::Stack)]
    pub contexts: ContextsBy,
    /// Also try shorter and longer delays than the policy would (sieve and its kin).
    #[arg(long)]
    pub sweep: bool,
    /// Length of an injected delay, in the target's time: 60s when omitted; sieve and its kin have
    /// 5m where others wait, and go by timeouts elsewhere in any case, as chronos does.
    #[arg(long, value_name = "TIME")]
    pub delay: Option<Span>,
    /// Only sites whose name matches this regular expression.
    #[arg(long, default_value = "", value_name = "REGEX")]
    pub sites: String,
    /// Also the entries of the JDK's own file and socket methods.
    #[arg(long)]
    pub jdk_sites: bool,
    /// Count the basic blocks that trials reach: costs a little of each trial.
    #[arg(long)]
    pub coverage: bool,
    /// How fast virtual time runs: `auto` lets clean runs choose, a number, or `off`.
    #[arg(long, default_value = "auto")]
    pub warp: Warp,
    /// Clean runs before the search.
    #[arg(long, default_value_t = 4)]
    pub baselines: u32,
    /// Room for the folders of trials: 500MB, 2GB. Beyond it failing trials lose data files.
    ///
    /// Of passing trials only the plan, the outcome and the events are kept in any case; these
    /// are kept of every trial, whatever the limit. What a bug's report shows stays whole.
    #[arg(long, default_value = "2GB", value_name = "SIZE")]
    pub keep: Size,
    /// End with one JSON object on standard output; progress goes to standard error.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// A campaign's folder, its name in the store, or `latest`.
    #[arg(default_value = "latest")]
    pub campaign: String,
    /// Trials in all, when more than first asked for.
    #[arg(long)]
    pub trials: Option<u64>,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PauseArgs {
    /// A campaign's folder, its name in the store, or `latest`.
    #[arg(default_value = "latest")]
    pub campaign: String,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A campaign's folder, its name in the store, or `latest`.
    #[arg(default_value = "latest")]
    pub campaign: String,
    /// Store the new judgements; the first ones stay beside them as `outcome.json.before`.
    #[arg(long)]
    pub write: bool,
    /// One JSON object on standard output.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A bug's id, its folder, the id of a known bug, or a plan.toml (then with `--target`).
    pub bug: String,
    /// How often.
    #[arg(long, default_value_t = 1)]
    pub times: u64,
    /// The target, when a plan.toml is given.
    #[arg(long)]
    pub target: Option<String>,
    /// One of the target's workloads, when a plan.toml or a known bug is given.
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// How fast virtual time runs: `auto`, a number, or `off`.
    #[arg(long, default_value = "auto")]
    pub warp: Warp,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ConfirmArgs {
    /// A bug's id or its folder.
    pub bug: String,
    /// Replays on the campaign's clock, and as many below the program.
    #[arg(long, default_value_t = 5)]
    pub times: u64,
    /// Replays on the real clock.
    #[arg(long, default_value_t = 1)]
    pub real: u64,
    /// Also with a disk or a network that is as slow as the injected delay: does the operation
    /// really block there?
    #[arg(long)]
    pub below: bool,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ShrinkArgs {
    /// A bug's id or its folder.
    pub bug: String,
    /// Replays of smaller plans, at most.
    #[arg(long, default_value_t = 30)]
    pub replays: u32,
    /// Replays that confirm the result.
    #[arg(long, default_value_t = 3)]
    pub confirm: u32,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A campaign's folder, its name in the store, or `latest`.
    #[arg(default_value = "latest")]
    pub campaign: String,
    /// Tell two campaigns apart: which bugs each found and how soon.
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "campaign")]
    pub compare: Option<Vec<String>>,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub what: Option<BenchWhat>,
    /// Fewer rounds: a look, not a verdict.
    #[arg(long)]
    pub quick: bool,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum BenchWhat {
    /// Time and memory of the analysis against the size of the code, target by target.
    ///
    /// Each target is analysed in a process of its own, without the cache, so many times; the
    /// median counts. The plot shows whether time grows with the code or faster.
    Analysis(AnalysisBenchArgs),
    /// What all hooks add to a target's whole run without faults, by alternating runs.
    Overhead(OverheadArgs),
    /// What trials cost, from a cold start and from a snapshot.
    Trials(TrialsArgs),
}

#[derive(Debug, Args)]
pub struct TrialsArgs {
    /// `NAME`, `NAME@VERSION`, or a folder with a target.toml.
    pub target: String,
    /// One of the target's workloads; its default when omitted.
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Starts of each kind, in turn.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub starts: u32,
    /// Trials from snapshots.
    #[arg(long, default_value_t = 300)]
    pub trials: u64,
    /// Trials from a cold start.
    #[arg(long, default_value_t = 60)]
    pub cold_trials: u64,
    /// Trials side by side; as many as the machine has time for when omitted.
    #[arg(long)]
    pub jobs: Option<u32>,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct OverheadArgs {
    /// `NAME`, `NAME@VERSION`, or a folder with a target.toml.
    pub target: String,
    /// One of the target's workloads; its default when omitted.
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Pairs of runs.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// What the ratio must not exceed.
    #[arg(long, default_value_t = 1.05)]
    pub bar: f64,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct AnalysisBenchArgs {
    /// Targets to measure; all that are fetched when omitted.
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// How often each is analysed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    #[arg(long)]
    pub json: bool,
}

/// What counts as one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum States {
    /// An abstract state of a node.
    State,
    /// A site in an abstract state of a node.
    Operation,
}

impl States {
    pub fn level(self) -> StateLevel {
        match self {
            States::State => StateLevel::State,
            States::Operation => StateLevel::Operation,
        }
    }
}

/// What tells the contexts of a site apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ContextsBy {
    /// Nothing: each site once.
    Site,
    /// The abstract state of the task that comes to it: far fewer than stacks.
    State,
    /// The stack, as in the papers.
    Stack,
    /// Stack and node.
    Node,
}

impl ContextsBy {
    pub fn spec(self) -> Contexts {
        match self {
            ContextsBy::Site => Contexts::Site,
            ContextsBy::State => Contexts::State,
            ContextsBy::Stack => Contexts::Stack,
            ContextsBy::Node => Contexts::Node,
        }
    }
}

/// When faults may strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum During {
    /// Also while the cluster starts.
    All,
    /// Only after the clients began to work: most trials then go on from a ready cluster.
    Workload,
}

/// How trials of the search begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Start {
    /// From a frozen cluster, where this machine can freeze one.
    Snapshot,
    /// Each starts its own cluster.
    Cold,
}

impl Start {
    pub fn spec(self) -> StartSpec {
        match self {
            Start::Snapshot => StartSpec::Snapshot,
            Start::Cold => StartSpec::Cold,
        }
    }
}

/// Reads the command line; help and version exit with 0, mistakes with 254.
pub fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let _ = error.print();
        let code = if error.use_stderr() { 254 } else { 0 };
        std::process::exit(code)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
