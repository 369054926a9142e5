//! The node, for a policy that runs in it.

use super::VclPolicy;
use freshet_access::client::Client;
use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_http::freshness::Lifetimes;
use freshet_http::message::{RequestHead, reason_phrase};
use freshet_media::cmcd::{self, Cmcd};
use freshet_origin::Origin;
use freshet_origin::health::Health;
use freshet_site::durability::Durability;
use freshet_site::keys::facts_of;
use freshet_site::shares::Loan;
use freshet_site::sites::SiteRef;
use freshet_telemetry::transcript::{Tag, Transcript};
use freshet_vcl::{
    ConnectionFacts, Control, Defaults, Event, Host, Made, Making, Message, Purge, StorageQuestion,
    status_phrase,
};
use freshet_worker::bans;
use freshet_worker::disk::Purged;
use freshet_worker::disk::meta::millis;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of one file a policy may read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Files of one policy, found or not, and bytes of all of them. More are not read: a policy that makes names of
/// what clients write would have workers wait for the disk all the time.
const FILES_MAX: usize = 256;
const FILES_BYTES_MAX: usize = 64 << 20;

/// The largest number the language can write: as much as there may be.
const STORAGE_BYTES_MAX: i64 = 999_999_999_999_999;

/// Files that were read once (`std.fileread`). Read again when the policy is loaded again.
#[derive(Debug, Default)]
pub(super) struct FileCache(Mutex<KeptFiles>);

#[derive(Debug, Default)]
struct KeptFiles {
    files: HashMap<Box<str>, FileBytes>,
    bytes: usize,
}

/// A file's bytes, where there are any to be had.
type FileBytes = Option<Arc<[u8]>>;

impl FileCache {
    fn get(&self, path: &str) -> Option<Arc<[u8]>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.files.get(path) {
            return found.clone();
        }
        if kept.files.len() >= FILES_MAX || kept.bytes >= FILES_BYTES_MAX {
            warn_of_file(path, "a policy reads more than 256 files, or 64 MiB");
            return None;
        }
        let bytes = read_file(path);
        kept.bytes += bytes.as_ref().map_or(0, |bytes| bytes.len());
        kept.files.insert(path.into(), bytes.clone());
        bytes
    }
}

/// A file a policy reads; no device and no pipe, which would have a worker wait.
pub(super) fn read_file(path: &str) -> Option<Arc<[u8]>> {
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let read = || freshet_base::file::read(path.as_ref(), FILE_BYTES_MAX).ok();
    let bytes = is_file.then(read).flatten();
    if bytes.is_none() {
        warn_of_file(path, "a policy reads a file that is not there, or above 1 MiB");
    }
    bytes.map(Into::into)
}

fn warn_of_file(path: &str, why: &str) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(held_back) = LIMIT.admit(UnixMillis::now(), super::FAILURE_EVERY) {
        tracing::warn!(path, held_back, "{why}");
    }
}

/// The node at one state of one request or fetch.
pub(super) struct NodeHost<'a> {
    pub(super) policy: &'a VclPolicy,
    pub(super) now: UnixMillis,
    /// What the request's key is made of, once that is known: parts, each followed by a NUL.
    pub(super) parts: &'a [u8],
    pub(super) transcript: Option<&'a Transcript>,
    /// That of what an origin is asked for a tunnel, which is not the request's own.
    pub(super) pipe: Option<&'a Transcript>,
    /// The client, where the state is one of its request's.
    pub(super) client: Option<&'a Client>,
    /// The site that request is of.
    pub(super) site: Option<&'a SiteRef>,
    /// The request's body, where it is kept.
    pub(super) body: Option<&'a [u8]>,
    /// Whether the policy asked for it to be kept, and it was.
    pub(super) is_body_kept: bool,
    /// Whether the policy asked for it, and it could not be.
    pub(super) is_body_missed: bool,
    /// What a share of the memory lends for it.
    pub(super) loan: Option<Arc<Loan>>,
    /// What was purged or banned and is to be durable before the request is answered.
    pub(super) durability: Durability,
}

/// Whether a backend is healthy, and since when; of one that nothing was heard of since `loaded`, from then on.
pub(super) fn health_of(
    origins: &[Option<Arc<Origin>>],
    backend: u32,
    loaded: UnixMillis,
    now: UnixMillis,
) -> (bool, f64) {
    match origins.get(backend as usize) {
        Some(Some(origin)) => origin_health(origin, loaded, now),
        _ => (false, 0.0),
    }
}

/// As [`health_of`].
pub(super) fn origin_health(origin: &Origin, loaded: UnixMillis, now: UnixMillis) -> (bool, f64) {
    let changed = match origin.health.changed() {
        UnixMillis(0) => loaded,
        changed => changed,
    };
    (origin.health.health(now) != Health::Down, super::seconds(changed))
}

impl Host for NodeHost<'_> {
    fn backend_health(&self, backend: u32) -> (bool, f64) {
        health_of(&self.policy.origins, backend, self.policy.loaded, self.now)
    }

    fn make_backend(
        &mut self,
        director: u32,
        making: &Arc<Making>,
        host: &str,
        port: u16,
    ) -> Result<u32, String> {
        let timeouts = self.policy.policy.timeouts();
        self.policy.made.make(director, making, (host, port), timeouts, self.now)
    }

    fn made_backend(&self, number: u32) -> Option<Made> {
        let made = self.policy.made.get(number)?;
        let (is_healthy, since) = made.health(self.now);
        Some(Made { name: made.name, is_healthy, since })
    }

    fn lifetimes(&self) -> Defaults {
        self.policy.defaults
    }

    fn random(&mut self) -> u64 {
        super::chance::draw()
    }

    fn random_short(&mut self) -> u32 {
        super::chance::draw_short()
    }

    fn is_traced(&self) -> bool {
        self.transcript.is_some_and(Transcript::is_on)
    }

    fn trace(&mut self, event: Event<'_>) {
        let of_pipe = match event {
            Event::FieldSet { message, .. }
            | Event::FieldUnset { message, .. }
            | Event::LineSet { message, .. } => self.pipe.filter(|_| message == Message::Bereq),
            _ => None,
        };
        let Some(transcript) = of_pipe.or(self.transcript) else { return };
        match event {
            Event::Call(state) => {
                transcript.note(Tag::VCL_call, format_args!("{}", state.call_name()));
                let policy = &self.policy.policy;
                if let Some((file, line, column)) = policy.program().place_of(state) {
                    let (name, number) = (policy.name(), state as usize);
                    let text = format_args!("{name} {number} {file}.{line}.{column}");
                    transcript.note(Tag::VCL_trace, text);
                }
            }
            Event::Return(action) => {
                transcript.note(Tag::VCL_return, format_args!("{}", action.name()));
            }
            Event::Acl { name, entry: Some(entry), matched } => {
                let word = if matched { "MATCH" } else { "NEG_MATCH" };
                transcript.note(Tag::VCL_acl, format_args!("{word} {name} {entry}"));
            }
            Event::Acl { name, .. } => {
                transcript.note(Tag::VCL_acl, format_args!("NO_MATCH {name}"));
            }
            Event::FieldSet { message, name, value } => {
                transcript.field(header_tag(message), name.as_bytes(), value);
            }
            Event::FieldUnset { message, name, value } => {
                transcript.field(unset_tag(message), name.as_bytes(), value);
            }
            Event::LineSet { message, line, value } => {
                if line == "status" {
                    let status: Option<u16> =
                        std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
                    // Of one above 999 what is sent.
                    let status = status.unwrap_or(0) % 1000;
                    transcript.note(line_tag(message, line), format_args!("{status:03}"));
                    let phrase = status_phrase(status).unwrap_or_else(|| reason_phrase(status));
                    transcript.note_bytes(line_tag(message, "reason"), phrase.as_bytes());
                } else {
                    transcript.note_bytes(line_tag(message, line), value);
                }
            }
            Event::Response(head) => {
                transcript.response(freshet_telemetry::transcript::Message::Response, head)
            }
            Event::Lifetime { answer, origin } => {
                let word = if answer.uncacheable { "uncacheable" } else { "cacheable" };
                let ttl = if answer.has_no_life { -1.0 } else { answer.ttl + answer.age };
                let (grace, keep) = (answer.grace, answer.keep);
                transcript.note(
                    Tag::TTL,
                    format_args!("VCL {ttl:.0} {grace:.0} {keep:.0} {origin:.0} {word}"),
                );
            }
            Event::HitForPass { seconds, origin } => {
                let text = format_args!("HFP {seconds:.0} 0 0 {origin:.0} uncacheable");
                transcript.note(Tag::TTL, text);
            }
            Event::Hash(text) => transcript.note_bytes(Tag::Hash, text),
            Event::Log(text) => transcript.note_bytes(Tag::VCL_Log, text),
            Event::Debug(text) => transcript.note_bytes(Tag::Debug, text),
            Event::Aside(text) => transcript.note_aside(Tag::Debug, text),
            Event::Timestamp(text) => transcript.timestamp(&String::from_utf8_lossy(text)),
            Event::Said { is_error, text } => {
                transcript.note(said_tag(is_error), format_args!("{text}"))
            }
            Event::Error(why) => transcript.note(Tag::VCL_Error, format_args!("{why}")),
        }
    }

    fn syslog(&mut self, priority: i64, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        match priority & 7 {
            0..=3 => tracing::error!(target: "vcl", "{text}"),
            4 => tracing::warn!(target: "vcl", "{text}"),
            5 | 6 => tracing::info!(target: "vcl", "{text}"),
            _ => tracing::debug!(target: "vcl", "{text}"),
        }
    }

    fn player_says(&mut self, request: &RequestHead, key: &str, out: &mut Vec<u8>) -> bool {
        // Writing to a Vec cannot fail.
        let show = |said: &Cmcd<'_>| said.value(key).is_some_and(|it| write!(out, "{it}").is_ok());
        cmcd::of(&request.target, &request.fields, show) == Some(true)
    }

    fn manifest_says(&mut self, request: &RequestHead, key: &str, out: &mut Vec<u8>) -> bool {
        let Some((site, (shared, ..))) = self.site.zip(self.policy.shared()) else { return false };
        let known = (&shared.channels, &shared.films);
        let Some(facts) = facts_of(known, shared.cache.secret(), site, request, self.now) else {
            return false;
        };
        let said = match key {
            "class" => facts.class.map(|class| write!(out, "{}", class.name())),
            "kind" => Some(write!(out, "{}", facts.kind.name())),
            "sequence" => facts.sequence.map(|number| write!(out, "{number}")),
            "bitrate" => facts.bitrate_kbps.map(|kbps| write!(out, "{kbps}")),
            _ => None,
        };
        // Writing to a Vec cannot fail.
        said.is_some_and(|said| said.is_ok())
    }

    fn hostname(&self) -> &str {
        &self.policy.hostname
    }

    fn ban(&mut self, ban: &str) -> Result<(), String> {
        let Some((shared, settings, site)) = self.policy.shared() else {
            return Err("there is no cache yet".into());
        };
        let words = bans::plain_words(&site.ban(ban));
        self.durability.add(shared.ban_words(&words, &settings)?);
        Ok(())
    }

    fn purge(&mut self, how: Purge) -> u64 {
        let Some((shared, _, site)) = self.policy.shared() else { return 0 };
        let builder = site.key(shared.cache.secret());
        let key = super::client::build_key(builder, self.parts).build();
        shared.policy_purges.add(1);
        self.purged(shared.purge(&key, self.kind(how)))
    }

    fn purge_tag(&mut self, text: &[u8], soft: bool) -> u64 {
        let Some((shared, _, site)) = self.policy.shared() else { return 0 };
        let how =
            if soft { freshet_cache::Purge::Soft(self.now) } else { freshet_cache::Purge::Hard };
        self.purged(shared.purge_tag(site.tag(text), how))
    }

    fn file(&mut self, path: &str) -> Option<Arc<[u8]>> {
        self.policy.files.get(path)
    }

    fn file_exists(&mut self, path: &str) -> bool {
        std::fs::metadata(path).is_ok()
    }

    fn environment(&mut self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn identity(&self) -> &str {
        &self.policy.identity
    }

    fn storage(&self, storage: u32, question: StorageQuestion) -> i64 {
        let name = self.policy.policy.program().storages.get(storage as usize);
        let share = self.policy.shares.get().zip(name).and_then(|(all, name)| all.named(name));
        let number = |bytes| i64::try_from(bytes).unwrap_or(STORAGE_BYTES_MAX);
        match question {
            StorageQuestion::FreeSpace if let Some(share) = share => {
                share.free_bytes().map_or(STORAGE_BYTES_MAX, number)
            }
            StorageQuestion::UsedSpace if let Some(share) = share => number(share.used_bytes()),
            // Otherwise all are one memory, whose use is known to the node and not to a policy.
            StorageQuestion::FreeSpace => STORAGE_BYTES_MAX,
            StorageQuestion::UsedSpace => 0,
            StorageQuestion::Happy => 1,
        }
    }

    fn cache_request_body(&mut self, bytes_max: u64, storage: Option<u32>) -> bool {
        let Some(body) = self.body else {
            self.is_body_missed = true;
            return false;
        };
        if self.is_body_kept {
            return true;
        }
        if body.len() as u64 > bytes_max {
            if let Some(transcript) = self.transcript {
                let text = format_args!("Request body too big to cache");
                transcript.note(Tag::FetchError, text);
            }
            self.is_body_missed = true;
            return false;
        }
        self.is_body_kept = true;
        let (Some(shares), Some((shared, ..))) = (self.policy.shares.get(), self.policy.shared())
        else {
            return true;
        };
        let name = storage.and_then(|at| self.policy.policy.program().storages.get(at as usize));
        let share = name.and_then(|name| shares.named(name)).unwrap_or_else(|| shares.transient());
        if let Some(transcript) = self.transcript.filter(|_| !body.is_empty()) {
            let (kind, name) = (share.kind(), share.name());
            transcript.note(Tag::Storage, format_args!("{kind} {name}"));
            transcript.timestamp("ReqBody");
        }
        self.loan = shares.lend(share, body.len() as u64, &shared.cache);
        self.is_body_kept = self.loan.is_some();
        self.is_body_kept
    }

    fn request_body(&self) -> Option<Arc<[u8]>> {
        self.body.filter(|_| self.is_body_kept).map(Into::into)
    }

    fn control_connection(&mut self, control: Control<'_>) -> bool {
        let Some(controls) = self.client.and_then(|client| client.controls.as_ref()) else {
            return false;
        };
        match control {
            Control::TypeOfService(value) => controls.set_type_of_service(value).is_ok(),
            Control::CongestionControl(name) => controls.set_congestion_control(name).is_ok(),
            Control::Pace(bytes_per_second) => controls.set_pace(bytes_per_second).is_ok(),
        }
    }

    fn connection(&self) -> Option<ConnectionFacts> {
        let info = self.client?.controls.as_ref()?.info().ok()?;
        Some(ConnectionFacts {
            snd_mss: info.send_segment_bytes,
            rcv_mss: info.receive_segment_bytes,
            lost: info.lost,
            retrans: info.retransmitted,
            pmtu: info.path_bytes,
            rtt: info.round_trip_us,
            rttvar: info.round_trip_deviation_us,
            snd_cwnd: info.window_segments,
            advmss: info.advertised_segment_bytes,
            reordering: info.reordering,
        })
    }

    fn test_sleep(&mut self, seconds: f64) {
        std::thread::sleep(super::span(seconds));
    }

    fn test_barrier(&mut self, address: &str, timeout: f64) -> bool {
        super::barrier::sync(address, super::span(timeout))
    }
}

impl<'a> NodeHost<'a> {
    /// What a policy may ask for that has no request of a client at hand.
    pub(super) fn new(
        policy: &'a VclPolicy,
        now: UnixMillis,
        transcript: Option<&'a Transcript>,
    ) -> Self {
        let durability = Durability::default();
        Self {
            policy,
            now,
            parts: &[],
            transcript,
            pipe: None,
            client: None,
            site: None,
            body: None,
            is_body_kept: false,
            is_body_missed: false,
            loan: None,
            durability,
        }
    }

    fn purged(&mut self, purged: Purged) -> u64 {
        self.durability.add(purged.durability);
        purged.objects as u64
    }

    fn kind(&self, how: Purge) -> freshet_cache::Purge {
        match how {
            Purge::Hard => freshet_cache::Purge::Hard,
            Purge::Soft { ttl, grace, keep } => freshet_cache::Purge::Given(Lifetimes {
                // What is told to have ended was over that long ago.
                from: UnixMillis(self.now.0.saturating_sub(millis(super::span(-ttl)))),
                ttl: super::span(ttl),
                grace: (grace >= 0.0).then(|| super::span(grace)),
                keep: (keep >= 0.0).then(|| super::span(keep)),
            }),
        }
    }
}

fn header_tag(message: Message) -> Tag {
    match message {
        Message::Req | Message::ReqTop => Tag::ReqHeader,
        Message::Bereq => Tag::BereqHeader,
        Message::Beresp => Tag::BerespHeader,
        Message::Obj => Tag::ObjHeader,
        Message::Resp => Tag::RespHeader,
    }
}

fn unset_tag(message: Message) -> Tag {
    match message {
        Message::Req | Message::ReqTop => Tag::ReqUnset,
        Message::Bereq => Tag::BereqUnset,
        Message::Beresp => Tag::BerespUnset,
        Message::Obj => Tag::ObjUnset,
        Message::Resp => Tag::RespUnset,
    }
}

fn line_tag(message: Message, line: &str) -> Tag {
    match (message, line) {
        (Message::Bereq, "method") => Tag::BereqMethod,
        (Message::Bereq, "url") => Tag::BereqURL,
        (Message::Bereq, _) => Tag::BereqProtocol,
        (Message::Beresp, "status") => Tag::BerespStatus,
        (Message::Beresp, "reason") => Tag::BerespReason,
        (Message::Beresp, _) => Tag::BerespProtocol,
        (Message::Resp, "status") => Tag::RespStatus,
        (Message::Resp, "reason") => Tag::RespReason,
        (Message::Resp, _) => Tag::RespProtocol,
        (_, "method") => Tag::ReqMethod,
        (_, "url") => Tag::ReqURL,
        _ => Tag::ReqProtocol,
    }
}

/// Which records what modules say is in.
pub(super) fn said_tag(is_error: bool) -> Tag {
    if is_error { Tag::Error } else { Tag::Notice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_once_and_no_more_than_there_is_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = |number: usize| folder.path().join(number.to_string());
        let files = FileCache::default();
        for number in 0..=FILES_MAX {
            std::fs::write(path(number), "text").unwrap();
        }
        let get = |number: usize| files.get(path(number).to_str().unwrap());
        assert!((0..FILES_MAX).all(|number| get(number).is_some()));
        std::fs::remove_file(path(0)).unwrap();
        assert!(get(0).is_some(), "it is not asked for again");
        assert!(get(FILES_MAX).is_none(), "it is one too many");
    }
}
