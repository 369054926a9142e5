//! The JSON of ETSI GS MEC 011, with its names and nothing else.

use serde::{Deserialize, Serialize};

/// TrafficRule, §7.1.2.2.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrafficRule {
    /// Identifies the rule.
    pub traffic_rule_id: String,
    /// Whether answers are handled in the same context.
    pub filter_type: FilterType,
    /// 0 is the highest, 255 the lowest.
    pub priority: u16,
    /// At least one filter; any of them suffices.
    pub traffic_filter: Vec<TrafficFilter>,
    /// What is done.
    pub action: Action,
    /// Where to; for in-line apps two, the client's side first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_more")]
    pub dst_interface: Vec<DestinationInterface>,
    /// Whether it takes part.
    pub state: State,
}

/// Kind of a filter.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum FilterType {
    /// Packets of a flow in both directions.
    Flow,
    /// Each packet by itself.
    Packet,
}

/// What is done with a packet.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Action {
    /// Drop it.
    Drop,
    /// Give it to the app without its tunnel.
    ForwardDecapsulated,
    /// Give it to the app as it came.
    ForwardEncapsulated,
    /// Let it through: past every other rule, or through an in-line app.
    Passthrough,
    /// Give the app a copy without its tunnel.
    DuplicateDecapsulated,
    /// Give the app a copy as it came.
    DuplicateEncapsulated,
}

/// Whether a rule takes part.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// It does.
    Active,
    /// It does not.
    Inactive,
}

/// TrafficFilter, §7.1.5.2.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TrafficFilter {
    /// Addresses, prefixes or `first-last`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub src_address: Vec<String>,
    /// As `src_address`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dst_address: Vec<String>,
    /// Ports or `first-last`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub src_port: Vec<String>,
    /// As `src_port`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dst_port: Vec<String>,
    /// Numbers or names of transport protocols.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocol: Vec<String>,
    /// Tags of clients.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tag: Vec<String>,
    /// Tunnel's source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub src_tunnel_address: Vec<String>,
    /// Tunnel's target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tgt_tunnel_address: Vec<String>,
    /// Tunnel's source port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub src_tunnel_port: Vec<String>,
    /// Tunnel's destination port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dst_tunnel_port: Vec<String>,
    /// Class of the bearer.
    #[serde(rename = "qCI", skip_serializing_if = "Option::is_none")]
    pub qci: Option<i64>,
    /// DSCP of IPv4 packets.
    #[serde(rename = "dSCP", skip_serializing_if = "Option::is_none")]
    pub dscp: Option<i64>,
    /// Traffic class of IPv6 packets.
    #[serde(rename = "tC", skip_serializing_if = "Option::is_none")]
    pub traffic_class: Option<i64>,
}

/// DestinationInterface, §7.1.5.3.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DestinationInterface {
    /// `MAC` or `IP`; `TUNNEL` is not offered.
    pub interface_type: String,
    /// Of type `TUNNEL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel_info: Option<TunnelInfo>,
    /// Of type `MAC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_mac_address: Option<String>,
    /// Of type `MAC`: that of the app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_mac_address: Option<String>,
    /// Of type `IP`: that of the app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_ip_address: Option<String>,
}

/// TunnelInfo, §7.1.5.4.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TunnelInfo {
    /// Such as `GTP_U`.
    pub tunnel_type: String,
    /// Target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel_dst_address: Option<String>,
    /// Source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel_src_address: Option<String>,
}

/// Editions of the standard differ in whether there is one object here or a list.
fn one_or_more<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Vec<DestinationInterface>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        One(DestinationInterface),
        More(Vec<DestinationInterface>),
    }
    Ok(match Either::deserialize(from)? {
        Either::One(one) => vec![one],
        Either::More(more) => more,
    })
}
