//! Certificates that a node gets by itself: from its configuration to a plan, and whether it can work.

use crate::runtime;
use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use freshet_acme::{ExternalAccount, Manager, OnDemand, Pace, Plan, Running, is_name};
use freshet_config::Settings;
use freshet_config::acme::Acme;
use freshet_config::hosts::HostPattern;
use freshet_config::mistake::Mistake;
use freshet_net::address::Address;
use freshet_node::node::NodeError;
use freshet_node::preflight::Prepared;
use rustix::fs::{Access, access};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is in the state directory is served by what was prepared, and what was being proved is shown
/// again, before the first client comes.
///
/// # Errors
/// The plan cannot be followed, or the state directory not be used.
pub(crate) fn open(prepared: &Prepared) -> Result<Option<Manager>> {
    let settings = &prepared.draft.settings;
    let Some(plan) = plan(settings)? else { return Ok(None) };
    let Some(store) = &prepared.certificates else { return Ok(None) };
    for warning in examine(settings).iter().filter(|mistake| !mistake.is_error()) {
        tracing::warn!("{warning}");
    }
    let place = settings.acme.as_ref().map(|acme| acme.place).unwrap_or_default();
    let manager = Manager::open(plan, store).map_err(|error| {
        let mistake = Mistake::error(place, format!("[acme]: {error}")).help(error.kind.cure());
        NodeError::Config(vec![mistake])
    })?;
    let names = manager.status().names();
    let missing = names.iter().filter(|(_, status)| status.validity_s.is_none());
    let missing: Vec<_> = missing.map(|(name, _)| name.as_str()).take(NAMES_SHOWN_MAX).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        tracing::info!(missing, "TLS for these names begins when their certificates have come");
    }
    Ok(Some(manager))
}

/// Names that are listed at a start.
const NAMES_SHOWN_MAX: usize = 5;

/// Has a manager at work follow new settings.
///
/// # Errors
/// They cannot be followed; the old ones are then.
pub(crate) fn follow(running: &Running, settings: &Settings) -> Result<()> {
    match plan(settings)? {
        Some(plan) => Ok(running.follow(plan)?),
        None => Ok(()),
    }
}

/// What settings want, if they do.
///
/// # Errors
/// There is no place for the state, or the key of an account elsewhere cannot be read.
pub(crate) fn plan(settings: &Settings) -> Result<Option<Plan>> {
    let Some(acme) = &settings.acme else { return Ok(None) };
    let external_account = acme.external_account.as_ref().map(|(key_id, file)| {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let text = text.trim().trim_end_matches('=').replace('+', "-").replace('/', "_");
        let hmac_key = URL_SAFE_NO_PAD.decode(text).ok().filter(|key| !key.is_empty());
        let hmac_key =
            hmac_key.ok_or_else(|| anyhow!("{} is not a key in base64url", file.display()))?;
        anyhow::Ok(ExternalAccount { key_id: key_id.clone(), hmac_key })
    });
    Ok(Some(Plan {
        directory: acme.directory.clone(),
        ca: acme.ca.clone(),
        contact: acme.contact.clone(),
        external_account: external_account.transpose()?,
        key_type: acme.key_type.parse().unwrap_or_default(),
        challenges: acme.challenges.iter().filter_map(|word| word.parse().ok()).collect(),
        names: names(settings, acme).into_iter().collect(),
        on_demand: acme.on_demand.clone().map(|(service, most)| OnDemand {
            service,
            names_max: usize::try_from(most).unwrap_or(usize::MAX),
        }),
        state: state(acme)?,
        pace: Pace::default(),
    }))
}

/// What certificates are for: hosts of sites that can have one, and what is listed.
fn names(settings: &Settings, acme: &Acme) -> BTreeSet<String> {
    let hosts = settings.sites.iter().flat_map(|site| &site.hosts);
    let exact = hosts.filter_map(|host| match host {
        HostPattern::Exact(host) if is_name(host) && !is_private(host) => Some(host.to_string()),
        _ => None,
    });
    exact.chain(acme.names.iter().cloned()).collect()
}

/// Names that no public authority gives certificates for (RFC 6761, RFC 6762, RFC 8375).
fn is_private(name: &str) -> bool {
    [".localhost", ".local", ".internal", ".home.arpa"].iter().any(|end| name.ends_with(end))
}

fn state(acme: &Acme) -> Result<PathBuf> {
    if let Some(state) = &acme.state {
        return Ok(state.clone());
    }
    if let Some(directory) = runtime::state_directory() {
        return Ok(directory.join("acme"));
    }
    let own = env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let own = own.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".local/state")));
    let own = own.context("there is no place for certificates: give acme.state")?;
    Ok(own.join("freshet/acme"))
}

/// What would keep certificates from coming, as far as can be seen from here.
pub(crate) fn examine(settings: &Settings) -> Vec<Mistake> {
    let Some(acme) = &settings.acme else { return Vec::new() };
    let mut found = Vec::new();
    let mut warn = |message: &str, help: &str| {
        found.push(Mistake::warning(acme.place, message).help(help));
    };
    let has = |port: u16, is_tls: bool| {
        settings.listeners.iter().any(|listener| {
            listener.tls == is_tls
                && matches!(&listener.address, Address::Tcp(at) if at.port() == port)
        })
    };
    let wants = |kind: &str| acme.challenges.iter().any(|word| word == kind);
    if !settings.listeners.iter().any(|listener| listener.tls) {
        warn(
            "[acme] does nothing: no listener has TLS",
            "add [[listen]] with address = \":443\" and tls = true",
        );
    } else {
        let is_public = acme.directory.starts_with("https://acme-");
        if is_public && wants("http-01") && !has(80, false) {
            warn(
                "nothing listens on port 80, where authorities look (http-01)",
                "add [[listen]] with address = \":80\", or forward port 80 to a listener without \
                 TLS, or give challenges = [\"tls-alpn-01\"]",
            );
        }
        if is_public && wants("tls-alpn-01") && !wants("http-01") && !has(443, true) {
            warn(
                "nothing listens on port 443 with TLS, where authorities look (tls-alpn-01)",
                "add [[listen]] with address = \":443\" and tls = true, or forward port 443",
            );
        }
    }
    let names = names(settings, acme);
    if names.is_empty() && acme.on_demand.is_none() {
        warn(
            "[acme] has no names: no site has a host that an authority would give a certificate for",
            "give [[site]] hosts = [\"www.example.org\"], or acme.names",
        );
    }
    // On demand the names below it have certificates of their own.
    for site in settings.sites.iter().filter(|_| acme.on_demand.is_none()) {
        for host in site.hosts.iter().filter(|host| matches!(host, HostPattern::Below(_))) {
            let message = format!("no certificate is got for `{host}`: that takes DNS");
            let help = "give it a [[certificate]], list the names below it in acme.names, or let clients bring \
                    them about with acme.on_demand";
            found.push(Mistake::warning(site.place, message).help(help));
        }
    }
    for name in names.iter().filter(|name| is_private(name)) {
        let message = format!("acme.names has `{name}`, which is no public name");
        let help = "only an authority of your own gives a certificate for it: acme.directory";
        found.push(Mistake::warning(settings.document.at("acme.names"), message).help(help));
    }
    match plan(settings) {
        Err(error) => found.push(Mistake::error(acme.place, format!("[acme]: {error:#}"))),
        Ok(Some(plan)) => {
            if let Err(error) = plan.check() {
                found.push(Mistake::error(acme.place, format!("[acme]: {error}")));
            }
            if let Some(ca) = plan.ca.as_ref().filter(|ca| fs::File::open(ca).is_err()) {
                let message = format!("acme.ca: {} cannot be read", ca.display());
                found.push(Mistake::error(settings.document.at("acme.ca"), message));
            }
            if let Err(why) = writable(&plan.state) {
                let message =
                    format!("acme.state: {} cannot be written: {why}", plan.state.display());
                let place = settings.document.at("acme.state").or(acme.place);
                let help = "let the node's user write it, or give another with acme.state";
                found.push(Mistake::error(place, message).help(help));
            }
        }
        Ok(None) => {}
    }
    found
}

/// Whether a directory could be written, or made.
fn writable(directory: &Path) -> std::io::Result<()> {
    let there = directory.ancestors().find(|path| path.exists()).unwrap_or_else(|| Path::new("/"));
    if !there.is_dir() {
        return Err(std::io::ErrorKind::NotADirectory.into());
    }
    Ok(access(there, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// What a node at work and its interface share of it.
pub(crate) type Shared = Option<Arc<Running>>;
