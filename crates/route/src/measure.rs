//! How fast decisions are, and how much room a table takes.

use crate::decision::key::Asked;
use crate::decision::prefix::{Draft as PrefixDraft, Prefix, Prefixes};
use crate::decision::table::{Draft, Node, Region, Site, Zone};
use crate::decision::{Family, Health, NodeId, Question, RegionId, Standing, Table, View};
use crate::dns::{self, Transport};
use crate::live::Routing;
use freshet_base::clock::UnixMillis;
use freshet_config::hosts::HostPattern;
use freshet_origin::director::stable_hash;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsOption};
use hickory_proto::rr::{Name, RecordType};
use rustix::time::{ClockId, clock_gettime};
use std::net::IpAddr;
use std::time::Duration;

/// Regions of a made-up table.
const REGIONS: RegionId = 16;
/// Nodes in each of them.
const NODES: usize = 16;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Prefixes in the table.
    pub prefixes: usize,
    /// Bytes that they take.
    pub prefix_bytes: usize,
    /// Decisions that were made, on one thread.
    pub decisions: u64,
    /// In this time of a processor.
    pub took: Duration,
}

impl Figures {
    /// Decisions in a second of one core.
    pub fn per_second(&self) -> f64 {
        self.decisions as f64 / self.took.as_secs_f64().max(f64::EPSILON)
    }
}

/// A table with 16 regions of 16 nodes and so many prefixes, IPv4 and IPv6 by turns, at random.
pub fn made_up(prefixes: usize) -> Table {
    let mut draft = Draft::default();
    for at in 0..REGIONS {
        draft.regions.push(Region {
            name: format!("region-{at}"),
            overflows_to_nearest: true,
            ..Region::default()
        });
        let name = format!("zone-{at}");
        draft.zones.push(Zone { name, region: Some(at), ..Zone::default() });
        draft.nodes.extend((0..NODES).map(|number| Node {
            name: format!("node-{at}-{number}"),
            region: at,
            weight: 1,
            addresses: Vec::new(),
            host: format!("node-{at}-{number}.example"),
        }));
    }
    let mut networks = PrefixDraft::default();
    networks.reserve(prefixes.div_ceil(2), prefixes / 2);
    for number in 0..prefixes as u64 {
        let random = random(number);
        // Each block of addresses once, as long as real tables are: /20 to /24, /40 to /48.
        let prefix = match number % 2 {
            0 => {
                let block = (number as u32 / 2).reverse_bits();
                Prefix::of(block.to_be_bytes().into(), 24)
            }
            _ => {
                let block = u128::from(number / 2).reverse_bits() >> 3 | 1 << 125;
                Prefix::of(block.to_be_bytes().into(), 40 + (random >> 8) as u8 % 9)
            }
        };
        networks.add(prefix, random as u32 % u32::from(REGIONS));
    }
    draft.prefixes = Prefixes::new(networks).unwrap_or_default();
    draft.sites.push(Site { hosts: vec![HostPattern::Any], ..Site::new("all") });
    Table::new(draft)
}

/// Decides for random clients that ask for random paths of each site by turns.
pub fn measure(table: &Table, decisions: u64) -> Figures {
    let sites: Vec<u32> = (0..).take(table.sites().len()).collect();
    let mut sent = 0_u64;
    let began = cpu_time();
    for number in 0..decisions {
        let random = random(number);
        let client: IpAddr = match number % 2 {
            0 => (random as u32).to_be_bytes().into(),
            _ => (u128::from(random) << 61 | 1 << 125).to_be_bytes().into(),
        };
        let Some(id) = sites.get(number as usize % sites.len().max(1)).copied() else { break };
        let target = format!("/films/{}/segment-{}.ts?token=abc", random % 1000, random % 97);
        let asked = Asked::new("www.example", &target, client);
        let key = table.site(id).map_or(0, |site| site.key_of(&asked));
        let question = Question {
            site: id,
            client,
            key,
            wanted: 1,
            family: Family::Any,
            kept: None,
            avoid: &[],
        };
        sent += u64::from(table.decide(&question, &AllUp, &mut ()).picks.first().is_some());
    }
    let took = cpu_time().saturating_sub(began);
    Figures {
        prefixes: table.prefixes().len(),
        prefix_bytes: table.prefixes().heap_bytes(),
        // Those that had an answer: what is not decided shall not look fast.
        decisions: sent,
        took,
    }
}

/// Messages that questions are taken from by turns: so many clients' networks.
const MESSAGES: u64 = 1024;

/// Answers questions of DNS for a host of a site, of random clients' networks, without sockets. How many
/// had an answer with addresses, and in which time of a processor; `None` where there is no such host.
pub fn measure_dns(routing: &Routing, answers: u64) -> Option<(u64, Duration)> {
    let sites = routing.table.sites().iter();
    let hosts = sites.flat_map(|site| &site.hosts).filter_map(|host| match host {
        HostPattern::Exact(name) => Name::from_ascii(format!("{name}.")).ok(),
        HostPattern::Below(_) | HostPattern::Any => None,
    });
    let is_ours = |name: &Name| routing.settings.zones.iter().any(|zone| zone.zone_of(name));
    let host = hosts.into_iter().find(is_ours)?;
    let message = |number| {
        let mut message = Message::new(number as u16, MessageType::Query, OpCode::Query);
        message.add_query(Query::query(host.clone(), RecordType::A));
        let network = Prefix::of((random(number) as u32).to_be_bytes().into(), 24).address;
        let mut edns = Edns::new();
        let subnet = ClientSubnet::new(network, 24, 0);
        edns.options_mut().insert(EdnsOption::Subnet(subnet));
        message.edns = Some(edns);
        message.to_vec().ok()
    };
    let messages = (0..MESSAGES).map(message).collect::<Option<Vec<_>>>()?;
    let (now, from) = (UnixMillis::now(), IpAddr::from([192, 0, 2, 53]));
    let (began, mut answered) = (cpu_time(), 0);
    for message in messages.iter().cycle().take(usize::try_from(answers).ok()?) {
        let reply = dns::answer(routing, &routing.settings, message, from, Transport::Udp, now);
        // The count of answers is in the head (RFC 1035 §4.1.1).
        let has_addresses = reply.is_some_and(|(reply, _)| reply.get(6..8) > Some(&[0, 0]));
        answered += u64::from(has_addresses);
    }
    Some((answered, cpu_time().saturating_sub(began)))
}

struct AllUp;

impl View for AllUp {
    fn standing(&self, _: NodeId) -> Standing {
        Standing { health: Health::Up, share_percent: 100 }
    }

    fn sent(&self, _: NodeId) -> u64 {
        0
    }
}

/// What this thread had of a processor: others on the machine do not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

fn random(number: u64) -> u64 {
    stable_hash(&number.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_prefixes_take_less_than_100_mb() {
        let table = made_up(1_000_000);
        let figures = measure(&table, 20_000);
        assert!(figures.prefixes >= 999_000, "{figures:?}");
        assert!(figures.prefix_bytes <= 100_000_000, "{figures:?}");
        assert_eq!(figures.decisions, 20_000);
        // What an unoptimised build on a busy machine does as well; the goal is 100,000.
        assert!(figures.per_second() > 1_000.0, "{figures:?}");
    }
}
