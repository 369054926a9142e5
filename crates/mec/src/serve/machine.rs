//! What this machine is.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Its addresses in this network namespace, as the kernel lists them. Where it says nothing there are
/// none.
pub(super) fn own_addresses() -> Vec<IpAddr> {
    let v4 = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let mut own = v4_addresses(&v4);
    own.extend(v6.lines().filter_map(v6_address));
    own.sort();
    own.dedup();
    own
}

/// Leaves of the table of routes that are this host's: an address, and in the next line `host LOCAL`.
fn v4_addresses(table: &str) -> Vec<IpAddr> {
    let lines: Vec<&str> = table.lines().map(str::trim).collect();
    let locals = lines.windows(2).filter(|pair| pair[1].ends_with("host LOCAL"));
    let addresses =
        locals.filter_map(|pair| pair[0].strip_prefix("|-- ")?.parse::<Ipv4Addr>().ok());
    addresses.map(IpAddr::V4).collect()
}

fn v6_address(line: &str) -> Option<IpAddr> {
    let digits = line.split_whitespace().next().filter(|digits| digits.len() == 32)?;
    u128::from_str_radix(digits, 16).ok().map(|bits| Ipv6Addr::from(bits).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let table = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 192.0.2.0\n        /24 link UNICAST\n     \
                     |-- 192.0.2.7\n        /32 host LOCAL\n     |-- 192.0.2.255\n        /32 link BROADCAST\n";
        assert_eq!(v4_addresses(table), ["192.0.2.7".parse::<IpAddr>().unwrap()]);
        let line = "20010db8000000000000000000000001 02 40 00 80     eth0";
        assert_eq!(v6_address(line), "2001:db8::1".parse().ok());
        assert_eq!(v6_address("short"), None);
    }
}
