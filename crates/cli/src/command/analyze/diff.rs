//! `--diff`: what changed between two versions of a system, by names that survive other changes.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use serde_json::json;
use temblor_model::catalog::{ClassEntry, Region, SiteCatalog, State, Task, Timeout};
use temblor_model::site::Site;

use super::Examined;
use super::text::{clip, kebab, method_of, number, words};

/// Names of one kind that are printed; `--json` has all.
const SHOWN: usize = 20;

/// Two analyses, compared.
pub struct Diff {
    from: String,
    to: String,
    parts: Vec<Part>,
}

/// The things of one kind.
#[derive(Serialize)]
struct Part {
    #[serde(skip)]
    what: &'static str,
    from: usize,
    to: usize,
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<Change>,
}

/// The same name, with other contents.
#[derive(Serialize, Debug, PartialEq)]
struct Change {
    name: String,
    from: String,
    to: String,
}

/// Names to what must be equal in both.
type Named = BTreeMap<String, String>;

/// Names everything of one kind.
type Names = fn(&SiteCatalog) -> Named;

impl Diff {
    pub fn of(from: &Examined, to: &Examined) -> Diff {
        let kinds: [(&'static str, Names); 6] = [
            ("classes", classes),
            ("sites", sites),
            ("tasks", tasks),
            ("states", states),
            ("regions", regions),
            ("timeouts", timeouts),
        ];
        let part = |(what, named): (&'static str, Names)| {
            Part::of(what, &named(from.catalog()), &named(to.catalog()))
        };
        Diff {
            from: from.name.clone(),
            to: to.name.clone(),
            parts: kinds.map(part).into(),
        }
    }

    pub fn json(&self) -> String {
        let mut all = json!({"from": self.from, "to": self.to});
        for part in &self.parts {
            all[part.what] = json!(part);
        }
        all.to_string()
    }

    pub fn text(&self) -> String {
        let (from, to) = (clip(&self.from, 40), clip(&self.to, 40));
        let mut out = format!("{from} -> {to}\n\n");
        let heads = ["before", "after", "added", "removed", "changed"];
        let row = |out: &mut String, name: &str, cells: [String; 5]| {
            let cells = cells.map(|c| format!("{c:>10}")).concat();
            let _ = writeln!(out, "{name:<10}{cells}");
        };
        row(&mut out, "", heads.map(String::from));
        for part in &self.parts {
            let (added, removed) = (part.added.len(), part.removed.len());
            let figures = [part.from, part.to, added, removed, part.changed.len()];
            row(&mut out, part.what, figures.map(number));
        }
        for part in &self.parts {
            part.names(&mut out, "added", &part.added, "+");
            part.names(&mut out, "removed", &part.removed, "-");
            part.changes(&mut out);
        }
        out
    }
}

impl Part {
    fn of(what: &'static str, from: &Named, to: &Named) -> Part {
        let only = |these: &Named, those: &Named| -> Vec<String> {
            let names = these.keys().filter(|name| !those.contains_key(*name));
            names.cloned().collect()
        };
        let change = |(name, before): (&String, &String)| {
            let after = to.get(name)?;
            (before != after).then(|| Change {
                name: name.clone(),
                from: before.clone(),
                to: after.clone(),
            })
        };
        Part {
            what,
            from: from.len(),
            to: to.len(),
            added: only(to, from),
            removed: only(from, to),
            changed: from.iter().filter_map(change).collect(),
        }
    }

    fn names(&self, out: &mut String, how: &str, names: &[String], mark: &str) {
        if names.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{} {how}", self.what);
        for name in names.iter().take(SHOWN) {
            let _ = writeln!(out, "  {mark} {name}");
        }
        more(out, names.len());
    }

    fn changes(&self, out: &mut String) {
        // Of classes only the fact is known, and it is in the table.
        if self.changed.is_empty() || self.what == "classes" {
            return;
        }
        let _ = writeln!(out, "\n{} changed", self.what);
        for change in self.changed.iter().take(SHOWN) {
            let none = |text: &str| if text.is_empty() { "nothing" } else { text }.to_string();
            let (from, to) = (none(&change.from), none(&change.to));
            let _ = writeln!(out, "  {}\n      - {from}\n      + {to}", change.name);
        }
        more(out, self.changed.len());
    }
}

fn more(out: &mut String, all: usize) {
    if all > SHOWN {
        let _ = writeln!(out, "  and {} more; --json has all", number(all - SHOWN));
    }
}

fn classes(catalog: &SiteCatalog) -> Named {
    let class = |c: &ClassEntry| (c.name.replace('/', "."), format!("{:016x}", c.hash));
    catalog.classes.iter().map(class).collect()
}

/// Sites are equal when they raise the same exceptions.
fn sites(catalog: &SiteCatalog) -> Named {
    let site = |s: &Site| (s.name.clone(), s.exceptions.join(", "));
    catalog.sites.iter().map(site).collect()
}

fn tasks(catalog: &SiteCatalog) -> Named {
    let task = |t: &Task| {
        let variables = t.variables.join(", ");
        (t.name.clone(), format!("{} by {variables}", words(t.kind)))
    };
    catalog.tasks.iter().map(task).collect()
}

fn states(catalog: &SiteCatalog) -> Named {
    let state = |s: &State| (s.name.clone(), s.condition.clone());
    catalog.states.iter().map(state).collect()
}

/// Regions have no names of their own: kind, method and lock tell them apart, then a number.
fn regions(catalog: &SiteCatalog) -> Named {
    let region = |r: &Region| {
        let (kind, at) = (words(r.kind), method_of(&r.place));
        (format!("{kind} on {} in {at}", r.on), r.place.pc)
    };
    numbered(catalog.regions.iter().map(region))
}

/// As regions; their expression tells them apart.
fn timeouts(catalog: &SiteCatalog) -> Named {
    let timeout = |t: &Timeout| {
        let (kind, at) = (kebab(t.kind), method_of(&t.place));
        (format!("{kind} `{}` in {at}", t.expression), t.place.pc)
    };
    numbered(catalog.timeouts.iter().map(timeout))
}

/// Gives the second and later things of one name a number, in the order of their positions.
fn numbered(things: impl Iterator<Item = (String, u32)>) -> Named {
    let mut things: Vec<(String, u32)> = things.collect();
    things.sort();
    let mut out = Named::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (name, _) in things {
        let n = seen.entry(name.clone()).or_default();
        *n += 1;
        let name = if *n == 1 {
            name
        } else {
            format!("{name} #{n}")
        };
        out.insert(name, String::new());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{catalog, examined, place};
    use super::*;
    use temblor_model::catalog::RegionKind;

    /// The next version: one site gone, one new, one that raises more, a second lock.
    fn next() -> SiteCatalog {
        let mut next = catalog();
        let mut new = next.sites[2].clone();
        new.name = "org.mine.Node.parse(String)>org.mine.Codec.decode#1".into();
        next.sites.remove(3);
        next.sites.push(new);
        next.sites[1].exceptions.push("org.mine.LogFull".into());
        next.classes[0].hash = 8;
        next.classes.push(ClassEntry {
            name: "org/mine/New".into(),
            hash: 1,
            blocks: Vec::new(),
        });
        next.regions.push(Region {
            id: 1,
            ..next.regions[0].clone()
        });
        next.regions.push(Region {
            id: 2,
            kind: RegionKind::Lock,
            place: place("Peer", "join", 19),
            on: "this.lock".into(),
            waiters: Vec::new(),
        });
        next.states[1].condition = "this.role == FOLLOWER".into();
        next.tasks.clear();
        next
    }

    fn diff() -> Diff {
        let mut to = examined(next(), 0);
        to.name = "mine@2".into();
        Diff::of(&examined(catalog(), 0), &to)
    }

    #[test]
    fn counts_come_first_then_names() {
        let text = diff().text();
        let expected = "\
mine@1 -> mine@2

              before     after     added   removed   changed
classes            1         2         1         0         1
sites              4         4         1         1         1
tasks              1         0         0         1         0
states             2         2         0         0         1
regions            1         3         2         0         0
timeouts           1         1         0         0         0

classes added
  + org.mine.New

sites added
  + org.mine.Node.parse(String)>org.mine.Codec.decode#1

sites removed
  - org.mine.Node.tick(String)>java.net.SocketInputStream.read#0

sites changed
  org.mine.Log.append(String)>java.io.FileDescriptor.sync#0
      - java.io.IOException
      + java.io.IOException, org.mine.LogFull

tasks removed
  - org.mine.Node.run()

states changed
  org.mine.Node.run():1
      - this.role == LEADER
      + this.role == FOLLOWER

regions added
  + lock on this.lock in org.mine.Peer.join(String)
  + synchronized method on this in org.mine.Log.append(String) #2
";
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn json_has_every_name() {
        let all: serde_json::Value = serde_json::from_str(&diff().json()).unwrap();
        assert_eq!(all["from"], "mine@1");
        assert_eq!(all["sites"]["added"].as_array().unwrap().len(), 1);
        assert_eq!(
            all["sites"]["changed"][0]["to"],
            "java.io.IOException, org.mine.LogFull"
        );
        assert_eq!(all["classes"]["changed"][0]["name"], "org.mine.Log");
        assert_eq!(all["regions"]["to"], 3);
    }

    #[test]
    fn a_version_does_not_differ_from_itself() {
        let one = examined(next(), 0);
        let diff = Diff::of(&one, &one);
        for part in &diff.parts {
            let differences = part.added.len() + part.removed.len() + part.changed.len();
            assert_eq!(differences, 0, "{}", part.what);
        }
        assert_eq!(diff.parts[4].to, 3, "nothing is lost that has a twin");
    }

    #[test]
    fn long_lists_end_with_how_many_more() {
        let mut to = catalog();
        for n in 0..25 {
            let mut site = to.sites[0].clone();
            site.name = format!("org.mine.Many.m{n:02}()>x.Y.z#0");
            to.sites.push(site);
        }
        let text = Diff::of(&examined(catalog(), 0), &examined(to, 0)).text();
        assert!(
            text.contains("  + org.mine.Many.m19()>x.Y.z#0\n  and 5 more; --json"),
            "{text}"
        );
    }
}
