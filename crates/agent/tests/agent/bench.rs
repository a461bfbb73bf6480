//! The benchmark program of `temblor bench` runs, with the board in each of its states.

use std::sync::atomic::{AtomicBool, Ordering};

use temblor_model::board::spec::{BoardSpec, StepSpec, TriggerKind};
use temblor_model::board::{ARM_RECORD, ARM_SET, ARM_STEP};
use temblor_model::catalog::SiteCatalog;

use crate::jdk::{self, Jdk};
use crate::questions::lab;
use crate::trial::{Trial, catalog_of, step};

/// Enough to see that it works; figures need 100.
const PERCENT: &str = "1";

fn catalog() -> SiteCatalog {
    let in_call = |class: &str, name: &str| class == "HookBench" && name == "call";
    let mut catalog = catalog_of("HookBench", in_call);
    catalog.classes[0].blocks.clear();
    catalog.sites.retain(|site| site.method != "empty");
    for (id, site) in catalog.sites.iter_mut().enumerate() {
        site.id = id as u32;
    }
    catalog
}

/// Runs one variant; gives its printed names and the hits of its site.
fn run(jdk: &Jdk, variant: &str, change: impl FnOnce(&mut BoardSpec, usize)) -> (Vec<String>, u32) {
    let catalog = catalog();
    let site = catalog
        .sites
        .iter()
        .position(|s| s.method == variant)
        .expect("one site each");
    let trial = Trial::new(catalog, |spec| {
        spec.arms.fill(0);
        change(spec, site);
    });
    let stop = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        scope.spawn(|| lab(trial.board(), &stop, |_, _, _| 0));
        let said = trial.run(jdk, "n1", &["HookBench", PERCENT, "empty", variant]);
        stop.store(true, Ordering::Release);
        said
    });
    println!("JDK {}: {}", jdk.feature, said.out.replace('\n', ", "));
    let names = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    (
        said.lines().into_iter().map(names).collect(),
        trial.counter(0, site as u32),
    )
}

#[test]
fn every_variant_of_the_benchmark_does_what_it_measures() {
    for jdk in jdk::all() {
        let (names, hits) = run(jdk, "disarmed", |_, _| {});
        assert_eq!((names, hits), (vec!["empty".into(), "disarmed".into()], 0));
        let (names, hits) = run(jdk, "other", |spec, site| {
            spec.arms[site] = ARM_STEP;
            spec.steps = vec![StepSpec {
                node: 1,
                ..step(TriggerKind::AtHit, site as u32)
            }];
        });
        assert_eq!(
            (names, hits),
            (vec!["empty".into(), "other".into()], 100_000)
        );
        let (names, hits) = run(jdk, "record", |spec, site| {
            spec.arms[site] = ARM_RECORD;
            spec.stacks_per_site = 0;
            spec.hits_per_site = u32::MAX;
            spec.ring_units = 1 << 16;
        });
        assert_eq!(
            (names, hits),
            (vec!["empty".into(), "record".into()], 2_500)
        );
        let (names, hits) = run(jdk, "asked", |spec, site| {
            spec.arms[site] = ARM_SET;
            spec.stacks_per_site = 0;
            spec.steps = vec![step(TriggerKind::Ask, site as u32)];
        });
        assert_eq!(names, ["empty", "asked-p50", "asked-p99"]);
        assert_eq!(hits, 75);
    }
}
