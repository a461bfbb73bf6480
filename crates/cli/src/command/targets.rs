//! `temblor targets`: what can be tested here, and how to get what is missing.

use serde_json::json;
use temblor_cluster::artifact::{self, Coordinate};
use temblor_cluster::target::{TargetError, fetch_target, find_target, list_targets, parse_target};

use crate::args::{TargetsAction, TargetsArgs};
use crate::exit::{BadInput, Exit};
use crate::prepare::roots;

pub fn run(args: &TargetsArgs) -> anyhow::Result<Exit> {
    match &args.action {
        None => list(args.json),
        Some(TargetsAction::Fetch { name }) => fetch(name),
        Some(TargetsAction::Path { name }) => path(name),
    }
}

fn list(json_wanted: bool) -> anyhow::Result<Exit> {
    let targets = list_targets(&roots());
    let jdks = artifact::installed_jdks()?;
    if json_wanted {
        let targets: Vec<_> = targets
            .iter()
            .map(|t| json!({"name": t.name, "version": t.version}))
            .collect();
        let jdks: Vec<_> = jdks
            .iter()
            .map(|j| json!({"major": j.major, "version": j.full_version, "home": j.home}))
            .collect();
        println!("{}", json!({"targets": targets, "jdks": jdks}));
        return Ok(Exit::Pass);
    }
    println!("targets");
    for target in &targets {
        let summary = parse_target(&target.dir).map(|c| c.summary);
        let name = format!("{}@{}", target.name, target.version);
        println!(
            "  {name:<20} {}",
            summary.unwrap_or_else(|_| "(its target.toml is broken)".into())
        );
    }
    println!("\nJDKs");
    for jdk in &jdks {
        println!(
            "  {:<20} {}",
            format!("jdk@{}", jdk.major),
            jdk.full_version
        );
    }
    let missing = artifact::KNOWN_MAJORS
        .iter()
        .filter(|m| !jdks.iter().any(|j| j.major == **m));
    for major in missing {
        println!(
            "  {:<20} not here: ./temblor targets fetch jdk@{major}",
            format!("jdk@{major}")
        );
    }
    Ok(Exit::Pass)
}

fn fetch(name: &str) -> anyhow::Result<Exit> {
    let mut say = |line: &str| eprintln!("temblor: {line}");
    if let Some(major) = jdk_major(name)? {
        println!("{}", artifact::fetch_jdk(major, &mut say)?.home.display());
        return Ok(Exit::Pass);
    }
    if let Some((slot, coordinates)) = maven(name)? {
        let jars = artifact::fetch_maven(&slot, &coordinates, &mut say)?;
        println!("{}", jars.folder.display());
        return Ok(Exit::Pass);
    }
    let bad = |e: TargetError| anyhow::Error::new(BadInput(e.to_string()));
    let dir = find_target(name, &roots()).map_err(bad)?;
    fetch_target(&dir, &mut say).map_err(bad)?;
    Ok(Exit::Pass)
}

fn path(name: &str) -> anyhow::Result<Exit> {
    let bad = |e: artifact::ArtifactError| BadInput(e.to_string());
    let place = match (jdk_major(name)?, maven(name)?) {
        (Some(major), _) => artifact::find_jdk(major).map_err(bad)?.home,
        (None, Some((slot, _))) => artifact::find_jars(&slot).map_err(bad)?.folder,
        (None, None) => artifact::find_jars(name).map_err(bad)?.folder,
    };
    println!("{}", place.display());
    Ok(Exit::Pass)
}

fn jdk_major(name: &str) -> anyhow::Result<Option<u32>> {
    let Some(major) = name.strip_prefix("jdk@") else {
        return Ok(None);
    };
    let known = artifact::KNOWN_MAJORS;
    match major.parse::<u32>() {
        Ok(major) if known.contains(&major) => Ok(Some(major)),
        _ => Err(BadInput(format!("there is no jdk@{major}; choose one of {known:?}")).into()),
    }
}

/// `group:artifact:version`, several with commas: jars with all they need, named by the first.
fn maven(name: &str) -> anyhow::Result<Option<(String, Vec<Coordinate>)>> {
    if !name.contains(':') {
        return Ok(None);
    }
    let parse = |text: &str| {
        text.parse::<Coordinate>()
            .map_err(|e| BadInput(e.to_string()))
    };
    let coordinates = name.split(',').map(parse).collect::<Result<Vec<_>, _>>()?;
    let slot = format!("{}@{}", coordinates[0].artifact, coordinates[0].version);
    Ok(Some((slot, coordinates)))
}
