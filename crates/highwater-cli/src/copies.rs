//! `highwater backup` and `highwater restore`: copies of an embedded store.

use clap::Args;
use highwater::SystemClock;
use highwater_sqlite::{Manifest, Progress, backup, restore, verify_backup};
use std::{
    fmt::Display,
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

/// What `highwater backup` can be told.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The store, sqlite:booking.db; programs may go on writing it
    #[arg(long, value_name = "URL", value_parser = file, required_unless_present = "verify", requires = "to")]
    store: Option<PathBuf>,
    /// The file to make; it must not exist
    #[arg(long, value_name = "FILE", requires = "store")]
    to: Option<PathBuf>,
    /// Checks a backup instead of making one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["store", "to"])]
    verify: Option<PathBuf>,
}

/// What `highwater restore` can be told.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The backup
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// The store to make, sqlite:booking.db; stop all programs that use it
    #[arg(long, value_name = "URL", value_parser = file)]
    to: PathBuf,
    /// Takes the place of a store that is there, which is kept beside it
    #[arg(long)]
    replace: bool,
}

/// The file that a store's URL names.
fn file(url: &str) -> Result<PathBuf, String> {
    match url.strip_prefix("sqlite:").filter(|path| !path.is_empty() && !path.starts_with(':')) {
        Some(path) if !path.contains('?') => Ok(path.into()),
        _ => Err("use sqlite:PATH, the file of the store".into()),
    }
}

impl Backup {
    pub(crate) fn run(&self) -> ExitCode {
        match (&self.verify, &self.store, &self.to) {
            (Some(file), ..) => {
                ended(verify_backup(file, &mut Counts::new("checking").tell()).map(|manifest| {
                    println!("highwater: {} is whole: {}", file.display(), described(&manifest));
                }))
            }
            (None, Some(store), Some(to)) => {
                let made = backup(store, to, &SystemClock::default(), &mut Counts::new("copying").tell());
                ended(made.map(|manifest| {
                    println!("highwater: {} written: {}", to.display(), described(&manifest));
                }))
            }
            _ => ExitCode::from(2),
        }
    }
}

impl Restore {
    pub(crate) fn run(&self) -> ExitCode {
        let mut tell = Counts::new("checking").tell();
        let restored = restore(&self.from, &self.to, self.replace, &SystemClock::default(), &mut tell);
        ended(restored.map(|restored| {
            if let Some(old) = &restored.replaced {
                println!("highwater: the store that was there is kept as {}", old.display());
            }
            let (to, epoch) = (self.to.display(), restored.epoch);
            println!("highwater: {to} restored into epoch {epoch}: {}", described(&restored.manifest));
            println!("highwater: views that know more are built again at the next start");
        }))
    }
}

fn described(manifest: &Manifest) -> String {
    let changes: u64 = manifest.heads.values().map(|head| head.get()).sum();
    format!(
        "store {}, epoch {}, positions {changes} in {} partitions, {} rows",
        manifest.store,
        manifest.epoch,
        manifest.heads.len(),
        manifest.rows
    )
}

fn ended<E: Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("highwater: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Shows how far something has come, on a terminal only.
struct Counts {
    what: &'static str,
    shown: bool,
}

impl Counts {
    fn new(what: &'static str) -> Self {
        Self { what, shown: std::io::stderr().is_terminal() }
    }

    fn tell(self) -> impl FnMut(Progress) {
        move |progress| {
            if !self.shown {
                return;
            }
            let line = match progress {
                Progress::Copied { pages, of } => format!("{} page {pages} of {of}", self.what),
                Progress::Checked { rows } => format!("checking: {rows} rows"),
                _ => return,
            };
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}\r");
        }
    }
}
