//! Writes the pages of bugs and campaigns into the store.

use temblor_model::bug::Bug;

use crate::store::{Store, StoreError, write_whole};
use crate::view::{BugView, CampaignView};
use crate::{html, markdown};

/// Writes `report.md` and `report.html` of one bug.
pub fn bug(store: &Store, bug: &Bug) -> Result<(), StoreError> {
    let view = BugView::gather(store, bug)?;
    let folder = store.bug_dir(&bug.id);
    write_whole(&folder.join("report.md"), markdown::bug(&view).as_bytes())?;
    write_whole(&folder.join("report.html"), html::bug(&view).as_bytes())
}

/// Writes `campaign.html` and `report.md` of a campaign, and the reports of all its bugs again:
/// since they were found, more trials may have shown them.
pub fn campaign(store: &Store) -> Result<(), StoreError> {
    for found in store.bugs()? {
        bug(store, &found)?;
    }
    let view = CampaignView::gather(store)?;
    let page = html::campaign(&view);
    write_whole(&store.path().join("campaign.html"), page.as_bytes())?;
    let text = markdown::campaign(&view);
    write_whole(&store.path().join("report.md"), text.as_bytes())
}
