//! The pages are well formed, harmless, complete, and end with the command that replays.

use temblor_model::bug::Bug;
use temblor_model::campaign::EventSink;
use temblor_model::event::Event;
use temblor_report::timeline::{BandKind, OpEnd, Timeline};
use temblor_report::view::{BugView, CampaignView, short_site};
use temblor_report::{Store, StoreSink, html, markdown};

use crate::sample;

const REPLAY: &str = "./temblor replay b3f9c1d2";

fn view(bug: Bug, events: Vec<Event>) -> BugView {
    let spec = sample::spec();
    BugView::new(bug, spec, 12, sample::WARP, events, REPLAY.into())
}

fn delay_view() -> BugView {
    view(sample::delay_bug(), sample::delay_events())
}

/// Panics where tags do not balance.
pub fn assert_balanced(page: &str) {
    const VOID: [&str; 3] = ["!doctype", "meta", "input"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/');
        let name = name.split([' ', '\n', '/']).next().unwrap();
        assert!(!name.is_empty(), "an unescaped < before {tag:?}");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes what is open");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
        if name == "script" || name == "style" {
            let close = format!("</{name}>");
            rest = &rest[rest.find(&close).unwrap_or(0)..];
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

/// Nothing from outside is loaded and no hostile text got through.
pub fn assert_harmless(page: &str) {
    assert_eq!(page.matches("<script").count(), 1, "only our own script");
    assert!(!page.contains("<img") && !page.contains("alert('x')"));
    assert!(!page.contains('\x1b'));
    for outside in ["src=", "href=\"http", "@import", "url(http", "//cdn"] {
        let found = page.replace("img src=x", "").contains(outside);
        assert!(!found, "{outside} in the page");
    }
}

#[test]
fn a_bug_page_is_well_formed_harmless_and_complete() {
    for view in [
        delay_view(),
        view(sample::crash_bug(), sample::crash_events()),
    ] {
        let page = html::bug(&view);
        assert_balanced(&page);
        assert_harmless(&page);
        for part in [
            "<svg class=\"timeline\"",
            "<h2>Latency of operations</h2>",
            "<svg class=\"plot\"",
            "prefers-color-scheme: dark",
            REPLAY,
            "trio.Snapshots.send(Snapshots.java:61)",
            "<h2>Symptoms</h2>",
            "<h2>Plan</h2>",
            "[[step]]",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
    }
    let page = html::bug(&delay_view());
    for part in [
        "BLOCKED on trio.Store@1f2e",
        "known: snapshot-under-lock",
        "confirmed 3 of 3",
        "real clock 1 of 1",
        "<h2>Thread dumps</h2>",
        "java.net.SocketTimeoutException",
        "op never",
        "op wrong",
        "band delay",
        "mark error",
        "mark unhealthy",
        "role single",
        "span delay",
        "pt never",
        "pt wrong",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    // Each operation of the trial is a mark, with the form of its end; one more is in the legend.
    let timeline = Timeline::of(&delay_view());
    let bars = timeline.lanes.iter().flat_map(|l| &l.bars);
    let bars: Vec<OpEnd> = bars.map(|b| b.end).collect();
    for end in [
        OpEnd::Ok,
        OpEnd::Fail,
        OpEnd::Timeout,
        OpEnd::Wrong,
        OpEnd::Never,
    ] {
        let mark = format!("<path class=\"pt {}\"", end.name());
        let ops = bars.iter().filter(|e| **e == end).count();
        assert_eq!(page.matches(&mark).count(), ops + 1, "{mark}");
    }
}

#[test]
fn a_bug_page_without_events_still_tells_what_fired() {
    let view = view(sample::delay_bug(), Vec::new());
    let page = html::bug(&view);
    assert_balanced(&page);
    assert!(page.contains("events are not in the store"));
    assert!(page.contains("delay 60 s"));
    assert!(markdown::bug(&view).ends_with(&format!("{REPLAY}\n")));
}

#[test]
fn the_timeline_shows_delays_in_real_time_and_what_never_ended() {
    let timeline = Timeline::of(&delay_view());
    let names: Vec<&str> = timeline.lanes.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["n1", "n2", "n3", "c1", "c2", "c3"]);
    let n1 = &timeline.lanes[0];
    let delay = n1.bands.iter().find(|b| b.kind == BandKind::Delay);
    let delay = delay.expect("the delay is drawn");
    // 60 virtual seconds at factor 8.
    assert_eq!(delay.to_us - delay.from_us, 7_500_000);
    let c1 = &timeline.lanes[3];
    assert_eq!(c1.talks_to, "n1");
    assert_eq!(c1.bars.last().unwrap().end, OpEnd::Never);
    let down = n1.bands.iter().find(|b| b.kind == BandKind::Down);
    assert_eq!(down, None, "the end of the trial is no news");
}

#[test]
fn the_timeline_shows_crashes_restarts_and_partitions() {
    let timeline = Timeline::of(&view(sample::crash_bug(), sample::crash_events()));
    let band = |lane: usize, kind| {
        let bands = &timeline.lanes[lane].bands;
        let band = bands.iter().find(|b| b.kind == kind);
        band.map(|b| (b.from_us / 1000, b.to_us / 1000))
    };
    assert_eq!(band(1, BandKind::Down), Some((2603, 3105)));
    assert_eq!(band(0, BandKind::Partition), Some((3850, 5350)));
    assert_eq!(band(2, BandKind::Down), Some((6900, timeline.to_us / 1000)));
    assert_eq!(timeline.faults.len(), 4);
}

#[test]
fn a_markdown_report_ends_with_the_replay_command() {
    let text = markdown::bug(&delay_view());
    assert_eq!(text.lines().last().unwrap().trim(), REPLAY);
    for part in [
        "# delay in Snapshots.send",
        "15.2 s into the workload came a delay of 60 s on n1",
        "**Known bug:** `snapshot-under-lock`",
        "## Plan",
        "thread `snapshot-sender-3`",
        "## Symptoms",
        "BLOCKED on trio.Store@1f2e",
        "begins and never ends",
        "(×9, until +5.480 s)",
        "Replays showed it 3 of 3 times, on the real clock 1 of 1.",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let outside_code = text.split("```").step_by(2).collect::<String>();
    assert!(!outside_code.contains("<script>"));
}

#[test]
fn a_campaign_page_lists_bugs_and_trials() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::create(root.path(), &sample::spec(), "t").unwrap();
    let mut sink = StoreSink::new(store.clone());
    let events = sample::campaign("store");
    let (last, others) = events.split_last().unwrap();
    for event in others {
        sink.event(event);
    }
    let unfinished = CampaignView::gather(&store).unwrap();
    assert!(unfinished.unfinished);
    let s = &unfinished.summary;
    assert_eq!((s.trials, s.fired, s.unreached, s.unknown), (60, 52, 8, 2));
    assert!(html::campaign(&unfinished).contains("not finished"));
    sink.event(last);
    let page = std::fs::read_to_string(store.path().join("campaign.html")).unwrap();
    assert_balanced(&page);
    assert_harmless(&page);
    assert_eq!(page.matches("<tr class=").count(), 60);
    assert!(page.contains("href=\"bugs/b3f9c1d2/report.html\""));
    assert_eq!(page.matches("<svg class=\"plot\"").count(), 3);
    // Two bugs on the curve; four failing and two unknown trials, and the keys of the legend.
    for (class, marks) in [
        ("bug", 2),
        ("wrong", 4 + 1),
        ("unknown", 2 + 1),
        ("ok", 54 + 1),
    ] {
        let found = page.matches(&format!("<path class=\"pt {class}\"")).count();
        assert_eq!(found, marks, "{class}");
    }
    for row in [
        "<tr><td>search</td><td class=\"count\">54</td><td class=\"count\">2</td>\
         <td class=\"count\">4</td><td class=\"count\">60</td></tr>",
        "<tr><td>hang</td><td class=\"count\">54</td><td class=\"count\">2</td>\
         <td class=\"count\">4</td><td class=\"count\">60</td><td class=\"count\">1</td></tr>",
    ] {
        assert!(page.contains(row), "{row} is missing");
    }
    assert!(
        !page.contains("basic blocks"),
        "coverage is told only where it was counted"
    );
    let text = std::fs::read_to_string(store.path().join("report.md")).unwrap();
    assert!(
        text.contains("## 2 bugs") && text.contains("4 trials failed"),
        "{text}"
    );
}

#[test]
fn sites_are_shortened_for_people() {
    assert_eq!(
        short_site(sample::SNAPSHOT_SITE),
        "Snapshots.send > DataOutputStream.writeUTF"
    );
    assert_eq!(short_site("odd"), "odd");
    assert_eq!(
        short_site("trio.Ballot.<init>(File)>java.io.File.exists#0"),
        "Ballot.<init> > File.exists"
    );
}
