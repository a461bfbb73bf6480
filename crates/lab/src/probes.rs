//! What nodes say of themselves while a trial runs: ready, well, in which role.

use std::time::{Duration, Instant};

use temblor_cluster::cell::{LaterAnswer, ProbeAnswer, ProbeSpec};
use temblor_cluster::target::Check;
use temblor_model::event::What;

use crate::LabError;
use crate::running::Running;

/// A node that serves answers within this; a busy machine is asked again. Real milliseconds.
const PROBE_MS: u64 = 1_000;
/// Between two questions to one node whether it is ready: answering takes its time.
const READY_EVERY: Duration = Duration::from_millis(80);
/// Between two questions to one node how it is, while clients work.
const HEALTH_EVERY: Duration = Duration::from_millis(500);

/// What a node says of itself, as far as changes of it are news.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    ok: bool,
    role: Option<String>,
    silent: bool,
}

/// The questions that are under way, and what was said last.
#[derive(Default)]
pub struct HealthWatch {
    asked: Option<LaterAnswer>,
    next: Option<Instant>,
    said: Option<Said>,
}

impl Running<'_> {
    /// Asks every live node that is not ready yet, from time to time; true when all that were
    /// started are.
    pub fn probe_ready(&mut self) -> Result<bool, LabError> {
        for i in 0..self.nodes.len() {
            let node = &mut self.nodes[i];
            let too_soon = node
                .asked_ready
                .is_some_and(|at| at.elapsed() < READY_EVERY);
            if node.ready || node.process.is_none() || node.paused || too_soon {
                continue;
            }
            node.asked_ready = Some(Instant::now());
            let answer = self.ask(i, &self.setup.target.ready)?;
            if expected(&self.setup.target.ready, &answer) {
                self.nodes[i].ready = true;
                let node = self.nodes[i].name.clone();
                self.emit(What::NodeReady { node });
            }
        }
        Ok(self.nodes.iter().all(|n| n.ready || n.is_yet_to_come()))
    }

    /// Whether every node that runs says that it serves, now.
    pub fn all_serve(&self) -> Result<bool, LabError> {
        let ready = &self.setup.target.ready;
        for i in 0..self.nodes.len() {
            if self.nodes[i].process.is_some() && !expected(ready, &self.ask(i, ready)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn ask(&self, node: usize, check: &Check) -> Result<ProbeAnswer, LabError> {
        Ok(self.cell.probe(self.question(node, check))?)
    }

    fn question(&self, node: usize, check: &Check) -> ProbeSpec {
        let facts = &self.nodes[node].facts;
        ProbeSpec {
            to: self.setup.target.check_address(facts, check),
            send: check.send.clone(),
            within_ms: PROBE_MS,
            one_line: !check.whole,
        }
    }

    /// What every node says of itself, as events.
    pub fn ask_health(&mut self) -> Result<(), LabError> {
        for i in 0..self.nodes.len() {
            if self.nodes[i].is_yet_to_come() {
                continue;
            }
            let answer = match self.nodes[i].process {
                None => None,
                Some(_) => Some(self.ask(i, &self.setup.target.health)?),
            };
            self.tell_health(i, answer, true);
        }
        Ok(())
    }

    /// Asks nodes from time to time without waiting for their answers; news become events.
    pub fn watch_health(&mut self) -> Result<(), LabError> {
        let now = Instant::now();
        for i in 0..self.nodes.len() {
            if let Some(asked) = &self.nodes[i].health.asked {
                if let Some(answer) = asked.poll() {
                    self.nodes[i].health.asked = None;
                    self.tell_health(i, Some(answer), false);
                }
                continue;
            }
            let node = &self.nodes[i];
            let is_due = node.health.next.is_none_or(|next| now >= next);
            if !is_due || node.process.is_none() || node.paused {
                continue;
            }
            let question = self.question(i, &self.setup.target.health);
            let asked = self.cell.probe_later(question)?;
            let health = &mut self.nodes[i].health;
            health.asked = Some(asked);
            health.next = Some(now + HEALTH_EVERY);
        }
        Ok(())
    }

    /// `always`: also when it says the same as before.
    fn tell_health(&mut self, i: usize, answer: Option<ProbeAnswer>, always: bool) {
        let health = &self.setup.target.health;
        let (said, answer) = match &answer {
            None => (Said::default(), "not running".to_string()),
            Some(answer) => (Said::of(health, answer), describe(answer)),
        };
        if !always && self.nodes[i].health.said.as_ref() == Some(&said) {
            return;
        }
        self.nodes[i].health.said = Some(said.clone());
        let node = self.nodes[i].name.clone();
        self.emit(What::Health {
            node,
            ok: said.ok,
            role: said.role,
            silent: said.silent,
            answer,
        });
    }

    /// What a node said last that it is.
    pub fn role_of(&self, i: usize) -> Option<&str> {
        self.nodes[i].health.said.as_ref()?.role.as_deref()
    }
}

fn expected(check: &Check, answer: &ProbeAnswer) -> bool {
    answer
        .text()
        .is_some_and(|text| check.expect.is_match(text))
}

impl Said {
    fn of(check: &Check, answer: &ProbeAnswer) -> Said {
        let role = || {
            let found = check.role.as_ref()?.captures(answer.text()?)?;
            found.name("role").map(|role| role.as_str().to_string())
        };
        Said {
            ok: expected(check, answer),
            role: role(),
            silent: answer.text().is_none(),
        }
    }
}

fn describe(answer: &ProbeAnswer) -> String {
    match answer {
        ProbeAnswer::Text { text } => text.trim_end().to_string(),
        ProbeAnswer::Refused { reason } => format!("refused: {reason}"),
        ProbeAnswer::Late { text } => format!("late: {}", text.trim_end()),
    }
}
