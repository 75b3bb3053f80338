//! The schema lock, tested: what breaks stored data or a program that still runs is caught, what does not is let by.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail as the test itself may")]

use highwater::{Aggregate, Context, Decision, Old, OldKind, Sources, View};
use highwater_testkit::SchemaLock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::{fs, marker::PhantomData, path::PathBuf};

/// A view with documents of this type and schema version.
struct Shown<T, const SCHEMA: u32 = 1>(PhantomData<T>);

impl<T, const N: u32> View for Shown<T, N>
where
    T: Default + Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    const NAME: &'static str = "shown";
    const SCHEMA: u32 = N;
    type Document = T;
    fn sources(sources: Sources<Self>) -> Sources<Self> {
        sources
    }
}

/// A lock file in a folder of its own.
struct Locked {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

/// A lock file that was written with these documents.
fn locked<T>() -> Locked
where
    T: JsonSchema + Default + Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.lock");
    let lock = SchemaLock::new(&path).view::<Shown<T>>();
    lock.update().unwrap();
    lock.compare().unwrap();
    Locked { _folder: folder, path }
}

impl Locked {
    fn with<T>(&self) -> SchemaLock
    where
        T: JsonSchema + Default + Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
    {
        SchemaLock::new(&self.path).view::<Shown<T>>()
    }

    /// That documents of this type are refused, in words with these in them, and never written.
    fn refuses<T>(&self, words: &[&str])
    where
        T: JsonSchema + Default + Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
    {
        let (before, lock) = (fs::read(&self.path).unwrap(), self.with::<T>());
        let message = lock.compare().unwrap_err();
        for word in words.iter().chain(&["raise SCHEMA", "view shown"]) {
            assert!(message.contains(word), "{word} is missing in: {message}");
        }
        assert_eq!(lock.update().unwrap_err(), message);
        assert_eq!(fs::read(&self.path).unwrap(), before);
    }

    /// That documents of this type are let by, once the file says so.
    fn lets_by<T>(&self)
    where
        T: JsonSchema + Default + Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
    {
        let lock = self.with::<T>();
        let message = lock.compare().unwrap_err();
        assert!(message.contains("UPDATE_SCHEMA_LOCK=1"), "{message}");
        lock.update().unwrap();
        lock.compare().unwrap();
    }
}

/// Types of one document, each in a module of its own, so that they have one name.
macro_rules! document {
    ($module:ident: $($item:item)+) => {
        #[allow(unreachable_pub, unused_imports)]
        mod $module {
            use super::*;
            $(#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)] $item)+
        }
    };
    ($($module:ident { $($item:item)+ })+) => {
        $(document! { $module: $($item)+ })+
    };
}

document! {
    first {
        #[derive(Default)]
        pub struct Guest { pub name: String, pub party: u32, #[serde(default)] pub note: String }
    }
    field_with_default {
        #[derive(Default)]
        pub struct Guest {
            pub name: String, pub party: u32, #[serde(default)] pub note: String, pub phone: Option<String>,
        }
    }
    field_without_default {
        #[derive(Default)]
        pub struct Guest { pub name: String, pub party: u32, #[serde(default)] pub note: String, pub phone: String }
    }
    field_gone {
        #[derive(Default)]
        pub struct Guest { pub name: String, #[serde(default)] pub note: String }
    }
    field_renamed {
        #[derive(Default)]
        pub struct Guest { pub name: String, pub people: u32, #[serde(default)] pub note: String }
    }
    field_retyped {
        #[derive(Default)]
        pub struct Guest { pub name: String, pub party: String, #[serde(default)] pub note: String }
    }
    field_narrowed {
        #[derive(Default)]
        pub struct Guest { pub name: String, pub party: u8, #[serde(default)] pub note: String }
    }
    default_gone {
        #[derive(Default)]
        pub struct Guest { pub name: String, pub party: u32, pub note: String }
    }
    default_renamed {
        #[derive(Default)]
        pub struct Guest { pub name: String, pub party: u32, #[serde(default)] pub remark: String }
    }
    default_dropped {
        #[derive(Default)]
        pub struct Guest { pub name: String, pub party: u32 }
    }
    may_be_null {
        #[derive(Default)]
        pub struct Guest { pub name: Option<String>, pub party: u32, #[serde(default)] pub note: String }
    }
    another_name {
        /// What is said for people does not count.
        #[derive(Default)]
        #[serde(rename = "Visitor")]
        pub struct Guest {
            /// Said for people.
            pub name: String,
            pub party: u32,
            #[serde(default)]
            pub note: String,
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let lock = SchemaLock::new(folder.path().join("schema.lock")).view::<Shown<first::Guest>>();
    let message = lock.compare().unwrap_err();
    assert!(message.contains("view shown with schema 1 is new") && message.contains("UPDATE_SCHEMA_LOCK=1"));
    assert!(std::panic::catch_unwind(|| lock.check()).is_err());
    lock.update().unwrap();
    lock.check();
}

#[test]
fn a_field_that_may_be_missing_can_come_and_go() {
    locked::<first::Guest>().lets_by::<field_with_default::Guest>();
    locked::<field_with_default::Guest>().lets_by::<first::Guest>();
    locked::<first::Guest>().lets_by::<default_dropped::Guest>();
}

#[test]
fn what_is_said_for_people_does_not_count() {
    locked::<first::Guest>().with::<another_name::Guest>().check();
}

#[test]
fn a_field_that_is_gone_renamed_retyped_or_needed_is_caught() {
    let locked = locked::<first::Guest>();
    locked.refuses::<field_without_default::Guest>(&["`phone`", "serde(default)", "Shown"]);
    locked.refuses::<field_gone::Guest>(&["`party` is gone"]);
    locked.refuses::<field_renamed::Guest>(&["`party` is gone", "`people` is new"]);
    locked.refuses::<field_retyped::Guest>(&["`party` was \"uint32\" and is \"string\""]);
    locked.refuses::<field_narrowed::Guest>(&["`party` was \"uint32\" and is \"uint8\""]);
    locked.refuses::<default_gone::Guest>(&["`note` must be there"]);
    locked.refuses::<default_renamed::Guest>(&["`note` seems to have become `remark`"]);
    locked.refuses::<may_be_null::Guest>(&["`name` was \"string\""]);
}

document! {
    deep {
        #[derive(Default)]
        pub struct Sheet {
            pub tables: BTreeMap<u8, Vec<Table>>, pub pair: (u8, Kind), pub days: BTreeSet<u8>,
            pub untold: Either, pub letter: char, pub three: [i64; 3],
        }
        #[derive(Default)]
        pub struct Table { pub seats: u32, pub inner: Vec<Table> }
        #[derive(Default)]
        pub enum Kind { #[default] Plain, Booked { by: String }, Noted(Option<String>) }
        #[derive(Default)]
        #[serde(untagged)]
        pub enum Either { #[default] Nothing, Number(u32), Table(Table) }
    }
    deep_field {
        #[derive(Default)]
        pub struct Sheet {
            pub tables: BTreeMap<u8, Vec<Table>>, pub pair: (u8, Kind), pub days: BTreeSet<u8>,
            pub untold: Either, pub letter: char, pub three: [i64; 3],
        }
        #[derive(Default)]
        pub struct Table { pub places: u32, pub inner: Vec<Table> }
        #[derive(Default)]
        pub enum Kind { #[default] Plain, Booked { by: String }, Noted(Option<String>) }
        #[derive(Default)]
        #[serde(untagged)]
        pub enum Either { #[default] Nothing, Number(u32), Table(Table) }
    }
    deep_variant {
        #[derive(Default)]
        pub struct Sheet {
            pub tables: BTreeMap<u8, Vec<Table>>, pub pair: (u8, Kind), pub days: BTreeSet<u8>,
            pub untold: Either, pub letter: char, pub three: [i64; 3],
        }
        #[derive(Default)]
        pub struct Table { pub seats: u32, pub inner: Vec<Table> }
        #[derive(Default)]
        pub enum Kind { #[default] Plain, Booked { by: String }, Kept }
        #[derive(Default)]
        #[serde(untagged)]
        pub enum Either { #[default] Nothing, Number(i64), Table(Table) }
    }
}

#[test]
fn what_lies_deep_in_lists_maps_and_variants_is_caught() {
    let locked = locked::<deep::Sheet>();
    locked.refuses::<deep_field::Sheet>(&["field `tables`, field `seats` is gone", "`places` is new"]);
    let variants = ["variant `Noted` is gone", "variant `Kept` is new", "field `untold` was"];
    locked.refuses::<deep_variant::Sheet>(&variants);
}

#[test]
fn what_only_an_untagged_enum_names_is_caught() {
    document! {
        one {
            #[derive(Default)]
            #[serde(untagged)]
            pub enum Either { #[default] Nothing, Table(Table) }
            pub struct Table { pub seats: u32 }
        }
        other {
            #[derive(Default)]
            #[serde(untagged)]
            pub enum Either { #[default] Nothing, Table(Table) }
            pub struct Table { pub seats: u64 }
        }
    }
    locked::<one::Either>().refuses::<other::Either>(&["field `seats` was \"uint32\" and is \"uint64\""]);
}

/// Reads only what begins with a capital.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
struct Proper(String);

impl<'de> Deserialize<'de> for Proper {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let proper = text.is_empty() || text.starts_with(char::is_uppercase);
        if proper { Ok(Self(text)) } else { Err(serde::de::Error::custom("begins small")) }
    }
}

document! {
    no_example { #[derive(Default)] pub struct Guest { pub name: Proper } }
    an_example { #[derive(Default)] pub struct Guest { #[schemars(example = &"Barbara")] pub name: Proper } }
}

#[test]
fn a_type_that_reads_no_made_up_example_needs_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.lock");
    let message = SchemaLock::new(&path).view::<Shown<no_example::Guest>>().update().unwrap_err();
    assert!(message.contains("#[schemars(example"), "{message}");
    let lock = SchemaLock::new(&path).view::<Shown<an_example::Guest>>();
    lock.update().unwrap();
    lock.check();
    assert!(fs::read_to_string(path).unwrap().contains("Barbara"));
}

/// An account of each schema version.
macro_rules! account {
    ($module:ident, $schema:literal, $command:item $event:item $state:item $upcast:item) => {
        #[allow(unreachable_pub)]
        mod $module {
            use super::*;
            #[derive(Serialize, Deserialize, JsonSchema)]
            $command
            #[derive(Serialize, Deserialize, JsonSchema)]
            $event
            #[derive(Default, Serialize, Deserialize, JsonSchema)]
            $state
            impl Aggregate for Account {
                const CONTAINER: &'static str = "accounts";
                const SCHEMA: u32 = $schema;
                type Command = Command;
                type Event = Event;
                type Settings = ();
                fn decide(&self, _: Command, _: &Context<Self>) -> Decision<Self> {
                    Decision::accept([])
                }
                fn apply(&mut self, _: &Event) {}
                $upcast
            }
        }
    };
}

account! { one, 1,
    pub enum Command { Deposit { cents: u64 }, Close }
    pub enum Event { Deposited { cents: u64 }, Closed }
    pub struct Account { cents: u64 }
    fn upcast(_: &mut Old) -> Result<(), String> { Err("there is nothing older".into()) }
}

account! { other_variants, 1,
    pub enum Command { Deposit { cents: u64 }, Close, Open }
    pub enum Event { Deposited { cents: u64 } }
    pub struct Account { cents: u64 }
    fn upcast(_: &mut Old) -> Result<(), String> { Err("there is nothing older".into()) }
}

account! { not_upcast, 2,
    pub enum Command { Deposit { amount: u64 }, Close }
    pub enum Event { PaidIn { amount: u64 }, Closed }
    pub struct Account { amount: u64 }
    fn upcast(_: &mut Old) -> Result<(), String> { Err("not written yet".into()) }
}

account! { half_upcast, 2,
    pub enum Command { Deposit { amount: u64 }, Close }
    pub enum Event { PaidIn { amount: u64 }, Closed }
    pub struct Account { amount: u64 }
    fn upcast(old: &mut Old) -> Result<(), String> {
        if !old.data.is_null() {
            old.data = json!({ "amount": old.data["cents"] });
        }
        Ok(())
    }
}

account! { two, 2,
    pub enum Command { Deposit { amount: u64 }, Close }
    pub enum Event { PaidIn { amount: u64 }, Closed }
    pub struct Account { amount: u64 }
    fn upcast(old: &mut Old) -> Result<(), String> {
        half_upcast::Account::upcast(old)?;
        if old.kind == OldKind::Event && old.name == "Deposited" {
            old.name = "PaidIn".into();
        }
        Ok(())
    }
}

account! { three, 3,
    pub enum Command { Deposit { amount: u64 }, Close }
    pub enum Event { PaidIn { amount: u64 }, Closed, Opened }
    pub struct Account { amount: u64 }
    fn upcast(old: &mut Old) -> Result<(), String> {
        if old.schema == 1 { two::Account::upcast(old) } else { Ok(()) }
    }
}

account! { forgets_the_first, 3,
    pub enum Command { Deposit { amount: u64 }, Close }
    pub enum Event { PaidIn { amount: u64 }, Closed, Opened }
    pub struct Account { amount: u64 }
    fn upcast(_: &mut Old) -> Result<(), String> { Ok(()) }
}

#[test]
fn a_command_or_event_that_is_gone_or_new_is_caught() {
    let (_folder, path) = first_account();
    let message = SchemaLock::new(&path).aggregate::<other_variants::Account>().compare().unwrap_err();
    for word in ["command `Open` is new", "event `Closed` is gone", "other_variants::Account", "raise SCHEMA"]
    {
        assert!(message.contains(word), "{message}");
    }
}

fn first_account() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.lock");
    SchemaLock::new(&path).aggregate::<one::Account>().update().unwrap();
    (folder, path)
}

#[test]
fn a_raised_version_is_accepted_once_everything_older_is_read() {
    let (_folder, path) = first_account();
    let message = SchemaLock::new(&path).aggregate::<not_upcast::Account>().update().unwrap_err();
    for word in ["command `Deposit`", "event `Deposited`", "no upcaster from schema 1: not written yet"] {
        assert!(message.contains(word), "{message}");
    }
    let message = SchemaLock::new(&path).aggregate::<half_upcast::Account>().update().unwrap_err();
    assert!(message.contains("event `Deposited` of schema 1 is not read"), "{message}");
    assert!(!message.contains("command `Deposit`"), "{message}");

    let lock = SchemaLock::new(&path).aggregate::<two::Account>();
    assert!(lock.compare().unwrap_err().contains("aggregate accounts with schema 2 is new"));
    lock.update().unwrap();
    lock.check();
    let message = SchemaLock::new(&path).aggregate::<one::Account>().compare().unwrap_err();
    assert!(message.contains("went back from schema 2 to 1"), "{message}");

    let message = SchemaLock::new(&path).aggregate::<forgets_the_first::Account>().update().unwrap_err();
    assert!(message.contains("of schema 1 is not read"), "{message}");
    assert!(!message.contains("of schema 2 is not read"), "{message}");
    let lock = SchemaLock::new(&path).aggregate::<three::Account>();
    lock.update().unwrap();
    lock.check();
}

#[test]
fn what_is_no_longer_named_in_the_test_is_asked_for() {
    let (_folder, path) = first_account();
    let message = SchemaLock::new(&path).view::<Shown<first::Guest>>().update().unwrap_err();
    assert!(message.contains("aggregate accounts is gone"), "{message}");
}

#[test]
fn examples_of_an_earlier_form_of_a_version_are_kept() {
    let locked = locked::<first::Guest>();
    let count = || fs::read_to_string(&locked.path).unwrap().matches("\"party\": 1").count();
    let before = count();
    locked.lets_by::<field_with_default::Guest>();
    assert!(count() > before, "{} and {before}", count());
}
