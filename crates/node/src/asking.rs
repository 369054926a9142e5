//! Who is asked for a certificate, by the name in a handshake.

use arc_swap::ArcSwap;
use freshet_net::tls::client_auth::{AsksClients, Chain};
use freshet_site::sites::Sites;
use std::fmt;
use std::sync::Arc;

/// Which names clients are asked for a certificate, in the configuration in force.
#[derive(Default)]
pub(crate) struct Asking(ArcSwap<Sites>);

impl Asking {
    /// Goes by these sites from now on.
    pub(crate) fn set(&self, sites: &Arc<Sites>) {
        self.0.store(Arc::clone(sites));
    }
}

impl AsksClients for Asking {
    fn asks(&self, name: &str) -> bool {
        self.0.load().asks_clients_of(name)
    }

    fn asks_any(&self) -> bool {
        self.0.load().all().iter().any(|site| site.client_auth.is_some())
    }

    fn lets_in(&self, name: &str, chain: &Chain<'_>) -> bool {
        let sites = self.0.load();
        let auth = sites.of(name).and_then(|site| site.client_auth.as_ref());
        auth.is_none_or(|auth| auth.lets_in(chain))
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asking")
    }
}
