//! The part of `target.toml` that a target needs to be run: nodes, probes, log and workload.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::{Component, Path};

use toml::Spanned;

use super::config::{
    HEALTH_WITHIN_MS, LogConfig, NodeConfig, ProbeConfig, READY_WITHIN_MS, TargetConfig,
    WorkloadConfig,
};
use super::error::TargetError;
use super::known::{read_known, regex_at};
use super::source_text::{SourceText, list, nearest};
use super::{
    CLIENTS_MAX, Check, Client, NODES_MAX, Node, Program, Target, TargetCode, client_facts,
    is_word, node_facts,
};

type Result<T> = std::result::Result<T, TargetError>;

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

    /// The target, once all that costs nothing is checked; only then its code is resolved.
    pub fn target(&self, code: impl FnOnce() -> Result<TargetCode>, dir: &Path) -> Result<Target> {
        let nodes = self.nodes()?;
        let ports = self.ports()?;
        let clients = self.clients(&nodes)?;
        let ready = self.check(self.ready, &ports, READY_WITHIN_MS)?;
        let health = match &self.config.health {
            Some(health) => self.check(health.get_ref(), &ports, HEALTH_WITHIN_MS)?,
            None => ready.clone(),
        };
        let log_line = self.log_line()?;
        let warp_max = self.warp_max()?;
        let known = read_known(&dir.join("known"))?;
        self.check_templates(&nodes, &clients, &ports)?;
        self.check_file_paths()?;
        Ok(Target {
            code: code()?,
            nodes,
            node: Program {
                main: self.node.main.clone(),
                args: self.node.args.clone(),
                jvm: self.node.jvm.clone(),
                env: self.node.env.clone(),
            },
            files: self.node.files.clone(),
            ports,
            ready,
            health,
            log_line,
            workload: Program {
                main: self.workload.main.clone(),
                args: self.workload.args.clone(),
                jvm: self.workload.jvm.clone(),
                env: self.workload.env.clone(),
            },
            clients,
            warp_max,
            known,
        })
    }

    fn fail<T, V>(&self, at: &Spanned<V>, problem: impl Into<String>) -> Result<T> {
        Err(self.source.error(at.span(), problem, None).into())
    }

    fn nodes(&self) -> Result<Vec<Node>> {
        let names = &self.node.names;
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
        let count = match &self.workload.clients {
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
            within_ms,
        })
    }

    fn log_line(&self) -> Result<regex::Regex> {
        let line = &self.log.line;
        let regex = regex_at(self.source, line)?;
        for wanted in LOG_GROUPS {
            if !regex.capture_names().flatten().any(|name| name == wanted) {
                return self.fail(line, format!("the group `(?<{wanted}>...)` is missing"));
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
    fn check_templates(
        &self,
        nodes: &[Node],
        clients: &[Client],
        ports: &BTreeMap<String, u16>,
    ) -> Result<()> {
        let place = Path::new("");
        let of_node = node_facts(nodes, ports, &nodes[0], place, 0);
        let of_client = client_facts(nodes, ports, &clients[0], place, 0);
        let (node, workload) = (self.node, self.workload);
        let node_texts = node.args.iter().chain(&node.jvm).chain(node.env.values());
        let node_texts = node_texts.chain(node.files.values());
        let client_texts = workload.args.iter().chain(&workload.jvm);
        let client_texts = client_texts.chain(workload.env.values());
        let texts = node_texts.map(|text| (text, &of_node));
        for (text, facts) in texts.chain(client_texts.map(|text| (text, &of_client))) {
            if let Err(unknown) = facts.render(text) {
                let at = format!("{{{}}}", unknown.name);
                return Err(self
                    .source
                    .error_at_text(&at, unknown.to_string(), None)
                    .into());
            }
        }
        Ok(())
    }

    fn check_file_paths(&self) -> Result<()> {
        for path in self.node.files.keys() {
            let stays = Path::new(path)
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            if !stays {
                let problem = format!("the file `{path}` would lie outside the node's folder");
                return Err(self.source.error_at_text(path, problem, None).into());
            }
        }
        Ok(())
    }
}

fn span<T>(table: &Option<Spanned<T>>) -> Option<Range<usize>> {
    table.as_ref().map(Spanned::span)
}
