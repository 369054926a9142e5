//! Images of apps: an OCI image layout (OCI image specification 1.1), as a folder or as a tar archive of
//! one, made into the file tree that a container begins with.

mod layer;
mod packed;
mod user;

use crate::PackageError;
use crate::limits::{BYTES_MAX, IMAGE_ENTRIES_MAX, LAYERS_MAX, TEXT_BYTES_MAX};
use aws_lc_rs::digest::{Context, SHA256};
use flate2::read::GzDecoder;
use packed::Unzstd;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// How an image says that it is run.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Image {
    /// Digest of its manifest, such as `sha256:…`: how registries name it.
    #[serde(default)]
    pub digest: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// `NAME=value`, each.
    pub environment: Vec<String>,
    /// Where it begins.
    pub folder: String,
    /// Number of its user, and of the group.
    pub user: [u32; 2],
    /// TCP ports it serves, the lowest first.
    pub ports: Vec<u16>,
    /// The signal by which it is asked to end, such as `SIGTERM`.
    pub stop_signal: String,
}

/// How much may still be unpacked.
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) entries: usize,
}

/// Unpacks an image to a folder, which must not be there, and says how it is run. Every part is held
/// against its digest.
///
/// # Errors
/// What is wrong with it, and where; the folder is not there then.
pub fn unpack(image: &Path, rootfs: &Path) -> Result<Image, PackageError> {
    let local = |error| PackageError::local(rootfs, error);
    fs::create_dir(rootfs).map_err(local)?;
    let unpacked = read(image, rootfs);
    if unpacked.is_err() {
        fs::remove_dir_all(rootfs).map_err(local)?;
    }
    unpacked
}

fn read(image: &Path, rootfs: &Path) -> Result<Image, PackageError> {
    let mut room = Room { bytes: BYTES_MAX, entries: IMAGE_ENTRIES_MAX };
    if image.is_dir() {
        return of_layout(image, rootfs, &mut room);
    }
    let layout = rootfs.with_extension("layout");
    let local = |error| PackageError::local(&layout, error);
    fs::create_dir_all(&layout).map_err(local)?;
    let file = File::open(image).map_err(|error| PackageError::local(image, error))?;
    let found = layer::extract_plain(BufReader::new(file), &layout, &mut room)
        .and_then(|()| of_layout(&layout, rootfs, &mut room));
    fs::remove_dir_all(&layout).map_err(local)?;
    found
}

fn of_layout(layout: &Path, rootfs: &Path, room: &mut Room) -> Result<Image, PackageError> {
    let index = json(&layout.join("index.json"), "index.json", None)?;
    let (mut digest, mut manifest) = of_this_machine(layout, &index)?;
    if manifest["manifests"].is_array() {
        // An index of an index: one image for several machines.
        (digest, manifest) = of_this_machine(layout, &manifest)?;
    }
    let (_, config) = part(layout, &manifest["config"])?;
    let layers = manifest["layers"].as_array().map_or(&[][..], Vec::as_slice);
    if layers.is_empty() || layers.len() > LAYERS_MAX {
        let what = format!("has {} layers; 1 to {LAYERS_MAX} are understood", layers.len());
        return Err(PackageError::client("the image", what));
    }
    for one in layers {
        let (path, hex) = blob(layout, one)?;
        let kind = one["mediaType"].as_str().unwrap_or_default();
        let file = File::open(&path).map_err(|error| PackageError::local(&path, error))?;
        let mut hashed = Hashed { from: BufReader::new(file), context: Context::new(&SHA256) };
        if kind.ends_with("gzip") {
            layer::apply(GzDecoder::new(&mut hashed), rootfs, room)?;
        } else if kind.ends_with("zstd") {
            let unpacked = Unzstd::new(&mut hashed);
            let unpacked = unpacked.map_err(|error| PackageError::local(&path, error))?;
            layer::apply(unpacked, rootfs, room)?;
        } else if kind.ends_with(".tar") {
            layer::apply(&mut hashed, rootfs, room)?;
        } else {
            let what = format!("is {kind}; tar, tar+gzip and tar+zstd are understood");
            return Err(PackageError::client(format!("layer {hex}"), what));
        }
        io::copy(&mut hashed, &mut io::sink())
            .map_err(|error| PackageError::local(&path, error))?;
        if hex_of(hashed.context.finish().as_ref()) != hex {
            return Err(PackageError::client(
                format!("layer {hex}"),
                "is not what its digest says",
            ));
        }
    }
    Ok(Image { digest, ..run_as(&config, rootfs)? })
}

/// The manifest of an index that is for this machine, and its digest.
fn of_this_machine(layout: &Path, index: &Value) -> Result<(String, Value), PackageError> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let all = index["manifests"].as_array().map_or(&[][..], Vec::as_slice);
    let fits = |one: &&Value| {
        let platform = &one["platform"];
        let is = |name: &str, wanted: &str| platform[name].is_null() || platform[name] == wanted;
        is("architecture", architecture) && is("os", "linux")
    };
    let one = all.iter().find(fits).ok_or_else(|| {
        PackageError::client("index.json", format!("has no image for linux/{architecture}"))
    })?;
    let (hex, manifest) = part(layout, one)?;
    Ok((format!("sha256:{hex}"), manifest))
}

/// A part that is JSON, and its SHA-256.
fn part(layout: &Path, descriptor: &Value) -> Result<(String, Value), PackageError> {
    let (path, hex) = blob(layout, descriptor)?;
    let value = json(&path, &format!("blob {hex}"), Some(&hex))?;
    Ok((hex, value))
}

/// Where a part is, and its SHA-256.
fn blob(layout: &Path, descriptor: &Value) -> Result<(PathBuf, String), PackageError> {
    let digest = descriptor["digest"].as_str().unwrap_or_default();
    let is_hex = |text: &&str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let hex = digest.strip_prefix("sha256:").filter(is_hex).ok_or_else(|| {
        PackageError::client("the image", format!("has the digest `{digest}`; it must be SHA-256"))
    })?;
    let path = layout.join("blobs/sha256").join(hex);
    if !path.is_file() {
        return Err(PackageError::client(format!("blob {hex}"), "is not there"));
    }
    Ok((path, hex.to_owned()))
}

fn json(path: &Path, place: &str, hex: Option<&str>) -> Result<Value, PackageError> {
    let wrong = |what: String| PackageError::client(place, what);
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(wrong(format!("is longer than {TEXT_BYTES_MAX} bytes")));
    }
    let found = aws_lc_rs::digest::digest(&SHA256, &bytes);
    if hex.is_some_and(|hex| hex_of(found.as_ref()) != hex) {
        return Err(wrong("is not what its digest says".to_owned()));
    }
    serde_json::from_slice(&bytes).map_err(|error| wrong(format!("is no JSON: {error}")))
}

/// What the image's configuration says (OCI image configuration, `config`).
fn run_as(config: &Value, rootfs: &Path) -> Result<Image, PackageError> {
    let config = &config["config"];
    let texts = |name: &str| -> Vec<String> {
        let list = config[name].as_array().into_iter().flatten();
        list.filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let text = |name: &str, or: &str| match config[name].as_str() {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => or.to_owned(),
    };
    let mut command = texts("Entrypoint");
    command.extend(texts("Cmd"));
    if command.is_empty() {
        let what = "says no command: neither Entrypoint nor Cmd";
        return Err(PackageError::client("the image", what));
    }
    let exposed = config["ExposedPorts"].as_object().into_iter().flatten();
    let mut ports: Vec<u16> = exposed
        .filter_map(|(port, _)| port.strip_suffix("/tcp").unwrap_or(port).parse().ok())
        .collect();
    ports.sort_unstable();
    let user = user::resolve(&text("User", "0"), rootfs)?;
    let folder = text("WorkingDir", "/");
    let stop_signal = text("StopSignal", "SIGTERM");
    let environment = texts("Env");
    Ok(Image { digest: String::new(), command, environment, folder, user, ports, stop_signal })
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is read is hashed.
struct Hashed<R> {
    from: R,
    context: Context,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.from.read(buffer)?;
        self.context.update(&buffer[..bytes]);
        Ok(bytes)
    }
}
