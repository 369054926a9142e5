//! Names with passwords, as files made with `htpasswd` and `mkpasswd` have them.
//!
//! A file is lines of `name:hash`; empty ones and those that begin with `#` are skipped. The hash is
//! bcrypt (`$2y$`), SHA-512 or SHA-256 crypt (`$6$`, `$5$`), or the MD5 of Apache (`$apr1$`). What can be
//! undone, or guessed as quickly as it can be read, is refused.
//!
//! Checking one is slow on purpose; [`Users::remembers`] answers for what was checked before.

mod hash;

use crate::memory::{Digest, Memory};
use hash::Hash;
use std::collections::HashMap;
use thiserror::Error;

/// Most names in a file.
pub const USERS_MAX: usize = 10_000;
/// Longest password: what is longer costs time and is nobody's.
pub const PASSWORD_BYTES_MAX: usize = 256;
/// How long a password that was checked is good without another check.
const REMEMBERED_MS: u64 = 5 * 60 * 1000;
/// Most of them. Each is some 50 bytes; where there are more people at a time than that, those who come
/// then are checked again.
const REMEMBERED_MAX: usize = 4096;

/// Why a file of names cannot be used.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum UsersError {
    /// A line is not `name:hash`.
    #[error("line {0} is not `name:hash`; make it with `htpasswd -B FILE NAME`")]
    Line(usize),
    /// A hash is none that is known, or one that hides nothing.
    #[error("line {line}: {what}; make it with `htpasswd -B FILE NAME` or `mkpasswd -m sha-512`")]
    Hash {
        /// Where, from 1.
        line: usize,
        /// What is the matter with it.
        what: &'static str,
    },
    /// A name is there twice.
    #[error("line {0} has a name that an earlier one has")]
    Twice(usize),
    /// There is nobody in it.
    #[error("nobody is in it; add somebody with `htpasswd -B FILE NAME`")]
    Empty,
    /// The system gave no random numbers.
    #[error("the system gives no random numbers")]
    NoRandom,
    /// There are too many.
    #[error("it has more than {USERS_MAX} names")]
    Many,
}

/// What editors put before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The names of a file with what their passwords are checked against.
pub struct Users {
    hashes: HashMap<Box<str>, Hash>,
    /// What unknown names are checked against, so that they take as long as known ones.
    decoy: Hash,
    remembered: Memory<()>,
}

impl Users {
    /// Those of a file.
    ///
    /// # Errors
    /// [`UsersError`].
    pub fn parse(text: &str) -> Result<Self, UsersError> {
        let mut hashes = HashMap::new();
        let mut decoy = None;
        for (index, line) in text.trim_start_matches(BYTE_ORDER_MARK).lines().enumerate() {
            let at = index + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, rest) = line.split_once(':').ok_or(UsersError::Line(at))?;
            // nginx allows a comment behind the hash.
            let written = rest.split(':').next().unwrap_or_default();
            if name.is_empty() || written.is_empty() {
                return Err(UsersError::Line(at));
            }
            let hash = Hash::parse(written).map_err(|what| UsersError::Hash { line: at, what })?;
            decoy.get_or_insert_with(|| hash.clone());
            if hashes.insert(name.into(), hash).is_some() {
                return Err(UsersError::Twice(at));
            }
            if hashes.len() > USERS_MAX {
                return Err(UsersError::Many);
            }
        }
        let decoy = decoy.ok_or(UsersError::Empty)?;
        let remembered = Memory::new(REMEMBERED_MAX).map_err(|_| UsersError::NoRandom)?;
        Ok(Self { hashes, decoy, remembered })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.hashes.len()
    }

    /// Whether somebody was let in with this not long ago. Takes a microsecond.
    pub fn remembers(&self, given: &Credentials, now_ms: u64) -> bool {
        self.remembered.get(&self.digest(given), now_ms).is_some()
    }

    /// Whether it is somebody's name with their password, which is remembered then. Takes as long as
    /// whoever made the hash wanted: milliseconds to a second.
    pub fn verify(&self, given: &Credentials, now_ms: u64) -> bool {
        let known = self.hashes.get(&*given.name);
        let fits = known.unwrap_or(&self.decoy).verify(given.password.as_bytes());
        let is_good = known.is_some() && fits;
        if is_good {
            let until_ms = now_ms.saturating_add(REMEMBERED_MS);
            self.remembered.add(self.digest(given), (), now_ms, until_ms);
        }
        is_good
    }

    fn digest(&self, given: &Credentials) -> Digest {
        self.remembered.digest([given.name.as_bytes(), given.password.as_bytes()])
    }
}

/// A name and a password.
pub struct Credentials {
    name: String,
    password: String,
}

impl Credentials {
    /// Those of an `Authorization: Basic` (RFC 7617); `None` where it is none.
    pub fn parse(value: &[u8]) -> Option<Self> {
        use base64::Engine as _;
        let at = value.iter().position(|byte| *byte == b' ')?;
        let (scheme, rest) = value.split_at_checked(at)?;
        if !scheme.eq_ignore_ascii_case(b"basic") {
            return None;
        }
        let engine = base64::engine::general_purpose::GeneralPurpose::new(
            &base64::alphabet::STANDARD,
            base64::engine::general_purpose::GeneralPurposeConfig::new()
                .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
        );
        let text = String::from_utf8(engine.decode(rest.trim_ascii()).ok()?).ok()?;
        let (name, password) = text.split_once(':')?;
        let fits = password.len() <= PASSWORD_BYTES_MAX && !password.contains('\0');
        fits.then(|| Self { name: name.into(), password: password.into() })
    }

    /// The name that was given.
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;

    /// Made with `htpasswd -nbB`, `htpasswd -nb`, `mkpasswd -m sha-512` and `htpasswd -nb2`.
    const FILE: &str = "# people\n\
        anna:$2y$05$Ys9uZZy6fI4aT0ZWcKvyw.xufnZP3zcSfxN4VmSv0nATalPsUDkdq\n\n\
        bert:$apr1$tnQ038CR$N0LupNSOWFn5.fWaBfj1B/:a comment\n\
        cleo:$6$AuvdrklGcDOe2yrh$rt2JCOhFFaA9R.Q5R.WZ825gKLI.4SY8IW7SMBqg3Ac.kjdjUj1am3JgiEF1k/buZQSr6Z9OnZk2KCwqDtHtF1\n\
        dora:$5$niV/izkQB93uOVBy$bRsbkpjhAr0MVHb/kxku5YpwmWfrH1.tKD6blCvwfIB\n";

    fn given(name: &str, password: &str) -> Credentials {
        let text = format!("{name}:{password}");
        let value = base64::engine::general_purpose::STANDARD.encode(text);
        Credentials::parse(format!("Basic {value}").as_bytes()).unwrap()
    }

    #[test]
    fn people_are_let_in_with_their_password_and_no_other() {
        let users = Users::parse(FILE).unwrap();
        assert_eq!(users.count(), 4);
        for (name, password) in
            [("anna", "password"), ("bert", "password"), ("cleo", "password"), ("dora", "p")]
        {
            assert!(users.verify(&given(name, password), 0), "{name}");
            for wrong in ["", "Password", "password ", "q"] {
                assert!(!users.verify(&given(name, wrong), 0), "{name} {wrong}");
            }
        }
        assert!(!users.verify(&given("eve", "password"), 0));
        let marked = Users::parse(&FILE.replacen("# people\n", "\u{feff}", 1)).unwrap();
        assert!(marked.verify(&given("anna", "password"), 0));
        assert!(!users.verify(&given("", ""), 0));
    }

    #[test]
    fn who_was_let_in_is_remembered_for_a_while_and_nobody_else() {
        let users = Users::parse(FILE).unwrap();
        let (good, wrong) = (given("dora", "p"), given("dora", "q"));
        assert!(!users.remembers(&good, 0));
        assert!(users.verify(&good, 0) && !users.verify(&wrong, 0));
        assert!(users.remembers(&good, 1_000) && !users.remembers(&wrong, 1_000));
        assert!(!users.remembers(&good, 3_600_000));
    }

    #[test]
    fn a_file_that_hides_nothing_is_refused_with_its_line() {
        for (text, says) in [
            ("", "nobody"),
            ("# only\n", "nobody"),
            ("a:$5$x$y\nb\n", "line 1: "),
            ("b\n", "line 1 is not"),
            (":x\n", "line 1 is not"),
            ("a:secret\n", "line 1: "),
            ("a:{SHA}UWuXg/ylF+7L0dBk2i0WUxCxl1k=\n", "SHA-1"),
            (
                "a:$y$j9T$3Gyby7N1NKSQNjYsw/oRi1$DhmDP/DxGbhSy5IboyJQJ/KZwRPo6cvLvoHLy3d1/38\n",
                "yescrypt",
            ),
            ("a:$2y$20$Ys9uZZy6fI4aT0ZWcKvyw.xufnZP3zcSfxN4VmSv0nATalPsUDkdq\n", "too long"),
            ("a:$6$rounds=999999999$abc$x\n", "line 1: "),
        ] {
            let error = Users::parse(text).err().map(|error| error.to_string());
            assert!(
                error.as_deref().is_some_and(|error| error.contains(says)),
                "{text}: {error:?}"
            );
        }
        let twice = FILE.replace("bert", "anna");
        assert_eq!(Users::parse(&twice).err(), Some(UsersError::Twice(4)));
    }

    #[test]
    fn what_is_no_basic_authorization_is_nobody() {
        for value in ["", "Basic", "Basic ", "Basic !!", "Bearer YTpi", "Basic YQ==", "Basic /w=="]
        {
            assert!(Credentials::parse(value.as_bytes()).is_none(), "{value}");
        }
        let long =
            base64::engine::general_purpose::STANDARD.encode("a:".to_owned() + &"b".repeat(300));
        assert!(Credentials::parse(format!("Basic {long}").as_bytes()).is_none());
        let open = Credentials::parse(b"bAsIc YTpiOmM").unwrap();
        assert_eq!((open.name(), &*open.password), ("a", "b:c"));
    }
}
