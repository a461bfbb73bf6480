//! The program `temblor-cell`: finding it, and what it does when it is run.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use super::below;
use super::doctor::{Finding, try_namespaces};
use super::error::CellError;
use super::lab_side::{Cell, CellSpec};
use super::message::ProcessSpec;
use super::namespaces::{self, Furniture};
use super::{keeper, kernel};

const NAME: &str = "temblor-cell";
const EXIT_USAGE: u8 = 254;
const EXIT_INTERNAL: u8 = 255;
const USAGE: &str = "usage: temblor-cell run FOLDER PROGRAM [ARGUMENT...]
       temblor-cell doctor
run       runs one program in a cell of its own until it ends; output in FOLDER/out.log
doctor    tries every kind of namespace and prints what is allowed, as JSON
`open` is what the lab calls, `keep` and `slow-disk` what a cell calls. `tcp-echo ADDR:PORT` and `tcp-ask SOURCE ADDR:PORT TEXT MS` are
small ends of a connection, to look at a cell's network from inside.";

/// Where the program is: TEMBLOR_BIN_DIR, else beside this executable (or above its `deps`).
pub fn find() -> Result<PathBuf, CellError> {
    if let Some(dir) = std::env::var_os("TEMBLOR_BIN_DIR") {
        let path = Path::new(&dir).join(NAME);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(CellError::NoProgram { looked: path })
        };
    }
    let exe = std::env::current_exe().unwrap_or_default();
    let beside = exe.parent().map(|dir| dir.join(NAME));
    let above = exe
        .parent()
        .and_then(Path::parent)
        .map(|dir| dir.join(NAME));
    let places = [beside, above];
    let found = places.into_iter().flatten().find(|path| path.is_file());
    found.ok_or(CellError::NoProgram { looked: exe })
}

/// Runs `temblor-cell doctor` and reads what it says.
pub(super) fn ask_doctor() -> Result<Vec<Finding>, String> {
    let program = find().map_err(|error| error.to_string())?;
    let output = Command::new(&program)
        .arg("doctor")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{} doctor: {error}", program.display()))
}

/// The whole program.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let words: Vec<&str> = args.iter().skip(1).filter_map(|arg| arg.to_str()).collect();
    let done = match words.as_slice() {
        ["open", dir] => namespaces::open(Furniture {
            dir: Path::new(dir),
            thaws_at: None,
        }),
        ["open", dir, thaws_at] => namespaces::open(Furniture {
            dir: Path::new(dir),
            thaws_at: Some(Path::new(thaws_at)),
        }),
        ["keep", dir] => keeper::serve(Path::new(dir)),
        ["doctor"] => print_findings(),
        ["run", dir, argv @ ..] if !argv.is_empty() => return run(Path::new(dir), argv),
        ["slow-disk", folder, cache] => match below::DiskCache::from_name(cache) {
            Some(cache) => below::serve_or_say(Path::new(folder), cache).map_err(Into::into),
            None => Err(USAGE.into()),
        },
        ["tcp-echo", at] => at.parse().map_err(|_| USAGE.into()).and_then(echo),
        ["tcp-ask", source, to, text, limit_ms] => {
            match (source.parse(), to.parse(), limit_ms.parse()) {
                (Ok(source), Ok(to), Ok(limit_ms)) => ask(source, to, text, limit_ms),
                _ => Err(USAGE.into()),
            }
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("temblor-cell: {error}");
            ExitCode::from(EXIT_INTERNAL)
        }
    }
}

type Done = Result<(), Box<dyn std::error::Error>>;

fn print_findings() -> Done {
    println!("{}", serde_json::to_string(&try_namespaces())?);
    Ok(())
}

/// Runs one program in a cell; exits as it does.
fn run(dir: &Path, argv: &[&str]) -> ExitCode {
    let ended = (|| -> Result<_, CellError> {
        let cell = Cell::open(CellSpec::new(dir))?;
        let log = cell.dir().join("out.log");
        let id = cell.start(ProcessSpec {
            name: argv[0].to_string(),
            argv: argv.iter().map(|arg| arg.to_string()).collect(),
            env: std::env::vars().collect(),
            cwd: cell.dir().to_path_buf(),
            stdout: log.clone(),
            stderr: log,
        })?;
        println!("running");
        let mut ended = None;
        while ended.is_none() && !cell.is_gone() {
            ended = cell.wait_exit_of(id, Duration::from_secs(3600));
        }
        cell.close().map(|()| ended)
    })();
    match ended {
        Ok(Some(notice)) => ExitCode::from(match (notice.code, notice.signal) {
            (Some(code), _) => code as u8,
            (None, signal) => 128 + signal.unwrap_or(0) as u8,
        }),
        Ok(None) => ExitCode::from(EXIT_INTERNAL),
        Err(error) => {
            eprintln!("temblor-cell: {error}");
            ExitCode::from(EXIT_INTERNAL)
        }
    }
}

/// Sends every line back, on any number of connections.
fn echo(at: SocketAddrV4) -> Done {
    let listener = TcpListener::bind(at)?;
    println!("listening");
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || echo_lines(&stream));
    }
    Ok(())
}

fn echo_lines(stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        (&*stream).write_all(line.as_bytes())?;
        line.clear();
    }
    Ok(())
}

/// Sends a line and prints the answer.
fn ask(source: Ipv4Addr, to: SocketAddrV4, text: &str, limit_ms: u64) -> Done {
    let limit = Duration::from_millis(limit_ms);
    let mut stream = kernel::connect_from(source, to, Instant::now() + limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(format!("{text}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    print!("{line}");
    Ok(())
}
