//! Exit codes, as Jepsen's.

use std::process::ExitCode;

/// What a command came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Pass = 0,
    BugsFound = 1,
    Unknown = 2,
    BadArguments = 254,
    InternalError = 255,
}

/// An error that is the user's to mend, not ours.
#[derive(Debug)]
pub struct BadInput(pub String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// The user ended the work before there was anything to tell.
#[derive(Debug)]
pub struct EndedEarly(pub String);

impl std::fmt::Display for EndedEarly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EndedEarly {}

/// Prints an error and turns the result into the process's exit code.
pub fn code_of(result: anyhow::Result<Exit>) -> ExitCode {
    let exit = result.unwrap_or_else(|error| {
        eprintln!("temblor: {error:#}");
        if error.is::<BadInput>() {
            Exit::BadArguments
        } else if error.is::<EndedEarly>() {
            Exit::Unknown
        } else {
            Exit::InternalError
        }
    });
    ExitCode::from(exit as u8)
}
