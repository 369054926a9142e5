//! Reports of players (CTA-5004-B, event mode), which are taken here and go no further.

use super::State;
use freshet_access::ledger::requests::Charge;
use freshet_base::clock::UnixMillis;
use freshet_http::message::{Method, RequestHead};
use freshet_site::client_body::RequestBody;
use freshet_site::sites::SiteRef;
use freshet_worker::worker::Worker;
use std::net::IpAddr;

/// Bytes of one batch of reports.
const BATCH_BYTES_MAX: usize = 64 << 10;

/// Takes the reports of a request for the collector of a site, where it is one; what it is answered.
pub(super) async fn collect(
    worker: &Worker,
    site: &SiteRef,
    head: &RequestHead,
    body: &mut Option<RequestBody>,
    charge: Option<&Charge>,
    client: Option<IpAddr>,
) -> Option<State> {
    let path = site.settings.media.cmcd_collector.as_deref()?;
    let asked = head.target.split('?').next().unwrap_or_default();
    if head.method != Method::Post || asked != path {
        return None;
    }
    if !site.settings.media.read {
        // Nobody listens any more: players stop reporting for good.
        return Some(State::Synth(410, None));
    }
    let kept = match body.take() {
        None => return Some(State::Synth(204, None)),
        Some(body) => body.keep(BATCH_BYTES_MAX, charge).await,
    };
    let kept = match kept {
        Ok(kept) => kept,
        Err(error) => return Some(super::without_body(error)),
    };
    let whole = if let RequestBody::Kept(kept) = &kept { kept.whole() } else { None };
    let Some(bytes) = whole.cloned() else {
        *body = Some(kept);
        return Some(State::Synth(413, None));
    };
    let (stats, sessions) = (&worker.stats, &worker.shared.sessions);
    let now = UnixMillis::now();
    for line in bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.is_empty() {
            continue;
        }
        let line = std::str::from_utf8(line).ok();
        match line.and_then(|line| sessions.reported(site.name.as_str(), line)) {
            Some(said) => {
                stats.cmcd_reports.increment();
                if let Some(response) = &said.response {
                    stats.received.note(response);
                    worker.count_site(site, |counters| counters.received.note(response));
                }
                let network = || worker.snapshot().geo.asn(client?);
                let heard = sessions.note(&said, 0, now, network);
                stats.cmcd_starvations.add(u64::from(heard.is_starved));
                stats.cmcd_sessions.add(u64::from(heard.is_new));
            }
            None => stats.cmcd_reports_refused.increment(),
        }
    }
    Some(State::Synth(204, None))
}
