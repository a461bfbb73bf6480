//! `temblor pause`: ends a running campaign in good order, from another terminal.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use temblor_report::{StoreError, find_campaign, running};

use crate::args::PauseArgs;
use crate::exit::{BadInput, Exit};
use crate::stop::Process;

/// Trials end within seconds; collecting the logs and writing the reports of a long campaign may
/// take a while on a busy machine.
const STOPPED_WITHIN_S: u64 = 180;
const LOOK_EVERY_MS: u64 = 100;

pub fn run(root: &Path, args: &PauseArgs) -> anyhow::Result<Exit> {
    let bad = |e: StoreError| BadInput(e.to_string());
    let dir = find_campaign(root, &args.campaign).map_err(bad)?;
    let resume = format!("./temblor resume {}", dir.display());
    let Some(runner) = running(&dir)? else {
        println!("not running; go on with {resume}");
        return Ok(Exit::Pass);
    };
    // The process is taken hold of before it is looked at: a later one under the same number
    // cannot be meant by mistake.
    let process = Process::hold(runner.pid);
    if !runner.is_here(&dir) {
        let text = format!(
            "process {} runs this campaign, and it cannot be seen from here (another user's, or in \
             another container); end it there with Ctrl-C",
            runner.pid
        );
        return Err(BadInput(text).into());
    }
    let asked = process.and_then(|process| process.ask_to_end());
    // One that has ended by itself meanwhile is no failure.
    if running(&dir)?.as_ref() == Some(&runner) {
        asked.with_context(|| format!("could not reach process {}", runner.pid))?;
    }
    eprintln!(
        "temblor: process {} was asked to end; waiting for it",
        runner.pid
    );
    let began = Instant::now();
    while running(&dir)?.as_ref() == Some(&runner) {
        if began.elapsed() > Duration::from_secs(STOPPED_WITHIN_S) {
            eprintln!(
                "temblor: process {} has not ended within {STOPPED_WITHIN_S} s; it still might, \
                 then go on with {resume}",
                runner.pid
            );
            return Ok(Exit::Unknown);
        }
        std::thread::sleep(Duration::from_millis(LOOK_EVERY_MS));
    }
    println!("paused; go on with {resume}");
    Ok(Exit::Pass)
}
