//! What can be wrong with a target: each message says where, and what was expected.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::artifact::ArtifactError;

/// A mistake in a file of a target, at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// Dotted, as `ready.port`; empty at the top.
    pub key: String,
    pub problem: String,
    /// What to write instead, if anything can be said.
    pub hint: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file.display(), self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "`{}`: ", self.key)?;
        }
        write!(f, "{}", self.problem)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error(transparent)]
    Config(#[from] Box<ConfigError>),
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("there is no target `{wanted}`; {}", known_targets(known))]
    NotFound {
        wanted: String,
        /// Nearest first.
        known: Vec<String>,
    },
    #[error(
        "{target} runs on JDK {}, and none of them{need} is on this machine; \
         get one with `./temblor targets fetch jdk@{}`",
        majors.join(", "),
        majors[0]
    )]
    NoJdk {
        target: String,
        /// Best first; never empty.
        majors: Vec<String>,
        need: &'static str,
    },
    #[error(
        "{target} can be analysed but not run yet: its target.toml has no [node], [ready], [log] \
         and [workload]; docs/targets.md tells what they are"
    )]
    AnalysisOnly { target: String },
    #[error("{target} has no workload `{name}`; {known}")]
    NoWorkload {
        target: String,
        name: String,
        known: String,
    },
    #[error("{target} has 1 to {most} nodes, not {asked}")]
    NodeCount {
        target: String,
        asked: u32,
        most: usize,
    },
    #[error("javac refused the sources of {target} in {}:\n{output}", folder.display())]
    Compile {
        target: String,
        folder: PathBuf,
        output: String,
    },
    #[error("javac did not finish the sources of {target} within {limit_ms} ms")]
    CompileLate { target: String, limit_ms: u64 },
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

fn known_targets(known: &[String]) -> String {
    if known.is_empty() {
        "there are none at all: run this in the folder that holds `targets/`".into()
    } else {
        format!("there are: {}", known.join(", "))
    }
}

impl From<ConfigError> for TargetError {
    fn from(error: ConfigError) -> Self {
        TargetError::Config(Box::new(error))
    }
}
