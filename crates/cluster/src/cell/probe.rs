//! One question to a node over TCP, from inside the cell: readiness and health.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use super::kernel;
use super::message::{ANSWER_MAX_BYTES, ProbeAnswer, ProbeSpec};

/// Probes come from an address that no node and no client has, so no partition cuts them off.
pub const PROBE_ADDR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 254);

/// Asks and waits for the answer: until the other side closes, a line is whole, or time is up.
pub fn ask(spec: &ProbeSpec) -> ProbeAnswer {
    let deadline = Instant::now() + Duration::from_millis(spec.within_ms);
    let mut got = Vec::new();
    let ended = converse(spec, deadline, &mut got);
    let text = String::from_utf8_lossy(&got).into_owned();
    match ended {
        Ok(()) => ProbeAnswer::Text { text },
        Err(error) => match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => ProbeAnswer::Late { text },
            _ => ProbeAnswer::Refused {
                reason: error.to_string(),
            },
        },
    }
}

fn converse(spec: &ProbeSpec, deadline: Instant, got: &mut Vec<u8>) -> io::Result<()> {
    let mut stream = kernel::connect_from(PROBE_ADDR, spec.to, deadline)?;
    limit(&stream, deadline)?;
    stream.write_all(spec.send.as_bytes())?;
    let mut buffer = [0u8; 4096];
    while got.len() < ANSWER_MAX_BYTES {
        limit(&stream, deadline)?;
        let count = match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if count == 0 {
            break;
        }
        let room = ANSWER_MAX_BYTES - got.len();
        got.extend_from_slice(&buffer[..count.min(room)]);
        if spec.one_line && got.contains(&b'\n') {
            break;
        }
    }
    Ok(())
}

fn limit(stream: &TcpStream, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))
}
