//! Who takes part in a trial, and the facts that templates may ask of them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use super::template::{Facts, UnknownPlaceholder};

/// The nodes and clients of a trial, and what their templates may name.
#[derive(Clone, Debug, Default)]
pub struct Cast {
    pub nodes: Vec<Node>,
    pub clients: Vec<Client>,
    /// Every node has these ports, at an address of its own.
    pub ports: BTreeMap<String, u16>,
    pub settings: BTreeMap<String, String>,
    pub lists: BTreeMap<String, List>,
    /// The name of the workload; empty where the target has only one.
    pub workload: String,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// From 1.
    pub index: usize,
    pub addr: Ipv4Addr,
    /// Started, with its clients, when the workload has run for a while.
    pub late: bool,
    /// Not a member until the workload makes it one.
    pub joining: bool,
}

/// A client of the workload and the node it talks to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// `c1`, `c2`, ...
    pub name: String,
    /// From 1.
    pub index: usize,
    /// Its own address: partitions between nodes never cut it off.
    pub addr: Ipv4Addr,
    /// The name of its node.
    pub node: String,
}

/// A text repeated for every member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    pub item: String,
    pub join: String,
}

impl Cast {
    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The names of all nodes, in their order.
    pub fn node_names(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.name.clone()).collect()
    }

    /// The names of all that the agent is in: nodes, and clients where they are hooked.
    pub fn hooked(&self, clients: bool) -> Vec<String> {
        let mut names = self.node_names();
        if clients {
            names.extend(self.clients.iter().map(|c| c.name.clone()));
        }
        names
    }

    /// The placeholders of a node whose folder is `dir`.
    pub fn node_facts(
        &self,
        node: &Node,
        dir: &Path,
        seed: u64,
    ) -> Result<Facts, UnknownPlaceholder> {
        let mut facts = self.shared_facts(seed);
        self.set_node(&mut facts, node);
        facts.set("dir", dir.display());
        for (name, list) in &self.lists {
            let items = self.members_as_seen_by(node).map(|member| {
                let mut facts = self.shared_facts(seed);
                self.set_node(&mut facts, member);
                facts.render(&list.item)
            });
            let items: Vec<String> = items.collect::<Result<_, _>>()?;
            facts.set(format!("list.{name}"), items.join(&list.join));
        }
        Ok(facts)
    }

    /// The placeholders of a client whose folder is `dir`; `{addr}` is its node's, `{load}` how
    /// much of its work it is to do, in percent.
    pub fn client_facts(&self, client: &Client, dir: &Path, seed: u64, load: u8) -> Facts {
        let mut facts = self.shared_facts(seed);
        facts.set("load", load);
        facts.set("client", &client.name);
        facts.set("clients", self.clients.len());
        facts.set("node", &client.node);
        facts.set("index", client.index);
        let node = self.node(&client.node);
        facts.set("addr", node.map_or(client.addr, |node| node.addr));
        facts.set("dir", dir.display());
        facts
    }

    fn set_node(&self, facts: &mut Facts, node: &Node) {
        facts.set("node", &node.name);
        facts.set("index", node.index);
        facts.set("addr", node.addr);
    }

    /// The members, and the node itself where it is yet to join.
    fn members_as_seen_by<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> {
        let counts = |n: &&Node| !n.joining || n.name == node.name;
        self.nodes.iter().filter(counts)
    }

    /// What all processes of a trial share.
    fn shared_facts(&self, seed: u64) -> Facts {
        let mut facts = Facts::default();
        let of_nodes = |text: &dyn Fn(&Node) -> String| -> String {
            self.nodes.iter().map(text).collect::<Vec<_>>().join(",")
        };
        facts.set("seed", seed);
        facts.set("workload", &self.workload);
        facts.set(
            "nodes",
            of_nodes(&|node| format!("{}@{}", node.name, node.addr)),
        );
        for (name, port) in &self.ports {
            facts.set(format!("port.{name}"), port);
            facts.set(
                format!("nodes.{name}"),
                of_nodes(&|node| format!("{}:{port}", node.addr)),
            );
        }
        for (name, value) in &self.settings {
            facts.set(format!("set.{name}"), value);
        }
        facts
    }
}
