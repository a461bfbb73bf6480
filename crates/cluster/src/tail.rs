//! What processes write, read as it grows: logs of nodes, operations of clients.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regex::Regex;
use temblor_model::op::{Done, Op};

/// At most so much is read in one go.
const READ_MAX_BYTES: u64 = 4 * 1024 * 1024;
/// A longer line is cut here: nothing a target prints may fill the memory.
const LINE_MAX_BYTES: usize = 256 * 1024;
/// So many continuation lines are kept with one log line.
const MORE_MAX_LINES: usize = 200;

/// Reads whole lines of a file that grows. What is not there yet is no error.
#[derive(Debug)]
pub struct LineTail {
    path: PathBuf,
    offset: u64,
    /// The beginning of a line whose end has not been written.
    partial: Vec<u8>,
}

impl LineTail {
    pub fn new(path: impl Into<PathBuf>) -> LineTail {
        LineTail {
            path: path.into(),
            offset: 0,
            partial: Vec::new(),
        }
    }

    /// As `new`, from an offset on.
    fn resumed(path: impl Into<PathBuf>, offset: u64) -> LineTail {
        LineTail {
            offset,
            ..LineTail::new(path)
        }
    }

    /// So many bytes have been given out as lines.
    fn consumed(&self) -> u64 {
        self.offset - self.partial.len() as u64
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lines that became whole since the last call.
    pub fn lines(&mut self) -> io::Result<Vec<String>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut lines = Vec::new();
        file.seek(SeekFrom::Start(self.offset))?;
        loop {
            let mut bytes = Vec::new();
            let count = (&mut file).take(READ_MAX_BYTES).read_to_end(&mut bytes)?;
            self.offset += count as u64;
            self.split(&bytes, &mut lines);
            if (count as u64) < READ_MAX_BYTES {
                return Ok(lines);
            }
        }
    }

    /// The lines since the last call, the last one even if it is not whole: nobody writes any more.
    pub fn finish(&mut self) -> io::Result<Vec<String>> {
        let mut lines = self.lines()?;
        if !self.partial.is_empty() {
            lines.push(text_of(&std::mem::take(&mut self.partial)));
        }
        Ok(lines)
    }

    fn split(&mut self, bytes: &[u8], lines: &mut Vec<String>) {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let room = LINE_MAX_BYTES.saturating_sub(self.partial.len());
            self.partial
                .extend_from_slice(&piece[..piece.len().min(room)]);
            if pieces.peek().is_some() {
                lines.push(text_of(&std::mem::take(&mut self.partial)));
            }
        }
    }
}

fn text_of(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}

/// One entry of a node's log with what followed it. An entry that does not look like the target's
/// (a JVM's own words, a panic) has the whole line as its message and no level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEntry {
    pub level: String,
    pub thread: String,
    pub logger: String,
    pub message: String,
    /// Stack traces and other lines that follow.
    pub more: Vec<String>,
}

impl LogEntry {
    /// Whether the target's pattern matched.
    pub fn is_parsed(&self) -> bool {
        !self.level.is_empty()
    }
}

/// An entry of a log, and when its first line was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub at: Instant,
    pub entry: LogEntry,
}

/// More lines may follow an entry for so long: a stack trace is not written in one piece.
const HOLD: Duration = Duration::from_millis(250);

/// Reads a node's log, entry by entry.
#[derive(Debug)]
pub struct LogTail {
    tail: LineTail,
    pattern: Regex,
    hold: Duration,
    /// Held back until the next entry begins: more lines may follow.
    open: Option<Seen>,
}

impl LogTail {
    pub fn new(path: impl Into<PathBuf>, pattern: Regex) -> LogTail {
        LogTail {
            tail: LineTail::new(path),
            pattern,
            hold: HOLD,
            open: None,
        }
    }

    /// Goes on with a copy of the file at another place.
    pub fn resumed(&self, path: impl Into<PathBuf>) -> LogTail {
        LogTail {
            tail: LineTail::resumed(path, self.tail.consumed()),
            pattern: self.pattern.clone(),
            hold: self.hold,
            open: None,
        }
    }

    /// The entries that are certainly whole. The last one is held back until another follows, or
    /// until nothing has for a while.
    pub fn entries(&mut self) -> io::Result<Vec<Seen>> {
        let lines = self.tail.lines()?;
        let quiet = lines.is_empty();
        let mut entries = self.join(lines);
        let whole = |open: &mut Seen| quiet && open.at.elapsed() >= self.hold;
        entries.extend(self.open.take_if(whole));
        Ok(entries)
    }

    /// The rest: nobody writes any more.
    pub fn finish(&mut self) -> io::Result<Vec<Seen>> {
        let lines = self.tail.finish()?;
        let mut entries = self.join(lines);
        entries.extend(self.open.take());
        Ok(entries)
    }

    fn join(&mut self, lines: Vec<String>) -> Vec<Seen> {
        let at = Instant::now();
        let mut entries = Vec::new();
        for line in lines {
            let parsed = self.parse(&line);
            match (&mut self.open, parsed) {
                (_, Some(entry)) => entries.extend(self.open.replace(Seen { at, entry })),
                (Some(Seen { entry: open, .. }), None) if open.is_parsed() || continues(&line) => {
                    if open.more.len() < MORE_MAX_LINES {
                        open.more.push(line);
                    }
                }
                (_, None) if line.trim().is_empty() => {}
                (_, None) => {
                    let entry = LogEntry {
                        message: line,
                        ..LogEntry::default()
                    };
                    entries.extend(self.open.replace(Seen { at, entry }));
                }
            }
        }
        entries
    }

    fn parse(&self, line: &str) -> Option<LogEntry> {
        let found = self.pattern.captures(line)?;
        let group = |name: &str| {
            found
                .name(name)
                .map_or("", |text| text.as_str())
                .trim()
                .to_string()
        };
        Some(LogEntry {
            level: group("level"),
            thread: group("thread"),
            logger: group("logger"),
            message: group("message"),
            more: Vec::new(),
        })
    }
}

/// Whether a line looks like the rest of a stack trace.
fn continues(line: &str) -> bool {
    line.starts_with([' ', '\t']) || line.starts_with("Caused by: ")
}

/// One line of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientLine {
    Op(Op),
    Done(Done),
    /// Not what the protocol says.
    Garbage(String),
}

impl ClientLine {
    /// Reads one line; empty lines mean nothing.
    pub fn parse(line: &str) -> Option<ClientLine> {
        if line.trim().is_empty() {
            return None;
        }
        Some(match serde_json::from_str::<Op>(line) {
            Ok(op) => ClientLine::Op(op),
            Err(_) => match serde_json::from_str::<Done>(line) {
                Ok(done) => ClientLine::Done(done),
                Err(_) => ClientLine::Garbage(line.to_string()),
            },
        })
    }
}

impl ClientLine {
    /// Whether a write that was cut off would look like this.
    fn is_cut(&self) -> bool {
        matches!(self, ClientLine::Garbage(text) if text.starts_with('{') && !text.ends_with('}'))
    }
}

/// Reads what a client reports.
#[derive(Debug)]
pub struct OpTail {
    tail: LineTail,
}

impl OpTail {
    pub fn new(path: impl Into<PathBuf>) -> OpTail {
        OpTail {
            tail: LineTail::new(path),
        }
    }

    /// Goes on with a copy of the file at another place.
    pub fn resumed(&self, path: impl Into<PathBuf>) -> OpTail {
        OpTail {
            tail: LineTail::resumed(path, self.tail.consumed()),
        }
    }

    /// The whole lines since the last call.
    pub fn lines(&mut self) -> io::Result<Vec<ClientLine>> {
        Ok(self
            .tail
            .lines()?
            .iter()
            .filter_map(|line| ClientLine::parse(line))
            .collect())
    }

    /// The rest. An object without its end is what a killed client leaves, and no garbage.
    pub fn finish(&mut self) -> io::Result<Vec<ClientLine>> {
        let mut lines = self.lines()?;
        let last = self.tail.finish()?;
        let last = last.iter().filter_map(|line| ClientLine::parse(line));
        lines.extend(last.filter(|line| !line.is_cut()));
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn append(path: &Path, text: &str) {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn log_tail(path: &Path) -> LogTail {
        let pattern =
            r"^\S+ (?<level>[A-Z]+) +\[(?<thread>[^\]]*)\] (?<logger>\S+) - (?<message>.*)$";
        LogTail::new(path, Regex::new(pattern).unwrap())
    }

    #[test]
    fn a_line_counts_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let mut tail = LineTail::new(&path);
        assert!(tail.lines().unwrap().is_empty(), "no file yet");
        append(&path, "one\ntw");
        assert_eq!(tail.lines().unwrap(), ["one"]);
        append(&path, "o\r\n\nthree");
        assert_eq!(tail.lines().unwrap(), ["two", ""]);
        assert_eq!(tail.finish().unwrap(), ["three"]);
        assert!(tail.finish().unwrap().is_empty());
    }

    #[test]
    fn a_stack_trace_belongs_to_the_line_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let mut tail = log_tail(&path);
        append(
            &path,
            "JVM warning: odd\n1 WARN  [main] a.B - it broke\njava.io.IOException: x\n",
        );
        let first = tail.entries().unwrap();
        assert_eq!(first.len(), 1);
        assert_eq!(
            (first[0].entry.message.as_str(), first[0].entry.is_parsed()),
            ("JVM warning: odd", false)
        );
        append(
            &path,
            "\tat a.B.c(B.java:3)\nCaused by: y\n2 INFO [t-1] a.C - on\n",
        );
        let second = tail.entries().unwrap();
        assert_eq!(second.len(), 1);
        assert_eq!(
            (
                second[0].entry.level.as_str(),
                second[0].entry.thread.as_str()
            ),
            ("WARN", "main")
        );
        assert_eq!(
            (
                second[0].entry.logger.as_str(),
                second[0].entry.message.as_str()
            ),
            ("a.B", "it broke")
        );
        let more = [
            "java.io.IOException: x",
            "\tat a.B.c(B.java:3)",
            "Caused by: y",
        ];
        assert_eq!(second[0].entry.more, more);
        assert!(tail.entries().unwrap().is_empty(), "more may follow");
        tail.hold = Duration::ZERO;
        let third = tail.entries().unwrap();
        assert_eq!(third.len(), 1, "handed out once the log is quiet");
        assert_eq!(third[0].entry.message, "on");
        append(&path, "3 ERROR [t-2] a.D - last words");
        assert!(tail.entries().unwrap().is_empty(), "not whole yet");
        assert_eq!(tail.finish().unwrap()[0].entry.message, "last words");
    }

    #[test]
    fn client_lines_are_operations_an_end_or_garbage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c1.jsonl");
        let mut tail = OpTail::new(&path);
        let op = r#"{"t":1,"client":"c1","node":"n1","phase":"w","op":"put","id":1,"ev":"ok"}"#;
        let done = r#"{"client":"c1","ok":1,"fail":0,"timeout":0,"wrong":0}"#;
        append(&path, &format!("{op}\n\nhello {{\n{done}\n{{\"t\":2,\"cli"));
        let lines = tail.lines().unwrap();
        assert!(matches!(&lines[0], ClientLine::Op(op) if op.id == 1));
        assert_eq!(lines[1], ClientLine::Garbage("hello {".into()));
        assert!(matches!(&lines[2], ClientLine::Done(done) if done.ok == 1));
        assert_eq!(lines.len(), 3);
        assert!(
            tail.finish().unwrap().is_empty(),
            "cut off by a kill, not garbage"
        );
        append(&path, "noise");
        assert_eq!(
            tail.finish().unwrap(),
            [ClientLine::Garbage("noise".into())]
        );
    }

    #[test]
    fn bytes_that_are_no_text_and_endless_lines_do_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        std::fs::write(&path, [0xff, 0xfe, b'\n']).unwrap();
        append(&path, &"y".repeat(LINE_MAX_BYTES * 2));
        append(&path, "\nz\n");
        let lines = LineTail::new(&path).lines().unwrap();
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[1].len(), lines[2].as_str()), (LINE_MAX_BYTES, "z"));
    }
}
