//! The clients of a running trial: let in, watched, told.

use std::time::Duration;

use temblor_cluster::target::{GO, HERE};

use crate::LabError;
use crate::running::{ClientRun, Running};

impl Running<'_> {
    /// The longest a client has waited for an answer by now, over as many operations as it tried
    /// meanwhile; real time.
    pub fn longest_wait(&self) -> Duration {
        let now = self.now_us();
        let at_work = |c: &&ClientRun| c.process.is_some() && !c.done;
        let waiting = self.clients.iter().filter(at_work);
        let began = waiting.filter_map(|c| c.unanswered_us).min();
        Duration::from_micros(began.map_or(0, |at| now.saturating_sub(at)))
    }

    /// Whether every client has done its work; with a finale they stay for it.
    pub fn clients_done(&self) -> bool {
        let finale = self.setup.target.finale;
        self.clients.iter().all(|c| c.exited || finale && c.done)
    }

    /// Whether every client that is still there waits for an operation, and has for so long.
    pub fn all_wait(&self, long: Duration) -> bool {
        let long_ago = self.now_us().saturating_sub(long.as_micros() as u64);
        let waits = |c: &ClientRun| c.open.iter().any(|(_, began_us)| *began_us < long_ago);
        self.clients.iter().all(|c| c.process.is_none() || waits(c))
    }

    pub fn clients_gone(&self) -> bool {
        self.clients.iter().all(|c| c.process.is_none())
    }

    /// Starts the clients whose nodes have come; those of late nodes once these are ready.
    pub fn start_clients(&mut self) -> Result<(), LabError> {
        for i in 0..self.clients.len() {
            let name = &self.clients[i].facts.node;
            let node = self.nodes.iter().find(|n| n.name == *name);
            let has_come = node.is_none_or(|n| !n.facts.late || n.ready);
            if has_come && !self.clients[i].started {
                self.start_client(i)?;
            }
        }
        Ok(())
    }

    /// Whether every client that was started is connected, or gone.
    pub fn clients_here(&self) -> bool {
        self.clients_say(HERE)
    }

    /// Whether every client that was started has written this file, or is gone.
    pub fn clients_say(&self, file: &str) -> bool {
        let is_here = |c: &ClientRun| self.place.client_dir(&c.name).join(file).exists();
        let mut started = self.clients.iter().filter(|c| c.started);
        started.all(|c| c.exited || is_here(c))
    }

    /// Lets clients begin, those too that come later.
    pub fn open_gate(&self) -> Result<(), LabError> {
        let text = format!("{} {}\n", self.place.seed, self.place.load);
        self.tell_clients(GO, &text)
    }

    /// Writes a file to every client's folder.
    pub fn tell_clients(&self, file: &str, text: &str) -> Result<(), LabError> {
        for client in &self.clients {
            let dir = self.place.client_dir(&client.name);
            let (part, whole) = (dir.join(format!(".{file}")), dir.join(file));
            // In one piece: who finds it reads it.
            std::fs::create_dir_all(&dir)
                .and_then(|()| std::fs::write(&part, text))
                .and_then(|()| std::fs::rename(&part, &whole))
                .map_err(|e| LabError::io("write", &whole, e))?;
        }
        Ok(())
    }
}
