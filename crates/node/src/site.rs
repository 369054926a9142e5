//! A site: what is served under some hosts, with its policy and its origins.

use crate::config::cache::Cache;
use crate::config::origins::{self as settings, Director as DirectorSetting};
use crate::config::{Mistake, SiteSettings};
use crate::policy::vcl::{Files, VclPolicy};
use crate::policy::{Builtin, Policy};
use crate::semantics::Semantics;
use crate::shares::Shares;
use crate::sites::SiteName;
use freshet_base::clock::UnixMillis;
use freshet_http::freshness::{self, SetCookie};
use freshet_origin::director::{Director, LoadBound, Member};
use freshet_origin::health::HealthBoard;
use freshet_origin::probe::ProbeSettings;
use freshet_origin::{Origin, OriginId, OriginSettings};
use freshet_vcl::{Defaults, Timeouts};
use freshet_wire::h1::Limits;
use std::path::Path;
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
    /// The policy, where it is a VCL program.
    pub vcl: Option<Arc<VclPolicy>>,
    /// Origins and how they are chosen.
    pub upstreams: Arc<Upstreams>,
    /// Rules of freshness.
    pub freshness: freshness::Settings,
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
    /// Whether what is kept under gzip is unpacked for clients that do not take it.
    pub codes_gzip: bool,
}

/// What connections that became tunnels may cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tunnels {
    /// At once, over all workers; 0 for any number.
    pub open_max: u64,
    /// One in which nothing moves for this long is ended.
    pub idle: Duration,
}

impl Default for Tunnels {
    fn default() -> Self {
        // WebSockets ping more often.
        Self { open_max: 0, idle: Duration::from_secs(600) }
    }
}

/// Origins with their health, and the rule that chooses among them.
pub struct Upstreams {
    /// Origins and their health.
    pub board: HealthBoard,
    /// The rule.
    pub director: Director,
    /// Origins that are asked how they are, and how.
    pub probes: Vec<(Arc<Origin>, ProbeSettings)>,
}

impl Site {
    /// Makes a site, for a node with stores of these classes. Origins whose settings did not change
    /// since `before` stay the same ones, with their health and connections.
    ///
    /// # Errors
    /// What names the origin or the policy, and what is wrong with it.
    pub fn new(
        settings: &Arc<SiteSettings>,
        store_classes: &[&str],
        before: Option<&Self>,
    ) -> Result<Self, Mistake> {
        if let Some(path) = &settings.vcl {
            let vcl = load(path, settings, store_classes, before)
                .map_err(|error| Mistake::error(settings.vcl_place, error))?;
            return Ok(Self::with_vcl(Arc::clone(settings), vcl));
        }
        let mut origins = Vec::new();
        for setting in &settings.origins {
            let refuse = |error: String| Mistake::error(setting.place, error);
            let wanted = origin_settings(setting, settings).map_err(refuse)?;
            // Without checks nothing would ever take back what the last one said.
            let ends_checks =
                |before: &&Self| settings.health.is_some() || before.settings.health.is_none();
            let known = before
                .filter(ends_checks)
                .and_then(|before| {
                    before.upstreams.board.origins().iter().find(|origin| origin.settings == wanted)
                })
                .cloned();
            let origin = match known {
                Some(origin) => origin,
                None => Origin::new(wanted).map_err(|error| refuse(error.to_string()))?,
            };
            origins.push((origin, setting.weight));
        }
        let members: Vec<_> = origins
            .iter()
            .map(|(origin, weight)| {
                Member::new(origin.id, origin.settings.name.clone()).weight(*weight)
            })
            .collect();
        let director = match settings.director {
            DirectorSetting::RoundRobin => Director::round_robin(members),
            DirectorSetting::Hash => Director::hash(members, Some(LoadBound::default())),
            DirectorSetting::Fallback => Director::fallback(members),
        };
        let board = HealthBoard::new(origins.into_iter().map(|(origin, _)| origin));
        let probe = settings.health.as_ref().map(probe_settings);
        let all = board.origins().iter().cloned();
        let probes = probe.map(|probe| all.map(|origin| (origin, probe.clone())).collect());
        let upstreams = Upstreams { board, director, probes: probes.unwrap_or_default() };
        Ok(Self::assemble(Arc::clone(settings), Arc::new(Builtin), None, upstreams))
    }

    /// A site whose policy and origins are those of a VCL program.
    pub fn with_vcl(settings: Arc<SiteSettings>, vcl: Arc<VclPolicy>) -> Self {
        let origins: Vec<_> = vcl.origins().map(|(_, origin)| Arc::clone(origin)).collect();
        let upstreams = Upstreams {
            // A program chooses by itself: nobody is reached beside it.
            director: Director::fallback([]),
            probes: vcl.probes().to_vec(),
            board: HealthBoard::new(origins),
        };
        let policy: Arc<dyn Policy> = Arc::<VclPolicy>::clone(&vcl);
        Self::assemble(settings, policy, Some(vcl), upstreams)
    }

    /// Whether the share for what is made here has room for a page of so many bytes, where there are
    /// shares.
    pub(crate) fn has_room_for(&self, bytes: usize, cache: &Arc<freshet_cache::Cache>) -> bool {
        self.shares
            .as_ref()
            .is_none_or(|shares| shares.lend(shares.transient(), bytes as u64, cache).is_some())
    }

    fn assemble(
        settings: Arc<SiteSettings>,
        policy: Arc<dyn Policy>,
        vcl: Option<Arc<VclPolicy>>,
        upstreams: Upstreams,
    ) -> Self {
        let semantics = policy.semantics();
        Self {
            name: SiteName::new(&settings.name),
            codes_gzip: settings.cache.gzip.unwrap_or(semantics.codes_gzip),
            policy,
            semantics,
            freshness: freshness_settings(&settings.cache, semantics),
            vcl,
            upstreams: Arc::new(upstreams),
            response_limits: None,
            shares: None,
            serves_ranges: true,
            gzip_level: crate::coding::gzip::LEVEL,
            tunnels: Tunnels::default(),
            settings,
        }
    }
}

/// Reads and loads a policy. Origins that did not change stay the same ones.
fn load(
    path: &Path,
    settings: &SiteSettings,
    store_classes: &[&str],
    before: Option<&Site>,
) -> Result<Arc<VclPolicy>, String> {
    let (source, files) = Files::open(path)?;
    let timeouts = &settings.origin_timeouts;
    let timeouts = Timeouts {
        connect: timeouts.connect.as_secs_f64(),
        first_byte: timeouts.first_byte.as_secs_f64(),
        between_bytes: timeouts.between_bytes.as_secs_f64(),
    };
    let defaults = Defaults { grace: settings.cache.grace.as_secs_f64(), ..Defaults::default() };
    let language = crate::policy::vcl::language(store_classes.iter().copied());
    let before = before.and_then(|before| before.vcl.as_deref());
    VclPolicy::load("boot", source, &files, &language, defaults, timeouts, before)
        .map_err(|error| format!("the policy has mistakes\n{error}"))
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
    /// An origin for the request whose key has this hash, leaving out `tried`.
    pub fn choose(
        &self,
        key_hash: u64,
        tried: &[OriginId],
        now: UnixMillis,
    ) -> Option<&Arc<Origin>> {
        let id = self.director.choose(key_hash, tried, &self.board.at(now))?;
        self.board.origin(id)
    }

    /// The origin of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Origin>> {
        self.board.origins().iter().find(|origin| origin.settings.name == name)
    }
}

fn origin_settings(
    setting: &settings::Origin,
    settings: &SiteSettings,
) -> Result<OriginSettings, String> {
    let mut out: OriginSettings =
        setting.url.parse().map_err(|e: freshet_origin::OriginError| e.to_string())?;
    out.name.clone_from(&setting.name);
    out.host_header.clone_from(&setting.host);
    if let Some(tls) = &mut out.tls {
        tls.server_name.clone_from(&setting.sni);
        tls.verify = setting.verify;
        tls.ca.clone_from(&setting.ca);
    }
    out.timeouts.connect = settings.origin_timeouts.connect;
    out.timeouts.first_byte = settings.origin_timeouts.first_byte;
    out.timeouts.between_bytes = settings.origin_timeouts.between_bytes;
    out.timeouts.idle = settings.origin_timeouts.keep_alive;
    out.connections_max = u32::try_from(setting.connections_max).unwrap_or(u32::MAX);
    Ok(out)
}

fn freshness_settings(cache: &Cache, semantics: Semantics) -> freshness::Settings {
    freshness::Settings {
        set_cookie: if semantics.keeps_cookies { SetCookie::Store } else { cache.set_cookie },
        heuristic: cache.heuristic,
        heuristic_max: cache.heuristic_max,
        default_grace: cache.grace,
        default_stale_if_error: cache.stale_if_error,
        negative_ttl: cache.negative,
        ..freshness::Settings::default()
    }
}
