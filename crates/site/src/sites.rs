//! Which site a request is for: the table from hosts to sites, and the site a request holds on to.

use crate::site::Site;
use crate::snapshot::Snapshot;
use freshet_cache::{Key, KeyBuilder, Secret, tag};
use freshet_config::hosts::{HOST_BYTES_MAX, HostPattern};
use freshet_http::target;
use freshet_origin::Origin;
use hashbrown::HashMap;
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// The name of a site; empty where a node has one site only. What a site keeps is of it by this name:
/// its keys and tags are no other's.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct SiteName(Arc<str>);

impl SiteName {
    /// The name as the configuration has it, without spaces and NUL bytes.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The name.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A key of this site, of no parts of the request yet.
    pub fn key<'a>(&self, secret: &'a Secret) -> KeyBuilder<'a> {
        let builder = KeyBuilder::new(secret);
        if self.0.is_empty() { builder } else { builder.part(self.0.as_bytes()) }
    }

    /// The number of a tag of this site.
    pub fn tag(&self, text: &[u8]) -> u64 {
        if self.0.is_empty() {
            return tag(text);
        }
        tag(&[self.0.as_bytes(), b"\0", text].concat())
    }

    /// The number of the tag that all this site keeps has, where it is not all there is.
    pub fn tag_of_all(&self) -> Option<u64> {
        (!self.0.is_empty()).then(|| tag(&[self.0.as_bytes(), b"\0"].concat()))
    }

    /// A ban, as policies write it, of what this site keeps.
    pub fn ban<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.0.is_empty() {
            return text.into();
        }
        format!("obj.site == {} && {text}", self.0).into()
    }

    /// The site's name in a key, where its node has several; otherwise the first part of any key.
    pub fn in_key(text: &[u8]) -> &[u8] {
        text.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// All sites of a node, found by host. What is looked up by strangers' words was put in by the operator alone, so a hash
/// that is quick is enough.
#[derive(Default)]
pub struct Sites {
    all: Vec<Arc<Site>>,
    by_name: HashMap<Box<str>, usize>,
    exact: HashMap<Box<str>, usize>,
    below: HashMap<Box<str>, usize>,
    any: Option<usize>,
    controls_connections: bool,
    logs_fields: bool,
}

impl Sites {
    /// A table of these. One without hosts is for every host; of several that name a host the last has it.
    pub fn new(all: Vec<Arc<Site>>) -> Self {
        let mut out = Self { all, ..Self::default() };
        let asks =
            |site: &Arc<Site>| site.policy.controls_connections() || site.settings.media.cmsd;
        out.controls_connections = out.all.iter().any(asks);
        out.logs_fields = out.all.iter().any(|site| !site.settings.log_fields.is_empty());
        for (index, site) in out.all.iter().enumerate() {
            out.by_name.insert(site.name.as_str().into(), index);
            if site.settings.hosts.is_empty() {
                out.any = Some(index);
            }
            for host in &site.settings.hosts {
                match host {
                    HostPattern::Exact(host) => {
                        out.exact.insert(host.clone(), index);
                    }
                    HostPattern::Below(host) => {
                        out.below.insert(host.clone(), index);
                    }
                    HostPattern::Any => out.any = Some(index),
                }
            }
        }
        out
    }

    /// All of them, in the order of the file, but for those that a reload left as they were, which come first.
    pub fn all(&self) -> &[Arc<Site>] {
        &self.all
    }

    /// The names of all of them, in that order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|site| site.name.as_str())
    }

    /// The tag of all that a site keeps, and what that may have of the memory, of those with a bound.
    pub fn shares(&self) -> Vec<(u64, u64)> {
        let share = |site: &Arc<Site>| site.name.tag_of_all().zip(site.settings.memory_bytes_max);
        self.all.iter().filter_map(share).collect()
    }

    /// The same of the disks.
    pub fn disk_shares(&self) -> Vec<(u64, u64)> {
        let share = |site: &Arc<Site>| site.name.tag_of_all().zip(site.settings.disk_bytes_max);
        self.all.iter().filter_map(share).collect()
    }

    /// Whether a site changes how clients' connections send, or asks about them.
    pub fn controls_connections(&self) -> bool {
        self.controls_connections
    }

    /// Whether the access log has fields of messages of a site.
    pub fn logs_fields(&self) -> bool {
        self.logs_fields
    }

    /// The site of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Site>> {
        self.by_name.get(name).map(|index| &self.all[*index])
    }

    /// All origins with the names that tell them apart: behind its site's and a slash, where there are
    /// several sites.
    pub fn origins(&self) -> impl Iterator<Item = (Cow<'_, str>, &Arc<Origin>)> {
        self.all.iter().flat_map(|site| site.origins())
    }

    /// The site that a key is of, by its first part; the only one where there is no other.
    pub fn of_key(&self, key: &Key) -> Option<&Arc<Site>> {
        if let [only] = &*self.all
            && only.name.as_str().is_empty()
        {
            return Some(only);
        }
        let name = std::str::from_utf8(SiteName::in_key(key.text())).ok()?;
        self.by_name.get(name).map(|index| &self.all[*index])
    }

    /// The place of the site for an authority: the one that names the host, or the longest end of
    /// it, or the one for all others. Some tens of nanoseconds, and one look-up more for each label.
    #[inline]
    fn place(&self, authority: &str) -> Option<usize> {
        if self.exact.is_empty() && self.below.is_empty() {
            return self.any;
        }
        let (host, _) = target::split_authority(authority);
        let host = host.strip_suffix('.').unwrap_or(host);
        let lower;
        let host = if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            lower = host.to_ascii_lowercase();
            &lower
        } else {
            host
        };
        if host.len() > HOST_BYTES_MAX {
            return self.any;
        }
        if let Some(index) = self.exact.get(host) {
            return Some(*index);
        }
        let mut rest = host;
        while !self.below.is_empty()
            && let Some((_, parent)) = rest.split_once('.')
        {
            if let Some(index) = self.below.get(parent) {
                return Some(*index);
            }
            rest = parent;
        }
        self.any
    }

    /// The site for an authority.
    #[inline]
    pub fn of(&self, authority: &str) -> Option<&Arc<Site>> {
        self.place(authority).map(|index| &self.all[index])
    }

    /// Whether clients that want to speak to this authority are asked for a certificate.
    pub fn asks_clients_of(&self, authority: &str) -> bool {
        self.of(authority).is_some_and(|site| site.client_auth.is_some())
    }
}

/// A site, kept for a request with the configuration it began with. To clone it touches nothing
/// that another worker uses.
#[derive(Clone)]
pub struct SiteRef {
    snapshot: Rc<Snapshot>,
    index: usize,
}

impl SiteRef {
    /// The site for an authority, where there is one.
    #[inline]
    pub fn of(snapshot: &Rc<Snapshot>, authority: &str) -> Option<Self> {
        let index = snapshot.sites.place(authority)?;
        Some(Self { snapshot: Rc::clone(snapshot), index })
    }

    /// Its place in the configuration.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Whether it is of this configuration.
    #[inline]
    pub fn is_of(&self, snapshot: &Rc<Snapshot>) -> bool {
        Rc::ptr_eq(&self.snapshot, snapshot)
    }

    /// What holds for the whole node.
    #[inline]
    pub fn node(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl fmt::Debug for SiteRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SiteRef({})", self.name.as_str())
    }
}

impl Deref for SiteRef {
    type Target = Site;

    #[inline]
    fn deref(&self) -> &Site {
        &self.snapshot.sites.all[self.index]
    }
}
