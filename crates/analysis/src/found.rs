//! Sites while they are being worked on: still tied to the methods they were found in.

use temblor_model::site::Site;

use crate::program::MethodId;

/// A site, and the call of the program model it stands at.
#[derive(Debug)]
pub struct FoundSite {
    pub method: MethodId,
    /// Index into the body's calls.
    pub call: u32,
    /// The basic block of that call.
    pub block: u32,
    pub site: Site,
}
