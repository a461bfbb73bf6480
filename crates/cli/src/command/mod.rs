//! The commands, one file each.

mod analyze;
mod bench;
mod campaign;
mod check;
mod compare;
mod confirm;
mod demo;
mod doctor;
mod pause;
pub mod replay;
mod report;
mod resume;
mod run;
mod shrink;
mod targets;

use crate::args::{Cli, Command};
use crate::exit::Exit;

pub fn run(cli: Cli) -> anyhow::Result<Exit> {
    let store = cli.store;
    match cli.command {
        Command::Demo(args) => demo::run(&store, &args),
        Command::Targets(args) => targets::run(&args),
        Command::Analyze(args) => analyze::run(&args),
        Command::Run(args) => run::run(&store, &args),
        Command::Compare(args) => compare::run(&store, &args),
        Command::Resume(args) => resume::run(&store, &args),
        Command::Pause(args) => pause::run(&store, &args),
        Command::Check(args) => check::run(&store, &args),
        Command::Replay(args) => replay::run(&store, &args),
        Command::Confirm(args) => confirm::run(&store, &args),
        Command::Shrink(args) => shrink::run(&store, &args),
        Command::Report(args) => report::run(&store, &args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => bench::run(&args),
    }
}
