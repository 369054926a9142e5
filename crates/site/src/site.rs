//! A site: what is served under some hosts, with its policy and its origins.

use crate::error_pages::ErrorPages;
use crate::policy::Policy;
use crate::semantics::Semantics;
use crate::shares::Shares;
use crate::sites::SiteName;
use freshet_access::certificates::{self, SiteAuth};
use freshet_access::client::Client;
use freshet_access::doors::{self, Doors, MaintenanceSwitch, SiteAccess};
use freshet_access::limiter::SiteLimit;
use freshet_access::tokens::{self, SiteToken};
use freshet_base::clock::UnixMillis;
use freshet_cache::Groups;
use freshet_config::cache::Cache;
use freshet_config::cache_rules::{CacheRule, Override};
use freshet_config::origins::{self as settings, Director as DirectorSetting};
use freshet_config::parents::Parents;
use freshet_config::{Mistake, SiteSettings};
use freshet_geo::Geo;
use freshet_http::cdn_loop::{self, CdnLoop};
use freshet_http::coding::Coding;
use freshet_http::fields::Fields;
use freshet_http::freshness::{self, Credentials, Given, InPlaceOf, SetCookie};
use freshet_http::message::RequestHead;
use freshet_http::target::key_target;
use freshet_origin::base_path::BasePath;
use freshet_origin::director::{Director, LoadBound, Member, TRIED_OF_GROUP_MAX, Wanted};
use freshet_origin::health::HealthBoard;
use freshet_origin::hot::HotKeys;
use freshet_origin::probe::ProbeSettings;
use freshet_origin::{HttpVersion, Origin, OriginId, OriginSettings};
use freshet_wire::h1::Limits;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Everything a request needs to know of the site it is for. A request keeps the one it began with.
#[derive(Clone)]
pub struct Site {
    /// Its name, and what is of this site alone by it.
    pub name: SiteName,
    /// Settings.
    pub settings: Arc<SiteSettings>,
    /// Policy.
    pub policy: Arc<dyn Policy>,
    /// What the machine does beside it.
    pub semantics: Semantics,
    /// What says who asks, beside `Authorization`: tokens that origins get.
    pub credentials: Option<Arc<Credentials>>,
    /// Origins and how they are chosen.
    pub upstreams: Arc<Upstreams>,
    /// Limits on response heads, where they are not each origin's own.
    pub response_limits: Option<Limits>,
    /// Parts of the memory with limits of their own, where there are any.
    pub shares: Option<Arc<Shares>>,
    /// Whether parts of what is stored are served.
    pub serves_ranges: bool,
    /// How hard bodies are packed, 0 to 9.
    pub gzip_level: u32,
    /// What tunnels may cost.
    pub tunnels: Tunnels,
    /// How much clients may ask for.
    pub rate_limits: Arc<[SiteLimit]>,
    /// Who may have what.
    pub tokens: Arc<[SiteToken]>,
    /// What it wants of clients' certificates.
    pub client_auth: Option<Arc<SiteAuth>>,
    /// Who is let in at all.
    pub access: Arc<[SiteAccess]>,
    /// Whether nobody is served for now.
    pub maintenance: Arc<MaintenanceSwitch>,
    /// Pages of its own for errors.
    pub error_pages: Arc<ErrorPages>,
    /// Whether what is kept under gzip is unpacked for clients that do not take it.
    pub codes_gzip: bool,
    /// The codings bodies are kept in, once for each that clients like best, in the order in which
    /// they are given to who likes several as much; none where gzip is all there is.
    pub codings: Arc<[Coding]>,
}

/// What connections that became tunnels may cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tunnels {
    /// At once, over all workers; 0 for any number.
    pub open_max: u64,
    /// One in which nothing moves for this long is ended.
    pub idle: Duration,
    /// One that lasts for this long is ended, whatever moves in it.
    pub lasts_max: Option<Duration>,
}

impl Default for Tunnels {
    fn default() -> Self {
        // WebSockets ping more often.
        Self { open_max: 0, idle: Duration::from_secs(600), lasts_max: None }
    }
}

/// Origins with their health, and the rule that chooses among them. Caches between this node and the
/// origins are among them.
pub struct Upstreams {
    /// Origins and their health.
    pub board: HealthBoard,
    /// The rule for each beginning of a path, the longest first and that for all last.
    directors: Vec<(String, Director)>,
    /// Origins that are asked how they are, and how.
    pub probes: Vec<(Arc<Origin>, ProbeSettings)>,
    /// How many of them are asked for one request before it fails.
    pub tried_max: usize,
    /// Those that are caches, siblings included.
    parents: Vec<OriginId>,
    /// The other nodes of this place.
    siblings: Vec<Member>,
    /// How often keys are asked for at those.
    hot: HotKeys,
    /// Requests a second from which on a key has several homes; `None` for never.
    hot_rate: Option<u64>,
    /// How many.
    hot_copies: u32,
    /// Requests a second from which on what a sibling sent is kept here too; 0 for always.
    sibling_keep_rate: u64,
}

/// Origins asked for one request before it fails, where there are no parents.
const ORIGINS_TRIED_MAX: usize = 3;

impl Site {
    /// The longest body of it worth keeping, in bytes.
    pub fn object_bytes_max(&self, cache: &Groups) -> u64 {
        let share = self.settings.memory_bytes_max.unwrap_or(u64::MAX);
        cache.object_bytes_max().min(share / cache.all().len() as u64)
    }

    /// A target as an origin is asked by it that answers for all: without what a player says of itself, unless the site
    /// hands that on.
    pub fn target_for_all<'a>(&self, target: &'a str) -> Cow<'a, str> {
        if self.settings.media.cmcd_forward { target.into() } else { key_target(target) }
    }

    /// Whether a client is a cache that may have what is for caches: by its address, or by a name in its
    /// certificate.
    pub fn is_peer(&self, client: &Client, request: &Fields) -> bool {
        let cache = &self.settings.cache;
        let is_at = |at: SocketAddr| cache.peers.iter().any(|network| network.contains(at.ip()));
        // Who says whom a request is of is a balancer, if it does not say that it is a cache.
        let forwards = || client.forwarder.is_some() && request.contains("cdn-loop");
        client.address.is_some_and(is_at)
            || (forwards() && client.sender().is_some_and(is_at))
            || client.certificate_for(self.client_auth.as_ref()).is_some_and(|shown| {
                let names = &cache.peer_names;
                shown.names.iter().any(|name| names.iter().any(|pattern| pattern.covers(name)))
            })
    }

    /// Whether a request comes from another node of its place, which looks for what is at home here.
    pub fn is_asked_by_sibling(&self, client: &Client, request: &Fields) -> bool {
        self.upstreams.was_at_sibling(request) && self.is_peer(client, request)
    }

    /// Its doors: who is let in at all.
    pub fn doors(&self) -> Doors<'_> {
        Doors {
            maintenance: &self.settings.maintenance,
            switch: &self.maintenance,
            rules: &self.access,
        }
    }

    /// Its origins with the names that tell them from those of others: behind its own and a slash, where there
    /// are several sites.
    pub fn origins(&self) -> impl Iterator<Item = (Cow<'_, str>, &Arc<Origin>)> {
        self.upstreams.board.origins().iter().map(|origin| {
            let own = origin.settings.name.as_str();
            let name = match self.name.as_str() {
                "" => own.into(),
                site => format!("{site}/{own}").into(),
            };
            (name, origin)
        })
    }

    /// A site of a configuration with this policy, for a node with these databases. Origins whose settings did not
    /// change since `before` stay the same ones, with their health and connections.
    ///
    /// # Errors
    /// All that is wrong with origins and files, each where it is named.
    pub fn new(
        settings: &Arc<SiteSettings>,
        policy: Arc<dyn Policy>,
        geo: &Arc<Geo>,
        before: Option<&Self>,
    ) -> Result<Self, Vec<Mistake>> {
        match Upstreams::new(settings, before) {
            Ok(upstreams) => {
                Self::assemble(Arc::clone(settings), policy, upstreams).after(geo, before)
            }
            Err(wrong) => Err(wrong.into_iter().chain(wrong_files(settings, geo)).collect()),
        }
    }

    /// A site whose policy brings its origins, and how those are asked how they are.
    pub fn with_origins(
        settings: Arc<SiteSettings>,
        policy: Arc<dyn Policy>,
        origins: Vec<Arc<Origin>>,
        probes: Vec<(Arc<Origin>, ProbeSettings)>,
    ) -> Self {
        let upstreams = Upstreams {
            // A program chooses by itself: nobody is reached beside it.
            directors: Vec::new(),
            probes,
            board: HealthBoard::new(origins),
            tried_max: ORIGINS_TRIED_MAX,
            parents: Vec::new(),
            siblings: Vec::new(),
            hot: HotKeys::default(),
            hot_rate: None,
            hot_copies: 1,
            sibling_keep_rate: 0,
        };
        Self::assemble(settings, policy, upstreams)
    }

    /// Goes on counting what the same site counted before a reload, and reads its keys.
    ///
    /// # Errors
    /// What is wrong with each file, where it is named.
    pub fn after(mut self, geo: &Arc<Geo>, before: Option<&Self>) -> Result<Self, Vec<Mistake>> {
        let files = Files::load(&self.settings, geo)?;
        let known = before.map(|before| &*before.rate_limits);
        self.rate_limits = SiteLimit::all(self.name.as_str(), &self.settings.rate_limits, known);
        self.tokens = files.tokens;
        self.error_pages = Arc::new(files.error_pages);
        self.client_auth = files.client_auth;
        self.access = files.access;
        let known = before.map(|before| &before.maintenance);
        self.maintenance = MaintenanceSwitch::new(&self.settings.maintenance, known);
        Ok(self)
    }

    /// What becomes of responses that set cookies.
    #[inline]
    pub fn set_cookie(&self) -> SetCookie {
        set_cookie(&self.settings.cache, self.semantics)
    }

    /// Whether a request says whom its response is for.
    pub fn is_for_one(&self, request: &Fields) -> bool {
        Credentials::are_in(self.credentials.as_deref(), request)
    }

    /// Rules of freshness for what a target, as it is in the key, brings.
    pub fn freshness(&self, target: &str) -> freshness::Settings {
        let site = freshness::Settings {
            credentials: self.credentials.clone(),
            ..freshness_settings(&self.settings.cache, self.semantics)
        };
        match self.settings.rules.caching_for(target) {
            Some(rule) => freshness_by(rule, site),
            None => site,
        }
    }

    /// The `Accept-Encoding` of what fills the cache for a request with these fields, where bodies are coded
    /// here. What is kept is for all: unpacked for those who take no gzip, or kept once for each coding.
    pub fn coding_for_all(&self, fields: &Fields) -> Option<&'static str> {
        self.codes_gzip.then(|| match Coding::first(fields) {
            // Who sends it like that has packed it with more time than there is here.
            Coding::Brotli if !self.codings.is_empty() => "br, gzip;q=0.5",
            Coding::Zstd if !self.codings.is_empty() => "zstd, gzip;q=0.5",
            _ => "gzip",
        })
    }

    /// Whether the share for what is made here has room for a page of so many bytes, where there are
    /// shares.
    pub fn has_room_for(&self, bytes: usize, cache: &Arc<Groups>) -> bool {
        self.shares
            .as_ref()
            .is_none_or(|shares| shares.lend(shares.transient(), bytes as u64, cache).is_some())
    }

    fn assemble(
        settings: Arc<SiteSettings>,
        policy: Arc<dyn Policy>,
        upstreams: Upstreams,
    ) -> Self {
        let semantics = policy.semantics();
        Self {
            name: SiteName::new(&settings.name),
            codes_gzip: settings.cache.gzip.unwrap_or(semantics.codes_gzip),
            codings: match semantics.keeps_codings {
                true => settings.cache.codings.clone(),
                false => Arc::default(),
            },
            policy,
            semantics,
            credentials: tokens::credentials(&settings.tokens).map(Arc::new),
            upstreams: Arc::new(upstreams),
            response_limits: None,
            shares: None,
            serves_ranges: true,
            gzip_level: freshet_content::coding::gzip::LEVEL,
            tunnels: Tunnels { idle: settings.upgrade_idle, ..Tunnels::default() },
            tokens: Arc::default(),
            client_auth: None,
            access: Arc::default(),
            maintenance: MaintenanceSwitch::new(&settings.maintenance, None),
            error_pages: Arc::default(),
            rate_limits: SiteLimit::all(&settings.name, &settings.rate_limits, None),
            settings,
        }
    }
}

/// What files of a site's settings hold.
struct Files {
    tokens: Arc<[SiteToken]>,
    error_pages: ErrorPages,
    client_auth: Option<Arc<SiteAuth>>,
    access: Arc<[SiteAccess]>,
}

impl Files {
    fn load(settings: &SiteSettings, geo: &Arc<Geo>) -> Result<Self, Vec<Mistake>> {
        let tokens = tokens::load(&settings.tokens);
        let error_pages = ErrorPages::load(&settings.error_pages, &settings.maintenance);
        let client_auth = certificates::load(settings).map_err(|mistake| vec![mistake]);
        let access = doors::load(&settings.access, geo, timeouts(&settings.origin_timeouts));
        match (tokens, error_pages, client_auth, access) {
            (Ok(tokens), Ok(error_pages), Ok(client_auth), Ok(access)) => {
                Ok(Self { tokens, error_pages, client_auth, access })
            }
            (tokens, error_pages, client_auth, access) => {
                let wrong = [tokens.err(), error_pages.err(), client_auth.err(), access.err()];
                Err(wrong.into_iter().flatten().flatten().collect())
            }
        }
    }
}

/// What is wrong with the files of a site that cannot be made anyway.
pub fn wrong_files(settings: &SiteSettings, geo: &Arc<Geo>) -> Vec<Mistake> {
    Files::load(settings, geo).err().unwrap_or_default()
}

fn probe_settings(health: &settings::Health) -> ProbeSettings {
    ProbeSettings {
        target: health.path.clone(),
        interval: health.interval,
        timeout: health.timeout,
        window: health.window,
        threshold: health.threshold,
        expected: health.status..=health.status,
        ..ProbeSettings::default()
    }
}

impl Upstreams {
    /// What a configuration names. What did not change since `before` stays the same one.
    fn new(settings: &SiteSettings, before: Option<&Site>) -> Result<Self, Vec<Mistake>> {
        let (mut all, mut wrong) = (Vec::new(), Vec::new());
        let mut made = |setting: &settings::Origin, kept: Option<&Site>| {
            let refuse = |error: String| Mistake::error(setting.place, error);
            let wanted = origin_settings(setting, settings).map_err(refuse)?;
            let known = kept.and_then(|kept| {
                kept.upstreams.board.origins().iter().find(|origin| origin.settings == wanted)
            });
            let origin = match known.cloned() {
                Some(origin) => origin,
                None => Origin::new(wanted).map_err(|error| refuse(error.to_string()))?,
            };
            let member = Member::new(origin.id, origin.settings.name.clone());
            all.push(origin);
            Ok(member.weight(setting.weight))
        };
        let mut add = |setting: &settings::Origin, kept: Option<&Site>| {
            made(setting, kept).map_err(|mistake| wrong.push(mistake)).ok()
        };
        // Without checks nothing would ever take back what the last one said.
        let ends_checks = |now: bool, then: fn(&Site) -> bool| before.filter(|b| now || !then(b));
        let Parents { groups, siblings, direct, health, .. } = &*settings.parents;
        let kept = ends_checks(health.is_some(), |site| site.settings.parents.health.is_some());
        let groups: Vec<Vec<_>> = groups
            .iter()
            .map(|group| group.iter().filter_map(|parent| add(parent, kept)).collect())
            .collect();
        let is_own = |one: &&settings::Origin| settings.cache.loop_id.as_ref() == Some(&one.name);
        let others: Vec<_> = siblings
            .iter()
            .filter(|one| !is_own(one))
            .filter_map(|sibling| add(sibling, kept))
            .collect();
        let own = siblings.iter().find(is_own).map(|own| (own.name.as_str(), own.weight));
        let kept = ends_checks(settings.health.is_some(), |site| site.settings.health.is_some());
        let origins: Vec<_> = settings.origins.iter().filter_map(|one| add(one, kept)).collect();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let caches = groups.iter().flatten().chain(&others);
        let parents: Vec<_> = caches.map(|member| member.origin).collect();
        let probes = all
            .iter()
            .filter_map(|origin| {
                let is_parent = parents.contains(&origin.id);
                let health = if is_parent { health.as_ref() } else { settings.health.as_deref() };
                Some((Arc::clone(origin), probe_settings(health?)))
            })
            .collect();
        let tried_max = match groups.len() {
            0 => ORIGINS_TRIED_MAX,
            groups => (groups + usize::from(*direct)) * TRIED_OF_GROUP_MAX,
        };
        let tried_max = tried_max + usize::from(!others.is_empty());
        let &Parents { hot_rate, hot_copies, sibling_keep_rate, .. } = &*settings.parents;
        Ok(Self {
            board: HealthBoard::new(all),
            directors: directors(settings, own.map(|own| (own, &*others)), &groups, &origins),
            probes,
            tried_max,
            hot: if parents.is_empty() { HotKeys::default() } else { HotKeys::counting() },
            parents,
            siblings: others,
            hot_rate: (hot_rate > 0).then_some(hot_rate.into()),
            hot_copies,
            sibling_keep_rate: sibling_keep_rate.into(),
        })
    }

    /// A sibling, a parent or an origin for this request whose key has this hash, leaving out `tried`. A
    /// request that was at another node of this place goes to none of them again.
    pub fn choose(
        &self,
        request: &RequestHead,
        goes_to_siblings: bool,
        key_hash: u64,
        tried: &[OriginId],
        now: UnixMillis,
    ) -> Option<&Arc<Origin>> {
        let target = request.target.as_str();
        let mut wanted = Wanted::from(key_hash);
        wanted.skips_siblings = !goes_to_siblings || self.was_at_sibling(&request.fields);
        if tried.is_empty() {
            let rate = self.hot.ask(key_hash, 1, now);
            if self.hot_rate.is_some_and(|hot| rate >= hot) {
                wanted.copies = self.hot_copies;
            }
        }
        let director = self.director_for(target)?;
        let id = director.choose(wanted, tried, &self.board.at(now))?;
        self.board.origin(id)
    }

    /// Whether [`Self::choose`] has one that is well beside those in `tried`, other nodes of this place aside.
    pub fn has_another(&self, request: &RequestHead, tried: &[OriginId], now: UnixMillis) -> bool {
        let director = self.director_for(request.target.as_str());
        director.is_some_and(|director| director.has_another(tried, &self.board.at(now)))
    }

    fn director_for(&self, target: &str) -> Option<&Director> {
        let mut directors = self.directors.iter();
        directors.find(|(path, _)| target.starts_with(path.as_str())).map(|(_, director)| director)
    }

    /// Whether an origin is a cache: a parent or a sibling.
    pub fn is_parent(&self, origin: OriginId) -> bool {
        self.parents.contains(&origin)
    }

    /// Whether there are other nodes of this place.
    pub fn has_siblings(&self) -> bool {
        !self.siblings.is_empty()
    }

    /// The other nodes of this place.
    pub fn siblings(&self) -> impl Iterator<Item = OriginId> {
        self.siblings.iter().map(|sibling| sibling.origin)
    }

    /// Which of them is home to a key with this hash, whoever is well; `None` where this node is.
    pub fn home(&self, key_hash: u64) -> Option<OriginId> {
        // The rules for all paths have the same ones.
        self.directors.first().and_then(|(_, director)| director.home(key_hash))
    }

    /// Whether a request says that it was at another node of this place.
    pub fn was_at_sibling(&self, request: &Fields) -> bool {
        let has_been_at =
            |sibling: &Member| cdn_loop::check(request, sibling.name.as_bytes()) == CdnLoop::Again;
        self.siblings.iter().any(has_been_at)
    }

    /// Whether an origin is another node of this place.
    pub fn is_sibling(&self, origin: OriginId) -> bool {
        self.siblings.iter().any(|sibling| sibling.origin == origin)
    }

    /// How often what `origin` sent is to be asked for, a second, until it is kept here; `None` where it
    /// is kept as anything else. What is a sibling's lives once, at its home, unless it is asked for so
    /// often that each node of the place does better to have it.
    pub fn keep_rate(&self, origin: OriginId) -> Option<u64> {
        (self.is_sibling(origin) && self.sibling_keep_rate > 0).then_some(self.sibling_keep_rate)
    }

    /// Counts that a key was asked for by `more` who had no need to ask elsewhere. How often it is asked
    /// for, about requests a second.
    pub fn rate_with(&self, key_hash: u64, more: u64, now: UnixMillis) -> u64 {
        self.hot.ask(key_hash, more, now)
    }

    /// The origin of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Origin>> {
        self.board.origins().iter().find(|origin| origin.settings.name == name)
    }
}

/// The rules of a configuration, for each beginning of a path that an origin is for, and for all.
/// `origins` are in the order of the settings.
fn directors(
    settings: &SiteSettings,
    siblings: Option<((&str, u32), &[Member])>,
    groups: &[Vec<Member>],
    origins: &[Member],
) -> Vec<(String, Director)> {
    let named = settings.origins.iter().flat_map(|origin| origin.paths.iter().map(String::as_str));
    let mut paths: Vec<_> = named.collect();
    paths.sort_unstable_by_key(|path| (Reverse(path.len()), *path));
    paths.dedup();
    let of = |path: &str| {
        let is_for = |setting: &settings::Origin| match path {
            "" => setting.paths.is_empty(),
            path => setting.paths.iter().any(|one| one == path),
        };
        let members = settings.origins.iter().zip(origins).filter(|(setting, _)| is_for(setting));
        let members = members.map(|(_, member)| member.clone()).collect();
        (path.to_owned(), director(settings, siblings, groups.to_vec(), members))
    };
    paths.into_iter().chain([""]).map(of).collect()
}

/// One rule: the sibling whose key it is, the groups of parents one after the other, by key, then the
/// origins.
fn director(
    settings: &SiteSettings,
    siblings: Option<((&str, u32), &[Member])>,
    groups: Vec<Vec<Member>>,
    origins: Vec<Member>,
) -> Director {
    let of_origins = |members| match settings.director {
        DirectorSetting::RoundRobin => Director::round_robin(members),
        DirectorSetting::Hash => Director::hash(members, Some(LoadBound::default())),
        DirectorSetting::Fallback => Director::fallback(members),
    };
    let factor = f64::from(settings.parents.load_bound_percent) / 100.0;
    let bound = Some(LoadBound { factor, ..LoadBound::default() });
    let siblings = siblings.map(|(own, others)| Director::siblings(others.to_vec(), own, bound));
    if groups.is_empty() {
        return match siblings {
            Some(siblings) => Director::groups([siblings, of_origins(origins)]),
            None => of_origins(origins),
        };
    }
    let direct = settings.parents.direct.then(|| of_origins(origins));
    let parents = groups.into_iter().map(|group| Director::hash(group, bound));
    Director::groups(siblings.into_iter().chain(parents).chain(direct))
}

fn origin_settings(
    setting: &settings::Origin,
    settings: &SiteSettings,
) -> Result<OriginSettings, String> {
    let mut out: OriginSettings =
        setting.url.parse().map_err(|e: freshet_origin::OriginError| e.to_string())?;
    out.name.clone_from(&setting.name);
    out.host_header.clone_from(&setting.host);
    out.base_path = {
        let left_out = if setting.strip_paths { setting.paths.as_slice() } else { &[] };
        BasePath::new(&setting.base_path, left_out)
    };
    out.http = match setting.http {
        // Nothing is agreed on without TLS.
        HttpVersion::Either if out.tls.is_none() => HttpVersion::Http1,
        http => http,
    };
    if let Some(tls) = &mut out.tls {
        tls.server_name.clone_from(&setting.sni);
        tls.verify = setting.verify;
        tls.ca.clone_from(&setting.ca);
        tls.client_certificate = setting.client_certificate.clone().map(Box::new);
    }
    out.timeouts = timeouts(&settings.origin_timeouts);
    out.connections_max = u32::try_from(setting.connections_max).unwrap_or(u32::MAX);
    Ok(out)
}

fn timeouts(
    settings: &freshet_config::origins::OriginTimeouts,
) -> freshet_origin::definition::Timeouts {
    freshet_origin::definition::Timeouts {
        connect: settings.connect,
        first_byte: settings.first_byte,
        between_bytes: settings.between_bytes,
        queue: settings.queue,
        idle: settings.keep_alive,
    }
}

/// Those of a site as a rule has them.
fn freshness_by(rule: &CacheRule, site: freshness::Settings) -> freshness::Settings {
    let in_place_of = match rule.overrides {
        Override::Nothing => InPlaceOf::Silence,
        Override::Lifetime => InPlaceOf::Lifetime,
        Override::Everything => InPlaceOf::Everything,
    };
    freshness::Settings {
        given: rule.ttl.map(|lifetime| Given { lifetime, in_place_of }),
        negative_ttl: rule.negative.or(site.negative_ttl).filter(|span| !span.is_zero()),
        default_grace: rule.grace.unwrap_or(site.default_grace),
        default_stale_if_error: rule.stale_if_error.unwrap_or(site.default_stale_if_error),
        ..site
    }
}

fn set_cookie(cache: &Cache, semantics: Semantics) -> SetCookie {
    if semantics.keeps_cookies { SetCookie::Store } else { cache.set_cookie }
}

fn freshness_settings(cache: &Cache, semantics: Semantics) -> freshness::Settings {
    freshness::Settings {
        set_cookie: set_cookie(cache, semantics),
        heuristic: cache.heuristic,
        heuristic_max: cache.heuristic_max,
        default_grace: cache.grace,
        default_stale_if_error: cache.stale_if_error,
        negative_ttl: cache.negative,
        honour_request_directives: cache.client_cache_control,
        ..freshness::Settings::default()
    }
}
