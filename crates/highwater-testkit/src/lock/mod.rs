//! The schemas of all that an application stores, kept in a file beside its code: who changes a type sees at once
//! whether stored data and programs that still run would get along with it.

mod compare;
mod example;
mod file;
mod shape;

use compare::compare;
use file::{Describe, Entry, File, Stored};
use highwater::{Aggregate, Old, OldKind as Kind, Upcaster, View};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shape::Shape;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The environment variable that lets [`SchemaLock::check`] write the file.
const UPDATE: &str = "UPDATE_SCHEMA_LOCK";

/// Compares the commands, events, states and documents of an application with those in its lock file.
///
/// The types derive `JsonSchema` of the crate `schemars`; the feature `schemars` of `highwater` gives it to
/// `CommandId` and `Timestamp`. One test does the rest:
///
/// ```
/// use highwater::{Aggregate, Context, Decision};
/// use highwater_testkit::SchemaLock;
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// enum Command { Deposit { cents: u64 } }
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// enum Event { Deposited { cents: u64 } }
/// #[derive(Default, Serialize, Deserialize, JsonSchema)]
/// struct Account { cents: u64 }
///
/// impl Aggregate for Account {
///     const CONTAINER: &'static str = "accounts";
///     type Command = Command;
///     type Event = Event;
///     type Settings = ();
///     fn decide(&self, Command::Deposit { cents }: Command, _: &Context<Self>) -> Decision<Self> {
///         Decision::accept([Event::Deposited { cents }])
///     }
///     fn apply(&mut self, Event::Deposited { cents }: &Event) { self.cents += cents }
/// }
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("schema.lock");
/// // In an application: concat!(env!("CARGO_MANIFEST_DIR"), "/schema.lock")
/// let lock = SchemaLock::new(file).aggregate::<Account>();
/// # assert!(lock.compare().unwrap_err().contains("UPDATE_SCHEMA_LOCK=1"));
/// # lock.update().unwrap();
/// lock.check();
/// ```
///
/// What is fine without raising `SCHEMA`: what neither this program nor one of the same version that still runs would
/// notice, such as a field with a default. What is not: a field that is gone, renamed, of another type or needed
/// without a default; a variant that is gone or new. Then `SCHEMA` has to be raised, and `upcast` has to make of every
/// example of every earlier version something that is read. The examples are in the file, made from the types; where
/// none can be made that the type reads, `#[schemars(example = …)]` on a field or type gives one.
#[derive(Debug)]
pub struct SchemaLock {
    path: PathBuf,
    present: Vec<Present>,
}

/// What this program stores.
struct Present {
    what: String,
    type_name: &'static str,
    schema: u32,
    entry: Entry,
    upcast: Upcaster,
    reads: Reads,
}

type Reads = fn(Kind, &str, &Value) -> Result<(), String>;

impl std::fmt::Debug for Present {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} with schema {}", self.what, self.schema)
    }
}

fn reads<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    serde_json::from_value::<T>(value.clone()).map(drop).map_err(|error| error.to_string())
}

/// Reads a variant from its name and its content, as the engine does.
fn reads_tagged<T: DeserializeOwned>(name: &str, data: &Value) -> Result<(), String> {
    if data.is_null() && reads::<T>(&name.into()).is_ok() {
        return Ok(());
    }
    reads::<T>(&json!({ name: data }))
}

impl SchemaLock {
    /// The lock in this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), present: Vec::new() }
    }

    /// Adds an aggregate: its state, its commands, its events.
    pub fn aggregate<A>(mut self) -> Self
    where
        A: Aggregate<Command: JsonSchema, Event: JsonSchema> + JsonSchema,
    {
        let reads: Reads = |kind, name, data| match kind {
            Kind::Command => reads_tagged::<A::Command>(name, data),
            Kind::Event => reads_tagged::<A::Event>(name, data),
            Kind::Body => self::reads::<A>(data),
        };
        let mut describe = Describe::new();
        let shapes = [describe.shape::<A>(), describe.shape::<A::Command>(), describe.shape::<A::Event>()];
        self.present.push(Present {
            what: format!("aggregate {}", A::CONTAINER),
            type_name: std::any::type_name::<A>(),
            schema: A::SCHEMA,
            entry: describe.entry(shapes, reads),
            upcast: A::upcast,
            reads,
        });
        self
    }

    /// Adds the documents of a view.
    pub fn view<V: View<Document: JsonSchema>>(mut self) -> Self {
        let reads: Reads = |_, _, data| self::reads::<V::Document>(data);
        let mut describe = Describe::new();
        let none = || Shape::Variants(BTreeMap::new());
        let shapes = [describe.shape::<V::Document>(), none(), none()];
        self.present.push(Present {
            what: format!("view {}", V::NAME),
            type_name: std::any::type_name::<V>(),
            schema: V::SCHEMA,
            entry: describe.entry(shapes, reads),
            upcast: V::upcast,
            reads,
        });
        self
    }

    /// Compares; with `UPDATE_SCHEMA_LOCK=1` in the environment, writes what is compatible into the file.
    ///
    /// # Panics
    /// If something differs: the message names the type, the field and the way out.
    #[track_caller]
    #[allow(clippy::panic)] // A failed assertion of a test is a panic.
    pub fn check(&self) {
        let update = std::env::var_os(UPDATE).is_some_and(|value| value == "1");
        if let Err(message) = if update { self.update() } else { self.compare() } {
            panic!("{message}");
        }
    }

    /// Compares and writes nothing.
    ///
    /// # Errors
    /// What differs and what to do about it.
    pub fn compare(&self) -> Result<(), String> {
        let (_, differences) = self.next()?;
        if differences.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{} does not say what this program stores:\n{}\nNothing here breaks what is stored. Run the test with \
             {UPDATE}=1 and commit the file.",
            self.path.display(),
            lines(&differences)
        ))
    }

    /// Writes what is compatible into the file.
    ///
    /// # Errors
    /// What is not compatible; then the file stays as it is. Or what the system says about the file.
    pub fn update(&self) -> Result<(), String> {
        let (next, differences) = self.next()?;
        if differences.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(&next).map_err(|error| self.fault(error))?;
        fs::write(&self.path, text + "\n").map_err(|error| self.fault(error))
    }

    fn fault(&self, error: impl std::fmt::Display) -> String {
        format!("{}: {error}", self.path.display())
    }

    /// What the file has to say, and in what that differs from what it says.
    fn next(&self) -> Result<(File, Vec<String>), String> {
        let file = read(&self.path).map_err(|error| self.fault(error))?;
        let (mut next, mut differences, mut faults) = (file.clone(), Vec::new(), Vec::new());
        for present in &self.present {
            let versions = next.entry(present.what.clone()).or_default();
            faults.extend(present.faults(versions));
            let mut entry = present.entry.clone();
            match versions.get(&present.schema) {
                Some(locked) if locked.is_same(&entry) => continue,
                Some(locked) => {
                    entry.remember(locked);
                    differences.push(format!("{present:?} has changed"));
                }
                None => differences.push(format!("{present:?} is new")),
            }
            versions.insert(present.schema, entry);
        }
        for what in file.keys().filter(|what| self.present.iter().all(|present| present.what != **what)) {
            faults.push(format!(
                "{what} is gone. If nothing of it lies in any store, delete its entry in the file; otherwise keep its \
                 type and name it in the test"
            ));
        }
        if faults.is_empty() {
            return Ok((next, differences));
        }
        Err(format!(
            "what is stored according to {} and this program do not fit together:\n{}\nWays out: take the change back; \
             or raise SCHEMA and let `upcast` turn what the earlier version wrote; or, if no program with that version \
             was ever released, delete its entry in the file.",
            self.path.display(),
            lines(&faults)
        ))
    }
}

fn lines(of: &[String]) -> String {
    of.iter().map(|line| format!("* {line}")).collect::<Vec<_>>().join("\n")
}

/// An absent file is an empty one.
fn read(path: &Path) -> Result<File, String> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(File::new()),
        Err(error) => Err(error.to_string()),
    }
}

impl Present {
    /// What does not fit together.
    fn faults(&self, versions: &BTreeMap<u32, Entry>) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(newest) = versions.keys().next_back().filter(|newest| **newest > self.schema) {
            faults.push(format!(
                "{} ({}) went back from schema {newest} to {}",
                self.what, self.type_name, self.schema
            ));
        }
        faults.extend(self.unreadable());
        for (schema, locked) in versions.range(..=self.schema) {
            let differing = if *schema == self.schema { self.differing(locked) } else { Vec::new() };
            // An example that cannot be read says nothing beyond what differs.
            if differing.is_empty() {
                faults.extend(self.misread(*schema, locked));
            }
            faults.extend(differing);
        }
        faults
    }

    fn path(&self, kind: Kind, name: &str) -> String {
        let part = match kind {
            Kind::Command => format!(", command `{name}`"),
            Kind::Event => format!(", event `{name}`"),
            Kind::Body => String::new(),
        };
        format!("{} ({}){part}", self.what, self.type_name)
    }

    /// What has no example.
    fn unreadable(&self) -> Vec<String> {
        let without = each(&self.entry).filter(|(.., stored)| stored.examples.is_empty());
        let fault = |path| {
            format!("{path}: no example could be made that it reads; give one with #[schemars(example = …)]")
        };
        without.map(|(kind, name, _)| fault(self.path(kind, name))).collect()
    }

    /// How the shapes of the same version differ.
    fn differing(&self, locked: &Entry) -> Vec<String> {
        let mut faults = Vec::new();
        let variants = [
            (Kind::Command, &locked.commands, &self.entry.commands),
            (Kind::Event, &locked.events, &self.entry.events),
        ];
        let mut compare_one = |kind, name: &str, old: &Stored, new: &Stored| {
            let (old, new) = ((&old.shape, &locked.types), (&new.shape, &self.entry.types));
            faults.extend(compare(&self.path(kind, name), old, new));
        };
        compare_one(Kind::Body, "", &locked.body, &self.entry.body);
        for (kind, old, new) in variants {
            for (name, old) in old {
                new.get(name).into_iter().for_each(|new| compare_one(kind, name, old, new));
            }
        }
        for (kind, old, new) in variants {
            let gone = old.keys().filter(|name| !new.contains_key(*name));
            faults.extend(
                gone.map(|name| format!("{} is gone, and older programs wrote it", self.path(kind, name))),
            );
            let added = new.keys().filter(|name| !old.contains_key(*name));
            faults.extend(
                added.map(|name| {
                    format!("{} is new, and older programs cannot read it", self.path(kind, name))
                }),
            );
        }
        faults
    }

    /// Which examples of a version cannot be read.
    fn misread(&self, schema: u32, locked: &Entry) -> Vec<String> {
        let mut faults = Vec::new();
        for (kind, name, stored) in each(locked) {
            for example in &stored.examples {
                if let Err(why) = self.read(kind, name, schema, example) {
                    let path = self.path(kind, name);
                    faults
                        .push(format!("{path} of schema {schema} is not read: {why}; for example {example}"));
                    break;
                }
            }
        }
        faults
    }

    /// Reads something of an earlier version, as the engine does.
    fn read(&self, kind: Kind, name: &str, schema: u32, data: &Value) -> Result<(), String> {
        let mut old = Old { kind, name: name.into(), schema, data: data.clone() };
        while old.schema < self.schema {
            (self.upcast)(&mut old)
                .map_err(|why| format!("no upcaster from schema {}: {why}", old.schema))?;
            old.schema += 1;
        }
        (self.reads)(kind, &old.name, &old.data)
    }
}

/// All that an entry says is stored.
fn each(entry: &Entry) -> impl Iterator<Item = (Kind, &str, &Stored)> {
    let commands = entry.commands.iter().map(|(name, stored)| (Kind::Command, &**name, stored));
    let events = entry.events.iter().map(|(name, stored)| (Kind::Event, &**name, stored));
    [(Kind::Body, "", &entry.body)].into_iter().chain(commands).chain(events)
}
