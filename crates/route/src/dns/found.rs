//! What a name stands for, and what is answered for it.

use super::{Dns, servers, soa};
use crate::decision::key::Asked as KeyOf;
use crate::decision::{Decision, Family, NodeId, Question, SiteId};
use crate::live::{Outcome, Routing};
use freshet_base::clock::UnixMillis;
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::svcb::{Alpn, IpHint, SVCB, SvcParamKey, SvcParamValue};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, HINFO, HTTPS};
use hickory_proto::rr::{Name, RData, RecordType};
use std::net::IpAddr;
use std::time::Duration;

/// A question about a name of a zone.
pub(super) struct Asked<'a> {
    pub(super) routing: &'a Routing,
    pub(super) dns: &'a Dns,
    pub(super) zone: &'a Name,
    /// In lower case.
    pub(super) name: &'a Name,
    pub(super) kind: RecordType,
    pub(super) client: IpAddr,
    pub(super) now: UnixMillis,
}

/// What is answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) code: ResponseCode,
    /// Records of the name, each with how long it holds.
    pub(super) data: Vec<(Duration, RData)>,
    /// Length of the prefix around the client for which this is the answer; 0 for all.
    pub(super) scope_bits: u8,
}

impl Answer {
    fn code(code: ResponseCode) -> Self {
        Self { code, ..Self::default() }
    }

    /// The name that is to be asked for instead, where one of another kind than that is asked for.
    pub(super) fn alias_for(&self, kind: RecordType) -> Option<Name> {
        match self.data.as_slice() {
            [(_, RData::CNAME(CNAME(name)))] if kind != RecordType::CNAME => Some(name.clone()),
            _ => None,
        }
    }

    fn of(ttl: Duration, data: impl IntoIterator<Item = RData>) -> Self {
        Self { data: data.into_iter().map(|one| (ttl, one)).collect(), ..Self::default() }
    }
}

impl Asked<'_> {
    pub(super) fn answer(&self) -> Answer {
        let host = self.name.to_ascii();
        let host = host.strip_suffix('.').unwrap_or(&host);
        let is_apex = self.name == self.zone;
        if is_apex && self.kind == RecordType::SOA {
            return Answer::of(self.dns.ttl, [RData::SOA(soa(self.dns, self.zone))]);
        }
        if is_apex && self.kind == RecordType::NS {
            return Answer::of(self.dns.ttl, servers(self.dns));
        }
        let written = self.dns.records.get(host);
        let node = self.node_of(host);
        let site = self.routing.table.site_of(host).filter(|_| node.is_none() && written.is_none());
        let is_there = is_apex || node.is_some() || site.is_some() || written.is_some();
        if !is_there {
            // A name with names below it is there, without anything (RFC 8020).
            return Answer::code(match self.routing.branches.contains(host) {
                true => ResponseCode::NoError,
                false => ResponseCode::NXDomain,
            });
        }
        if self.kind == RecordType::ANY {
            // RFC 8482 §4.2: nobody needs all, and those who flood others want much.
            let little = HINFO::new("RFC8482".to_owned(), String::new());
            return Answer::of(self.dns.ttl, [RData::HINFO(little)]);
        }
        if let Some(written) = written {
            let is_wanted = |data: &&RData| {
                data.record_type() == self.kind || data.record_type() == RecordType::CNAME
            };
            return Answer::of(self.dns.ttl, written.iter().filter(is_wanted).cloned());
        }
        match (node, site) {
            (Some((node, site)), _) => self.records_of(&[node], site, self.dns.ttl),
            (None, Some(site)) => self.answer_for_site(host, site),
            (None, None) => Answer::default(),
        }
    }

    /// Records of the kind asked for, of these nodes.
    fn records_of(&self, nodes: &[NodeId], site: Option<SiteId>, ttl: Duration) -> Answer {
        let nodes = nodes.iter().filter_map(|id| self.routing.table.node(*id));
        let all: Vec<IpAddr> = nodes.flat_map(|node| &node.addresses).copied().collect();
        let v4 = || {
            all.iter().filter_map(|one| if let IpAddr::V4(one) = one { Some(*one) } else { None })
        };
        let v6 = || {
            all.iter().filter_map(|one| if let IpAddr::V6(one) = one { Some(*one) } else { None })
        };
        match self.kind {
            RecordType::A => Answer::of(ttl, v4().map(|one| RData::A(A(one)))),
            RecordType::AAAA => Answer::of(ttl, v6().map(|one| RData::AAAA(AAAA(one)))),
            RecordType::HTTPS => {
                let site = site.and_then(|site| self.routing.dns.get(site as usize));
                let alpn = site.map_or(&[][..], |site| &site.alpn);
                if alpn.is_empty() {
                    return Answer::default();
                }
                // In the order of their numbers (RFC 9460 §2.2).
                let alpn = SvcParamValue::Alpn(Alpn(alpn.to_vec()));
                let mut parameters = vec![(SvcParamKey::Alpn, alpn)];
                let hint: Vec<A> = v4().map(A).collect();
                if !hint.is_empty() {
                    parameters.push((SvcParamKey::Ipv4Hint, SvcParamValue::Ipv4Hint(IpHint(hint))));
                }
                let hint: Vec<AAAA> = v6().map(AAAA).collect();
                if !hint.is_empty() {
                    parameters.push((SvcParamKey::Ipv6Hint, SvcParamValue::Ipv6Hint(IpHint(hint))));
                }
                let own = SVCB::new(1, Name::root(), parameters);
                Answer::of(ttl, [RData::HTTPS(HTTPS(own))])
            }
            _ => Answer::default(),
        }
    }

    fn answer_for_site(&self, host: &str, id: SiteId) -> Answer {
        let family = match self.kind {
            RecordType::A => Family::V4,
            RecordType::AAAA => Family::V6,
            RecordType::HTTPS => Family::Any,
            _ => return Answer::default(),
        };
        let routing = self.routing;
        let (Some(site), Some(dns), Some(redirects), Some(counts)) = (
            routing.table.site(id),
            routing.dns.get(id as usize),
            routing.redirects.get(id as usize),
            routing.counts.get(id as usize),
        ) else {
            return Answer::code(ResponseCode::ServFail);
        };
        if dns.is_to_routers {
            let of_kind = |one: &IpAddr| match one {
                IpAddr::V4(one) => (family == Family::V4).then_some(RData::A(A(*one))),
                IpAddr::V6(one) => (family == Family::V6).then_some(RData::AAAA(AAAA(*one))),
            };
            return Answer::of(site.ttl, self.dns.routers.iter().filter_map(of_kind));
        }
        if !routing.table.has_family(id, family) {
            return Answer::default();
        }
        let question = Question {
            site: id,
            client: self.client,
            key: site.key_of(&KeyOf::new(host, "", self.client)),
            wanted: site.answers,
            family,
            kept: None,
            avoid: &[],
        };
        let Decision { picks, scope_bits, is_refused, .. } =
            routing.table.decide(&question, &routing.at(self.now), &mut ());
        let (outcome, answer) = match (is_refused, picks.as_slice(), &redirects.bypass) {
            (true, ..) => (Outcome::Refused, Answer::code(ResponseCode::Refused)),
            (false, [], Some(bypass)) => {
                let host = crate::redirect::host_of(bypass);
                let data = Name::from_ascii(format!("{host}.")).ok();
                let data = data.map(|name| RData::CNAME(CNAME(name)));
                (Outcome::Bypassed, Answer::of(site.ttl, data))
            }
            (false, [], None) => (Outcome::Nobody, Answer::code(ResponseCode::ServFail)),
            (false, nodes, _) => (Outcome::Sent, self.records_of(nodes, Some(id), site.ttl)),
        };
        counts.count(outcome);
        Answer { scope_bits, ..answer }
    }

    /// The node a host is of: its own, or one that a site's `node_host` makes. And that site.
    fn node_of(&self, host: &str) -> Option<(NodeId, Option<SiteId>)> {
        let table = &self.routing.table;
        if let Some(id) = self.routing.node_hosts.get(host) {
            return Some((*id, None));
        }
        let (first, rest) = host.split_once('.')?;
        let id = table.node_named(first)?;
        let site = table.site_of(rest)?;
        let makes = self.routing.redirects.get(site as usize)?.node_host == "{node}.{host}";
        makes.then_some((id, Some(site)))
    }
}
