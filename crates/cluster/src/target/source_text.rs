//! A TOML file with its text: turns offsets into lines, and the parser's errors into ours.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::error::{ConfigError, TargetError};

/// Suggestions are this close or not made at all (1 is equal).
const NEAR: f64 = 0.6;

/// A file's text, and below it that of a file it inherits from, for errors that name a place in
/// one of them.
///
/// Offsets count through all texts as if they were one, so that a value keeps its file when the
/// tables of two files become one.
#[derive(Clone, Debug)]
pub struct SourceText {
    text: String,
    /// Each file and where it begins in `text`; never empty.
    files: Vec<(PathBuf, usize)>,
}

/// One step on the way to a value.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl SourceText {
    pub fn read(file: &Path) -> Result<SourceText, TargetError> {
        let mut source = SourceText {
            text: String::new(),
            files: Vec::new(),
        };
        source.append(file)?;
        Ok(source)
    }

    /// Puts another file below what is there: its keys count where those above have none.
    pub fn append(&mut self, file: &Path) -> Result<(), TargetError> {
        let text = std::fs::read_to_string(file).map_err(|source| TargetError::Read {
            path: file.to_path_buf(),
            source,
        })?;
        self.files.push((file.to_path_buf(), self.text.len()));
        self.text.push_str(&text);
        self.text.push('\n');
        Ok(())
    }

    /// Parses all files as one: tables are joined, other values of the first file win.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        let parts = self.parts();
        let table = joined(&parts).map_err(|error| self.explain(&error))?;
        T::deserialize(Deserializer::from(table)).map_err(|error| self.explain(&error))
    }

    /// Where a value is; nothing if it is not there.
    pub fn span_of(&self, steps: &[Step<'_>]) -> Option<Range<usize>> {
        let parts = self.parts();
        let table = joined(&parts).ok()?;
        value_at(&table, steps).map(Spanned::span)
    }

    /// A string at the top of the first file, with its place.
    pub fn string_at_top(&self, key: &str) -> Option<Spanned<String>> {
        let parts = self.parts();
        let table = DeTable::parse(parts.first()?).ok()?;
        let value = table.get_ref().get(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(Spanned::new(value.span(), text.to_string())),
            _ => None,
        }
    }

    /// The text of each file, with as many spaces before it as there is text above it: what the
    /// parser says of it is then a place in the whole text.
    fn parts(&self) -> Vec<String> {
        let part = |i: usize| {
            let start = self.files[i].1;
            let end = self.files.get(i + 1).map_or(self.text.len(), |next| next.1);
            " ".repeat(start) + &self.text[start..end]
        };
        (0..self.files.len()).map(part).collect()
    }

    /// An error at a place in one of the files.
    pub fn error(
        &self,
        span: Range<usize>,
        problem: impl Into<String>,
        hint: Option<String>,
    ) -> ConfigError {
        let start = floor_char(&self.text, span.start);
        let file = self.files.iter().rfind(|(_, begin)| *begin <= start);
        let (file, begin) = file.unwrap_or(&self.files[0]);
        let before = &self.text[*begin..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ConfigError {
            file: file.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            key: self.key_at(*begin, start),
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

    /// The dotted key that the text at an offset belongs to, in the file that begins at `begin`.
    fn key_at(&self, begin: usize, offset: usize) -> String {
        let line_end = self.text[offset..]
            .find('\n')
            .map_or(self.text.len(), |at| offset + at);
        let mut key = String::new();
        // Backwards: the nearest line with a key, then the nearest table header.
        for line in self.text[begin..line_end].lines().rev() {
            let line = line.trim();
            if let Some(header) = header(line) {
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

/// All tables as one; a value of an earlier part wins.
fn joined(parts: &[String]) -> Result<Spanned<DeTable<'_>>, toml::de::Error> {
    let mut parts = parts.iter();
    let first = parts.next().map_or("", String::as_str);
    let mut table = DeTable::parse(first)?;
    for part in parts {
        lay_below(table.get_mut(), DeTable::parse(part)?.into_inner());
    }
    Ok(table)
}

fn lay_below<'i>(table: &mut DeTable<'i>, below: DeTable<'i>) {
    for (key, value) in below {
        match table.get_mut(&key) {
            None => {
                table.insert(key, value);
            }
            Some(own) => {
                if let (DeValue::Table(own), DeValue::Table(value)) =
                    (own.get_mut(), value.into_inner())
                {
                    lay_below(own, value);
                }
            }
        }
    }
}

fn value_at<'a, 'i>(
    table: &'a Spanned<DeTable<'i>>,
    steps: &[Step<'_>],
) -> Option<&'a Spanned<DeValue<'i>>> {
    let (Step::Key(first), rest) = steps.split_first()? else {
        return None;
    };
    let mut value = table.get_ref().get(*first)?;
    for step in rest {
        value = match (step, value.get_ref()) {
            (Step::Key(key), DeValue::Table(table)) => table.get(*key)?,
            (Step::Index(i), DeValue::Array(items)) => items.get(*i)?,
            _ => return None,
        };
    }
    Some(value)
}

/// The name in a table's header, even one that is not closed; no list that begins a line.
fn header(line: &str) -> Option<&str> {
    let name = line.strip_prefix('[')?.trim_start_matches('[');
    let name = name.split([']', '#']).next().unwrap_or_default().trim();
    is_key(name)
        .then_some(name)
        .filter(|_| !line.starts_with("[\""))
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
