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
use temblor_model::bug::{FiredFault, Judgement, Misbehaviour, Outcome, Side, Symptom, Verdict};
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
            id: id(kind, text),
            text: text.into(),
        })
    }

    /// The id of the bug that shows so: a known one may share the signature with others.
    pub fn bug_id(&self, known: Option<&str>) -> String {
        match known {
            Some(known) => id(self.shows().0, &[&self.text, known].join(SEPARATOR)),
            None => self.id.clone(),
        }
    }

    /// How it shows: the kind of misbehaviour, and what exactly where that is stable.
    pub fn shows(&self) -> (&str, &str) {
        parts(&self.text).map_or(("", ""), |(_, kind, essence)| (kind, essence))
    }
}

fn id(kind: &str, text: &str) -> String {
    format!("{kind}-{:08x}", fnv64(text.as_bytes()) as u32)
}

fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let mut parts = text.splitn(3, SEPARATOR);
    Some((parts.next()?, parts.next()?, parts.next()?))
}

/// What a failing outcome is called.
#[derive(Clone, Debug)]
pub struct Told {
    pub signature: Signature,
    /// The known bug that it shows.
    pub known: Option<String>,
    /// One line for people.
    pub title: String,
}

/// A failing outcome by the symptom of the first known bug that fits, else by the most telling one:
/// several faults may do several things, of which only one is the known bug. A bug that is known by
/// less does not explain away a wrong answer. None if nothing fails.
pub fn tell(outcome: &Outcome, known: &[KnownPattern]) -> Option<Told> {
    let symptoms = symptoms(outcome);
    let primary = *symptoms.first()?;
    let is_any_wrong = symptoms.into_iter().any(is_wrong);
    let explains = |symptom: &&Symptom| is_grave(symptom) || !is_any_wrong;
    let fits = |k: &KnownPattern| Some((k.id.clone(), k.fits(outcome).filter(explains)?));
    let (known, symptom) = known.iter().find_map(fits).unzip();
    let symptom = symptom.unwrap_or(primary);
    Some(Told {
        signature: signature(outcome, symptom)?,
        known,
        title: title(outcome, symptom),
    })
}

fn signature(outcome: &Outcome, symptom: &Symptom) -> Option<Signature> {
    let shows = &symptom.shows;
    let kind = shows.kind();
    let mut words = outcome.fired.iter().map(|f| word(&f.fault));
    let first = words.next().unwrap_or_default();
    // Of one kind, however many there are.
    let word = if words.all(|w| w == first) { first } else { "" };
    let faults = match (word, kind, lock_holder(outcome)) {
        ("delay", "rivals" | "outsider", _) | ("throw", "outage", _) => word.into(),
        ("delay", _, Some(method)) => format!("delay in {method}"),
        _ => faults(&outcome.fired, |f| {
            f.out_of.as_deref().unwrap_or(place(&f.site))
        }),
    };
    Signature::from_text(&[&faults, kind, shows.essence()].join(SEPARATOR))
}

/// The method that holds the lock which others wait for.
fn lock_holder(outcome: &Outcome) -> Option<&str> {
    let mut symptoms = symptoms(outcome).into_iter();
    symptoms.find_map(|symptom| match &symptom.shows {
        Misbehaviour::Stuck { holder, .. } => holder.as_deref(),
        _ => None,
    })
}

fn title(outcome: &Outcome, symptom: &Symptom) -> String {
    let faults = faults(&outcome.fired, |f| place(&f.site));
    format!("{}, after {faults}", symptom.summary)
}

/// The symptoms that count: those of failing judgements, the most telling first. What is dead, lost
/// or contradicted comes before who is stuck. A passing judgement's symptoms are observations only.
pub fn symptoms(outcome: &Outcome) -> Vec<&Symptom> {
    let failing = |j: &&Judgement| j.verdict == Verdict::Fail;
    let judgements = outcome.judgements.iter().filter(failing);
    let mut symptoms: Vec<&Symptom> = judgements.flat_map(|j| &j.symptoms).collect();
    symptoms.sort_by_key(|symptom| {
        let place = ORDER.iter().position(|name| *name == symptom.checker);
        (!is_grave(symptom), place.unwrap_or(ORDER.len()))
    });
    symptoms
}

/// What no client may ever see.
fn is_wrong(symptom: &Symptom) -> bool {
    matches!(
        symptom.shows,
        Misbehaviour::Wrong(_) | Misbehaviour::Broken(_)
    )
}

fn is_grave(symptom: &Symptom) -> bool {
    is_wrong(symptom) || matches!(symptom.shows, Misbehaviour::Death(_))
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

/// The kind of a fault, from its printed form.
fn word(fault: &str) -> &str {
    fault.split_whitespace().next().unwrap_or_default()
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
/// kind, and where the essence is stable, has the same. What is stuck is so on the same side of the
/// fault: on an overloaded machine, clients of a node that nothing was done to may wait as well. The
/// plan is the same, so the faults' places are not compared.
pub fn confirms(original: &Signature, sides: &[Side], outcome: &Outcome) -> bool {
    let is_side = |shows: &Misbehaviour| match shows {
        Misbehaviour::Stuck { side: Some(s), .. } => sides.is_empty() || sides.contains(s),
        _ => true,
    };
    let mut shown = symptoms(outcome).into_iter().map(|s| &s.shows);
    shown.any(|s| (s.kind(), s.essence()) == original.shows() && is_side(s))
}

/// On which sides of the fault something is stuck; none where that is not known.
pub fn stuck_sides<'s>(symptoms: impl IntoIterator<Item = &'s Symptom>) -> Vec<Side> {
    let side = |symptom: &Symptom| match symptom.shows {
        Misbehaviour::Stuck { side, .. } => side,
        _ => None,
    };
    symptoms.into_iter().filter_map(side).collect()
}

/// How a known bug is told: data of a target.
#[derive(Clone, Debug)]
pub struct KnownPattern {
    pub id: String,
    /// Checkers whose symptoms count; empty takes all.
    pub checkers: Vec<String>,
    /// Matches one of its faults, as it is told.
    pub fault: Option<Regex>,
    /// Matches the name of that fault's site.
    pub site: Option<Regex>,
    /// Matches a summary or a line of detail.
    pub symptom: Option<Regex>,
}

impl KnownPattern {
    /// The most telling symptom that fits, if the whole pattern does. One without conditions fits
    /// nothing: it would claim every bug.
    pub fn fits<'o>(&self, outcome: &'o Outcome) -> Option<&'o Symptom> {
        let fits = |r: &Option<Regex>, text: &str| r.as_ref().is_none_or(|r| r.is_match(text));
        let fired = |f: &FiredFault| fits(&self.fault, &f.fault) && fits(&self.site, &f.site);
        let is_any_fault = self.fault.is_none() && self.site.is_none();
        let says_something = self.site.is_some() || self.symptom.is_some();
        if !says_something || !is_any_fault && !outcome.fired.iter().any(fired) {
            return None;
        }
        symptoms(outcome).into_iter().find(|symptom| {
            let counts = self.checkers.is_empty() || self.checkers.contains(&symptom.checker);
            let mut texts = std::iter::once(&symptom.summary).chain(&symptom.detail);
            counts && texts.any(|text| fits(&self.symptom, text))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "x.Log.append(int)>java.io.OutputStream.write#2";

    /// `checker verdict`, and what the checker saw.
    type Judged = (&'static str, Misbehaviour);

    const STUCK: Judged = ("client fail", Misbehaviour::STUCK);

    fn wrong(what: &str) -> Judged {
        ("client fail", Misbehaviour::Wrong(what.into()))
    }

    fn died(how: &str) -> Judged {
        ("crash fail", Misbehaviour::Death(how.into()))
    }

    fn logged(line: &str) -> Judged {
        ("log fail", Misbehaviour::Log(line.into()))
    }

    fn jam(holder: &str) -> Judged {
        let holder = Some(holder.into());
        ("hang fail", Misbehaviour::Stuck { holder, side: None })
    }

    fn outcome(site: &str, fault: &str, judgements: &[Judged]) -> Outcome {
        let judgement = |(said, shows): &Judged| {
            let (checker, verdict) = said.split_once(' ').unwrap();
            Judgement {
                checker: checker.into(),
                verdict: match verdict {
                    "fail" => Verdict::Fail,
                    "pass" => Verdict::Pass,
                    _ => Verdict::Unknown,
                },
                symptoms: vec![Symptom {
                    checker: checker.into(),
                    shows: shows.clone(),
                    summary: format!("{}: {}", shows.kind(), shows.essence()),
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

    fn signature(outcome: &Outcome) -> Option<Signature> {
        tell(outcome, &[]).map(|told| told.signature)
    }

    fn title(outcome: &Outcome) -> String {
        tell(outcome, &[]).unwrap().title
    }

    fn text(site: &str, fault: &str, judgements: &[Judged]) -> Option<String> {
        signature(&outcome(site, fault, judgements)).map(|s| s.text)
    }

    /// Of a known bug.
    fn pattern(
        id: &str,
        checkers: &[&str],
        site: Option<&str>,
        symptom: Option<&str>,
    ) -> KnownPattern {
        let regex = |text: Option<&str>| text.map(|t| Regex::new(t).unwrap());
        KnownPattern {
            id: id.into(),
            checkers: checkers.iter().map(|c| (*c).into()).collect(),
            fault: None,
            site: regex(site),
            symptom: regex(symptom),
        }
    }

    #[test]
    fn a_signature_says_where_what_and_how_it_shows() {
        for (judged, expected) in [
            (STUCK, "stuck | "),
            (("hang fail", Misbehaviour::STUCK), "stuck | "),
            (wrong("3 after 5"), "wrong | 3 after 5"),
            (
                died("a node exited: code 1"),
                "death | a node exited: code 1",
            ),
            (logged("ERROR x"), "log | ERROR x"),
            (("latency fail", Misbehaviour::Slow), "slow | "),
            (
                ("gray fail", Misbehaviour::Outsider("A".into())),
                "outsider | A",
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
        let text = |site, fault| text(site, fault, &[STUCK]);
        let other = "x.Log.append(int)>java.io.OutputStream.write#5";
        assert_eq!(text(SITE, "delay 60 s"), text(other, "delay 30 s"));
        assert_ne!(text(SITE, "delay 60 s"), text(SITE, "crash"));
    }

    #[test]
    fn delays_under_one_lock_are_one_bug_at_whichever_depth() {
        let shown = [STUCK, jam("x.Link.send")];
        let expected = Some("delay in x.Link.send | stuck | ".to_string());
        assert_eq!(text(SITE, "delay 60 s", &shown), expected);
        let shallow = "x.Link.send()>y.flush#0";
        assert_eq!(text(shallow, "delay 60 s", &shown[1..]), expected);
        let thrown = text(SITE, "throw java.io.IOException", &shown).unwrap();
        assert!(
            thrown.starts_with("throw IOException in x.Log.append"),
            "{thrown}"
        );
    }

    #[test]
    fn of_several_delays_the_one_under_the_lock_counts() {
        let one = outcome(SITE, "delay 60 s", &[jam("x.Link.send")]);
        let mut several = one.clone();
        several.fired.push(FiredFault {
            site: "x.Net.open()>y.open#0".into(),
            ..one.fired[0].clone()
        });
        assert_eq!(signature(&several), signature(&one));
        several.fired[1].fault = "crash".into();
        let text = signature(&several).unwrap().text;
        assert!(text.contains(", then crash in x.Net.open"), "{text}");
    }

    #[test]
    fn exceptions_that_one_place_handles_are_one_bug_at_whichever_depth() {
        let thrown = |site: &str, out_of: Option<&str>| {
            let mut outcome = outcome(site, "throw java.io.IOException", &[STUCK]);
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
        for shows in [
            Misbehaviour::Rivals("two nodes are A".into()),
            Misbehaviour::Outsider("A".into()),
        ] {
            let shown = [("gray fail", shows)];
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
        let shown = [("latency fail", Misbehaviour::Outage)];
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
        let said = text(SITE, "delay 60 s", &[STUCK, wrong("a was lost")]).unwrap();
        assert!(said.ends_with(" | wrong | a was lost"), "{said}");
    }

    #[test]
    fn the_most_telling_checker_names_the_bug() {
        let all = [logged("l"), STUCK, died("code 1")];
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
        let passing = ("log pass", Misbehaviour::Log("l".into()));
        let unknown = ("client unknown", Misbehaviour::STUCK);
        assert_eq!(text(SITE, "crash", &[passing, unknown]), None);
        let passing = ("crash pass", Misbehaviour::Death("k".into()));
        let said = text(SITE, "crash", &[passing, logged("l")]).unwrap();
        assert!(said.ends_with("log | l"), "{said}");
    }

    #[test]
    fn a_stored_text_gives_the_signature_back() {
        let outcome = outcome(SITE, "crash", &[logged("ERROR a | b")]);
        let first = signature(&outcome).unwrap();
        assert_eq!(Signature::from_text(&first.text), Some(first.clone()));
        assert_eq!(first.shows(), ("log", "ERROR a | b"));
        assert_eq!(
            title(&outcome),
            "log: ERROR a | b, after crash in x.Log.append"
        );
        assert_eq!(Signature::from_text("nonsense"), None);
    }

    #[test]
    fn a_replay_confirms_by_the_same_kind_of_misbehaviour() {
        let check = |first: &[Judged], replayed: &[Judged], expected: bool| {
            let first = outcome(SITE, "crash", first);
            let original = signature(&first).unwrap();
            let sides = stuck_sides(symptoms(&first));
            let replay = outcome(SITE, "crash", replayed);
            assert_eq!(
                confirms(&original, &sides, &replay),
                expected,
                "{replayed:?}"
            );
        };
        let first = [STUCK];
        check(&first, &[STUCK], true);
        check(&first, &[jam("x.Link.send")], true);
        check(&first, &[died("code 1"), STUCK], true);
        check(&first, &[wrong("3 after 5")], false);
        check(&first, &[("client pass", Misbehaviour::STUCK)], false);
        check(&first, &[], false);
        let first = [wrong("3 after 5")];
        check(&first, &[wrong("3 after 5")], true);
        check(&first, &[wrong("a damaged document")], false);
        let stuck = |side| ("client fail", Misbehaviour::stuck(Some(side)));
        let both = [stuck(Side::Faulted), stuck(Side::Other)];
        let [own, other] = [&both[..1], &both[1..]];
        check(own, own, true);
        check(own, other, false);
        check(own, &both, true);
        check(&both, other, true);
        check(own, &[STUCK], true);
        check(&[STUCK], other, true);
    }

    #[test]
    fn a_known_bug_is_matched_by_site_checker_and_symptom() {
        let regex = |text: &str| Regex::new(text).ok();
        let outcome = outcome(SITE, "crash", &[STUCK]);
        for (pattern, expected) in [
            (
                pattern("all", &["client"], Some("Log.append"), Some("stuck")),
                true,
            ),
            (pattern("site only", &[], Some("Log.append"), None), true),
            (pattern("detail", &[], None, Some("at 17 ms")), true),
            (
                pattern("other site", &["client"], Some("Snapshot"), Some("stuck")),
                false,
            ),
            (
                pattern("other checker", &["log"], Some("Log"), Some("stuck")),
                false,
            ),
            (
                pattern("other symptom", &["client"], Some("Log"), Some("wrong")),
                false,
            ),
            (pattern("says nothing", &["client"], None, None), false),
            (
                KnownPattern {
                    fault: regex("^crash"),
                    ..pattern("its fault", &[], Some("Log"), None)
                },
                true,
            ),
            (
                KnownPattern {
                    fault: regex("^throw"),
                    ..pattern("other fault", &[], Some("Log"), Some("stuck"))
                },
                false,
            ),
            (
                KnownPattern {
                    fault: regex("^crash"),
                    ..pattern("fault alone", &["client"], None, None)
                },
                false,
            ),
        ] {
            let found = pattern.fits(&outcome);
            assert_eq!(found.is_some(), expected, "{}", pattern.id);
        }
        let both = [
            pattern("no", &[], Some("nothing"), None),
            pattern("yes", &[], Some("Log"), None),
        ];
        let told = tell(&outcome, &both).unwrap();
        assert_eq!(told.known.as_deref(), Some("yes"));
    }

    #[test]
    fn a_known_bug_is_told_by_what_it_is_known_by() {
        let rivals = ("gray fail", Misbehaviour::Rivals("LEADING".into()));
        let both = outcome(SITE, "delay 60 s", &[jam("x.Link.send"), rivals.clone()]);
        let known = [pattern("x-1", &["gray"], None, Some("rivals"))];
        let told = tell(&both, &known).unwrap();
        assert_eq!(told.known.as_deref(), Some("x-1"));
        let alone = tell(&outcome(SITE, "delay 60 s", &[rivals]), &[]).unwrap();
        assert_eq!(told.signature, alone.signature);
        assert_eq!(told.title, alone.title);
        // Another bug may show in the same way.
        let id = |told: &Told| told.signature.bug_id(told.known.as_deref());
        assert_ne!(id(&told), id(&alone));
        let unknown = tell(&both, &[]).unwrap();
        assert!(unknown.signature.text.contains("stuck"), "{unknown:?}");
    }

    #[test]
    fn a_bug_that_is_known_by_less_explains_no_wrong_answer() {
        let rivals = ("gray fail", Misbehaviour::Rivals("LEADING".into()));
        let ends = ("consistency fail", Misbehaviour::Broken("one end".into()));
        let shown = [STUCK, ends, rivals];
        let [outcome, dead] = [
            outcome(SITE, "delay 60 s", &shown),
            outcome(
                SITE,
                "delay 60 s",
                &[&[died("code 1")], &shown[..]].concat(),
            ),
        ];
        let less = pattern("less", &["gray"], None, Some("rivals"));
        let told = tell(&outcome, std::slice::from_ref(&less)).unwrap();
        assert_eq!(told.known, None);
        assert_eq!(told.signature.shows(), ("broken", "one end"));
        assert!(less.fits(&outcome).is_some(), "a replay still shows it");
        // Nor where something else comes first.
        let told = tell(&dead, std::slice::from_ref(&less)).unwrap();
        assert_eq!(told.known, None);
        assert_eq!(told.signature.shows(), ("death", "code 1"));
        let both = [less, pattern("ends", &[], None, Some("one end"))];
        assert_eq!(
            tell(&outcome, &both).unwrap().known.as_deref(),
            Some("ends")
        );
    }
}
