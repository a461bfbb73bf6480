//! Cells to freeze, forks of them, and how the tests look at both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use temblor_cluster::artifact;
use temblor_cluster::cell::{Cell, CellSpec, Clocks, ExitNotice, ProcId, ProcessSpec};
use temblor_cluster::snapshot::{Snapshot, SnapshotError};

/// Generous: only a hang gets here.
pub const LIMIT: Duration = Duration::from_secs(60);
const CLOCK_PAGE: &str = "clock";
const PAGE_BYTES: usize = 4096;

/// A process that counts into a file it holds open, and starts others all the time.
pub const COUNTER: &str =
    "exec 3>numbers; n=0; while :; do n=$((n+1)); echo $n >&3; sleep 0.01; done";

/// The words before CRIU's own arguments. Without it nothing here can be shown.
pub fn criu() -> Vec<String> {
    static FOUND: OnceLock<Vec<String>> = OnceLock::new();
    let find = || {
        // SAFETY: geteuid cannot fail and takes nothing.
        let user = unsafe { libc::geteuid() };
        assert!(
            user == 0,
            "only root can freeze processes: run these tests as root, after \
             `temblor targets fetch criu`"
        );
        // The error names `temblor targets fetch criu`.
        let criu = artifact::find_criu().unwrap_or_else(|error| panic!("{error}"));
        criu.argv().to_vec()
    };
    FOUND.get_or_init(find).clone()
}

/// An open cell, and a folder for it, its images and its forks.
pub struct Bench {
    pub cell: Cell,
    home: tempfile::TempDir,
}

pub fn open() -> Bench {
    let home = tempfile::tempdir().unwrap();
    let cell = open_in(home.path());
    Bench { cell, home }
}

pub fn open_in(home: &Path) -> Cell {
    let dir = home.join("cell");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join(CLOCK_PAGE), [0; PAGE_BYTES]).unwrap();
    Cell::open(CellSpec::new(dir)).unwrap()
}

pub fn take(cell: &Cell, criu: &[String], images: &Path) -> Result<Snapshot, SnapshotError> {
    Snapshot::take(cell, criu, images, &clock_page(cell))
}

pub fn clock_page(cell: &Cell) -> PathBuf {
    cell.dir().join(CLOCK_PAGE)
}

impl Bench {
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A cell in which a process has begun to count.
    pub fn counting() -> Bench {
        let bench = open();
        shell(&bench.cell, "counter", COUNTER);
        wait_for_count(bench.cell.dir(), "numbers", 5);
        bench
    }

    pub fn freeze(self) -> Frozen {
        self.freeze_with(&criu())
    }

    pub fn freeze_with(self, criu: &[String]) -> Frozen {
        let snapshot = take(&self.cell, criu, &self.home().join("images")).unwrap();
        Frozen {
            snapshot: Some(snapshot),
            home: self.home,
            forks: AtomicUsize::new(0),
        }
    }
}

/// A frozen cell.
pub struct Frozen {
    snapshot: Option<Snapshot>,
    home: tempfile::TempDir,
    forks: AtomicUsize,
}

impl Frozen {
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn images(&self) -> PathBuf {
        self.home().join("images")
    }

    pub fn snapshot(&self) -> &Snapshot {
        self.snapshot.as_ref().unwrap()
    }

    pub fn dir(&self) -> &Path {
        self.snapshot().dir()
    }

    /// A folder for a fork, with a copy of the files.
    pub fn copy(&self) -> PathBuf {
        let number = self.forks.fetch_add(1, Ordering::Relaxed);
        let dir = self.home().join(format!("fork-{number}"));
        self.snapshot().copy_files(&dir, &[]).unwrap();
        dir
    }

    pub fn fork(&self) -> Cell {
        self.fork_with_clocks().0
    }

    pub fn fork_with_clocks(&self) -> (Cell, Clocks) {
        self.snapshot().thaw(&self.copy()).unwrap()
    }

    /// Throws the snapshot away; its images and files go.
    pub fn discard(mut self) {
        let (images, dir) = (self.images(), self.dir().to_path_buf());
        assert!(images.exists() && dir.exists());
        self.snapshot = None;
        assert!(!images.exists(), "the images are gone");
        assert!(!dir.exists(), "the frozen files are gone");
    }
}

pub fn spec(cell: &Cell, name: &str, argv: &[&str]) -> ProcessSpec {
    let log = cell.dir().join(format!("{name}.log"));
    ProcessSpec {
        name: name.into(),
        argv: argv.iter().map(|arg| arg.to_string()).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: cell.dir().to_path_buf(),
        stdout: log.clone(),
        stderr: log,
    }
}

pub fn shell(cell: &Cell, name: &str, script: &str) -> ProcId {
    cell.start(spec(cell, name, &["/bin/sh", "-c", script]))
        .unwrap()
}

pub fn end_of(cell: &Cell, id: ProcId) -> ExitNotice {
    cell.wait_exit_of(id, LIMIT).expect("an exit")
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// How far a file counts: whole lines from 1 on, none left out and none twice.
pub fn counted(dir: &Path, name: &str) -> u64 {
    counted_lines(&read(&dir.join(name)), name)
}

pub fn counted_lines(text: &str, what: &str) -> u64 {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut last = 0;
    for line in whole.lines() {
        assert_eq!(line, (last + 1).to_string(), "in {what}, after {last}");
        last += 1;
    }
    last
}

pub fn wait_for_count(dir: &Path, name: &str, least: u64) {
    wait_until(&format!("{least} lines in {name}"), || {
        counted(dir, name) >= least
    });
}

pub fn wait_until(what: &str, met: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !met() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// All files of a folder with their content.
pub fn content(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// What is mounted where this thread is.
pub fn mounts() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/thread-self/mounts").unwrap();
    text.lines().map(String::from).collect()
}

/// The pid namespace a process lives in.
pub fn namespace_of(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// The pid namespace of a cell.
pub fn namespace(cell: &Cell) -> PathBuf {
    namespace_of(&cell.init_pid().to_string()).unwrap()
}

fn processes() -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        .collect()
}

fn processes_in(namespace: &Path) -> impl Iterator<Item = String> {
    let lives_there = move |pid: &String| namespace_of(pid).is_some_and(|own| own == namespace);
    processes().into_iter().filter(lives_there)
}

/// How many processes live in a pid namespace.
pub fn population(namespace: &Path) -> usize {
    processes_in(namespace).count()
}

/// How many of them are stopped.
pub fn stopped(namespace: &Path) -> usize {
    let status = |pid: &String| read(Path::new(&format!("/proc/{pid}/status")));
    processes_in(namespace)
        .filter(|pid| status(pid).contains("State:\tT"))
        .count()
}

/// Processes of this machine that have a path in their command line.
pub fn marked(path: &Path) -> Vec<String> {
    let mark = path.display().to_string();
    let is_marked = |pid: &String| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&mark)
    };
    processes().into_iter().filter(is_marked).collect()
}
