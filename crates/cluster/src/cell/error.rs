//! Why a cell could not be opened or did not do what was asked.

use std::io;
use std::path::PathBuf;

use super::message::ProcId;

/// Each message says what failed and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    #[error(
        "the program `temblor-cell` is not beside {}; build it with `cargo build --release \
         -p temblor-cluster`, or name its folder in TEMBLOR_BIN_DIR",
        looked.display()
    )]
    NoProgram { looked: PathBuf },
    #[error("cannot use {} as a cell's folder: {source}", dir.display())]
    Folder { dir: PathBuf, source: io::Error },
    #[error("cannot start {}: {source}", program.display())]
    Spawn { program: PathBuf, source: io::Error },
    #[error("this machine does not allow {step} ({reason}); {advice}")]
    Refused {
        step: String,
        reason: io::Error,
        advice: String,
    },
    #[error(
        "the cell in {} did not come up within {limit_ms} ms; see cell.log there",
        dir.display()
    )]
    NotUp { dir: PathBuf, limit_ms: u64 },
    #[error("the cell in {} is gone: its init ended; see cell.log there", dir.display())]
    Gone { dir: PathBuf },
    #[error("could not {what}: {reason}")]
    Request { what: String, reason: String },
    #[error("no answer from the cell to `{what}` within {limit_ms} ms")]
    Late { what: String, limit_ms: u64 },
    #[error("process {id} has already ended")]
    Ended { id: ProcId },
    #[error(
        "processes of the cell in {} are still there {limit_ms} ms after its init (pid {init_pid}) \
         was killed; they may wait for a dead disk",
        dir.display()
    )]
    StillAlive {
        dir: PathBuf,
        init_pid: i32,
        limit_ms: u64,
    },
}
