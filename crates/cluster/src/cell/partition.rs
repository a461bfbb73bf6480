//! Network rules that separate groups of nodes, as nftables scripts.
//!
//! All nodes share one loopback and differ by address; packets between two groups are dropped
//! where they arrive, in both directions, so connections that stand are cut as well. Clients and
//! probes have addresses of their own and are never cut from a node.

use std::fmt::Write;
use std::net::Ipv4Addr;

/// Mends the network; harmless when it is whole.
pub fn heal_script() -> String {
    // Adding first makes deleting succeed when there is no table.
    "add table ip temblor\ndelete table ip temblor\n".to_string()
}

/// Separates every two of the groups; earlier rules are replaced in the same transaction.
pub fn partition_script(groups: &[Vec<Ipv4Addr>]) -> String {
    let mut script = heal_script();
    script.push_str("table ip temblor {\n  chain cut {\n");
    // On arrival: a drop on leaving would tell the sender (EPERM), which no real network does.
    script.push_str("    type filter hook input priority 0; policy accept;\n");
    for (i, from) in groups.iter().enumerate() {
        for (j, to) in groups.iter().enumerate() {
            if i != j && !from.is_empty() && !to.is_empty() {
                let (from, to) = (address_set(from), address_set(to));
                let _ = writeln!(script, "    ip saddr {from} ip daddr {to} drop");
            }
        }
    }
    script.push_str("  }\n}\n");
    script
}

/// Until it is mended by [`unreset_script`], connections between a node and the others are answered
/// with a reset, those that stand and those that are tried.
pub fn reset_script(node: Ipv4Addr, others: &[Ipv4Addr]) -> String {
    let others = address_set(others);
    let mut script = format!("table ip {} {{\n  chain cut {{\n", reset_table(node));
    script.push_str("    type filter hook input priority 0; policy accept;\n");
    for (from, to) in [(&node.to_string(), &others), (&others, &node.to_string())] {
        let _ = writeln!(
            script,
            "    ip saddr {from} ip daddr {to} tcp flags & rst == 0 reject with tcp reset"
        );
    }
    script.push_str("  }\n}\n");
    script
}

/// Ends a node's resets; harmless when there are none.
pub fn unreset_script(node: Ipv4Addr) -> String {
    let table = reset_table(node);
    format!("add table ip {table}\ndelete table ip {table}\n")
}

/// Each node has its own, so that nodes can be cut off side by side, for different times.
fn reset_table(node: Ipv4Addr) -> String {
    format!("temblor_reset_{}", u32::from(node))
}

fn address_set(addrs: &[Ipv4Addr]) -> String {
    let mut sorted: Vec<Ipv4Addr> = addrs.to_vec();
    sorted.sort();
    sorted.dedup();
    let texts: Vec<String> = sorted.iter().map(Ipv4Addr::to_string).collect();
    format!("{{ {} }}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_drops_both_directions_between_groups() {
        let addr = |i| Ipv4Addr::new(127, 0, 0, i);
        let script = partition_script(&[vec![addr(1)], vec![addr(3), addr(2), addr(3)]]);
        assert!(script.contains("ip saddr { 127.0.0.1 } ip daddr { 127.0.0.2, 127.0.0.3 } drop"));
        assert!(script.contains("ip saddr { 127.0.0.2, 127.0.0.3 } ip daddr { 127.0.0.1 } drop"));
        assert_eq!(script.matches("drop").count(), 2);
        assert!(script.starts_with(&heal_script()));
    }

    #[test]
    fn a_reset_means_one_node_and_the_others_in_both_directions() {
        let addr = |i| Ipv4Addr::new(127, 0, 0, i);
        let script = reset_script(addr(3), &[addr(2), addr(1)]);
        // The resets themselves have to arrive.
        let end = "tcp flags & rst == 0 reject with tcp reset";
        for ends in [
            "ip saddr 127.0.0.3 ip daddr { 127.0.0.1, 127.0.0.2 }",
            "ip saddr { 127.0.0.1, 127.0.0.2 } ip daddr 127.0.0.3",
        ] {
            assert!(script.contains(&format!("{ends} {end}")), "{script}");
        }
        let end = unreset_script(addr(2));
        let table = |script: &str| script.split_whitespace().nth(2).map(str::to_owned);
        assert_ne!(
            table(&script),
            table(&end[4..]),
            "another node stays cut off"
        );
    }
}
