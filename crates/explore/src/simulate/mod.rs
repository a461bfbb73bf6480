//! A simulated target with planted bugs: a pure function from plans to outcomes, so that whole
//! campaigns run at thousands of trials a second. `trial` runs a plan, `campaigns` has the tests
//! that policies find what they are meant for, `paper` compares them with the papers' algorithms,
//! `words` with what the papers only say in words.

mod campaigns;
mod paper;
pub mod trial;
mod words;

use regex::Regex;
use temblor_model::bug::{FiredFault, Judgement, Misbehaviour, Outcome, Symptom, Verdict};
use temblor_model::campaign::StateLevel;
use temblor_model::catalog::{
    Group, Guard, GuardedBy, MetaAccess, Place, SiteCatalog, State, TimeUnit, Timeout, TimeoutKind,
};
use temblor_model::fnv64;
use temblor_model::history::{Baseline, Reached};
use temblor_model::plan::{Contexts, Fault, Plan};
use temblor_model::site::{Direction, Io, Medium, Site, SiteId, SiteKind};

use crate::policy::{FaultKind, Policy, Scope, build};
pub use campaigns::Campaign;
use trial::{Request, Scripts, Shot};

pub const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// A bug that one fault shows. What is left empty may be anything.
#[derive(Default)]
pub struct Planted {
    pub name: &'static str,
    site: &'static str,
    /// Label of the fault.
    fault: &'static str,
    node: Option<&'static str>,
    stack: Option<&'static str>,
    state: Option<u32>,
    access: Option<u32>,
    least_nth: u32,
    /// Least and most length of a delay, virtual milliseconds.
    delay_ms: Option<(u64, u64)>,
}

/// The target.
pub struct Simulated {
    pub catalog: SiteCatalog,
    pub baseline: Baseline,
    pub planted: Vec<Planted>,
    pub faults: Vec<FaultKind>,
    pub sites: Option<Regex>,
    pub level: StateLevel,
    pub contexts: Contexts,
    pub sweep: bool,
    pub delay_ms: Option<u64>,
    plan: Plan,
    scripts: Scripts,
}

impl Simulated {
    /// Reached in every run, but each time on another node.
    pub const ROAMING: &'static str = "x.Leader.lead()>x.Peers.send#0";
    /// Entered by the last of many saves only.
    const LAST_SAVES: u32 = 5;
    /// Entered after a fault only.
    const RECOVERING: u32 = 11;

    fn bare() -> Simulated {
        Simulated {
            catalog: SiteCatalog::default(),
            baseline: Baseline {
                format: 1,
                runs: 3,
                warp: 1.0,
                // What `four_seconds` was in clean runs.
                timeouts: [(0, vec![4_000])].into(),
                ..Baseline::default()
            },
            planted: Vec::new(),
            faults: FaultKind::ALL.to_vec(),
            sites: None,
            level: StateLevel::State,
            contexts: Contexts::Stack,
            sweep: false,
            delay_ms: None,
            plan: Plan::clean(),
            scripts: Scripts::default(),
        }
    }

    /// Forty ordinary sites, a few special ones, five bugs. It has no states and no guards.
    pub fn small() -> Simulated {
        let mut target = Simulated::bare();
        target.ordinary();
        target.planted = planted();
        target.scripts = Scripts::new(&target.baseline, |_, _| (None, None), Vec::new());
        target.baseline.visits = target.scripts.clean_visits();
        target
    }

    fn ordinary(&mut self) {
        for k in 0..40 {
            let kind = ["Log", "Net", "Task", "Gossip"][k % 4];
            let name = format!("x.{kind}{k}.run()>java.io.OutputStream.write#0");
            let exceptions: &[&str] = if k % 8 == 1 {
                &["java.io.IOException", "x.Rare"]
            } else {
                &["java.io.IOException"]
            };
            let site = self.site(&name, exceptions, k % 4 < 2);
            for stack in ["a1", "b2"].into_iter().take(1 + k % 2) {
                self.reached(site, stack, &NODES, 1 + (k % 5) as u32, 3);
            }
        }
        let roaming = self.site(Self::ROAMING, &["java.io.IOException"], true);
        self.reached(roaming, "c3", &NODES, 2, 1);
    }

    /// The small one with abstract states, locks, timeouts, accesses of data about nodes, places
    /// that only come after a fault, and the bugs that policies for these find.
    pub fn rich() -> Simulated {
        let mut target = Simulated::bare();
        target.catalog.states = (0..12).map(state).collect();
        target.catalog.timeouts = vec![four_seconds()];
        target.catalog.meta_accesses = (0..5).map(meta_access).collect();
        target.ordinary();
        let io = ["java.io.IOException"];
        let save = target.site("x.Snap.save()>x.Out.write#0", &io, true);
        target.reached(save, "d4", &NODES, 33, 3);
        let flush = target.site("x.Snap.save()>x.Out.flush#0", &io, true);
        target.reached(flush, "d4", &NODES, 1, 3);
        for i in 0..10 {
            let first = target.guarded(&format!("x.Lock{i}.run()>x.Out.write#0"), 2);
            let last = target.guarded(&format!("x.Lock{i}.run()>x.Out.write#1"), 2);
            target.group(vec![first, last]);
        }
        let mut timed = Vec::new();
        for i in 0..20 {
            timed.push(target.guarded(&format!("x.Wait{i}.run()>x.In.read#0"), 1));
        }
        for i in 0..2 {
            timed.push(target.guarded(&format!("x.Late{i}.run()>x.In.read#0"), 0));
        }
        for site in &timed {
            target.catalog.sites[*site as usize].guards = guard(GuardedBy::Timeout(0));
            target.group(vec![*site]);
        }
        let both = target.guarded("x.Wait20.run()>x.In.read#0", 1);
        let guards = &mut target.catalog.sites[both as usize].guards;
        guards.extend(guard(GuardedBy::Timeout(0)));
        target.group(vec![both]);
        let recover = target.site("x.Recover.run()>x.Out.write#0", &io, true);
        let [.., last_wait, late0, late1] = timed[..] else {
            unreachable!("there are 22")
        };
        let after = vec![
            (
                None,
                Request::new(recover, &context("ee"), Some(Self::RECOVERING)),
            ),
            (Some(last_wait), Request::new(late0, &context("ef"), None)),
            (Some(late0), Request::new(late1, &context("ef"), None)),
        ];
        let stage = |r: &Reached, hit: u32| stage(r, hit, save, flush);
        target.scripts = Scripts::new(&target.baseline, stage, after);
        target.baseline.visits = target.scripts.clean_visits();
        target.planted = planted();
        target.planted.extend(planted_deeper());
        target
    }

    /// Nothing was reached in the baselines.
    pub fn unreached(mut self) -> Simulated {
        self.baseline.reached.clear();
        self.baseline.visits.clear();
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

    /// I/O under a lock, reached in so many contexts.
    fn guarded(&mut self, name: &str, contexts: usize) -> SiteId {
        let site = self.site(name, &["java.io.IOException"], true);
        self.catalog.sites[site as usize].guards = guard(GuardedBy::Region(0));
        for stack in ["e5", "f6"].into_iter().take(contexts) {
            self.reached(site, stack, &NODES, 1, 3);
        }
        site
    }

    fn group(&mut self, sites: Vec<SiteId>) {
        let id = self.catalog.groups.len() as u32;
        self.catalog.groups.push(Group { id, sites });
    }

    fn reached(&mut self, site: SiteId, stack: &str, nodes: &[&str], hits: u32, runs: u32) {
        for node in nodes {
            self.baseline.reached.push(Reached {
                site,
                node: (*node).into(),
                stack: context(stack),
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
            delay_ms: self.delay_ms,
            sites: self.sites.clone(),
            seed,
            plan: Some(&self.plan),
            times: 1_000,
            level: self.level,
            contexts: self.contexts,
            sweep: self.sweep,
            working: false,
        }
    }

    pub fn policy(&self, name: &str, seed: u64) -> Box<dyn Policy> {
        build(name, &self.scope(seed)).unwrap()
    }

    /// All that `scatter` can draw: (context, node, fault, hit).
    pub fn injections(&self) -> usize {
        let of = |r: &Reached| {
            let site = &self.catalog.sites[r.site as usize];
            let faults = site.exceptions.len() + usize::from(site.can_be_slow()) + 1;
            faults * r.hits as usize
        };
        self.baseline.reached.iter().map(of).sum()
    }

    /// What a trial under the plan comes to.
    pub fn outcome(&self, trial: u64, plan: &Plan) -> Outcome {
        let ran = trial::run(self, trial, plan);
        let shows = |bug: &&Planted| ran.shots.iter().any(|shot| bug.fits(self, shot));
        let symptom = |bug: &Planted| Symptom {
            checker: "client".into(),
            shows: Misbehaviour::STUCK,
            summary: format!("a client is stuck: {}", bug.name),
            detail: Vec::new(),
            at_us: 1,
        };
        let symptoms: Vec<Symptom> = self.planted.iter().filter(shows).map(symptom).collect();
        let verdict = if symptoms.is_empty() {
            Verdict::Pass
        } else {
            Verdict::Fail
        };
        Outcome {
            format: Outcome::FORMAT,
            trial,
            verdict,
            fired: ran.shots.iter().map(|shot| self.fired(shot)).collect(),
            judgements: vec![Judgement {
                checker: "client".into(),
                verdict,
                symptoms,
                reason: None,
            }],
            unreached: ran.unreached,
            warp: 1.0,
            seconds: 0.0,
            cpu_seconds: 0.0,
            visits: ran.visits,
            from: None,
        }
    }

    fn fired(&self, shot: &Shot) -> FiredFault {
        let Some(request) = &shot.request else {
            return FiredFault {
                step: shot.step,
                fault: shot.fault.to_string(),
                ..FiredFault::default()
            };
        };
        let state = |id: u32| self.catalog.states[id as usize].name.clone();
        FiredFault {
            step: shot.step,
            node: NODES[request.node].into(),
            site: self.catalog.sites[request.site as usize].name.clone(),
            fault: shot.fault.to_string(),
            stack: request.stack.clone(),
            at_us: 1,
            state: request.state.map(state),
            nth: shot.nth_in_state,
            access: request.access,
            out_of: None,
        }
    }
}

/// A context's hash in hex: as wide as real ones, so that those of two sites are never alike.
pub fn context(name: &str) -> String {
    format!("{:016x}", fnv64(name.as_bytes()))
}

/// The state of a site's hit, and the access just before it. Each fourth of the ordinary sites is
/// a task's; its first two hits are in its first state, the others in its second.
fn stage(r: &Reached, hit: u32, save: SiteId, flush: SiteId) -> (Option<u32>, Option<u32>) {
    let task = r.site % 4;
    let state = match r.site {
        site if site == save && hit < 30 => Some(3),
        site if site == save || site == flush => Some(Simulated::LAST_SAVES),
        40.. => None,
        site if site % 10 == 9 => None,
        _ => Some(3 * task + u32::from(hit > 1)),
    };
    let accesses = [3, 10, 20, 30, 36];
    let access = accesses.iter().position(|site| *site == r.site);
    let is_there = hit == 0 && r.node == NODES[1];
    (state, access.filter(|_| is_there).map(|id| id as u32))
}

fn state(id: u32) -> State {
    let (task, index) = (id / 3, id % 3);
    State {
        id,
        name: format!("x.T{task}.run():{index}"),
        task,
        index,
        place: Place::default(),
        condition: String::new(),
    }
}

fn four_seconds() -> Timeout {
    Timeout {
        id: 0,
        kind: TimeoutKind::Elapsed,
        place: Place::default(),
        above: 0,
        wide: true,
        unit: TimeUnit::Seconds,
        constant: None,
        expression: String::new(),
    }
}

fn meta_access(id: u32) -> MetaAccess {
    MetaAccess {
        id,
        place: Place::default(),
        field: "x.Members.all".into(),
        write: false,
    }
}

fn guard(by: GuardedBy) -> Vec<Guard> {
    vec![Guard {
        by,
        via: Vec::new(),
    }]
}

fn bug(name: &'static str, site: &'static str, fault: &'static str) -> Planted {
    Planted {
        name,
        site,
        fault,
        ..Planted::default()
    }
}

fn planted() -> Vec<Planted> {
    let throw = "throw IOException";
    vec![
        bug("slow write under a lock", "x.Log4.run", "delay"),
        Planted {
            stack: Some("b2"),
            ..bug("acceptor ends in one context", "x.Net13.run", throw)
        },
        Planted {
            least_nth: 3,
            ..bug("state after the third append", "x.Log24.run", throw)
        },
        Planted {
            node: Some("n3"),
            ..bug("only the last node", "x.Task22.run", "crash")
        },
        bug("a rare exception", "x.Net17.run", "throw Rare"),
    ]
}

fn planted_deeper() -> Vec<Planted> {
    let long = Some((100_000, u64::MAX));
    vec![
        Planted {
            state: Some(Simulated::LAST_SAVES),
            ..bug(
                "a torn last save",
                "x.Snap.save()>x.Out.write",
                "throw IOException",
            )
        },
        Planted {
            state: Some(7),
            ..bug("a stage that bears no fault", "", "")
        },
        Planted {
            stack: Some("f6"),
            ..bug(
                "one context bears no fault",
                "x.Lock3.run()>x.Out.write#0",
                "",
            )
        },
        Planted {
            access: Some(3),
            ..bug("half a member", "", "")
        },
        Planted {
            delay_ms: long,
            ..bug(
                "a lock held for minutes",
                "x.Lock2.run()>x.Out.write#1",
                "delay",
            )
        },
        Planted {
            delay_ms: long,
            stack: Some("f6"),
            ..bug(
                "a lock held in one context",
                "x.Lock7.run()>x.Out.write#1",
                "delay",
            )
        },
        Planted {
            delay_ms: Some((5_900, 6_100)),
            ..bug("a timeout overstepped by half", "x.Wait8.run", "delay")
        },
        Planted {
            delay_ms: Some((5_900, 6_100)),
            ..bug("a lock and a timeout overstepped", "x.Wait20.run", "delay")
        },
        Planted {
            delay_ms: Some((1, 20_000)),
            ..bug(
                "a short wait is overtaken",
                "x.Lock6.run()>x.Out.write#1",
                "delay",
            )
        },
        Planted {
            delay_ms: Some((39_000, 41_000)),
            ..bug("a timeout overstepped far", "x.Wait3.run", "delay")
        },
        bug("the third delay in a row", "x.Late1.run", "delay"),
    ]
}

impl Planted {
    fn fits(&self, target: &Simulated, shot: &Shot) -> bool {
        let Some(request) = &shot.request else {
            return false;
        };
        let Planted { delay_ms, .. } = self;
        let long_enough = match (delay_ms, &shot.fault) {
            (Some((least, most)), Fault::Delay { ms }) => (least..=most).contains(&ms),
            _ => delay_ms.is_none(),
        };
        let name = &target.catalog.sites[request.site as usize].name;
        name.starts_with(self.site)
            && (self.fault.is_empty() || shot.fault.label() == self.fault)
            && self.node.is_none_or(|node| NODES[request.node] == node)
            && self.stack.is_none_or(|s| request.stack == context(s))
            && self.state.is_none_or(|state| request.state == Some(state))
            && self.access.is_none_or(|a| request.access == Some(a))
            && shot.nth >= self.least_nth
            && long_enough
    }
}
