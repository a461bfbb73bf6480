//! Which bug is it: signatures of failing outcomes, known bugs, and what a replay confirms.
//!
//! A signature is *where* (class and method of each fault's site), *what* (the fault without its
//! amounts) and *how it shows* (the primary symptom). Amounts, nodes, contexts and ordinals are
//! left out, so that the same bug reached in another way is the same bug.

use regex::Regex;
use serde::{Deserialize, Serialize};
use temblor_model::bug::{FiredFault, Judgement, Outcome, Symptom, Verdict};
use temblor_model::fnv64;

/// The most telling checker first. `hang` explains what `client` noticed, so it comes after it.
const ORDER: [&str; 4] = ["crash", "client", "hang", "log"];

/// Between the parts of a signature's text.
const SEPARATOR: &str = " | ";

/// What makes a bug this bug and not another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// `where fault; where fault | checker | summary`.
    pub text: String,
    /// Short, stable for the same text: `<checker>-<8 hex>`.
    pub id: String,
}

impl Signature {
    /// From a stored text; None if it is not the text of a signature.
    pub fn from_text(text: &str) -> Option<Signature> {
        let (_, checker, _) = parts(text)?;
        Some(Signature {
            id: format!("{checker}-{:08x}", fnv64(text.as_bytes()) as u32),
            text: text.into(),
        })
    }

    /// The checker that gave the primary symptom.
    pub fn checker(&self) -> &str {
        parts(&self.text).map_or("", |(_, checker, _)| checker)
    }

    /// The primary symptom's summary.
    pub fn summary(&self) -> &str {
        parts(&self.text).map_or("", |(_, _, summary)| summary)
    }

    /// One line for people.
    pub fn title(&self) -> String {
        match parts(&self.text) {
            Some((faults, _, summary)) => format!("{summary}, after {faults}"),
            None => self.text.clone(),
        }
    }
}

fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let mut parts = text.splitn(3, SEPARATOR);
    Some((parts.next()?, parts.next()?, parts.next()?))
}

/// The signature of a failing outcome; None for all others.
pub fn signature(outcome: &Outcome) -> Option<Signature> {
    let symptom = primary(outcome)?;
    let faults = faults(&outcome.fired);
    let text = [&faults, &symptom.checker, &symptom.summary].map(String::as_str);
    Signature::from_text(&text.join(SEPARATOR))
}

/// The symptoms that count: those of failing judgements, the most telling first. A passing
/// judgement's symptoms are observations only.
pub fn symptoms(outcome: &Outcome) -> Vec<&Symptom> {
    let failing = |j: &&Judgement| j.verdict == Verdict::Fail;
    let mut judgements: Vec<&Judgement> = outcome.judgements.iter().filter(failing).collect();
    judgements.sort_by_key(|j| {
        let place = ORDER.iter().position(|name| *name == j.checker);
        place.unwrap_or(ORDER.len())
    });
    judgements.into_iter().flat_map(|j| &j.symptoms).collect()
}

/// The symptom that names the bug: the first one of the most telling checker.
pub fn primary(outcome: &Outcome) -> Option<&Symptom> {
    symptoms(outcome).first().copied()
}

fn faults(fired: &[FiredFault]) -> String {
    if fired.is_empty() {
        return "no fault".into();
    }
    let one = |f: &FiredFault| {
        let label = label(&f.fault);
        if f.site.is_empty() {
            label
        } else {
            format!("{label} in {}", place(&f.site))
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

/// Whether a replay shows the bug again. It must fail, and
/// - its signature is equal; or
/// - one of its symptoms (of whichever rank) is the bug's primary one; or
/// - the same checker says the same kind of thing, i.e. the words before the first colon are
///   equal: which operation a client is stuck in, say, depends on timing.
///
/// The plan is the same, so the faults' places are not compared.
pub fn confirms(original: &Signature, outcome: &Outcome) -> bool {
    let kind = |summary: &str| summary.split(':').next().unwrap_or("").to_owned();
    symptoms(outcome).into_iter().any(|symptom| {
        symptom.checker == original.checker()
            && (symptom.summary == original.summary()
                || kind(&symptom.summary) == kind(original.summary()))
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
            }],
            unreached: Vec::new(),
            warp: 1.0,
            seconds: 1.0,
        }
    }

    fn text(site: &str, fault: &str, judgements: &[&str]) -> Option<String> {
        signature(&outcome(site, fault, judgements)).map(|s| s.text)
    }

    #[test]
    fn a_signature_says_where_what_and_how_it_shows() {
        let said = text(
            SITE,
            "throw java.io.IOException",
            &["client fail: a client is stuck: put"],
        );
        let expected = "throw IOException in x.Log.append | client | a client is stuck: put";
        assert_eq!(said.as_deref(), Some(expected));
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
    fn the_most_telling_checker_names_the_bug() {
        let all = [
            "log fail: l",
            "hang fail: h",
            "client fail: c",
            "crash fail: k",
        ];
        for (judged, expected) in [
            (&all[..], "crash"),
            (&all[..3], "client"),
            (&all[..2], "hang"),
        ] {
            let signature = signature(&outcome(SITE, "crash", judged)).unwrap();
            assert_eq!(signature.checker(), expected);
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
        let first = signature(&outcome(SITE, "crash", &["client fail: stuck: a | b"])).unwrap();
        assert_eq!(Signature::from_text(&first.text), Some(first.clone()));
        assert_eq!(first.summary(), "stuck: a | b");
        assert_eq!(first.title(), "stuck: a | b, after crash in x.Log.append");
        assert_eq!(Signature::from_text("nonsense"), None);
    }

    #[test]
    fn a_replay_confirms_by_the_same_symptom_or_the_same_kind() {
        let original =
            signature(&outcome(SITE, "crash", &["client fail: c is stuck: put"])).unwrap();
        for (judged, expected) in [
            (vec!["client fail: c is stuck: put"], true),
            (vec!["client fail: c is stuck: get"], true),
            (vec!["crash fail: k", "client fail: c is stuck: put"], true),
            (vec!["client fail: a wrong answer: put"], false),
            (vec!["hang fail: c is stuck: put"], false),
            (vec!["client pass: c is stuck: put"], false),
            (vec![], false),
        ] {
            let replay = outcome(SITE, "crash", &judged);
            assert_eq!(confirms(&original, &replay), expected, "{judged:?}");
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
