//! From `target.toml` to a `Target`: every fact checked, sources compiled, the JDK found.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use toml::Spanned;

use super::config::{
    FORMAT, HEALTH_WITHIN_MS, ProbeConfig, READY_WITHIN_MS, SourceConfig, TargetConfig,
};
use super::error::TargetError;
use super::find::TARGET_FILE;
use super::known::{read_known, regex_at};
use super::source_text::{SourceText, list, nearest};
use super::{CLIENTS_MAX, Check, Client, NODES_MAX, Node, Program, Target, compile};
use crate::artifact::{Coordinate, Depot, Jdk, JdkUse, Progress};
use crate::glob;

type Result<T> = std::result::Result<T, TargetError>;

const LOG_GROUPS: [&str; 2] = ["level", "message"];

/// Reads a target's file; only its form is checked.
pub fn parse_target(dir: &Path) -> Result<TargetConfig> {
    Ok(SourceText::read(&dir.join(TARGET_FILE))?.parse()?)
}

/// Gets what a target needs and this machine lacks: its jars, and a JDK if there is none for it.
pub fn fetch_target(dir: &Path, progress: Progress<'_>) -> Result<()> {
    let source = SourceText::read(&dir.join(TARGET_FILE))?;
    let config: TargetConfig = source.parse()?;
    let depot = Depot::of_user()?;
    let majors = majors(&source, &config.jdk)?;
    let wanted = jdk_use(config.source.get_ref());
    if !majors
        .iter()
        .any(|major| depot.find_jdk(*major, wanted).is_ok())
    {
        depot.fetch_jdk(majors[0], progress)?;
    }
    if let Some(coordinates) = &config.source.get_ref().maven {
        let coordinates = coordinates_of(&source, coordinates)?;
        depot.fetch_maven(&slot_name(&config), &coordinates, progress)?;
    }
    Ok(())
}

impl Target {
    /// Resolves the target in a folder with what is on this machine.
    pub fn resolve(dir: &Path, progress: Progress<'_>) -> Result<Target> {
        Target::resolve_with(dir, &Depot::of_user()?, None, progress)
    }

    /// As `resolve`; with a depot of the caller's, and a JDK instead of the target's choice.
    pub fn resolve_with(
        dir: &Path,
        depot: &Depot,
        jdk: Option<Jdk>,
        progress: Progress<'_>,
    ) -> Result<Target> {
        let file = dir.join(TARGET_FILE);
        let dir = dir.canonicalize().map_err(|source| TargetError::Read {
            path: file.clone(),
            source,
        })?;
        let source = SourceText::read(&file)?;
        let config: TargetConfig = source.parse()?;
        let resolver = Resolver {
            source: &source,
            config: &config,
            dir: &dir,
        };
        // All that costs nothing is checked before anything is compiled.
        resolver.check_names()?;
        let nodes = resolver.nodes()?;
        let ports = resolver.ports()?;
        let ready = resolver.check(&config.ready, &ports, READY_WITHIN_MS)?;
        let health = match &config.health {
            Some(health) => resolver.check(health, &ports, HEALTH_WITHIN_MS)?,
            None => ready.clone(),
        };
        let mut target = Target {
            name: config.name.get_ref().clone(),
            version: config.version.get_ref().clone(),
            summary: config.summary.clone(),
            dir: dir.clone(),
            jdk: Jdk {
                home: PathBuf::new(),
                major: 0,
                full_version: String::new(),
            },
            classpath: Vec::new(),
            packages: resolver.packages()?,
            clients: resolver.clients(&nodes)?,
            nodes,
            node: Program {
                main: config.node.main.clone(),
                args: config.node.args.clone(),
                jvm: config.node.jvm.clone(),
                env: config.node.env.clone(),
            },
            files: config.node.files.clone(),
            ports,
            ready,
            health,
            log_line: resolver.log_line()?,
            workload: Program {
                main: config.workload.main.clone(),
                args: config.workload.args.clone(),
                jvm: config.workload.jvm.clone(),
                env: config.workload.env.clone(),
            },
            warp_max: resolver.warp_max()?,
            known: read_known(&dir.join("known"))?,
        };
        resolver.check_templates(&target)?;
        resolver.check_source()?;
        target.jdk = match jdk {
            Some(jdk) => jdk,
            None => resolver.jdk(depot)?,
        };
        target.classpath = resolver.classpath(depot, &target.jdk, progress)?;
        Ok(target)
    }
}

fn jdk_use(source: &SourceConfig) -> JdkUse {
    if source.java.is_some() {
        JdkUse::Compile
    } else {
        JdkUse::Run
    }
}

fn slot_name(config: &TargetConfig) -> String {
    format!("{}@{}", config.name.get_ref(), config.version.get_ref())
}

fn majors(source: &SourceText, jdk: &Spanned<Vec<String>>) -> Result<Vec<u32>> {
    let hint = || Some("write major versions, best first, as [\"17\", \"11\"]".to_string());
    if jdk.get_ref().is_empty() {
        return Err(source.error(jdk.span(), "the list is empty", hint()).into());
    }
    let parse = |text: &String| {
        let problem = format!("`{text}` is not a major version");
        text.parse()
            .map_err(|_| source.error(jdk.span(), problem, hint()).into())
    };
    jdk.get_ref().iter().map(parse).collect()
}

fn coordinates_of(source: &SourceText, texts: &[Spanned<String>]) -> Result<Vec<Coordinate>> {
    let parse = |text: &Spanned<String>| {
        let hint = Some("write `group:artifact:version`".to_string());
        let problem = format!("`{}` is not a Maven coordinate", text.get_ref());
        text.get_ref()
            .parse()
            .map_err(|_| source.error(text.span(), problem, hint).into())
    };
    texts.iter().map(parse).collect()
}

struct Resolver<'a> {
    source: &'a SourceText,
    config: &'a TargetConfig,
    dir: &'a Path,
}

impl Resolver<'_> {
    fn fail<T, V>(&self, at: &Spanned<V>, problem: impl Into<String>) -> Result<T> {
        Err(self.source.error(at.span(), problem, None).into())
    }

    fn check_names(&self) -> Result<()> {
        let format = &self.config.format;
        if *format.get_ref() != FORMAT {
            let problem = format!(
                "format {} is unknown; this version reads {FORMAT}",
                format.get_ref()
            );
            return self.fail(format, problem);
        }
        for text in [&self.config.name, &self.config.version] {
            if !is_word(text.get_ref()) {
                return self.fail(text, "expected letters, digits, `.`, `_` and `-`");
            }
        }
        Ok(())
    }

    fn nodes(&self) -> Result<Vec<Node>> {
        let names = &self.config.node.names;
        let count = names.get_ref().len();
        if count == 0 || count > NODES_MAX {
            return self.fail(
                names,
                format!("expected 1 to {NODES_MAX} names, found {count}"),
            );
        }
        let mut nodes: Vec<Node> = Vec::new();
        for (i, name) in names.get_ref().iter().enumerate() {
            if !is_word(name) {
                let problem = format!("`{name}` is no name; use letters, digits, `.`, `_`, `-`");
                return self.fail(names, problem);
            }
            if nodes.iter().any(|node| node.name == *name) {
                return self.fail(names, format!("two nodes are named `{name}`"));
            }
            let addr = Ipv4Addr::new(127, 0, 0, i as u8 + 1);
            nodes.push(Node {
                name: name.clone(),
                index: i + 1,
                addr,
            });
        }
        Ok(nodes)
    }

    fn clients(&self, nodes: &[Node]) -> Result<Vec<Client>> {
        let count = match &self.config.workload.clients {
            Some(clients) if !(1..=CLIENTS_MAX).contains(clients.get_ref()) => {
                let problem = format!("expected 1 to {CLIENTS_MAX}, found {}", clients.get_ref());
                return self.fail(clients, problem);
            }
            Some(clients) => *clients.get_ref() as usize,
            None => nodes.len(),
        };
        let client = |i: usize| Client {
            name: format!("c{}", i + 1),
            index: i + 1,
            addr: Ipv4Addr::new(127, 0, 0, i as u8 + 101),
            node: nodes[i % nodes.len()].name.clone(),
        };
        Ok((0..count).map(client).collect())
    }

    fn ports(&self) -> Result<BTreeMap<String, u16>> {
        let mut ports: BTreeMap<String, u16> = BTreeMap::new();
        for (name, port) in &self.config.node.ports {
            let number = *port.get_ref();
            if number == 0 {
                return self.fail(port, "port 0 is no port; choose one from 1 to 65535");
            }
            if let Some((other, _)) = ports.iter().find(|(_, other)| **other == number) {
                let problem = format!("port {number} is taken by `{other}`");
                return self.fail(port, problem);
            }
            ports.insert(name.clone(), number);
        }
        Ok(ports)
    }

    fn check(
        &self,
        probe: &ProbeConfig,
        ports: &BTreeMap<String, u16>,
        default_ms: u64,
    ) -> Result<Check> {
        let name = probe.port.get_ref();
        let Some(port) = ports.get(name) else {
            let known: Vec<&String> = ports.keys().collect();
            let hint = match nearest(name, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => "`node.ports` is empty".into(),
                None => format!("known are {}", list(&known)),
            };
            let problem = format!("no port of `node.ports` is named `{name}`");
            return Err(self
                .source
                .error(probe.port.span(), problem, Some(hint))
                .into());
        };
        let within_ms = match &probe.within_ms {
            Some(zero) if *zero.get_ref() == 0 => {
                return self.fail(zero, "no node answers within 0 ms");
            }
            given => given.as_ref().map_or(default_ms, |given| *given.get_ref()),
        };
        Ok(Check {
            port: *port,
            send: probe.send.clone(),
            expect: regex_at(self.source, &probe.expect)?,
            within_ms,
        })
    }

    fn packages(&self) -> Result<Vec<String>> {
        let packages = &self.config.analysis.packages;
        if packages.get_ref().iter().all(String::is_empty) {
            return self.fail(packages, "expected at least one prefix of class names");
        }
        Ok(packages.get_ref().clone())
    }

    fn log_line(&self) -> Result<regex::Regex> {
        let line = &self.config.log.line;
        let regex = regex_at(self.source, line)?;
        for wanted in LOG_GROUPS {
            if !regex.capture_names().flatten().any(|name| name == wanted) {
                return self.fail(line, format!("the group `(?<{wanted}>...)` is missing"));
            }
        }
        Ok(regex)
    }

    fn warp_max(&self) -> Result<f64> {
        let max = self.config.warp.max;
        if max >= 1.0 && max.is_finite() {
            return Ok(max);
        }
        let problem = format!("expected a factor of 1 or more, found {max}");
        Err(self.source.error_at_text("[warp]", problem, None).into())
    }

    /// Renders everything once, so that a bad placeholder shows before the first trial.
    fn check_templates(&self, target: &Target) -> Result<()> {
        let place = Path::new("");
        let node = target.node_facts(&target.nodes[0], place, 0);
        let client = target.client_facts(&target.clients[0], place, 0);
        let of = |program: &Program| -> Vec<String> {
            let texts = program
                .args
                .iter()
                .chain(&program.jvm)
                .chain(program.env.values());
            texts.cloned().collect()
        };
        let node_texts = of(&target.node)
            .into_iter()
            .chain(target.files.values().cloned());
        let texts = node_texts.map(|text| (text, &node));
        for (text, facts) in texts.chain(of(&target.workload).into_iter().map(|t| (t, &client))) {
            if let Err(unknown) = facts.render(&text) {
                let at = format!("{{{}}}", unknown.name);
                return Err(self
                    .source
                    .error_at_text(&at, unknown.to_string(), None)
                    .into());
            }
        }
        for path in target.files.keys() {
            let stays = Path::new(path).components().all(|part| {
                matches!(
                    part,
                    std::path::Component::Normal(_) | std::path::Component::CurDir
                )
            });
            if !stays {
                let problem = format!("the file `{path}` would lie outside the node's folder");
                return Err(self.source.error_at_text(path, problem, None).into());
            }
        }
        Ok(())
    }

    fn check_source(&self) -> Result<()> {
        let spanned = &self.config.source;
        let source = spanned.get_ref();
        let given = [
            source.java.is_some(),
            source.jars.is_some(),
            source.maven.is_some(),
        ];
        if given.iter().filter(|given| **given).count() != 1 {
            return self.fail(
                spanned,
                "expected exactly one of `java`, `jars` and `maven`",
            );
        }
        if let Some(java) = &source.java
            && !self.dir.join(java.get_ref()).is_dir()
        {
            let problem = format!(
                "there is no folder `{}` beside {TARGET_FILE}",
                java.get_ref()
            );
            return self.fail(java, problem);
        }
        if let Some(maven) = &source.maven {
            coordinates_of(self.source, maven)?;
        }
        majors(self.source, &self.config.jdk).map(drop)
    }

    fn jdk(&self, depot: &Depot) -> Result<Jdk> {
        let wanted = jdk_use(self.config.source.get_ref());
        let majors = majors(self.source, &self.config.jdk)?;
        let mut found = majors
            .iter()
            .filter_map(|major| depot.find_jdk(*major, wanted).ok());
        found.next().ok_or_else(|| TargetError::NoJdk {
            target: slot_name(self.config),
            majors: majors.iter().map(u32::to_string).collect(),
            need: if wanted == JdkUse::Compile {
                " with javac"
            } else {
                ""
            },
        })
    }

    fn classpath(&self, depot: &Depot, jdk: &Jdk, progress: Progress<'_>) -> Result<Vec<PathBuf>> {
        let source = self.config.source.get_ref();
        if let Some(java) = &source.java {
            let folder = self.dir.join(java.get_ref());
            let cache = depot
                .cache()
                .root()
                .join("classes")
                .join(slot_name(self.config));
            let task = compile::Compilation {
                target: &slot_name(self.config),
                sources: &folder,
                cache: &cache,
                jdk,
            };
            return Ok(vec![task.classes(progress)?]);
        }
        if source.maven.is_some() {
            return Ok(depot.find_jars(&slot_name(self.config))?.paths);
        }
        let mut paths = Vec::new();
        for pattern in source.jars.iter().flatten() {
            let found = glob::matches(self.dir, pattern.get_ref());
            if found.is_empty() {
                let problem = format!("nothing matches `{}`", pattern.get_ref());
                return self.fail(pattern, problem);
            }
            paths.extend(found);
        }
        Ok(paths)
    }
}

fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(allowed)
}
