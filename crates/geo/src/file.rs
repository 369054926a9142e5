//! Paths with the database that was last good there.
//!
//! A file is read into memory and not mapped: one that is rewritten in place under a mapping would end
//! the process. A new one is taken in when it has held still between two looks, so one that is still
//! being written is not read half.

use crate::database::{BYTES_MAX, Database};
use crate::error::GeoError;
use arc_swap::ArcSwap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Databases of one process, as each is in memory.
pub const FILES_MAX: usize = 8;

/// What rules and policies ask for: one that has it not would answer nobody.
const ASKED: [&[&str]; 3] =
    [&["country", "iso_code"], &["city", "names"], &["autonomous_system_number"]];

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A path with its database.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    current: ArcSwap<Database>,
    state: Mutex<State>,
}

/// What is known of what is at the path.
#[derive(Debug)]
struct State {
    /// What was there when it was last read; `None` for nothing.
    read: Option<Stamp>,
    /// What was there at the last look.
    seen: Option<Stamp>,
    /// Why that which was last read is not in use.
    error: Option<GeoError>,
}

/// What tells a file from another at the same path, and from itself once it is changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found: Metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            changed: (found.mtime(), found.mtime_nsec()),
        })
    }
}

impl File {
    /// The file at a path, which all who open it share. One that has changed is read again. Blocks for
    /// as long as reading takes.
    ///
    /// # Errors
    /// Why what is there now cannot be used.
    pub fn open(path: &Path) -> Result<Arc<Self>, GeoError> {
        let mut files = lock(&FILES);
        if let Some(known) = files.all().find(|file| file.path == path) {
            return known.look(true).map(|()| known);
        }
        files.known.retain(|file| file.strong_count() > 0);
        if files.known.len() >= FILES_MAX {
            return Err(GeoError::ConfigCount { path: path.into(), files_max: FILES_MAX });
        }
        let stamp = Stamp::of(path);
        let file = Arc::new(Self {
            path: path.into(),
            current: ArcSwap::from_pointee(read(path)?),
            state: Mutex::new(State { read: stamp, seen: stamp, error: None }),
        });
        files.known.push(Arc::downgrade(&file));
        files.watch();
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database that was last good there.
    pub fn database(&self) -> Arc<Database> {
        self.current.load_full()
    }

    /// As [`File::database`], for a short while.
    pub(crate) fn with<T>(&self, ask: impl FnOnce(&Database) -> T) -> T {
        ask(&self.current.load())
    }

    /// Takes in what is at the path, where that is another than was read: at once, or when it has held
    /// still since the last look.
    fn look(&self, at_once: bool) -> Result<(), GeoError> {
        let mut state = lock(&self.state);
        let stamp = Stamp::of(&self.path);
        let held_still = stamp == std::mem::replace(&mut state.seen, stamp);
        if stamp == state.read {
            return state.error.clone().map_or(Ok(()), Err);
        }
        if !held_still && !at_once {
            return Ok(());
        }
        state.read = stamp;
        let taken =
            read(&self.path).and_then(|database| self.replaces(&database).map(|()| database));
        state.error = match taken {
            Ok(database) => {
                let (kind, built_s) = (database.kind().to_owned(), database.built_s());
                self.current.store(Arc::new(database));
                tracing::info!(path = %self.path.display(), kind, built_s, "a new geo database");
                None
            }
            Err(error) => {
                let help = error.help();
                tracing::error!(help, "{error}; the geo database of before goes on");
                Some(error)
            }
        };
        state.error.clone().map_or(Ok(()), Err)
    }
}

impl File {
    /// Whether a database tells what the one before does. Where it does not, as one of autonomous systems in the
    /// place of one of countries, rules by country would let in everybody, or nobody.
    fn replaces(&self, database: &Database) -> Result<(), GeoError> {
        let before = self.current.load();
        let lost = ASKED.iter().find(|path| before.tells(path) && !database.tells(path));
        lost.map_or(Ok(()), |path| {
            let (kind, lacks) = (database.kind().to_owned(), path.join("/"));
            Err(GeoError::ConfigKind { path: self.path.clone(), kind, lacks })
        })
    }
}

fn read(path: &Path) -> Result<Database, GeoError> {
    let bytes =
        freshet_base::file::read(path, BYTES_MAX).map_err(|error| GeoError::file(path, &error))?;
    Database::new(bytes, path)
}

/// The files of this process.
struct Files {
    known: Vec<Weak<File>>,
    is_watched: bool,
}

static FILES: Mutex<Files> = Mutex::new(Files { known: Vec::new(), is_watched: false });

impl Files {
    /// Those that are in use.
    fn all(&self) -> impl Iterator<Item = Arc<File>> {
        self.known.iter().filter_map(Weak::upgrade)
    }

    /// Has the files looked at from now on.
    fn watch(&mut self) {
        if self.is_watched {
            return;
        }
        let started = thread::Builder::new().name("geo".to_owned()).spawn(|| {
            loop {
                thread::sleep(LOOK_EVERY);
                look_at_all();
            }
        });
        match started {
            Ok(_) => self.is_watched = true,
            Err(error) => tracing::error!(%error, "new geo databases are not noticed"),
        }
    }
}

/// Looks at each file; errors are in the log, and what is in use stays.
fn look_at_all() {
    let all: Vec<_> = lock(&FILES).all().collect();
    for file in all {
        let _ = file.look(false);
    }
}

/// A lock that a panic elsewhere does not close: what is behind it is whole at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::{Value, Writer, country, map};
    use std::net::IpAddr;

    const HERE: [u8; 4] = [192, 0, 2, 7];

    fn write(path: &Path, code: &str) {
        let bytes = Writer::new("Test").with("192.0.2.0/24", &country("EU", code)).bytes();
        let beside = path.with_extension("new");
        std::fs::write(&beside, bytes).unwrap();
        std::fs::rename(&beside, path).unwrap();
    }

    fn country_here(file: &File) -> Option<String> {
        file.database().text(IpAddr::from(HERE), "country/iso_code")
    }

    #[test]
    fn a_new_file_is_taken_in_once_it_holds_still() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mmdb");
        write(&path, "AT");
        let stamp = Stamp::of(&path);
        // Not among those that the thread looks at, which would look in between.
        let file = File {
            path: path.clone(),
            current: ArcSwap::from_pointee(read(&path).unwrap()),
            state: Mutex::new(State { read: stamp, seen: stamp, error: None }),
        };
        let look = || file.look(false);
        assert_eq!(look(), Ok(()));
        write(&path, "DE");
        assert_eq!((look(), country_here(&file).as_deref()), (Ok(()), Some("AT")));
        assert_eq!((look(), country_here(&file).as_deref()), (Ok(()), Some("DE")));
        // What is broken, or away, changes nothing, and is said to who opens it.
        std::fs::write(&path, "broken").unwrap();
        assert_eq!(look(), Ok(()), "it may not be whole yet");
        let error = look().unwrap_err();
        assert!(error.to_string().contains("is no MaxMind database"), "{error}");
        assert_eq!(file.look(true), Err(error));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(file.look(true), Err(GeoError::ConfigFile { .. })));
        assert_eq!(country_here(&file).as_deref(), Some("DE"));
        write(&path, "CH");
        assert_eq!(file.look(true), Ok(()));
        assert_eq!(country_here(&file).as_deref(), Some("CH"));
        // One of another kind would answer nobody.
        let other = Writer::new("Test-ASN");
        let system = map([("autonomous_system_number", Value::U32(64_496))]);
        std::fs::write(&path, other.with("192.0.2.0/24", &system).bytes()).unwrap();
        let error = file.look(true).unwrap_err();
        assert!(error.to_string().contains("a `Test-ASN`, has no `country/iso_code`"), "{error}");
        assert_eq!(country_here(&file).as_deref(), Some("CH"));
    }

    #[test]
    fn who_opens_a_path_again_shares_its_database_and_a_new_one_comes_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mmdb");
        write(&path, "AT");
        let file = File::open(&path).unwrap();
        assert!(Arc::ptr_eq(&file, &File::open(&path).unwrap()));
        write(&path, "DE");
        while country_here(&file).as_deref() != Some("DE") {
            thread::sleep(Duration::from_millis(5));
        }
        let missing = File::open(&folder.path().join("none")).unwrap_err();
        assert!(matches!(missing, GeoError::ConfigFile { .. }), "{missing}");
        assert!(File::open(folder.path()).is_err(), "a folder is no database");
    }
}
