//! What CI systems read: JUnit XML and SARIF, well formed, complete, and true to the campaign.

use serde_json::Value;
use temblor_model::campaign::EventSink;
use temblor_model::catalog::SiteCatalog;
use temblor_model::site::Site;
use temblor_report::sarif::EvidenceOf;
use temblor_report::view::{BugView, CampaignView};
use temblor_report::{Store, StoreSink, junit, publish, sarif};

use crate::folded::{folded, sample_view};
use crate::sample;

/// A catalog that knows the line of one site.
fn catalog() -> SiteCatalog {
    let site = Site {
        name: sample::SNAPSHOT_SITE.into(),
        class: "trio/Snapshots".into(),
        line: Some(59),
        ..Site::default()
    };
    SiteCatalog {
        format: SiteCatalog::FORMAT,
        sites: vec![site],
        ..SiteCatalog::default()
    }
}

fn evidence() -> EvidenceOf {
    let of = |bug: temblor_model::bug::Bug, events| {
        let id = bug.id.clone();
        let view = BugView::new(bug, sample::spec(), 1, 8.0, events, String::new());
        (id, view.evidence)
    };
    EvidenceOf::from([
        of(sample::delay_bug(), sample::delay_events()),
        of(sample::crash_bug(), sample::crash_events()),
    ])
}

fn sarif_of(view: &CampaignView) -> Value {
    let text = sarif::campaign(view, Some(&catalog()), &evidence());
    let log = serde_json::from_str(&text).expect("SARIF is JSON");
    assert_valid_sarif(&log);
    log
}

/// An element of the small part of XML that JUnit files need.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Element>,
    text: String,
}

impl Element {
    fn get(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(n, _)| n == name);
        &found
            .unwrap_or_else(|| panic!("{} has no {name}", self.name))
            .1
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |c| c.name == name)
    }
}

fn unescape(text: &str) -> String {
    let plain = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"");
    plain.replace("&#39;", "'").replace("&amp;", "&")
}

/// Panics on anything that is not well formed.
fn parse(text: &str) -> Element {
    let declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    let mut rest = text.strip_prefix(declaration).expect("a declaration");
    let mut open = vec![Element::default()];
    while let Some(at) = rest.find('<') {
        let before = &rest[..at];
        assert!(!before.contains('>'), "an unescaped > in {before:?}");
        open.last_mut().unwrap().text.push_str(&unescape(before));
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let done = open.pop().unwrap();
            assert_eq!(done.name, name);
            open.last_mut().unwrap().children.push(done);
            continue;
        }
        let (inside, closed) = match tag.strip_suffix('/') {
            Some(inside) => (inside, true),
            None => (tag, false),
        };
        let (name, attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        let mut element = Element {
            name: name.into(),
            ..Element::default()
        };
        let mut parts = attributes.split('"');
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            let name = name.trim().strip_suffix('=').expect("name=\"value\"");
            assert!(!value.contains('\n'), "a line end in {name}");
            element.attributes.push((name.into(), unescape(value)));
        }
        match closed {
            true => open.last_mut().unwrap().children.push(element),
            false => open.push(element),
        }
    }
    assert_eq!(open.len(), 1, "all elements are closed");
    let root = open.pop().unwrap();
    root.children.into_iter().next().expect("one root element")
}

#[test]
fn junit_has_a_case_for_each_search_trial() {
    let text = junit::campaign(&sample_view());
    assert!(!text.contains('\x1b'), "control characters are not XML");
    let root = parse(&text);
    assert_eq!(root.name, "testsuites");
    let suites: Vec<&Element> = root.all("testsuite").collect();
    assert_eq!(suites.len(), 1);
    let suite = suites[0];
    assert_eq!(suite.get("name"), "temblor trio@1");
    let cases: Vec<&Element> = suite.all("testcase").collect();
    let with = |name: &str| {
        cases
            .iter()
            .filter(|c| c.all(name).next().is_some())
            .count()
    };
    assert_eq!((cases.len(), with("failure"), with("skipped")), (60, 4, 10));
    for (name, value) in [
        ("tests", "60"),
        ("failures", "4"),
        ("errors", "0"),
        ("skipped", "10"),
    ] {
        assert_eq!(suite.get(name), value, "{name}");
        assert_eq!(root.get(name), value, "{name}");
    }
    let properties = suite.all("properties").next().expect("properties");
    let seed = properties.all("property").find(|p| p.get("name") == "seed");
    assert_eq!(seed.unwrap().get("value"), "7");
    let names: std::collections::BTreeSet<_> = cases
        .iter()
        .map(|c| (c.get("classname"), c.get("name")))
        .collect();
    assert_eq!(names.len(), 60, "each case has a name of its own");
}

#[test]
fn junit_failures_are_bugs_and_end_with_the_replay_command() {
    let root = parse(&junit::campaign(&sample_view()));
    let suite = &root.children[0];
    let failing = suite
        .all("testcase")
        .filter(|c| c.all("failure").next().is_some());
    let failing: Vec<&Element> = failing.collect();
    let classes: Vec<&str> = failing.iter().map(|c| c.get("classname")).collect();
    assert_eq!(
        classes,
        [
            "trio.Log",
            "trio.Snapshots",
            "trio.Snapshots",
            "trio.Snapshots"
        ]
    );
    let delay = failing[1];
    assert_eq!(
        delay.get("name"),
        "delay 60 s at Snapshots.send > DataOutputStream.writeUTF on n1 [5f2e9a01]"
    );
    assert!(failing[2].get("name").ends_with("[5f2e9a01] (trial 20)"));
    let failure = delay.all("failure").next().unwrap();
    assert_eq!(failure.get("message"), sample::delay_bug().title);
    assert_eq!(failure.get("type"), "hang");
    for part in [
        "bug:       b3f9c1d2",
        &format!("signature: {}", sample::delay_bug().signature),
        &format!("plan:      {}", sample::delay_plan()),
        "known:     snapshot-under-lock",
        "confirmed: Replays showed it 3 of 3 times, on the real clock 1 of 1.",
        "hang checker: threads blocked on trio.Store",
    ] {
        assert!(
            failure.text.contains(part),
            "{part} is missing in {}",
            failure.text
        );
    }
    let last = failure.text.lines().last().unwrap();
    assert_eq!(last, "replay: ./temblor replay b3f9c1d2");
}

#[test]
fn junit_skips_what_tells_nothing_and_says_why() {
    let root = parse(&junit::campaign(&sample_view()));
    let skipped = root.children[0]
        .all("testcase")
        .flat_map(|c| c.all("skipped"));
    let mut reasons: Vec<&str> = skipped.map(|s| s.get("message")).collect();
    reasons.sort_unstable();
    reasons.dedup();
    assert_eq!(
        reasons,
        [
            "the fault was never reached",
            "unknown: the history is cut off"
        ]
    );
}

#[test]
fn a_bug_whose_trial_is_torn_still_fails_the_build() {
    let mut view = sample_view();
    view.trials.retain(|t| t.trial != 31);
    let root = parse(&junit::campaign(&view));
    let cases: Vec<&Element> = root.children[0].all("testcase").collect();
    assert_eq!(cases.len(), 60);
    let own = cases
        .iter()
        .find(|c| c.get("name").ends_with("(bug 77aa01fe)"));
    let own = own.expect("a case of its own");
    assert!(own.all("failure").next().is_some());
}

#[test]
fn a_failure_that_no_replay_confirmed_is_skipped() {
    let mut view = sample_view();
    view.bugs.retain(|(bug, _)| bug.id != "b3f9c1d2");
    view.trials
        .iter_mut()
        .for_each(|t| t.bugs.retain(|id| id != "b3f9c1d2"));
    let root = parse(&junit::campaign(&view));
    assert_eq!((root.get("failures"), root.get("skipped")), ("1", "13"));
    let skipped = root.children[0]
        .all("testcase")
        .flat_map(|c| c.all("skipped"));
    let why = "failed once, not confirmed by replays: threads blocked on trio.Store";
    assert_eq!(skipped.filter(|s| s.get("message") == why).count(), 3);
}

/// Panics on nulls anywhere, and on what the specification wants and is not there.
fn assert_valid_sarif(log: &Value) {
    fn no_nulls(value: &Value, at: &str) {
        match value {
            Value::Null => panic!("null at {at}"),
            Value::Array(all) => all.iter().for_each(|v| no_nulls(v, at)),
            Value::Object(all) => all
                .iter()
                .for_each(|(k, v)| no_nulls(v, &format!("{at}/{k}"))),
            _ => {}
        }
    }
    no_nulls(log, "");
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert!(run["tool"]["driver"]["name"].is_string());
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let bases = run["originalUriBaseIds"].as_object().unwrap();
    let location = |location: &Value| {
        if let Some(physical) = location.get("physicalLocation") {
            let artifact = &physical["artifactLocation"];
            let uri = artifact["uri"].as_str().unwrap();
            assert!(!uri.starts_with('/') && !uri.contains([' ', '\\']), "{uri}");
            assert!(bases.contains_key(artifact["uriBaseId"].as_str().unwrap()));
            let line = physical
                .get("region")
                .map(|r| r["startLine"].as_u64().unwrap());
            assert!(line.is_none_or(|line| line >= 1));
        }
        let logical = location["logicalLocations"].as_array().unwrap();
        assert!(logical.iter().all(|l| l["fullyQualifiedName"].is_string()));
    };
    for result in run["results"].as_array().unwrap() {
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        assert_eq!(result["level"], "error");
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let prints = result["partialFingerprints"].as_object().unwrap();
        assert!(prints.values().all(Value::is_string) && !prints.is_empty());
        result["locations"]
            .as_array()
            .unwrap()
            .iter()
            .for_each(location);
        for flow in result
            .get("codeFlows")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            for thread in flow["threadFlows"].as_array().unwrap() {
                let steps = thread["locations"].as_array().unwrap();
                assert!(!steps.is_empty(), "a thread flow has at least one location");
                steps.iter().for_each(|step| location(&step["location"]));
            }
        }
    }
}

#[test]
fn sarif_has_a_result_for_each_bug_at_its_site() {
    let log = sarif_of(&sample_view());
    let run = &log["runs"][0];
    assert_eq!(run["automationDetails"]["id"], "temblor/trio@1/");
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    let delay = &results[0];
    assert_eq!(delay["ruleId"], "hang");
    let text = delay["message"]["text"].as_str().unwrap();
    for part in [
        "hang checker: threads blocked on trio.Store",
        "Plan: delay 60 s at trio.Snapshots.send",
        "Replays showed it 3 of 3 times",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(
        text.lines()
            .last()
            .unwrap()
            .starts_with("Replay: ./temblor replay ")
    );
    let place = &delay["locations"][0];
    let physical = &place["physicalLocation"];
    assert_eq!(physical["artifactLocation"]["uri"], "trio/Snapshots.java");
    // The line of the catalog, not that of the stack.
    assert_eq!(physical["region"]["startLine"], 59);
    let name = &place["logicalLocations"][0]["fullyQualifiedName"];
    assert_eq!(name, "trio.Snapshots.send");
    let print = &delay["partialFingerprints"]["temblorSignature/v1"];
    assert_eq!(print, &Value::from(sample::delay_bug().signature));
    assert_eq!(delay["properties"]["known"], "snapshot-under-lock");
    assert_eq!(
        delay["properties"]["trials"],
        serde_json::json!([12, 20, 44])
    );
}

#[test]
fn sarif_code_flows_lead_from_the_thread_to_the_site() {
    let log = sarif_of(&sample_view());
    let results = log["runs"][0]["results"].as_array().unwrap();
    let flow = &results[0]["codeFlows"][0]["threadFlows"][0];
    assert_eq!(flow["id"], "n1, thread snapshot-sender-3");
    let steps = flow["locations"].as_array().unwrap();
    let uri = |step: &Value| {
        let physical = &step["location"]["physicalLocation"];
        let line = physical["region"]["startLine"].as_u64();
        let uri = physical["artifactLocation"]["uri"].as_str();
        format!("{}:{}", uri.unwrap_or("none"), line.unwrap_or(0))
    };
    let uris: Vec<String> = steps.iter().map(uri).collect();
    assert_eq!(
        uris,
        [
            // The JDK's sources are not among the target's.
            "none:0",
            "trio/net/Acceptor.java:52",
            "trio/net/Acceptor.java:77",
            "trio/Leader.java:140",
            "trio/Snapshots.java:61",
        ]
    );
    let said = &steps[4]["location"]["message"]["text"];
    assert!(
        said.as_str()
            .unwrap()
            .starts_with("injected here: delay 60 s on n1")
    );
    // Faults of the lab have no stack: one flow for four faults.
    assert_eq!(results[1]["codeFlows"].as_array().unwrap().len(), 1);
}

#[test]
fn sarif_of_a_bug_without_a_site_names_the_target() {
    let mut view = sample_view();
    let mut bug = sample::crash_bug();
    bug.id = "0000aaaa".into();
    view.bugs.push((bug, "./temblor replay 0000aaaa".into()));
    let log = sarif_of(&view);
    let place = &log["runs"][0]["results"][2]["locations"][0];
    assert_eq!(place["logicalLocations"][0]["fullyQualifiedName"], "trio@1");
    assert_eq!(place.get("physicalLocation"), None);
}

#[test]
fn without_a_catalog_the_line_is_that_of_the_stack() {
    let text = sarif::campaign(&sample_view(), None, &evidence());
    let log: Value = serde_json::from_str(&text).unwrap();
    assert_valid_sarif(&log);
    let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], 61);
}

#[test]
fn a_site_inside_the_jdk_is_shown_where_the_target_calls_it() {
    let mut evidence = evidence();
    let fault = &mut evidence.get_mut("b3f9c1d2").unwrap()[0];
    fault.site = "java.io.FileOutputStream.write(byte[])".into();
    let inside = "java.base/java.io.FileOutputStream.write(FileOutputStream.java:349)";
    fault.frames.insert(0, inside.into());
    let text = sarif::campaign(&sample_view(), None, &evidence);
    let log: Value = serde_json::from_str(&text).unwrap();
    assert_valid_sarif(&log);
    let place = &log["runs"][0]["results"][0]["locations"][0];
    let physical = &place["physicalLocation"];
    assert_eq!(physical["artifactLocation"]["uri"], "trio/Snapshots.java");
    assert_eq!(physical["region"]["startLine"], 61);
    let name = &place["logicalLocations"][0]["fullyQualifiedName"];
    assert_eq!(name, "java.io.FileOutputStream.write");
}

#[test]
fn a_campaign_without_bugs_gives_valid_empty_files() {
    let view = folded(sample::spec(), []);
    let log = sarif_of(&view);
    assert_eq!(log["runs"][0]["results"], serde_json::json!([]));
    let success = &log["runs"][0]["invocations"][0]["executionSuccessful"];
    assert_eq!(success, false, "it has not finished");
    let root = parse(&junit::campaign(&view));
    assert_eq!(root.get("tests"), "0");
}

#[test]
fn both_files_are_written_beside_the_page() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::create(root.path(), &sample::spec(), "t").unwrap();
    store.write_catalog(&catalog()).unwrap();
    let mut sink = StoreSink::new(store.clone());
    let bug_trials = 12..=31;
    for event in sample::campaign("store") {
        let kept = match &event {
            temblor_model::campaign::CampaignEvent::TrialDone { trial, .. }
            | temblor_model::campaign::CampaignEvent::TrialStarted { trial, .. } => {
                bug_trials.contains(trial)
            }
            _ => true,
        };
        if kept {
            sink.event(&event);
        }
    }
    assert!(sink.failure().first().is_none(), "{:?}", sink.failure());
    let read = |name: &str| std::fs::read_to_string(store.path().join(name)).unwrap();
    let check = || {
        let log: Value = serde_json::from_str(&read("results.sarif")).unwrap();
        assert_valid_sarif(&log);
        let results = log["runs"][0]["results"].as_array().unwrap();
        let place = &results[0]["locations"][0]["physicalLocation"];
        assert_eq!(
            (results.len(), &place["region"]["startLine"]),
            (2, &59.into())
        );
        assert_eq!(parse(&read("junit.xml")).get("tests"), "20");
    };
    // At the end of the campaign, and again whenever reports are asked for.
    check();
    std::fs::remove_file(store.path().join("junit.xml")).unwrap();
    publish::campaign(&store).unwrap();
    check();
}
