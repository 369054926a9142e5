//! Answers of DNS, as a function of a message: no sockets.
//!
//! The router is authoritative for the zones it has. Hosts of sites are answered with nodes by the same
//! decision as over HTTP, for the client's network where the resolver says it (RFC 7871), else for the
//! resolver; hosts of nodes with that node's addresses. There is no recursion, no transfer and no DNSSEC.

mod found;
mod skim;
mod subnet;

use crate::live::Routing;
use freshet_base::clock::UnixMillis;
use freshet_limits::Rate;
use freshet_net::trust::Network;
use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::rdata::{NS, SOA};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use subnet::Subnet;

/// What is answered besides sites.
#[derive(Clone, Debug, Default)]
pub struct Dns {
    /// Domains that are ours.
    pub zones: Vec<Name>,
    /// Who serves them.
    pub name_servers: Vec<Name>,
    /// Mailbox of who looks after them, as a name (RFC 1035 §3.3.13).
    pub contact: Name,
    /// How long what does not change holds.
    pub ttl: Duration,
    /// How long holds that something is not there.
    pub negative_ttl: Duration,
    /// Addresses of the routers, for sites that are routed over HTTP.
    pub routers: Vec<IpAddr>,
    /// Resolvers that are believed about their clients' networks.
    pub believed: Vec<Network>,
    /// What a network gets over UDP; anything where there is none.
    pub rate: Option<Rate>,
    /// Records that are as they are written, by name in lower case.
    pub records: HashMap<String, Vec<RData>>,
}

/// How a message came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    /// Answers have a limit.
    Udp,
    /// From somebody who had enough: the answer is the word to come over TCP.
    UdpAboveRate,
    /// They have not.
    Tcp,
}

/// Longest answer over UDP, in bytes: what passes without fragments nearly everywhere, as the DNS flag
/// day of 2020 has it.
const UDP_BYTES_MAX: u16 = 1232;
/// And to those who do not say what they take (RFC 1035 §2.3.4).
const UDP_BYTES_PLAIN: u16 = 512;
/// Names that one answer follows, where each stands for the next.
const LINKS_MAX: usize = 8;
/// Bytes of a message before its question.
const HEAD_BYTES: usize = 12;

/// The answer to a message, and its code; none to what is no question.
pub fn answer(
    routing: &Routing,
    dns: &Dns,
    message: &[u8],
    from: IpAddr,
    transport: Transport,
    now: UnixMillis,
) -> Option<(Vec<u8>, ResponseCode)> {
    let head: &[u8; HEAD_BYTES] = message.first_chunk()?;
    // An answer is not answered, or two servers would talk for ever.
    if head[2] & 0x80 != 0 {
        return None;
    }
    let reply = match Message::from_vec(message) {
        Ok(query) => {
            let is_exact = skim::subnet_is_exact(message, &query);
            reply(routing, dns, &query, is_exact, from, now)
        }
        Err(_) => malformed(head, message),
    };
    let code = reply.metadata.response_code;
    let limit = match (transport, &reply.edns) {
        (Transport::Tcp, _) => u16::MAX,
        (Transport::UdpAboveRate, _) => 0,
        (Transport::Udp, None) => UDP_BYTES_PLAIN,
        // Ours says what theirs said.
        (Transport::Udp, Some(edns)) => edns.max_payload().clamp(UDP_BYTES_PLAIN, UDP_BYTES_MAX),
    };
    let bytes = reply.to_vec().ok()?;
    if bytes.len() <= usize::from(limit) {
        return Some((bytes, code));
    }
    let mut short = Message::new(reply.metadata.id, MessageType::Response, OpCode::Query);
    short.metadata = reply.metadata;
    short.metadata.truncation = true;
    short.add_queries(reply.queries);
    short.edns = reply.edns;
    Some((short.to_vec().ok()?, code))
}

/// What cannot be read is answered with its number, and with what of it can be: an OPT is answered with one, or
/// who asked takes this for a server that knows none (RFC 6891 §6.1.1, §7).
fn malformed(head: &[u8; HEAD_BYTES], message: &[u8]) -> Message {
    let id = u16::from_be_bytes([head[0], head[1]]);
    let code = OpCode::from_u8(head[2] >> 3 & 0x0f);
    let mut reply = Message::error_msg(id, code, ResponseCode::FormErr);
    let skimmed = skim::skim(message);
    reply.add_queries(skimmed.question);
    reply.edns = skimmed.opt.map(|opt| own_edns(opt.payload_bytes));
    reply
}

/// Our OPT for one that says that answers may have so many bytes.
fn own_edns(payload_bytes: u16) -> Edns {
    let mut own = Edns::new();
    own.set_max_payload(payload_bytes.clamp(UDP_BYTES_PLAIN, UDP_BYTES_MAX));
    own
}

/// The innermost of our zones that a name is in.
fn zone_of<'a>(dns: &'a Dns, name: &Name) -> Option<&'a Name> {
    dns.zones.iter().filter(|zone| zone.zone_of(name)).max_by_key(|zone| zone.num_labels())
}

fn reply(
    routing: &Routing,
    dns: &Dns,
    query: &Message,
    is_exact: bool,
    from: IpAddr,
    now: UnixMillis,
) -> Message {
    let mut reply = Message::new(query.metadata.id, MessageType::Response, query.metadata.op_code);
    reply.metadata = Metadata::response_from_request(&query.metadata);
    reply.metadata.checking_disabled = false;
    reply.add_queries(query.queries.iter().take(1).cloned());
    let subnet = query.edns.as_ref().map(|edns| Subnet::of(edns).filter(|_| is_exact));
    if let Some(edns) = &query.edns {
        reply.edns = Some(own_edns(edns.max_payload()));
        if edns.version() > 0 {
            // RFC 6891 §6.1.3.
            reply.metadata.response_code = ResponseCode::BADVERS;
            return reply;
        }
    }
    let [question] = query.queries.as_slice() else {
        reply.metadata.response_code = ResponseCode::FormErr;
        return reply;
    };
    if query.metadata.op_code != OpCode::Query {
        reply.metadata.response_code = ResponseCode::NotImp;
        return reply;
    }
    let Some(subnet) = subnet.unwrap_or_else(|| Some(Subnet::default())) else {
        reply.metadata.response_code = ResponseCode::FormErr;
        return reply;
    };
    let mut name = question.name().to_lowercase();
    let kind = question.query_type();
    let is_transfer = matches!(kind, RecordType::AXFR | RecordType::IXFR);
    let is_ours = question.query_class() == DNSClass::IN && !is_transfer;
    let Some(zone) = zone_of(dns, &name).filter(|_| is_ours) else {
        reply.metadata.response_code = ResponseCode::Refused;
        return reply;
    };
    let is_believed = dns.believed.iter().any(|network| network.contains(from));
    let client = subnet.client().filter(|_| is_believed).unwrap_or(from);
    // With the letters of the question, which resolvers look at.
    let mut owner = question.name().clone();
    let (mut scope_bits, mut is_empty) = (0, false);
    for link in 0..LINKS_MAX {
        let asked = found::Asked { routing, dns, zone, name: &name, kind, client, now };
        let answer = asked.answer();
        let is_known = matches!(answer.code, ResponseCode::NoError | ResponseCode::NXDomain);
        scope_bits = scope_bits.max(answer.scope_bits);
        if link > 0 && !is_known {
            // Who wants to know why asks for the other name.
            break;
        }
        // The code is that of the last name (RFC 6604 §3).
        reply.metadata.response_code = answer.code;
        reply.metadata.authoritative = is_known;
        is_empty = is_known && answer.data.is_empty();
        let other = answer.alias_for(kind).filter(|other| zone_of(dns, other) == Some(zone));
        for (ttl, data) in answer.data {
            reply.add_answer(Record::from_rdata(owner.clone(), seconds(ttl), data));
        }
        // What another name stands for in the same zone is said at once (RFC 1034 §4.3.2, 3a).
        let Some(other) = other else { break };
        name = other.to_lowercase();
        owner = other;
    }
    if is_empty {
        let soa = RData::SOA(soa(dns, zone));
        reply.add_authority(Record::from_rdata(zone.clone(), seconds(dns.negative_ttl), soa));
    }
    if let (Some(own), Some(option)) = (reply.edns.as_mut(), subnet.echo(scope_bits, is_believed)) {
        own.options_mut().insert(EdnsOption::Subnet(option));
    }
    reply
}

/// What begins the zone. The number never changes, as nobody transfers it.
fn soa(dns: &Dns, zone: &Name) -> SOA {
    let master = dns.name_servers.first().unwrap_or(zone).clone();
    let (refresh, retry, expire) = (3600, 600, 86_400);
    SOA::new(master, dns.contact.clone(), 1, refresh, retry, expire, seconds(dns.negative_ttl))
}

/// The name servers of a zone.
fn servers(dns: &Dns) -> impl Iterator<Item = RData> {
    dns.name_servers.iter().map(|name| RData::NS(NS(name.clone())))
}

/// Seconds, as records have them (RFC 2181 §8).
fn seconds(span: Duration) -> u32 {
    u32::try_from(span.as_secs()).unwrap_or(u32::MAX).min(i32::MAX as u32)
}

#[cfg(test)]
mod tests;
