//! The part of `target.toml` that a target needs to be run: nodes, probes, log and workload.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use toml::Spanned;

use super::config::{
    HEALTH_WITHIN_MS, KindConfig, LogConfig, NodeConfig, ProbeConfig, REACTION_MS, READY_WITHIN_MS,
    TargetConfig, WorkloadConfig,
};
use super::error::TargetError;
use super::known::{read_known, regex_at};
use super::source_text::{SourceText, list, nearest};
use super::template::UnknownPlaceholder;
use super::{
    CLIENTS_MAX, Cast, Check, Choice, Client, List, NODES_MAX, Node, Program, Stop, Target,
    TargetCode, is_word,
};

type Result<T> = std::result::Result<T, TargetError>;

/// Where nodes keep their files, when the target does not say.
const DATA: &str = "data";
const LOG_GROUPS: [&str; 2] = ["level", "message"];

/// The tables without which nothing can be run, all there.
pub struct RunConfig<'a> {
    source: &'a SourceText,
    config: &'a TargetConfig,
    node: &'a NodeConfig,
    ready: &'a ProbeConfig,
    log: &'a LogConfig,
    workload: &'a WorkloadConfig,
}

impl<'a> RunConfig<'a> {
    /// Nothing if the target has none of the tables: it can be analysed, not run. Some of them
    /// without the others are a mistake.
    pub fn find(source: &'a SourceText, config: &'a TargetConfig) -> Result<Option<Self>> {
        if let (Some(node), Some(ready), Some(log), Some(workload)) =
            (&config.node, &config.ready, &config.log, &config.workload)
        {
            return Ok(Some(RunConfig {
                source,
                config,
                node: node.get_ref(),
                ready: ready.get_ref(),
                log: log.get_ref(),
                workload: workload.get_ref(),
            }));
        }
        let needed = [
            ("node", span(&config.node)),
            ("ready", span(&config.ready)),
            ("log", span(&config.log)),
            ("workload", span(&config.workload)),
        ];
        let others = [
            ("health", span(&config.health)),
            ("stop", span(&config.stop)),
            ("warp", span(&config.warp)),
        ];
        let missing: Vec<&str> = needed
            .iter()
            .filter(|(_, span)| span.is_none())
            .map(|(name, _)| *name)
            .collect();
        let mut given = needed.iter().chain(&others);
        let given = given.find_map(|(name, span)| Some((name, span.clone()?)));
        let Some((name, span)) = given else {
            return Ok(None);
        };
        let verb = if missing.len() == 1 { "is" } else { "are" };
        let problem = format!("`{name}` is given, but {} {verb} missing", list(&missing));
        let hint = "a target that can only be analysed has none of these tables".to_string();
        Err(source.error(span, problem, Some(hint)).into())
    }

    /// The target, once all that costs nothing is checked; only then its code is resolved, and
    /// with it the sources of its workload compiled.
    pub fn target(
        &self,
        choice: &Choice,
        dir: &Path,
        code: impl FnOnce(Option<&Path>) -> Result<(TargetCode, Vec<PathBuf>)>,
    ) -> Result<Target> {
        let (workload, kind) = self.kind(choice)?;
        let nodes = self.nodes(choice, kind)?;
        let ports = self.ports()?;
        let mut settings = self.node.settings.clone();
        settings.extend(kind.settings.clone());
        let lists = self.node.lists.iter().map(|(name, list)| {
            let (item, join) = (list.item.clone(), list.join.clone());
            (name.clone(), List { item, join })
        });
        let clients = self.clients(&nodes, kind)?;
        let cast = Cast {
            nodes,
            clients,
            ports,
            settings,
            lists: lists.collect(),
            workload,
        };
        let ready = self.check(self.ready, &cast.ports, READY_WITHIN_MS)?;
        let health_config = self
            .config
            .health
            .as_ref()
            .map_or(self.ready, Spanned::get_ref);
        let health = match &self.config.health {
            Some(health) => self.check(health.get_ref(), &cast.ports, HEALTH_WITHIN_MS)?,
            None => ready.clone(),
        };
        let log_line = self.log_line()?;
        let warp_max = self.warp_max()?;
        let known = read_known(&dir.join("known"))?;
        let mut args = self.workload.args.clone();
        args.extend(kind.args.clone());
        self.check_templates(&cast, &args)?;
        self.check_file_paths()?;
        let stop = self.config.stop.as_ref().map(Spanned::get_ref);
        let (code, classpath) = code(self.workload_source(dir)?.as_deref())?;
        Ok(Target {
            code,
            cast,
            node: Program {
                classpath: Vec::new(),
                main: self.node.main.clone(),
                args: self.node.args.clone(),
                jvm: self.node.jvm.clone(),
                cold_jvm: self.node.cold_jvm.clone(),
                env: self.node.env.clone(),
                files: self.node.files.clone(),
            },
            data: self.data()?,
            ready,
            health,
            single_roles: [&health_config.single[..], &self.log.single].concat(),
            log_line,
            log_role: self.role(&self.log.role)?,
            serving_roles: self.log.serving.clone(),
            workload: Program {
                classpath,
                main: self.workload.main.clone(),
                args,
                jvm: self.workload.jvm.clone(),
                cold_jvm: self.workload.cold_jvm.clone(),
                env: self.workload.env.clone(),
                files: self.workload.files.clone(),
            },
            finale: self.workload.finale,
            gate: self.workload.gate,
            warms: self.workload.gate && self.workload.warms,
            reaction_ms: self.workload.reaction_ms.unwrap_or(REACTION_MS),
            late_ms: kind.late_ms,
            again: self.again(kind, &health_config.single)?,
            again_by: kind.again_by,
            again_ms: kind.again_ms,
            away: kind
                .away
                .as_ref()
                .map_or_else(Vec::new, |a| a.get_ref().clone()),
            away_ms: kind.away_ms,
            stop: stop.map(|stop| Stop {
                order: stop.order.clone(),
                within_ms: *stop.within_ms.get_ref(),
            }),
            warp_max,
            known,
        })
    }

    /// The workload that is asked for, with its name.
    fn kind(&self, choice: &Choice) -> Result<(String, &'a KindConfig)> {
        let kinds = &self.workload.kinds;
        let known: Vec<&String> = kinds.keys().collect();
        let default = self.workload.default.as_ref();
        if let Some(name) = &choice.workload {
            return match kinds.get(name) {
                Some(kind) => Ok((name.clone(), kind.get_ref())),
                None => Err(TargetError::NoWorkload {
                    target: self.config.name.get_ref().clone(),
                    name: name.clone(),
                    known: match known.is_empty() {
                        true => "it has only one".into(),
                        false => format!("known are {}", list(&known)),
                    },
                }),
            };
        }
        match (default, known.first()) {
            (Some(name), _) => match kinds.get(name.get_ref()) {
                Some(kind) => Ok((name.get_ref().clone(), kind.get_ref())),
                None => {
                    let problem = format!("there is no `workload.kinds.{}`", name.get_ref());
                    self.fail(name, problem)
                }
            },
            (None, Some(first)) => Ok(((*first).clone(), kinds[*first].get_ref())),
            (None, None) => {
                static ONLY: LazyLock<KindConfig> = LazyLock::new(KindConfig::default);
                Ok((String::new(), &ONLY))
            }
        }
    }

    /// The folder of the workload's sources.
    fn workload_source(&self, dir: &Path) -> Result<Option<PathBuf>> {
        let Some(java) = &self.workload.java else {
            return Ok(None);
        };
        let folder = dir.join(java.get_ref());
        match folder.is_dir() {
            true => Ok(Some(folder)),
            false => self.fail(java, format!("there is no folder {}", folder.display())),
        }
    }

    fn fail<T, V>(&self, at: &Spanned<V>, problem: impl Into<String>) -> Result<T> {
        Err(self.source.error(at.span(), problem, None).into())
    }

    fn nodes(&self, choice: &Choice, kind: &KindConfig) -> Result<Vec<Node>> {
        let names = &self.node.names;
        let given = names.get_ref().len();
        if given == 0 || given > NODES_MAX {
            return self.fail(
                names,
                format!("expected 1 to {NODES_MAX} names, found {given}"),
            );
        }
        let count = match (choice.nodes, &kind.nodes, &self.node.count) {
            (Some(asked), _, _) if asked == 0 || asked as usize > given => {
                return Err(TargetError::NodeCount {
                    target: self.config.name.get_ref().clone(),
                    asked,
                    most: given,
                });
            }
            (Some(asked), _, _) => asked as usize,
            (None, Some(count), _) | (None, None, Some(count)) => {
                let wanted = *count.get_ref() as usize;
                if wanted == 0 || wanted > given {
                    let problem = format!("expected 1 to {given}, as many as there are names");
                    return self.fail(count, problem);
                }
                wanted
            }
            (None, None, None) => given,
        };
        let lists = [&kind.late, &kind.joining, &kind.away];
        for named in lists.into_iter().flatten() {
            if let Some(odd) = named
                .get_ref()
                .iter()
                .find(|n| !names.get_ref().contains(n))
            {
                return self.fail(named, format!("no node is named `{odd}`"));
            }
        }
        let is_in = |list: &Option<Spanned<Vec<String>>>, name: &String| {
            list.as_ref().is_some_and(|l| l.get_ref().contains(name))
        };
        let mut nodes: Vec<Node> = Vec::new();
        for (i, name) in names.get_ref().iter().enumerate() {
            if !is_word(name) {
                let problem = format!("`{name}` is no name; use letters, digits, `.`, `_`, `-`");
                return self.fail(names, problem);
            }
            if nodes.iter().any(|node| node.name == *name) {
                return self.fail(names, format!("two nodes are named `{name}`"));
            }
            nodes.push(Node {
                name: name.clone(),
                index: i + 1,
                addr: Ipv4Addr::new(127, 0, 0, i as u8 + 1),
                late: is_in(&kind.late, name),
                joining: is_in(&kind.joining, name),
            });
        }
        nodes.truncate(count);
        Ok(nodes)
    }

    fn clients(&self, nodes: &[Node], kind: &KindConfig) -> Result<Vec<Client>> {
        let count = match kind.clients.as_ref().or(self.workload.clients.as_ref()) {
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
        for (name, port) in &self.node.ports {
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
            whole: probe.whole,
            within_ms,
            role: self.role(&probe.role)?,
        })
    }

    /// Names or roles: what is neither cannot be meant.
    fn again(&self, kind: &KindConfig, roles: &[String]) -> Result<Vec<String>> {
        let Some(again) = &kind.again else {
            return Ok(Vec::new());
        };
        let names = self.node.names.get_ref();
        let is_known = |name: &&String| names.contains(name) || roles.contains(name);
        if let Some(odd) = again.get_ref().iter().find(|name| !is_known(name)) {
            let problem = format!("`{odd}` is no node, and no role in `health.single`");
            return self.fail(again, problem);
        }
        Ok(again.get_ref().clone())
    }

    fn role(&self, pattern: &Option<Spanned<String>>) -> Result<Option<regex::Regex>> {
        let pattern = pattern.as_ref();
        pattern.map(|p| self.pattern(p, &["role"])).transpose()
    }

    fn log_line(&self) -> Result<regex::Regex> {
        self.pattern(&self.log.line, &LOG_GROUPS)
    }

    /// A regular expression that must have these groups.
    fn pattern(&self, text: &Spanned<String>, groups: &[&str]) -> Result<regex::Regex> {
        let regex = regex_at(self.source, text)?;
        for wanted in groups {
            if !regex.capture_names().flatten().any(|name| name == *wanted) {
                return self.fail(text, format!("the group `(?<{wanted}>...)` is missing"));
            }
        }
        Ok(regex)
    }

    fn warp_max(&self) -> Result<f64> {
        let Some(warp) = &self.config.warp else {
            return Ok(1.0);
        };
        let max = &warp.get_ref().max;
        if *max.get_ref() >= 1.0 && max.get_ref().is_finite() {
            return Ok(*max.get_ref());
        }
        let problem = format!("expected a factor of 1 or more, found {}", max.get_ref());
        self.fail(max, problem)
    }

    /// Renders everything once, so that a bad placeholder shows before the first trial.
    fn check_templates(&self, cast: &Cast, client_args: &[String]) -> Result<()> {
        let unknown = |unknown: UnknownPlaceholder| -> TargetError {
            let at = format!("{{{}}}", unknown.name);
            let error = self.source.error_at_text(&at, unknown.to_string(), None);
            error.into()
        };
        let place = Path::new("");
        let of_node = cast.node_facts(&cast.nodes[0], place, 0).map_err(unknown)?;
        let of_client = cast.client_facts(&cast.clients[0], place, 0, 100);
        let (node, workload) = (self.node, self.workload);
        let node_texts = node.args.iter().chain(&node.jvm).chain(node.env.values());
        let node_texts = node_texts.chain(node.files.values());
        let client_texts = client_args.iter().chain(&workload.jvm);
        let client_texts = client_texts.chain(workload.env.values());
        let client_texts = client_texts.chain(workload.files.values());
        let texts = node_texts.map(|text| (text, &of_node));
        for (text, facts) in texts.chain(client_texts.map(|text| (text, &of_client))) {
            facts.render(text).map_err(unknown)?;
        }
        Ok(())
    }

    /// Where a node keeps its files: a folder of its own below the node's.
    fn data(&self) -> Result<String> {
        let Some(data) = &self.node.data else {
            return Ok(DATA.into());
        };
        let mut parts = Path::new(data.get_ref()).components();
        match parts.all(|part| matches!(part, Component::Normal(_))) && !data.get_ref().is_empty() {
            true => Ok(data.get_ref().clone()),
            false => self.fail(data, "expected a folder inside the node's"),
        }
    }

    fn check_file_paths(&self) -> Result<()> {
        for path in self.node.files.keys().chain(self.workload.files.keys()) {
            let stays = Path::new(path)
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            if !stays {
                let problem = format!("the file `{path}` would lie outside its process's folder");
                return Err(self.source.error_at_text(path, problem, None).into());
            }
        }
        Ok(())
    }
}

fn span<T>(table: &Option<Spanned<T>>) -> Option<Range<usize>> {
    table.as_ref().map(Spanned::span)
}
