//! What lab and cell say to each other: JSON messages in frames of a length and a body.
//!
//! `ToCell` goes from the lab into the cell, `FromCell` comes back. Each request carries an id of
//! the lab's choosing and gets exactly one answer with that id, in any order.

use std::io::{self, Read, Write};
use std::net::SocketAddrV4;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::below::{DiskOrder, HeldOp};

/// No frame is longer: a broken length must not make the reader allocate without end.
pub const FRAME_MAX_BYTES: usize = 16 * 1024 * 1024;
/// No more of a probe's answer is kept.
pub const ANSWER_MAX_BYTES: usize = 64 * 1024;

/// A process of a cell, numbered by the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcId(pub u64);

impl std::fmt::Display for ProcId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A process to be started in a cell. Output files are opened inside, for appending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSpec {
    /// For messages: `n1`, `c2`.
    pub name: String,
    /// The program and its arguments; a program without a slash is looked for in `PATH` of `env`.
    pub argv: Vec<String>,
    /// The whole environment: nothing is inherited.
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    pub stdout: PathBuf,
    /// The same file as `stdout` is opened once and shared.
    pub stderr: PathBuf,
}

/// One question over TCP, asked from inside the cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSpec {
    pub to: SocketAddrV4,
    /// Sent after connecting; may be empty.
    pub send: String,
    /// For the whole of connect, send and receive.
    pub within_ms: u64,
    /// Ends the answer early: as soon as a full line is there.
    pub one_line: bool,
}

/// How a probe ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "probe", rename_all = "kebab-case")]
pub enum ProbeAnswer {
    /// What the other side said; empty when it only closed.
    Text { text: String },
    /// Nobody listens, or the connection broke.
    Refused { reason: String },
    /// Not all of it within the time; `text` is what came.
    Late { text: String },
}

impl ProbeAnswer {
    /// The answer's text, when there is a whole one.
    pub fn text(&self) -> Option<&str> {
        match self {
            ProbeAnswer::Text { text } => Some(text),
            _ => None,
        }
    }
}

/// A process of the cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitNotice {
    pub id: ProcId,
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

/// From the lab into the cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "to_cell", rename_all = "kebab-case")]
pub enum ToCell {
    Start {
        request: u64,
        id: ProcId,
        spec: ProcessSpec,
    },
    Signal {
        request: u64,
        id: ProcId,
        signal: i32,
    },
    Probe {
        request: u64,
        spec: ProbeSpec,
    },
    /// Runs a script of nftables rules in the cell's network.
    Nft {
        request: u64,
        script: String,
    },
    /// About the file system that delays, over one folder.
    Disk {
        request: u64,
        folder: PathBuf,
        order: DiskOrder,
    },
    /// Lets TCP send again at short intervals, in connections to come.
    ResendSoon {
        request: u64,
    },
    /// Freezes the keeper and all below it into image files. They are gone afterwards.
    Freeze {
        request: u64,
        order: IceOrder,
    },
    /// Brings a frozen keeper and all below it back, in a cell that has none.
    Thaw {
        request: u64,
        order: IceOrder,
    },
    /// From init to the keeper: it hangs up and waits for the next init.
    Leave,
}

/// How to freeze or thaw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IceOrder {
    /// The words before CRIU's own arguments.
    pub criu: Vec<String>,
    /// The folder of the images.
    pub images: PathBuf,
    /// The page of the virtual clock, as the processes see it.
    pub clock_page: PathBuf,
    /// The keeper's process id inside; known when it is frozen.
    pub keeper: i32,
    /// Those that stay stopped when they are thawed, because somebody had stopped them; known
    /// when they are frozen.
    pub paused: Vec<i32>,
    /// When the processes were stopped, by their monotonic clock; known when they are frozen.
    pub stopped_ns: i64,
}

/// What a thaw did to the clocks inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// How far the monotonic clock inside is ahead of the machine's.
    pub ahead_ns: i64,
    /// How much of its time passed while the processes stood still.
    pub gap_ns: i64,
}

/// From the cell to the lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "from_cell", rename_all = "kebab-case")]
pub enum FromCell {
    /// The namespaces stand; `init_pid` as the lab sees it.
    Opened {
        init_pid: i32,
    },
    /// Processes can be started.
    Ready,
    /// The cell could not be built. The last message.
    Refused {
        step: String,
        errno: i32,
        advice: String,
    },
    /// `pid` as the processes inside see it.
    Started {
        request: u64,
        pid: i32,
    },
    Signalled {
        request: u64,
    },
    Answer {
        request: u64,
        answer: ProbeAnswer,
    },
    /// `printed` is what rules were listed.
    NftDone {
        request: u64,
        printed: String,
    },
    /// What was held back so far.
    Disk {
        request: u64,
        held: Vec<HeldOp>,
    },
    /// `allowed` if the kernel can do it.
    ResendSoon {
        request: u64,
        allowed: bool,
    },
    /// The order that thaws it.
    Frozen {
        request: u64,
        order: IceOrder,
    },
    Thawed {
        request: u64,
        clocks: Clocks,
    },
    /// The request could not be done.
    Failed {
        request: u64,
        reason: String,
    },
    Exited(ExitNotice),
}

impl FromCell {
    /// The request this answers, if it is an answer.
    pub fn request(&self) -> Option<u64> {
        match self {
            FromCell::Started { request, .. }
            | FromCell::Signalled { request }
            | FromCell::Answer { request, .. }
            | FromCell::NftDone { request, .. }
            | FromCell::Disk { request, .. }
            | FromCell::ResendSoon { request, .. }
            | FromCell::Frozen { request, .. }
            | FromCell::Thawed { request, .. }
            | FromCell::Failed { request, .. } => Some(*request),
            _ => None,
        }
    }
}

/// Writes one message as one `write_all`.
pub fn send<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    if body.len() > FRAME_MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "message too long for a frame",
        ));
    }
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&body);
    to.write_all(&frame)
}

/// Reads one message; `None` when the other side closed between messages.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0u8; 4];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > FRAME_MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "frame too long"));
    }
    let mut body = vec![0u8; length];
    from.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_their_frames() {
        let mut bytes = Vec::new();
        let id = ProcId(7);
        send(
            &mut bytes,
            &ToCell::Signal {
                request: 1,
                id,
                signal: 9,
            },
        )
        .unwrap();
        send(
            &mut bytes,
            &ToCell::Nft {
                request: 2,
                script: "x\n".into(),
            },
        )
        .unwrap();
        let mut from = bytes.as_slice();
        let first: ToCell = receive(&mut from).unwrap().unwrap();
        assert!(matches!(
            first,
            ToCell::Signal {
                request: 1,
                signal: 9,
                ..
            }
        ));
        let second: ToCell = receive(&mut from).unwrap().unwrap();
        assert!(matches!(second, ToCell::Nft { request: 2, .. }));
        assert!(receive::<ToCell>(&mut from).unwrap().is_none());
    }

    #[test]
    fn a_frame_of_absurd_length_is_refused() {
        let bytes = u32::MAX.to_le_bytes();
        assert!(receive::<ToCell>(&mut bytes.as_slice()).is_err());
    }
}
