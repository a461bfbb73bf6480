//! `temblor analyze`: the catalog of a target, for people and machines.

use std::collections::BTreeMap;

use anyhow::Context;
use serde_json::json;
use temblor_model::site::{Site, SiteKind};

use crate::args::AnalyzeArgs;
use crate::exit::Exit;
use crate::prepare;

pub fn run(args: &AnalyzeArgs) -> anyhow::Result<Exit> {
    let prepared = prepare::prepare(&args.target, args.jdk_sites)?;
    let catalog = &prepared.catalog;
    if let Some(path) = &args.out {
        let bytes = serde_json::to_vec_pretty(catalog.as_ref())?;
        std::fs::write(path, bytes)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    let throwing = catalog
        .sites
        .iter()
        .filter(|s| !s.exceptions.is_empty())
        .count();
    let io = catalog.sites.iter().filter(|s| s.io.is_some()).count();
    if args.json {
        let summary = json!({
            "target": format!("{}@{}", prepared.target.name, prepared.target.version),
            "classes": catalog.classes.len(),
            "sites": catalog.sites.len(),
            "throwing_sites": throwing,
            "io_sites": io,
            "blocks": catalog.block_count,
            "diagnostics": prepared.diagnostics,
            "seconds": prepared.analysis_seconds,
        });
        println!("{summary}");
        return Ok(Exit::Pass);
    }
    println!(
        "{}@{}: {} classes, {} sites, {} basic blocks, in {:.2} s",
        prepared.target.name,
        prepared.target.version,
        catalog.classes.len(),
        catalog.sites.len(),
        catalog.block_count,
        prepared.analysis_seconds,
    );
    let entries = catalog
        .sites
        .iter()
        .filter(|s| s.kind == SiteKind::Entry)
        .count();
    println!("  can throw {throwing:>5}    do I/O {io:>5}    inside the JDK {entries:>5}");
    table(
        "exception",
        catalog
            .sites
            .iter()
            .flat_map(|s| s.exceptions.iter().cloned()),
    );
    table("I/O", catalog.sites.iter().filter_map(io_label));
    if args.sites {
        println!();
        for site in &catalog.sites {
            let line = site.line.map(|l| format!(" line {l}")).unwrap_or_default();
            println!("  {:>4}  {}{line}", site.id, site.name);
        }
    }
    for diagnostic in &prepared.diagnostics {
        eprintln!("temblor: {}: {}", diagnostic.place, diagnostic.message);
    }
    Ok(Exit::Pass)
}

fn io_label(site: &Site) -> Option<String> {
    let io = site.io?;
    Some(format!("{:?} {:?}", io.medium, io.direction).to_lowercase())
}

fn table(title: &str, rows: impl Iterator<Item = String>) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(row).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    println!("\n  {title:<40} sites");
    for (name, count) in counts.iter().take(12) {
        println!("  {name:<40} {count:>5}");
    }
}
