//! Thread dumps of the nodes of a running trial.

use std::time::{Duration, Instant};

use temblor_model::event::What;

use crate::LabError;
use crate::running::Running;

impl Running<'_> {
    /// Has every live node print its threads, and takes what they print from their logs.
    pub fn dump_threads(&mut self) -> Result<(), LabError> {
        self.take_logs(false);
        let mut asked = Vec::new();
        for (i, node) in self.nodes.iter().enumerate() {
            let Some(process) = node.process.filter(|_| !node.paused) else {
                continue;
            };
            let from = std::fs::metadata(&node.log_path).map_or(0, |m| m.len());
            if self.cell.signal(process, libc::SIGQUIT).is_ok() {
                asked.push((i, from));
            }
        }
        let deadline = Instant::now() + DUMP_LIMIT;
        for (i, from) in asked {
            let text = loop {
                let text = dump_text(&self.nodes[i].log_path, from);
                if text.as_ref().is_some_and(|t| t.1) || Instant::now() > deadline {
                    break text;
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            let node = self.nodes[i].name.clone();
            match text {
                Some((text, true)) => self.emit(What::Dump { node, text }),
                _ => self.notice("lab", format!("{node} gave no whole thread dump in time")),
            }
        }
        Ok(())
    }
}

/// A thread dump takes no longer than this.
const DUMP_LIMIT: Duration = Duration::from_secs(3);

/// The thread dump in a log from an offset on, and whether its end is there.
fn dump_text(log: &std::path::Path, from: u64) -> Option<(String, bool)> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(log).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let start = text.find("Full thread dump")?;
    let rest = &text[start..];
    // The last part of every dump since JDK 8.
    let whole = match rest.find("JNI global ref") {
        Some(at) => rest[at..].find('\n').map(|end| at + end + 1),
        None => None,
    };
    Some((
        rest[..whole.unwrap_or(rest.len())].to_string(),
        whole.is_some(),
    ))
}
