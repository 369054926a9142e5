//! Archives of packages: they come in by HTTP, are unpacked and checked beside what is there, and take
//! their place when all of it is right. What a crash leaves half-done is removed at the next start.

use super::Shared;
use crate::limits::{PACKAGE_SILENCE_MS_MAX, UPLOADS_MAX};
use aws_lc_rs::digest::{Context, SHA256};
use axum::body::{Body, Bytes};
use freshet_apps::Package;
use freshet_apps::disk::said;
use freshet_apps::limits::PACKAGE_BYTES_MAX;
use freshet_base::clock::UnixMillis;
use freshet_base::hexadecimal;
use freshet_base::private::sync_folder_of;
use freshet_documents::problem::Problem;
use freshet_net::places::Place;
use freshet_package::{PackageError, Trust, unpack};
use freshet_platform::{Answer, Call};
use futures_util::StreamExt;
use futures_util::stream::unfold;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// What is not whole yet ends so.
const INCOMING: &str = ".incoming";
/// Bytes that are read of a file at a time.
const CHUNK_BYTES: usize = 256 << 10;
const SILENCE: Duration = Duration::from_millis(PACKAGE_SILENCE_MS_MAX);

/// A descriptor, and who has signed it.
type Found = (Value, Option<String>);

/// The packages on this machine.
#[derive(Debug)]
pub(super) struct Packages {
    folder: PathBuf,
    trust: Arc<Trust>,
    room: Semaphore,
}

/// Where a package is while it is not whole. It goes with this, unless it is kept.
struct Incoming(PathBuf);

impl Drop for Incoming {
    fn drop(&mut self) {
        // What cannot be removed now is removed at the next start.
        drop(fs::remove_dir_all(&self.0));
    }
}

impl Packages {
    /// Packages below a folder, which is made; what is there besides `known` is removed.
    ///
    /// # Errors
    /// What this machine refused.
    pub(super) fn open(
        folder: PathBuf,
        trust: Trust,
        known: &BTreeSet<String>,
    ) -> Result<Self, String> {
        let say = |error: io::Error| said(&folder, &error);
        fs::create_dir_all(&folder).map_err(say)?;
        for entry in fs::read_dir(&folder).map_err(say)? {
            let entry = entry.map_err(say)?;
            let is_known = entry.file_name().to_str().is_some_and(|name| known.contains(name));
            if !is_known {
                tracing::info!(package = %entry.path().display(), "what is left of a package is removed");
                fs::remove_dir_all(entry.path()).map_err(say)?;
            }
        }
        let room = Semaphore::new(UPLOADS_MAX);
        Ok(Self { folder, trust: Arc::new(trust), room })
    }

    /// Receives an archive, which must have this SHA-256, and puts it in its place with what was in it.
    /// Why it is refused is the inner error.
    pub(super) async fn receive(
        &self,
        id: &str,
        body: Body,
        sha256: &str,
    ) -> Result<Result<Found, String>, Problem> {
        let busy = || Problem::new(503, "as many packages as may are on their way");
        let _room = self.room.try_acquire().map_err(|_| busy())?;
        let incoming = self.folder.join(format!("{id}{INCOMING}"));
        fs::create_dir(&incoming).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Problem::new(409, "it is on its way already"),
            _ => local(&incoming, &error),
        })?;
        let incoming = Incoming(incoming);
        let archive = incoming.0.join(Package::ARCHIVE);
        let found = write(&archive, body).await?;
        if !found.eq_ignore_ascii_case(sha256) {
            return Ok(Err(format!("what came has the SHA-256 {found}, not that of /checksum")));
        }
        let (trust, unpacked) = (Arc::clone(&self.trust), incoming.0.join(Package::UNPACKED));
        let now_s = UnixMillis::now().0 / 1000;
        let package = spawn_blocking(move || unpack(&archive, &unpacked, &trust, now_s)).await;
        let package = match package {
            Ok(Ok(package)) => package,
            Ok(Err(PackageError::Local { path, error })) => return Err(local(&path, &error)),
            Ok(Err(error)) => return Ok(Err(error.to_string())),
            Err(_) => return Err(Problem::new(500, "the package could not be checked")),
        };
        let place = self.folder.join(id);
        fs::rename(&incoming.0, &place).map_err(|error| local(&place, &error))?;
        sync_folder_of(&place).map_err(|error| local(&self.folder, &error))?;
        Ok(Ok((package.descriptor, package.signer)))
    }

    /// Removes what there is of a package.
    pub(super) fn remove(&self, id: &str) {
        let place = self.folder.join(id);
        if let Err(error) = fs::remove_dir_all(&place)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(package = %place.display(), %error, "is not removed, until the next start");
        }
    }

    /// The archive of a package, as it came, and its length.
    pub(super) fn archive(&self, id: &str) -> Result<(Body, u64), Problem> {
        let path = self.folder.join(id).join(Package::ARCHIVE);
        let file = File::open(&path).map_err(|error| local(&path, &error))?;
        let bytes = file.metadata().map_err(|error| local(&path, &error))?.len();
        let chunks = unfold(file, |mut file| async move {
            let read = spawn_blocking(move || {
                let mut chunk = vec![0; CHUNK_BYTES];
                let read = file.read(&mut chunk)?;
                chunk.truncate(read);
                Ok::<_, io::Error>((Bytes::from(chunk), file))
            });
            match read.await {
                Ok(Ok((chunk, _))) if chunk.is_empty() => None,
                Ok(Ok((chunk, file))) => Some((Ok::<_, io::Error>(chunk), file)),
                // The connection breaks, as the length was promised.
                Ok(Err(_)) | Err(_) => None,
            }
        });
        Ok((Body::from_stream(chunks), bytes))
    }
}

impl Shared {
    /// Takes or gives the archive of a package; the rest of a call is decided on as any other.
    pub(super) async fn transfer(
        &self,
        call: &Call<'_>,
        id: &str,
        body: Body,
        place: Option<&Place>,
    ) -> Result<(Answer, Option<(Body, &'static str)>), Problem> {
        let decision = self.judge(call, "", UnixMillis::now().0)?;
        let packages = self.packages.as_ref().ok_or_else(|| {
            Problem::new(503, "no packages are taken: `[packages]` says whose are")
        })?;
        if call.method != "PUT" {
            let (body, bytes) = packages.archive(id)?;
            let answer = decision.answer().clone();
            return Ok((
                answer.with("Content-Length", bytes.to_string()),
                Some((body, "application/zip")),
            ));
        }
        if let Some(place) = place {
            place.begin_upload(PACKAGE_BYTES_MAX);
        }
        let sha256 = self.read().package(id).map(|one| one["checksum"]["hash"].clone());
        let sha256 = sha256.as_ref().and_then(Value::as_str).unwrap_or_default();
        let found = packages.receive(id, body, sha256).await?;
        let is_there = found.is_ok();
        let _changing = self.changing.lock().await;
        let decision = self.read().onboarded(id, found);
        let done = match decision {
            Ok(decision) => self.carry_out(decision).await,
            Err(problem) => Err(problem),
        };
        // What nobody was promised does not stay.
        if is_there && done.as_ref().map_or(true, |answer| answer.status != 202) {
            packages.remove(id);
        }
        done.map(|answer| (answer, None))
    }
}

/// Writes what comes to a file, and says its SHA-256.
async fn write(path: &Path, body: Body) -> Result<String, Problem> {
    let local = |error: io::Error| local(path, &error);
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(local)?;
    let mut context = Context::new(&SHA256);
    let mut bytes = 0_usize;
    let mut stream = body.into_data_stream();
    loop {
        let next = timeout(SILENCE, stream.next()).await;
        let next = next.map_err(|_| Problem::new(408, "the next bytes did not come in time"))?;
        let Some(chunk) = next else { break };
        let chunk = chunk.map_err(|_| Problem::bad_request("the body broke off"))?;
        bytes += chunk.len();
        if bytes > PACKAGE_BYTES_MAX {
            return Err(Problem::new(413, format!("{PACKAGE_BYTES_MAX} bytes are the most")));
        }
        context.update(&chunk);
        file.write_all(&chunk).map_err(local)?;
    }
    file.sync_all().map_err(local)?;
    Ok(hexadecimal::encode(context.finish().as_ref()))
}

/// This machine refuses: its log says why.
fn local(path: &Path, error: &io::Error) -> Problem {
    tracing::error!(path = %path.display(), %error, "a package cannot be kept");
    Problem::new(507, "this cannot be kept; the platform's own log says more")
}
