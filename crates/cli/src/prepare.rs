//! From a target's name to everything a campaign needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use temblor_analysis::{Analysis, Request};
use temblor_cluster::target::{Choice, Target, TargetCode, TargetError, find_target};
use temblor_explore::triage::KnownPattern;
use temblor_lab::Setup;
use temblor_lab::archive::Archives;
use temblor_lab::compile::AnyFaults;
use temblor_model::campaign::CampaignSpec;
use temblor_model::catalog::SiteCatalog;

use crate::exit::BadInput;

/// The folder of a target that its name does not lead to: what `resume` and `replay` need.
pub fn given_by_folder(name: &str, target: &Target) -> Option<String> {
    let by_name = find_target(&target.full_name(), &roots()).ok();
    let same = by_name.and_then(|dir| dir.canonicalize().ok()) == Some(target.code.dir.clone());
    let is_path = find_target(name, &[]).is_ok();
    (is_path && !same).then(|| target.code.dir.display().to_string())
}

/// What `prepare` takes to find a stored campaign's target again.
pub fn place_of(spec: &CampaignSpec) -> &str {
    spec.target_dir.as_deref().unwrap_or(&spec.target)
}

/// A target, resolved and analysed.
pub struct Prepared {
    pub target: Arc<Target>,
    pub catalog: Arc<SiteCatalog>,
}

/// Where targets are looked for: here, and beside the program's own sources.
pub fn roots() -> Vec<PathBuf> {
    let mut roots = vec![PathBuf::from(".")];
    if let Ok(root) = std::env::var("TEMBLOR_ROOT") {
        roots.push(root.into());
    }
    roots
}

/// A target that is to be run.
pub fn resolve(name: &str, choice: &Choice) -> anyhow::Result<Target> {
    let bad = |e: TargetError| BadInput(e.to_string());
    let dir = find_target(name, &roots()).map_err(bad)?;
    Ok(Target::resolve(&dir, choice, &mut say).map_err(bad)?)
}

/// A target that is only to be analysed: it need not be one that can be run.
pub fn resolve_code(name: &str) -> anyhow::Result<TargetCode> {
    let bad = |e: TargetError| BadInput(e.to_string());
    let dir = find_target(name, &roots()).map_err(bad)?;
    Ok(TargetCode::resolve(&dir, &mut say).map_err(bad)?)
}

fn say(line: &str) {
    eprintln!("temblor: {line}");
}

/// What a target asks of the analysis; what was analysed before is taken from the cache.
pub fn request_for(code: &TargetCode, jdk_sites: bool) -> Request {
    Request {
        class_path: code.classpath.clone(),
        jdk_home: code.jdk.home.clone(),
        settings: code.analysis.clone(),
        jdk_sites,
        cache: analysis_cache(),
    }
}

/// Where analyses are kept, per user; a user without a home has no such place.
pub fn analysis_cache() -> Option<PathBuf> {
    let cache = temblor_cluster::artifact::Cache::of_user().ok()?;
    Some(cache.root().join("analysis"))
}

/// Analyses what has this name. Class files that cannot be read at all are the user's to mend.
pub fn analyze(name: &str, request: &Request) -> anyhow::Result<Analysis> {
    let bad = || BadInput(format!("{name} cannot be analysed"));
    temblor_analysis::analyze(request).with_context(bad)
}

/// What a stored campaign chose of its target.
pub fn choice_of(spec: &CampaignSpec) -> Choice {
    Choice {
        workload: spec.workload.clone(),
        nodes: spec.nodes,
    }
}

pub fn prepare(name: &str, choice: &Choice, jdk_sites: bool) -> anyhow::Result<Prepared> {
    let target = resolve(name, choice)?;
    let analysis = analyze(name, &request_for(&target.code, jdk_sites))?;
    if !analysis.diagnostics.is_empty() {
        let left_out = analysis.diagnostics.len();
        eprintln!("temblor: {left_out} diagnostics; `temblor analyze {name}` shows them");
    }
    Ok(Prepared {
        target: Arc::new(target),
        catalog: Arc::new(analysis.catalog),
    })
}

impl Prepared {
    /// What trials share: writes the hooks file into the campaign's folder.
    pub fn setup(&self, spec: &CampaignSpec, dir: &Path) -> anyhow::Result<Setup> {
        let hooks = dir.join("hooks");
        let bytes = temblor_model::hooks::encode(&self.catalog, spec.coverage, |_| true);
        std::fs::write(&hooks, bytes)
            .with_context(|| format!("could not write {}", hooks.display()))?;
        let cache = temblor_cluster::artifact::Cache::of_user().ok();
        let archives = cache.map(|cache| {
            let folder = cache.root().join("archives");
            Archives::of(&self.target, &folder)
        });
        let allows = |kind: &str| spec.faults.iter().any(|f| f == kind);
        let delay_ms = spec.delay_ms;
        Ok(Setup {
            target: self.target.clone(),
            catalog: self.catalog.clone(),
            hooks: hooks.canonicalize()?,
            agent_library: library("libtemblor_agent.so")?,
            warp_library: library("libtemblor_warp.so")?,
            any_faults: AnyFaults {
                throw: allows("throw"),
                crash: allows("crash"),
                delay_ms: allows("delay").then(|| delay_ms.unwrap_or(CampaignSpec::DELAY_MS)),
                sites: temblor_lab::site_pattern(&spec.sites)?,
            },
            hook_clients: spec.hook_clients,
            // Without a cache every JVM loads its classes itself.
            archives: archives.unwrap_or_default(),
        })
    }

    pub fn known(&self) -> Vec<KnownPattern> {
        let pattern = |bug: &temblor_cluster::target::KnownBug| KnownPattern {
            id: bug.id.clone(),
            checkers: bug.matches.checkers.clone(),
            fault: bug.matches.fault.clone(),
            site: bug.matches.site.clone(),
            symptom: bug.matches.symptom.clone(),
        };
        self.target.known.iter().map(pattern).collect()
    }
}

/// A library that was built with this program.
pub fn library(name: &str) -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe().context("cannot tell where this program is")?;
    let dir = exe.parent().unwrap_or(Path::new("."));
    // Tests run from a folder below.
    let places = [dir.join(name), dir.join("..").join(name)];
    places.into_iter().find(|p| p.exists()).ok_or_else(|| {
        anyhow::anyhow!(
            "{name} is not beside {}; build all: ./temblor --version",
            exe.display()
        )
    })
}
