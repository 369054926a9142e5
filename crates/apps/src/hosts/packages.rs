//! Packages on a host: fetched from the servers once for all apps of one, held against the SHA-256 that the
//! platform says and against whoever the host trusts.

use crate::driver::clear;
use crate::limits::PACKAGE_BYTES_MAX;
use crate::{Package, Trouble};
use aws_lc_rs::digest::{Context, SHA256};
use freshet_base::clock::UnixMillis;
use freshet_base::hexadecimal;
use freshet_fleet::nats::Shelf;
use freshet_package::{PackageError, Trust, unpack};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

/// What is not whole yet ends so.
const INCOMING: &str = ".incoming";
/// Bytes that are written at a time.
const CHUNK_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Packages {
    folder: PathBuf,
    trust: Arc<Trust>,
    /// One comes after the other, and none goes meanwhile.
    fetching: Mutex<()>,
}

impl Packages {
    pub(super) fn open(folder: PathBuf, trust: Trust) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, trust: Arc::new(trust), fetching: Mutex::default() })
    }

    /// Where a package is, once it is here.
    pub(super) fn place(&self, sha256: &str) -> PathBuf {
        self.folder.join(sha256)
    }

    /// Sees to it that a package is here.
    pub(super) async fn have(&self, shelf: &Shelf, sha256: &str) -> Result<(), Trouble> {
        let _fetching = self.fetching.lock().await;
        let place = self.place(sha256);
        if place.exists() {
            return Ok(());
        }
        let incoming = self.folder.join(format!("{sha256}{INCOMING}"));
        let say = |error: io::Error| Trouble::Lasting(format!("{}: {error}", incoming.display()));
        clear(&incoming).map_err(say)?;
        fs::create_dir(&incoming).map_err(say)?;
        let archive = incoming.join(Package::ARCHIVE);
        let found = fetch(shelf, sha256, &archive).await?;
        if !found.eq_ignore_ascii_case(sha256) {
            return Err(Trouble::Passing(format!("the package that came has the SHA-256 {found}")));
        }
        let (trust, unpacked) = (Arc::clone(&self.trust), incoming.join(Package::UNPACKED));
        let now_s = UnixMillis::now().0 / 1000;
        let done = spawn_blocking(move || {
            unpack(&archive, &unpacked, &trust, now_s)?;
            // What is in it is all that is needed.
            fs::remove_file(&archive).map_err(|error| PackageError::Local { path: archive, error })
        });
        match done.await {
            Ok(Ok(())) => fs::rename(&incoming, &place).map_err(say),
            Ok(Err(error)) => Err(Trouble::Lasting(format!("the package: {error}"))),
            Err(_) => Err(Trouble::Lasting("the package could not be checked".to_owned())),
        }
    }

    /// Removes those that no app needs.
    pub(super) async fn keep_only(&self, needed: &BTreeSet<String>) {
        let _fetching = self.fetching.lock().await;
        let Ok(all) = fs::read_dir(&self.folder) else { return };
        for entry in all.flatten() {
            let is_needed = entry.file_name().to_str().is_some_and(|name| needed.contains(name));
            if let Err(error) = if is_needed { Ok(()) } else { clear(&entry.path()) } {
                tracing::warn!(package = %entry.path().display(), %error, "is not removed yet");
            }
        }
    }
}

/// Writes a package to a file, and says its SHA-256.
async fn fetch(shelf: &Shelf, sha256: &str, archive: &Path) -> Result<String, Trouble> {
    let away = |error: &dyn std::fmt::Display| Trouble::Passing(format!("the package: {error}"));
    let local = |error: io::Error| Trouble::Lasting(format!("{}: {error}", archive.display()));
    let from = shelf.file(sha256, PACKAGE_BYTES_MAX as u64).await.map_err(|error| away(&error))?;
    let mut from = from.ok_or_else(|| away(&"the servers do not have it"))?;
    let mut file = File::create(archive).await.map_err(local)?;
    let (mut context, mut chunk) = (Context::new(&SHA256), vec![0; CHUNK_BYTES]);
    loop {
        let read = from.read(&mut chunk).await.map_err(|error| away(&error))?;
        if read == 0 {
            break;
        }
        context.update(&chunk[..read]);
        file.write_all(&chunk[..read]).await.map_err(local)?;
    }
    file.flush().await.map_err(local)?;
    Ok(hexadecimal::encode(context.finish().as_ref()))
}
