//! `index.sqlite`: what the files of a campaign say, in tables, so that thousands of trials are
//! listed without reading thousands of files.
//!
//! Invariant: the files are the truth. Each row carries the stamp of the file it was read from,
//! and a reader first brings the rows up to the files; so a row that is missing, late or of an
//! older version of the file is read again, whoever wrote it. An index that is broken, foreign or
//! of another version is set aside and made anew. One that cannot be had at all (a read-only
//! store, a full disk, a busy writer) is done without: no trouble here is an error of the user's.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use temblor_model::bug::{Bug, Outcome};
use temblor_model::campaign::Purpose;
use temblor_model::plan::Plan;

use super::listing::Listed;
use super::{Store, StoreError, Trials, names_in, read_trial};

/// Of the tables below. Another version is set aside: making it anew is cheaper than a migration.
const VERSION: i64 = 1;
/// A reader waits for a campaign that is writing a trial.
const READER_WAITS_MS: u64 = 5_000;
/// A campaign does not wait for readers: what it could not write, they find in the files.
const WRITER_WAITS_MS: u64 = 100;

const TABLES: &str = "
    -- How far campaign.jsonl was read, and which file it was.
    CREATE TABLE stream (file INTEGER NOT NULL, bytes INTEGER NOT NULL);
    -- Also of trials that have not finished.
    CREATE TABLE purposes (trial INTEGER PRIMARY KEY, purpose TEXT NOT NULL);
    CREATE TABLE trials (
        number INTEGER PRIMARY KEY, stamp TEXT NOT NULL, verdict TEXT NOT NULL,
        seconds REAL NOT NULL, cpu_seconds REAL NOT NULL,
        fired_fault TEXT, fired_site TEXT, fired_node TEXT, checker TEXT, symptom TEXT);
    CREATE INDEX trials_by_verdict ON trials (verdict);
    -- Apart, so that lists need not pass over them.
    CREATE TABLE wholes (
        trial INTEGER PRIMARY KEY, plan TEXT NOT NULL, outcome TEXT NOT NULL);
    CREATE TABLE symptoms (
        trial INTEGER NOT NULL, place INTEGER NOT NULL, checker TEXT NOT NULL,
        summary TEXT NOT NULL, at_us INTEGER NOT NULL,
        PRIMARY KEY (trial, place)) WITHOUT ROWID;
    CREATE TABLE bugs (
        id TEXT PRIMARY KEY, stamp TEXT NOT NULL, signature TEXT NOT NULL, title TEXT NOT NULL,
        known TEXT, confirmed_times INTEGER NOT NULL, confirmed_of INTEGER NOT NULL);
    CREATE TABLE bug_trials (
        bug TEXT NOT NULL, trial INTEGER NOT NULL, PRIMARY KEY (bug, trial)) WITHOUT ROWID;
";

pub(crate) struct Index(Connection);

/// Why the index could not answer.
pub(crate) enum Trouble {
    /// It is the index's own.
    Index(rusqlite::Error),
    /// It is the store's, and the files would say the same.
    Store(StoreError),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        Trouble::Index(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Store(error)
    }
}

/// Asks the index of a campaign. None when there is none to be had.
pub(crate) fn ask<T>(
    store: &Store,
    question: impl Fn(&mut Index, &Store) -> Result<T, Trouble>,
) -> Result<Option<T>, StoreError> {
    const ATTEMPTS: u32 = 2;
    for _ in 0..ATTEMPTS {
        let Some(mut index) = Index::open(store.path(), READER_WAITS_MS) else {
            break;
        };
        match question(&mut index, store) {
            Ok(answer) => return Ok(Some(answer)),
            Err(Trouble::Store(error)) => return Err(error),
            Err(Trouble::Index(error)) if is_broken(&error) => {
                drop(index);
                set_aside(&place(store.path()));
            }
            Err(Trouble::Index(_)) => break,
        }
    }
    Ok(None)
}

impl Index {
    /// For the campaign that is being run.
    pub(crate) fn to_write(folder: &Path) -> Option<Index> {
        Index::open(folder, WRITER_WAITS_MS)
    }

    fn open(folder: &Path, waits_ms: u64) -> Option<Index> {
        let path = place(folder);
        let open = || Index::try_open(&path, Duration::from_millis(waits_ms));
        match open() {
            Err(error) if is_broken(&error) => {
                set_aside(&path);
                open().ok()
            }
            other => other.ok(),
        }
    }

    fn try_open(path: &Path, waits: Duration) -> rusqlite::Result<Index> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(waits)?;
        // A power cut may cost the last rows, which are in the files; not the tables.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        if version(&connection)? == 0 {
            let transaction = immediate(&mut connection)?;
            // Another process may have been faster.
            if version(&transaction)? == 0 {
                transaction.execute_batch(TABLES)?;
                transaction.pragma_update(None, "user_version", VERSION)?;
            }
            transaction.commit()?;
        }
        if version(&connection)? != VERSION {
            return Err(broken("written by another version"));
        }
        let whole: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        match whole.as_str() {
            "ok" => Ok(Index(connection)),
            _ => Err(broken(&whole)),
        }
    }

    /// All trials, as [`Store::trials`] tells them.
    pub(crate) fn trials(&mut self, store: &Store) -> Result<Trials, Trouble> {
        let torn = self.follow_trials(store)?;
        let sql = "SELECT trial, plan, outcome FROM wholes";
        let rows: Vec<(i64, String, String)> = self.all(sql, |row| row.try_into())?;
        let mut done = BTreeMap::new();
        for (number, plan, outcome) in rows {
            done.insert(number as u64, (parsed(&plan)?, parsed(&outcome)?));
        }
        Ok(Trials { done, torn })
    }

    pub(crate) fn purposes(&mut self, store: &Store) -> Result<BTreeMap<u64, Purpose>, Trouble> {
        self.follow_stream(store)?;
        let sql = "SELECT trial, purpose FROM purposes";
        let rows: Vec<(i64, String)> = self.all(sql, |row| row.try_into())?;
        let purpose = |(trial, word): (i64, String)| Ok((trial as u64, of_word(&word)?));
        rows.into_iter().map(purpose).collect()
    }

    pub(crate) fn listing(&mut self, store: &Store) -> Result<Vec<Listed>, Trouble> {
        self.follow_trials(store)?;
        self.follow_bugs(store)?;
        let purposes = self.purposes(store)?;
        let mut bugs: HashMap<i64, Vec<String>> = HashMap::new();
        let sql = "SELECT trial, bug FROM bug_trials ORDER BY bug";
        for (trial, bug) in self.all(sql, |row| <(i64, String)>::try_from(row))? {
            bugs.entry(trial).or_default().push(bug);
        }
        let sql = "SELECT number, verdict, seconds, cpu_seconds, fired_fault, fired_site,
                   fired_node, checker, symptom FROM trials ORDER BY number";
        type Row = (
            i64,
            String,
            f64,
            f64,
            Option<String>,
            Option<String>,
            Option<String>,
            Option<String>,
            Option<String>,
        );
        let mut listed = Vec::new();
        for row in self.all(sql, |row| Row::try_from(row))? {
            let (number, verdict, seconds, cpu_seconds, fault, site, node, checker, symptom) = row;
            let trial = number as u64;
            listed.push(Listed {
                trial,
                purpose: purposes.get(&trial).copied().unwrap_or(Purpose::Search),
                verdict: of_word(&verdict)?,
                seconds,
                cpu_seconds,
                fault,
                site,
                node,
                checker,
                symptom,
                bugs: bugs.remove(&number).unwrap_or_default(),
            });
        }
        Ok(listed)
    }

    /// A trial that has just been stored.
    pub(crate) fn add_trial(
        &mut self,
        store: &Store,
        plan: &Plan,
        outcome: &Outcome,
    ) -> Result<(), Trouble> {
        let stamp = trial_stamp(&store.trial_dir(outcome.trial)).unwrap_or_default();
        let appended = self.appended(store)?;
        let transaction = immediate(&mut self.0)?;
        put_trial(&transaction, outcome.trial, &stamp, plan, outcome)?;
        put_stream(&transaction, &appended)?;
        transaction.commit()?;
        Ok(())
    }

    /// Brings the rows of trials up to the files; tells what is not whole.
    fn follow_trials(&mut self, store: &Store) -> Result<Vec<(String, String)>, Trouble> {
        // Before the folder is listed: what is finished after this is nobody's to remove.
        let mut known: HashMap<i64, String> = self
            .all("SELECT number, stamp FROM trials", |row| row.try_into())?
            .into_iter()
            .collect();
        let (mut fresh, mut torn) = (Vec::new(), Vec::new());
        let trials = store.path().join("trials");
        for name in names_in(&trials)? {
            let Ok(number) = name.parse::<u64>() else {
                torn.push((name, "set aside by a resume".into()));
                continue;
            };
            let folder = trials.join(&name);
            // Before the files are read: a change in between shows as another stamp.
            let stamp = trial_stamp(&folder).unwrap_or_default();
            if known.get(&(number as i64)) == Some(&stamp) {
                known.remove(&(number as i64));
                continue;
            }
            match read_trial(&folder) {
                Ok(Some(whole)) => {
                    known.remove(&(number as i64));
                    fresh.push((number, stamp, whole));
                }
                Ok(None) => torn.push((name, "no outcome: interrupted".into())),
                Err(newer @ StoreError::Newer { .. }) => return Err(newer.into()),
                Err(e) => torn.push((name, e.to_string())),
            }
        }
        if fresh.is_empty() && known.is_empty() {
            return Ok(torn);
        }
        let transaction = immediate(&mut self.0)?;
        for gone in known.keys() {
            drop_trial(&transaction, *gone)?;
        }
        for (number, stamp, (plan, outcome)) in &fresh {
            put_trial(&transaction, *number, stamp, plan, outcome)?;
        }
        transaction.commit()?;
        Ok(torn)
    }

    /// Brings the purposes up to the campaign's stream.
    fn follow_stream(&mut self, store: &Store) -> Result<(), Trouble> {
        let appended = self.appended(store)?;
        if !appended.is_nothing() {
            let transaction = immediate(&mut self.0)?;
            put_stream(&transaction, &appended)?;
            transaction.commit()?;
        }
        Ok(())
    }

    /// What the campaign's stream has that was not read yet.
    fn appended(&self, store: &Store) -> Result<Appended, Trouble> {
        let path = store.path().join("campaign.jsonl");
        let sql = "SELECT file, bytes FROM stream";
        let known = self.0.query_row(sql, [], |row| row.try_into()).optional()?;
        let (file, read_to) = known.unwrap_or((0, 0));
        let cannot = |e| Trouble::Store(StoreError::io(&path, "cannot read")(e));
        Appended::read(&path, file, read_to).map_err(cannot)
    }

    /// Brings the rows of bugs up to their files.
    pub(crate) fn follow_bugs(&mut self, store: &Store) -> Result<(), Trouble> {
        let mut known: HashMap<String, String> = self
            .all("SELECT id, stamp FROM bugs", |row| row.try_into())?
            .into_iter()
            .collect();
        let mut fresh = Vec::new();
        for id in names_in(&store.path().join("bugs"))? {
            let stamp = stamp(&store.bug_dir(&id).join("bug.json")).unwrap_or_default();
            if known.get(&id) == Some(&stamp) {
                known.remove(&id);
            } else if let Ok(bug) = store.bug(&id) {
                known.remove(&id);
                fresh.push((id, stamp, bug));
            }
        }
        if fresh.is_empty() && known.is_empty() {
            return Ok(());
        }
        let transaction = immediate(&mut self.0)?;
        for id in known.keys() {
            drop_bug(&transaction, id)?;
        }
        for (id, stamp, bug) in &fresh {
            put_bug(&transaction, id, stamp, bug)?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// All rows at once: while they are read, the campaign cannot write.
    fn all<T>(
        &self,
        sql: &str,
        row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        self.0.prepare(sql)?.query_map([], row)?.collect()
    }
}

fn put_trial(
    to: &Transaction<'_>,
    number: u64,
    stamp: &str,
    plan: &Plan,
    outcome: &Outcome,
) -> rusqlite::Result<()> {
    let trial = number as i64;
    let line = Listed::of(number, Purpose::Search, outcome, Vec::new());
    drop_trial(to, trial)?;
    to.prepare_cached("INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?
        .execute(params![
            trial,
            stamp,
            word(&line.verdict),
            line.seconds,
            line.cpu_seconds,
            line.fault,
            line.site,
            line.node,
            line.checker,
            line.symptom
        ])?;
    to.prepare_cached("INSERT INTO wholes VALUES (?, ?, ?)")?
        .execute(params![trial, text(plan)?, text(outcome)?])?;
    let mut insert = to.prepare_cached("INSERT INTO symptoms VALUES (?, ?, ?, ?, ?)")?;
    for (place, symptom) in outcome.symptoms().enumerate() {
        insert.execute(params![
            trial,
            place as i64,
            symptom.checker,
            symptom.summary,
            symptom.at_us as i64
        ])?;
    }
    Ok(())
}

fn drop_trial(from: &Transaction<'_>, trial: i64) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM trials WHERE number = ?",
        "DELETE FROM wholes WHERE trial = ?",
        "DELETE FROM symptoms WHERE trial = ?",
    ] {
        from.prepare_cached(sql)?.execute([trial])?;
    }
    Ok(())
}

fn put_bug(to: &Transaction<'_>, id: &str, stamp: &str, bug: &Bug) -> rusqlite::Result<()> {
    drop_bug(to, id)?;
    to.execute(
        "INSERT INTO bugs VALUES (?, ?, ?, ?, ?, ?, ?)",
        params![
            id,
            stamp,
            bug.signature,
            bug.title,
            bug.known,
            bug.confirmed.times,
            bug.confirmed.of
        ],
    )?;
    let mut insert = to.prepare_cached("INSERT OR IGNORE INTO bug_trials VALUES (?, ?)")?;
    for trial in &bug.trials {
        insert.execute(params![id, *trial as i64])?;
    }
    Ok(())
}

fn drop_bug(from: &Transaction<'_>, id: &str) -> rusqlite::Result<()> {
    from.execute("DELETE FROM bugs WHERE id = ?", [id])?;
    from.execute("DELETE FROM bug_trials WHERE bug = ?", [id])?;
    Ok(())
}

fn put_stream(to: &Transaction<'_>, appended: &Appended) -> rusqlite::Result<()> {
    if appended.anew {
        to.execute("DELETE FROM purposes", [])?;
    }
    let mut insert = to.prepare_cached("INSERT OR REPLACE INTO purposes VALUES (?, ?)")?;
    for (trial, purpose) in &appended.headings {
        insert.execute(params![*trial as i64, word(purpose)])?;
    }
    to.execute("DELETE FROM stream", [])?;
    let read_to = params![appended.file, appended.read_to];
    to.execute("INSERT INTO stream VALUES (?, ?)", read_to)?;
    Ok(())
}

/// What was appended to the campaign's stream since it was last read.
struct Appended {
    file: i64,
    /// The stream is another one, or shorter than before: this is all of it.
    anew: bool,
    /// Bytes read since the beginning; a last line without its end may still grow.
    read_to: i64,
    whole: usize,
    headings: Vec<(u64, Purpose)>,
}

impl Appended {
    fn is_nothing(&self) -> bool {
        !self.anew && self.whole == 0 && self.headings.is_empty()
    }

    fn read(path: &Path, file: i64, read_to: i64) -> io::Result<Appended> {
        const BYTES_MOST: u64 = 512 << 20;
        /// What matters here of an event; the rest of it is passed over.
        #[derive(Deserialize)]
        struct Heading {
            trial: Option<u64>,
            purpose: Option<Purpose>,
        }
        let mut appended = Appended {
            file: 0,
            anew: file != 0,
            read_to: 0,
            whole: 0,
            headings: Vec::new(),
        };
        let mut open = match File::open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(appended),
            other => other?,
        };
        let metadata = open.metadata()?;
        appended.file = metadata.ino() as i64;
        appended.anew = appended.file != file || metadata.len() < read_to as u64;
        let from = if appended.anew { 0 } else { read_to };
        open.seek(SeekFrom::Start(from as u64))?;
        let mut bytes = Vec::new();
        open.take(BYTES_MOST).read_to_end(&mut bytes)?;
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok(Heading {
                trial: Some(trial),
                purpose: Some(purpose),
            }) = serde_json::from_slice(line)
            {
                appended.headings.push((trial, purpose));
            }
        }
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        appended.whole = end.map_or(0, |end| end + 1);
        appended.read_to = from + appended.whole as i64;
        Ok(appended)
    }
}

/// Changes whenever a file is written: by rename it gets another number, in place another time.
fn stamp(path: &Path) -> Option<String> {
    let m = fs::metadata(path).ok()?;
    let time_ns = m.mtime() as i128 * 1_000_000_000 + m.mtime_nsec() as i128;
    Some(format!("{}.{}.{time_ns}", m.ino(), m.len()))
}

/// Of the two files that make a trial; None while it is not whole.
fn trial_stamp(folder: &Path) -> Option<String> {
    let outcome = stamp(&folder.join("outcome.json"))?;
    Some(format!("{outcome} {}", stamp(&folder.join("plan.toml"))?))
}

fn place(folder: &Path) -> PathBuf {
    folder.join("index.sqlite")
}

/// Writes begin as writes: a reader that turns into a writer half-way could not wait.
fn immediate(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn broken(why: &str) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some(why.to_owned()))
}

/// Whether the file is at fault, and not the disk, its rights or another process. Questions and
/// types are fixed, so one that does not fit means tables that are not ours.
pub(crate) fn is_broken(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        None => true,
        Some(code) => matches!(
            code,
            ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::Unknown
                | ErrorCode::TypeMismatch
                | ErrorCode::ConstraintViolation
        ),
    }
}

/// Out of the way, for whoever wants to see what happened to it; only the last one is kept.
fn set_aside(path: &Path) {
    // The journal first: it must never be played into the index that comes next.
    let _ = fs::remove_file(path.with_extension("sqlite-journal"));
    let _ = fs::rename(path, path.with_extension("sqlite.broken"));
}

fn text<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, Trouble> {
    serde_json::from_str(text).map_err(|e| Trouble::Index(broken(&e.to_string())))
}

/// The word that stands for a verdict or a purpose in every stored form.
fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        other => unreachable!("a plain word, not {other:?}"),
    }
}

fn of_word<T: DeserializeOwned>(word: &str) -> Result<T, Trouble> {
    let value = serde_json::Value::String(word.to_owned());
    serde_json::from_value(value).map_err(|e| Trouble::Index(broken(&e.to_string())))
}
