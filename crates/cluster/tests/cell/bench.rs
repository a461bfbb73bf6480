//! A cell to try things in, and how the tests look at it.

use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use temblor_cluster::cell::{
    Cell, CellSpec, ExitNotice, ProbeAnswer, ProbeSpec, ProcId, ProcessSpec,
};

/// Generous: only a hang gets here.
pub const LIMIT: Duration = Duration::from_secs(60);
pub const CELL_PROGRAM: &str = env!("CARGO_BIN_EXE_temblor-cell");

/// An open cell and its folder.
pub struct Bench {
    pub cell: Cell,
    _dir: tempfile::TempDir,
}

pub fn open() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let cell = Cell::open(CellSpec::new(dir.path())).unwrap();
    Bench { cell, _dir: dir }
}

impl Bench {
    pub fn log(&self, name: &str) -> PathBuf {
        self.cell.dir().join(format!("{name}.log"))
    }

    pub fn spec(&self, name: &str, argv: &[&str]) -> ProcessSpec {
        ProcessSpec {
            name: name.into(),
            argv: argv.iter().map(|arg| arg.to_string()).collect(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: self.cell.dir().to_path_buf(),
            stdout: self.log(name),
            stderr: self.log(name),
        }
    }

    pub fn start(&self, name: &str, argv: &[&str]) -> ProcId {
        self.cell.start(self.spec(name, argv)).unwrap()
    }

    pub fn shell(&self, name: &str, script: &str) -> ProcId {
        self.start(name, &["/bin/sh", "-c", script])
    }

    pub fn end_of(&self, id: ProcId) -> ExitNotice {
        self.cell.wait_exit_of(id, LIMIT).expect("an exit")
    }

    /// Runs to the end; what it printed.
    pub fn output(&self, name: &str, argv: &[&str]) -> String {
        let id = self.start(name, argv);
        self.end_of(id);
        fs::read_to_string(self.log(name)).unwrap()
    }

    pub fn wait_for_text(&self, name: &str, text: &str) {
        let seen = || {
            fs::read_to_string(self.log(name))
                .unwrap_or_default()
                .contains(text)
        };
        wait_until(&format!("`{text}` from {name}"), seen);
    }

    pub fn probe(&self, to: SocketAddrV4, send: &str, within_ms: u64) -> ProbeAnswer {
        let spec = ProbeSpec {
            to,
            send: send.into(),
            within_ms,
            one_line: true,
        };
        self.cell.probe(spec).unwrap()
    }
}

pub fn wait_until(what: &str, met: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !met() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Processes of this machine whose command line contains the marker.
pub fn count_marked(marker: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let marked = |dir: &Path| {
        let line = fs::read(dir.join("cmdline")).unwrap_or_default();
        // An ended process that nobody has waited for has no command line.
        String::from_utf8_lossy(&line).contains(marker)
    };
    entries.filter(|entry| marked(&entry.path())).count()
}

pub fn marker(name: &str) -> String {
    format!("temblor-mark-{name}-{}", std::process::id())
}
