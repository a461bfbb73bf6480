//! `temblor shrink`: the smallest plan that still shows a bug.

use std::path::Path;

use temblor_model::campaign::WarpSpec;

use super::campaign;
use super::replay::{Wanted, stored_bug};
use crate::args::ShrinkArgs;
use crate::exit::Exit;
use crate::print::print_json;

pub fn run(root: &Path, args: &ShrinkArgs) -> anyhow::Result<Exit> {
    let (store, bug) = stored_bug(root, &args.bug)?;
    let wanted = Wanted::of_bug(&store, &bug)?;
    let prepared = wanted.prepare()?;
    let mut spec = wanted.spec(&prepared, 0, WarpSpec::Auto);
    spec.shrink = args.replays;
    spec.confirm = args.confirm;
    let own = campaign::create_store(root, &spec, &prepared)?;
    let past = wanted.past(&prepared, WarpSpec::Auto);
    let smaller = campaign::drive(&prepared, own, args.json, None, |campaign| {
        campaign.shrink(past, &bug)
    })?;
    let replays = smaller.shrunk.as_ref().map_or(0, |s| s.replays);
    eprintln!();
    if smaller.plan == bug.plan {
        let minimal = smaller.shrunk.as_ref().is_some_and(|s| s.minimal);
        let why = match minimal {
            true => "nothing smaller shows the bug",
            false => "no smaller plan was found; more --replays may find one",
        };
        eprintln!("shrink: {why} ({replays} replays)");
    } else {
        let c = &smaller.confirmed;
        eprintln!("shrink: from  {}", bug.plan);
        eprintln!("shrink: to    {}", smaller.plan);
        eprintln!(
            "shrink: shown {} of {} times, {replays} replays",
            c.times, c.of
        );
    }
    store.write_bug(&smaller)?;
    eprintln!("shrink: stored in {}", store.bug_dir(&bug.id).display());
    if args.json {
        print_json(&smaller)?;
    }
    Ok(Exit::BugsFound)
}
