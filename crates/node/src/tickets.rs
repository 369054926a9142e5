//! Where the keys come from that session tickets are sealed with.

use freshet_config::Settings;
use freshet_net::NetError;
use freshet_net::tls::ticket::{ROTATION, TicketKeys};
use freshet_net::tls::ticket_clock::TicketClock;
use freshet_net::tls::ticket_files::TicketFiles;
use std::sync::Arc;

/// Keys of files, those of a fleet's secret and the clock, or such that nobody else has.
pub(crate) enum Tickets {
    /// Of files, which are read again by a reload.
    Files(Arc<TicketFiles>),
    /// The same in all nodes of a fleet at one time.
    Fleet(TicketClock),
    /// Made by chance.
    Own,
}

impl Tickets {
    /// What settings say.
    ///
    /// # Errors
    /// A file cannot be read, or is none of keys.
    pub(crate) fn open(settings: &Settings) -> Result<Self, NetError> {
        let fleet = settings.fleet.as_ref();
        let secret = fleet.and_then(|fleet| Some((fleet.tickets.as_deref()?, &fleet.name)));
        Ok(match (settings.ticket_keys.as_slice(), secret) {
            ([], None) => Self::Own,
            ([], Some((secret, fleet))) => Self::Fleet(TicketClock::open(secret, fleet)?),
            (files, _) => Self::Files(TicketFiles::open(files)?),
        })
    }

    /// Keys for a purpose, which are no other's.
    pub(crate) fn keys(&self, purpose: &'static str) -> Arc<TicketKeys> {
        match self {
            Self::Files(files) => files.keys(purpose),
            Self::Fleet(clock) => clock.keys(purpose),
            Self::Own => TicketKeys::random(ROTATION),
        }
    }

    /// The files, where keys are of files.
    pub(crate) fn into_files(self) -> Option<Arc<TicketFiles>> {
        match self {
            Self::Files(files) => Some(files),
            Self::Fleet(_) | Self::Own => None,
        }
    }
}
