//! A trial by hand: a catalog of the test programs, a board, JVMs that join it, what they wrote.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::MmapMut;
use temblor_classfile::{ClassFile, class_hash};
use temblor_model::board::record::{Record, RecordWhat};
use temblor_model::board::spec::{BoardSpec, FaultKind, FaultSpec, StepSpec, TriggerKind};
use temblor_model::board::view::Board;
use temblor_model::board::{ANY_SITE, ARM_STEP};
use temblor_model::catalog::{ClassEntry, MethodBlocks, SiteCatalog};
use temblor_model::hooks;
use temblor_model::site::{Site, SiteKind};

use crate::jdk::{self, Jdk};

/// Every call of a method of `Io` in the program's class, and all its blocks.
pub fn catalog(class: &str) -> SiteCatalog {
    catalog_of(class, |callee, _| callee == "Io")
}

/// Every call of a wanted method (class, name) in the program's class, and all its blocks.
pub fn catalog_of(class: &str, wanted: impl Fn(&str, &str) -> bool) -> SiteCatalog {
    let path = jdk::programs().join(format!("{class}.class"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let parsed = ClassFile::parse(&bytes).unwrap();
    let mut catalog = SiteCatalog {
        format: SiteCatalog::FORMAT,
        ..SiteCatalog::default()
    };
    let mut blocks = Vec::new();
    for method in parsed.methods() {
        let Some(code) = parsed.code(method).unwrap() else {
            continue;
        };
        for instruction in code.instructions().map(Result::unwrap) {
            let invoke = instruction.invoke(parsed.pool()).unwrap();
            let Some(invoke) = invoke.filter(|i| wanted(&i.class.to_str(), &i.name.to_str()))
            else {
                continue;
            };
            let id = catalog.sites.len() as u32;
            let name = format!("{class}.{}>{}", method.name, invoke.name);
            let pc = u32::from(instruction.pc);
            let kind = SiteKind::Call;
            catalog.sites.push(site(
                id,
                name,
                kind,
                class,
                &method.name.to_string(),
                &method.descriptor.to_string(),
                pc,
            ));
        }
        let pcs: Vec<u32> = code
            .block_starts()
            .unwrap()
            .into_iter()
            .map(u32::from)
            .collect();
        let count = pcs.len() as u32;
        blocks.push(MethodBlocks {
            method: method.name.to_string(),
            desc: method.descriptor.to_string(),
            first: catalog.block_count,
            pcs,
        });
        catalog.block_count += count;
    }
    catalog.classes.push(ClassEntry {
        name: class.into(),
        hash: class_hash(&bytes),
        blocks,
    });
    catalog
}

/// Entries of JDK methods: (class, method, descriptor).
pub fn jdk_catalog(entries: &[(&str, &str, &str)]) -> SiteCatalog {
    let mut entries = entries.to_vec();
    entries.sort();
    let mut catalog = SiteCatalog {
        format: SiteCatalog::FORMAT,
        ..SiteCatalog::default()
    };
    for (id, (class, method, desc)) in entries.into_iter().enumerate() {
        let name = format!("{}.{method}", class.replace('/', "."));
        catalog.sites.push(site(
            id as u32,
            name,
            SiteKind::Entry,
            class,
            method,
            desc,
            0,
        ));
        if catalog.classes.last().is_none_or(|last| last.name != class) {
            catalog.classes.push(ClassEntry {
                name: class.into(),
                hash: 0,
                blocks: vec![],
            });
        }
    }
    catalog
}

fn site(
    id: u32,
    name: String,
    kind: SiteKind,
    class: &str,
    method: &str,
    desc: &str,
    pc: u32,
) -> Site {
    Site {
        id,
        name,
        kind,
        class: class.into(),
        method: method.into(),
        desc: desc.into(),
        pc,
        line: None,
        callee: String::new(),
        exceptions: vec![],
        io: None,
        ..Site::default()
    }
}

pub fn throw(class: &str) -> FaultSpec {
    FaultSpec {
        kind: FaultKind::Throw,
        amount: 0,
        class: class.into(),
    }
}

pub fn fault(kind: FaultKind, amount: u64) -> FaultSpec {
    FaultSpec {
        kind,
        amount,
        class: String::new(),
    }
}

pub fn step(trigger: TriggerKind, site: u32) -> StepSpec {
    StepSpec {
        trigger,
        site,
        node: 0,
        stack: 0,
        nth: 1,
        rate: 1.0,
        fault: 0,
        ..StepSpec::default()
    }
}

/// A board that other processes share, and the files the agent is given.
pub struct Trial {
    pub catalog: SiteCatalog,
    pub folder: tempfile::TempDir,
    map: MmapMut,
}

impl Trial {
    /// All sites armed for steps, unless `change` says otherwise.
    pub fn new(catalog: SiteCatalog, change: impl FnOnce(&mut BoardSpec)) -> Trial {
        let mut spec = BoardSpec {
            catalog_hash: catalog.hash(),
            arms: vec![ARM_STEP; catalog.sites.len()],
            block_count: catalog.block_count,
            slots: 4,
            ring_units: 1 << 10,
            ask_deadline_ms: 20_000,
            ..BoardSpec::default()
        };
        change(&mut spec);
        let folder = tempfile::tempdir().unwrap();
        let (bytes, len) = spec.encode();
        std::fs::write(folder.path().join("board"), bytes).unwrap();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(folder.path().join("board"));
        let file: File = file.unwrap();
        file.set_len(len).unwrap();
        let hooks = hooks::encode(&catalog, true, |_| true);
        std::fs::write(folder.path().join("hooks"), hooks).unwrap();
        // SAFETY: the file is private to the test; shared parts are read as atomics.
        let map = unsafe { MmapMut::map_mut(&file).unwrap() };
        Trial {
            catalog,
            folder,
            map,
        }
    }

    pub fn board(&self) -> Board {
        // SAFETY: mapped shared and writable for as long as the trial lives.
        unsafe { Board::at(self.map.as_ptr(), self.map.len()).unwrap() }
    }

    pub fn options(&self, node: &str) -> String {
        let path = |name| self.folder.path().join(name).display().to_string();
        format!(
            "board={},hooks={},node={node}",
            path("board"),
            path("hooks")
        )
    }

    pub fn command(&self, jdk: &Jdk, node: &str, program: &[&str]) -> Command {
        let mut java = plain(jdk, &[]);
        java.arg(format!(
            "-agentpath:{}={}",
            jdk::agent().display(),
            self.options(node)
        ));
        java.args(program);
        java
    }

    pub fn run(&self, jdk: &Jdk, node: &str, program: &[&str]) -> Said {
        Said::of(self.command(jdk, node, program).output().unwrap())
    }

    pub fn spawn(&self, jdk: &Jdk, node: &str, program: &[&str]) -> Child {
        let mut command = self.command(jdk, node, program);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// What a dead process wrote.
    pub fn records(&self, slot: u32) -> Vec<RecordWhat> {
        let ring = self.board().ring(slot);
        std::iter::from_fn(|| ring.read(true))
            .map(|raw| {
                Record::decode(raw.kind, &raw.body)
                    .expect("a known record")
                    .what
            })
            .collect()
    }

    pub fn counter(&self, slot: u32, site: u32) -> u32 {
        self.board().counters(slot)[site as usize].load(Ordering::Relaxed)
    }
}

/// A JVM without the agent, set up like those with it.
pub fn plain(jdk: &Jdk, program: &[&str]) -> Command {
    let mut java = Command::new(jdk.tool("java"));
    java.env_remove("JAVA_TOOL_OPTIONS");
    java.args([
        "-Xmx64m",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-Xshare:auto",
    ]);
    java.arg("-cp").arg(jdk::programs());
    java.args(program);
    java
}

/// What a program said and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub out: String,
    pub err: String,
    pub code: Option<i32>,
}

impl Said {
    pub fn of(output: Output) -> Said {
        Said {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
        }
    }

    /// The lines, after a check that the program ended well and said nothing on stderr.
    pub fn lines(&self) -> Vec<&str> {
        assert_eq!((self.err.as_str(), self.code), ("", Some(0)), "{self:?}");
        self.out.lines().collect()
    }
}

/// A path for a file that no other test uses.
pub fn fresh_path(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{n}", std::process::id()))
}

pub const ANY: u32 = ANY_SITE;
