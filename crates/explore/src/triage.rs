//! Which bug is it: signatures of failing outcomes, known bugs, and whether a replay shows it again.
//!
//! A signature is *where* (class and method of each fault's site), *what* (the fault without its
//! amounts) and *how it shows*: the kind of misbehaviour, and for wrong answers and deaths what was
//! wrong. Amounts, nodes, contexts, ordinals and which operation happened to be caught are left
//! out, so that the same bug reached in another way, or at another moment, is the same bug.
//!
//! A delay that others wait for is in the method that holds the lock, not in the one whose call was
//! delayed: a packet is written by a dozen calls, and all of them are one write under one lock. A
//! delay that a node does not notice, so that it goes on to take itself for what it is not, is
//! nowhere in particular: nobody watches the thread, whichever call holds it up.
//!
//! An exception is in the last method that it leaves: the one above handles it, and whichever call
//! below raised it, that handling is what goes wrong. One after which the system heals by a detour
//! is nowhere in particular: the detour is the same, whatever it began with.

use regex::Regex;
use serde::{Deserialize, Serialize};
use temblor_model::bug::{FiredFault, Judgement, Outcome, Symptom, Verdict};
use temblor_model::fnv64;

/// The most telling checker first. `hang` explains what `client` noticed, so it comes after it.
const ORDER: [&str; 9] = [
    "crash",
    "client",
    "consistency",
    "guarantees",
    "hang",
    "gray",
    "recovery",
    "latency",
    "log",
];

/// Kinds of misbehaviour that are one bug wherever they begin.
const PLACELESS: [&str; 3] = ["outage", "outsider", "rivals"];

/// Between the parts of a signature's text.
const SEPARATOR: &str = " | ";

/// What makes a bug this bug and not another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// `what in where, then what in where | kind | essence`.
    pub text: String,
    /// Short, stable for the same text: `<kind>-<8 hex>`.
    pub id: String,
}

impl Signature {
    /// From a stored text; None if it is not the text of a signature.
    pub fn from_text(text: &str) -> Option<Signature> {
        let (_, kind, _) = parts(text)?;
        Some(Signature {
            id: format!("{kind}-{:08x}", fnv64(text.as_bytes()) as u32),
            text: text.into(),
        })
    }

    /// The id of the bug that shows so, where known bugs with places of their own may share the
    /// signature.
    pub fn bug_id(&self, known: Option<&str>) -> String {
        match (known, self.shows()) {
            (Some(known), (kind, _)) if PLACELESS.contains(&kind) => {
                let text = [&self.text, known].join(SEPARATOR);
                format!("{kind}-{:08x}", fnv64(text.as_bytes()) as u32)
            }
            _ => self.id.clone(),
        }
    }

    /// How it shows: the kind of misbehaviour, and what exactly where that is stable.
    pub fn shows(&self) -> (&str, &str) {
        parts(&self.text).map_or(("", ""), |(_, kind, essence)| (kind, essence))
    }
}

fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let mut parts = text.splitn(3, SEPARATOR);
    Some((parts.next()?, parts.next()?, parts.next()?))
}

/// The kind of misbehaviour a symptom tells of, and what of it does not depend on timing.
///
/// - `wrong`: an answer contradicts what the client knows; the contradiction counts, not which
///   read noticed it.
/// - `broken`: what clients saw together contradicts what the system promises.
/// - `death`: a node ended by itself, or does not survive a restart.
/// - `rivals`: two nodes claim a role that only one may have.
/// - `outsider`: a node takes itself for what it is not.
/// - `outage`: all goes on, but after far more time than that takes.
/// - `slow`: all goes on, but much slower than before.
/// - `stuck`: something that should go on does not. Whether this shows as an operation that never
///   ends, as time-outs, as a node that never serves or as threads that wait for a lock, and in
///   which phase, depends on the moment.
/// - `log`: only the log complains.
fn essence(symptom: &Symptom) -> (&'static str, String) {
    let summary = symptom.summary.as_str();
    if symptom.checker == "log" {
        ("log", summary.into())
    } else if let Some(said) = summary.strip_prefix("a wrong answer: ") {
        (
            "wrong",
            said.split_once(": ")
                .map_or(said, |(_, error)| error)
                .into(),
        )
    } else if symptom.checker == "crash" && summary.contains(" exited ") {
        (
            "death",
            summary.split(" before ").next().unwrap_or(summary).into(),
        )
    } else if symptom.checker == "crash" && summary.contains(" broke: ") {
        ("death", summary.into())
    } else if matches!(symptom.checker.as_str(), "consistency" | "guarantees") {
        ("broken", summary.into())
    } else if summary.starts_with("two nodes say ") {
        ("rivals", summary.into())
    } else if let Some((_, role)) = summary.split_once(" takes itself for ") {
        ("outsider", role.into())
    } else if summary.ends_with(" wait far longer than an election takes") {
        ("outage", String::new())
    } else if symptom.checker == "latency" {
        ("slow", String::new())
    } else {
        ("stuck", String::new())
    }
}

/// The signature of a failing outcome; None for all others.
pub fn signature(outcome: &Outcome) -> Option<Signature> {
    let (kind, what) = essence(primary(outcome)?);
    let only = match &outcome.fired[..] {
        [only] => label(&only.fault),
        _ => String::new(),
    };
    let word = only.split(' ').next().unwrap_or_default();
    let faults = match (word, kind, lock_holder(outcome)) {
        ("delay", "rivals" | "outsider", _) | ("throw", "outage", _) => word.into(),
        ("delay", _, Some(method)) => format!("delay in {method}"),
        _ => faults(&outcome.fired, |f| {
            f.out_of.as_deref().unwrap_or(place(&f.site))
        }),
    };
    Signature::from_text(&[&faults, kind, &what].join(SEPARATOR))
}

/// The method that holds the lock which others wait for.
fn lock_holder(outcome: &Outcome) -> Option<&str> {
    let jams = symptoms(outcome)
        .into_iter()
        .filter(|s| s.checker == "hang");
    jams.filter_map(|s| s.summary.split_once("` inside "))
        .next()
        .map(|(_, inside)| inside.split(',').next().unwrap_or(inside))
}

/// One line for people.
pub fn title(outcome: &Outcome) -> String {
    let summary = primary(outcome).map_or("nothing is wrong", |s| s.summary.as_str());
    let faults = faults(&outcome.fired, |f| place(&f.site));
    format!("{summary}, after {faults}")
}

/// The symptoms that count: those of failing judgements, the most telling first. Of what one checker
/// says, wrong answers come before clients that are stuck. A passing judgement's symptoms are
/// observations only.
pub fn symptoms(outcome: &Outcome) -> Vec<&Symptom> {
    let failing = |j: &&Judgement| j.verdict == Verdict::Fail;
    let judgements = outcome.judgements.iter().filter(failing);
    let mut symptoms: Vec<&Symptom> = judgements.flat_map(|j| &j.symptoms).collect();
    symptoms.sort_by_key(|symptom| {
        let place = ORDER.iter().position(|name| *name == symptom.checker);
        let (kind, _) = essence(symptom);
        (place.unwrap_or(ORDER.len()), kind != "wrong")
    });
    symptoms
}

/// The symptom that names the bug: the first one of the most telling checker.
pub fn primary(outcome: &Outcome) -> Option<&Symptom> {
    symptoms(outcome).first().copied()
}

/// What fired, and where: as told of each.
fn faults(fired: &[FiredFault], place: impl Fn(&FiredFault) -> &str) -> String {
    if fired.is_empty() {
        return "no fault".into();
    }
    let one = |f: &FiredFault| {
        let label = label(&f.fault);
        if f.site.is_empty() {
            label
        } else {
            format!("{label} in {}", place(f))
        }
    };
    let all: Vec<String> = fired.iter().map(one).collect();
    all.join(", then ")
}

/// `pkg.Class.method` of `pkg.Class.method(Params)>pkg.Callee.method#k`.
fn place(site: &str) -> &str {
    let caller = site.split('>').next().unwrap_or(site);
    caller.split('(').next().unwrap_or(caller)
}

/// The fault without its amounts, from either of its printed forms.
fn label(fault: &str) -> String {
    let mut words = fault.split_whitespace();
    match (words.next(), words.next()) {
        (Some("throw"), Some(exception)) => {
            let simple = exception.rsplit('.').next().unwrap_or(exception);
            format!("throw {simple}")
        }
        (Some(kind), _) => kind.into(),
        (None, _) => "no fault".into(),
    }
}

/// Whether a replay shows the bug again: one of its symptoms, of whichever rank, is of the same
/// kind, and where the essence is stable, has the same. The plan is the same, so the faults'
/// places are not compared.
pub fn confirms(original: &Signature, outcome: &Outcome) -> bool {
    symptoms(outcome).into_iter().any(|symptom| {
        let (kind, what) = essence(symptom);
        (kind, what.as_str()) == original.shows()
    })
}

/// How a known bug is told: data of a target.
#[derive(Clone, Debug)]
pub struct KnownPattern {
    pub id: String,
    /// Checkers whose symptoms count; empty takes all.
    pub checkers: Vec<String>,
    /// Matches the name of the site of one of its faults.
    pub site: Option<Regex>,
    /// Matches a summary or a line of detail.
    pub symptom: Option<Regex>,
}

/// What is matched against known bugs.
#[derive(Clone, Copy, Debug)]
pub struct BugFacts<'a> {
    pub fired: &'a [FiredFault],
    pub symptoms: &'a [Symptom],
}

/// The first known bug whose whole pattern fits. A pattern without conditions fits nothing: it
/// would claim every bug.
pub fn match_known<'k>(facts: BugFacts<'_>, known: &'k [KnownPattern]) -> Option<&'k str> {
    let fits = |pattern: &&KnownPattern| {
        let site = pattern.site.as_ref();
        let site_fits = site.is_none_or(|r| facts.fired.iter().any(|f| r.is_match(&f.site)));
        let symptom_fits = facts.symptoms.iter().any(|symptom| {
            let counts = pattern.checkers.is_empty() || pattern.checkers.contains(&symptom.checker);
            let texts = || std::iter::once(&symptom.summary).chain(&symptom.detail);
            let said = pattern.symptom.as_ref();
            counts && said.is_none_or(|r| texts().any(|text| r.is_match(text)))
        });
        let says_something = site.is_some() || pattern.symptom.is_some();
        says_something && site_fits && symptom_fits
    };
    known.iter().find(fits).map(|pattern| pattern.id.as_str())
}

/// The first known bug that a failing outcome shows.
pub fn known_in<'k>(outcome: &Outcome, known: &'k [KnownPattern]) -> Option<&'k str> {
    let symptoms: Vec<Symptom> = symptoms(outcome).into_iter().cloned().collect();
    let facts = BugFacts {
        fired: &outcome.fired,
        symptoms: &symptoms,
    };
    match_known(facts, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "x.Log.append(int)>java.io.OutputStream.write#2";

    /// An outcome from `checker verdict: summary` lines.
    fn outcome(site: &str, fault: &str, judgements: &[&str]) -> Outcome {
        let judgement = |line: &&str| {
            let (head, summary) = line.split_once(": ").unwrap();
            let (checker, verdict) = head.split_once(' ').unwrap();
            Judgement {
                checker: checker.into(),
                verdict: match verdict {
                    "fail" => Verdict::Fail,
                    "pass" => Verdict::Pass,
                    _ => Verdict::Unknown,
                },
                symptoms: vec![Symptom {
                    checker: checker.into(),
                    summary: summary.into(),
                    detail: vec!["n2 at 17 ms".into()],
                    at_us: 1,
                }],
                reason: None,
            }
        };
        Outcome {
            format: Outcome::FORMAT,
            trial: 1,
            verdict: Verdict::Fail,
            judgements: judgements.iter().map(judgement).collect(),
            fired: vec![FiredFault {
                step: 0,
                node: "n1".into(),
                site: site.into(),
                fault: fault.into(),
                stack: "ab".into(),
                at_us: 1,
                ..FiredFault::default()
            }],
            unreached: Vec::new(),
            warp: 1.0,
            seconds: 1.0,
            cpu_seconds: 0.0,
            visits: Vec::new(),
            from: None,
        }
    }

    fn text(site: &str, fault: &str, judgements: &[&str]) -> Option<String> {
        signature(&outcome(site, fault, judgements)).map(|s| s.text)
    }

    #[test]
    fn a_signature_says_where_what_and_how_it_shows() {
        for (judged, expected) in [
            ("client fail: a client is stuck: put", "stuck | "),
            (
                "client fail: time-outs long after the fault: get in phase final",
                "stuck | ",
            ),
            ("hang fail: threads wait for a lock: held by x", "stuck | "),
            (
                "crash fail: another node did not come up: never ready",
                "stuck | ",
            ),
            (
                "client fail: a wrong answer: get in phase final: 3 after 5",
                "wrong | 3 after 5",
            ),
            (
                "crash fail: a node exited by itself: code 1 before it was ready",
                "death | a node exited by itself: code 1",
            ),
            ("log fail: ERROR x", "log | ERROR x"),
            (
                "gray fail: the faulted node takes itself for A, and does not serve",
                "outsider | A, and does not serve",
            ),
        ] {
            let said = text(SITE, "throw java.io.IOException", &[judged]).unwrap();
            assert_eq!(
                said,
                format!("throw IOException in x.Log.append | {expected}")
            );
        }
    }

    #[test]
    fn amounts_and_positions_do_not_matter() {
        let judged = ["client fail: a client is stuck: put"];
        let other = "x.Log.append(int)>java.io.OutputStream.write#5";
        assert_eq!(
            text(SITE, "delay 60 s", &judged),
            text(other, "delay 30 s", &judged)
        );
        assert_ne!(
            text(SITE, "delay 60 s", &judged),
            text(SITE, "crash", &judged)
        );
    }

    #[test]
    fn delays_under_one_lock_are_one_bug_at_whichever_depth() {
        let jam = "hang fail: threads wait for a lock: held by `sync` inside x.Link.send";
        let deep = format!("{jam}, which is in x.Log.append");
        let shown = ["client fail: a client is stuck: put", deep.as_str()];
        let expected = Some("delay in x.Link.send | stuck | ".to_string());
        assert_eq!(text(SITE, "delay 60 s", &shown), expected);
        assert_eq!(
            text("x.Link.send()>y.flush#0", "delay 60 s", &[jam]),
            expected
        );
        let thrown = text(SITE, "throw java.io.IOException", &shown).unwrap();
        assert!(
            thrown.starts_with("throw IOException in x.Log.append"),
            "{thrown}"
        );
    }

    #[test]
    fn exceptions_that_one_place_handles_are_one_bug_at_whichever_depth() {
        let shown = ["client fail: a client is stuck: put"];
        let thrown = |site: &str, out_of: Option<&str>| {
            let mut outcome = outcome(site, "throw java.io.IOException", &shown);
            outcome.fired[0].out_of = out_of.map(str::to_string);
            outcome
        };
        let text = |outcome: &Outcome| signature(outcome).unwrap().text;
        let deep = thrown(SITE, Some("x.Link.send"));
        let other = thrown("x.Link.send()>y.flush#0", Some("x.Link.send"));
        assert_eq!(text(&deep), "throw IOException in x.Link.send | stuck | ");
        assert_eq!(text(&deep), text(&other));
        assert_ne!(text(&deep), text(&thrown(SITE, Some("x.Link.open"))));
        assert_ne!(text(&deep), text(&thrown(SITE, None)));
        assert!(title(&deep).ends_with("in x.Log.append"), "it tells where");
    }

    #[test]
    fn a_thread_that_nobody_watches_is_one_bug_whichever_call_holds_it_up() {
        for said in [
            "two nodes say by their logs that they are A",
            "a takes itself for A",
        ] {
            let shown = [format!("gray fail: {said}")];
            let shown = [shown[0].as_str()];
            let first = text(SITE, "delay 60 s", &shown);
            let deeper = text("x.File.write()>y.write#0", "delay 300 s", &shown);
            assert!(
                first.as_ref().is_some_and(|t| t.starts_with("delay | ")),
                "{first:?}"
            );
            assert_eq!(first, deeper);
        }
    }

    #[test]
    fn a_detour_is_one_bug_whatever_it_began_with() {
        let shown =
            ["latency fail: clients of another node wait far longer than an election takes"];
        let first = text(SITE, "throw java.io.IOException", &shown);
        assert_eq!(first.as_deref(), Some("throw | outage | "));
        let other = text(
            "x.Net.open()>y.open#0",
            "throw java.net.SocketException",
            &shown,
        );
        assert_eq!(first, other);
        let signature = Signature::from_text(&first.unwrap()).unwrap();
        let ids = [None, Some("zk-1"), Some("zk-2")].map(|known| signature.bug_id(known));
        assert_eq!(ids[0], signature.id);
        assert!(ids[1].starts_with("outage-") && ids[1] != ids[0] && ids[1] != ids[2]);
    }

    #[test]
    fn what_was_lost_names_the_bug_before_who_is_stuck() {
        let shown = [
            "client fail: a client is stuck: put",
            "client fail: a wrong answer: get in phase mix: no a, which was acknowledged",
        ];
        let said = text(SITE, "delay 60 s", &shown).unwrap();
        assert!(
            said.ends_with(" | wrong | no a, which was acknowledged"),
            "{said}"
        );
    }

    #[test]
    fn the_most_telling_checker_names_the_bug() {
        let all = [
            "log fail: l",
            "client fail: c",
            "crash fail: a node exited by itself: code 1",
        ];
        for (judged, expected) in [
            (&all[..], "death"),
            (&all[..2], "stuck"),
            (&all[..1], "log"),
        ] {
            let signature = signature(&outcome(SITE, "crash", judged)).unwrap();
            assert_eq!(signature.shows().0, expected);
            assert!(signature.id.starts_with(expected));
            assert_eq!(signature.id.len(), expected.len() + 9);
        }
    }

    #[test]
    fn observations_of_passing_checkers_are_no_bug() {
        assert_eq!(
            text(SITE, "crash", &["log pass: l", "client unknown: c"]),
            None
        );
        let said = text(SITE, "crash", &["crash pass: k", "log fail: l"]).unwrap();
        assert!(said.ends_with("log | l"), "{said}");
    }

    #[test]
    fn a_stored_text_gives_the_signature_back() {
        let outcome = outcome(SITE, "crash", &["log fail: ERROR a | b"]);
        let first = signature(&outcome).unwrap();
        assert_eq!(Signature::from_text(&first.text), Some(first.clone()));
        assert_eq!(first.shows(), ("log", "ERROR a | b"));
        assert_eq!(title(&outcome), "ERROR a | b, after crash in x.Log.append");
        assert_eq!(Signature::from_text("nonsense"), None);
    }

    #[test]
    fn a_replay_confirms_by_the_same_kind_of_misbehaviour() {
        let stuck = ["client fail: c is stuck: put"];
        let original = signature(&outcome(SITE, "crash", &stuck)).unwrap();
        for (judged, expected) in [
            (vec!["client fail: c is stuck: get"], true),
            (vec!["hang fail: threads wait for a lock"], true),
            (
                vec!["crash fail: a node exited by itself: code 1", stuck[0]],
                true,
            ),
            (vec!["client fail: a wrong answer: put: 3 after 5"], false),
            (vec!["client pass: c is stuck: put"], false),
            (vec![], false),
        ] {
            let replay = outcome(SITE, "crash", &judged);
            assert_eq!(confirms(&original, &replay), expected, "{judged:?}");
        }
        let wrong = ["client fail: a wrong answer: get in phase a: 3 after 5"];
        let original = signature(&outcome(SITE, "crash", &wrong)).unwrap();
        for (judged, expected) in [
            (
                "client fail: a wrong answer: check in phase b: 3 after 5",
                true,
            ),
            (
                "client fail: a wrong answer: check in phase b: a damaged document",
                false,
            ),
        ] {
            assert_eq!(
                confirms(&original, &outcome(SITE, "crash", &[judged])),
                expected
            );
        }
    }

    #[test]
    fn a_known_bug_is_matched_by_site_checker_and_symptom() {
        let regex = |text: &str| Regex::new(text).ok();
        let pattern = |id: &str, checkers: &[&str], site, symptom| KnownPattern {
            id: id.into(),
            checkers: checkers.iter().map(|c| (*c).into()).collect(),
            site,
            symptom,
        };
        let outcome = outcome(SITE, "crash", &["client fail: c is stuck: put"]);
        let symptoms: Vec<Symptom> = symptoms(&outcome).into_iter().cloned().collect();
        let facts = BugFacts {
            fired: &outcome.fired,
            symptoms: &symptoms,
        };
        for (pattern, expected) in [
            (
                pattern("all", &["client"], regex("Log.append"), regex("stuck")),
                true,
            ),
            (pattern("site only", &[], regex("Log.append"), None), true),
            (pattern("detail", &[], None, regex("at 17 ms")), true),
            (
                pattern("other site", &["client"], regex("Snapshot"), regex("stuck")),
                false,
            ),
            (
                pattern("other checker", &["log"], regex("Log"), regex("stuck")),
                false,
            ),
            (
                pattern("other symptom", &["client"], regex("Log"), regex("wrong")),
                false,
            ),
            (pattern("says nothing", &["client"], None, None), false),
        ] {
            let found = match_known(facts, std::slice::from_ref(&pattern));
            assert_eq!(found.is_some(), expected, "{}", pattern.id);
        }
        let both = [
            pattern("no", &[], regex("nothing"), None),
            pattern("yes", &[], regex("Log"), None),
        ];
        assert_eq!(match_known(facts, &both), Some("yes"));
    }
}
