//! Pass: the origin answers this client alone. Pipe: the connection becomes a tunnel.

use super::{Machine, State};
use crate::delivery::ResponseBody;
use crate::exchange::{Facts, Response};
use crate::fetch::{self, Fetched, Plan};
use crate::policy::{FetchKind, Pass, Pipe};
use crate::session::tunnel::Tunnel;
use freshet_http::reason::Reason;
use std::rc::Rc;
use std::sync::Arc;

impl Machine<'_> {
    pub(super) async fn pass(&mut self) -> State {
        let policy = Arc::clone(&self.task.snapshot.policy);
        match policy.pass(&mut self.task) {
            Pass::Fetch => {}
            Pass::Restart => return State::Restart,
            Pass::Synth(status, reason) => return State::Synth(status, reason),
        }
        self.worker.stats.passes.increment();
        let state = policy.begin_fetch(&mut self.task, FetchKind::Pass);
        let plan = Plan {
            state,
            parent: self.task.id,
            transcript: Rc::clone(&self.task.transcript),
            kind: FetchKind::Pass,
            request: fetch::prepare::for_pass(&self.task),
            client: self.task.request.clone(),
            client_address: self.task.client.address,
            snapshot: Rc::clone(&self.task.snapshot),
            key: self.key(),
            ticket: None,
            stale: None,
            body: self.take_body(),
            interim: Some(self.interim.clone()),
            reason: self.task.reason,
        };
        State::Fetched(Box::new(fetch::start(self.worker, plan).await))
    }

    /// Sends the request with its `Upgrade` and, if the origin switches, hands both ends over to
    /// the session. An origin that does not switch is an ordinary pass.
    pub(super) async fn pipe(&mut self) -> State {
        let policy = Arc::clone(&self.task.snapshot.policy);
        match policy.pipe(&mut self.task) {
            Pipe::Pipe => {}
            Pipe::Synth(status, reason) => return State::Synth(status, reason),
        }
        self.key();
        self.task.reason = Reason::Pipe;
        let request = fetch::prepare::for_pipe(&self.task);
        let state = policy.begin_fetch(&mut self.task, FetchKind::Pass);
        let plan = Plan {
            state,
            parent: self.task.id,
            transcript: Rc::clone(&self.task.transcript),
            kind: FetchKind::Pass,
            request,
            client: self.task.request.clone(),
            client_address: self.task.client.address,
            snapshot: Rc::clone(&self.task.snapshot),
            key: self.key(),
            ticket: None,
            stale: None,
            body: self.take_body(),
            interim: Some(self.interim.clone()),
            reason: Reason::Pipe,
        };
        match fetch::start(self.worker, plan).await {
            Fetched::Switched { head, connection, origin } => {
                self.worker.stats.pipes.increment();
                State::Done(Box::new(Response {
                    head,
                    body: ResponseBody::Tunnel(Box::new(Tunnel(connection))),
                    length: None,
                    is_packed: false,
                    facts: Facts { reason: Reason::Pipe, hit: false, origin: Some(origin) },
                }))
            }
            other => State::Fetched(Box::new(other)),
        }
    }
}
