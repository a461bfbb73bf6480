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
use temblor_model::site::{Diagnostic, SiteCatalog};

/// What to analyse and what to look for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Jars and class folders of the target, in class path order.
    pub class_path: Vec<PathBuf>,
    /// Home of the JDK that runs the target: its classes resolve the calls.
    pub jdk_home: PathBuf,
    /// Prefixes of the target's own classes, with dots: `trio.`. Empty takes all.
    pub packages: Vec<String>,
    /// Exceptions to inject: these types and their subtypes, with dots.
    pub exceptions: Vec<String>,
    /// Methods whose every call is a site, whatever they declare: `pkg.Class.method`.
    pub calls: Vec<String>,
    /// Also hook the entries of the JDK's own file and socket I/O methods.
    pub jdk_sites: bool,
}

impl Request {
    /// The I/O family, no JDK sites.
    pub fn new(class_path: Vec<PathBuf>, jdk_home: &Path, packages: Vec<String>) -> Request {
        Request {
            class_path,
            jdk_home: jdk_home.to_path_buf(),
            packages,
            exceptions: vec!["java.io.IOException".into()],
            calls: Vec::new(),
            jdk_sites: false,
        }
    }
}

/// Analyses a target. Errors are for inputs that cannot be read at all; anything smaller is
/// reported beside the catalog.
pub fn analyze(request: &Request) -> Result<(SiteCatalog, Vec<Diagnostic>), SourceError> {
    let mut diagnostics = Vec::new();
    let classes = source::read_class_path(&request.class_path, &mut diagnostics)?;
    let jdk = source::JdkClasses::open(&request.jdk_home)?;
    let mut world = world::World::new(jdk);
    for class in &classes {
        world.add(class, &mut diagnostics);
    }
    let catalog = sites::find(request, &classes, &mut world, &mut diagnostics);
    Ok((catalog, diagnostics))
}
