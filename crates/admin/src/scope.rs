//! What a token is good for: the whole node, or some of its sites.

use crate::context::Context;
use crate::problem::Problem;
use crate::token::{Digest, Token};
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use freshet_config::settings::Settings;
use freshet_node::sites::SiteName;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What the token of a request is good for.
#[derive(Clone)]
pub(crate) enum Scope {
    /// Everything.
    Node,
    /// What these sites have; they are at least one.
    Sites(Arc<[SiteName]>),
}

impl Scope {
    /// Whether the site of this name is among what it is good for.
    pub(crate) fn covers(&self, site: &str) -> bool {
        match self {
            Self::Node => true,
            Self::Sites(sites) => sites.iter().any(|known| known.as_str() == site),
        }
    }

    /// Whether the site of a URL's host, if there is one, is among them.
    ///
    /// # Errors
    /// When it is not, or there is none and the token is for some sites: whose a host is is nobody else's
    /// business.
    pub(crate) fn check_url(&self, context: &Context, authority: &str) -> Result<(), Problem> {
        let snapshot = context.node.snapshot();
        let site = snapshot.sites.of(authority);
        match self {
            Self::Sites(_) if !site.is_some_and(|site| self.covers(site.name.as_str())) => {
                Err(self.refusal())
            }
            _ => Ok(()),
        }
    }

    /// The site that a request names; where it names none, the only one its token is for, and `None` with a
    /// token for the whole node.
    ///
    /// # Errors
    /// When there is no such site, the token is not for it, or it is for several and none is named.
    pub(crate) fn site(
        &self,
        context: &Context,
        name: Option<&str>,
    ) -> Result<Option<SiteName>, Problem> {
        match (self, name) {
            (Self::Node, None) => Ok(None),
            (Self::Node, Some(name)) => named(context, name).map(Some),
            (Self::Sites(sites), Some(name)) => {
                let site = sites.iter().find(|site| site.as_str() == name);
                site.cloned().map(Some).ok_or_else(|| self.refusal())
            }
            (Self::Sites(sites), None) => match &**sites {
                [site] => Ok(Some(site.clone())),
                _ => Err(Problem::bad_request(
                    "this token is for several sites: name one with \"site\"",
                    format!("there are: {}", self.names()),
                )),
            },
        }
    }

    /// Whether a ban is of one of the sites, as [`SiteName::ban`] writes it.
    pub(crate) fn sees_ban(&self, text: &str) -> bool {
        match self {
            Self::Node => true,
            Self::Sites(sites) => sites.iter().any(|site| text.starts_with(&*site.ban(""))),
        }
    }

    /// Refuses who may not have what is the whole node's.
    pub(crate) fn check_node(&self) -> Result<(), Problem> {
        match self {
            Self::Node => Ok(()),
            Self::Sites(_) => Err(self.refusal()),
        }
    }

    /// What somebody is told who asks for more.
    pub(crate) fn refusal(&self) -> Problem {
        let error =
            format!("this token is for what these sites have, and nothing else: {}", self.names());
        Problem::new(StatusCode::FORBIDDEN, error, "name one of them, or use the node's token")
    }

    fn names(&self) -> String {
        match self {
            Self::Node => String::new(),
            Self::Sites(sites) => sites.iter().map(SiteName::as_str).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Put into each request by the check of its token.
impl<S: Sync> FromRequestParts<S> for Scope {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let scope = parts.extensions.get().cloned();
        scope.ok_or_else(|| Problem::internal("the token of a request was not looked at"))
    }
}

/// The site of this name.
fn named(context: &Context, name: &str) -> Result<SiteName, Problem> {
    let snapshot = context.node.snapshot();
    snapshot.sites.named(name).map(|site| site.name.clone()).ok_or_else(|| {
        Problem::not_found(format!("there is no site `{name}`"), known_sites(context))
    })
}

/// The first sites there are, in words.
pub(crate) fn known_sites(context: &Context) -> String {
    let snapshot = context.node.snapshot();
    let names: Vec<_> =
        snapshot.sites.all().iter().take(20).map(|site| site.name.as_str()).collect();
    match names.as_slice() {
        [""] => "this node has one site, for all hosts: leave it out".to_owned(),
        names => format!("there are: {}", names.join(", ")),
    }
}

type Scopes = HashMap<Digest, Arc<[SiteName]>>;

/// The tokens of sites, read again with each configuration.
#[derive(Default)]
pub(crate) struct SiteTokens(Mutex<(Weak<Settings>, Scopes)>);

impl SiteTokens {
    /// What a token that was sent is good for by these settings. Reads files where they are new.
    pub(crate) fn scope(&self, settings: &Arc<Settings>, sent: &[u8]) -> Option<Scope> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.0.upgrade().is_some_and(|read| Arc::ptr_eq(&read, settings)) {
            *known = (Arc::downgrade(settings), read(settings));
        }
        known.1.get(&Token::digest_of(sent)).map(|sites| Scope::Sites(Arc::clone(sites)))
    }
}

/// Whose each token is. One that cannot be read lets nobody in: the log says why.
fn read(settings: &Settings) -> Scopes {
    let mut sites: HashMap<Digest, Vec<SiteName>> = HashMap::new();
    for site in settings.served() {
        let Some(file) = &site.admin_token_file else { continue };
        match Token::read(file) {
            Ok(token) => sites.entry(token.digest()).or_default().push(SiteName::new(&site.name)),
            Err(error) => {
                tracing::warn!(site = site.name, %error, "a site's admin token is not used")
            }
        }
    }
    sites.into_iter().map(|(digest, sites)| (digest, sites.into())).collect()
}
