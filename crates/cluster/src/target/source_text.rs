//! A TOML file with its text: turns offsets into lines, and the parser's errors into ours.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::error::{ConfigError, TargetError};

/// Suggestions are this close or not made at all (1 is equal).
const NEAR: f64 = 0.6;

/// A file's text, for errors that name a place in it.
#[derive(Clone, Debug)]
pub struct SourceText {
    pub file: PathBuf,
    pub text: String,
}

impl SourceText {
    pub fn read(file: &Path) -> Result<SourceText, TargetError> {
        let text = std::fs::read_to_string(file).map_err(|source| TargetError::Read {
            path: file.to_path_buf(),
            source,
        })?;
        Ok(SourceText {
            file: file.to_path_buf(),
            text,
        })
    }

    /// Parses the whole file.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml::from_str(&self.text).map_err(|error| self.explain(&error))
    }

    /// An error at a place in the file.
    pub fn error(
        &self,
        span: Range<usize>,
        problem: impl Into<String>,
        hint: Option<String>,
    ) -> ConfigError {
        let start = floor_char(&self.text, span.start);
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ConfigError {
            file: self.file.clone(),
            line: before.matches('\n').count() + 1,
            column: self.text[line_start..start].chars().count() + 1,
            key: self.key_at(start),
            problem: problem.into(),
            hint,
        }
    }

    /// An error at the first occurrence of some text, or at the top.
    pub fn error_at_text(
        &self,
        text: &str,
        problem: impl Into<String>,
        hint: Option<String>,
    ) -> ConfigError {
        let start = self.text.find(text).unwrap_or(0);
        self.error(start..start, problem, hint)
    }

    fn explain(&self, error: &toml::de::Error) -> ConfigError {
        let message = error.message();
        let span = error.span().unwrap_or(0..0);
        let quoted = quoted_words(message);
        if message.starts_with("unknown field") || message.starts_with("unknown variant") {
            let noun = if message.starts_with("unknown field") {
                "key"
            } else {
                "value"
            };
            let wanted = quoted.first().cloned().unwrap_or_default();
            let known = &quoted[1.min(quoted.len())..];
            let hint = match nearest(&wanted, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are {}", list(known)),
            };
            return self.error(span, format!("unknown {noun} `{wanted}`"), Some(hint));
        }
        if message.starts_with("missing field") {
            let missing = quoted.first().cloned().unwrap_or_default();
            let mut explained = self.error(span, format!("the key `{missing}` is missing"), None);
            explained.key = explained
                .key
                .split(" = ")
                .next()
                .unwrap_or_default()
                .to_string();
            return explained;
        }
        self.error(span, plain_words(message), None)
    }

    /// The dotted key that the text at an offset belongs to.
    fn key_at(&self, offset: usize) -> String {
        let line_end = self.text[offset..]
            .find('\n')
            .map_or(self.text.len(), |at| offset + at);
        let mut key = String::new();
        // Backwards: the nearest line with a key, then the nearest table header.
        for line in self.text[..line_end].lines().rev() {
            let line = line.trim();
            if line.starts_with('[') && line.contains(']') && !line.contains('=') {
                let header = line
                    .trim_start_matches('[')
                    .split(']')
                    .next()
                    .unwrap_or_default();
                let header = header.trim();
                return if key.is_empty() {
                    header.to_string()
                } else {
                    format!("{header}.{key}")
                };
            }
            if key.is_empty()
                && let Some((name, _)) = line.split_once('=')
                && is_key(name.trim())
            {
                key = name.trim().trim_matches('"').to_string();
            }
        }
        key
    }
}

fn is_key(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "_-.\"".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

fn floor_char(text: &str, offset: usize) -> usize {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn quoted_words(message: &str) -> Vec<String> {
    message
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_string)
        .collect()
}

/// Words for people instead of the parser's names of types.
fn plain_words(message: &str) -> String {
    let words = [
        ("expected u16", "expected a number from 0 to 65535"),
        ("expected u32", "expected a whole number, not negative"),
        ("expected u64", "expected a whole number, not negative"),
        ("expected f64", "expected a number"),
        (
            "expected a sequence",
            "expected a list, as in [\"a\", \"b\"]",
        ),
        ("expected a map", "expected a table"),
    ];
    let mut plain = message.lines().collect::<Vec<_>>().join("; ");
    for (from, to) in words {
        plain = plain.replace(from, to);
    }
    match plain.find("expected struct ") {
        Some(at) => format!("{}expected a table", &plain[..at]),
        None => plain,
    }
}

/// The known word that is most like the wanted one, if any is like it at all.
pub fn nearest<'a, S: AsRef<str>>(wanted: &str, known: &'a [S]) -> Option<&'a str> {
    // The first likes equal beginnings, the second letters that changed places in short words.
    let likeness = |word: &str| {
        strsim::jaro_winkler(wanted, word).max(strsim::normalized_damerau_levenshtein(wanted, word))
    };
    known
        .iter()
        .map(|word| (likeness(word.as_ref()), word.as_ref()))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

/// Words in backquotes, with commas.
pub fn list<S: AsRef<str>>(words: &[S]) -> String {
    let quoted: Vec<String> = words
        .iter()
        .map(|word| format!("`{}`", word.as_ref()))
        .collect();
    quoted.join(", ")
}
