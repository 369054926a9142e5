//! Pass: the origin answers this client alone. Pipe: the connection becomes a tunnel.

use super::{Machine, State};
use crate::client_exchange::{Facts, PipeRecord, Reply, Switch, Tunnel, Unsaid};
use freshet_access::client::End;
use freshet_fetch::{Cause, Fetched, Plan};
use freshet_http::message::{Method, Version};
use freshet_http::reason::Reason;
use freshet_origin::raw::connect_raw;
use freshet_site::client_body::{Broken, ClientBodyError, RequestBody};
use freshet_site::policy::{OriginChoice, Pass, Pipe};
use freshet_site::site::Tunnels;
use freshet_site::wishes::allows_upgrade;
use freshet_telemetry::stats::WorkerStats;
use freshet_telemetry::transcript::{Side, Tag, Transcript};
use freshet_wire::h1::Framing;
use freshet_wire::h1::write::request_head;
use freshet_wire::proxy_protocol;
use std::rc::Rc;
use std::sync::Arc;

/// A body of known length up to this is read before a connection to an origin is taken, so that a
/// client that sends it slowly has none meanwhile.
const EARLY_BODY_BYTES_MAX: u64 = 64 << 10;

impl Machine<'_> {
    pub(super) async fn pass(&mut self) -> State {
        let site = self.task.site.clone();
        let policy = &*site.policy;
        match policy.pass(&mut self.task) {
            Pass::Fetch => {}
            Pass::Restart => return State::Restart(None),
            Pass::Synth(status, reason) => return State::Synth(status, reason),
        }
        self.worker.stats.passes.increment();
        let body = match self.take_body() {
            Some(body) => {
                let (charge, length) = (self.task.charge.as_deref(), body.length());
                match body.ahead(EARLY_BODY_BYTES_MAX, charge).await {
                    Ok(body) => Some(body),
                    Err(error @ (ClientBodyError::Gone | ClientBodyError::Malformed)) => {
                        // It is not to reach an origin as a request without a body.
                        let failure = Cause::Client(error).failure(error);
                        return self.failed(&failure, None);
                    }
                    // A policy has a page for a fetch that fails.
                    Err(error @ ClientBodyError::Silent) if site.semantics.pages_failures => {
                        Some(RequestBody::Broken(Broken::new(error, length)))
                    }
                    Err(error) => return super::without_body(error),
                }
            }
            // It went to an origin before the restart, and is there only once.
            None if self.task.has_body && self.task.request.method != Method::Get => {
                self.task.transcript.note(
                    Tag::VCL_Error,
                    format_args!("Uncached req.body can only be consumed once"),
                );
                self.task.reason = Reason::LocalPolicy;
                return State::Synth(503, None);
            }
            None => None,
        };
        let key = self.key();
        let plan = Plan::pass(&mut self.task, key).with_body(body).telling(&self.interim);
        State::Fetched(Box::new(freshet_fetch::start(self.worker, plan).await))
    }

    /// Begins to tell of what an origin is asked for a tunnel.
    fn begin_pipe(&mut self) {
        let (transcript, id) = (&self.task.transcript, self.worker.next_id());
        transcript.note(Tag::Link, format_args!("bereq {id} pipe"));
        let scribe = self.worker.shared.scribe.as_ref();
        let pipe = Transcript::begin(scribe, Side::Backend, id, "bereq", self.task.id, "pipe");
        pipe.note_start();
        self.task.pipe = Some(Rc::new(pipe));
    }

    /// What is told of the tunnel at its end.
    fn pipe_record(&mut self) -> PipeRecord {
        let transcript = self.task.pipe.take().unwrap_or_default();
        PipeRecord { transcript, origin: None }
    }

    /// Makes the connection a tunnel from this request's head on. Without an origin it is closed, as
    /// it would be by one that cannot be reached.
    async fn tunnel(&mut self, choice: OriginChoice) -> State {
        let worker = self.worker;
        let Tunnels { open_max, idle, lasts_max } = self.task.site.tunnels;
        let lasts_max = self.task.tunnel_lasts_max.or(lasts_max);
        let open =
            |stats: &WorkerStats| stats.pipes.value().saturating_sub(stats.pipes_ended.value());
        if open_max > 0
            && worker.shared.stats.iter().map(|stats| open(stats)).sum::<u64>() >= open_max
        {
            worker.stats.pipes_refused.increment();
            return State::Synth(503, Some("Pipe limit reached".into()));
        }
        let mut record = self.pipe_record();
        let fetch = Rc::clone(&record.transcript);
        let chosen = match &choice {
            OriginChoice::Exactly(origin) => Some(origin),
            OriginChoice::Among(places) => places.choose(&[], self.task.now),
            OriginChoice::Director | OriginChoice::Nobody(_) => None,
        };
        let connected = match chosen {
            Some(origin) => {
                let percent = self.task.site.settings.limits.origin_network_percent;
                let party = self.task.client.network.party(percent);
                let waits = self.task.tunnel_waits;
                Some((origin, connect_raw(&worker.pool, origin, Some(party), waits).await))
            }
            None => None,
        };
        let (origin, connection) = match connected {
            Some((origin, Ok(connection))) => (origin, connection),
            unconnected => {
                let text = match (unconnected, &choice) {
                    (Some((origin, Err(error))), _) => {
                        let name = &origin.settings.name;
                        match freshet_fetch::unconnected(error.kind()) {
                            Some(why) => format!("backend {name}: {why}"),
                            None => format!("backend {name}: {error}"),
                        }
                    }
                    (_, OriginChoice::Nobody(why)) => why.to_string(),
                    _ => "No backend".to_owned(),
                };
                fetch.note(Tag::FetchError, format_args!("{text}"));
                self.task.client.end.set(End::Unsent);
                let unsaid = Unsaid { status: 200, facts: Facts::local(Reason::Pipe) };
                return State::Done(Reply::Hangup(unsaid));
            }
        };
        let mut head = Vec::new();
        if origin.settings.proxy_header > 0 {
            let client = &self.task.client;
            let version = origin.settings.proxy_header;
            proxy_protocol::write(version, client.address, client.local_address, &mut head);
        }
        let request = &self.task.request;
        let framing = match request.fields.get_str("content-length").map(str::parse) {
            _ if let Some(body) = &self.task.kept_body => match body.len() as u64 {
                0 => Framing::None,
                length => Framing::Length(length),
            },
            Some(Ok(length)) => Framing::Length(length),
            _ if request.fields.contains("transfer-encoding") => Framing::Chunked,
            _ => Framing::None,
        };
        let begins = head.len();
        request_head(request, framing, &mut head);
        if request.version == Version::Http10 {
            speak_http_10(head.get_mut(begins..).unwrap_or_default());
        }
        // What was read for the policy is not on the connection any more.
        if let Some(RequestBody::Kept(kept)) = self.body.take() {
            head.extend_from_slice(kept.bytes());
        }
        let name: Arc<str> = origin.settings.name.as_str().into();
        fetch.timestamp("Connected");
        fetch.note(Tag::BackendOpen, format_args!("0 {name} 0.0.0.0 0 0.0.0.0 0 connect"));
        fetch.timestamp("Bereq");
        record.origin = Some(Arc::clone(&name));
        worker.stats.pipes.increment();
        self.task.client.end.set(End::Tunnelled);
        self.task.transcript.timestamp("Pipe");
        let facts = Facts { origin: Some(name), ..Facts::local(Reason::Pipe) };
        let record = Some(record);
        let tunnel = Tunnel { connection, first: head, idle, lasts_max, record };
        State::Done(Reply::Tunnel(Box::new(Switch { head: None, tunnel, facts })))
    }

    /// Sends the request with its `Upgrade` and, if the origin switches, hands both ends over to
    /// the session. An origin that does not switch is an ordinary pass.
    pub(super) async fn pipe(&mut self) -> State {
        let site = self.task.site.clone();
        let policy = &*site.policy;
        if site.semantics.tunnels_any_protocol {
            self.begin_pipe();
        }
        match policy.pipe(&mut self.task) {
            Pipe::Pipe => {}
            Pipe::Synth(status, reason) => {
                if self.task.pipe.is_some() {
                    drop(self.pipe_record());
                }
                return State::Synth(status, reason);
            }
        }
        self.key();
        self.task.reason = Reason::Pipe;
        if let Some(choice) = policy.tunnel_origin(&mut self.task) {
            return self.tunnel(choice).await;
        }
        let site = &self.task.site;
        let request = freshet_fetch::for_pipe(&self.task, |protocol| {
            site.semantics.tunnels_any_protocol || allows_upgrade(&site.settings.upgrades, protocol)
        });
        let key = self.key();
        let plan = Plan::pipe(&mut self.task, key, request);
        let plan = plan.with_body(self.take_body()).telling(&self.interim);
        match freshet_fetch::start(self.worker, plan).await {
            Fetched::Switched { head, connection, origin } => {
                self.worker.stats.pipes.increment();
                let Tunnels { idle, lasts_max, .. } = self.task.site.tunnels;
                let lasts_max = self.task.tunnel_lasts_max.or(lasts_max);
                let first = Vec::new();
                let tunnel = Tunnel { connection, first, idle, lasts_max, record: None };
                let facts = Facts { origin: Some(origin), ..Facts::local(Reason::Pipe) };
                let switch = Switch { head: Some(head), tunnel, facts };
                State::Done(Reply::Tunnel(Box::new(switch)))
            }
            other => State::Fetched(Box::new(other)),
        }
    }
}

/// Has a head of a request say HTTP/1.0: the connection is the client's from there on, and an origin
/// must not answer in what its client does not know.
fn speak_http_10(head: &mut [u8]) {
    let end = head.windows(2).position(|two| two == b"\r\n");
    if let Some(minor) = end.and_then(|end| head.get_mut(end.checked_sub(1)?)) {
        *minor = b'0';
    }
}
