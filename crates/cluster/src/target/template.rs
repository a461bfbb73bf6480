//! Placeholders such as `{dir}` in arguments, environment and files of a target.
//!
//! A placeholder is a lower-case name in braces; other braces stay as they are, so that JSON and
//! shell need no escapes.

use std::collections::BTreeMap;

use super::source_text::{list, nearest};

/// What each placeholder stands for, for one process.
#[derive(Clone, Debug, Default)]
pub struct Facts(BTreeMap<String, String>);

/// A placeholder that stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown placeholder `{{{name}}}`; {hint}")]
pub struct UnknownPlaceholder {
    pub name: String,
    pub hint: String,
}

impl Facts {
    pub fn set(&mut self, name: impl Into<String>, value: impl ToString) {
        self.0.insert(name.into(), value.to_string());
    }

    /// Replaces every placeholder.
    pub fn render(&self, template: &str) -> Result<String, UnknownPlaceholder> {
        let mut text = String::with_capacity(template.len());
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            text.push_str(&rest[..open]);
            let after = &rest[open + 1..];
            match after.find('}').map(|close| &after[..close]) {
                Some(name) if is_name(name) => {
                    let value = self.0.get(name).ok_or_else(|| self.unknown(name))?;
                    text.push_str(value);
                    rest = &after[name.len() + 1..];
                }
                _ => {
                    text.push('{');
                    rest = after;
                }
            }
        }
        text.push_str(rest);
        Ok(text)
    }

    fn unknown(&self, name: &str) -> UnknownPlaceholder {
        let known: Vec<&String> = self.0.keys().collect();
        let meant = nearest(name, &known).map(|near| format!("did you mean `{near}`? "));
        let hint = format!("{}known are {}", meant.unwrap_or_default(), list(&known));
        UnknownPlaceholder {
            name: name.to_string(),
            hint,
        }
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, expected: Result<&str, &str>) {
        let mut facts = Facts::default();
        facts.set("dir", "/d");
        facts.set("port.client", 7200);
        match (facts.render(template), expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, _) => panic!("{template}: {got:?}"),
        }
    }

    #[test]
    fn placeholders_are_replaced_and_other_braces_stay() {
        check("{dir}/x:{port.client}", Ok("/d/x:7200"));
        check(
            "a{}b ${X} {\"k\": {\"v\": 1}} {",
            Ok("a{}b ${X} {\"k\": {\"v\": 1}} {"),
        );
    }

    #[test]
    fn an_unknown_placeholder_names_the_known_ones() {
        check(
            "{dri}",
            Err("did you mean `dir`? known are `dir`, `port.client`"),
        );
        check("{zzz}", Err("unknown placeholder `{zzz}`; known are `dir`"));
    }
}
