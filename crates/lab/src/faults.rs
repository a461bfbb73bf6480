//! Faults that the lab executes itself: on nodes, the network and files.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use temblor_cluster::cell::{CellError, ProcId};
use temblor_cluster::corrupt::corrupt;
use temblor_model::board::spec::TriggerKind;
use temblor_model::board::view::AskCell;
use temblor_model::event::{Stage, What};
use temblor_model::plan::{Fault, NetWay, Step};

use crate::LabError;
use crate::below;
use crate::board::answer;
use crate::running::Running;

/// Something to be done later.
pub(crate) struct Due {
    at: Instant,
    what: Later,
}

enum Later {
    /// A paused process goes on.
    Resume(ProcId),
    /// The network is as fast as before.
    Unstall,
    /// Connections between this node and others can be made again.
    Unreset(Ipv4Addr),
}

impl Running<'_> {
    /// Fires the step that waits for time, wakes paused nodes.
    pub(crate) fn do_due(&mut self) -> Result<(), LabError> {
        let now = Instant::now();
        let (due, later): (Vec<Due>, Vec<Due>) = std::mem::take(&mut self.due)
            .into_iter()
            .partition(|d| d.at <= now);
        self.due = later;
        for due in due {
            self.end(due.what);
        }
        // Time runs for a plan's steps only while the target works.
        if self.stage < Stage::Workload || self.stage > Stage::Recovery {
            return Ok(());
        }
        while let Some((step, ms, since)) = self.waiting_step() {
            if since.elapsed() < self.clock.real(ms) || !self.board.board().take_step(step) {
                break;
            }
            self.execute(step);
        }
        Ok(())
    }

    /// Answers an agent: a lab fault is executed first, a plain question is granted.
    pub(crate) fn answer(&mut self, question: &AskCell) -> Result<(), LabError> {
        use std::sync::atomic::Ordering;
        let step = question.step.load(Ordering::Acquire);
        let asks = self.board.board().steps().get(step as usize);
        let value = match asks.and_then(|s| TriggerKind::from_u32(s.trigger)) {
            Some(TriggerKind::Ask) => asks.map_or(0, |s| s.fault.wrapping_add(1)),
            _ => {
                // The agent's record of the fired step comes first in the history.
                self.take_in();
                self.execute(step);
                1
            }
        };
        answer(question, value);
        Ok(())
    }

    /// Executes the fault of a step that has fired; what came of it is an event.
    fn execute(&mut self, step: u32) {
        let Some(fault) = self.plan.steps.get(step as usize).map(|s| s.fault.clone()) else {
            return;
        };
        let result = self
            .execute_fault(step, &fault)
            .unwrap_or_else(|e| format!("failed: {e}"));
        self.emit(What::LabFault {
            step,
            fault: fault.to_string(),
            result,
        });
    }

    fn execute_fault(&mut self, step: u32, fault: &Fault) -> Result<String, LabError> {
        match fault {
            Fault::SlowDisk { ms, way } => {
                let data = self.data_dir(self.node_of_step(step)?);
                let delay_ms = self.clock.real(*ms).as_millis() as u64;
                self.cell.slow_disk(&data, below::rule(*way, delay_ms))?;
                Ok("its next operation is slow".into())
            }
            Fault::SlowNet { ms, way } => {
                let addr = Some(self.nodes[self.node_of_step(step)?].facts.addr);
                match way {
                    NetWay::Out => self.cell.stall(addr, None, None)?,
                    NetWay::In => self.cell.stall(None, addr, None)?,
                }
                let at = Instant::now() + self.clock.real(*ms);
                self.due.push(Due {
                    at,
                    what: Later::Unstall,
                });
                Ok("stalled".into())
            }
            Fault::Restart { node } if node == "*" => {
                let down: Vec<usize> = (0..self.nodes.len())
                    .filter(|i| self.nodes[*i].process.is_none())
                    .collect();
                for i in &down {
                    self.start_node(*i)?;
                }
                let names: Vec<&str> = down.iter().map(|i| self.nodes[*i].name.as_str()).collect();
                Ok(format!("started again: {}", names.join(", ")))
            }
            Fault::Restart { node } => {
                self.restart_node(self.node_index(node)?)?;
                Ok("started again".into())
            }
            Fault::Pause { node, ms } => {
                let i = self.node_index(node)?;
                let Some(process) = self.nodes[i].process else {
                    return Ok("not running: nothing to pause".into());
                };
                self.cell.pause(process)?;
                self.nodes[i].paused = true;
                let at = Instant::now() + self.clock.real(*ms);
                self.due.push(Due {
                    at,
                    what: Later::Resume(process),
                });
                Ok("paused".into())
            }
            Fault::Partition { groups } => {
                let mut sides = Vec::new();
                for group in groups {
                    let addr = |n: &String| self.node_index(n).map(|i| self.nodes[i].facts.addr);
                    sides.push(group.iter().map(addr).collect::<Result<Vec<_>, _>>()?);
                }
                self.cell.partition(&sides)?;
                Ok("cut".into())
            }
            Fault::Heal => {
                self.cell.heal()?;
                Ok("mended".into())
            }
            Fault::Corrupt {
                node,
                file,
                offset,
                bytes,
            } => {
                let i = self.node_index(node)?;
                let dir = self.place.node_dir(&self.nodes[i].name);
                let damage = corrupt(&dir, file, *offset, *bytes);
                damage
                    .map(|d| d.to_string())
                    .map_err(|e| LabError::Command(e.to_string()))
            }
            Fault::Throw { .. }
            | Fault::Delay { .. }
            | Fault::Crash
            | Fault::Any
            | Fault::SiteDelay { .. } => Err(LabError::Internal(format!(
                "{fault} is the agent's business"
            ))),
        }
    }

    fn end(&mut self, what: Later) {
        match what {
            Later::Resume(process) => self.wake(process),
            Later::Unreset(node) => {
                if let Err(e) = self.cell.unreset(node) {
                    self.notice("lab", format!("connections are still reset: {e}"));
                }
            }
            Later::Unstall => match self.cell.unstall() {
                Ok(0) => self.notice(below::SOURCE, below::MET_NOTHING.into()),
                Ok(packets) => {
                    let text = format!("the slow network held {packets} packets");
                    self.notice(below::SOURCE, text);
                }
                // Not from below: nobody knows whether it held anything.
                Err(e) => self.notice("lab", format!("the network stays slow: {e}")),
            },
        }
    }

    /// Lets go what slow disks hold, and tells what that was.
    fn free_disks(&mut self) {
        let slow = |s: &Step| matches!(s.fault, Fault::SlowDisk { .. });
        if !self.plan.steps.iter().any(slow) {
            return;
        }
        let mut held = Vec::new();
        for i in 0..self.nodes.len() {
            let data = self.data_dir(i);
            held.extend(self.cell.slow_disk_free(&data).unwrap_or_default());
        }
        let text = match held.first() {
            None => below::MET_NOTHING.to_string(),
            Some(op) => format!(
                "the slow disk held {:?} of {} and {} more",
                op.op,
                op.path,
                held.len() - 1
            ),
        };
        self.notice(below::SOURCE, text);
    }

    /// Where a node keeps its files.
    pub(crate) fn data_dir(&self, i: usize) -> PathBuf {
        let dir = self.place.node_dir(&self.nodes[i].name);
        dir.join(&self.setup.target.data)
    }

    /// The node that a step's hit was in.
    fn node_of_step(&self, wanted: u32) -> Result<usize, LabError> {
        let fired = self.events.iter().rev().find_map(|e| match &e.what {
            What::Fired { step, node, .. } if *step == wanted => Some(node.clone()),
            _ => None,
        });
        let text = || LabError::Internal("a fault below the program without a hit".into());
        self.node_index(&fired.ok_or_else(text)?)
    }

    fn wake(&mut self, process: ProcId) {
        // It may have ended meanwhile.
        let _ = self.cell.resume(process);
        for node in self.nodes.iter_mut().filter(|n| n.process == Some(process)) {
            node.paused = false;
        }
    }

    /// Everything the plan broke is mended: network, paused nodes, nodes that are gone.
    pub(crate) fn heal_all(&mut self) -> Result<(), LabError> {
        if self
            .plan
            .steps
            .iter()
            .any(|s| matches!(s.fault, Fault::Partition { .. }))
        {
            self.cell.heal()?;
        }
        for due in std::mem::take(&mut self.due) {
            self.end(due.what);
        }
        self.free_disks();
        self.board.end_delays();
        for i in 0..self.nodes.len() {
            if self.nodes[i].process.is_none() {
                self.start_node(i)?;
            }
        }
        Ok(())
    }

    pub(crate) fn restart_node(&mut self, i: usize) -> Result<(), LabError> {
        self.kill_node(i)?;
        self.start_node(i)
    }

    /// Resets a node's connections with all others, for so many virtual milliseconds.
    pub(crate) fn reset_node(&mut self, i: usize, ms: u64) -> Result<(), LabError> {
        let others = self.nodes.iter().enumerate().filter(|(k, _)| *k != i);
        let others: Vec<_> = others.map(|(_, node)| node.facts.addr).collect();
        let addr = self.nodes[i].facts.addr;
        self.cell.reset(addr, &others)?;
        let at = Instant::now() + self.clock.real(ms);
        self.due.push(Due {
            at,
            what: Later::Unreset(addr),
        });
        let node = self.nodes[i].name.clone();
        self.emit(What::CutOff { node, ms });
        Ok(())
    }

    fn kill_node(&mut self, i: usize) -> Result<(), LabError> {
        let Some(process) = self.nodes[i].process else {
            return Ok(());
        };
        match self.cell.kill(process) {
            Ok(()) => {
                self.nodes[i].end_expected = true;
                self.cell.wait_exit_of(process, KILL_LIMIT);
            }
            // It ended by itself a moment before, and that is told.
            Err(CellError::Ended { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.take_in();
        Ok(())
    }

    /// Asks a node to end, and waits for that.
    pub(crate) fn stop_node(&mut self, i: usize, within: Duration) -> Result<(), LabError> {
        let Some(process) = self.nodes[i].process else {
            return Ok(());
        };
        self.nodes[i].end_expected = true;
        // It may have ended meanwhile.
        if self.cell.signal(process, libc::SIGTERM).is_ok() {
            self.cell.wait_exit_of(process, within);
        }
        self.take_in();
        Ok(())
    }

    fn node_index(&self, name: &str) -> Result<usize, LabError> {
        let found = self.nodes.iter().position(|n| n.name == name);
        found.ok_or_else(|| LabError::Internal(format!("a plan with the unknown node {name}")))
    }
}

/// A killed process is gone within this, however loaded the machine.
const KILL_LIMIT: Duration = Duration::from_secs(10);
