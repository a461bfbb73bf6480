//! Runs other programs: each with a deadline, none outliving us, its output kept for the error.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use regex::Regex;

use super::error::{ArtifactError, Result, io_error};

/// Plain lines that tell a user what goes on.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

const TAIL_LINES: usize = 12;
const LINES_KEPT: usize = 20_000;
const STILL_RUNNING_EVERY: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(50);
/// How long output may still come after the program has ended (a grandchild may hold the pipe).
const DRAIN: Duration = Duration::from_secs(2);
/// How long a program may be busy being written.
const BUSY_PROGRAM: Duration = Duration::from_secs(10);

/// The programs of this machine: where they are looked for, how long one may run.
#[derive(Debug, Clone)]
pub struct Tools {
    search_path: OsString,
    deadline: Duration,
}

/// One call of a program.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub program: OsString,
    pub args: Vec<OsString>,
    pub folder: Option<PathBuf>,
    /// Completes "could not ...".
    pub purpose: String,
    /// What to do when the program is missing.
    pub fix: &'static str,
}

impl Call {
    pub fn new(program: impl Into<OsString>, purpose: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            purpose: purpose.into(),
            fix: "install it with your package manager",
            ..Self::default()
        }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_os_string());
        self
    }

    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_os_string()));
        self
    }

    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_path_buf());
        self
    }

    pub fn fix(mut self, fix: &'static str) -> Self {
        self.fix = fix;
        self
    }

    fn shown(&self) -> String {
        let mut words = vec![self.program.to_string_lossy().into_owned()];
        words.extend(
            self.args
                .iter()
                .map(|arg| arg.to_string_lossy().into_owned()),
        );
        words.join(" ")
    }
}

/// What a program printed before it ended well.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub stdout: String,
    pub stderr: String,
}

impl Tools {
    /// Programs of the given PATH; each call may take `deadline`.
    pub fn new(search_path: impl Into<OsString>, deadline: Duration) -> Self {
        Self {
            search_path: search_path.into(),
            deadline,
        }
    }

    /// Where a program is, if it is there.
    pub(super) fn locate(&self, program: &OsStr) -> Option<PathBuf> {
        if program.as_encoded_bytes().contains(&b'/') {
            return Some(PathBuf::from(program)).filter(|path| is_executable(path));
        }
        std::env::split_paths(&self.search_path)
            .map(|folder| folder.join(program))
            .find(|path| is_executable(path))
    }

    /// Runs to the end; an exit code other than 0 is an error that shows the end of the output.
    pub(super) fn run(&self, call: Call, progress: Progress<'_>) -> Result<Output> {
        let program = self
            .locate(&call.program)
            .ok_or_else(|| ArtifactError::MissingTool {
                tool: call.program.to_string_lossy().into_owned(),
                purpose: call.purpose.clone(),
                fix: call.fix.to_string(),
            })?;
        let (child, lines) = self.start(&program, &call)?;
        let (status, output) = self.follow(child, &lines, &call, progress);
        match status {
            Some(status) if status.success() => Ok(output),
            Some(status) => Err(ArtifactError::Command {
                purpose: call.purpose.clone(),
                command: call.shown(),
                status: status.to_string(),
                tail: tail(&output),
            }),
            None => Err(ArtifactError::Deadline {
                purpose: call.purpose.clone(),
                command: call.shown(),
                seconds: self.deadline.as_secs(),
                tail: tail(&output),
            }),
        }
    }

    fn start(&self, program: &Path, call: &Call) -> Result<(Child, Receiver<Line>)> {
        let mut command = Command::new(program);
        command
            .args(&call.args)
            .env("PATH", &self.search_path)
            // What we recognise in the output is English.
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(folder) = &call.folder {
            command.current_dir(folder);
        }
        // SAFETY: prctl is async-signal-safe and touches no memory of ours; nothing else runs
        // between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // Our own death, even by kill -9, ends the program.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut child = spawn(&mut command).map_err(io_error("start", program))?;
        let (sender, receiver) = mpsc::channel();
        if let Some(pipe) = child.stdout.take() {
            read_lines(pipe, sender.clone(), Line::Out);
        }
        if let Some(pipe) = child.stderr.take() {
            read_lines(pipe, sender, Line::Err);
        }
        Ok((child, receiver))
    }

    /// Collects output until the program has ended; kills it at the deadline (then no status).
    fn follow(
        &self,
        mut child: Child,
        lines: &Receiver<Line>,
        call: &Call,
        progress: Progress<'_>,
    ) -> (Option<ExitStatus>, Output) {
        let start = Instant::now();
        let mut next_report = STILL_RUNNING_EVERY;
        let mut output = Collected::default();
        let mut ended: Option<(Option<ExitStatus>, Instant)> = None;
        loop {
            match lines.recv_timeout(POLL) {
                Ok(line) => output.push(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if ended.is_some() => break,
                Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL),
            }
            if let Some((_, since)) = ended {
                if since.elapsed() > DRAIN {
                    break;
                }
                continue;
            }
            if let Ok(Some(status)) = child.try_wait() {
                ended = Some((Some(status), Instant::now()));
            } else if start.elapsed() > self.deadline {
                // An error here means that it has just ended by itself: the wait tells.
                let _ = child.kill();
                let _ = child.wait();
                ended = Some((None, Instant::now()));
            } else if start.elapsed() > next_report {
                next_report += STILL_RUNNING_EVERY;
                let seconds = start.elapsed().as_secs();
                progress(&format!("still at it after {seconds} s: {}", call.purpose));
            }
        }
        (ended.and_then(|(status, _)| status), output.finish())
    }
}

/// A program that was just written may still be open in a child another thread is starting; that
/// passes as soon as that child has become its own program.
fn spawn(command: &mut Command) -> io::Result<Child> {
    let start = Instant::now();
    loop {
        match command.spawn() {
            Err(error)
                if error.kind() == io::ErrorKind::ExecutableFileBusy
                    && start.elapsed() < BUSY_PROGRAM =>
            {
                thread::sleep(POLL);
            }
            other => return other,
        }
    }
}

#[derive(Debug)]
enum Line {
    Out(String),
    Err(String),
}

#[derive(Default)]
struct Collected {
    out: Vec<String>,
    err: Vec<String>,
}

impl Collected {
    fn push(&mut self, line: Line) {
        let (list, line) = match line {
            Line::Out(line) => (&mut self.out, line),
            Line::Err(line) => (&mut self.err, line),
        };
        if list.len() < LINES_KEPT {
            list.push(line);
        } else {
            // The end tells why something failed; the middle rarely does.
            list[LINES_KEPT - 1] = line;
        }
    }

    fn finish(self) -> Output {
        Output {
            stdout: self.out.join("\n"),
            stderr: self.err.join("\n"),
        }
    }
}

fn read_lines(pipe: impl Read + Send + 'static, sender: Sender<Line>, wrap: fn(String) -> Line) {
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match reader.read_until(b'\n', &mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    let line = String::from_utf8_lossy(&bytes).trim_end().to_string();
                    if sender.send(wrap(line)).is_err() {
                        return;
                    }
                }
            }
        }
    });
}

/// The last lines of stderr, or of stdout for programs that complain there (Maven does).
fn tail(output: &Output) -> String {
    let [stderr, stdout] = [&output.stderr, &output.stdout].map(|text| telling_lines(text));
    let lines = if stderr.is_empty() { stdout } else { stderr };
    let skipped = lines.len().saturating_sub(TAIL_LINES);
    if lines.is_empty() {
        return "  (it printed nothing)".to_string();
    }
    let shown: Vec<String> = lines[skipped..]
        .iter()
        .map(|line| format!("  {line}"))
        .collect();
    shown.join("\n")
}

/// Lines without colours (Maven prints them even into a pipe) and without what tells nothing.
fn telling_lines(text: &str) -> Vec<String> {
    static COLOUR: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("\x1b\\[[0-9;]*[A-Za-z]").expect("a correct pattern"));
    const ADVICE: [&str; 4] = [
        "[ERROR] Re-run Maven",
        "[ERROR] To see the full stack trace",
        "[ERROR] For more information about the errors",
        "[ERROR] [Help",
    ];
    text.lines()
        .map(|line| COLOUR.replace_all(line, "").trim_end().to_string())
        .filter(|line| !line.trim().is_empty() && line.trim() != "[ERROR]")
        .filter(|line| !ADVICE.iter().any(|advice| line.starts_with(advice)))
        .collect()
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether the output of apt, Maven or pip says that the network is what failed.
pub(super) fn says_offline(text: &str) -> bool {
    const SIGNS: [&str; 16] = [
        "Temporary failure resolving",
        "Temporary failure in name resolution",
        "Name or service not known",
        "Could not resolve host",
        "Could not resolve '",
        "Unknown host",
        "UnknownHostException",
        "Network is unreachable",
        "No route to host",
        "Connection refused",
        "Connection timed out",
        "connect timed out",
        "Connect timed out",
        "Could not connect to",
        "Cannot access central",
        "in offline mode",
    ];
    SIGNS.iter().any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(deadline: Duration) -> Tools {
        Tools::new(std::env::var_os("PATH").unwrap_or_default(), deadline)
    }

    fn shell(script: &str) -> Call {
        Call::new("sh", "try a script").arg("-c").arg(script)
    }

    #[test]
    fn output_comes_back_by_stream() {
        let output = tools(Duration::from_secs(60))
            .run(shell("echo one; echo two >&2"), &mut |_| {})
            .expect("runs");
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("one", "two")
        );
    }

    #[test]
    fn a_failure_shows_the_command_and_the_end_of_stderr() {
        let error = tools(Duration::from_secs(60))
            .run(shell("echo broken pipe dream >&2; exit 7"), &mut |_| {})
            .expect_err("exit 7");
        let text = error.to_string();
        assert!(text.contains("could not try a script"), "{text}");
        assert!(text.contains("exit status: 7"), "{text}");
        assert!(text.contains("broken pipe dream"), "{text}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_at_its_deadline() {
        let error = tools(Duration::from_millis(300))
            .run(shell("exec sleep 600"), &mut |_| {})
            .expect_err("too slow");
        assert!(matches!(error, ArtifactError::Deadline { .. }), "{error}");
    }

    #[test]
    fn colours_and_advice_do_not_hide_what_was_printed_to_stdout() {
        let script = "printf '[\\033[1;31mERROR\\033[m] it broke\\n[ERROR]\\n'; \
            echo '[ERROR] Re-run Maven using -X'; printf '\\033[0m\\033[0m\\n' >&2; exit 1";
        let error = tools(Duration::from_secs(60))
            .run(shell(script), &mut |_| {})
            .expect_err("exit 1");
        assert_eq!(error.tail(), "  [ERROR] it broke");
    }

    #[test]
    fn a_missing_program_is_named_with_its_fix() {
        let call = Call::new("no-such-program", "juggle").fix("buy clubs");
        let error = tools(Duration::from_secs(60))
            .run(call, &mut |_| {})
            .expect_err("missing");
        let text = error.to_string();
        assert!(
            text.contains("`no-such-program` is not on the PATH"),
            "{text}"
        );
        assert!(text.contains("buy clubs"), "{text}");
    }

    #[test]
    fn offline_is_recognised_in_what_maven_and_apt_print() {
        let maven = "[ERROR] Failed to execute goal on project jars: Could not resolve \
            dependencies: Could not transfer artifact org.example:a:jar:1 from/to central: \
            repo.example: Temporary failure in name resolution";
        let maven_offline = "[ERROR] Cannot access central in offline mode and the artifact \
            org.example:a:jar:1 has not been downloaded from it before.";
        let apt = "E: Failed to fetch http://example/x  Temporary failure resolving 'example'";
        let missing = "[ERROR] Could not find artifact org.example:a:jar:99 in central";
        assert!(says_offline(maven));
        assert!(says_offline(maven_offline));
        assert!(says_offline(apt));
        assert!(!says_offline(missing));
    }
}
