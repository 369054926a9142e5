//! Keys of session tickets from files, which several nodes share.
//!
//! A file holds keys of 48 bytes one behind the other, or one of 80, as nginx's
//! `ssl_session_ticket_key` and Traffic Server's `ssl_ticket.key` have them. The first key of the first
//! file seals, all open. What is made of the bytes is ours: such a file can be shared with another
//! server, its tickets cannot.
//!
//! The files are read again each second. What has changed is taken in once it reads the same twice, so
//! that no half of a file is; what is wrong is said in the log, and the keys of before go on.

use crate::error::NetError;
use crate::tls::ticket::{ROTATION, TicketKeys, TicketSecret};
use aws_lc_rs::hmac;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Bytes of a key of Traffic Server, and of nginx with AES-128.
const SHORT_BYTES: usize = 48;

/// Bytes of a key of nginx with AES-256.
const LONG_BYTES: usize = 80;

/// Keys of all files: one that seals, and those of a fortnight that is changed each day.
const KEYS_MAX: usize = 16;

/// How often the files are read.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Files with keys, followed as long as this is there.
pub struct TicketFiles {
    files: Vec<PathBuf>,
    state: Mutex<State>,
}

struct State {
    /// The keys in use, best first, as they are in the files.
    in_use: Vec<Vec<u8>>,
    /// What the last look found.
    seen: Result<Vec<Vec<u8>>, NetError>,
    /// Whom they were given to, and for what.
    given: Vec<(Weak<TicketKeys>, &'static str)>,
}

impl TicketFiles {
    /// Reads the files, and again each second from now on.
    ///
    /// # Errors
    /// As [`check`].
    pub fn open(files: &[PathBuf]) -> Result<Arc<Self>, NetError> {
        let this = Arc::new(Self::of(files, read(files)?));
        let weak = Arc::downgrade(&this);
        let started = thread::Builder::new().name("ticket-keys".to_owned()).spawn(move || {
            loop {
                thread::sleep(LOOK_EVERY);
                let Some(files) = weak.upgrade() else { return };
                files.look();
            }
        });
        if let Err(error) = started {
            tracing::error!(%error, "new keys of session tickets are not noticed");
        }
        Ok(this)
    }

    /// Keys for one purpose, which follow the files. Those for another do not open what they seal.
    pub fn keys(&self, purpose: &'static str) -> Arc<TicketKeys> {
        let mut state = self.lock();
        let keys = TicketKeys::given_all(&secrets(&state.in_use, purpose), ROTATION);
        state.given.push((Arc::downgrade(&keys), purpose));
        keys
    }

    fn of(files: &[PathBuf], keys: Vec<Vec<u8>>) -> Self {
        let state = State { seen: Ok(keys.clone()), in_use: keys, given: Vec::new() };
        Self { files: files.to_vec(), state: Mutex::new(state) }
    }

    /// Looks what the files have.
    fn look(&self) {
        let found = read(&self.files);
        let mut state = self.lock();
        let state = &mut *state;
        let held_still = found == state.seen;
        let before = std::mem::replace(&mut state.seen, found);
        match &state.seen {
            Ok(keys) if held_still && *keys != state.in_use => {
                state.in_use.clone_from(keys);
                state.given.retain(|(keys, _)| keys.strong_count() > 0);
                for (keys, purpose) in &state.given {
                    if let Some(keys) = keys.upgrade() {
                        keys.replace(&secrets(&state.in_use, purpose));
                    }
                }
                tracing::info!(keys = state.in_use.len(), "new keys of session tickets");
            }
            Err(error) if before.as_ref().err() != Some(error) => {
                tracing::error!("tls.ticket_keys: {error}; the keys of before go on");
            }
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TicketFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketFiles").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Whether files can be used.
///
/// # Errors
/// [`NetError::ConfigFile`] for the first that cannot be read or has no keys.
pub fn check(files: &[PathBuf]) -> Result<(), NetError> {
    read(files).map(drop)
}

fn read(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, NetError> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for path in files {
        let limit = (KEYS_MAX * SHORT_BYTES) as u64;
        let bytes =
            freshet_base::file::read(path, limit).map_err(|error| NetError::file(path, error))?;
        for key in split(path, &bytes)? {
            if keys.iter().any(|other| other == key) {
                return Err(NetError::file(path, "a key is there twice"));
            }
            keys.push(key.to_vec());
        }
        if keys.len() > KEYS_MAX {
            let why = format!("with it there are more than {KEYS_MAX} keys");
            return Err(NetError::file(path, why));
        }
    }
    Ok(keys)
}

/// The keys in a file.
fn split<'a>(path: &Path, bytes: &'a [u8]) -> Result<impl Iterator<Item = &'a [u8]>, NetError> {
    let each = match bytes.len() {
        LONG_BYTES => LONG_BYTES,
        length if length > 0 && length % SHORT_BYTES == 0 => SHORT_BYTES,
        length => {
            let why = format!(
                "{length} bytes are no keys: a file has one of 80 bytes, or some of 48 \
                 (`openssl rand 80`)"
            );
            return Err(NetError::file(path, why));
        }
    };
    if bytes.chunks(each).any(|key| key.iter().all(|byte| Some(byte) == key.first())) {
        return Err(NetError::file(path, "a key is one byte over and over"));
    }
    Ok(bytes.chunks(each))
}

/// What tickets are sealed with for one purpose.
fn secrets(keys: &[Vec<u8>], purpose: &str) -> Vec<TicketSecret> {
    let secret = |key: &Vec<u8>| {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), purpose.as_bytes());
        TicketSecret::new(tag.as_ref().try_into().expect("HMAC-SHA256 gives 32 bytes"))
    };
    keys.iter().map(secret).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustls::server::ProducesTickets as _;

    fn key(seed: u8, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| seed.wrapping_add(at as u8)).collect()
    }

    fn files(folder: &tempfile::TempDir, contents: &[Vec<u8>]) -> Vec<PathBuf> {
        let write = |(at, bytes): (usize, &Vec<u8>)| {
            let path = folder.path().join(at.to_string());
            std::fs::write(&path, bytes).unwrap();
            path
        };
        contents.iter().enumerate().map(write).collect()
    }

    #[test]
    fn the_first_key_seals_and_all_open() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two, three) = (key(1, 80), key(2, 48), key(3, 48));
        let both = [two.clone(), three.clone()].concat();
        let names = files(&folder, &[one.clone(), both]);
        let node = TicketFiles::of(&names, read(&names).unwrap());
        let keys = node.keys("tls");
        let of = |bytes: &Vec<u8>| TicketFiles::of(&[], vec![bytes.clone()]);
        for alone in [&one, &two, &three] {
            let ticket = of(alone).keys("tls").encrypt(b"state").unwrap();
            assert_eq!(keys.decrypt(&ticket).as_deref(), Some(&b"state"[..]));
            assert_eq!(node.keys("quic").decrypt(&ticket), None, "for another purpose");
        }
        let ticket = keys.encrypt(b"state").unwrap();
        assert!(of(&one).keys("tls").decrypt(&ticket).is_some());
        assert!(of(&two).keys("tls").decrypt(&ticket).is_none());
    }

    #[test]
    fn files_that_change_are_followed_and_wrong_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (key(1, 48), key(2, 48));
        let names = files(&folder, std::slice::from_ref(&old));
        let node = TicketFiles::of(&names, read(&names).unwrap());
        let keys = node.keys("tls");
        let before = keys.encrypt(b"state").unwrap();
        let opens = |ticket: &[u8]| keys.decrypt(ticket).is_some();
        std::fs::write(&names[0], [new.clone(), old].concat()).unwrap();
        node.look();
        assert_eq!(keys.encrypt(b"").unwrap()[..16], before[..16], "it may not be whole yet");
        node.look();
        let after = keys.encrypt(b"state").unwrap();
        assert_ne!(after[..16], before[..16]);
        assert!(opens(&before) && opens(&after));
        for wrong in [vec![], key(1, 47), vec![0; 48], [new.clone(), new.clone()].concat()] {
            std::fs::write(&names[0], wrong).unwrap();
            (0..3).for_each(|_| node.look());
            assert!(opens(&before) && opens(&after));
        }
        std::fs::remove_file(&names[0]).unwrap();
        (0..3).for_each(|_| node.look());
        assert!(opens(&before) && opens(&after));
        std::fs::write(&names[0], new).unwrap();
        (0..2).for_each(|_| node.look());
        assert!(!opens(&before) && opens(&after));
    }

    #[test]
    fn what_is_no_key_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let many: Vec<u8> = (0..17).flat_map(|seed| key(seed * 7, 48)).collect();
        for (bytes, says) in [
            (vec![], "0 bytes are no keys"),
            (b"-----BEGIN".to_vec(), "openssl rand 80"),
            (vec![7; 80], "over and over"),
            ([key(1, 48), key(1, 48)].concat(), "twice"),
            (many, "it has more than"),
        ] {
            let error = check(&files(&folder, &[bytes])).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let eight = |first: u8| (0..9).flat_map(|at| key(first + at * 7, 48)).collect();
        let error = check(&files(&folder, &[eight(0), eight(90)])).unwrap_err().to_string();
        assert!(error.contains("more than 16 keys"), "{error}");
        let error = check(&["/none".into()]).unwrap_err().to_string();
        assert!(error.starts_with("/none: No such file"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_keys_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
            if let Ok(keys) = split(Path::new("f"), &bytes) {
                prop_assert_eq!(keys.collect::<Vec<_>>().concat(), &*bytes);
            }
        }
    }
}
