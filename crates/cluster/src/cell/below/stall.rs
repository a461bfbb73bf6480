//! A network that stalls, as nftables scripts: TCP packets are dropped where they arrive, so to
//! both ends it looks as if they were under way for long.
//!
//! TCP sends again what was dropped, at intervals that double. What was sent during a stall thus
//! arrives some time after its end: up to as long again as the stall took, or at most a second
//! where the kernel lets that be set (`Cell::stall_ready`).

use std::fmt::Write;
use std::net::Ipv4Addr;

use super::super::probe::PROBE_ADDR;

const TABLE: &str = "temblor_stall";

/// Stalls what goes from one address to another, in that direction, besides what is stalled
/// already. `None` is every other address but that of probes: the lab's eyes stay open.
pub fn stall_script(from: Option<Ipv4Addr>, to: Option<Ipv4Addr>, port: Option<u16>) -> String {
    // A node reaches itself without a network.
    let source = address("saddr", from, to);
    let target = address("daddr", to, from);
    let ports: Vec<String> = match port {
        // Either end of a connection may be the one that listens.
        Some(port) => vec![format!("tcp dport {port}"), format!("tcp sport {port}")],
        None => vec!["meta l4proto tcp".to_string()],
    };
    let mut script = format!("add table ip {TABLE}\n");
    // Adding what is there changes nothing.
    let hook = "{ type filter hook input priority 1; policy accept; }";
    let _ = writeln!(script, "add chain ip {TABLE} hold {hook}");
    for port in ports {
        let _ = writeln!(
            script,
            "add rule ip {TABLE} hold {source} {target} {port} counter drop"
        );
    }
    script
}

fn address(field: &str, wanted: Option<Ipv4Addr>, other: Option<Ipv4Addr>) -> String {
    match (wanted, other) {
        (Some(addr), _) => format!("ip {field} {addr}"),
        (None, Some(other)) => format!("ip {field} != {{ {other}, {PROBE_ADDR} }}"),
        (None, None) => format!("ip {field} != {PROBE_ADDR}"),
    }
}

/// Ends all stalls; harmless when there is none.
pub fn unstall_script() -> String {
    format!("add table ip {TABLE}\ndelete table ip {TABLE}\n")
}

/// Prints the rules with their counters.
pub fn state_script() -> String {
    format!("add table ip {TABLE}\nlist table ip {TABLE}\n")
}

/// How many packets the printed rules have dropped.
pub fn packets_dropped(printed: &str) -> u64 {
    let words: Vec<&str> = printed.split_whitespace().collect();
    words
        .windows(3)
        .filter(|three| three[0] == "counter" && three[1] == "packets")
        .filter_map(|three| three[2].parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(i: u8) -> Option<Ipv4Addr> {
        Some(Ipv4Addr::new(127, 0, 0, i))
    }

    fn check(from: Option<Ipv4Addr>, to: Option<Ipv4Addr>, port: Option<u16>, rules: &[&str]) {
        let script = stall_script(from, to, port);
        let found: Vec<&str> = script
            .lines()
            .filter_map(|line| line.strip_prefix("add rule ip temblor_stall hold "))
            .collect();
        assert_eq!(found, rules, "{script}");
    }

    #[test]
    fn a_stall_drops_one_direction() {
        check(
            addr(1),
            addr(2),
            None,
            &["ip saddr 127.0.0.1 ip daddr 127.0.0.2 meta l4proto tcp counter drop"],
        );
        check(
            addr(1),
            addr(2),
            Some(70),
            &[
                "ip saddr 127.0.0.1 ip daddr 127.0.0.2 tcp dport 70 counter drop",
                "ip saddr 127.0.0.1 ip daddr 127.0.0.2 tcp sport 70 counter drop",
            ],
        );
    }

    #[test]
    fn a_stall_of_all_spares_probes_and_the_node_itself() {
        check(
            addr(3),
            None,
            None,
            &["ip saddr 127.0.0.3 ip daddr != { 127.0.0.3, 127.0.0.254 } \
               meta l4proto tcp counter drop"],
        );
        check(
            None,
            None,
            None,
            &["ip saddr != 127.0.0.254 ip daddr != 127.0.0.254 meta l4proto tcp counter drop"],
        );
    }

    #[test]
    fn counters_are_summed() {
        let printed = "chain hold {\n tcp dport 1 counter packets 3 bytes 10 drop\n \
            tcp sport 1 counter packets 4 bytes 0 drop\n}";
        assert_eq!(packets_dropped(printed), 7);
        assert_eq!(packets_dropped("table ip temblor_stall {\n}\n"), 0);
    }
}
