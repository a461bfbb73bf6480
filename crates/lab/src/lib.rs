//! One trial, then a campaign of them.
//!
//! - [`archive`]: classes kept ready to be mapped, so that JVMs start faster.
//! - [`compile`]: a plan becomes data on the board.
//! - [`below`]: the same delay below the program.
//! - [`board`]: the board's file, its events and questions.
//! - [`frozen`]: a cluster frozen on its way through a trial.
//! - [`limits`]: every wait of a trial, derived from baselines.
//! - [`load`]: how many trials run side by side.
//! - [`snapshots`]: which frozen cluster a trial goes on from.
//! - [`trial`]: one trial from an empty folder to a history.
//! - [`check`]: what can be wrong with a campaign before it runs.
//! - [`campaign`]: baselines, search, confirmation, resume.
//!
//! Invariant: the lab knows no bytecode, no terminals and no HTML. What happens becomes an event.

pub mod archive;
pub mod below;
pub mod board;
pub mod campaign;
mod check;
mod clean;
mod clients;
pub mod compile;
mod confirm;
mod dumps;
pub mod faults;
pub mod frozen;
mod judge;
pub mod limits;
pub mod load;
mod probes;
mod running;
mod search;
mod shrink;
pub mod snapshots;
pub mod trial;
mod troubles;

use std::path::{Path, PathBuf};

use temblor_cluster::cell::CellError;

pub use campaign::{Campaign, Past};
pub use check::{check, site_pattern};
pub use trial::{Setup, TrialSpec};

/// Why a trial or a campaign could not go on.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("could not {what} {path}: {cause}{}", advice(.cause))]
    Io {
        what: &'static str,
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error(transparent)]
    Cell(#[from] CellError),
    #[error(transparent)]
    Snapshot(#[from] temblor_cluster::snapshot::SnapshotError),
    #[error(transparent)]
    Start(#[from] temblor_cluster::start::StartError),
    #[error(transparent)]
    Plan(#[from] compile::PlanError),
    #[error(transparent)]
    Policy(#[from] temblor_explore::policy::PolicyError),
    #[error("{0}")]
    Command(String),
    #[error(
        "the target fails without any fault, so no fault can be judged:\n{what}\n\
         see {folder}"
    )]
    Baseline { what: String, folder: PathBuf },
    #[error("no snapshot: {0}")]
    NoSnapshot(String),
    #[error("ended on request")]
    Interrupted,
    #[error("{0}; this is a defect of Temblor, please report it")]
    Internal(String),
}

fn advice(cause: &std::io::Error) -> &'static str {
    match cause.kind() {
        std::io::ErrorKind::StorageFull => "; free some space, then `temblor resume`",
        std::io::ErrorKind::PermissionDenied => "; check who owns the store",
        _ => "",
    }
}

impl LabError {
    pub(crate) fn io(what: &'static str, path: &Path, cause: std::io::Error) -> LabError {
        LabError::Io {
            what,
            path: path.to_path_buf(),
            cause,
        }
    }
}
