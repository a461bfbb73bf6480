//! From jars to a [`SiteCatalog`]: where faults can happen in a target.
//!
//! One bad class never fails the analysis: it becomes a [`Diagnostic`], the rest goes on.
//!
//! In the order in which they work:
//! - [`source`], [`load`]: jars, class folders and the JDK to classes; the target's own in full.
//! - [`ir`], [`program`], [`calls`]: the program model: values and blocks, hierarchy, call graph.
//! - [`family`], [`handling`], [`effects`]: what can be raised and not handled; [`io`], [`media`],
//!   [`streams`]: what is I/O, and where streams lead; [`sites`] puts the hook where that is,
//!   unless nothing is [`reachable`] there; [`jdk_sites`] inside the JDK. [`rules`]: what the target says of single methods.
//! - [`tasks`]: task units and their abstract states; [`guards`]: what others wait for, and what
//!   a timeout bounds.
//! - [`messages`], [`meta`]: what partitions and crashes are timed by.
//! - [`assemble`]: one catalog, stable across runs. [`cache`] keeps it.

mod assemble;
mod cache;
mod calls;
mod catches;
mod effects;
mod family;
mod found;
mod guards;
mod handling;
mod io;
mod ir;
mod jdk_sites;
mod load;
mod media;
mod messages;
mod meta;
mod pattern;
mod program;
mod reachable;
mod rules;
mod sites;
mod source;
mod streams;
mod tasks;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
pub use source::SourceError;
use temblor_model::catalog::{Diagnostic, SiteCatalog};
use temblor_model::settings::AnalysisSettings;

/// What to analyse and what to look for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Jars and class folders of the target, in class path order.
    pub class_path: Vec<PathBuf>,
    /// Home of the JDK that runs the target: its classes resolve the calls.
    pub jdk_home: PathBuf,
    pub settings: AnalysisSettings,
    /// Also hook the entries of the JDK's own file and socket I/O methods.
    pub jdk_sites: bool,
    /// Folder where results are kept by the hashes of what they were made from.
    pub cache: Option<PathBuf>,
}

impl Request {
    /// The I/O family of the given packages, no JDK sites, no cache.
    pub fn new(class_path: Vec<PathBuf>, jdk_home: &Path, packages: Vec<String>) -> Request {
        Request {
            class_path,
            jdk_home: jdk_home.to_path_buf(),
            settings: AnalysisSettings {
                packages,
                ..AnalysisSettings::default()
            },
            jdk_sites: false,
            cache: None,
        }
    }
}

/// What an analysis gives.
#[derive(Clone, Debug)]
pub struct Analysis {
    pub catalog: SiteCatalog,
    pub diagnostics: Vec<Diagnostic>,
    pub effort: Effort,
}

/// What an analysis had to do.
#[derive(Clone, Debug, Default)]
pub struct Effort {
    /// Own classes, their methods with code, and the bytes of that code.
    pub classes: usize,
    pub methods: usize,
    pub code_bytes: usize,
    /// Jars and folders read, and how many of them came from the cache.
    pub sources: usize,
    pub sources_from_cache: usize,
    /// The whole catalog came from the cache.
    pub from_cache: bool,
    /// Name and seconds of each stage, in order.
    pub stages: Vec<(&'static str, f64)>,
}

/// Analyses a target, or finds what an earlier analysis of the same input gave. Errors are for
/// inputs that cannot be read at all; anything smaller is reported beside the catalog.
pub fn analyze(request: &Request) -> Result<Analysis, SourceError> {
    let mut diagnostics = Vec::new();
    let sources = load::open(&request.class_path, &mut diagnostics)?;
    let Some(cache) = request.cache.as_deref().map(cache::Cache::new) else {
        return work_out(request, &sources, None, diagnostics);
    };
    let began = std::time::Instant::now();
    let hashes: Option<Vec<cache::Hash>> = sources.par_iter().map(|s| s.hash()).collect();
    // A source that cannot be read now cannot be hashed: the analysis itself will say so.
    let Some(hashes) = hashes else {
        return work_out(request, &sources, None, diagnostics);
    };
    let key = key(request, &hashes);
    if let Some(stored) = cache.catalog(&key) {
        let effort = stored.effort(began.elapsed().as_secs_f64());
        return Ok(Analysis {
            catalog: stored.catalog,
            diagnostics: stored.diagnostics,
            effort,
        });
    }
    let kept = load::Kept {
        cache: &cache,
        hashes: &hashes,
    };
    let analysis = work_out(request, &sources, Some(kept), diagnostics)?;
    let effort = &analysis.effort;
    let stored = cache::StoredCatalog {
        classes: effort.classes,
        methods: effort.methods,
        code_bytes: effort.code_bytes,
        sources: effort.sources,
        catalog: analysis.catalog,
        diagnostics: analysis.diagnostics,
    };
    cache.keep_catalog(&key, &stored);
    Ok(Analysis {
        catalog: stored.catalog,
        diagnostics: stored.diagnostics,
        effort: analysis.effort,
    })
}

/// Everything an analysis depends on.
fn key(request: &Request, sources: &[cache::Hash]) -> cache::Hash {
    let settings = format!("{:?} {}", request.settings, request.jdk_sites);
    let jdk = source::JdkClasses::identity(&request.jdk_home);
    // Diagnostics name the paths.
    let paths = format!("{:?}", request.class_path);
    let parts = [settings.as_bytes(), &jdk, paths.as_bytes()];
    cache::hash(
        parts
            .into_iter()
            .chain(sources.iter().map(|s| s.as_slice())),
    )
}

/// The analysis itself, one pass after the other.
fn work_out(
    request: &Request,
    sources: &[source::Source],
    kept: Option<load::Kept<'_>>,
    mut diagnostics: Vec<Diagnostic>,
) -> Result<Analysis, SourceError> {
    let mut stages = Stages::new();
    let settings = &request.settings;
    let jdk = source::JdkClasses::open(&request.jdk_home)?;
    let loaded = load::load(request, sources, &jdk, kept, &mut diagnostics)?;
    let from_cache = loaded.from_cache;
    stages.end("read classes");
    let program = program::Program::new(loaded);
    let graph = calls::CallGraph::new(&program);
    stages.end("call graph");
    let reached = reachable::find(&program, &graph);
    let family = family::Family::new(&program, &settings.exceptions);
    let media = media::Media::new(&program, settings);
    let finder = effects::Finder {
        program: &program,
        graph: &graph,
        family: &family,
        streams: &streams::Streams::new(&program, &graph, &media, &reached),
    };
    let effects = effects::Effects::new(&finder);
    stages.end("exceptions");
    let rules = sites::CallRules::new(&program, settings, &mut diagnostics);
    let sites = sites::find(&finder, &effects, &rules, &reached);
    stages.end("sites");
    let mut found = sites.found;
    let tasks = tasks::find(&program, &graph, settings, &mut diagnostics);
    tasks::reach(&program, &graph, &tasks, &mut found);
    stages.end("tasks and states");
    let guards = guards::find(&program, &graph, settings, &mut found, &mut diagnostics);
    stages.end("regions and timeouts");
    let raised = found.iter().flat_map(|f| f.site.exceptions.clone());
    let raised = Vec::from_iter(BTreeSet::from_iter(raised));
    let catches = catches::find(&program, &reached, &raised);
    stages.end("handlers");
    let messages = messages::find(&program, settings, &found, &mut diagnostics);
    let meta_accesses = meta::find(&program, settings);
    stages.end("messages");
    let mut catalog = SiteCatalog {
        sites: found.into_iter().map(|found| found.site).collect(),
        classes: assemble::classes(&program),
        tasks: tasks.tasks,
        states: tasks.states,
        regions: guards.regions,
        timeouts: guards.timeouts,
        groups: guards.groups,
        raised,
        catches,
        messages,
        meta_accesses,
        removed: sites.removed,
        ..SiteCatalog::default()
    };
    if request.jdk_sites {
        let (sites, classes) = jdk_sites::find(&jdk);
        catalog.sites.extend(sites);
        catalog.classes.extend(classes);
    }
    assemble::finish(&mut catalog);
    stages.end("catalog");
    Ok(Analysis {
        catalog,
        diagnostics,
        effort: effort(&program, sources.len(), from_cache, stages),
    })
}

fn effort(program: &program::Program, sources: usize, from_cache: usize, stages: Stages) -> Effort {
    let with_code = |id| program.method(id).code_len as usize;
    let code: Vec<usize> = program
        .method_ids()
        .map(with_code)
        .filter(|n| *n > 0)
        .collect();
    Effort {
        classes: program.own,
        methods: code.len(),
        code_bytes: code.iter().sum(),
        sources,
        sources_from_cache: from_cache,
        stages: stages.ended,
        ..Effort::default()
    }
}

/// How long each stage took.
struct Stages {
    ended: Vec<(&'static str, f64)>,
    began: std::time::Instant,
}

impl Stages {
    fn new() -> Stages {
        Stages {
            ended: Vec::new(),
            began: std::time::Instant::now(),
        }
    }

    fn end(&mut self, name: &'static str) {
        self.ended.push((name, self.began.elapsed().as_secs_f64()));
        self.began = std::time::Instant::now();
    }
}
