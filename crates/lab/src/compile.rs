//! A plan becomes data on the board: arm bytes, steps, faults. Pure.

use temblor_explore::delays;
use temblor_model::board::spec::{
    BoardSpec, FaultKind, FaultSpec, StepSpec, TriggerKind, access_key, context_key,
};
use temblor_model::board::{ANY_FAULT, ARM_COUNT, ARM_RECORD, ARM_SET, ARM_STEP};
use temblor_model::catalog::SiteCatalog;
use temblor_model::fnv64;
use temblor_model::history::Baseline;
use temblor_model::plan::{Among, Fault, Plan, Step, Trigger};
use temblor_model::site::Site;

/// Processes of one node in one trial: its first, and restarts by the plan and by healing. A
/// process that finds no slot on the board runs without the agent and says so.
const LIVES_PER_NODE: u32 = 6;

/// What recorded hits a trial wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Only what the plan's steps need.
    None,
    /// Every site, with contexts, up to a limit per site: baselines.
    All,
    /// Every hit of every site: forks count on from there, so nothing may be missed.
    Whole,
}

/// Where the processes of a cluster that is to be frozen wait for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    Nowhere,
    /// At the first hook they come to.
    FirstHook,
    /// At the next hook after so many steps have fired.
    AfterSteps(u32),
}

/// A plan that does not fit the target.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("step {step}: the target has no site `{site}`{nearest}; `temblor analyze` lists them")]
    UnknownSite {
        step: usize,
        site: String,
        nearest: String,
    },
    #[error("step {step}: the target has no node `{node}`; its nodes are {known}")]
    UnknownNode {
        step: usize,
        node: String,
        known: String,
    },
    #[error(
        "step {step}: the target has no abstract state `{state}`; `temblor analyze --json` lists them"
    )]
    UnknownState { step: usize, state: String },
    #[error("step {step}: `{text}` is not a context; expected 16 hexadecimal digits")]
    BadContext { step: usize, text: String },
    #[error("step {step}: {trigger} cannot be combined with {fault}; use `at = \"hit\"`")]
    Mismatch {
        step: usize,
        trigger: String,
        fault: String,
    },
    #[error(
        "step {step}: {fault} after {first}: a plan has one kind of fault that sites choose; name the fault"
    )]
    MixedSiteFaults {
        step: usize,
        fault: String,
        first: String,
    },
}

/// Faults that a step without a fixed fault (`any`) may choose from.
#[derive(Clone, Debug)]
pub struct AnyFaults {
    pub throw: bool,
    pub crash: bool,
    /// Virtual milliseconds; `None`: no delays.
    pub delay_ms: Option<u64>,
    /// Steps that leave the site open look at sites of these names only; at all without it.
    pub sites: Option<regex::Regex>,
}

/// What plans are made for.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    pub catalog: &'a SiteCatalog,
    pub nodes: &'a [String],
    pub any: &'a AnyFaults,
    /// None before clean runs have taught anything.
    pub baseline: Option<&'a Baseline>,
}

/// Makes the board of a trial.
pub fn board(
    plan: &Plan,
    ground: Ground<'_>,
    recording: Recording,
    hold: Hold,
) -> Result<BoardSpec, PlanError> {
    let Ground { catalog, nodes, .. } = ground;
    let online = plan.steps.iter().any(|s| s.when.is_online());
    // A clean fork tells what the workload comes by; a cluster that is to be frozen does not count,
    // so that its forks begin with nothing.
    let learns = recording == Recording::Whole && plan.working;
    let of_access = |s: &Step| matches!(s.when, Trigger::AfterAccess { .. });
    let mut compiler = Compiler {
        ground,
        spec: BoardSpec {
            catalog_hash: catalog.hash(),
            seed: plan.seed,
            arms: vec![0; catalog.sites.len()],
            points: catalog.points(),
            tell_states: recording != Recording::None || plan.needs_states(),
            tell_accesses: plan.steps.iter().any(of_access),
            tell_timeouts: recording == Recording::All,
            counts: online || recording == Recording::All || learns,
            block_count: catalog.block_count,
            slots: nodes.len() as u32 * LIVES_PER_NODE,
            ..BoardSpec::default()
        },
    };
    compiler.spec.unarmed = plan.working;
    if recording != Recording::None {
        compiler.spec.arms.fill(ARM_RECORD);
    }
    if recording == Recording::Whole {
        compiler.spec.hits_per_site = u32::MAX;
        compiler.spec.stacks_per_site = u32::MAX;
    }
    match hold {
        Hold::Nowhere => {}
        Hold::FirstHook => compiler.spec.hold = true,
        Hold::AfterSteps(steps) => compiler.spec.hold_after = steps,
    }
    for (i, step) in plan.steps.iter().enumerate() {
        compiler.step(i, &step.when, &step.fault)?;
    }
    if online {
        compiler.bar();
    }
    if let Some(fault) = site_fault(plan)? {
        compiler.site_faults(fault);
    }
    Ok(compiler.spec)
}

/// The fault that sites choose, where steps leave it to them: the board has one table for that.
fn site_fault(plan: &Plan) -> Result<Option<&Fault>, PlanError> {
    let steps = plan.steps.iter().enumerate();
    let mut chosen = steps.filter(|(_, step)| step.fault.is_chosen_by_site());
    let Some((_, first)) = chosen.next() else {
        return Ok(None);
    };
    match chosen.find(|(_, step)| step.fault != first.fault) {
        None => Ok(Some(&first.fault)),
        Some((i, step)) => Err(PlanError::MixedSiteFaults {
            step: i + 1,
            fault: step.fault.to_string(),
            first: first.fault.to_string(),
        }),
    }
}

struct Compiler<'a> {
    ground: Ground<'a>,
    spec: BoardSpec,
}

impl Compiler<'_> {
    fn step(&mut self, i: usize, when: &Trigger, fault: &Fault) -> Result<(), PlanError> {
        let catalog = self.ground.catalog;
        self.check_fault(i, when, fault)?;
        let fault = self.fault(fault);
        let blank = StepSpec {
            fault,
            ..StepSpec::default()
        };
        let step = match when {
            Trigger::Hit {
                site,
                node,
                stack,
                state,
                nth,
            } => {
                let site = self.site(i, site)?;
                self.spec.arms[site as usize] |= ARM_STEP;
                let node = self.node(i, node.as_deref())?;
                let stack = context(i, stack.as_deref())?;
                let state = match state {
                    Some(state) => self.state(i, Some(state))?,
                    None => blank.state,
                };
                StepSpec {
                    site,
                    node,
                    stack,
                    state,
                    nth: (*nth).max(1),
                    ..blank
                }
            }
            Trigger::Random { rate, node } => {
                self.arm_set(Among::All);
                let node = self.node(i, node.as_deref())?;
                StepSpec {
                    trigger: TriggerKind::Random,
                    rate: *rate,
                    node,
                    ..blank
                }
            }
            Trigger::InState {
                state,
                node,
                site,
                rate,
            } => {
                let only = site.as_ref().map(|site| self.site(i, site)).transpose()?;
                // What is not focused on is counted all the same.
                self.arm_set(Among::All);
                StepSpec {
                    trigger: TriggerKind::Random,
                    site: only.unwrap_or(blank.site),
                    node: self.node(i, node.as_deref())?,
                    state: self.state(i, state.as_ref())?,
                    rate: *rate,
                    ..blank
                }
            }
            Trigger::NewState { known, nth } => {
                self.arm_set(Among::All);
                self.known(i, known)?;
                StepSpec {
                    trigger: TriggerKind::NewState,
                    nth: *nth,
                    ..blank
                }
            }
            Trigger::NewContext {
                known,
                nth,
                among,
                by,
            } => {
                self.arm_set(*among);
                self.known(i, known)?;
                StepSpec {
                    trigger: TriggerKind::NewContext,
                    nth: *nth,
                    by: *by,
                    ..blank
                }
            }
            Trigger::AfterAccess {
                within_ms,
                known,
                nth,
            } => {
                self.arm_set(Among::All);
                let known = known.iter().map(|access| access_key(*access));
                self.spec.contexts.extend(known);
                StepSpec {
                    trigger: TriggerKind::AfterAccess,
                    nth: *nth,
                    within_ns: u32::try_from(within_ms * 1_000_000).unwrap_or(u32::MAX),
                    ..blank
                }
            }
            Trigger::AnyOf { sites } => {
                // Which others of their kind a fault leads to is worth knowing.
                for site in catalog.among(Among::Timed) {
                    self.spec.arms[site.id as usize] |= ARM_COUNT;
                }
                for site in sites {
                    let site = self.site(i, site)?;
                    self.spec.arms[site as usize] |= ARM_SET;
                }
                StepSpec {
                    trigger: TriggerKind::AnyOf,
                    ..blank
                }
            }
            Trigger::Ask { site: None } => {
                self.arm_set(Among::All);
                StepSpec {
                    trigger: TriggerKind::Ask,
                    ..blank
                }
            }
            Trigger::Ask { site: Some(site) } => {
                let site = self.site(i, site)?;
                self.spec.arms[site as usize] |= ARM_STEP;
                StepSpec {
                    trigger: TriggerKind::Ask,
                    site,
                    ..blank
                }
            }
            Trigger::After { .. } => StepSpec {
                trigger: TriggerKind::Lab,
                ..blank
            },
        };
        self.spec.steps.push(step);
        Ok(())
    }

    fn check_fault(&self, step: usize, when: &Trigger, fault: &Fault) -> Result<(), PlanError> {
        // Time has no thread to inject into; a question is answered with a fault of the agent's.
        let fits = match when {
            Trigger::After { .. } => fault.is_lab(),
            Trigger::Ask { .. } => !fault.is_lab() && !fault.is_chosen_by_site(),
            _ => true,
        };
        if !fits {
            let (trigger, fault) = (when.to_string(), fault.to_string());
            return Err(PlanError::Mismatch {
                step: step + 1,
                trigger,
                fault,
            });
        }
        let named: Vec<&String> = match fault {
            Fault::Restart { node } if node == "*" => Vec::new(),
            Fault::Restart { node } | Fault::Pause { node, .. } | Fault::Corrupt { node, .. } => {
                vec![node]
            }
            Fault::Partition { groups } => groups.iter().flatten().collect(),
            _ => Vec::new(),
        };
        for node in named {
            self.node(step, Some(node))?;
        }
        Ok(())
    }

    fn fault(&mut self, fault: &Fault) -> u32 {
        let (kind, amount, class) = match fault {
            fault if fault.is_chosen_by_site() => return ANY_FAULT,
            Fault::Throw { exception } => (FaultKind::Throw, 0, exception.replace('.', "/")),
            Fault::Delay { ms } => (FaultKind::Delay, *ms, String::new()),
            Fault::Crash => (FaultKind::Crash, 0, String::new()),
            _ => (FaultKind::Lab, 0, String::new()),
        };
        self.spec.faults.push(FaultSpec {
            kind,
            amount,
            class,
        });
        self.spec.faults.len() as u32 - 1
    }

    fn site(&self, step: usize, name: &str) -> Result<u32, PlanError> {
        let catalog = self.ground.catalog;
        if let Some(site) = catalog.by_name(name) {
            return Ok(site.id);
        }
        // The method is there but the call is another: say which calls it has.
        let method = name.split('>').next().unwrap_or(name);
        let same = |s: &&Site| s.name.split('>').next() == Some(method);
        let near: Vec<&str> = catalog
            .sites
            .iter()
            .filter(same)
            .take(4)
            .map(|s| s.name.as_str())
            .collect();
        let nearest = match near.is_empty() {
            true => String::new(),
            false => format!(" (in that method: {})", near.join(", ")),
        };
        Err(PlanError::UnknownSite {
            step: step + 1,
            site: name.into(),
            nearest,
        })
    }

    fn node(&self, step: usize, node: Option<&str>) -> Result<u64, PlanError> {
        let Some(node) = node else { return Ok(0) };
        let nodes = self.ground.nodes;
        if !nodes.iter().any(|n| n == node) {
            let known = nodes.join(", ");
            return Err(PlanError::UnknownNode {
                step: step + 1,
                node: node.into(),
                known,
            });
        }
        Ok(fnv64(node.as_bytes()))
    }

    /// Id + 1; 0 stands for what runs outside all tasks.
    fn state(&self, step: usize, name: Option<&String>) -> Result<u32, PlanError> {
        let Some(name) = name else { return Ok(0) };
        let found = self.ground.catalog.states.iter().find(|s| s.name == *name);
        found
            .map(|s| s.id + 1)
            .ok_or_else(|| PlanError::UnknownState {
                step: step + 1,
                state: name.clone(),
            })
    }

    fn known(&mut self, step: usize, keys: &[String]) -> Result<(), PlanError> {
        for text in keys {
            self.spec.contexts.push(context(step, Some(text))?);
        }
        Ok(())
    }

    fn arm_set(&mut self, among: Among) {
        let Ground { catalog, any, .. } = self.ground;
        let chosen = catalog.among(among);
        for site in chosen {
            let wanted = any.sites.as_ref().is_none_or(|s| s.is_match(&site.name));
            if wanted {
                self.spec.arms[site.id as usize] |= ARM_SET;
            }
        }
    }

    /// What meets only memory cannot fail and is not slow.
    fn bar(&mut self) {
        let Some(baseline) = self.ground.baseline else {
            return;
        };
        for reached in &baseline.reached {
            let site = self.ground.catalog.site(reached.site);
            let frames = baseline.contexts.get(&reached.stack);
            let stack = u64::from_str_radix(&reached.stack, 16);
            if let (Some(site), Some(frames), Ok(stack)) = (site, frames, stack)
                && site.is_in_memory(frames)
            {
                self.spec.barred.push(context_key(site.id, stack));
            }
        }
        self.spec.barred.sort_unstable();
        self.spec.barred.dedup();
    }

    /// For steps that take one of a site's own faults: of all steps of a plan the same.
    fn site_faults(&mut self, fault: &Fault) {
        let Ground {
            catalog,
            any,
            baseline,
            ..
        } = self.ground;
        for site in &catalog.sites {
            let first = self.spec.faults.len() as u32;
            let own = match fault {
                Fault::SiteDelay { .. } => {
                    let ms = delays::of_site(fault, site, baseline);
                    ms.map(|ms| Fault::Delay { ms }).into_iter().collect()
                }
                _ => faults_of(site, any),
            };
            for fault in own {
                self.fault(&fault);
            }
            let count = self.spec.faults.len() as u32 - first;
            self.spec.site_faults.push((first, count));
        }
    }
}

/// The faults a site can take, of the kinds that are allowed.
pub fn faults_of(site: &Site, any: &AnyFaults) -> Vec<Fault> {
    let mut out = Vec::new();
    if any.throw {
        out.extend(site.throwable().map(|e| Fault::Throw {
            exception: e.clone(),
        }));
    }
    if site.can_be_slow() {
        out.extend(any.delay_ms.map(|ms| Fault::Delay { ms }));
    }
    if any.crash {
        out.push(Fault::Crash);
    }
    out
}

fn context(step: usize, text: Option<&str>) -> Result<u64, PlanError> {
    let Some(text) = text else { return Ok(0) };
    u64::from_str_radix(text, 16).map_err(|_| PlanError::BadContext {
        step: step + 1,
        text: text.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use temblor_model::site::{Direction, Io, Medium, SiteKind};

    fn catalog() -> SiteCatalog {
        let site = |id: u32, name: &str, io| Site {
            id,
            name: name.into(),
            kind: SiteKind::Call,
            class: "a/A".into(),
            method: "m".into(),
            desc: "()V".into(),
            pc: id,
            line: None,
            callee: "b.B.c".into(),
            exceptions: vec!["java.io.IOException".into()],
            io,
            ..Site::default()
        };
        let io = Io {
            medium: Medium::Disk,
            direction: Direction::Write,
        };
        let sites = vec![
            site(0, "a.A.m()>b.B.c#0", None),
            site(1, "a.A.m()>b.B.c#1", Some(io)),
        ];
        SiteCatalog {
            format: 1,
            sites,
            classes: vec![],
            block_count: 0,
            ..SiteCatalog::default()
        }
    }

    fn compile(plan: &str) -> Result<BoardSpec, PlanError> {
        let plan: Plan = toml::from_str(plan).unwrap();
        let any = AnyFaults {
            throw: true,
            crash: true,
            delay_ms: Some(5),
            sites: None,
        };
        let (catalog, nodes) = (catalog(), ["n1".to_string(), "n2".to_string()]);
        let ground = Ground {
            catalog: &catalog,
            nodes: &nodes,
            any: &any,
            baseline: None,
        };
        board(&plan, ground, Recording::None, Hold::Nowhere)
    }

    #[test]
    fn a_hit_step_arms_its_site_only() {
        let spec = compile(
            "[[step]]\nwhen = { at = 'hit', site = 'a.A.m()>b.B.c#1', node = 'n2', nth = 3 }\n\
             fault = { kind = 'throw', exception = 'java.io.EOFException' }",
        )
        .unwrap();
        assert_eq!(spec.arms, [0, ARM_STEP]);
        assert_eq!(spec.steps[0].node, fnv64(b"n2"));
        assert_eq!(spec.steps[0].nth, 3);
        assert_eq!(spec.faults[0].class, "java/io/EOFException");
    }

    #[test]
    fn any_fault_lists_what_each_site_can_take() {
        let spec =
            compile("[[step]]\nwhen = { at = 'random', rate = 0.5 }\nfault = { kind = 'any' }")
                .unwrap();
        assert_eq!(spec.arms, [ARM_SET, ARM_SET]);
        assert_eq!(spec.site_faults, [(0, 2), (2, 3)]);
        assert_eq!(spec.steps[0].fault, ANY_FAULT);
    }

    #[test]
    fn plans_that_do_not_fit_are_refused_with_the_way_out() {
        for (plan, words) in [
            (
                "when = { at = 'hit', site = 'a.A.m()>x.Y.z#0' }\nfault = { kind = 'crash' }",
                "b.B.c#0",
            ),
            (
                "when = { at = 'hit', site = 'a.A.m()>b.B.c#0', node = 'n9' }\nfault = { kind = 'crash' }",
                "n1, n2",
            ),
            (
                "when = { at = 'hit', site = 'a.A.m()>b.B.c#0', stack = 'zz' }\nfault = { kind = 'crash' }",
                "hexadecimal",
            ),
            (
                "when = { at = 'after', ms = 5 }\nfault = { kind = 'crash' }",
                "step 1: 0.005 s later cannot",
            ),
            (
                "when = { at = 'ask' }\nfault = { kind = 'site-delay', sync_ms = 5, timeout_percent = 150 }",
                "at = \"hit\"",
            ),
            (
                "when = { at = 'random', rate = 0.5 }\nfault = { kind = 'any' }\n[[step]]\n\
                 when = { at = 'random', rate = 0.5 }\n\
                 fault = { kind = 'site-delay', sync_ms = 5, timeout_percent = 150 }",
                "step 2: ",
            ),
            (
                "when = { at = 'after', ms = 5 }\nfault = { kind = 'restart', node = 'x' }",
                "n1, n2",
            ),
        ] {
            let error = compile(&format!("[[step]]\n{plan}"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
