//! Packages of apps for the edge: archives of ETSI GS NFV-SOL 004 (CSAR) with a descriptor of
//! ETSI GS MEC 010-2.
//!
//! What it owns: reading an archive that anybody may have made. [`unpack`] writes what is in it below a
//! folder that it makes, holds every file against the manifest's hashes, and the manifest against its
//! signature; what is refused leaves nothing. [`image::unpack`] makes of an image in a package the files
//! that a container begins with.
//!
//! What it must never know: who brings a package, and how an app is run.
//!
//! ```no_run
//! use freshet_package::{Trust, unpack};
//!
//! let signer = std::fs::read_to_string("signer.pem")?;
//! let trust = Trust::signers(&[signer])?;
//! let package = unpack("cache.csar".as_ref(), "unpacked".as_ref(), &trust, 1_800_000_000)?;
//! println!("{}", package.descriptor["appName"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod archive;
mod error;
pub mod image;
pub mod limits;
mod manifest;
mod name;
mod signature;

pub use error::PackageError;
pub use signature::Trust;

use serde_json::Value;
use std::fs;
use std::path::Path;

/// Where an archive says what its parts are (NFV-SOL 004 §4.1.2).
const META: &str = "TOSCA-Metadata/TOSCA.meta";

/// A package that is what its maker made.
#[derive(Debug)]
pub struct Package {
    /// AppD of ETSI GS MEC 010-2 §6.2.1.2, with the attributes that every one must have.
    pub descriptor: Value,
    /// Names of its files, below the folder it was unpacked to.
    pub files: Vec<String>,
    /// Subject of the certificate that the manifest is signed by; none where no signature was asked for.
    pub signer: Option<String>,
}

/// Unpacks an archive to a folder, which must not be there, and checks all of it. `now_s` is the time in
/// seconds since 1970, for certificates.
///
/// # Errors
/// What is wrong with it, and where; the folder is not there then.
pub fn unpack(
    archive: &Path,
    folder: &Path,
    trust: &Trust,
    now_s: u64,
) -> Result<Package, PackageError> {
    let local = |error| PackageError::local(folder, error);
    fs::create_dir(folder).map_err(local)?;
    let unpacked = read(archive, folder, trust, now_s);
    if unpacked.is_err() {
        fs::remove_dir_all(folder).map_err(local)?;
    }
    unpacked
}

fn read(archive: &Path, folder: &Path, trust: &Trust, now_s: u64) -> Result<Package, PackageError> {
    let files = archive::extract(archive, folder)?;
    let meta = text(folder, &files, META)?;
    let entry = |name: &str| {
        let found = manifest::field(&meta, name).map(name::bare);
        found.ok_or_else(|| PackageError::client(META, format!("{name} is missing")))
    };
    let manifest_name = entry("ETSI-Entry-Manifest")?;
    let manifest = text(folder, &files, manifest_name)?;
    let signer = signature::verify(manifest_name, &manifest, trust, now_s)?;
    manifest::check(manifest_name, &manifest, &files)?;
    let descriptor = descriptor(folder, &files, entry("Entry-Definitions")?)?;
    let files = files.into_iter().map(|file| file.name).collect();
    Ok(Package { descriptor, files, signer })
}

/// A file of the archive that is read as a whole.
fn text(folder: &Path, files: &[archive::File], name: &str) -> Result<String, PackageError> {
    let wrong = |what: &str| PackageError::client(name, what.to_owned());
    let file = files.iter().find(|file| file.name == name).ok_or_else(|| wrong("is missing"))?;
    if file.bytes > limits::TEXT_BYTES_MAX {
        return Err(wrong(&format!("is longer than {} bytes", limits::TEXT_BYTES_MAX)));
    }
    let path = folder.join(name);
    let bytes = fs::read(&path).map_err(|error| PackageError::local(&path, error))?;
    String::from_utf8(bytes).map_err(|_| wrong("is no text in UTF-8"))
}

/// The descriptor: JSON, which YAML is a superset of, with what every AppD must have.
fn descriptor(folder: &Path, files: &[archive::File], name: &str) -> Result<Value, PackageError> {
    const NEEDED: [&str; 7] = [
        "appDId",
        "appName",
        "appProvider",
        "appSoftVersion",
        "appDVersion",
        "mecVersion",
        "appDescription",
    ];
    let wrong = |what: String| PackageError::client(name, what);
    let text = text(folder, files, name)?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| wrong(format!("is no JSON: {error}")))?;
    let lacks = NEEDED.iter().find(|name| !value[**name].is_string());
    if let Some(lacks) = lacks {
        return Err(wrong(format!("lacks {lacks}")));
    }
    let images = value["swImageDescriptor"].as_array().map_or(&[][..], Vec::as_slice);
    if images.is_empty() {
        return Err(wrong("lacks swImageDescriptor".to_owned()));
    }
    for image in images {
        // The standard has a string in one place and an object in the other.
        let path = image["swImage"].as_str().or_else(|| image["swImage"]["path"].as_str());
        let path = name::bare(path.unwrap_or_default());
        let is_there = files.iter().any(|file| {
            file.name == path
                || file.name.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
        });
        if path.is_empty() || !is_there {
            return Err(wrong(format!("has the image `{path}`, which is not in the package")));
        }
    }
    Ok(value)
}
