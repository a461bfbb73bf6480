//! Everything instrumented: the agent hooks every call and every block of all classes of a JDK,
//! and `-Xverify:all` links what it linked without the agent. Prints the figures for the docs.
//!
//! That a wrong rewrite would be caught by the same means is shown by the negative control of
//! `temblor-classfile`'s `verify_link` test.

#[path = "agent/jdk.rs"]
mod jdk;
#[path = "../../classfile/tests/sources/mod.rs"]
mod sources;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Instant;

use jdk::Jdk;
use memmap2::Mmap;
use sources::Source;
use temblor_agent::rewrite::{Bounds, rewrite};
use temblor_classfile::ClassFile;
use temblor_model::board::spec::BoardSpec;
use temblor_model::board::view::Board;
use temblor_model::catalog::{ClassEntry, MethodBlocks, SiteCatalog};
use temblor_model::hooks::{self, HookTable};
use temblor_model::site::{Site, SiteKind};

/// Class name to "linked" or the error that linking gave.
type Verdicts = BTreeMap<String, String>;

/// A site at every call and a probe in every block. Hashes are 0: most of these classes reach
/// the agent as the JVM puts them together again.
fn everything(classes: &[Source]) -> SiteCatalog {
    let mut catalog = SiteCatalog {
        format: SiteCatalog::FORMAT,
        ..SiteCatalog::default()
    };
    for source in classes {
        let class = ClassFile::parse(&source.bytes).expect("a class of the JDK reads");
        let mut blocks = Vec::new();
        for method in class.methods() {
            let Some(code) = class.code(method).expect("its code reads") else {
                continue;
            };
            let (name, desc) = (method.name.to_string(), method.descriptor.to_string());
            for instruction in code.instructions().map(|i| i.expect("it decodes")) {
                if instruction.is_invoke() {
                    let at = (source.name.as_str(), name.as_str(), desc.as_str());
                    catalog
                        .sites
                        .push(site(catalog.sites.len(), at, instruction.pc));
                }
            }
            let pcs = code.block_starts().expect("it has blocks");
            let first = catalog.block_count;
            catalog.block_count += pcs.len() as u32;
            let pcs = pcs.into_iter().map(u32::from).collect();
            blocks.push(MethodBlocks {
                method: name,
                desc,
                first,
                pcs,
            });
        }
        catalog.classes.push(ClassEntry {
            name: source.name.clone(),
            hash: 0,
            blocks,
        });
    }
    catalog
}

fn site(id: usize, (class, method, desc): (&str, &str, &str), pc: u16) -> Site {
    Site {
        id: id as u32,
        name: String::new(),
        kind: SiteKind::Call,
        class: class.into(),
        method: method.into(),
        desc: desc.into(),
        pc: pc.into(),
        line: None,
        callee: String::new(),
        exceptions: vec![],
        io: None,
        ..Site::default()
    }
}

/// All classes, but for those that the hook itself runs through.
fn classes_of(jdk: &Jdk) -> Vec<Source> {
    let mut classes = sources::jdk_classes(&jdk.home);
    let hookable = |name: &str| !name.ends_with("module-info") && !name.ends_with("misc/Unsafe");
    classes.retain(|class| hookable(&class.name));
    classes.sort_by(|a, b| a.name.cmp(&b.name));
    classes.dedup_by(|a, b| a.name == b.name);
    classes
}

fn link(jdk: &Jdk, folder: &Path, agent: Option<String>) -> Verdicts {
    let mut java = Command::new(jdk.tool("java"));
    java.env_remove("JAVA_TOOL_OPTIONS").current_dir(folder);
    java.args([
        "-Xverify:all",
        "-Xmx700m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
    ]);
    java.arg("-Djava.awt.headless=true");
    if jdk.feature > 8 {
        java.args(["--add-modules", "ALL-SYSTEM"]);
    }
    java.args(agent);
    java.args(["-cp", ".", "LinkAll", "names", "verdicts"]);
    let output = java.output().expect("java runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "LinkAll ended with {}: {said}",
        output.status
    );
    assert!(!said.contains("temblor-agent"), "{said}");
    let verdicts = fs::read_to_string(folder.join("verdicts")).expect("LinkAll wrote them");
    let line = |line: &str| {
        let (name, verdict) = line.split_once('\t').expect("name, tab, verdict");
        let kind = verdict.split('\t').next().unwrap_or_default();
        (name.to_owned(), kind.to_owned())
    };
    verdicts.lines().map(line).collect()
}

fn linked(verdicts: &Verdicts) -> usize {
    verdicts
        .values()
        .filter(|verdict| *verdict == "linked")
        .count()
}

/// Seconds that rewriting all classes takes in one thread, and the inserts.
fn rewrite_all(classes: &[Source], hooks: &HookTable<'_>, bounds: Bounds) -> (f64, usize) {
    let (began, mut inserts) = (Instant::now(), 0);
    for class in classes {
        let found = hooks.find(&class.name).expect("the table reads");
        let Some(found) = found else { continue };
        inserts += found.methods.iter().map(|m| m.hooks.len()).sum::<usize>();
        rewrite(&class.bytes, &found, bounds).expect("it takes its hooks");
    }
    (began.elapsed().as_secs_f64(), inserts)
}

fn check(jdk: &Jdk) {
    let classes = classes_of(jdk);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let catalog = everything(&classes);
    fs::write(at("hooks"), hooks::encode(&catalog, true, |_| true)).unwrap();
    let spec = BoardSpec {
        catalog_hash: catalog.hash(),
        arms: vec![0; catalog.sites.len()],
        block_count: catalog.block_count,
        slots: 1,
        ring_units: 1 << 10,
        ..BoardSpec::default()
    };
    let methods: usize = catalog.classes.iter().map(|c| c.blocks.len()).sum();
    let bounds = Bounds {
        points: catalog.points().total(),
        blocks: catalog.block_count,
    };
    drop(catalog);
    let (bytes, len) = spec.encode();
    fs::write(at("board"), bytes).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(at("board"))
        .unwrap()
        .set_len(len)
        .unwrap();
    let table = fs::read(at("hooks")).unwrap();
    let table = HookTable::parse(&table).expect("the hooks read");
    let (seconds, inserts) = rewrite_all(&classes, &table, bounds);
    let names: Vec<String> = classes.iter().map(|c| c.name.replace('/', ".")).collect();
    fs::write(at("names"), names.join("\n")).unwrap();
    fs::copy(jdk::programs().join("LinkAll.class"), at("LinkAll.class")).unwrap();

    let before = link(jdk, folder.path(), None);
    let options = format!(
        "board={},hooks={},node=n",
        at("board").display(),
        at("hooks").display()
    );
    let agent = format!("-agentpath:{}={options}", jdk::agent().display());
    let after = link(jdk, folder.path(), Some(agent));
    let errors: Vec<String> = after
        .iter()
        .filter(|(name, verdict)| before.get(*name) != Some(verdict))
        .map(|(name, verdict)| format!("{name}: {verdict}"))
        .collect();
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(at("board"))
        .unwrap();
    // SAFETY: nobody changes the file any more.
    let map = unsafe { Mmap::map(&file).unwrap() };
    // SAFETY: only read from here on, while the map lives.
    let board = unsafe { Board::at(map.as_ptr(), map.len()).unwrap() };
    let rewritten = board.slot(0).rewritten.load(Ordering::Relaxed) as usize;
    let covered = board
        .coverage(0)
        .iter()
        .filter(|b| b.load(Ordering::Relaxed) == 1)
        .count();
    println!(
        "| {} | {} | {methods} | {inserts} | {seconds:.2} | {rewritten} | {} | {} | {covered} \
         | {} |",
        jdk.feature,
        classes.len(),
        linked(&before),
        linked(&after),
        errors.len()
    );
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(board.slot(0).left_alone.load(Ordering::Relaxed), 0);
    assert!(
        rewritten > linked(&after) / 2,
        "{rewritten} classes were rewritten"
    );
    assert!(covered > 1_000, "hooked code ran: {covered} blocks");
}

#[test]
fn a_jdk_with_everything_hooked_links_as_before() {
    println!(
        "| JDK | classes | methods | inserts | rewrite s | rewritten in the JVM | linked before \
         | linked after | blocks covered | new errors |"
    );
    for jdk in jdk::all() {
        check(jdk);
    }
}
