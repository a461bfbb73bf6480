//! A plan becomes data on the board: arm bytes, steps, faults. Pure.

use temblor_model::board::spec::{
    BoardSpec, FaultKind, FaultSpec, StepSpec, TriggerKind, context_key,
};
use temblor_model::board::{ANY_FAULT, ANY_SITE, ARM_RECORD, ARM_SET, ARM_STEP};
use temblor_model::catalog::SiteCatalog;
use temblor_model::fnv64;
use temblor_model::plan::{Fault, Plan, Trigger};
use temblor_model::site::Site;

/// Processes of one node in one trial: its first, and restarts by the plan and by healing. A
/// process that finds no slot on the board runs without the agent and says so.
const LIVES_PER_NODE: u32 = 6;

/// What recorded hits a trial wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Only what the plan's steps need.
    None,
    /// Every site, with contexts: baselines.
    All,
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
    #[error("step {step}: `{text}` is not a context; expected 16 hexadecimal digits")]
    BadContext { step: usize, text: String },
    #[error("step {step}: {trigger} cannot be combined with {fault}; use `at = \"hit\"`")]
    Mismatch {
        step: usize,
        trigger: String,
        fault: String,
    },
}

/// Faults that a step without a fixed fault (`any`) may choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyFaults {
    pub throw: bool,
    pub crash: bool,
    /// Virtual milliseconds; `None`: no delays.
    pub delay_ms: Option<u64>,
}

/// Makes the board of a trial.
pub fn board(
    plan: &Plan,
    catalog: &SiteCatalog,
    nodes: &[String],
    recording: Recording,
    hold: Hold,
    any: &AnyFaults,
) -> Result<BoardSpec, PlanError> {
    let mut compiler = Compiler {
        catalog,
        nodes,
        spec: BoardSpec {
            catalog_hash: catalog.hash(),
            seed: plan.seed,
            arms: vec![0; catalog.sites.len()],
            block_count: catalog.block_count,
            slots: nodes.len() as u32 * LIVES_PER_NODE,
            ..BoardSpec::default()
        },
    };
    compiler.spec.unarmed = plan.working;
    if recording == Recording::All {
        compiler.spec.arms.fill(ARM_RECORD);
    }
    match hold {
        Hold::Nowhere => {}
        Hold::FirstHook => compiler.spec.hold = true,
        Hold::AfterSteps(steps) => compiler.spec.hold_after = steps,
    }
    if hold != Hold::Nowhere {
        // Forks count on from what is recorded here, so nothing may be missed.
        compiler.spec.hits_per_site = u32::MAX;
        compiler.spec.stacks_per_site = u32::MAX;
    }
    for (i, step) in plan.steps.iter().enumerate() {
        compiler.step(i, &step.when, &step.fault)?;
    }
    if plan.steps.iter().any(|s| s.fault == Fault::Any) {
        compiler.site_faults(any);
    }
    Ok(compiler.spec)
}

struct Compiler<'a> {
    catalog: &'a SiteCatalog,
    nodes: &'a [String],
    spec: BoardSpec,
}

impl Compiler<'_> {
    fn step(&mut self, i: usize, when: &Trigger, fault: &Fault) -> Result<(), PlanError> {
        self.check_fault(i, when, fault)?;
        let fault = self.fault(fault);
        let blank = StepSpec {
            trigger: TriggerKind::AtHit,
            site: ANY_SITE,
            node: 0,
            stack: 0,
            nth: 1,
            rate: 0.0,
            fault,
        };
        let step = match when {
            Trigger::Hit {
                site,
                node,
                stack,
                nth,
            } => {
                let site = self.site(i, site)?;
                self.spec.arms[site as usize] |= ARM_STEP;
                let node = self.node(i, node.as_deref())?;
                let stack = context(i, stack.as_deref())?;
                StepSpec {
                    site,
                    node,
                    stack,
                    nth: (*nth).max(1),
                    ..blank
                }
            }
            Trigger::Random { rate, node } => {
                self.arm_set();
                let node = self.node(i, node.as_deref())?;
                StepSpec {
                    trigger: TriggerKind::Random,
                    rate: *rate,
                    node,
                    ..blank
                }
            }
            Trigger::NewContext { known } => {
                self.arm_set();
                for text in known {
                    self.spec.contexts.push(context(i, Some(text))?);
                }
                StepSpec {
                    trigger: TriggerKind::NewContext,
                    ..blank
                }
            }
            Trigger::Ask { site: None } => {
                self.arm_set();
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
            Trigger::Ask { .. } => !fault.is_lab() && *fault != Fault::Any,
            _ => true,
        };
        if !fits {
            let (trigger, fault) = (when.to_string(), fault.to_string());
            return Err(PlanError::Mismatch {
                step,
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
            Fault::Any => return ANY_FAULT,
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
        if let Some(site) = self.catalog.by_name(name) {
            return Ok(site.id);
        }
        // The method is there but the call is another: say which calls it has.
        let method = name.split('>').next().unwrap_or(name);
        let same = |s: &&Site| s.name.split('>').next() == Some(method);
        let near: Vec<&str> = self
            .catalog
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
        if !self.nodes.iter().any(|n| n == node) {
            let known = self.nodes.join(", ");
            return Err(PlanError::UnknownNode {
                step: step + 1,
                node: node.into(),
                known,
            });
        }
        Ok(fnv64(node.as_bytes()))
    }

    fn arm_set(&mut self) {
        for arm in &mut self.spec.arms {
            *arm |= ARM_SET;
        }
    }

    fn site_faults(&mut self, any: &AnyFaults) {
        for site in &self.catalog.sites {
            let first = self.spec.faults.len() as u32;
            for fault in faults_of(site, any) {
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
        out.extend(site.exceptions.iter().map(|e| Fault::Throw {
            exception: e.clone(),
        }));
    }
    if let (Some(_), Some(ms)) = (site.io, any.delay_ms) {
        out.push(Fault::Delay { ms });
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

/// The name a context has in plans of trigger `new-context`.
pub fn context_name(site: u32, stack: u64) -> String {
    format!("{:016x}", context_key(site, stack))
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
        };
        board(
            &plan,
            &catalog(),
            &["n1".into(), "n2".into()],
            Recording::None,
            Hold::Nowhere,
            &any,
        )
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
                "at = \"hit\"",
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
