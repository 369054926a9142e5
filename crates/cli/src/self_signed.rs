//! A certificate for a node that was given none: good for trying things, not for clients.

use anyhow::{Context, Result};
use freshet_config::Settings;
use freshet_config::listeners::{Certificate, Listener};
use freshet_config::mistake::Place;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Makes a certificate for `localhost` and this machine's name in `directory`, if TLS is wanted and
/// none was configured. Returns whether it did.
///
/// # Errors
/// When the files cannot be written.
pub(crate) fn fill_in(settings: &mut Settings, directory: &Path) -> Result<bool> {
    if wanted_by(settings).is_none() {
        return Ok(false);
    }
    let (cert, key) = (directory.join("self-signed.pem"), directory.join("self-signed.key"));
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    names.extend(freshet_base::machine::host_name());
    let made = rcgen::generate_simple_self_signed(names).context("no certificate could be made")?;
    fs::write(&key, made.signing_key.serialize_pem())
        .with_context(|| format!("{} could not be written", key.display()))?;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
    fs::write(&cert, made.cert.pem())
        .with_context(|| format!("{} could not be written", cert.display()))?;
    let (place, key_place) = (Place::default(), Place::default());
    settings.site.certificates.push(Certificate { cert, key, ocsp: None, place, key_place });
    Ok(true)
}

/// The listener that wants TLS while no certificate was configured, and none will be got.
pub(crate) fn wanted_by(settings: &Settings) -> Option<&Listener> {
    let has_none =
        settings.acme.is_none() && settings.certified().all(|site| site.certificates.is_empty());
    settings.listeners.iter().find(|listener| listener.tls && has_none)
}
