//! Starts the admin interface of a node.

use crate::acme;
use crate::runtime;
use anyhow::Result;
use freshet_admin::{Bound, Handle, Reload, Token};
use freshet_config::{Mistake, Settings, SiteSettings};
use freshet_net::NetError;
use freshet_net::address::Address;
use freshet_net::handover::Inherited;
use freshet_net::listener::{ListenOptions, Listener};
use freshet_node::node::{Node, NodeError};
use freshet_node::preflight;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A running interface and where its token is.
pub(crate) struct Admin {
    /// Its address as configured, and its socket, to be handed over.
    pub(crate) listener: (Address, Listener),
    /// The interface; ends when dropped.
    pub(crate) handle: Handle,
    /// File with its token.
    pub(crate) token_file: PathBuf,
}

/// Starts the interface as `admin.listen` and `admin.token_file` say, on an inherited socket if there
/// is one; `None` where it is off.
///
/// # Errors
/// When the address cannot be listened on, or the token file not be used.
pub(crate) fn start(
    node: &Arc<Node>,
    acme: &acme::Shared,
    directory: &Path,
    inherited: &mut Inherited,
    reload: Box<Reload>,
) -> Result<Option<Admin>> {
    let settings = node.snapshot().settings;
    let Some(address) = &settings.admin_listen else { return Ok(None) };
    let listener = match inherited.take(address) {
        Some(listener) => listener,
        None => Listener::bind(address, &ListenOptions::default())
            .map_err(|error| NodeError::Config(vec![refused(&settings, &error)]))?,
    };
    let kept = (address.clone(), listener.try_clone()?);
    let bound = Bound::from(listener);
    let wrong = site_tokens(&settings);
    if !wrong.is_empty() {
        return Err(NodeError::Config(wrong).into());
    }
    let (token, token_file) = match &settings.admin_token_file {
        Some(file) => (Token::read(file)?, file.clone()),
        None => {
            let file = directory.join(runtime::TOKEN_FILE);
            (Token::read_or_create(&file)?, file)
        }
    };
    let handle = bound.start(Arc::clone(node), acme.clone(), token, reload)?;
    Ok(Some(Admin { listener: kept, handle, token_file }))
}

/// What would be in the way of [`start`], found out without starting anything.
pub(crate) fn examine(settings: &Settings, is_own: impl Fn(&Address) -> bool) -> Vec<Mistake> {
    let Some(address) = &settings.admin_listen else { return Vec::new() };
    let mut found = Vec::new();
    match Listener::examine(address) {
        Err(NetError::LocalBind { kind: ErrorKind::AddrInUse, .. }) if is_own(address) => {}
        Err(error) => found.push(refused(settings, &error)),
        Ok(()) => {}
    }
    if let Some(Err(error)) = settings.admin_token_file.as_deref().map(Token::read) {
        let place = settings.document.at("admin.token_file");
        found.push(Mistake::error(place, error.to_string()));
    }
    found.extend(site_tokens(settings));
    found
}

/// What is wrong with the files of tokens for one site.
fn site_tokens(settings: &Settings) -> Vec<Mistake> {
    let wrong = |site: &Arc<SiteSettings>| {
        let error = Token::read(site.admin_token_file.as_deref()?).err()?;
        let message = format!("site `{}`: {error}", site.name);
        Some(Mistake::error(site.admin_token_place, message))
    };
    settings.served().iter().filter_map(wrong).collect()
}

/// Why its address cannot be listened on.
fn refused(settings: &Settings, error: &NetError) -> Mistake {
    let mistake = preflight::no_address(error, settings.document.at("admin.listen"));
    let message = format!("the admin interface: {}", mistake.message);
    let help = "give it another address with admin.listen or --admin ADDR, or `off`";
    Mistake { message, ..mistake }.help(help)
}
