//! `temblor report`: the pages of a campaign, written again from its store.

use std::path::Path;

use temblor_model::campaign::{CampaignEvent, Summary};
use temblor_report::console::{Look, Paint, summary_lines};
use temblor_report::{Store, find_campaign, publish};

use super::campaign;
use crate::args::ReportArgs;
use crate::exit::{BadInput, Exit};
use crate::print::print;

pub fn run(root: &Path, args: &ReportArgs) -> anyhow::Result<Exit> {
    if let Some([a, b]) = args.compare.as_deref() {
        return compare(root, a, b, args.json);
    }
    let bad = |e: temblor_report::StoreError| BadInput(e.to_string());
    let dir = find_campaign(root, &args.campaign).map_err(bad)?;
    let store = Store::open(&dir).map_err(bad)?;
    publish::campaign(&store)?;
    let Some(summary) = last_summary(&store)? else {
        eprintln!(
            "temblor: this campaign has not finished; go on with ./temblor resume {}",
            dir.display()
        );
        return Ok(Exit::Unknown);
    };
    match args.json {
        true => println!("{}", temblor_report::json::summary_line(&summary)),
        false => {
            let paint = Paint(Look::of_stdout().colour);
            for line in summary_lines(&summary, paint) {
                println!("{line}");
            }
        }
    }
    Ok(campaign::exit_of(&summary))
}

/// Two campaigns side by side. Bugs in either are what it is about, not what it ends with.
fn compare(root: &Path, a: &str, b: &str, json: bool) -> anyhow::Result<Exit> {
    let bad = |e: temblor_report::StoreError| BadInput(e.to_string());
    let open = |wanted: &str| {
        find_campaign(root, wanted)
            .and_then(|dir| Store::open(&dir))
            .map_err(bad)
    };
    let comparison = temblor_report::compare(&open(a)?, &open(b)?)?;
    let page = publish::comparison(&comparison, &root.join("compared"))?;
    match json {
        true => print(&comparison.json())?,
        false => {
            let paint = Paint(Look::of_stdout().colour);
            print(&comparison.lines(paint).join("\n"))?;
            eprintln!("  look    {}", page.display());
        }
    }
    Ok(Exit::Pass)
}

fn last_summary(store: &Store) -> anyhow::Result<Option<Summary>> {
    let events = store.campaign_events()?.values;
    let finished = |event: CampaignEvent| match event {
        CampaignEvent::Finished { summary } => Some(summary),
        _ => None,
    };
    Ok(events.into_iter().filter_map(finished).next_back())
}
