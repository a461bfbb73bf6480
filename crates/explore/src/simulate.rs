//! A simulated target with planted bugs: a pure function from plans to outcomes, so that whole
//! campaigns run at thousands of trials a second.

use regex::Regex;
use temblor_model::bug::{FiredFault, Judgement, Outcome, Symptom, Verdict};
use temblor_model::campaign::StateLevel;
use temblor_model::catalog::SiteCatalog;
use temblor_model::history::{Baseline, Reached};
use temblor_model::plan::{Fault, Plan, Trigger};
use temblor_model::site::{Direction, Io, Medium, Site, SiteId, SiteKind};

use crate::policy::{FaultKind, Policy, Scope, build};

/// A bug that one fault shows.
pub struct Planted {
    pub name: &'static str,
    site: &'static str,
    fault: &'static str,
    node: Option<&'static str>,
    stack: Option<&'static str>,
    least_nth: u32,
}

/// The target.
pub struct Simulated {
    pub catalog: SiteCatalog,
    pub baseline: Baseline,
    pub planted: Vec<Planted>,
    pub faults: Vec<FaultKind>,
    pub sites: Option<Regex>,
    plan: Plan,
}

impl Simulated {
    /// Reached in every run, but each time on another node.
    pub const ROAMING: &'static str = "x.Leader.lead()>x.Peers.send#0";

    /// Forty ordinary sites, a few special ones, five bugs.
    pub fn small() -> Simulated {
        let mut target = Simulated {
            catalog: SiteCatalog::default(),
            baseline: Baseline {
                format: 1,
                runs: 3,
                warp: 1.0,
                ..Baseline::default()
            },
            planted: Vec::new(),
            faults: FaultKind::ALL.to_vec(),
            sites: None,
            plan: Plan::clean(),
        };
        for k in 0..40 {
            let kind = ["Log", "Net", "Task", "Gossip"][k % 4];
            let name = format!("x.{kind}{k}.run()>java.io.OutputStream.write#0");
            let exceptions: &[&str] = if k % 8 == 1 {
                &["java.io.IOException", "x.Rare"]
            } else {
                &["java.io.IOException"]
            };
            let site = target.site(&name, exceptions, k % 4 < 2);
            for stack in ["a1", "b2"].into_iter().take(1 + k % 2) {
                target.reached(site, stack, &["n1", "n2", "n3"], 1 + (k % 5) as u32, 3);
            }
        }
        let roaming = target.site(Self::ROAMING, &["java.io.IOException"], true);
        target.reached(roaming, "c3", &["n1", "n2", "n3"], 2, 1);
        target.planted = planted();
        target
    }

    /// Nothing was reached in the baselines.
    pub fn unreached(mut self) -> Simulated {
        self.baseline.reached.clear();
        self
    }

    fn site(&mut self, name: &str, exceptions: &[&str], io: bool) -> SiteId {
        let id = self.catalog.sites.len() as SiteId;
        self.catalog.sites.push(Site {
            id,
            name: name.into(),
            kind: SiteKind::Call,
            class: "x/X".into(),
            method: "run".into(),
            desc: "()V".into(),
            pc: id,
            line: None,
            callee: "java.io.OutputStream.write".into(),
            exceptions: exceptions.iter().map(|e| (*e).into()).collect(),
            io: io.then_some(Io {
                medium: Medium::Stream,
                direction: Direction::Write,
            }),
            ..Site::default()
        });
        id
    }

    fn reached(&mut self, site: SiteId, stack: &str, nodes: &[&str], hits: u32, runs: u32) {
        for node in nodes {
            self.baseline.reached.push(Reached {
                site,
                node: (*node).into(),
                stack: stack.into(),
                hits,
                least: hits,
                early: hits / 3,
                runs,
            });
        }
    }

    pub fn scope(&self, seed: u64) -> Scope<'_> {
        Scope {
            catalog: &self.catalog,
            baseline: &self.baseline,
            faults: &self.faults,
            delay_ms: 60_000,
            sites: self.sites.clone(),
            seed,
            plan: Some(&self.plan),
            times: 1_000,
            level: StateLevel::State,
            sweep: false,
            working: false,
        }
    }

    pub fn policy(&self, name: &str, seed: u64) -> Box<dyn Policy> {
        build(name, &self.scope(seed)).unwrap()
    }

    /// All that `random` can draw: (context, node, fault, hit).
    pub fn injections(&self) -> usize {
        let of = |r: &Reached| {
            let site = &self.catalog.sites[r.site as usize];
            let faults = site.exceptions.len() + usize::from(site.io.is_some()) + 1;
            faults * r.hits as usize
        };
        self.baseline.reached.iter().map(of).sum()
    }

    /// The planted bugs that a plan shows.
    pub fn shown(&self, plan: &Plan) -> Vec<&'static str> {
        let shows = |bug: &&Planted| plan.steps.iter().any(|s| bug.fits(&s.when, &s.fault));
        self.planted
            .iter()
            .filter(shows)
            .map(|bug| bug.name)
            .collect()
    }

    /// What a trial under the plan would come to.
    pub fn outcome(&self, trial: u64, plan: &Plan) -> Outcome {
        let symptom = |name: &&str| Symptom {
            checker: "client".into(),
            summary: format!("a client is stuck: {name}"),
            detail: Vec::new(),
            at_us: 1,
        };
        let symptoms: Vec<Symptom> = self.shown(plan).iter().map(symptom).collect();
        let verdict = if symptoms.is_empty() {
            Verdict::Pass
        } else {
            Verdict::Fail
        };
        let fired = plan.steps.iter().zip(0..).map(|(step, n)| FiredFault {
            step: n,
            node: "n1".into(),
            site: match &step.when {
                Trigger::Hit { site, .. } => site.clone(),
                _ => String::new(),
            },
            fault: step.fault.to_string(),
            stack: "a1".into(),
            at_us: 1,
            ..FiredFault::default()
        });
        Outcome {
            format: Outcome::FORMAT,
            trial,
            verdict,
            fired: fired.collect(),
            judgements: vec![Judgement {
                checker: "client".into(),
                verdict,
                symptoms,
                reason: None,
            }],
            unreached: Vec::new(),
            warp: 1.0,
            seconds: 0.0,
            cpu_seconds: 0.0,
            visits: Vec::new(),
            from: None,
        }
    }
}

fn planted() -> Vec<Planted> {
    let bug = |name, site, fault| Planted {
        name,
        site,
        fault,
        node: None,
        stack: None,
        least_nth: 1,
    };
    vec![
        bug("slow write under a lock", "x.Log4.run", "delay"),
        Planted {
            stack: Some("b2"),
            ..bug(
                "acceptor ends in one context",
                "x.Net13.run",
                "throw IOException",
            )
        },
        Planted {
            least_nth: 3,
            ..bug(
                "state after the third append",
                "x.Log24.run",
                "throw IOException",
            )
        },
        Planted {
            node: Some("n3"),
            ..bug("only the last node", "x.Task22.run", "crash")
        },
        bug("a rare exception", "x.Net17.run", "throw Rare"),
    ]
}

impl Planted {
    fn fits(&self, when: &Trigger, fault: &Fault) -> bool {
        let Trigger::Hit {
            site,
            node,
            stack,
            nth,
            ..
        } = when
        else {
            return false;
        };
        let fits = |wanted: Option<&str>, given: &Option<String>| {
            wanted.is_none_or(|w| given.as_deref().is_none_or(|g| g == w))
        };
        site.starts_with(self.site)
            && fault.label() == self.fault
            && fits(self.node, node)
            && fits(self.stack, stack)
            && *nth >= self.least_nth
    }
}

/// Runs up to so many trials, one after the other; the plans that were run.
pub fn run(target: &Simulated, policy: &mut dyn Policy, trials: usize) -> Vec<Plan> {
    let mut plans = Vec::new();
    while plans.len() < trials
        && let Some(plan) = policy.next()
    {
        policy.learn(&plan, &target.outcome(plans.len() as u64, &plan));
        plans.push(plan);
    }
    plans
}

/// The trial (from 1) in which each planted bug first shows.
fn first_shown(target: &Simulated, plans: &[Plan]) -> Vec<(&'static str, Option<usize>)> {
    let first = |bug: &Planted| {
        let at = plans
            .iter()
            .position(|p| target.shown(p).contains(&bug.name));
        (bug.name, at.map(|i| i + 1))
    };
    target.planted.iter().map(first).collect()
}

#[test]
fn exhaustive_finds_every_planted_bug_within_its_bound() {
    let target = Simulated::small();
    // The end of the round that must show it: see the rounds in policy/exhaustive.rs.
    let bounds = [
        ("slow write under a lock", 260),
        ("acceptor ends in one context", 260),
        ("state after the third append", 920),
        ("only the last node", 510),
        ("a rare exception", 1_400),
    ];
    for seed in 0..20 {
        let plans = run(&target, target.policy("exhaustive", seed).as_mut(), 100_000);
        for ((name, found), (bound_name, bound)) in first_shown(&target, &plans).iter().zip(bounds)
        {
            assert_eq!(*name, bound_name);
            let found = found.unwrap_or_else(|| panic!("seed {seed}: {name} is never shown"));
            assert!(found <= bound, "seed {seed}: {name} only in trial {found}");
        }
    }
}

#[test]
fn random_finds_every_planted_bug_in_time() {
    let target = Simulated::small();
    for seed in 0..10 {
        let plans = run(&target, target.policy("random", seed).as_mut(), 20_000);
        for (name, found) in first_shown(&target, &plans) {
            assert!(found.is_some(), "seed {seed}: {name} is never shown");
        }
    }
}
