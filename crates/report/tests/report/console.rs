//! What people see while a campaign runs, on a terminal and in a pipe; and the last JSON line.

use std::time::Duration;

use temblor_model::campaign::{CampaignEvent, EventSink, Purpose, Tally};
use temblor_report::JsonSink;
use temblor_report::console::{Console, Look};
use temblor_report::progress::{Paint, Progress, live_lines, plain_line};

use crate::sample;

/// The campaign with a second for each trial event.
fn timed() -> Vec<(Duration, CampaignEvent)> {
    let mut at = Duration::ZERO;
    let time = |event: CampaignEvent| {
        if matches!(event, CampaignEvent::TrialDone { .. }) {
            at += Duration::from_secs(1);
        }
        (at, event)
    };
    sample::campaign("store/trio@1/t")
        .into_iter()
        .map(time)
        .collect()
}

fn shown(look: Look) -> String {
    let mut out = Vec::new();
    let mut console = Console::new(&mut out, look);
    for (at, event) in timed() {
        console.event_at(&event, at);
    }
    drop(console);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_pipe_gets_plain_lines() {
    let text = shown(Look::PLAIN);
    assert!(!text.contains('\x1b'));
    for line in [
        "trio@1 · exhaustive · seed 7 · 412 sites · 2 jobs · warp auto",
        "✓ 2 clean runs, 1 site reached, clock ×8",
        "trial 25 unknown: the history is cut off",
        "    confirmed 3 of 3, 1 of 1 on the real clock",
        "trio@1 · exhaustive · seed 7: 60 trials in 1 min 36 s",
        "    report    store/trio@1/t/bugs/b3f9c1d2/report.html",
        "    replay    ./temblor replay b3f9c1d2",
    ] {
        assert!(
            text.lines().any(|l| l == line),
            "{line:?} is missing in\n{text}"
        );
    }
    let bug = "BUG b3f9c1d2 delay in Snapshots.send: writes hang while n1 says it is healthy";
    assert!(text.contains(bug), "{text}");
    let progress = text.lines().filter(|l| l.contains("/60 trials"));
    assert_eq!(progress.count(), 6, "one each ten seconds\n{text}");
}

#[test]
fn a_terminal_is_redrawn_in_place_and_left_clean() {
    let look = Look {
        live: true,
        colour: false,
        width: Some(72),
    };
    let screen = screen_after(&shown(look));
    assert!(screen.iter().any(|l| l.starts_with("BUG b3f9c1d2")));
    let left = screen.iter().find(|l| l.contains('█') || l.contains('░'));
    assert_eq!(left, None, "the bar is gone at the end");
    assert_eq!(screen.last().unwrap(), "store store/trio@1/t");
}

/// What a terminal shows after these bytes; knows only the sequences the console may use.
fn screen_after(text: &str) -> Vec<String> {
    let mut rows: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\n' => {
                (row, column) = (row + 1, 0);
                if row == rows.len() {
                    rows.push(Vec::new());
                }
            }
            '\r' => column = 0,
            '\x1b' => {
                let sequence: String = rest.by_ref().take_while(|c| *c != '[').collect();
                assert_eq!(sequence, "");
                let mut number = String::new();
                let kind = rest.find(|c| {
                    number.extend(c.to_digit(10).map(|_| *c));
                    !c.is_ascii_digit()
                });
                match kind {
                    Some('A') => row -= number.parse::<usize>().unwrap(),
                    Some('J') => {
                        rows.truncate(row + 1);
                        rows[row].truncate(column);
                    }
                    Some('K') => rows[row].truncate(column),
                    other => panic!("unexpected sequence {other:?}"),
                }
            }
            c => {
                match rows[row].get_mut(column) {
                    Some(old) => *old = c,
                    None => rows[row].push(c),
                }
                column += 1;
            }
        }
    }
    let mut lines: Vec<String> = rows.into_iter().map(String::from_iter).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[test]
fn live_lines_fit_the_width_and_tell_the_time_left() {
    let mut progress = Progress::default();
    for (at, event) in timed().into_iter().take_while(|(at, _)| at.as_secs() < 30) {
        progress.apply(&event, at);
    }
    let plan = sample::crash_plan();
    let purpose = Purpose::Search;
    for trial in 100..108 {
        let plan = plan.clone();
        let event = CampaignEvent::TrialStarted {
            trial,
            purpose,
            plan,
        };
        progress.apply(&event, Duration::from_secs(29));
    }
    let elapsed = Duration::from_secs(29);
    for width in [20, 40, 79, 200] {
        let lines = live_lines(&progress, elapsed, width, Paint(false));
        assert!(
            lines.iter().all(|l| l.chars().count() <= width),
            "{lines:#?}"
        );
    }
    let lines = live_lines(&progress, elapsed, 120, Paint(false));
    assert!(
        lines[0].contains("29/60 trials · 60/min · 29 s, about 31 s left"),
        "{lines:#?}"
    );
    assert!(lines[1].starts_with("1 bug · "), "{lines:#?}");
    assert!(
        lines[3].contains("crash at Log.append > FileChannel.force on n2"),
        "{lines:#?}"
    );
    assert_eq!(lines.last().unwrap().trim(), "and 3 more");
    assert!(live_lines(&progress, elapsed, 120, Paint(true))[0].contains("\x1b["));
}

#[test]
fn a_resumed_campaign_counts_what_it_had_before() {
    let mut progress = Progress::default();
    let before = Tally {
        trials: 40,
        fired: 30,
        unreached: 8,
        unknown: 2,
    };
    for (at, event) in timed().into_iter().take_while(|(at, _)| at.as_secs() < 3) {
        let event = match event {
            CampaignEvent::Started {
                spec, store, sites, ..
            } => CampaignEvent::Started {
                spec,
                store,
                sites,
                before,
                bugs: 1,
            },
            other => other,
        };
        progress.apply(&event, at);
    }
    let line = plain_line(&progress, Duration::from_secs(2));
    assert!(line.starts_with("42/60 trials, 60/min; 3"), "{line}");
    assert!(line.contains(" 8 unreached, 2 unknown; 1 bug; "), "{line}");
}

#[test]
fn redraws_are_limited() {
    let mut out = Vec::new();
    let look = Look {
        live: true,
        colour: false,
        width: Some(80),
    };
    let mut console = Console::new(&mut out, look);
    console.event_at(&timed()[0].1, Duration::ZERO);
    for ms in 1..=1000 {
        console.tick_at(Duration::from_millis(ms));
    }
    drop(console);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.matches("\x1b[J").count(), 11, "ten a second");
}

#[test]
fn json_is_one_object_on_the_last_line() {
    let mut out = Vec::new();
    let mut sink = JsonSink::new(&mut out);
    for (_, event) in timed() {
        sink.event(&event);
    }
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), 1);
    let object: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(object["trials"], 60);
    assert_eq!(object["bugs"][0]["known"], "snapshot-under-lock");
    assert_eq!(object["bugs"][1]["known"], serde_json::Value::Null);
    for key in ["fired", "unreached", "unknown", "seconds"] {
        assert!(object[key].is_number(), "{key}");
    }
    for key in ["id", "signature", "plan", "replay"] {
        assert!(!object["bugs"][0][key].is_null(), "{key}");
    }
}

#[test]
fn one_campaign_of_several_shows_progress_and_bugs_only() {
    let mut text = Vec::new();
    let mut console = Console::new(&mut text, Look::PLAIN).in_passing();
    for event in sample::campaign("store/trio@1/t") {
        console.event_at(&event, Duration::ZERO);
    }
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("BUG b3f9c1d2"), "{text}");
    for left_out in ["store/trio@1/t", "412 sites", "60 trials in"] {
        assert!(!text.contains(left_out), "{left_out} in\n{text}");
    }
}
