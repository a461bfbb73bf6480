//! `--explain`: why a site is there, or why it was removed.

mod find;
mod reasons;

use std::fmt::Write;

use serde_json::json;
use temblor_model::catalog::Removed;

use self::find::Found;
use self::reasons::Reasons;
use super::Examined;
use super::text::{count, line, number};
use crate::exit::BadInput;

/// Of several matches, so many are explained.
const EXPLAINED: usize = 3;
/// And so many are listed.
const LISTED: usize = 20;

/// Explains the sites that match, as text or as one JSON object.
pub fn explain(examined: &Examined, wanted: &str, as_json: bool) -> anyhow::Result<String> {
    let catalog = examined.catalog();
    let found = find::find(catalog, wanted).map_err(|e| {
        let name = &examined.name;
        let next = format!("`temblor analyze {name} --list sites` lists all");
        BadInput(format!("{e} in {name}; {next}{}", near(catalog, wanted)))
    })?;
    let reasons: Vec<Reasons<'_>> = found
        .sites
        .iter()
        .take(EXPLAINED)
        .map(|site| Reasons::of(catalog, site))
        .collect();
    if as_json {
        let names: Vec<&str> = found.sites.iter().map(|s| s.name.as_str()).collect();
        let all = json!({
            "target": examined.name, "wanted": wanted, "matches": names,
            "explained": reasons, "removed": found.removed,
            "diagnostics": examined.analysis.diagnostics,
        });
        return Ok(all.to_string());
    }
    let mut parts: Vec<String> = Vec::new();
    if found.sites.len() + found.removed.len() > 1 {
        parts.push(overview(&found, wanted));
    }
    parts.extend(reasons.iter().map(Reasons::text));
    parts.extend(found.removed.iter().take(EXPLAINED).map(|r| removed(r)));
    Ok(parts.join("\n"))
}

/// The names that look most like what was asked for, a line each.
fn near(catalog: &temblor_model::catalog::SiteCatalog, wanted: &str) -> String {
    let names = find::nearest(catalog, wanted);
    let mut out = String::new();
    if !names.is_empty() {
        out.push_str("\nthe nearest are:");
    }
    for name in names {
        let _ = write!(out, "\n  {name}");
    }
    out
}

/// What matches, when it is not one thing.
fn overview(found: &Found<'_>, wanted: &str) -> String {
    let mut out = format!("`{wanted}` matches {}", count(found.sites.len(), "site"));
    if !found.removed.is_empty() {
        let _ = write!(
            out,
            " and {} that were removed",
            number(found.removed.len())
        );
    }
    let _ = match found.sites.len() > EXPLAINED {
        true => writeln!(out, "; the first {EXPLAINED} are explained"),
        false => writeln!(out),
    };
    for site in found.sites.iter().take(LISTED) {
        let _ = writeln!(out, "{:>7}  {}{}", site.id, site.name, line(site.line));
    }
    if found.sites.len() > LISTED {
        let _ = writeln!(
            out,
            "{:>7}  and {} more",
            "",
            number(found.sites.len() - LISTED)
        );
    }
    for removed in found.removed.iter().take(LISTED) {
        let _ = writeln!(out, "removed  {}{}", removed.name, line(removed.line));
    }
    if found.removed.len() > LISTED {
        let more = found.removed.len() - LISTED;
        let _ = writeln!(out, "removed  and {} more", number(more));
    }
    out
}

fn removed(removed: &Removed) -> String {
    format!(
        "removed  {}{}\n  no site: what the call declares cannot happen there\n  {}\n",
        removed.name,
        line(removed.line),
        removed.why
    )
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{catalog, examined};
    use super::*;

    fn explained(wanted: &str) -> String {
        explain(&examined(catalog(), 0), wanted, false).unwrap()
    }

    #[test]
    fn a_site_tells_all_its_reasons() {
        let text = explained("0");
        let expected = "\
site 0  org.mine.Log.append(String)>java.io.OutputStream.write#0
  at          org.mine.Log.append(String) line 40, position 10
  calls       java.io.OutputStream.write
  can throw   java.io.IOException
                declared by java.io.OutputStream.write, which has no body here
              org.mine.LogFull
                thrown in org.mine.Log.room:88, not handled on the way
  I/O         disk write, file this.logFile; so a delay makes sense too
              some callers pass a stream that is in memory only, others do not
  guarded by  region 0, synchronized method on this: org.mine.Log.append(String) line 40
                the site stands in it
                others wait at org.mine.Node.status(String) line 70
              timeout 0, wait `this.acks.wait(500)` (500 ms): org.mine.Node.tick(String) line 30
                through org.mine.Node.tick -> org.mine.Log.append
  group       0: 2 guarded sites of one basic block
              site 1 stands for it: org.mine.Log.append(String)>java.io.FileDescriptor.sync#0
  reached in  task 0, thread org.mine.Node.run(); its states depend on role, epoch
                state 1, when this.role == LEADER, line 21
                  through org.mine.Log.append
                state 0, the entry, line 20
                  in the task's own method
";
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn a_site_without_guards_and_states_says_so() {
        let text = explained("Codec.decode");
        let expected = "\
`Codec.decode` matches 1 site and 1 that were removed
      2  org.mine.Node.parse(String)>org.mine.Codec.decode#0 line 42
removed  org.mine.Codec.decode(byte[])>java.io.InputStream.read#0 line 9

site 2  org.mine.Node.parse(String)>org.mine.Codec.decode#0
  at          org.mine.Node.parse(String) line 42, position 12
  calls       org.mine.Codec.decode
  can throw   java.io.IOException
  I/O         none that is known: no delays
  guarded by  nothing: no region and no timeout is around it
  reached in  no task: only from main, from a library's threads, or not at all

removed  org.mine.Codec.decode(byte[])>java.io.InputStream.read#0 line 9
  no site: what the call declares cannot happen there
  the stream is a java.io.ByteArrayInputStream made in org.mine.Codec.decode:8
";
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn entries_of_the_jdk_and_single_members_of_groups_read_well() {
        let text = explained("3");
        assert!(
            text.contains("at          the entry of org.mine.Node.tick(String)"),
            "{text}"
        );
        assert!(
            text.contains("can throw   nothing: only delays make sense"),
            "{text}"
        );
        let text = explained("1");
        assert!(
            text.contains("group       0: 2 guarded sites of one basic block\n"),
            "{text}"
        );
        assert!(text.contains("this site stands for it"), "{text}");
    }

    #[test]
    fn json_carries_the_same_reasons() {
        let text = explain(&examined(catalog(), 0), "OutputStream.write", true).unwrap();
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        let site = &all["explained"][0];
        assert_eq!(all["matches"].as_array().unwrap().len(), 1, "{all}");
        assert_eq!(site["exceptions"][1]["name"], "org.mine.LogFull");
        assert_eq!(site["exceptions"][1]["origins"][0]["how"], "thrown");
        assert_eq!(site["io"]["target"], "file this.logFile");
        assert_eq!(site["guards"][0]["region"]["on"], "this");
        assert_eq!(site["guards"][1]["timeout"]["constant"], 500);
        assert_eq!(site["guards"][1]["via"][1], "org.mine.Log.append");
        assert_eq!(site["group"]["representative"], 1);
        assert_eq!(site["reached"][0]["task"]["name"], "org.mine.Node.run()");
        assert_eq!(
            site["reached"][0]["state"]["condition"],
            "this.role == LEADER"
        );
        let removed = explain(&examined(catalog(), 0), "InputStream.read", true).unwrap();
        let removed: serde_json::Value = serde_json::from_str(&removed).unwrap();
        assert_eq!(removed["removed"].as_array().unwrap().len(), 1, "{removed}");
    }

    #[test]
    fn a_name_that_fits_nothing_gives_the_nearest() {
        let error = explain(&examined(catalog(), 0), "FileDescriptor.synk", false).unwrap_err();
        assert!(error.is::<BadInput>());
        let text = error.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "no site matches `FileDescriptor.synk` in mine@1; \
             `temblor analyze mine@1 --list sites` lists all"
        );
        assert!(lines[2].contains("FileDescriptor.sync"), "{text}");
        let beyond = explain(&examined(catalog(), 0), "99", false).unwrap_err();
        assert!(
            beyond.to_string().contains("no site 99, only 0 to 3"),
            "{beyond}"
        );
    }

    #[test]
    fn many_matches_are_listed_and_a_few_explained() {
        let mut many = catalog();
        let sync = many.sites[1].clone();
        for n in 0..30 {
            let mut site = sync.clone();
            site.id = 4 + n;
            site.name = format!(
                "org.mine.Log.append(String)>java.io.FileDescriptor.sync#{}",
                n + 1
            );
            many.sites.push(site);
        }
        let text = explain(&examined(many, 0), "FileDescriptor.sync", false).unwrap();
        let first = text.lines().next().unwrap();
        let expected = "`FileDescriptor.sync` matches 31 sites; the first 3 are explained";
        assert_eq!(first, expected);
        assert_eq!(text.matches("\nsite ").count(), EXPLAINED);
        assert!(text.contains("         and 11 more\n"), "{text}");
    }
}
