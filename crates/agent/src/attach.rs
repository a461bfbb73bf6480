//! Joins the trial: maps the board and the hooks file, checks that they belong together.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use memmap2::{Mmap, MmapMut};
use temblor_model::board::ring::Ring;
use temblor_model::board::view::{BadBoard, Board, SlotHeader};
use temblor_model::fnv64;
use temblor_model::hooks::{BadHooks, HookTable};
use thiserror::Error;

use crate::options::Options;

/// This process's place in the trial.
#[derive(Debug)]
pub struct Place {
    pub board: Board,
    pub hooks: HookTable<'static>,
    /// `fnv64` of the node's name, as steps name it.
    pub node: u64,
    pub slot: u32,
    pub ring: Ring,
}

/// Why the agent stays idle.
#[derive(Debug, Error)]
pub enum CannotJoin {
    #[error("cannot open the {what} {path}: {source}")]
    Open {
        what: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot use the board {path}: {source}")]
    Board { path: PathBuf, source: BadBoard },
    #[error("cannot use the hooks {path}: {source}")]
    Hooks { path: PathBuf, source: BadHooks },
    #[error("board and hooks are of different catalogs ({board:016x}, {hooks:016x})")]
    Catalogs { board: u64, hooks: u64 },
    #[error("all {slots} places on the board are taken; give it more slots")]
    Full { slots: u32 },
}

impl Place {
    pub fn join(options: &Options) -> Result<Place, CannotJoin> {
        let hooks = hooks(&options.hooks)?;
        let board = board(&options.board)?;
        let ids = (board.header().catalog_hash, hooks.catalog_hash());
        if ids.0 != ids.1 {
            return Err(CannotJoin::Catalogs {
                board: ids.0,
                hooks: ids.1,
            });
        }
        let slots = board.header().slot_count;
        let slot = board.join(&options.node, std::process::id());
        let slot = slot.ok_or(CannotJoin::Full { slots })?;
        let node = fnv64(options.node.as_bytes());
        Ok(Place {
            board,
            hooks,
            node,
            slot,
            ring: board.ring(slot),
        })
    }

    pub fn slot_header(&self) -> &'static SlotHeader {
        self.board.slot(self.slot)
    }
}

fn open(path: &Path, what: &'static str, write: bool) -> Result<File, CannotJoin> {
    let opened = OpenOptions::new().read(true).write(write).open(path);
    opened.map_err(|source| CannotJoin::Open {
        what,
        path: path.to_owned(),
        source,
    })
}

fn board(path: &Path) -> Result<Board, CannotJoin> {
    let file = open(path, "board", true)?;
    // SAFETY: the board is made to be shared; all changing parts are read as atomics.
    let map = unsafe { MmapMut::map_mut(&file) };
    let map = map.map_err(|source| CannotJoin::Open {
        what: "board",
        path: path.to_owned(),
        source,
    })?;
    // The target's threads read it until the process ends: it is never unmapped.
    let (base, len) = (map.as_ptr(), map.len());
    std::mem::forget(map);
    // SAFETY: mapped shared, writable, page-aligned, for the rest of the process.
    let board = unsafe { Board::at(base, len) };
    board.map_err(|source| CannotJoin::Board {
        path: path.to_owned(),
        source,
    })
}

fn hooks(path: &Path) -> Result<HookTable<'static>, CannotJoin> {
    let file = open(path, "hooks", false)?;
    // SAFETY: the lab writes the file once, before it starts any node.
    let map = unsafe { Mmap::map(&file) };
    let map = map.map_err(|source| CannotJoin::Open {
        what: "hooks",
        path: path.to_owned(),
        source,
    })?;
    let bytes: &'static [u8] = Box::leak(Box::new(map));
    HookTable::parse(bytes).map_err(|source| CannotJoin::Hooks {
        path: path.to_owned(),
        source,
    })
}
