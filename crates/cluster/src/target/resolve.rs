//! From `target.toml` to a `TargetCode` or a `Target`: every fact checked, sources compiled, the JDK
//! and the jars found.

use std::path::{Path, PathBuf};

use toml::Spanned;

use super::config::{FORMAT, SourceConfig, TargetConfig};
use super::error::TargetError;
use super::find::TARGET_FILE;
use super::run::RunConfig;
use super::settings::check_settings;
use super::source_text::{SourceText, Step};
use super::{Choice, Target, TargetCode, TargetStatus, compile, is_word};
use crate::artifact::{Coordinate, Depot, Jdk, JdkUse, Progress};
use crate::glob;

type Result<T> = std::result::Result<T, TargetError>;

const INHERIT: &str = "inherit";

/// Reads a target's file and what it inherits; only their form is checked.
pub fn parse_target(dir: &Path) -> Result<TargetConfig> {
    Ok(read_text(dir)?.parse()?)
}

/// Gets what a target needs and this machine lacks: its jars, and a JDK if there is none for it.
pub fn fetch_target(dir: &Path, progress: Progress<'_>) -> Result<()> {
    fetch_target_with(dir, &Depot::of_user()?, progress)
}

/// As `fetch_target`, with a depot of the caller's.
pub fn fetch_target_with(dir: &Path, depot: &Depot, progress: Progress<'_>) -> Result<()> {
    let draft = Draft::read(dir)?;
    draft.check()?;
    let majors = draft.majors()?;
    let wanted = draft.jdk_use();
    if !majors
        .iter()
        .any(|major| depot.find_jdk(*major, wanted).is_ok())
    {
        depot.fetch_jdk(majors[0], progress)?;
    }
    if let Some(coordinates) = draft.coordinates()? {
        depot.fetch_maven(&draft.full_name(), &coordinates, progress)?;
    }
    Ok(())
}

/// What can be done with a target on this machine as it is; nothing is compiled or fetched.
pub fn target_status(dir: &Path, depot: &Depot) -> Result<TargetStatus> {
    let draft = Draft::read(dir)?;
    draft.check()?;
    let runs = RunConfig::find(&draft.source, &draft.config)?.is_some();
    let coordinates = draft.coordinates()?;
    let jars = match &coordinates {
        Some(coordinates) => depot.has_jars(&draft.full_name(), coordinates),
        None => draft.source_is_there(),
    };
    Ok(TargetStatus {
        summary: draft.config.summary.clone(),
        majors: draft.majors()?,
        jdk: draft.jdk(depot).ok(),
        jars,
        bundled: coordinates.is_none(),
        runs,
    })
}

impl TargetCode {
    /// What is to be analysed of the target in a folder, with what is on this machine.
    pub fn resolve(dir: &Path, progress: Progress<'_>) -> Result<TargetCode> {
        TargetCode::resolve_with(dir, &Depot::of_user()?, None, progress)
    }

    /// As `resolve`; with a depot of the caller's, and a JDK instead of the target's choice.
    pub fn resolve_with(
        dir: &Path,
        depot: &Depot,
        jdk: Option<Jdk>,
        progress: Progress<'_>,
    ) -> Result<TargetCode> {
        let draft = Draft::read(dir)?;
        draft.check()?;
        let code = || draft.code(depot, jdk, progress);
        match RunConfig::find(&draft.source, &draft.config)? {
            // What is wrong with the rest should show at the first command; what it would run
            // need not be compiled for that.
            Some(run) => {
                let code = |_: Option<&Path>| Ok((code()?, Vec::new()));
                Ok(run.target(&Choice::default(), &draft.dir, code)?.code)
            }
            None => code(),
        }
    }
}

impl Target {
    /// Resolves the target in a folder with what is on this machine.
    pub fn resolve(dir: &Path, choice: &Choice, progress: Progress<'_>) -> Result<Target> {
        Target::resolve_with(dir, choice, &Depot::of_user()?, None, progress)
    }

    /// As `resolve`; with a depot of the caller's, and a JDK instead of the target's choice.
    pub fn resolve_with(
        dir: &Path,
        choice: &Choice,
        depot: &Depot,
        jdk: Option<Jdk>,
        progress: Progress<'_>,
    ) -> Result<Target> {
        let draft = Draft::read(dir)?;
        draft.check()?;
        match RunConfig::find(&draft.source, &draft.config)? {
            Some(run) => run.target(choice, &draft.dir, |workload| {
                let code = draft.code(depot, jdk, progress)?;
                let classes = match workload {
                    None => Vec::new(),
                    Some(sources) => vec![draft.workload(depot, &code, sources, progress)?],
                };
                Ok((code, classes))
            }),
            None => Err(TargetError::AnalysisOnly {
                target: draft.full_name(),
            }),
        }
    }
}

/// The text of a target's file, and below it that of the file it inherits from.
fn read_text(dir: &Path) -> Result<SourceText> {
    let mut source = SourceText::read(&dir.join(TARGET_FILE))?;
    let Some(inherit) = source.string_at_top(INHERIT) else {
        return Ok(source);
    };
    let base = dir.join(inherit.get_ref());
    if !base.is_file() {
        let problem = format!("there is no file {}", base.display());
        return Err(source.error(inherit.span(), problem, None).into());
    }
    let second = SourceText::read(&base)?;
    if let Some(span) = second.span_of(&[Step::Key(INHERIT)]) {
        let problem = "a file that is inherited cannot inherit";
        return Err(second.error(span, problem, None).into());
    }
    source.append(&base)?;
    Ok(source)
}

/// A target's file that has been read, not yet believed.
struct Draft {
    source: SourceText,
    config: TargetConfig,
    dir: PathBuf,
}

impl Draft {
    fn read(dir: &Path) -> Result<Draft> {
        let source = read_text(dir)?;
        let config = source.parse()?;
        let dir = dir.canonicalize().map_err(|source| TargetError::Read {
            path: dir.join(TARGET_FILE),
            source,
        })?;
        Ok(Draft {
            source,
            config,
            dir,
        })
    }

    fn fail<T, V>(&self, at: &Spanned<V>, problem: impl Into<String>) -> Result<T> {
        Err(self.source.error(at.span(), problem, None).into())
    }

    fn full_name(&self) -> String {
        let (name, version) = (&self.config.name, &self.config.version);
        format!("{}@{}", name.get_ref(), version.get_ref())
    }

    /// All that costs nothing and does not need to be run.
    fn check(&self) -> Result<()> {
        let format = &self.config.format;
        if *format.get_ref() != FORMAT {
            let problem = format!(
                "format {} is unknown; this version reads {FORMAT}",
                format.get_ref()
            );
            return self.fail(format, problem);
        }
        for text in [&self.config.name, &self.config.version] {
            if !is_word(text.get_ref()) {
                return self.fail(text, "expected letters, digits, `.`, `_` and `-`");
            }
        }
        check_settings(&self.source, &self.config.analysis)?;
        self.check_source()
    }

    fn check_source(&self) -> Result<()> {
        let spanned = &self.config.source;
        let source = spanned.get_ref();
        let given = [
            source.java.is_some(),
            source.jars.is_some(),
            source.maven.is_some(),
        ];
        if given.iter().filter(|given| **given).count() != 1 {
            return self.fail(
                spanned,
                "expected exactly one of `java`, `jars` and `maven`",
            );
        }
        if let Some(java) = &source.java
            && !self.dir.join(java.get_ref()).is_dir()
        {
            let problem = format!(
                "there is no folder `{}` beside {TARGET_FILE}",
                java.get_ref()
            );
            return self.fail(java, problem);
        }
        self.coordinates()?;
        self.majors().map(drop)
    }

    fn source(&self) -> &SourceConfig {
        self.config.source.get_ref()
    }

    fn coordinates(&self) -> Result<Option<Vec<Coordinate>>> {
        let parse = |text: &Spanned<String>| {
            let hint = Some("write `group:artifact:version`".to_string());
            let problem = format!("`{}` is not a Maven coordinate", text.get_ref());
            text.get_ref()
                .parse()
                .map_err(|_| self.source.error(text.span(), problem, hint).into())
        };
        let Some(maven) = &self.source().maven else {
            return Ok(None);
        };
        if maven.is_empty() {
            return self.fail(&self.config.source, "`maven` is empty");
        }
        maven.iter().map(parse).collect::<Result<_>>().map(Some)
    }

    /// The accepted versions of the JDK, best first; never empty.
    fn majors(&self) -> Result<Vec<u32>> {
        let jdk = &self.config.jdk;
        let hint = || Some("write major versions, best first, as [\"17\", \"11\"]".to_string());
        let error = |problem: String| self.source.error(jdk.span(), problem, hint());
        if jdk.get_ref().is_empty() {
            return Err(error("the list is empty".into()).into());
        }
        let parse = |text: &String| {
            let major = text.parse();
            major.map_err(|_| error(format!("`{text}` is not a major version")).into())
        };
        jdk.get_ref().iter().map(parse).collect()
    }

    fn jdk_use(&self) -> JdkUse {
        let workload = self.config.workload.as_ref();
        if self.source().java.is_some() || workload.is_some_and(|w| w.get_ref().java.is_some()) {
            JdkUse::Compile
        } else {
            JdkUse::Run
        }
    }

    fn jdk(&self, depot: &Depot) -> Result<Jdk> {
        let wanted = self.jdk_use();
        let majors = self.majors()?;
        let mut found = majors
            .iter()
            .filter_map(|major| depot.find_jdk(*major, wanted).ok());
        found.next().ok_or_else(|| TargetError::NoJdk {
            target: self.full_name(),
            majors: majors.iter().map(u32::to_string).collect(),
            need: if wanted == JdkUse::Compile {
                " with javac"
            } else {
                ""
            },
        })
    }

    fn code(&self, depot: &Depot, jdk: Option<Jdk>, progress: Progress<'_>) -> Result<TargetCode> {
        let jdk = match jdk {
            Some(jdk) => jdk,
            None => self.jdk(depot)?,
        };
        Ok(TargetCode {
            name: self.config.name.get_ref().clone(),
            version: self.config.version.get_ref().clone(),
            summary: self.config.summary.clone(),
            dir: self.dir.clone(),
            classpath: self.classpath(depot, &jdk, progress)?,
            jdk,
            analysis: self.config.analysis.clone(),
        })
    }

    fn classpath(&self, depot: &Depot, jdk: &Jdk, progress: Progress<'_>) -> Result<Vec<PathBuf>> {
        if let Some(java) = &self.source().java {
            let folder = self.dir.join(java.get_ref());
            let name = self.full_name();
            let task = compile::Compilation {
                target: &name,
                sources: &folder,
                against: &[],
                cache: &depot.cache().root().join("classes").join(&name),
                jdk,
            };
            return Ok(vec![task.jar(progress)?]);
        }
        if let Some(coordinates) = self.coordinates()? {
            return Ok(depot.find_jars_of(&self.full_name(), &coordinates)?.paths);
        }
        let mut paths = Vec::new();
        for pattern in self.source().jars.iter().flatten() {
            let found = glob::matches(&self.dir, pattern.get_ref());
            if found.is_empty() {
                let problem = format!("nothing matches `{}`", pattern.get_ref());
                return self.fail(pattern, problem);
            }
            paths.extend(found);
        }
        Ok(paths)
    }

    /// The classes of the workload, compiled against the target's.
    fn workload(
        &self,
        depot: &Depot,
        code: &TargetCode,
        sources: &Path,
        progress: Progress<'_>,
    ) -> Result<PathBuf> {
        let name = format!("{}-workload", code.full_name());
        let task = compile::Compilation {
            target: &name,
            sources,
            against: &code.classpath,
            cache: &depot.cache().root().join("classes").join(&name),
            jdk: &code.jdk,
        };
        task.jar(progress)
    }

    /// Whether the sources or jars beside the file are there.
    fn source_is_there(&self) -> bool {
        let mut patterns = self.source().jars.iter().flatten();
        patterns.all(|pattern| !glob::matches(&self.dir, pattern.get_ref()).is_empty())
    }
}
