//! `temblor report`: the pages of a campaign, written again from its store.

use std::path::Path;

use temblor_model::campaign::{CampaignEvent, Summary};
use temblor_report::console::{Look, Paint, summary_lines};
use temblor_report::{Store, find_campaign, publish};

use super::campaign;
use crate::args::ReportArgs;
use crate::exit::{BadInput, Exit};

pub fn run(root: &Path, args: &ReportArgs) -> anyhow::Result<Exit> {
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

fn last_summary(store: &Store) -> anyhow::Result<Option<Summary>> {
    let events = store.campaign_events()?.values;
    let finished = |event: CampaignEvent| match event {
        CampaignEvent::Finished { summary } => Some(summary),
        _ => None,
    };
    Ok(events.into_iter().filter_map(finished).next_back())
}
