//! Where the node is, and what to try there.

use super::Arguments;
use freshet_net::address::Address;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The addresses a client on this machine uses.
pub(super) struct Doors {
    /// For HTTP.
    pub(super) clear: SocketAddr,
    /// For HTTPS.
    pub(super) tls: Option<SocketAddr>,
    /// For metrics and control.
    admin: Option<Address>,
}

impl Doors {
    /// The doors at the addresses a node listens on, the one for HTTP first.
    pub(super) fn new(addresses: &[SocketAddr], admin: Option<Address>) -> Option<Self> {
        let mut addresses = addresses.iter().copied().map(reachable);
        Some(Self { clear: addresses.next()?, tls: addresses.next(), admin })
    }

    /// What to try, each line of at most 80 columns with the addresses of a machine's own.
    pub(super) fn introduction(&self, arguments: &Arguments, origin: SocketAddr) -> String {
        let clear = format!("http://{}", self.clear);
        let live = if arguments.channels > 0 { "channel-1" } else { "vod-1" };
        let mut text = String::new();
        let mut line = |name: &str, what: String| {
            writeln!(text, "  {name:<9}{what}").expect("a String takes all");
        };
        line("page", format!("{clear}/"));
        if let Some(tls) = self.tls {
            line("page", format!("https://{tls}/"));
        }
        line("HLS", format!("{clear}/{live}/master.m3u8"));
        line("DASH", format!("{clear}/vod-1/manifest.mpd"));
        line("curl", format!("curl -I {clear}/download/100MB/file.bin"));
        if let Some(admin) = &self.admin {
            // The default is where the command looks by itself; elsewhere the line gets long.
            let command = match admin.to_string().as_str() {
                "127.0.0.1:6080" => format!("freshet explain {clear}/{live}/master.m3u8"),
                other => format!("freshet explain --admin {other} {clear}/"),
            };
            line("explain", command);
            line("metrics", format!("http://{admin}/metrics"));
        }
        line("origin", format!("http://{origin}/"));
        text
    }
}

/// The same door, from this machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    address
}
