//! Certificates and keys from files, with errors that name the file.

use crate::error::NetError;
use crate::limits::PEM_BYTES_MAX;
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// All of a file of at most [`PEM_BYTES_MAX`].
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, NetError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| NetError::file(path, error))?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        return Err(NetError::file(path, format!("larger than {PEM_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// The certificates in a PEM file, at least one, in order.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, NetError> {
    let chain = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| NetError::file(path, format!("not PEM: {error}")))?;
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
    let bytes = read(path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        let why = if has("ENCRYPTED") {
            "the private key is under a passphrase, which nobody is there to type: \
             `openssl pkey -in KEY -out NEW` writes it without"
                .to_owned()
        } else if has("BEGIN CERTIFICATE") {
            "a certificate in it and no private key".to_owned()
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
            ("hello", "no usable private key"),
        ] {
            let path = folder.path().join("key.pem");
            std::fs::write(&path, text).expect("the file is written");
            let error = private_key(&path).expect_err(text).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
