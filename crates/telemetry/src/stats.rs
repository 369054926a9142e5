//! What each worker counts. One writer per set, so a count is an unlocked add; readers sum over
//! workers.

use crate::answer_bodies::{AnswerBodies, AnswerBody};
use crate::received::Received;
use crate::site_stats::SiteStats;
use freshet_base::counter::Counter;
use freshet_base::histogram::{Histogram, Totals};
use freshet_http::coding::Coding;

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident,)*) => {
        /// The counters of one worker, on cache lines of their own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct WorkerStats {
            $($(#[doc = $help])+ pub $name: Counter,)*
            /// Microseconds from a request's head to the first byte of its response, for hits.
            pub hit_first_byte_us: Histogram,
            /// The same for everything that asked an origin.
            pub miss_first_byte_us: Histogram,
            /// Microseconds from when news of a playlist came, which an origin had held back, to the
            /// first byte at each player that waited.
            pub news_us: Histogram,
            /// Responses by hundreds of their status: index 1 is 1xx.
            pub statuses: [Counter; 6],
            /// Answers of origins by how their bodies end.
            pub answer_bodies: AnswerBodies,
            /// Times a policy took what was found, and of these those when it was past its lifetime. What
            /// becomes of it behind that is not looked at, unlike in `hits`.
            pub taken: [Counter; 2],
            /// What players say of responses they got.
            pub received: Received,
            /// Counts of each site, where there are several.
            pub sites: SiteStats,
        }

        impl WorkerStats {
            /// Name, help text and value of each counter.
            pub fn each(&self, see: &mut dyn FnMut(&'static str, &'static str, u64)) {
                $(see(stringify!($name), concat!($($help),+).trim_ascii_start(), self.$name.value());)*
            }
        }
    };
}

impl WorkerStats {
    /// Bodies put under a coding.
    pub fn packs(&self, coding: Coding) -> &Counter {
        match coding {
            Coding::Gzip => &self.gzips,
            Coding::Brotli => &self.brotlis,
            Coding::Zstd => &self.zstds,
        }
    }

    /// Bodies taken out of a coding.
    pub fn unpacks(&self, coding: Coding) -> &Counter {
        match coding {
            Coding::Gzip => &self.gunzips,
            Coding::Brotli => &self.unbrotlis,
            Coding::Zstd => &self.unzstds,
        }
    }
}

counters! {
    /// Client connections accepted.
    connections_accepted,
    /// Client connections closed.
    connections_closed,
    /// Connections refused because limits.connections_max was reached.
    connections_refused,
    /// Connections refused because their network had limits.connections_network_max.
    connections_network_refused,
    /// Connections refused because their network was blocked.
    connections_blocked,
    /// TLS handshakes finished.
    tls_handshakes,
    /// TLS handshakes that resumed a session.
    tls_resumed,
    /// TLS handshakes that failed.
    tls_failed,
    /// PROXY protocol headers that were wrong.
    proxy_header_errors,
    /// Connections refused because listen.proxy_from does not list their peer.
    proxy_untrusted,
    /// Requests received.
    requests,
    /// Requests over HTTP/2.
    requests_h2,
    /// Requests over HTTP/3.
    requests_h3,
    /// Requests answered without one to an origin, from what is fresh.
    hits,
    /// Requests answered without one to an origin, from what is past its lifetime.
    hits_stale,
    /// Of hits, those that another request's fetch was for.
    hits_filling,
    /// Objects found on a disk and brought into memory.
    disk_hits,
    /// Requests that fetched.
    misses,
    /// Hits answered from a copy of what is at home in another group of workers.
    hits_of_copies,
    /// Hits answered from the memory of another group of workers.
    hits_of_others,
    /// Copies made of what was asked for again and is at home in another group of workers.
    copies,
    /// Requests whose stored response the origin confirmed.
    revalidated,
    /// Requests that waited for another's fetch.
    waits,
    /// Requests passed to the origin.
    passes,
    /// Connections turned into tunnels.
    pipes,
    /// Tunnels that have ended.
    pipes_ended,
    /// Tunnels refused because there were too many.
    pipes_refused,
    /// Purge requests carried out.
    purges,
    /// Changes that another node of the place told of.
    changes_heard,
    /// Words for a change that another node of the place did not hear.
    changes_unheard,
    /// Responses made by the node itself.
    synthetic,
    /// Requests refused because they were malformed or over a limit.
    requests_refused,
    /// Requests refused by a rate_limit.
    requests_limited,
    /// Requests refused because no token let them in.
    requests_without_token,
    /// Requests refused because their network is not let in.
    requests_denied,
    /// Requests refused because of the certificate of their client, or for want of one.
    requests_without_certificate,
    /// Requests refused because they had no name and password that let them in.
    requests_without_password,
    /// Requests refused by a service that is asked who may have what.
    requests_refused_by_service,
    /// Requests refused because such a service did not answer as it should.
    access_service_failures,
    /// Requests refused because their site is under maintenance.
    requests_maintenance,
    /// Requests refused because their network was blocked.
    requests_blocked,
    /// Requests over HTTP/1 that had come before the response to the one before was sent.
    requests_pipelined,
    /// Requests refused because those under way held what they may.
    requests_no_room,
    /// Fetches from origins begun.
    fetches,
    /// Fetches that failed.
    fetches_failed,
    /// Fetches given up because nobody waited for them any more.
    fetches_abandoned,
    /// Fetches of a missing range of an object.
    fetches_range,
    /// Fetches of all of an object that was evicted before a response of it had begun.
    fetches_again,
    /// Answers to those of a range that were of another representation and not used.
    fetches_unjoined,
    /// Fetches of a missing range that took in more than that, as the object lay in many pieces.
    fetches_widened,
    /// Requests that were passed because what is stored could not be read for them.
    bypasses,
    /// Requests in which a player said how it is doing.
    cmcd_requests,
    /// Times players said, in requests and reports, that they stood still.
    cmcd_starvations,
    /// Sessions of players heard of for the first time.
    cmcd_sessions,
    /// Reports of players taken.
    cmcd_reports,
    /// Reports of players that named no session.
    cmcd_reports_refused,
    /// Playlists and manifests read.
    media_manifests,
    /// Responses that say they are one and could not be read; clients got them all the same.
    media_unreadable,
    /// Responses of channels kept in memory only.
    media_live,
    /// Responses of channels that stay until the channel's window has left them behind.
    media_window,
    /// Keys that playlists name, kept in memory only.
    media_keys,
    /// Errors of channels kept for a moment only, as what is missing may be there soon.
    media_late,
    /// Fetches of what a playlist names that nobody had asked for yet.
    media_ahead_fetches,
    /// Such fetches that were left out because media.ahead or media.ahead_bytes were under way, or their origin was suspect or wanted rest.
    media_ahead_refused,
    /// Such fetches whose answers were errors, of which nobody was told.
    media_ahead_failed,
    /// Requests for news of a playlist answered by the newest stored version of it.
    media_reloads,
    /// Requests for news of a playlist refused as too far ahead.
    media_reloads_refused,
    /// Versions of a channel's playlist that were behind the stored one, which stayed in their place.
    media_behind,
    /// Versions that were behind it and taken all the same, as their numbers are new or nothing else came.
    media_set_back,
    /// Versions that were behind what players had been given, and given all the same, as no origin was
    /// found that has a newer one.
    media_behind_given,
    /// Requests for a channel's playlist answered with 503, as its origin is away and what is stored is of no use.
    media_away,
    /// Body bytes received from origins.
    origin_body_bytes,
    /// Bodies put under gzip.
    gzips,
    /// Bodies taken out of gzip.
    gunzips,
    /// Bodies put under brotli.
    brotlis,
    /// Bodies taken out of brotli.
    unbrotlis,
    /// Bodies put under zstd.
    zstds,
    /// Bodies taken out of zstd.
    unzstds,
    /// Bodies whose gzip was checked.
    gzip_checks,
    /// Requests for includes of pages.
    esi_requests,
    /// Pages that reached a limit in `[esi]`.
    esi_limited,
    /// Mistakes in pages with includes.
    esi_errors,
    /// Oddities in pages with includes.
    esi_warnings,
    /// Body bytes sent to clients.
    body_bytes,
    /// Body bytes sent to clients from hits of all kinds.
    hit_body_bytes,
    /// Head bytes sent to clients.
    head_bytes,
    /// Body bytes received from clients.
    request_body_bytes,
    /// Responses broken off before their end.
    responses_aborted,
    /// Connections closed because a client took too long.
    timeouts,
    /// Responses that went on from small copies, since too much memory was kept for slow clients.
    readers_loosened,
    /// Responses ended because there was no memory to wait for their client with.
    readers_ended,
    /// Responses ended because their client took less than limits.send_rate_min.
    readers_slow,
    /// HTTP/2 connections ended for misbehaviour.
    h2_goaway,
    /// Requests of HTTP/3 that came before their client's handshake was over.
    requests_early,
    /// HTTP/3 connections ended for misbehaviour.
    h3_errors,
    /// Datagrams of QUIC that came to another worker than their connection's.
    quic_passed,
    /// Datagrams of QUIC that were of no connection and could begin none.
    quic_dropped,
    /// Clients of QUIC that were asked to come again, to show where they are, as many handshakes were open.
    quic_retries,
    /// Clients of QUIC that were told that nothing is known of their connection.
    quic_resets,
    /// Connections of QUIC whose client said that it knows nothing of them any more.
    quic_resets_heard,
    /// Clients of QUIC that were told which versions there are.
    quic_versions_told,
    /// Clients of QUIC that were told that there is no connection for them: too many are open, their token is
    /// not good, or the node ends.
    quic_refused,
    /// Times the kernel had no room for datagrams of QUIC, which waited.
    quic_send_waits,
    /// Datagrams of QUIC that the kernel did not take.
    quic_unsent,
    /// QUIC connections ended for their handshake: TLS, parameters, versions, gaps.
    quic_errors_handshake,
    /// QUIC connections ended for bytes that are no frame.
    quic_errors_frames,
    /// QUIC connections ended for streams that may not be, or more on them than is allowed.
    quic_errors_streams,
    /// QUIC connections ended for connection ids.
    quic_errors_ids,
    /// QUIC connections ended for updates of keys, or many packets that were forged.
    quic_errors_keys,
    /// QUIC connections ended for many frames that bring nothing: pings, challenges of paths, ids.
    quic_errors_idle,
    /// QUIC connections ended for acknowledgements of what was never sent.
    quic_errors_acks,
    /// QUIC connections ended for breaking other rules.
    quic_errors_rules,
    /// Packets of QUIC sent with a mark that routers may change (ECN).
    quic_ecn_sent,
    /// Packets of these that routers marked as congested, as clients say.
    quic_ecn_congested,
    /// Packets of QUIC that came marked as congested.
    quic_ecn_received,
    /// Ways to clients of QUIC on which marks turned out not to arrive as they were sent.
    quic_ecn_failed,
    /// Wishes of ours that were sent to clients of QUIC, of how often to acknowledge.
    quic_ack_frequency_asked,
    /// Wishes of clients of QUIC, of how often to acknowledge, that are done.
    quic_ack_frequency_obeyed,
    /// Access log records lost: the writer was behind, or could not write them.
    log_lost,
}

/// How much of the traffic was hits ([`Reason::is_hit`](freshet_http::reason::Reason::is_hit)), as
/// everything shows it that shows a node's hit ratios.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HitCounts {
    /// Requests that were hits.
    pub hits: u64,
    /// Requests of all kinds.
    pub requests: u64,
    /// Body bytes that came from origins.
    pub origin_body_bytes: u64,
    /// Body bytes of all answers.
    pub body_bytes: u64,
}

impl HitCounts {
    /// Of counters by name, or of what was added to them meanwhile.
    pub fn of(counter: impl Fn(&str) -> u64) -> Self {
        Self {
            // Those of objects still being filled are among `hits`.
            hits: counter("hits") + counter("hits_stale"),
            requests: counter("requests"),
            origin_body_bytes: counter("origin_body_bytes"),
            body_bytes: counter("body_bytes"),
        }
    }

    /// What was counted since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            hits: self.hits.saturating_sub(before.hits),
            requests: self.requests.saturating_sub(before.requests),
            origin_body_bytes: self.origin_body_bytes.saturating_sub(before.origin_body_bytes),
            body_bytes: self.body_bytes.saturating_sub(before.body_bytes),
        }
    }

    /// The share of requests that were hits, 0 to 1; `None` without requests.
    pub fn request_ratio(self) -> Option<f64> {
        ratio(self.hits, self.requests)
    }

    /// Body bytes that clients were sent and no origin: those of hits, of bodies that an origin confirmed or many
    /// had from one fetch. None where origins sent more, as for clients that left.
    pub fn spared_body_bytes(self) -> u64 {
        self.body_bytes.saturating_sub(self.origin_body_bytes)
    }

    /// The share of these, 0 to 1; `None` without bytes.
    pub fn byte_ratio(self) -> Option<f64> {
        ratio(self.spared_body_bytes(), self.body_bytes)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    // Counters are read one after another while workers add to them.
    (whole > 0).then(|| (part as f64 / whole as f64).min(1.0))
}

/// Sums over all workers.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Name, help and sum of each counter.
    pub counters: Vec<(&'static str, &'static str, u64)>,
    /// First-byte times of hits, µs.
    pub hit_first_byte_us: Totals,
    /// First-byte times of the rest, µs.
    pub miss_first_byte_us: Totals,
    /// Times from news of a playlist to the first byte at each player, µs.
    pub news_us: Totals,
    /// Responses by hundreds of their status.
    pub statuses: [u64; 6],
    /// Answers of origins by how their bodies end, in the order of [`AnswerBody::ALL`].
    pub answer_bodies: [u64; AnswerBody::ALL.len()],
    /// Times policies took what was found, and of these those when it was past its lifetime.
    pub taken: [u64; 2],
}

impl Sums {
    /// Sums over `workers`.
    pub fn of<'a>(workers: impl IntoIterator<Item = &'a WorkerStats>) -> Self {
        let mut sums = Self::default();
        for stats in workers {
            let mut index = 0;
            stats.each(&mut |name, help, value| {
                match sums.counters.get_mut(index) {
                    Some(sum) => sum.2 += value,
                    None => sums.counters.push((name, help, value)),
                }
                index += 1;
            });
            stats.hit_first_byte_us.add_to(&mut sums.hit_first_byte_us);
            stats.miss_first_byte_us.add_to(&mut sums.miss_first_byte_us);
            stats.news_us.add_to(&mut sums.news_us);
            for (sum, count) in sums.statuses.iter_mut().zip(&stats.statuses) {
                *sum += count.value();
            }
            for (sum, count) in sums.taken.iter_mut().zip(&stats.taken) {
                *sum += count.value();
            }
            for (sum, kind) in sums.answer_bodies.iter_mut().zip(AnswerBody::ALL) {
                *sum += stats.answer_bodies.count(kind);
            }
        }
        sums
    }

    /// How many answers of origins have a body that ends like this.
    pub fn answer_bodies(&self, kind: AnswerBody) -> u64 {
        self.answer_bodies[kind as usize]
    }

    /// The sum of this counter; 0 for an unknown name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, ..)| *known == name).map_or(0, |(.., value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_go_over_all_workers() {
        let (a, b) = (WorkerStats::default(), WorkerStats::default());
        a.requests.add(2);
        b.requests.add(3);
        b.statuses[2].increment();
        b.answer_bodies.note(AnswerBody::Bad);
        b.hit_first_byte_us.record(100);
        let sums = Sums::of([&a, &b]);
        assert_eq!(sums.counter("requests"), 5);
        assert_eq!(sums.statuses[2], 1);
        assert_eq!(sums.answer_bodies(AnswerBody::Bad), 1);
        assert_eq!(sums.hit_first_byte_us.count(), 1);
        assert!(sums.counters.iter().all(|(_, help, _)| help.ends_with('.')));
    }
}
