//! The network of a client, as its resolver says it (RFC 7871).

use crate::decision::prefix::Prefix;
use hickory_proto::op::Edns;
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsCode, EdnsOption};
use std::net::IpAddr;

/// What a query says of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Subnet(Option<ClientSubnet>);

impl Subnet {
    /// What is in a query; `None` where that is malformed (§7.1.2).
    pub(super) fn of(edns: &Edns) -> Option<Self> {
        let Some(EdnsOption::Subnet(subnet)) = edns.option(EdnsCode::Subnet) else {
            return Some(Self(None));
        };
        let width = if subnet.addr().is_ipv4() { 32 } else { 128 };
        let source = subnet.source_prefix();
        let is_clean = source <= width && is_within(subnet.addr(), source);
        (is_clean && subnet.scope_prefix() == 0).then_some(Self(Some(*subnet)))
    }

    /// An address of the client's network, where it may be used.
    pub(super) fn client(&self) -> Option<IpAddr> {
        // With 0 bits the client asks that it is not (§7.1.2).
        self.0.filter(|subnet| subnet.source_prefix() > 0).map(|subnet| subnet.addr())
    }

    /// What is answered: the same network, and for how much of it the answer is. Never for less than
    /// was asked about, since a resolver could not tell its clients apart further.
    pub(super) fn echo(&self, scope_bits: u8, is_believed: bool) -> Option<ClientSubnet> {
        let subnet = self.0?;
        let scope = if is_believed { scope_bits.min(subnet.source_prefix()) } else { 0 };
        Some(ClientSubnet::new(subnet.addr(), subnet.source_prefix(), scope))
    }
}

/// Whether all bits after the prefix are 0. Not by [`Prefix::of`] for IPv4 in IPv6, which it makes IPv4.
fn is_within(address: IpAddr, bits: u8) -> bool {
    match address {
        IpAddr::V4(_) => Prefix::of(address, bits).address == address,
        IpAddr::V6(one) => one.to_bits().checked_shl(u32::from(bits)).unwrap_or(0) == 0,
    }
}
