//! What may be given to whom and when, by what the origins said: each response of a node is judged here.

use crate::client::{Got, Request};
use crate::entity::{Identity, Nature, Sharing};
use crate::message::Ended;
use crate::nodes::Role;
use crate::policy;
use crate::purging::What;
use crate::world::World;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// What a parent's `Age`, which counts full seconds, may hide.
const AGE_SLACK: Duration = Duration::from_secs(1);
/// From an origin through a parent to an edge, packets that were sent again included.
const TRANSIT_MAX: Duration = Duration::from_millis(1000);
/// Timers of the runtime go by milliseconds.
const TIMER_SLACK: Duration = Duration::from_millis(5);

/// A response an origin has sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) identity: Identity,
    /// When its request had been read, and when its head was sent.
    pub(crate) at: Duration,
    pub(crate) answered: Duration,
    /// When no more of it came; none while more does.
    pub(crate) ended: Option<Duration>,
    /// The length of the whole, as far as it was believed when it was sent.
    pub(crate) promised_bytes: u64,
    /// The part that was sent, where it was not the whole.
    pub(crate) part: Option<Range<u64>>,
    /// Requests of clients it was given to.
    pub(crate) given: Vec<u64>,
}

/// That an origin confirmed that what it sent before is still valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirmed {
    pub(crate) identity: Identity,
    pub(crate) at: Duration,
    pub(crate) answered: Duration,
}

/// A purge that was carried out by all nodes, but for those that are fenced: begun and ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purge {
    pub(crate) what: What,
    /// The one edge it is about, where it is about one.
    pub(crate) edge: Option<usize>,
    /// Whether a node has not heard of it yet.
    pub(crate) is_missed: bool,
    /// Whether it outlasts that a node with disks is killed.
    pub(crate) is_durable: bool,
    pub(crate) begun: Duration,
    pub(crate) ended: Duration,
}

/// All the world's truth.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) sent: Vec<Sent>,
    pub(crate) confirmed: Vec<Confirmed>,
    pub(crate) purges: Vec<Purge>,
    /// When nodes with disks that had been killed were there again: purges that began before, and of which
    /// nobody said that they are durable, may be undone there.
    pub(crate) came_back: BTreeMap<Role, Duration>,
    /// The same of those whose drives had not kept what they had confirmed: any purge may be.
    pub(crate) lied_to: BTreeMap<Role, Duration>,
}

impl Truth {
    /// What is wrong with a response, where something is.
    ///
    /// # Errors
    /// That.
    pub(crate) fn judge(
        &mut self,
        world: &World,
        described: &[String],
        request: &Request,
        got: &Got,
        leaves: bool,
    ) -> Result<Option<Identity>, String> {
        let nature = &world.natures[request.path];
        let status = got.head.status();
        if got.head.field("surrogate-key").is_some() {
            return Err("a client is told of tags".into());
        }
        if request.is_for_teapot && status != policy::TEAPOT {
            return Err("a page of the policy's has another status".into());
        }
        match status {
            200 | 206 => {}
            304 => return self.judge_unchanged(world, request, got).map(|()| None),
            416 => return judge_unsatisfied(nature, request).map(|()| None),
            policy::TEAPOT => {
                return judge_teapot(request, got, leaves || world.has_faults).map(|()| None);
            }
            // An origin's own words, or the node's about one that fails.
            404 | 500..=504 if world.has_faults => return Ok(None),
            _ => return Err(format!("nobody said {status}")),
        }
        let identity = got.head.field("x-identity").and_then(Identity::parse);
        let identity = identity.ok_or("it does not say whose it is")?;
        let serial = got.head.number("x-serial").ok_or("it has no number")?;
        let sent = self.sent.get(serial as usize).ok_or("its number is nobody's")?.clone();
        if sent.identity != identity {
            return Err(format!("its fields are of two responses, one {:?}", sent.identity));
        }
        if (identity.site, identity.path) != (request.site, request.path) {
            return Err("it is of another site or path".into());
        }
        if identity.asked != request.asked {
            return Err("it is for another query or group".into());
        }
        judge_reader(described, request, nature, &sent)?;
        // A parent's 304 has the number of what the parent fetched anew, and what is kept its length of before.
        let same = self.sent.iter().filter(|other| other.identity == sent.identity);
        let promised: Vec<u64> = same.map(|other| other.promised_bytes).collect();
        judge_bytes(nature, request, got, &sent, &promised)?;
        // What is there in part can go on only as long as there is more of the same.
        let has_changed = world.version(request.path, got.received) != identity.version;
        if got.ended == Ended::Broken && !leaves && !world.has_faults && !has_changed {
            return Err("it broke off although nothing went wrong".into());
        }
        if request.method == "POST" {
            return Ok(None);
        }
        self.judge_age(world, request, got, identity)?;
        self.judge_purges(request, &sent)?;
        self.sent[serial as usize].given.push(request.number);
        Ok(Some(identity))
    }

    /// Whether it is fresh, or as stale as it may be.
    fn judge_age(
        &self,
        world: &World,
        request: &Request,
        got: &Got,
        identity: Identity,
    ) -> Result<(), String> {
        let sent = self.sent.iter().filter(|sent| sent.identity == identity);
        let confirmed = self.confirmed.iter().filter(|one| one.identity == identity);
        let sent = sent.map(|sent| (sent.at, sent.answered));
        let all = sent.chain(confirmed.map(|one| (one.at, one.answered)));
        let all = all.filter(|(_, answered)| *answered <= got.received);
        let (last, answered) = all
            .fold((None, Duration::ZERO), |(last, latest), (at, answered)| {
                (last.max(Some(at)), latest.max(answered))
            });
        let last = last.ok_or("nobody sent it")?;
        // What came after it was asked for may answer it, however old it says it is (RFC 9111 §4).
        if answered + TRANSIT_MAX >= request.sent {
            return Ok(());
        }
        let nodes = if world.has_parent { 2 } else { 1 };
        let policy = world.policy_of(identity.site);
        let allowed = match (world.natures[identity.path].sharing, policy) {
            // Each node counts from when it got it.
            (Sharing::Shared { .. }, Some(policy)) => policy.allowed_s() * nodes,
            (Sharing::Authorized, Some(policy)) if identity.user == 0 => policy.allowed_s() * nodes,
            (
                Sharing::Shared { max_age_s, while_refreshed_s, if_error_s, must_revalidate },
                None,
            ) => {
                let stale_s = match must_revalidate {
                    true => 0,
                    false if world.has_faults => while_refreshed_s.max(if_error_s),
                    false => while_refreshed_s,
                };
                max_age_s + stale_s
            }
            // One origin's response to one client, or `Authorization` is not in play.
            (Sharing::Authorized, None) if identity.user == 0 => 30,
            _ => 0,
        };
        let slack = TIMER_SLACK + if world.has_parent { AGE_SLACK } else { Duration::ZERO };
        // What a policy says of a life begins when the head has come, how long that took notwithstanding.
        let (since, slack) = match policy {
            Some(_) => {
                let last = self.waited_for(identity, last, got.received);
                (last.max(answered), slack + TRANSIT_MAX)
            }
            None => (last, slack),
        };
        let age = request.sent.saturating_sub(since);
        if age > Duration::from_secs(allowed) + slack {
            return Err(format!("it is {age:?} old, and {allowed} s are allowed"));
        }
        Ok(())
    }

    /// Until when a policy has what was confirmed at `last` wait: until all of its body has come (Varnish's
    /// "Conditional fetch wait for streaming object"), so that the next tier hears of it then.
    fn waited_for(&self, identity: Identity, last: Duration, now: Duration) -> Duration {
        if !self.confirmed.iter().any(|one| one.identity == identity && one.at == last) {
            return last;
        }
        let before = self.sent.iter().filter(|sent| sent.identity == identity && sent.at <= last);
        before.map(|sent| sent.ended.unwrap_or(now).min(now)).fold(last, Duration::max)
    }

    /// Whether it is from before a purge that had been carried out. A node that has not heard of one may use what
    /// the origin has confirmed since.
    fn judge_purges(&self, request: &Request, sent: &Sent) -> Result<(), String> {
        let is_confirmed = |since: Duration| {
            let mut same = self.confirmed.iter().filter(|one| one.identity == sent.identity);
            same.any(|one| one.at >= since)
        };
        let last = |times: &BTreeMap<Role, Duration>| {
            let asked = [Role::Edge(request.edge), Role::Parent];
            asked.iter().filter_map(|role| times.get(role)).max().copied().unwrap_or_default()
        };
        let (came_back, lied_to) = (last(&self.came_back), last(&self.lied_to));
        let purged = self.purges.iter().find(|purge| {
            purge.what.meets(request.site, request.path)
                && purge.edge.is_none_or(|edge| edge == request.edge)
                && purge.ended < request.sent
                && purge.begun >= if purge.is_durable { lied_to } else { came_back }
                && sent.at < purge.begun
                && !(purge.is_missed && is_confirmed(purge.begun))
        });
        purged.map_or(Ok(()), |purge| Err(format!("it is from before {purge:?}")))
    }

    fn judge_unchanged(&self, world: &World, request: &Request, got: &Got) -> Result<(), String> {
        let known = request.known.ok_or("a 304 to a request without condition")?;
        if !got.body.is_empty() {
            return Err("a 304 with a body".into());
        }
        // An origin that confirms whatever it is asked about has the last word where it is asked.
        let mut confirmed = self.confirmed.iter().filter(|one| one.identity == known);
        if known.asked != request.asked && !confirmed.any(|one| one.at >= request.sent) {
            return Err("a 304 about what was for another query or group".into());
        }
        self.judge_age(world, request, got, known)
    }
}

/// Whether the one who asked may have it.
fn judge_reader(
    described: &[String],
    request: &Request,
    nature: &Nature,
    sent: &Sent,
) -> Result<(), String> {
    let user = sent.identity.user;
    let own = if request.is_known_user { request.user } else { 0 };
    if user != 0 && user != own {
        return Err(format!("it is user {user}'s"));
    }
    let is_for_one = match nature.sharing {
        Sharing::Private | Sharing::Cookie | Sharing::NotStored => true,
        // Without `Authorization` it is as any other response.
        Sharing::Authorized => user != 0,
        Sharing::Shared { .. } => request.method == "POST",
    };
    if is_for_one && let Some(other) = sent.given.first() {
        let said = &described[*other as usize];
        return Err(format!("it was for one request, and given before to {other}: {said}"));
    }
    Ok(())
}

/// `may_break` where the client leaves in the midst of it, or the network may end its connection.
fn judge_teapot(request: &Request, got: &Got, may_break: bool) -> Result<(), String> {
    const PAGE: &[u8] = b"short and stout";
    let is_whole = got.ended == Ended::Whole && got.body == PAGE;
    let is_broken = may_break && got.ended == Ended::Broken && PAGE.starts_with(&got.body);
    match request.is_for_teapot {
        true if is_whole || is_broken || request.method == "HEAD" => Ok(()),
        true => Err("a page of the policy's is not whole".into()),
        false => Err("nobody asked for a teapot".into()),
    }
}

/// A part and the length of the whole, where that is said.
fn part_of(text: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let range = first.parse().ok()?..last.parse::<u64>().ok()? + 1;
    Some((range, total.parse().ok()))
}

fn judge_unsatisfied(nature: &Nature, request: &Request) -> Result<(), String> {
    match request.range {
        Some((first, _)) if first >= nature.bytes => Ok(()),
        _ => Err("a 416 to what could be satisfied".into()),
    }
}

/// Whether each byte is the one that belongs there, and whether all are there that have to.
/// `promised` are the lengths that origins gave of the representation.
fn judge_bytes(
    nature: &Nature,
    request: &Request,
    got: &Got,
    sent: &Sent,
    promised: &[u64],
) -> Result<(), String> {
    let identity = sent.identity;
    let total = if request.method == "POST" { 3 } else { nature.bytes };
    let range = match got.head.status() {
        206 => {
            let (first, end) = request.range.ok_or("a part although the whole was asked for")?;
            let is_asked = |range: &Range<u64>| {
                let mut totals = std::iter::once(&total).chain(promised);
                totals.any(|total| *range == (first..end.min(*total)))
            };
            let said = got.head.field("content-range").and_then(part_of).ok_or("which part?")?;
            // A length that is not known yet is `*`.
            let is_total = |said: u64| said == total || promised.contains(&said);
            if !said.1.is_none_or(is_total) {
                return Err(format!("the part is of {:?}, not {total}", said.1));
            }
            // A part nobody asked for is the origin's word to the one it is for.
            if !is_asked(&said.0) && sent.part.as_ref() != Some(&said.0) {
                return Err(format!("the part is {:?}", said.0));
            }
            said.0
        }
        _ => 0..total,
    };
    let length = range.end - range.start;
    if request.method == "HEAD" {
        return match got.head.number("content-length") {
            Some(said) if said != length && !promised.contains(&said) => {
                Err(format!("a length of {said}, not {length}"))
            }
            _ => Ok(()),
        };
    }
    let bytes = identity.bytes(range);
    let common = got.body.len().min(bytes.len());
    if let Some(at) = (0..common).find(|at| got.body[*at] != bytes[*at]) {
        return Err(format!("byte {at} is not of {identity:?}"));
    }
    // Where an origin promises more than there is, or sends it, only its promise can be known.
    match got.ended {
        Ended::Whole if got.body.len() as u64 != length => {
            Err(format!("{} bytes as if they were all of {length}", got.body.len()))
        }
        _ if got.body.len() as u64 > length => Err("more bytes than there are".into()),
        _ => Ok(()),
    }
}
