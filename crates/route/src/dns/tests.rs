use super::*;
use crate::config::read;
use hickory_proto::op::Query;
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsCode};
use proptest::prelude::*;

const TEXT: &str = r#"
[dns]
zones = ["cdn.example"]
name_servers = ["ns1.cdn.example", "ns2.elsewhere.example"]
contact = "noc@cdn.example"
routers = ["203.0.113.53"]
[[region]]
name = "west"
[[region]]
name = "east"
[[node]]
name = "west-1"
region = "west"
addresses = ["192.0.2.1", "2001:db8::1"]
host = "west-1.cdn.example"
health = "none"
[[node]]
name = "east-1"
region = "east"
addresses = ["192.0.2.2"]
host = "east-1.cdn.example:8080"
health = "none"
[[zone]]
name = "isp"
region = "east"
networks = ["10.0.0.0/8"]
[[record]]
name = "ns1.cdn.example"
type = "A"
value = "203.0.113.53"
[[record]]
name = "www.cdn.example"
type = "CNAME"
value = "video.cdn.example"
[[record]]
name = "old.cdn.example"
type = "CNAME"
value = "www.cdn.example"
[[record]]
name = "gone.cdn.example"
type = "CNAME"
value = "nothing.cdn.example"
[[record]]
name = "away.cdn.example"
type = "CNAME"
value = "www.elsewhere.example"
[[record]]
name = "loop.cdn.example"
type = "CNAME"
value = "loop.cdn.example"
[[record]]
name = "shut.cdn.example"
type = "CNAME"
value = "closed.cdn.example"
[[site]]
hosts = ["closed.cdn.example"]
zones_only = true
[[site]]
hosts = ["video.cdn.example"]
alpn = ["h3", "h2"]
[[site]]
hosts = ["files.deep.cdn.example"]
dns = "routers"
node_host = "{node}.{host}"
"#;

fn routing() -> Routing {
    let config = read(TEXT).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    Routing::new(config, None).unwrap()
}

fn query(name: &str, kind: RecordType) -> Message {
    let mut query = Message::new(7, MessageType::Query, OpCode::Query);
    query.metadata.recursion_desired = true;
    query.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    query
}

fn with_subnet(mut query: Message, network: &str, bits: u8) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    let subnet = ClientSubnet::new(network.parse().unwrap(), bits, 0);
    edns.options_mut().insert(EdnsOption::Subnet(subnet));
    query.edns = Some(edns);
    query
}

fn ask_from(query: &Message, from: &str) -> Message {
    let (routing, bytes) = (routing(), query.to_vec().unwrap());
    let from = from.parse().unwrap();
    let reply = answer(&routing, &routing.settings, &bytes, from, Transport::Udp, UnixMillis(1));
    let (reply, code) = reply.unwrap();
    let reply = Message::from_vec(&reply).unwrap();
    // As numbers: 16 has two names.
    let number = |code| u16::from(code);
    assert_eq!(reply.metadata.id, query.metadata.id);
    assert_eq!(number(reply.metadata.response_code), number(code));
    assert!(reply.metadata.message_type == MessageType::Response);
    reply
}

fn ask(name: &str, kind: RecordType) -> Message {
    ask_from(&query(name, kind), "198.51.100.1")
}

fn data(reply: &Message) -> Vec<String> {
    reply.answers.iter().map(|record| record.data.to_string()).collect()
}

fn scope(reply: &Message) -> Option<u8> {
    match reply.edns.as_ref()?.option(EdnsCode::Subnet)? {
        EdnsOption::Subnet(subnet) => Some(subnet.scope_prefix()),
        _ => None,
    }
}

#[test]
fn a_site_is_answered_with_nodes_near_who_asks() {
    let reply = ask("ViDeO.cdn.example.", RecordType::A);
    assert_eq!(data(&reply), ["192.0.2.1"]);
    assert!(reply.metadata.authoritative && !reply.metadata.recursion_available);
    assert_eq!(reply.answers[0].name.to_ascii(), "ViDeO.cdn.example.", "as it was asked");
    assert_eq!(reply.answers[0].ttl, 30);
    let east = ask_from(&query("video.cdn.example.", RecordType::A), "10.1.2.3");
    assert_eq!(data(&east), ["192.0.2.2"]);
    assert_eq!(data(&ask("video.cdn.example.", RecordType::AAAA)), ["2001:db8::1"]);
    // The nearest region without IPv6 is passed over.
    let east = ask_from(&query("video.cdn.example.", RecordType::AAAA), "10.1.2.3");
    assert_eq!(data(&east), ["2001:db8::1"]);
    let https = data(&ask("video.cdn.example.", RecordType::HTTPS));
    let parts = ["1 .", "h3", "h2", "ipv4hint", "192.0.2.1", "ipv6hint", "2001:db8::1"];
    assert!(parts.iter().all(|part| https[0].contains(part)), "{https:?}");
}

#[test]
fn the_clients_network_counts_and_the_answer_says_for_whom_it_is() {
    let video = || query("video.cdn.example.", RecordType::A);
    let reply = ask_from(&with_subnet(video(), "10.1.2.0", 24), "198.51.100.1");
    assert_eq!((data(&reply), scope(&reply)), (vec!["192.0.2.2".into()], Some(8)));
    let reply = ask_from(&with_subnet(video(), "8.0.0.0", 6), "198.51.100.1");
    assert_eq!(scope(&reply), Some(6), "never longer than what was asked about");
    let reply = ask_from(&with_subnet(video(), "0.0.0.0", 0), "10.0.0.1");
    assert_eq!((data(&reply), scope(&reply)), (vec!["192.0.2.2".into()], Some(0)));
    let routers = query("files.deep.cdn.example.", RecordType::A);
    let reply = ask_from(&with_subnet(routers, "10.1.2.0", 24), "198.51.100.1");
    assert_eq!((data(&reply), scope(&reply)), (vec!["203.0.113.53".into()], Some(0)));
    assert_eq!(ask("video.cdn.example.", RecordType::A).edns, None);
}

#[test]
fn names_of_nodes_and_records_are_there_and_others_are_not() {
    for (name, kind, expected) in [
        ("west-1.cdn.example.", RecordType::A, "192.0.2.1"),
        ("east-1.cdn.example.", RecordType::A, "192.0.2.2"),
        ("east-1.files.deep.cdn.example.", RecordType::A, "192.0.2.2"),
        ("ns1.cdn.example.", RecordType::A, "203.0.113.53"),
        ("cdn.example.", RecordType::NS, "ns1.cdn.example."),
        ("cdn.example.", RecordType::SOA, "ns1.cdn.example. noc.cdn.example. 1 3600 600 86400 30"),
        ("video.cdn.example.", RecordType::ANY, "RFC8482"),
    ] {
        let said = data(&ask(name, kind));
        assert!(said.first().is_some_and(|one| one.contains(expected)), "{name}: {said:?}");
    }
    for (name, kind, code) in [
        ("video.cdn.example.", RecordType::MX, ResponseCode::NoError),
        ("east-1.cdn.example.", RecordType::AAAA, ResponseCode::NoError),
        ("files.deep.cdn.example.", RecordType::AAAA, ResponseCode::NoError),
        ("deep.cdn.example.", RecordType::A, ResponseCode::NoError),
        ("cdn.example.", RecordType::A, ResponseCode::NoError),
        ("other.cdn.example.", RecordType::A, ResponseCode::NXDomain),
        ("west-1.video.cdn.example.", RecordType::A, ResponseCode::NXDomain),
    ] {
        let reply = ask(name, kind);
        assert_eq!((reply.metadata.response_code, data(&reply).len()), (code, 0), "{name}");
        assert_eq!(reply.authorities[0].record_type(), RecordType::SOA);
        assert_eq!(reply.authorities[0].name.to_ascii(), "cdn.example.");
    }
}

#[test]
fn a_name_that_stands_for_another_is_answered_with_what_that_has() {
    let owners = |reply: &Message| {
        let names = reply.answers.iter().map(|record| record.name.to_ascii());
        names.collect::<Vec<_>>()
    };
    let reply = ask_from(
        &with_subnet(query("OLD.cdn.example.", RecordType::A), "10.1.2.0", 24),
        "198.51.100.1",
    );
    assert_eq!(data(&reply), ["www.cdn.example.", "video.cdn.example.", "192.0.2.2"]);
    assert_eq!(owners(&reply), ["OLD.cdn.example.", "www.cdn.example.", "video.cdn.example."]);
    assert_eq!(scope(&reply), Some(8));
    assert_eq!(data(&ask("old.cdn.example.", RecordType::CNAME)), ["www.cdn.example."]);
    assert_eq!(data(&ask("away.cdn.example.", RecordType::A)), ["www.elsewhere.example."]);
    let nothing = ask("gone.cdn.example.", RecordType::A);
    assert_eq!(nothing.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!((nothing.answers.len(), nothing.authorities.len()), (1, 1));
    assert_eq!(ask("loop.cdn.example.", RecordType::A).answers.len(), LINKS_MAX);
    let shut = ask("shut.cdn.example.", RecordType::A);
    assert_eq!(shut.metadata.response_code, ResponseCode::NoError);
    assert_eq!(data(&shut), ["closed.cdn.example."]);
}

#[test]
fn who_is_refused_is_not_told_so_with_authority() {
    let refused = ask("closed.cdn.example.", RecordType::A);
    assert_eq!(refused.metadata.response_code, ResponseCode::Refused);
    assert!(!refused.metadata.authoritative && refused.authorities.is_empty());
}

/// A question with an OPT that has one option, of the client's network, with these bytes.
fn with_option(option: &[u8]) -> Vec<u8> {
    let mut bytes = query("video.cdn.example.", RecordType::A).to_vec().unwrap();
    bytes[11] = 1;
    let length = u8::try_from(option.len()).unwrap();
    bytes.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, length + 4, 0, 8, 0, length]);
    bytes.extend(option);
    bytes
}

#[test]
fn a_network_that_is_malformed_is_said_to_be_so_with_an_opt() {
    let routing = routing();
    for (option, code) in [
        (&[0, 1, 24, 0, 10, 1, 2][..], ResponseCode::NoError),
        (&[], ResponseCode::FormErr),
        (&[0, 9, 24, 0, 10, 1, 2], ResponseCode::FormErr),
        (&[0, 1, 24, 0, 10, 1], ResponseCode::FormErr),
        (&[0, 1, 24, 0, 10, 1, 2, 0], ResponseCode::FormErr),
        (&[0, 1, 20, 0, 10, 1, 2], ResponseCode::FormErr),
        (&[0, 1, 40, 0, 10, 1, 2, 0, 0], ResponseCode::FormErr),
        (&[0, 1, 24, 24, 10, 1, 2], ResponseCode::FormErr),
    ] {
        let (bytes, from) = (with_option(option), [192, 0, 2, 1].into());
        let reply =
            answer(&routing, &routing.settings, &bytes, from, Transport::Udp, UnixMillis(1));
        let reply = Message::from_vec(&reply.unwrap().0).unwrap();
        assert_eq!(reply.metadata.response_code, code, "{option:?}");
        assert!(reply.edns.is_some_and(|edns| edns.max_payload() == 1232), "{option:?}");
        assert_eq!(reply.queries[0].name().to_ascii(), "video.cdn.example.");
    }
}

#[test]
fn what_is_not_a_question_for_us_is_refused() {
    let code = |query: &Message| ask_from(query, "198.51.100.1").metadata.response_code;
    assert_eq!(code(&query("www.example.", RecordType::A)), ResponseCode::Refused);
    assert_eq!(code(&query("cdn.example.", RecordType::AXFR)), ResponseCode::Refused);
    let mut other = query("video.cdn.example.", RecordType::A);
    other.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(code(&other), ResponseCode::Refused);
    let mut other = query("video.cdn.example.", RecordType::A);
    other.metadata.op_code = OpCode::Status;
    assert_eq!(code(&other), ResponseCode::NotImp);
    let mut other = query("video.cdn.example.", RecordType::A);
    other.queries.clear();
    assert_eq!(code(&other), ResponseCode::FormErr);
    let mut newer = query("video.cdn.example.", RecordType::A);
    let mut edns = Edns::new();
    edns.set_version(1);
    newer.edns = Some(edns);
    assert_eq!(u16::from(code(&newer)), u16::from(ResponseCode::BADVERS));
    let dirty = with_subnet(query("video.cdn.example.", RecordType::A), "10.1.2.3", 24);
    let mut bytes = dirty.to_vec().unwrap();
    // hickory writes three bytes of the address; the last of them gets a bit beyond the prefix.
    let at = bytes.len() - 5;
    bytes[at] = 20;
    let routing = routing();
    let reply = |bytes: &[u8]| {
        let from = [192, 0, 2, 1].into();
        answer(&routing, &routing.settings, bytes, from, Transport::Udp, UnixMillis(1))
    };
    assert_eq!(reply(&bytes).unwrap().1, ResponseCode::FormErr);
    let whole = query("video.cdn.example.", RecordType::A).to_vec().unwrap();
    assert_eq!(reply(&whole[..whole.len() - 1]).unwrap().1, ResponseCode::FormErr);
    assert!(reply(&whole[..11]).is_none());
    let mut answered = whole;
    answered[2] |= 0x80;
    assert!(reply(&answered).is_none(), "an answer is not answered");
}

#[test]
fn what_is_too_long_for_a_datagram_is_cut_and_comes_over_tcp() {
    let many: Vec<String> = (0..60).map(|at| format!("\"192.0.2.{at}\"")).collect();
    let text = TEXT.replacen("\"192.0.2.1\"", &many.join(","), 1);
    let routing = Routing::new(read(&text).unwrap(), None).unwrap();
    let reply = |query: &Message, transport| {
        let from = [198, 51, 100, 1].into();
        let bytes = query.to_vec().unwrap();
        let (bytes, _) =
            answer(&routing, &routing.settings, &bytes, from, transport, UnixMillis(1)).unwrap();
        (bytes.len(), Message::from_vec(&bytes).unwrap())
    };
    let plain = query("video.cdn.example.", RecordType::A);
    let (length, short) = reply(&plain, Transport::Udp);
    assert!(length <= 512 && short.metadata.truncation && short.answers.is_empty());
    assert_eq!(short.queries, plain.queries);
    let (length, whole) = reply(&plain, Transport::Tcp);
    assert!(length > 512 && !whole.metadata.truncation && whole.answers.len() == 60);
    let (length, whole) = reply(&with_subnet(plain, "10.9.0.0", 16), Transport::Udp);
    assert!(length <= 1232 && !whole.metadata.truncation);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_message_hurts(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        is_noise in any::<bool>(), kind in any::<u16>(), bits in 0..=32_u8,
    ) {
        let routing = routing();
        let kind = RecordType::from(kind);
        let mut bytes = if is_noise {
            noise
        } else {
            with_subnet(query("a.video.cdn.example.", kind), "10.0.0.0", bits).to_vec().unwrap()
        };
        for (at, byte) in hits {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        for transport in [Transport::Udp, Transport::Tcp] {
            let from = [10, 0, 0, 1].into();
            let reply = answer(&routing, &routing.settings, &bytes, from, transport, UnixMillis(1));
            if let Some((reply, _)) = reply {
                prop_assert!(transport == Transport::Tcp || reply.len() <= 1232);
                prop_assert_eq!(&reply[..2], &bytes[..2]);
                prop_assert!(reply[2] & 0x80 != 0);
            }
        }
    }
}
