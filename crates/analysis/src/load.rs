//! From a class path to the classes of a program: the target's own with their bodies, and of all
//! others those that the target names, with their members only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lasso::{Key, RodeoReader, ThreadedRodeo};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use temblor_classfile::method_types;
use temblor_model::catalog::Diagnostic;
use temblor_model::settings::AnalysisSettings;

use crate::Request;
use crate::cache::{Cache, Hash, StoredClasses, hash};
use crate::ir::build::{self, Depth};
use crate::ir::{Class, OpKind, Sym, Value};
use crate::source::{Entry, JdkClasses, Source, SourceError};

/// The newest class file version this was tried with: Java 25.
const NEWEST_MAJOR: u16 = 69;

/// Classes and names, before anybody asks who extends whom.
pub struct Loaded {
    pub names: RodeoReader,
    /// The target's own classes, by name; then the others.
    pub classes: Vec<Class>,
    pub own: usize,
    /// Sources whose classes came from the cache.
    pub from_cache: usize,
}

/// Which classes are the target's own.
pub struct Own {
    packages: Vec<String>,
    exclude: Vec<String>,
}

impl Own {
    pub fn new(settings: &AnalysisSettings) -> Own {
        let internal = |list: &[String]| list.iter().map(|p| p.replace('.', "/")).collect();
        Own {
            packages: internal(&settings.packages),
            exclude: internal(&settings.exclude),
        }
    }

    /// What the own classes of a source depend on.
    fn key(&self, source: &Hash) -> Hash {
        let packages = format!("{:?} {:?}", self.packages, self.exclude);
        hash([source.as_slice(), packages.as_bytes()])
    }

    pub fn has(&self, class: &str) -> bool {
        let begins = |list: &[String]| list.iter().any(|p| class.starts_with(p.as_str()));
        (self.packages.is_empty() || begins(&self.packages)) && !begins(&self.exclude)
    }
}

/// Lists the classes of a class path.
pub fn open(
    class_path: &[PathBuf],
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Vec<Source>, SourceError> {
    let opened: Vec<_> = class_path
        .par_iter()
        .map(|path| Source::open(path))
        .collect();
    let mut sources = Vec::new();
    for result in opened {
        let (source, trouble) = result?;
        diagnostics.extend(trouble);
        sources.extend(source);
    }
    Ok(sources)
}

/// What keeps the classes of sources: the cache, and the hash of each source.
pub struct Kept<'k> {
    pub cache: &'k Cache,
    pub hashes: &'k [Hash],
}

/// Reads everything. The first class of a name wins, as in a JVM.
pub fn load(
    request: &Request,
    sources: &[Source],
    jdk: &JdkClasses,
    kept: Option<Kept<'_>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Loaded, SourceError> {
    let own = Own::new(&request.settings);
    let names = ThreadedRodeo::new();
    let (mut classes, from_cache) = read_own(sources, &own, &names, kept, diagnostics);
    if classes.is_empty() {
        return Err(no_classes(&request.class_path, diagnostics));
    }
    classes.sort_by(|a, b| names.resolve(&a.name).cmp(names.resolve(&b.name)));
    let count = classes.len();
    read_others(&mut classes, sources, jdk, &names, diagnostics);
    classes[count..].sort_by(|a, b| names.resolve(&a.name).cmp(names.resolve(&b.name)));
    Ok(Loaded {
        names: names.into_reader(),
        classes,
        own: count,
        from_cache,
    })
}

fn no_classes(class_path: &[PathBuf], diagnostics: &[Diagnostic]) -> SourceError {
    let paths: Vec<String> = class_path.iter().map(|p| p.display().to_string()).collect();
    let damaged = diagnostics.iter().take(5);
    let damaged: Vec<String> = damaged
        .map(|d| format!(" ({}: {})", d.place, d.message))
        .collect();
    SourceError::NoClasses(paths.join(", ") + &damaged.join(""))
}

/// The own classes of all sources, and how many sources came from the cache.
fn read_own(
    sources: &[Source],
    own: &Own,
    names: &ThreadedRodeo,
    kept: Option<Kept<'_>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> (Vec<Class>, usize) {
    let mut out: Vec<Class> = Vec::new();
    let mut from_cache = 0;
    let mut first: FxHashMap<Sym, usize> = FxHashMap::default();
    for (index, source) in sources.iter().enumerate() {
        let wanted: Vec<&Entry> = source
            .entries
            .iter()
            .filter(|e| own.has(&e.class))
            .collect();
        if wanted.is_empty() {
            continue;
        }
        let kept = kept
            .as_ref()
            .map(|kept| (kept.cache, own.key(&kept.hashes[index])));
        let (stored, was_kept) = read_source(source, &wanted, own, kept);
        from_cache += usize::from(was_kept);
        diagnostics.extend(stored.diagnostics);
        let mut twice: BTreeMap<usize, (usize, Sym)> = BTreeMap::new();
        let numbers: Vec<Sym> = stored
            .names
            .iter()
            .map(|n| names.get_or_intern(n))
            .collect();
        let mut classes = stored.classes;
        classes.par_iter_mut().for_each(|class| {
            // Built here, or stored whole and checked: its names are in its table.
            let renamed = class.rename(&numbers);
            debug_assert!(renamed.is_ok());
        });
        for class in classes {
            match first.entry(class.name) {
                std::collections::hash_map::Entry::Vacant(slot) => {
                    slot.insert(index);
                    out.push(class);
                }
                std::collections::hash_map::Entry::Occupied(slot) => {
                    twice.entry(*slot.get()).or_insert((0, class.name)).0 += 1;
                }
            }
        }
        for (other, (count, example)) in twice {
            diagnostics.push(Diagnostic {
                place: source.path.display().to_string(),
                message: format!(
                    "{count} classes are in {} already, which comes first and wins: {}{}",
                    sources[other].path.display(),
                    names.resolve(&example).replace('/', "."),
                    if count > 1 { " and others" } else { "" },
                ),
            });
        }
    }
    (out, from_cache)
}

/// The own classes of one source, from the cache if they are there.
fn read_source(
    source: &Source,
    wanted: &[&Entry],
    own: &Own,
    kept: Option<(&Cache, Hash)>,
) -> (StoredClasses, bool) {
    if let Some((cache, key)) = &kept
        && let Some(stored) = cache.classes(key)
    {
        return (stored, true);
    }
    let names = ThreadedRodeo::new();
    let (read, mut diagnostics) =
        source.read_all(wanted, |_, place, bytes| build_one(place, bytes, &names));
    let mut classes = Vec::with_capacity(read.len());
    for (class, trouble) in read {
        diagnostics.extend(trouble);
        // Its name counts, not where it lies.
        classes.extend(class.filter(|c| own.has(names.resolve(&c.name))));
    }
    let mut texts = vec![String::new(); names.len()];
    for (sym, text) in names.iter() {
        texts[sym.into_usize()] = text.to_string();
    }
    let stored = StoredClasses {
        names: texts,
        classes,
        diagnostics,
    };
    if let Some((cache, key)) = kept {
        cache.keep_classes(&key, &stored);
    }
    (stored, false)
}

type Built = (Option<Class>, Vec<Diagnostic>);

fn build_one(place: String, bytes: &[u8], names: &ThreadedRodeo) -> Built {
    let mut diagnostics = Vec::new();
    let mut tell = |message: String| {
        diagnostics.push(Diagnostic {
            place: place.clone(),
            message,
        });
    };
    let major = bytes.get(6..8).map(|b| u16::from_be_bytes([b[0], b[1]]));
    if let Some(major) = major.filter(|m| *m > NEWEST_MAJOR) {
        tell(format!(
            "class file version {major} is newer than {NEWEST_MAJOR}, the newest this was tried \
             with; analysed as far as it can be read"
        ));
    }
    match build::class(bytes, names, Depth::Bodies, &mut tell) {
        Ok(class) => (Some(class), diagnostics),
        Err(e) => {
            tell(e.to_string());
            (None, diagnostics)
        }
    }
}

/// Reads, wave by wave, the classes that are named and the classes these extend.
fn read_others(
    classes: &mut Vec<Class>,
    sources: &[Source],
    jdk: &JdkClasses,
    names: &ThreadedRodeo,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut index: FxHashMap<&str, (usize, usize)> = FxHashMap::default();
    for (at, source) in sources.iter().enumerate() {
        for (entry, class) in source.entries.iter().enumerate() {
            index.entry(class.class.as_str()).or_insert((at, entry));
        }
    }
    let mut seen: FxHashSet<Sym> = classes.iter().map(|c| c.name).collect();
    let mut missing: Vec<(Sym, Sym)> = Vec::new();
    let mut wave: Vec<Sym> = named(classes, names);
    let (mut from, own) = (0, classes.len());
    while !wave.is_empty() {
        wave.retain(|name| seen.insert(*name));
        let read = wave.par_iter().map(|name| {
            let text = names.resolve(name);
            let bytes = match index.get(text) {
                Some((source, entry)) => {
                    let source = &sources[*source];
                    source.read(&source.entries[*entry]).ok()
                }
                None => jdk.read(text),
            };
            let mut ignore = |_| ();
            build::class(&bytes?, names, Depth::Members, &mut ignore).ok()
        });
        let read: Vec<Option<Class>> = read.collect();
        classes.extend(read.into_iter().flatten());
        // What they extend, and what their methods declare to raise.
        let named = |class: &Class| {
            let interfaces = class.interfaces.iter().copied();
            let raised = class
                .methods
                .iter()
                .flat_map(|m| m.exceptions.iter().copied());
            interfaces
                .chain(class.super_name)
                .chain(raised)
                .collect::<Vec<Sym>>()
        };
        wave = classes[from.max(own)..].iter().flat_map(named).collect();
        from = classes.len();
    }
    let there: FxHashSet<Sym> = classes.iter().map(|c| c.name).collect();
    for class in &classes[..own] {
        let ancestors = class.interfaces.iter().copied().chain(class.super_name);
        missing.extend(
            ancestors
                .filter(|a| !there.contains(a))
                .map(|a| (class.name, a)),
        );
    }
    for (class, ancestor) in missing {
        diagnostics.push(Diagnostic {
            place: names.resolve(&class).replace('/', "."),
            message: format!(
                "extends or implements {}, which is not on the class path: what it inherits is \
                 unknown",
                names.resolve(&ancestor).replace('/', ".")
            ),
        });
    }
}

/// Classes that own code calls into, catches, throws, creates or is made of.
fn named(classes: &[Class], names: &ThreadedRodeo) -> Vec<Sym> {
    let sets: Vec<FxHashSet<Sym>> = classes
        .par_iter()
        .fold(FxHashSet::default, |mut set, class| {
            set.extend(class.super_name);
            set.extend(class.interfaces.iter().copied());
            for method in &class.methods {
                set.extend(method.exceptions.iter().copied());
                types_of(method.desc, names, &mut set);
                let Some(body) = &method.body else { continue };
                for call in &body.calls {
                    set.insert(call.class);
                    types_of(call.desc, names, &mut set);
                }
                for closure in &body.closures {
                    set.extend([closure.interface, closure.target.class]);
                }
                for value in &body.values {
                    match value {
                        Value::New(class)
                        | Value::Cast { class, .. }
                        | Value::Field { class, .. }
                        | Value::Static { class, .. } => {
                            set.insert(*class);
                        }
                        _ => {}
                    }
                }
                for block in &body.blocks {
                    set.extend(block.handlers.iter().filter_map(|(_, class)| *class));
                }
                for op in &body.ops {
                    if let OpKind::Put { class, .. } = op.kind {
                        set.insert(class);
                    }
                }
            }
            for field in &class.fields {
                set.extend(class_of(names.resolve(&field.desc)).map(|c| names.get_or_intern(c)));
            }
            set
        })
        .collect();
    let all: FxHashSet<Sym> = sets.into_iter().flatten().collect();
    all.into_iter()
        .filter(|s| !names.resolve(s).starts_with('['))
        .collect()
}

fn types_of(desc: Sym, names: &ThreadedRodeo, set: &mut FxHashSet<Sym>) {
    if let Some((parameters, result)) = method_types(names.resolve(&desc)) {
        let all = parameters.into_iter().chain([result]);
        set.extend(all.filter_map(class_of).map(|c| names.get_or_intern(c)));
    }
}

/// `Lx/Y;` to `x/Y`; arrays and primitives are no classes.
pub fn class_of(desc: &str) -> Option<&str> {
    desc.strip_prefix('L')?.strip_suffix(';')
}
