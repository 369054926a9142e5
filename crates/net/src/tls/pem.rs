//! Certificates and keys from files, with errors that name the file.

use crate::error::NetError;
use crate::limits::PEM_BYTES_MAX;
use rustls::RootCertStore;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What Windows writes in front of text, and nobody else reads.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// All of a file of at most [`PEM_BYTES_MAX`]. Of a pipe nobody might ever write the end.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, NetError> {
    let kind = std::fs::metadata(path).map_err(|error| NetError::file(path, error))?;
    if !kind.is_file() && !kind.is_dir() {
        return Err(NetError::file(path, "not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| NetError::file(path, error))?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        return Err(NetError::file(path, format!("larger than {PEM_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// As [`read`], of text.
fn read_text(path: &Path) -> Result<Vec<u8>, NetError> {
    let mut bytes = read(path)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// What is wrong with a file in PEM form, in words.
fn why(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("the file ends inside a {} block", String::from_utf8_lossy(end_marker))
        }
        pem::Error::IllegalSectionStart { line } => {
            format!("not PEM: `{}`", String::from_utf8_lossy(line).trim_end())
        }
        error => format!("not PEM: {error}"),
    }
}

/// Whether these are ASN.1 without PEM around: a sequence, and no line begins a block.
fn is_der(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0x30) && !has(bytes, "-----BEGIN")
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// The certificates in a PEM file, at least one, in order.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, NetError> {
    let bytes = read_text(path)?;
    let chain = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| NetError::file(path, why(&error)))?;
    if chain.is_empty() && is_der(&bytes) {
        let why = "DER, not PEM: `openssl x509 -inform DER -in FILE -out FILE.pem` makes it so";
        return Err(NetError::file(path, why));
    }
    if chain.is_empty() {
        return Err(NetError::file(path, "no certificate (`-----BEGIN CERTIFICATE-----`) in it"));
    }
    Ok(chain)
}

/// The authorities in a PEM file, at least one.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, NetError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(path)?);
    if added == 0 {
        return Err(NetError::file(path, "no usable authority in it"));
    }
    Ok(roots)
}

/// The first private key in a PEM file: PKCS #8, PKCS #1 or SEC 1.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, NetError> {
    let bytes = read_text(path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        let why = if has(&bytes, "ENCRYPTED") {
            "the private key is under a passphrase, which nobody is there to type: \
             `openssl pkey -in KEY -out NEW` writes it without"
                .to_owned()
        } else if has(&bytes, "BEGIN CERTIFICATE") {
            "a certificate in it and no private key".to_owned()
        } else if is_der(&bytes) {
            "DER, not PEM: `openssl pkey -inform DER -in FILE -out FILE.pem` makes it so".to_owned()
        } else if let pem::Error::MissingSectionEnd { .. } = error {
            why(&error)
        } else {
            format!("no usable private key: {error}")
        };
        NetError::file(path, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_place_of_a_certificate_is_told() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let path = folder.path().join("cert.pem");
        let told = |text: &[u8]| {
            std::fs::write(&path, text).expect("the file is written");
            certificates(&path).map(|chain| chain.len()).map_err(|error| error.to_string())
        };
        let whole = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(told(&[BYTE_ORDER_MARK, whole].concat()), Ok(1));
        for (text, says) in [
            (&whole[..40], "ends inside a CERTIFICATE block"),
            (b"\x30\x03\x02\x01\x00", "`openssl x509 -inform DER"),
            (b"hello", "no certificate"),
        ] {
            let error = told(text).expect_err(says);
            assert!(error.contains(says), "{error}");
        }
        let error = certificates(Path::new("/dev/zero")).expect_err("a device").to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[test]
    fn what_is_in_the_place_of_a_key_is_told() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        for (text, says) in [
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n", "under a passphrase"),
            (
                "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n",
                "under a passphrase",
            ),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "a certificate in it",
            ),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n", "ends inside a PRIVATE KEY block"),
            ("\x30\x03\x02\x01\x00", "`openssl pkey -inform DER"),
            ("hello", "no usable private key"),
        ] {
            let path = folder.path().join("key.pem");
            std::fs::write(&path, text).expect("the file is written");
            let error = private_key(&path).expect_err(text).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
