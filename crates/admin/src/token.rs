//! The token that changes need: a secret in a file only its owner can read.

use crate::error::AdminError;
use aws_lc_rs::{constant_time, digest, rand};
use freshet_base::{file, hexadecimal};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Random bytes of a token of ours, twice as many characters: beyond guessing.
const RANDOM_BYTES: usize = 32;
/// Shortest token an operator may choose; below, guessing over a fast network gets within reach.
const TOKEN_BYTES_MIN: usize = 16;
/// Longest: it has to fit a request head.
const TOKEN_BYTES_MAX: usize = 1024;

/// SHA-256 of a token: to be looked up by without a hint of how much of a guess is right.
pub(crate) type Digest = [u8; 32];

/// A bearer token (RFC 6750).
#[derive(Clone)]
pub struct Token(Box<str>);

impl Token {
    /// A token nobody knows.
    pub fn random() -> Self {
        let mut bytes = [0; RANDOM_BYTES];
        rand::fill(&mut bytes).expect("the system has randomness");
        Self(hexadecimal::encode(&bytes).into())
    }

    /// The token in a file, white space at its ends left out.
    ///
    /// # Errors
    /// [`AdminError::LocalTokenFile`] when it cannot be read; [`AdminError::ConfigTokenFile`] when
    /// others than its owner and group can read it, or it holds no token.
    pub fn read(path: &Path) -> Result<Self, AdminError> {
        let failed = |error| AdminError::LocalTokenFile { path: path.into(), error };
        let wrong = |why: String| AdminError::ConfigTokenFile { path: path.into(), why };
        let mode = fs::metadata(path).map_err(failed)?.mode();
        // A group may read it: that is how Kubernetes hands a secret to a user.
        if mode & 0o037 != 0 {
            return Err(wrong(format!(
                "everybody may read the token, as the mode is {:o}; do: chmod 600",
                mode & 0o777
            )));
        }
        let text = file::read_text(path, 4 * TOKEN_BYTES_MAX as u64).map_err(failed)?;
        let text = text.trim();
        let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len());
        if !fits || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong(format!(
                "a token is {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} printable characters without \
                 spaces; make one with: openssl rand -hex 32"
            )));
        }
        Ok(Self(text.into()))
    }

    /// The token in a file of ours from before, or a new random one that is written there with
    /// mode 0600. A file of somebody else is never read, followed or overwritten.
    ///
    /// # Errors
    /// When the file is not ours, or cannot be written.
    pub fn read_or_create(path: &Path) -> Result<Self, AdminError> {
        let failed = |error| AdminError::LocalTokenFile { path: path.into(), error };
        match fs::symlink_metadata(path) {
            Ok(found) => {
                if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
                    return Err(AdminError::ConfigTokenFile {
                        path: path.into(),
                        why: "this is not a file of this user; remove it, or name another with \
                              admin.token_file"
                            .into(),
                    });
                }
                match Self::read(path) {
                    Err(AdminError::ConfigTokenFile { .. }) => {
                        fs::remove_file(path).map_err(failed)?;
                    }
                    result => return result,
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let token = Self::random();
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        writeln!(file, "{}", token.0).map_err(failed)?;
        Ok(token)
    }

    /// Whether this is what a client sent. How long that takes depends on the length of what was
    /// sent alone: neither on the token's bytes nor on its length.
    pub fn is(&self, sent: &[u8]) -> bool {
        constant_time::verify_slices_are_equal(&self.digest(), &Self::digest_of(sent)).is_ok()
    }

    pub(crate) fn digest(&self) -> Digest {
        Self::digest_of(self.0.as_bytes())
    }

    /// The digest of what a client sent.
    pub(crate) fn digest_of(sent: &[u8]) -> Digest {
        let digest = digest::digest(&digest::SHA256, sent);
        digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// The token itself, to send it.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_of_ours_keeps_its_token() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.token");
        let made = Token::read_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let again = Token::read_or_create(&path).unwrap();
        assert!(again.is(made.secret().as_bytes()) && !again.is(b"guess"));
        assert!(!again.is(&made.secret().as_bytes()[1..]));
        assert_eq!(format!("{made:?}"), "Token(..)");
    }

    #[test]
    fn a_file_others_can_read_is_refused_or_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.token");
        fs::write(&path, "0123456789abcdef\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Token::read(&path).unwrap_err().to_string().contains("chmod 600"));
        assert!(!Token::read_or_create(&path).unwrap().is(b"0123456789abcdef"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(Token::read(&path).unwrap_err().to_string().contains("openssl rand"));
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.token");
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), &path).unwrap();
        assert!(matches!(Token::read_or_create(&path), Err(AdminError::ConfigTokenFile { .. })));
    }
}
