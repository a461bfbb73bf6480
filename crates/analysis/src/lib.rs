//! From jars to a [`SiteCatalog`]: where faults can happen in a target.
//!
//! One bad class never fails the analysis: it becomes a [`Diagnostic`], the rest goes on.
//!
//! - [`source`]: reads jars, class folders and the JDK's own classes.
//! - [`world`]: who extends whom, what a call resolves to, what it declares.
//! - [`io`]: which JDK calls do I/O, as a table.
//! - [`sites`]: the rules that make a call a site.

mod io;
mod names;
mod sites;
mod source;
mod world;

use std::path::{Path, PathBuf};

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

/// Analyses a target. Errors are for inputs that cannot be read at all; anything smaller is
/// reported beside the catalog.
pub fn analyze(request: &Request) -> Result<Analysis, SourceError> {
    let mut diagnostics = Vec::new();
    let classes = source::read_class_path(&request.class_path, &mut diagnostics)?;
    let jdk = source::JdkClasses::open(&request.jdk_home)?;
    let mut world = world::World::new(jdk);
    for class in &classes {
        world.add(class, &mut diagnostics);
    }
    let catalog = sites::find(request, &classes, &mut world, &mut diagnostics);
    Ok(Analysis {
        catalog,
        diagnostics,
        effort: Effort::default(),
    })
}
