//! What becomes of a request. A decision is made on what there is and changes nothing; its changes are
//! made when they are on the disk and, where they are rules, in force.

mod call;
mod decide;
mod entrance;
mod event;
mod gateway;
mod host;
mod links;
mod offers;
mod pace;
mod packets;
mod request;
mod setup;
mod standing;
mod throttle;

pub(crate) use call::Told;
pub use call::{Answer, Call, Decision};
pub use entrance::Identified;
pub(crate) use event::Event;
pub use gateway::{CHANGES as GATEWAY_CHANGES, SCOPE as SERVICES_SCOPE};
pub use host::{Access, DeviceApp, Host, Neighbour, NeighbourApp, Technology};
pub(crate) use offers::{Offer, Place};
pub use packets::{PacketPath, Resolved};
pub(crate) use request::check_room;
pub use setup::{App, Setup};
pub use standing::Standing;

use crate::api;
use crate::journal::Journal;
use crate::life::{self, Found, Work};
use crate::notify::Notice;
use crate::token::Verified;
use freshet_apps::disk::said;
use freshet_documents::problem::Problem;
use freshet_documents::table::Table;
use freshet_documents::tree::{Change, Changed, Tree};
use freshet_radio::Radio;
use freshet_radio::position::Positions;
use offers::Offers;
use pace::Pace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use throttle::Throttle;

/// The platform.
#[derive(Debug)]
pub struct Platform {
    setup: Setup,
    table: Table,
    tree: Tree,
    /// The last report of the radio network. It is not kept: the next one is near.
    radio: Radio,
    /// Where clients are.
    positions: Positions,
    /// The last reports of other networks, by their feeds; nor are these kept.
    reports: BTreeMap<String, Value>,
    /// How often subscriptions were told.
    pace: Pace,
    /// When was looked last what is due by time, in milliseconds since 1970.
    looked_ms: AtomicU64,
    journal: Option<Journal>,
    verified: Mutex<Verified>,
    /// How much clients have asked each interface.
    rates: Throttle,
    /// What a gateway looks up.
    offers: Offers,
}

impl Platform {
    /// A platform that forgets what it was told when it ends.
    ///
    /// # Errors
    /// Mistakes of the apps' rules, with their places.
    pub fn new(setup: Setup) -> Result<Self, String> {
        Self::begin(setup, Tree::default(), None)
    }

    /// A platform whose documents are in a journal at `path`, which is made where there is none.
    ///
    /// # Errors
    /// Those of the file, and mistakes of the apps' rules with their places.
    pub fn open(setup: Setup, path: &Path) -> Result<Self, String> {
        Self::open_after(setup, path, |_| Ok(())).map(|(platform, ())| platform)
    }

    /// As [`Platform::open`], which does something when nobody else has the journal and before it is written to: it is
    /// told the packages there are.
    ///
    /// # Errors
    /// As there, or those of what is done.
    pub fn open_after<T>(
        setup: Setup,
        path: &Path,
        before: impl FnOnce(&BTreeSet<String>) -> Result<T, String>,
    ) -> Result<(Self, T), String> {
        let mut tree = Tree::default();
        let journal = Journal::open(path, &mut tree).map_err(|error| said(path, &error))?;
        let done = before(&standing::packages(&tree))?;
        let platform = Self::begin(setup, tree, Some(journal));
        platform.map(|platform| (platform, done))
    }

    fn begin(setup: Setup, tree: Tree, journal: Option<Journal>) -> Result<Self, String> {
        let table = api::table();
        let offers = Offers::of(&tree, &setup);
        let mut platform = Self {
            offers,
            setup,
            table,
            tree,
            radio: Radio::default(),
            positions: Positions::default(),
            reports: BTreeMap::new(),
            pace: Pace::default(),
            looked_ms: AtomicU64::new(u64::MAX),
            journal,
            verified: Mutex::default(),
            rates: Throttle::default(),
        };
        let changes = api::begin(&platform.tree, &platform.table, &platform.setup)?;
        let decision = Decision { changes, ..Answer::nothing().into() };
        if let Err(error) = platform.commit(decision, 0) {
            let path = platform.journal.as_ref().map(Journal::path);
            return Err(said(path.unwrap_or_else(|| Path::new("the journal")), &error));
        }
        Ok(platform)
    }

    /// What becomes of a request. `fresh` is a name unlike any other, `now_ms` milliseconds since 1970.
    ///
    /// # Errors
    /// Why nothing becomes of it.
    pub fn decide(&self, call: &Call<'_>, fresh: &str, now_ms: u64) -> Result<Decision, Problem> {
        self.decide_for(&self.identify(call, now_ms), call, fresh, now_ms)
    }

    /// As [`Platform::decide`], of somebody whom [`Platform::identify`] has just looked up.
    ///
    /// # Errors
    /// Why nothing becomes of it.
    pub fn decide_for(
        &self,
        who: &Identified,
        call: &Call<'_>,
        fresh: &str,
        now_ms: u64,
    ) -> Result<Decision, Problem> {
        let decided = self.decide_on(who, call, fresh, now_ms);
        decided.map_err(|problem| api::worded(call.target, problem))
    }

    fn decide_on(
        &self,
        who: &Identified,
        call: &Call<'_>,
        fresh: &str,
        now_ms: u64,
    ) -> Result<Decision, Problem> {
        let path = call.target.split_once('?').map_or(call.target, |(path, _)| path);
        if call.method == "GET" && path == gateway::PATH {
            return Ok(self.gateway(call, who.caller()?, now_ms).into());
        }
        if let Some(answer) = self.open_path(call, path, fresh, now_ms) {
            return answer.map(Decision::from);
        }
        let Some(route) = self.table.route(path) else {
            who.caller()?;
            return Err(Problem::not_found(path));
        };
        let decision = decide::decide(self, call, &route, who.caller()?, fresh, now_ms)?;
        if cfg!(debug_assertions) {
            assert_eq!(
                decide::mistakes(call, &route, &decision.answer),
                Vec::<String>::new(),
                "{} {path}",
                call.method
            );
        }
        Ok(decision)
    }

    /// Does what was decided, when the packet path has it: the changes are on the disk when this
    /// returns. What is to be told to subscribers is returned.
    ///
    /// # Errors
    /// Those of the journal; then nothing is changed.
    pub fn commit(&mut self, decision: Decision, now_ms: u64) -> io::Result<(Answer, Vec<Notice>)> {
        let Decision { mut answer, mut changes, mut events, mut told, tagged } = decision;
        match &mut told {
            // What happened is seen by where clients are.
            Some(Told::Radio(radio)) => self.positions.take(radio, now_ms),
            Some(Told::Claim { who, address, claim }) => {
                self.positions.claim(who, *address, *claim)
            }
            _ => {}
        }
        if let Some(told) = &told {
            events.extend(api::reported(self.stand(), told, now_ms));
        }
        // Also to subscriptions that are over with this.
        let notices =
            events.iter().flat_map(|event| event::notices(&self.tree, event, &self.setup.url));
        let (mut notices, more) = self.pace.admit(&self.tree, notices.collect(), now_ms);
        let changed = if changes.is_empty() {
            self.keep_counts(more)
        } else {
            changes.extend(more);
            pace::forget(&self.tree, &mut changes);
            self.make(changes)?
        };
        if let Some(document) = tagged.and_then(|path| self.tree.get(&path)) {
            answer = answer.with("ETag", document.etag());
        }
        match told {
            Some(Told::Radio(radio)) => self.radio = radio,
            Some(Told::Other(name, report)) => drop(self.reports.insert(name, report)),
            Some(Told::Claim { .. }) | None => {}
        }
        // All is done by now: a journal that stays long is no reason to refuse it.
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.compact(&self.tree)
        {
            tracing::warn!(%error, "the journal cannot be written anew");
        }
        let url = &self.setup.url;
        notices.extend(event::first_notices(&self.table, &self.tree, &changed, url));
        let events = changed.iter().flat_map(|one| api::events(self.stand(), one, now_ms));
        let found = events.flat_map(|event| event::notices(&self.tree, &event, url)).collect();
        let (found, more) = self.pace.admit(&self.tree, found, now_ms);
        notices.extend(found);
        self.keep_counts(more);
        Ok((answer, notices))
    }

    /// Writes down how often subscriptions were told. A disk that does not take that is no reason to lose what
    /// they were told of.
    fn keep_counts(&mut self, mut changes: Vec<Change>) -> Vec<Changed> {
        pace::forget(&self.tree, &mut changes);
        self.make(changes).unwrap_or_else(|error| {
            tracing::warn!(%error, "how often subscriptions were told is not written down");
            Vec::new()
        })
    }

    /// Makes changes: they are on the disk when this returns.
    fn make(&mut self, changes: Vec<Change>) -> io::Result<Vec<Changed>> {
        if !changes.is_empty()
            && let Some(journal) = &mut self.journal
        {
            let frees = changes.iter().any(|change| life::frees(&self.tree, change));
            journal.append(self.tree.version() + changes.len() as u64, changes.clone(), frees)?;
        }
        let changed: Vec<Changed> =
            changes.into_iter().map(|change| self.tree.apply(change)).collect();
        changed.iter().for_each(|change| self.offers.follow(change, &self.setup));
        Ok(changed)
    }

    /// What there is.
    fn stand(&self) -> api::Stand<'_> {
        api::Stand {
            tree: &self.tree,
            radio: &self.radio,
            reports: &self.reports,
            setup: &self.setup,
        }
    }

    /// What is due by time: subscriptions that expire, services that went silent.
    pub fn due(&self, now_ms: u64) -> Decision {
        let since_ms = self.looked_ms.swap(now_ms, Relaxed).min(now_ms);
        let (mut changes, mut events) = api::due(self.stand(), since_ms, now_ms);
        // Whose time is over gets what was due to it before the word that it is.
        let (more, others) = event::expired(&self.table, &self.tree, now_ms);
        changes.extend(more);
        events.extend(others);
        Decision { changes, events, ..Answer::nothing().into() }
    }

    /// What a radio network tells in this process.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn report(&self, radio: Radio) -> Result<Decision, String> {
        match radio.mistake() {
            Some(mistake) => Err(mistake),
            None => Ok(Decision { told: Some(Told::Radio(radio)), ..Answer::nothing().into() }),
        }
    }

    /// Hosts that nothing is placed on.
    pub fn away(&self) -> Option<&BTreeSet<String>> {
        self.setup.place.as_ref().map(|place| &place.away)
    }

    /// Has nothing placed on these hosts.
    pub fn set_away(&mut self, away: BTreeSet<String>) {
        if let Some(place) = &mut self.setup.place {
            place.away = away;
        }
    }

    /// What there is to do for app instances now, in milliseconds since 1970: steps of operations, starts of
    /// apps that ended, and looks at all that run, which may be left out.
    pub fn works(&self, now_ms: u64) -> Vec<Work> {
        life::works(&self.tree, &self.setup, now_ms)
    }

    /// What follows from what was done for an app instance, or why it could not be.
    pub fn worked(&self, work: &Work, found: &Result<Found, String>, now_ms: u64) -> Decision {
        let changes = life::worked(&self.tree, &self.setup, work, found, now_ms);
        Decision { changes, ..Answer::nothing().into() }
    }

    /// Whether an app instance that was told to end has done so, or had its time.
    pub fn is_drained(&self, instance: &str) -> bool {
        api::instances::is_drained(&self.tree, instance)
    }

    /// The archive of a package was received: its descriptor and who has signed it, or why it is refused.
    ///
    /// # Errors
    /// When there is no such package any more, or another of the same descriptor.
    pub fn onboarded(
        &self,
        id: &str,
        found: Result<(Value, Option<String>), String>,
    ) -> Result<Decision, Problem> {
        let api = self.table.0.iter().find(|api| api.name == "app_pkgm");
        let types = &api.expect("the tables are part of the program, and tested").types;
        api::onboarded(&self.tree, types, id, found)
    }

    /// What another network tells in this process, by the feed's name: `wlan`, `fixed` or `v2x`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn report_of(&self, feed: &str, report: Value) -> Result<Decision, String> {
        let mistakes = api::mistakes_of_report(&self.table, feed, &report)?;
        if mistakes.is_empty() {
            let told = Some(Told::Other(feed.to_owned(), report));
            Ok(Decision { told, ..Answer::nothing().into() })
        } else {
            Err(mistakes.join("; "))
        }
    }
}
