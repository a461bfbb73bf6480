//! `--list`: everything of one kind, a line each.

use std::fmt::Write;

use serde_json::{Value, json};
use temblor_model::catalog::{
    Group, Message, MetaAccess, Region, Removed, SiteCatalog, State, Task, TimeUnit, Timeout,
};
use temblor_model::site::Site;

use super::Examined;
use super::text::{kebab, line, method_of, place, words};
use crate::args::ListWhat;

/// The list as lines, or as one JSON object that holds the items as the catalog has them.
pub fn list(examined: &Examined, what: ListWhat, json: bool) -> String {
    let catalog = examined.catalog();
    if json {
        let items = items(catalog, what);
        let count = items.as_array().map_or(0, Vec::len);
        let what = what_word(what);
        let all = json!({
            "target": examined.name, "what": what, "count": count, "items": items,
            "diagnostics": examined.analysis.diagnostics,
        });
        return all.to_string();
    }
    let lines = lines(catalog, what);
    if lines.is_empty() {
        return format!("{} has no {}", examined.name, what_word(what));
    }
    let mut out = String::new();
    for line in lines {
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

fn what_word(what: ListWhat) -> String {
    format!("{what:?}").to_lowercase()
}

fn items(catalog: &SiteCatalog, what: ListWhat) -> Value {
    match what {
        ListWhat::Sites => json!(catalog.sites),
        ListWhat::Tasks => json!(catalog.tasks),
        ListWhat::States => json!(catalog.states),
        ListWhat::Regions => json!(catalog.regions),
        ListWhat::Timeouts => json!(catalog.timeouts),
        ListWhat::Groups => json!(catalog.groups),
        ListWhat::Messages => json!(catalog.messages),
        ListWhat::Meta => json!(catalog.meta_accesses),
        ListWhat::Removed => json!(catalog.removed),
    }
}

fn lines(catalog: &SiteCatalog, what: ListWhat) -> Vec<String> {
    match what {
        ListWhat::Sites => catalog.sites.iter().map(site).collect(),
        ListWhat::Tasks => tasks(catalog),
        ListWhat::States => states(catalog),
        ListWhat::Regions => regions(catalog),
        ListWhat::Timeouts => catalog.timeouts.iter().map(timeout).collect(),
        ListWhat::Groups => groups(catalog),
        ListWhat::Messages => messages(catalog),
        ListWhat::Meta => meta(catalog),
        ListWhat::Removed => removed(catalog),
    }
}

/// What can be done at a site, in a word for each fault.
fn site(site: &Site) -> String {
    let faults = match (site.exceptions.is_empty(), site.io) {
        (false, None) => "throw".to_string(),
        (throws, Some(io)) => {
            let throw = if throws { "" } else { "throw " };
            format!("{throw}{} {}", kebab(io.medium), kebab(io.direction))
        }
        (true, None) => "call".to_string(),
    };
    format!(
        "{:>5}  {faults:<22} {}{}",
        site.id,
        site.name,
        line(site.line)
    )
}

fn tasks(catalog: &SiteCatalog) -> Vec<String> {
    let task = |t: &Task| {
        let states = catalog.states.iter().filter(|s| s.task == t.id).count();
        let closure = if t.closure { " (closure)" } else { "" };
        let variables = match t.variables.is_empty() {
            true => String::new(),
            false => format!("  by {}", t.variables.join(", ")),
        };
        let (kind, at) = (words(t.kind), line(t.place.line));
        let name = &t.name;
        format!(
            "{:>5}  {kind:<9} {states:>3} states  {name}{closure}{at}{variables}",
            t.id
        )
    };
    catalog.tasks.iter().map(task).collect()
}

fn states(catalog: &SiteCatalog) -> Vec<String> {
    let state = |s: &State| {
        let condition = match s.condition.as_str() {
            "" => "entry".to_string(),
            condition => format!("when {condition}"),
        };
        format!("{:>5}  {}{}  {condition}", s.id, s.name, line(s.place.line))
    };
    catalog.states.iter().map(state).collect()
}

fn regions(catalog: &SiteCatalog) -> Vec<String> {
    let region = |r: &Region| {
        let waiters = match r.waiters.as_slice() {
            [] => String::new(),
            [one] => format!("  waits: {}", place(one)),
            [first, rest @ ..] => format!("  waits: {} and {} more", place(first), rest.len()),
        };
        let (kind, at) = (words(r.kind), place(&r.place));
        format!("{:>5}  {kind:<20} on {}  {at}{waiters}", r.id, r.on)
    };
    catalog.regions.iter().map(region).collect()
}

fn timeout(t: &Timeout) -> String {
    let (kind, at) = (words(t.kind), place(&t.place));
    let value = value(t).map(|v| format!("  = {v}")).unwrap_or_default();
    format!("{:>5}  {kind:<8} {}{value}  {at}", t.id, t.expression)
}

/// The value of a timeout that is a constant, with its unit.
pub fn value(timeout: &Timeout) -> Option<String> {
    let unit = match timeout.unit {
        TimeUnit::Nanoseconds => "ns",
        TimeUnit::Milliseconds => "ms",
        TimeUnit::Seconds => "s",
        TimeUnit::Argument => "of the unit that is passed",
    };
    timeout.constant.map(|value| format!("{value} {unit}"))
}

fn groups(catalog: &SiteCatalog) -> Vec<String> {
    let group = |g: &Group| {
        let representative = g.representative().and_then(|id| catalog.site(id));
        let name = representative.map_or("(no site)", |s| s.name.as_str());
        let ids: Vec<String> = g.sites.iter().map(u32::to_string).collect();
        format!(
            "{:>5}  {} sites  {name}  (sites {})",
            g.id,
            g.sites.len(),
            ids.join(", ")
        )
    };
    catalog.groups.iter().map(group).collect()
}

fn messages(catalog: &SiteCatalog) -> Vec<String> {
    let message = |m: &Message| {
        let given = if m.given {
            "  (named in target.toml)"
        } else {
            ""
        };
        format!("{:<7} {}{given}", words(m.side), place(&m.place))
    };
    catalog.messages.iter().map(message).collect()
}

fn meta(catalog: &SiteCatalog) -> Vec<String> {
    let access = |m: &MetaAccess| {
        let (way, at) = (if m.write { "write" } else { "read" }, method_of(&m.place));
        format!(
            "{:>5}  {way:<5} {}  in {at}{}",
            m.id,
            m.field,
            line(m.place.line)
        )
    };
    catalog.meta_accesses.iter().map(access).collect()
}

fn removed(catalog: &SiteCatalog) -> Vec<String> {
    let removed = |r: &Removed| format!("{}{}  {}", r.name, line(r.line), r.why);
    catalog.removed.iter().map(removed).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{catalog, examined};
    use super::*;

    fn listed(what: ListWhat) -> String {
        list(&examined(catalog(), 0), what, false)
    }

    #[test]
    fn sites_show_what_can_be_done_to_them() {
        let expected = "    \
0  throw disk write       org.mine.Log.append(String)>java.io.OutputStream.write#0 line 40
    1  throw disk control     org.mine.Log.append(String)>java.io.FileDescriptor.sync#0 line 41
    2  throw                  org.mine.Node.parse(String)>org.mine.Codec.decode#0 line 42
    3  network read           org.mine.Node.tick(String)>java.net.SocketInputStream.read#0
";
        assert_eq!(listed(ListWhat::Sites), expected);
    }

    #[test]
    fn the_other_kinds_are_a_line_each() {
        let lines = [
            (
                ListWhat::Tasks,
                "    0  thread      2 states  org.mine.Node.run() line 20  by role, epoch",
            ),
            (
                ListWhat::Regions,
                "    0  synchronized method  on this  org.mine.Log.append(String) line 40  \
                 waits: org.mine.Node.status(String) line 70",
            ),
            (
                ListWhat::Timeouts,
                "    0  wait     this.acks.wait(500)  = 500 ms  org.mine.Node.tick(String) line 30",
            ),
            (
                ListWhat::Groups,
                "    0  2 sites  org.mine.Log.append(String)>java.io.FileDescriptor.sync#0  \
                 (sites 0, 1)",
            ),
            (
                ListWhat::Messages,
                "send    org.mine.Peer.send(String) line 15  (named in target.toml)",
            ),
            (
                ListWhat::Meta,
                "    0  write org.mine.Peer.members  in org.mine.Peer.join(String) line 19",
            ),
            (
                ListWhat::Removed,
                "org.mine.Codec.decode(byte[])>java.io.InputStream.read#0 line 9  \
                 the stream is a java.io.ByteArrayInputStream made in org.mine.Codec.decode:8",
            ),
        ];
        for (what, expected) in lines {
            assert_eq!(listed(what), format!("{expected}\n"), "{what:?}");
        }
        let states = "    0  org.mine.Node.run():0 line 20  entry\n    \
                      1  org.mine.Node.run():1 line 21  when this.role == LEADER\n";
        assert_eq!(listed(ListWhat::States), states);
    }

    #[test]
    fn an_empty_list_says_so() {
        let examined = examined(SiteCatalog::default(), 0);
        let text = list(&examined, ListWhat::Regions, false);
        assert_eq!(text, "mine@1 has no regions");
    }

    #[test]
    fn json_has_the_items_of_the_catalog() {
        for (what, field, wanted) in [
            (ListWhat::Sites, "callee", "java.io.OutputStream.write"),
            (ListWhat::Meta, "field", "org.mine.Peer.members"),
            (ListWhat::Regions, "kind", "synchronized-method"),
        ] {
            let text = list(&examined(catalog(), 0), what, true);
            let all: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(all["items"][0][field], wanted, "{all}");
            assert_eq!(all["count"], all["items"].as_array().unwrap().len());
        }
    }
}
