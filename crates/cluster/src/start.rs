//! From a target's templates to processes of a trial: command lines, environments, folders, files.
//!
//! A trial's folder: `nodes/<node>/` and `clients/<client>/` are where processes work,
//! `logs/<name>.log` what they print, `clients/<client>.jsonl` what clients report.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cell::ProcessSpec;
use crate::target::{Client, Facts, Node, Program, Target, UnknownPlaceholder};

/// What a process sees of the caller's environment; everything else would differ from machine to
/// machine and make trials differ with it.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a process could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{process}: {source}")]
    Template {
        process: String,
        source: UnknownPlaceholder,
    },
}

/// Where a trial lives, its seed, and how much of the workload it runs.
#[derive(Clone, Debug)]
pub struct TrialPlace {
    /// Absolute.
    pub dir: PathBuf,
    pub seed: u64,
    /// Percent.
    pub load: u8,
}

impl TrialPlace {
    pub fn node_dir(&self, node: &str) -> PathBuf {
        self.dir.join("nodes").join(node)
    }

    pub fn client_dir(&self, client: &str) -> PathBuf {
        self.dir.join("clients").join(client)
    }

    /// What a node prints, over all its incarnations; what a client says on stderr.
    pub fn log_file(&self, process: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{process}.log"))
    }

    /// The operations a client reports.
    pub fn ops_file(&self, client: &str) -> PathBuf {
        self.dir.join("clients").join(format!("{client}.jsonl"))
    }
}

/// What the caller adds to a process: the agent's and the clock's options.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// Before the target's own options, so that the target can override.
    pub jvm: Vec<String>,
    /// After the target's own, which it overrides.
    pub env: Vec<(String, String)>,
}

fn node_facts(
    target: &Target,
    place: &TrialPlace,
    node: &Node,
    dir: &Path,
) -> Result<Facts, StartError> {
    let facts = target.cast.node_facts(node, dir, place.seed);
    facts.map_err(|source| StartError::Template {
        process: node.name.clone(),
        source,
    })
}

/// Makes the node's folder with its files as first written; call once per trial.
pub fn write_node_files(
    target: &Target,
    place: &TrialPlace,
    node: &Node,
) -> Result<(), StartError> {
    let dir = place.node_dir(&node.name);
    make(&dir.join("tmp"))?;
    let facts = node_facts(target, place, node, &dir)?;
    write_files(&target.node, &facts, &node.name, &dir)
}

fn write_files(
    program: &Program,
    facts: &Facts,
    process: &str,
    dir: &Path,
) -> Result<(), StartError> {
    for (path, template) in &program.files {
        let text = render(facts, template, process)?;
        let path = dir.join(path);
        make(path.parent().unwrap_or(dir))?;
        fs::write(&path, text).map_err(|source| StartError::Write { path, source })?;
    }
    Ok(())
}

/// The process of a node; the same for its restart.
pub fn node_process(
    target: &Target,
    place: &TrialPlace,
    node: &Node,
    extra: &Extra,
) -> Result<ProcessSpec, StartError> {
    let dir = place.node_dir(&node.name);
    let log = place.log_file(&node.name);
    make(&dir.join("tmp"))?;
    make(log.parent().unwrap_or(&dir))?;
    let facts = node_facts(target, place, node, &dir)?;
    let java = Java {
        target,
        program: &target.node,
        facts: &facts,
        name: &node.name,
        dir: &dir,
    };
    Ok(ProcessSpec {
        name: node.name.clone(),
        argv: java.argv(extra)?,
        env: java.env(&node.addr.to_string(), extra)?,
        cwd: dir.clone(),
        stdout: log.clone(),
        stderr: log,
    })
}

/// The process of a client.
pub fn client_process(
    target: &Target,
    place: &TrialPlace,
    client: &Client,
    extra: &Extra,
) -> Result<ProcessSpec, StartError> {
    let dir = place.client_dir(&client.name);
    let log = place.log_file(&client.name);
    make(&dir.join("tmp"))?;
    make(log.parent().unwrap_or(&dir))?;
    let facts = target
        .cast
        .client_facts(client, &dir, place.seed, place.load);
    let program = &target.workload;
    write_files(program, &facts, &client.name, &dir)?;
    let java = Java {
        target,
        program,
        facts: &facts,
        name: &client.name,
        dir: &dir,
    };
    Ok(ProcessSpec {
        name: client.name.clone(),
        argv: java.argv(extra)?,
        env: java.env(&client.addr.to_string(), extra)?,
        cwd: dir.clone(),
        stdout: place.ops_file(&client.name),
        stderr: log,
    })
}

/// A Java program about to be started in `dir`.
struct Java<'a> {
    target: &'a Target,
    program: &'a Program,
    facts: &'a Facts,
    name: &'a str,
    dir: &'a Path,
}

impl Java<'_> {
    fn argv(&self, extra: &Extra) -> Result<Vec<String>, StartError> {
        let classpath: Vec<String> = self
            .target
            .code
            .classpath
            .iter()
            .chain(&self.program.classpath)
            .map(|path| path.display().to_string())
            .collect();
        let mut argv = vec![self.target.code.jdk.java().display().to_string()];
        // Process ids repeat from cell to cell: files named by them must not meet in one folder.
        argv.push(format!(
            "-Djava.io.tmpdir={}",
            self.dir.join("tmp").display()
        ));
        argv.push("-XX:-UsePerfData".into());
        argv.extend(extra.jvm.iter().cloned());
        for flag in &self.program.jvm {
            argv.push(self.render(flag)?);
        }
        argv.extend(["-cp".into(), classpath.join(":"), self.program.main.clone()]);
        for arg in &self.program.args {
            argv.push(self.render(arg)?);
        }
        Ok(argv)
    }

    fn env(&self, source_addr: &str, extra: &Extra) -> Result<Vec<(String, String)>, StartError> {
        let mut env = vec![
            ("PATH".to_string(), SEARCH_PATH.to_string()),
            ("LANG".to_string(), "C.UTF-8".to_string()),
            ("HOME".to_string(), self.dir.display().to_string()),
            (
                "TMPDIR".to_string(),
                self.dir.join("tmp").display().to_string(),
            ),
            (
                "JAVA_HOME".to_string(),
                self.target.code.jdk.home.display().to_string(),
            ),
        ];
        for (key, value) in &self.program.env {
            set(&mut env, key, self.render(value)?);
        }
        set(&mut env, "TEMBLOR_SOURCE_ADDR", source_addr.to_string());
        for (key, value) in &extra.env {
            set(&mut env, key, value.clone());
        }
        Ok(env)
    }

    fn render(&self, template: &str) -> Result<String, StartError> {
        render(self.facts, template, self.name)
    }
}

fn set(env: &mut Vec<(String, String)>, key: &str, value: String) {
    env.retain(|(known, _)| known != key);
    env.push((key.to_string(), value));
}

fn render(facts: &Facts, template: &str, process: &str) -> Result<String, StartError> {
    facts
        .render(template)
        .map_err(|source| StartError::Template {
            process: process.to_string(),
            source,
        })
}

fn make(dir: &Path) -> Result<(), StartError> {
    fs::create_dir_all(dir).map_err(|source| StartError::Write {
        path: dir.to_path_buf(),
        source,
    })
}
