//! `temblor targets`: what can be tested here, and how to get what is missing.

use serde_json::json;
use temblor_cluster::artifact::{self, Coordinate, Criu, Depot, Jdk};
use temblor_cluster::target::{
    TargetError, TargetPlace, TargetStatus, fetch_target, find_target, list_targets, parse_target,
    target_status,
};

use crate::args::{TargetsAction, TargetsArgs};
use crate::exit::{BadInput, Exit};
use crate::prepare::roots;
use crate::print::print;

/// Stands for every target there is.
const ALL: &str = "all";
const CRIU: &str = "criu";

pub fn run(args: &TargetsArgs) -> anyhow::Result<Exit> {
    match &args.action {
        None => list(args.json),
        Some(TargetsAction::Fetch { name }) => fetch(name),
        Some(TargetsAction::Path { name }) => path(name),
    }
}

/// A target and what can be done with it here; or what is wrong with its file.
struct Row {
    place: TargetPlace,
    status: Result<TargetStatus, TargetError>,
}

impl Row {
    fn full_name(&self) -> String {
        format!("{}@{}", self.place.name, self.place.version)
    }

    fn summary(&self) -> &str {
        self.status.as_ref().map_or("", |status| &status.summary)
    }

    /// The one it gets, or the one it would be given.
    fn jdk(&self) -> String {
        match &self.status {
            Ok(status) => match &status.jdk {
                Some(jdk) => jdk.major.to_string(),
                None => status.majors[0].to_string(),
            },
            Err(_) => "-".into(),
        }
    }

    fn abilities(&self) -> &'static str {
        match &self.status {
            Ok(status) if status.runs => "run, analyze",
            Ok(_) => "analyze",
            Err(_) => "-",
        }
    }

    /// What has to be typed before it can be used, if anything.
    fn fetch_command(&self) -> Option<String> {
        let status = self.status.as_ref().ok()?;
        (!status.is_here()).then(|| format!("./temblor targets fetch {}", self.full_name()))
    }

    fn state(&self) -> String {
        match (&self.status, self.fetch_command()) {
            (Err(error), _) => error.to_string(),
            (Ok(status), Some(command)) if status.jars => {
                format!("JDK {} is not here: {command}", status.majors[0])
            }
            (Ok(_), Some(command)) => format!("not here: {command}"),
            (Ok(status), None) if status.bundled => "bundled".into(),
            (Ok(_), None) => "fetched".into(),
        }
    }

    fn json(&self) -> serde_json::Value {
        let (name, version) = (&self.place.name, &self.place.version);
        match &self.status {
            Ok(status) => json!({
                "name": name,
                "version": version,
                "summary": status.summary,
                "jdk": status.jdk.as_ref().map(|jdk| jdk.major),
                "jdks_accepted": status.majors,
                "bundled": status.bundled,
                "fetched": status.is_here(),
                "fetch": self.fetch_command(),
                "can_run": status.runs,
            }),
            Err(error) => json!({"name": name, "version": version, "error": error.to_string()}),
        }
    }
}

fn rows(depot: &Depot) -> Vec<Row> {
    let row = |place: TargetPlace| Row {
        status: target_status(&place.dir, depot),
        place,
    };
    list_targets(&roots()).into_iter().map(row).collect()
}

fn list(json_wanted: bool) -> anyhow::Result<Exit> {
    let depot = Depot::of_user().map_err(bad)?;
    let (rows, jdks) = (rows(&depot), depot.installed_jdks());
    let criu = depot.find_criu().ok();
    if json_wanted {
        let targets: Vec<_> = rows.iter().map(Row::json).collect();
        let jdks: Vec<_> = jdks
            .iter()
            .map(|j| json!({"major": j.major, "version": j.full_version, "home": j.home}))
            .collect();
        let criu = criu.map(|c| json!({"version": c.version, "argv": c.argv()}));
        print(&json!({"targets": targets, "jdks": jdks, "criu": criu}).to_string())?;
        return Ok(Exit::Pass);
    }
    print(&(target_table(&rows) + &jdk_table(&jdks) + &criu_table(criu.as_ref())))?;
    Ok(Exit::Pass)
}

/// A system's summary, then its versions, newest first; wide rows end with what is widest.
fn target_table(rows: &[Row]) -> String {
    let widest = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let name_width = widest(&|row| row.full_name().len());
    let can_width = widest(&|row| row.abilities().len());
    let mut text = String::new();
    let mut system = None;
    for row in rows {
        let heading = (row.place.name.as_str(), row.summary());
        if system != Some(heading) {
            system = Some(heading);
            let gap = if text.is_empty() { "" } else { "\n" };
            let colon = if heading.1.is_empty() { "" } else { ": " };
            text += &format!("{gap}{}{colon}{}\n", heading.0, heading.1);
        }
        text += &format!(
            "  {:<name_width$}  JDK {:<2}  {:<can_width$}  {}\n",
            row.full_name(),
            row.jdk(),
            row.abilities(),
            row.state()
        );
    }
    if rows.is_empty() {
        text = "no targets: run this in the folder that holds `targets/`\n".into();
    }
    text
}

fn jdk_table(jdks: &[Jdk]) -> String {
    let mut text = String::from("\nJDKs\n");
    for jdk in jdks {
        let name = format!("jdk@{}", jdk.major);
        text += &format!("  {name:<7} {}\n", jdk.full_version);
    }
    let missing = artifact::KNOWN_MAJORS
        .iter()
        .filter(|m| !jdks.iter().any(|j| j.major == **m));
    for major in missing {
        let name = format!("jdk@{major}");
        text += &format!("  {name:<7} not here: ./temblor targets fetch {name}\n");
    }
    text
}

fn criu_table(criu: Option<&Criu>) -> String {
    let state = match criu {
        Some(criu) => criu.version.clone(),
        None => format!("not here: ./temblor targets fetch {CRIU}"),
    };
    format!("\nCRIU, for trials that start warm\n  {CRIU:<7} {state}\n")
}

fn bad(error: impl std::fmt::Display) -> BadInput {
    BadInput(error.to_string())
}

fn say(line: &str) {
    eprintln!("temblor: {line}");
}

fn fetch(name: &str) -> anyhow::Result<Exit> {
    if name == ALL {
        return fetch_all();
    }
    if name == CRIU {
        let criu = artifact::fetch_criu(&mut say).map_err(bad)?;
        println!("{}", criu.program());
        return Ok(Exit::Pass);
    }
    if let Some(major) = jdk_major(name)? {
        let jdk = artifact::fetch_jdk(major, &mut say).map_err(bad)?;
        println!("{}", jdk.home.display());
        return Ok(Exit::Pass);
    }
    if let Some((slot, coordinates)) = maven(name)? {
        let jars = artifact::fetch_maven(&slot, &coordinates, &mut say).map_err(bad)?;
        println!("{}", jars.folder.display());
        return Ok(Exit::Pass);
    }
    let dir = find_target(name, &roots()).map_err(bad)?;
    fetch_target(&dir, &mut say).map_err(bad)?;
    Ok(Exit::Pass)
}

/// Every target; one that cannot be had keeps no other from being fetched.
fn fetch_all() -> anyhow::Result<Exit> {
    let places = list_targets(&roots());
    let mut failed = Vec::new();
    for (i, place) in places.iter().enumerate() {
        let name = format!("{}@{}", place.name, place.version);
        say(&format!("{name}, {} of {}", i + 1, places.len()));
        if let Err(error) = fetch_target(&place.dir, &mut say) {
            say(&error.to_string());
            failed.push(name);
        }
    }
    if failed.is_empty() {
        return Ok(Exit::Pass);
    }
    Err(BadInput(format!(
        "{} of {} targets could not be fetched: {}; the reasons are above",
        failed.len(),
        places.len(),
        failed.join(", ")
    ))
    .into())
}

fn path(name: &str) -> anyhow::Result<Exit> {
    if name == CRIU {
        println!("{}", artifact::find_criu().map_err(bad)?.program());
        return Ok(Exit::Pass);
    }
    let place = match (jdk_major(name)?, maven(name)?) {
        (Some(major), _) => artifact::find_jdk(major).map_err(bad)?.home,
        (None, Some((slot, _))) => artifact::find_jars(&slot).map_err(bad)?.folder,
        (None, None) => artifact::find_jars(&slot_of(name)).map_err(bad)?.folder,
    };
    println!("{}", place.display());
    Ok(Exit::Pass)
}

/// The name a target's jars were fetched under; other names are taken as they are.
fn slot_of(name: &str) -> String {
    let config = find_target(name, &roots()).and_then(|dir| parse_target(&dir));
    match config {
        Ok(config) => format!("{}@{}", config.name.get_ref(), config.version.get_ref()),
        Err(_) => name.to_string(),
    }
}

fn jdk_major(name: &str) -> anyhow::Result<Option<u32>> {
    let Some(major) = name.strip_prefix("jdk@") else {
        return Ok(None);
    };
    let known = artifact::KNOWN_MAJORS;
    match major.parse::<u32>() {
        Ok(major) if known.contains(&major) => Ok(Some(major)),
        _ => Err(BadInput(format!("there is no jdk@{major}; choose one of {known:?}")).into()),
    }
}

/// `group:artifact:version`, several with commas: jars with all they need, named by the first.
fn maven(name: &str) -> anyhow::Result<Option<(String, Vec<Coordinate>)>> {
    if !name.contains(':') {
        return Ok(None);
    }
    let parse = |text: &str| text.parse::<Coordinate>().map_err(bad);
    let coordinates = name.split(',').map(parse).collect::<Result<Vec<_>, _>>()?;
    let slot = format!("{}@{}", coordinates[0].artifact, coordinates[0].version);
    Ok(Some((slot, coordinates)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(version: &str, status: Result<TargetStatus, TargetError>) -> Row {
        let place = TargetPlace {
            name: "store".into(),
            version: version.into(),
            dir: "x".into(),
        };
        Row { place, status }
    }

    fn status(jdk: Option<u32>, jars: bool, bundled: bool, runs: bool) -> TargetStatus {
        let jdk = jdk.map(|major| Jdk {
            home: "j".into(),
            major,
            full_version: String::new(),
        });
        TargetStatus {
            summary: "a store".into(),
            majors: vec![17, 11],
            jdk,
            jars,
            bundled,
            runs,
        }
    }

    fn rows() -> Vec<Row> {
        let broken = TargetError::NotFound {
            wanted: "y".into(),
            known: vec!["z".into()],
        };
        vec![
            row("12.1", Ok(status(Some(11), true, false, false))),
            row("9", Ok(status(Some(17), false, false, false))),
            row("8", Ok(status(None, true, false, true))),
            row("7", Ok(status(Some(17), true, true, true))),
            row("6", Err(broken)),
        ]
    }

    #[test]
    fn the_table_says_what_each_target_can_do_and_what_to_type() {
        let expected = "\
store: a store
  store@12.1  JDK 11  analyze       fetched
  store@9     JDK 17  analyze       not here: ./temblor targets fetch store@9
  store@8     JDK 17  run, analyze  JDK 17 is not here: ./temblor targets fetch store@8
  store@7     JDK 17  run, analyze  bundled

store
  store@6     JDK -   -             there is no target `y`; there are: z
";
        assert_eq!(target_table(&rows()), expected);
        assert!(target_table(&[]).starts_with("no targets: "));
    }

    #[test]
    fn a_missing_criu_names_the_command_that_gets_it() {
        let text = criu_table(None);
        assert!(
            text.contains("not here: ./temblor targets fetch criu\n"),
            "{text}"
        );
    }

    #[test]
    fn json_has_the_same_facts() {
        let [fetched, missing, no_jdk, bundled, broken] = rows()
            .iter()
            .map(Row::json)
            .collect::<Vec<_>>()
            .try_into()
            .expect("five");
        assert_eq!(
            (&fetched["fetched"], &fetched["jdk"]),
            (&json!(true), &json!(11))
        );
        assert_eq!(missing["fetch"], "./temblor targets fetch store@9");
        assert_eq!(
            (&no_jdk["fetched"], &no_jdk["jdk"]),
            (&json!(false), &json!(null))
        );
        assert_eq!(
            (&bundled["can_run"], &bundled["bundled"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(
            (&missing["can_run"], &missing["summary"]),
            (&json!(false), &json!("a store"))
        );
        assert!(
            broken["error"]
                .as_str()
                .expect("told")
                .contains("no target")
        );
    }
}
