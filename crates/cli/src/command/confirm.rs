//! `temblor confirm`: how surely a bug shows again, on which clocks, and with a slow disk or network
//! instead of a delay in the program.

use std::path::Path;

use temblor_lab::below;
use temblor_model::bug::{Below, Bug, Confirmation};
use temblor_model::campaign::WarpSpec;
use temblor_report::Store;

use super::replay::{Played, Wanted, stored_bug};
use crate::args::ConfirmArgs;
use crate::exit::Exit;
use crate::prepare::Prepared;
use crate::print::print_json;

pub fn run(root: &Path, args: &ConfirmArgs) -> anyhow::Result<Exit> {
    let (store, mut bug) = stored_bug(root, &args.bug)?;
    let wanted = Wanted::of_bug(&store, &bug)?;
    let prepared = wanted.prepare()?;
    let warped = wanted.play(root, &prepared, args.times, WarpSpec::Auto, args.json)?;
    let real = match args.real {
        0 => None,
        times => Some(wanted.play(root, &prepared, times, WarpSpec::Off, args.json)?),
    };
    bug.confirmed = Confirmation {
        times: warped.shown as u32,
        of: warped.summary.trials as u32,
        unwarped_times: real.as_ref().map_or(0, |p| p.shown as u32),
        unwarped_of: real.as_ref().map_or(0, |p| p.summary.trials as u32),
    };
    if args.below {
        bug.below = Some(play_below(root, args, wanted, &prepared)?);
    }
    store.write_bug(&bug)?;
    tell(&store, &bug, args.json)?;
    let below_denies = matches!(&bug.below, Some(Below { times: 0, met, .. }) if *met > 0);
    Ok(match bug.confirmed.times {
        0 => Exit::Pass,
        _ if below_denies => Exit::Unknown,
        _ => Exit::BugsFound,
    })
}

/// The same delay below the program; where that cannot be, the reason.
fn play_below(
    root: &Path,
    args: &ConfirmArgs,
    wanted: Wanted,
    prepared: &Prepared,
) -> anyhow::Result<Below> {
    let plan = match below::plan(&wanted.plan, &prepared.catalog) {
        Ok(plan) => plan,
        Err(reason) => {
            return Ok(Below {
                reason: Some(reason),
                ..Below::default()
            });
        }
    };
    let wanted = Wanted { plan, ..wanted };
    let Played {
        summary,
        shown,
        met,
    } = wanted.play(root, prepared, args.times, WarpSpec::Auto, args.json)?;
    Ok(Below {
        times: shown as u32,
        of: summary.trials as u32,
        met: met as u32,
        reason: None,
    })
}

fn tell(store: &Store, bug: &Bug, json: bool) -> anyhow::Result<()> {
    let c = &bug.confirmed;
    eprintln!();
    eprintln!(
        "confirm: shown {} of {} times: {}",
        c.times, c.of, bug.signature
    );
    if c.unwarped_of > 0 {
        let (times, of) = (c.unwarped_times, c.unwarped_of);
        eprintln!("confirm: on the real clock {times} of {of}");
    }
    match &bug.below {
        Some(below) => eprintln!("confirm: {below}"),
        None => eprintln!("confirm: not tried below the program; --below does"),
    }
    eprintln!("confirm: stored in {}", store.bug_dir(&bug.id).display());
    if json {
        print_json(bug)?;
    }
    Ok(())
}
