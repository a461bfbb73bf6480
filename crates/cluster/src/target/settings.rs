//! The `[analysis]` table of a target: its names must look like names, or nothing would match
//! them and nobody would be told.

use temblor_model::settings::AnalysisSettings;

use super::error::{ConfigError, TargetError};
use super::source_text::{SourceText, Step};

/// What a setting is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The beginning of class names: `org.example.`.
    Prefix,
    /// A class, perhaps with `*`: `org.example.Node`.
    Class,
    /// A method of a class, perhaps with `*`: `org.example.Node.send`.
    Method,
    /// A method's name alone: `send`.
    Word,
}

impl Form {
    fn fits(self, name: &str) -> bool {
        let name = match self {
            Form::Prefix => name.strip_suffix('.').unwrap_or(name),
            _ => name,
        };
        let is_char = |c: char| c.is_alphanumeric() || "_$<>*".contains(c);
        let mut words = name.split('.');
        let is_dotted = words.all(|word| !word.is_empty() && word.chars().all(is_char));
        let long_enough = match self {
            Form::Method => name.contains('.') || name.contains('*'),
            Form::Word => !name.contains('.'),
            Form::Prefix => !name.contains('*'),
            Form::Class => true,
        };
        is_dotted && long_enough
    }

    fn example(self) -> &'static str {
        match self {
            Form::Prefix => "the beginning of class names, as `org.example.`",
            Form::Class => "a class with its package, as `org.example.Node`",
            Form::Method => "a class and its method, as `org.example.Node.send`",
            Form::Word => "a method's name alone, as `send`",
        }
    }
}

/// Checks that the packages are there and that every name is one.
pub fn check_settings(source: &SourceText, settings: &AnalysisSettings) -> Result<(), TargetError> {
    let check = Check { source };
    if settings.packages.iter().all(String::is_empty) {
        let problem = "expected at least one prefix of class names in `packages`";
        return Err(check.error(&["packages"], None, problem.into()).into());
    }
    let lists = [
        ("packages", Form::Prefix, &settings.packages),
        ("exclude", Form::Prefix, &settings.exclude),
        ("exceptions", Form::Class, &settings.exceptions),
        ("calls", Form::Method, &settings.calls),
        ("not_io", Form::Method, &settings.not_io),
        ("memory", Form::Class, &settings.memory),
        ("lock_wrappers", Form::Method, &settings.lock_wrappers),
        ("sends", Form::Method, &settings.sends),
        ("handles", Form::Method, &settings.handles),
        ("meta_types", Form::Class, &settings.meta_types),
    ];
    for (key, form, names) in lists {
        for (i, name) in names.iter().enumerate() {
            check.name(key, i, None, form, name)?;
        }
    }
    for (i, rule) in settings.io.iter().enumerate() {
        check.name("io", i, Some("call"), Form::Method, &rule.call)?;
    }
    for (i, rule) in settings.tasks.iter().enumerate() {
        check.name("tasks", i, Some("base"), Form::Class, &rule.base)?;
        check.name("tasks", i, Some("method"), Form::Word, &rule.method)?;
    }
    for (i, rule) in settings.locks.iter().enumerate() {
        check.name("locks", i, Some("acquire"), Form::Method, &rule.acquire)?;
        check.name("locks", i, Some("release"), Form::Method, &rule.release)?;
    }
    for (i, rule) in settings.clocks.iter().enumerate() {
        check.name("clocks", i, Some("call"), Form::Method, &rule.call)?;
    }
    Ok(())
}

struct Check<'a> {
    source: &'a SourceText,
}

impl Check<'_> {
    fn name(
        &self,
        key: &str,
        index: usize,
        field: Option<&str>,
        form: Form,
        name: &str,
    ) -> Result<(), TargetError> {
        if form.fits(name) {
            return Ok(());
        }
        let problem = format!("`{name}` is not {}", form.example());
        let keys: Vec<&str> = [key].into_iter().chain(field).collect();
        let mut error = self.error(&keys, Some(index), problem);
        if name.contains('/') {
            error.hint = Some("write dots instead of slashes".into());
        }
        Err(error.into())
    }

    /// An error at `analysis.KEY`, `analysis.KEY[INDEX]` or `analysis.KEY[INDEX].FIELD`.
    fn error(&self, keys: &[&str], index: Option<usize>, problem: String) -> ConfigError {
        let mut steps = vec![Step::Key("analysis"), Step::Key(keys[0])];
        steps.extend(index.map(Step::Index));
        steps.extend(keys[1..].iter().map(|key| Step::Key(key)));
        // What is not there at all is missed in its table.
        let span = self.source.span_of(&steps);
        let span = span.or_else(|| self.source.span_of(&steps[..1]));
        let mut error = self.source.error(span.unwrap_or(0..0), problem, None);
        error.key = format!("analysis.{}", keys.join("."));
        error
    }
}
