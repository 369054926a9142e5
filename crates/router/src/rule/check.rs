//! Checks a set of rules as a whole: all of it is good, or every mistake is named with its place.

use super::name::{NAMES_MAX, Names, wanted};
use super::wire::{Action, DestinationInterface, FilterType, State, TrafficFilter, TrafficRule};
use super::{Act, AddressRange, Filter, LIST_MAX, RULES_MAX, Rule};
use crate::app::{Apps, Kind, mac_of};
use crate::packet::AddressOf;
use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Longest identifier or tag, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// What is wrong with a set, and where.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize)]
pub struct Mistake {
    /// Such as `rules[3].trafficFilter[0].dstPort[1]`.
    pub place: String,
    /// What is wrong and what is right.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.place, self.what)
    }
}

/// Reads a JSON list of rules.
///
/// # Errors
/// One mistake for each rule that is no TrafficRule, or one for a text that is no list.
pub fn read(rules: serde_json::Value) -> Result<Vec<TrafficRule>, Vec<Mistake>> {
    let wrong = |place: String, what: String| Mistake { place, what };
    let serde_json::Value::Array(list) = rules else {
        return Err(vec![wrong("rules".to_owned(), "must be a list of TrafficRule".to_owned())]);
    };
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (index, value) in list.into_iter().enumerate() {
        match serde_json::from_value(value) {
            Ok(rule) => good.push(rule),
            Err(error) => bad.push(wrong(format!("rules[{index}]"), error.to_string())),
        }
    }
    if bad.is_empty() { Ok(good) } else { Err(bad) }
}

/// Checks a whole set against the apps there are, with the addresses of names that are known. The app of
/// a rule that is not active need not be there.
///
/// # Errors
/// Every mistake, with its place; then nothing of the set is to be used.
pub fn check(rules: &[TrafficRule], apps: &Apps, names: &Names) -> Result<Vec<Rule>, Vec<Mistake>> {
    let mut mistakes = Mistakes(Vec::new());
    if rules.len() > RULES_MAX {
        mistakes.add("rules", format!("has {} rules; {RULES_MAX} are the most", rules.len()));
    }
    let many = wanted(rules).len();
    if many > NAMES_MAX {
        mistakes.add("rules", format!("have {many} names; {NAMES_MAX} are the most"));
    }
    let mut seen = HashSet::new();
    let mut checked = Vec::with_capacity(rules.len());
    for (index, rule) in rules.iter().take(RULES_MAX).enumerate() {
        let place = format!("rules[{index}]");
        let id = &rule.traffic_rule_id;
        if id.is_empty() || id.len() > NAME_BYTES_MAX {
            let what = format!("must have 1 to {NAME_BYTES_MAX} bytes");
            mistakes.add(&format!("{place}.trafficRuleId"), what);
        }
        if !seen.insert(id.as_str()) {
            mistakes.add(&format!("{place}.trafficRuleId"), format!("`{id}` is there twice"));
        }
        let priority = u8::try_from(rule.priority).unwrap_or_else(|_| {
            let what = format!("is {}; it goes from 0, the highest, to 255", rule.priority);
            mistakes.add(&format!("{place}.priority"), what);
            u8::MAX
        });
        if rule.traffic_filter.is_empty() {
            mistakes.add(&format!("{place}.trafficFilter"), "must have at least one filter");
        }
        let filters = rule.traffic_filter.iter().enumerate().map(|(number, filter)| {
            read_filter(filter, &format!("{place}.trafficFilter[{number}]"), names, &mut mistakes)
        });
        let mut filters: Vec<Filter> = filters.collect();
        let (act, app) = read_action(rule, &place, apps, &mut mistakes);
        let network = app.and_then(|app| apps.get(app)?.network);
        for filter in &mut filters {
            filter.network = network;
        }
        checked.push(Rule {
            id: id.clone(),
            number: index as u16,
            is_flow: rule.filter_type == FilterType::Flow,
            priority,
            filters,
            act,
            app,
            is_active: rule.state == State::Active,
            limiter: 0,
            parts: Vec::new(),
        });
    }
    if mistakes.0.is_empty() { Ok(checked) } else { Err(mistakes.0) }
}

/// Reads filters that tell packets of rules apart by what these say of themselves: addresses, ports and
/// protocols.
///
/// # Errors
/// Every mistake, with its place below `place`.
pub fn parts(filters: &[TrafficFilter], place: &str) -> Result<Vec<Filter>, Vec<Mistake>> {
    let mut mistakes = Mistakes(Vec::new());
    let mut read = Vec::with_capacity(filters.len());
    for (number, filter) in filters.iter().enumerate() {
        let place = format!("{place}[{number}]");
        let filter = read_filter(filter, &place, &Names::default(), &mut mistakes);
        let only = Filter {
            addresses: filter.addresses.clone(),
            ports: filter.ports.clone(),
            protocols: filter.protocols.clone(),
            ..Filter::default()
        };
        if only != filter {
            mistakes.add(&place, "must have addresses, ports and protocols alone");
        } else if only == Filter::default() {
            mistakes.add(&place, "must have an address, a port or a protocol");
        }
        read.push(only);
    }
    if mistakes.0.is_empty() { Ok(read) } else { Err(mistakes.0) }
}

struct Mistakes(Vec<Mistake>);

impl Mistakes {
    fn add(&mut self, place: &str, what: impl Into<String>) {
        self.0.push(Mistake { place: place.to_owned(), what: what.into() });
    }

    /// Reads each text of a list; what cannot be read is a mistake of its place.
    fn each<T>(
        &mut self,
        list: &[String],
        place: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        if list.len() > LIST_MAX {
            self.add(place, format!("has {} values; {LIST_MAX} are the most", list.len()));
        }
        let mut good = Vec::new();
        for (index, text) in list.iter().take(LIST_MAX).enumerate() {
            match read(text.trim()) {
                Ok(value) => good.push(value),
                Err(what) => self.add(&format!("{place}[{index}]"), what),
            }
        }
        good
    }

    fn number(&mut self, value: Option<i64>, most: u8, place: &str) -> Option<u8> {
        let value = value?;
        let read = u8::try_from(value).ok().filter(|value| *value <= most);
        if read.is_none() {
            self.add(place, format!("is {value}; it goes from 0 to {most}"));
        }
        read
    }
}

fn read_filter(
    filter: &TrafficFilter,
    place: &str,
    names: &Names,
    mistakes: &mut Mistakes,
) -> Filter {
    let at = |field: &str| format!("{place}.{field}");
    let server = |text: &str| {
        names.ranges(text).unwrap_or_else(|| read_addresses(text).map(|range| vec![range]))
    };
    if filter.qci.is_some() {
        mistakes.add(&at("qCI"), "is in no packet; use the client's tag instead");
    }
    let tunnel_ports =
        [(&filter.src_tunnel_port, "srcTunnelPort"), (&filter.dst_tunnel_port, "dstTunnelPort")];
    for (list, field) in tunnel_ports {
        let ranges = mistakes.each(list, &at(field), read_ports);
        if !ranges.is_empty() && !ranges.iter().any(|range| range.contains(&crate::gtp::PORT)) {
            mistakes.add(&at(field), "never matches: tunnels are at port 2152");
        }
    }
    Filter {
        addresses: [
            mistakes.each(&filter.src_address, &at("srcAddress"), server).concat(),
            mistakes.each(&filter.dst_address, &at("dstAddress"), server).concat(),
        ],
        ports: [
            mistakes.each(&filter.src_port, &at("srcPort"), read_ports),
            mistakes.each(&filter.dst_port, &at("dstPort"), read_ports),
        ],
        protocols: mistakes.each(&filter.protocol, &at("protocol"), read_protocol),
        tags: mistakes.each(&filter.tag, &at("tag"), read_tag),
        tunnels: [
            mistakes.each(&filter.src_tunnel_address, &at("srcTunnelAddress"), read_addresses),
            mistakes.each(&filter.tgt_tunnel_address, &at("tgtTunnelAddress"), read_addresses),
        ],
        dscp: mistakes.number(filter.dscp, 63, &at("dSCP")),
        traffic_class: mistakes.number(filter.traffic_class, 255, &at("tC")),
        // Its rule's app knows.
        network: None,
    }
}

/// An address, a prefix, or a range of either.
pub(crate) fn read_addresses(text: &str) -> Result<AddressRange, String> {
    let range = match text.split_once('-') {
        None => read_prefix(text)?,
        Some((first, last)) => {
            let (first, last) = (read_prefix(first.trim())?, read_prefix(last.trim())?);
            if first.is_ipv4() != last.is_ipv4() {
                return Err(format!("`{text}` goes from one IP version to the other"));
            }
            AddressRange { first: first.first, last: last.last }
        }
    };
    if range.first > range.last {
        return Err(format!("`{text}` ends before it begins"));
    }
    Ok(range)
}

fn read_prefix(text: &str) -> Result<AddressRange, String> {
    let wrong =
        || format!("`{text}` is no address, such as 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32");
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let number = AddressOf::from(address).0;
    // IPv4 mapped into IPv6 by whoever wrote it would be taken for IPv4.
    if address.is_ipv6() && crate::packet::unmapped(number).is_some() {
        return Err(format!("`{text}`: write IPv4 addresses as IPv4"));
    }
    let width: u32 = if address.is_ipv4() { 32 } else { 128 };
    let length: u32 = length.map_or(Ok(width), |text| text.parse().map_err(|_| wrong()))?;
    if length > width {
        return Err(format!("`{text}` is longer than the {width} bits of an address"));
    }
    let free = width - length;
    let host = if free == 128 { u128::MAX } else { (1 << free) - 1 };
    if number & host != 0 && length < width {
        let base = AddressOf(number & !host);
        return Err(format!("`{text}` has bits behind its length; the prefix is {base}/{length}"));
    }
    Ok(AddressRange { first: number, last: number | host })
}

fn read_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || format!("`{text}` is no port, such as 443 or 8000-8080");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first: u16 = first.trim().parse().map_err(|_| wrong())?;
    let last: u16 = last.trim().parse().map_err(|_| wrong())?;
    if first > last {
        return Err(format!("`{text}` ends before it begins"));
    }
    Ok(first..=last)
}

fn read_protocol(text: &str) -> Result<u8, String> {
    const NAMES: [(&str, u8); 7] = [
        ("ICMP", 1),
        ("TCP", 6),
        ("UDP", 17),
        ("ESP", 50),
        ("AH", 51),
        ("ICMPV6", 58),
        ("SCTP", 132),
    ];
    let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map(|(_, number)| *number).or_else(|| text.parse().ok()).ok_or_else(|| {
        let names = NAMES.map(|(name, _)| name).join(", ");
        format!("`{text}` is no protocol; write its number or one of {names}")
    })
}

fn read_tag(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        return Err(format!("must have 1 to {NAME_BYTES_MAX} bytes"));
    }
    Ok(text.to_owned())
}

fn read_action(
    rule: &TrafficRule,
    place: &str,
    apps: &Apps,
    mistakes: &mut Mistakes,
) -> (Act, Option<u8>) {
    let to = &rule.dst_interface;
    let place = format!("{place}.dstInterface");
    let wanted = match rule.action {
        Action::Drop => {
            if !to.is_empty() {
                mistakes.add(&place, "must not be there for DROP");
            }
            return (Act::Drop, None);
        }
        Action::Passthrough if to.is_empty() => return (Act::Pass, None),
        Action::Passthrough | Action::ForwardEncapsulated => Kind::InLine,
        Action::ForwardDecapsulated => Kind::Breakout,
        Action::DuplicateEncapsulated => Kind::Tap { decapsulated: false },
        Action::DuplicateDecapsulated => Kind::Tap { decapsulated: true },
    };
    if to.is_empty() {
        mistakes.add(&place, "is missing: which app gets the packets?");
        return (Act::Pass, None);
    }
    if to.len() > 2 {
        mistakes.add(&place, "has more than two interfaces");
    }
    let mut found = None;
    for (index, interface) in to.iter().take(2).enumerate() {
        let place = format!("{place}[{index}]");
        match find_app(interface, apps) {
            Ok(app) if found.is_some_and(|one| one != app) => {
                mistakes.add(&place, "belongs to another app than the first");
            }
            Ok(app) => found = Some(app),
            Err(Unfound::Unknown) if rule.state == State::Inactive => {}
            Err(Unfound::Unknown) => {
                let names: Vec<&str> = apps.iter().map(|(_, app)| app.name.as_str()).collect();
                let known =
                    if names.is_empty() { "there are none".into() } else { names.join(", ") };
                mistakes.add(&place, format!("is of no app; known apps: {known}"));
            }
            Err(Unfound::Wrong(what)) => mistakes.add(&place, what),
        }
    }
    if let Some(app) = found.and_then(|number| apps.get(number))
        && app.kind != wanted
    {
        let what = format!("app `{}` is {}, and this action needs {wanted}", app.name, app.kind);
        mistakes.add(&place, what);
    }
    let act = match wanted {
        Kind::InLine => Act::InLine,
        Kind::Breakout => Act::Breakout,
        Kind::Tap { .. } => Act::Tap,
    };
    (act, found)
}

/// Why an interface is that of no app.
enum Unfound {
    /// None has it.
    Unknown,
    /// None can have it.
    Wrong(String),
}

fn find_app(interface: &DestinationInterface, apps: &Apps) -> Result<u8, Unfound> {
    let wrong = |what: &str| Unfound::Wrong(what.to_owned());
    let found = match interface.interface_type.as_str() {
        "MAC" => {
            let text = interface.dst_mac_address.as_deref();
            let text = text.ok_or_else(|| wrong("lacks dstMacAddress"))?;
            let mac = mac_of(text).ok_or_else(|| wrong(&format!("`{text}` is no MAC address")))?;
            apps.iter().find(|(_, app)| app.legs.iter().any(|leg| leg.mac == mac))
        }
        "IP" => {
            let text = interface.dst_ip_address.as_deref();
            let text = text.ok_or_else(|| wrong("lacks dstIpAddress"))?;
            let address: IpAddr =
                text.parse().map_err(|_| wrong(&format!("`{text}` is no IP address")))?;
            apps.iter().find(|(_, app)| app.addresses.contains(&address))
        }
        other => {
            return Err(wrong(&format!("interfaceType `{other}` is not offered; use MAC or IP")));
        }
    };
    found.map(|(number, _)| number).ok_or(Unfound::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(change: impl FnOnce(&mut serde_json::Value)) -> serde_json::Value {
        let mut rule = json!({
            "trafficRuleId": "r", "filterType": "FLOW", "priority": 1, "action": "DROP",
            "trafficFilter": [{"dstAddress": ["192.0.2.0/24"], "dstPort": ["80", "8000-8080"]}],
            "state": "ACTIVE",
        });
        change(&mut rule);
        rule
    }

    fn mistakes(rules: serde_json::Value) -> Vec<String> {
        let mut apps = Apps::default();
        apps.put(crate::app::tests::app()).expect("there is room");
        let result = read(rules).and_then(|rules| check(&rules, &apps, &Names::default()));
        result.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_set_is_read() {
        assert!(mistakes(json!([rule(|_| ())])).is_empty());
        let with_app = rule(|rule| {
            rule["action"] = json!("FORWARD_DECAPSULATED");
            rule["dstInterface"] = json!({"interfaceType": "IP", "dstIpAddress": "203.0.113.10"});
        });
        assert!(mistakes(json!([with_app])).is_empty());
    }

    #[test]
    fn the_app_of_a_rule_has_to_be_there_when_the_rule_is_active() {
        let to_nobody = |state: &str| {
            mistakes(json!([rule(|rule| {
                rule["action"] = json!("FORWARD_DECAPSULATED");
                rule["state"] = json!(state);
                rule["dstInterface"] = json!({"interfaceType": "IP", "dstIpAddress": "10.0.0.9"});
            })]))
        };
        let expected = "rules[0].dstInterface[0]: is of no app; known apps: cache";
        assert_eq!(to_nobody("ACTIVE"), [expected]);
        assert_eq!(to_nobody("INACTIVE"), Vec::<String>::new());
    }

    #[test]
    fn each_mistake_is_named_with_its_place() {
        let filter = |field: &str, value: serde_json::Value| {
            mistakes(json!([rule(|rule| rule["trafficFilter"][0][field] = value)])).join("\n")
        };
        let cases = [
            ("dstAddress", json!(["1.2.3.4", "300.1.1.1"]), "trafficFilter[0].dstAddress[1]"),
            ("srcAddress", json!(["10.0.0.1/8"]), "the prefix is 10.0.0.0/8"),
            ("srcAddress", json!(["10.0.0.9-10.0.0.1"]), "ends before it begins"),
            ("srcAddress", json!(["10.0.0.9-2001:db8::1"]), "one IP version to the other"),
            ("dstPort", json!(["65536"]), "dstPort[0]: `65536` is no port"),
            ("protocol", json!(["QUIC"]), "write its number or one of ICMP, TCP"),
            ("tag", json!([""]), "tag[0]: must have 1"),
            ("qCI", json!(1), "qCI: is in no packet"),
            ("dSCP", json!(64), "from 0 to 63"),
            ("dstTunnelPort", json!(["2123"]), "tunnels are at port 2152"),
            ("uri", json!(["x"]), "unknown field `uri`"),
        ];
        for (field, value, expected) in cases {
            let found = filter(field, value);
            assert!(found.contains(expected), "{field}: {found}");
        }
        let whole = |change: fn(&mut serde_json::Value)| mistakes(json!([rule(change)])).join("\n");
        assert!(whole(|rule| rule["priority"] = json!(256)).contains("rules[0].priority"));
        assert!(whole(|rule| rule["trafficFilter"] = json!([])).contains("at least one filter"));
        assert!(whole(|rule| rule["action"] = json!("FORWARD_AS_IS")).contains("unknown variant"));
        assert!(
            whole(|rule| rule["action"] = json!("FORWARD_DECAPSULATED")).contains("is missing")
        );
        let strange = whole(|rule| {
            rule["action"] = json!("DUPLICATE_ENCAPSULATED");
            rule["dstInterface"] = json!([{"interfaceType": "IP", "dstIpAddress": "203.0.113.10"}]);
        });
        assert!(strange.contains("app `cache` is for breakout"), "{strange}");
        let twice = mistakes(json!([rule(|_| ()), rule(|_| ())])).join("\n");
        assert!(twice.contains("rules[1].trafficRuleId: `r` is there twice"));
    }
}
