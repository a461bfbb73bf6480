//! Which sites a user means: by id, by name, by any part of a name.

use temblor_model::catalog::{Removed, SiteCatalog};
use temblor_model::site::Site;

/// How many names are suggested where none fits.
const SUGGESTED: usize = 5;

/// Sites and removed calls that match, in the catalog's order.
pub struct Found<'c> {
    pub sites: Vec<&'c Site>,
    pub removed: Vec<&'c Removed>,
}

impl Found<'_> {
    fn is_empty(&self) -> bool {
        self.sites.is_empty() && self.removed.is_empty()
    }
}

/// An id or an exact name is one site; a part of names may be many. Upper and lower case count
/// unless nothing fits otherwise.
pub fn find<'c>(catalog: &'c SiteCatalog, wanted: &str) -> Result<Found<'c>, String> {
    if let Ok(id) = wanted.parse::<u32>() {
        let site = catalog.site(id);
        let most = catalog.sites.len().saturating_sub(1);
        return match site {
            Some(site) => Ok(Found {
                sites: vec![site],
                removed: Vec::new(),
            }),
            None if catalog.sites.is_empty() => Err("there are no sites".into()),
            None => Err(format!("there is no site {id}, only 0 to {most},")),
        };
    }
    let exact = matching(catalog, |name| name == wanted);
    if !exact.is_empty() {
        return Ok(exact);
    }
    let part = matching(catalog, |name| name.contains(wanted));
    if !part.is_empty() && !wanted.is_empty() {
        return Ok(part);
    }
    let low = wanted.to_lowercase();
    let any_case = matching(catalog, |name| name.to_lowercase().contains(&low));
    match any_case.is_empty() || wanted.is_empty() {
        true => Err(format!("no site matches `{wanted}`")),
        false => Ok(any_case),
    }
}

fn matching(catalog: &SiteCatalog, fits: impl Fn(&str) -> bool) -> Found<'_> {
    Found {
        sites: catalog.sites.iter().filter(|s| fits(&s.name)).collect(),
        removed: catalog.removed.iter().filter(|r| fits(&r.name)).collect(),
    }
}

/// The names that look most like what was asked for.
pub fn nearest<'c>(catalog: &'c SiteCatalog, wanted: &str) -> Vec<&'c str> {
    if wanted.is_empty() || wanted.parse::<u32>().is_ok() {
        return Vec::new();
    }
    let names = catalog.sites.iter().map(|s| s.name.as_str());
    let names = names.chain(catalog.removed.iter().map(|r| r.name.as_str()));
    let mut near: Vec<(f64, &str)> = names.map(|n| (likeness(wanted, n), n)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    near.iter().take(SUGGESTED).map(|(_, n)| *n).collect()
}

/// Like the whole name, or like the parts people type: `Class.method` or `method`, of the caller
/// or the callee.
fn likeness(wanted: &str, name: &str) -> f64 {
    let (caller, callee) = name.split_once('>').unwrap_or((name, ""));
    let caller = caller.split('(').next().unwrap_or(caller);
    let callee = callee.split('#').next().unwrap_or(callee);
    let ends = |part| [last(part, 1), last(part, 2)];
    let low = wanted.to_lowercase();
    [[name, caller], [callee, callee], ends(caller), ends(callee)]
        .iter()
        .flatten()
        .map(|part| strsim::normalized_damerau_levenshtein(&low, &part.to_lowercase()))
        .fold(0.0, f64::max)
}

/// `Log.append` is the last two words of `org.mine.Log.append`.
fn last(name: &str, words: usize) -> &str {
    let mut dots = name.rmatch_indices('.').map(|(at, _)| at);
    dots.nth(words - 1).map_or(name, |at| &name[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::catalog;
    use super::*;

    #[test]
    fn ids_names_and_parts_find_sites() {
        let catalog = catalog();
        let ids = |wanted: &str| -> Vec<u32> {
            let found = find(&catalog, wanted).unwrap_or_else(|e| panic!("{e}"));
            found.sites.iter().map(|s| s.id).collect()
        };
        assert_eq!(ids("2"), [2]);
        assert_eq!(
            ids("org.mine.Log.append(String)>java.io.OutputStream.write#0"),
            [0]
        );
        assert_eq!(ids("Log.append"), [0, 1]);
        assert_eq!(
            ids("LOG.APPEND"),
            [0, 1],
            "case counts only where something fits so"
        );
        assert_eq!(ids("Codec"), [2]);
    }

    #[test]
    fn what_fits_nothing_is_an_error() {
        let catalog = catalog();
        for wanted in ["", "nothing.like.it", "4"] {
            assert!(find(&catalog, wanted).is_err(), "{wanted}");
        }
        assert!(find(&SiteCatalog::default(), "0").is_err());
    }

    #[test]
    fn the_nearest_is_first() {
        let catalog = catalog();
        assert!(nearest(&catalog, "Codec.decoed")[0].contains("Codec.decode"));
        assert!(nearest(&catalog, "OutputStrem.write")[0].contains("OutputStream.write"));
        assert!(nearest(&catalog, "parze")[0].contains("Node.parse"));
        assert_eq!(nearest(&catalog, "77"), Vec::<&str>::new());
    }
}
