//! The manifest of a package (NFV-SOL 004 §4.3.2): what each file hashes to.

use crate::PackageError;
use crate::archive::File;
use crate::name;
use crate::signature;
use aws_lc_rs::digest::{Context, Digest, SHA256, SHA512};
use std::collections::BTreeMap;

/// What a file hashes to, by each algorithm that a manifest may name.
pub(crate) enum Digests {
    Running(Box<[Context; 2]>),
    Done([Digest; 2]),
}

impl std::fmt::Debug for Digests {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Digests")
    }
}

impl Digests {
    pub(crate) fn new() -> Self {
        Self::Running(Box::new([Context::new(&SHA256), Context::new(&SHA512)]))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Self::Running(contexts) = self {
            contexts.iter_mut().for_each(|context| context.update(bytes));
        }
    }

    pub(crate) fn finish(self) -> Self {
        match self {
            Self::Running(contexts) => Self::Done(contexts.map(Context::finish)),
            done => done,
        }
    }

    /// The hash by the name of its algorithm.
    fn by(&self, algorithm: &str) -> Option<&[u8]> {
        let Self::Done([sha256, sha512]) = self else { return None };
        match algorithm.to_ascii_uppercase().as_str() {
            "SHA-256" => Some(sha256.as_ref()),
            "SHA-512" => Some(sha512.as_ref()),
            _ => None,
        }
    }
}

/// The value of `name: value`, at the beginning of a line.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(known, _)| *known == name)
        .map(|(_, value)| value.trim())
        .find(|value| !value.is_empty())
}

/// Holds every file against the manifest: each is in it, with its hash, and each that it has is there.
pub(crate) fn check(name: &str, manifest: &str, files: &[File]) -> Result<(), PackageError> {
    let wrong = |what: String| PackageError::client(name, what);
    let listed = listed(signature::content(manifest)).map_err(wrong)?;
    for file in files.iter().filter(|file| file.name != name) {
        let (algorithm, expected) = listed
            .get(file.name.as_str())
            .ok_or_else(|| wrong(format!("does not have {}", file.name)))?;
        let found = file
            .digests
            .by(algorithm)
            .ok_or_else(|| wrong(format!("has {algorithm}; SHA-256 and SHA-512 are understood")))?;
        if !is_hex_of(expected, found) {
            return Err(PackageError::client(file.name.as_str(), "is not what the manifest says"));
        }
    }
    let is_there = |source: &&str| files.iter().any(|file| file.name == **source);
    match listed.keys().find(|source| !is_there(source)) {
        Some(lost) => Err(wrong(format!("has {lost}, which is not in the package"))),
        None => Ok(()),
    }
}

/// Files by their names, each with an algorithm and a hash.
fn listed(text: &str) -> Result<BTreeMap<&str, (&str, &str)>, String> {
    let mut found = BTreeMap::new();
    let mut source = None;
    let mut algorithm = None;
    for line in text.lines() {
        // Names may have colons, and may not have them in packages.
        let Some((word, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match word.trim() {
            "Source" => {
                let value = name::bare(value);
                if let Some(lost) = source.replace(value) {
                    return Err(format!("has no hash of {lost}"));
                }
            }
            "Algorithm" => algorithm = Some(value),
            "Hash" => {
                let (Some(of), Some(by)) = (source.take(), algorithm.take()) else {
                    return Err("has a hash without Source and Algorithm before it".to_owned());
                };
                if found.insert(of, (by, value)).is_some() {
                    return Err(format!("has {of} twice"));
                }
            }
            _ => {}
        }
    }
    match source {
        Some(lost) => Err(format!("has no hash of {lost}")),
        None => Ok(found),
    }
}

fn is_hex_of(text: &str, bytes: &[u8]) -> bool {
    let digit = |sign: u8| char::from(sign).to_digit(16);
    text.len() == 2 * bytes.len()
        && bytes.iter().zip(text.as_bytes().chunks(2)).all(|(byte, signs)| {
            let digits = digit(signs[0]).zip(digit(signs[1]));
            digits.map(|(high, low)| 16 * high + low) == Some(u32::from(*byte))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read_and_mistakes_of_theirs_named() {
        let text = "metadata:\n  app_name: x\n\nSource: a/b\nAlgorithm: SHA-256\nHash: 00\n\nSource: c\nAlgorithm: sha-512\nHash: ff\n";
        let found = listed(text).unwrap();
        assert_eq!(found["a/b"], ("SHA-256", "00"));
        assert_eq!(found.len(), 2);
        for (text, what) in [
            ("Hash: 00", "without Source"),
            ("Source: a\nHash: 00", "without Source"),
            ("Source: a\nAlgorithm: SHA-256", "no hash of a"),
            ("Source: a\nSource: b", "no hash of a"),
            ("Source: a\nAlgorithm: x\nHash: 0\nSource: a\nAlgorithm: x\nHash: 0", "a twice"),
            ("Source: a\nAlgorithm: x\nHash: 0\nSource: ./a\nAlgorithm: x\nHash: 0", "a twice"),
        ] {
            let said = listed(text).unwrap_err();
            assert!(said.contains(what), "{said}");
        }
        assert!(is_hex_of("00fF", &[0, 255]));
        for wrong in ["00f", "00fg", "+0ff", "00ff00"] {
            assert!(!is_hex_of(wrong, &[0, 255]), "{wrong}");
        }
    }
}
