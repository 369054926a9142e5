//! Why a packet of a client goes where it goes.

use super::answers::{Refusal, read_client};
use crate::kernel::control::Control;
use crate::kernel::programs::KernelError;
use crate::kernel::protocol::{Trace, Traced};
use crate::packet::AddressOf;
use crate::rule::reference::{entries, first_match};
use crate::rule::{Direction, Subject, compile};
use crate::session::{Authority, Client, lines};
use std::net::IpAddr;

/// Says step by step what would become of a packet: by what the kernel has, and by what rules mean.
pub(super) fn trace(
    control: &mut Control,
    is_alive: impl Fn(u8) -> bool,
    traced: &Traced,
) -> Result<Trace, Refusal> {
    let direction = if traced.downlink { Direction::Downlink } else { Direction::Uplink };
    let client = read_client(&control.networks, &traced.client)?;
    let text = traced.client.split(['@', '/']).next().unwrap_or_default();
    let address: IpAddr = text.parse().expect("it was read as a client's");
    if address.is_ipv4() != traced.server.is_ipv4() {
        return Err(Refusal::words("client and server: both must be of one IP version"));
    }
    let [own, server] = [address, traced.server].map(|one| AddressOf::from(one).0);
    let mut steps = Vec::new();
    let done = |steps, reason| Ok(Trace { direction, steps, reason });
    let who = control.networks.text(client);
    let known = control.sessions.get(client);
    let Some((session, authority)) = known else {
        steps.push(format!("no session is known for {who}: everything passes"));
        steps.push("one is learnt when the core answers a packet of the client".to_owned());
        return done(steps, "no-session");
    };
    let ends = session.path.ends.map(|end| AddressOf(end).to_string());
    steps.push(format!(
        "session of {who}, {}: base station {} (tunnel {}), core {} (tunnel {})",
        match authority {
            Authority::Pfcp => "signalled by the core",
            Authority::Learnt => "learnt from traffic",
            Authority::Operator => "told by the operator",
        },
        ends[0],
        session.teids[1],
        ends[1],
        session.teids[0]
    ));
    let numbers = control.numbers(client).unwrap_or_default();
    match control.line_of(client)? {
        Some(found) if found.teids == session.teids && found.numbers == numbers => {
            steps.push("the kernel has the same session".to_owned());
        }
        _ => steps.push("the kernel has another session for this client".to_owned()),
    }
    let profile = control.profile(numbers.profile);
    if !profile.tags.is_empty() {
        steps.push(format!("tags: {}", profile.tags.join(", ")));
    }
    let ports = traced.ports;
    let subject = Subject {
        version: if address.is_ipv4() { 4 } else { 6 },
        addresses: if traced.downlink { [server, own] } else { [own, server] },
        ports: ports.map(|[own, other]| if traced.downlink { [other, own] } else { [own, other] }),
        protocol: traced.protocol,
        traffic_class: traced.traffic_class,
    };
    let entries = entries(&control.rules, direction);
    let Some(place) = first_match(&entries, direction, &subject, &profile) else {
        steps.push(format!("none of {} active filters matches: it passes", entries.len()));
        return done(steps, "no-rule");
    };
    let entry = &entries[place];
    let target = compile::target(entry);
    steps.push(format!(
        "rule `{}` matches, priority {}, the first of {} active filters that does",
        entry.rule.id,
        entry.rule.priority,
        entries.len()
    ));
    if target.act <= 1 {
        let is_pass = target.act == 0;
        steps.push(
            if is_pass { "it lets the packet pass" } else { "it drops the packet" }.to_owned(),
        );
        return done(steps, if is_pass { "rule-pass" } else { "rule-drop" });
    }
    let Some(app) = control.apps.get(target.app) else {
        steps.push("its app is not there any more: the packet passes to the core".to_owned());
        return done(steps, "app-dead");
    };
    let name = &app.name;
    if !is_alive(target.app) {
        steps.push(format!("app `{name}` is not alive: the packet passes to the core"));
        return done(steps, "app-dead");
    }
    steps.push(format!("app `{name}`, {}, gets it", app.kind));
    done(steps, ["breakout", "in-line", "tap"][usize::from(target.act) - 2])
}

impl Control {
    /// What the kernel's line of a client holds.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn line_of(&mut self, client: Client) -> Result<Option<lines::Found>, KernelError> {
        let Some(slot) = self.slot_of(client) else { return Ok(None) };
        Ok(lines::decode(&self.programs.line(slot)?))
    }
}
