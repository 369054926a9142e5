//! What the system says of network interfaces, read from `/sys/class/net`.

use crate::app::mac_of;
use std::fs;
use std::path::PathBuf;

/// A network interface that is there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Interface {
    /// Its name.
    pub(super) name: String,
    /// Its number.
    pub(super) index: u32,
    /// Its own address.
    pub(super) mac: [u8; 6],
    /// Longest IP packet, in bytes.
    pub(super) mtu: u16,
}

fn file(name: &str, what: &str) -> PathBuf {
    ["/sys/class/net", name, what].iter().collect()
}

fn text(name: &str, what: &str) -> Option<String> {
    Some(fs::read_to_string(file(name, what)).ok()?.trim().to_owned())
}

impl Interface {
    /// Looks an interface up.
    ///
    /// # Errors
    /// That there is none of this name.
    pub(super) fn find(name: &str) -> Result<Self, String> {
        // As the kernel has it; those of VLANs have dots.
        let is_name = !matches!(name, "" | "." | "..") && name.len() < 16 && !name.contains('/');
        let found = is_name.then(|| {
            Some(Self {
                name: name.to_owned(),
                index: text(name, "ifindex")?.parse().ok()?,
                mac: mac_of(&text(name, "address")?)?,
                mtu: text(name, "mtu")?.parse().unwrap_or(u16::MAX),
            })
        });
        found.flatten().ok_or_else(|| format!("there is no interface `{name}`; see `ip link`"))
    }

    /// Whether the one of its name is still the same one.
    #[must_use]
    pub(super) fn is_there(&self) -> bool {
        let index = text(&self.name, "ifindex").and_then(|text| text.parse().ok());
        index == Some(self.index)
    }

    /// The bridge it is in.
    #[must_use]
    pub(super) fn bridge(&self) -> Option<String> {
        let link = fs::read_link(file(&self.name, "master")).ok()?;
        let bridge = link.file_name()?.to_str()?.to_owned();
        file(&bridge, "bridge").is_dir().then_some(bridge)
    }

    /// Whether something is at its other end.
    #[must_use]
    pub(super) fn has_carrier(&self) -> bool {
        text(&self.name, "carrier").as_deref() == Some("1")
    }
}

/// Checks that both ends of the wire are in one bridge, which forwards by itself and nothing else: it
/// is what goes on when there is no router.
///
/// # Errors
/// What is to be changed, and how.
pub(super) fn check_floor(ports: &[Interface; 2]) -> Result<(), String> {
    let [access, core] = ports;
    let bridges = [access.bridge(), core.bridge()];
    let how = format!(
        "ip link add br0 type bridge stp_state 0 mcast_snooping 0; ip link set {} master br0; \
         ip link set {} master br0; ip link set br0 up",
        access.name, core.name
    );
    let [Some(bridge), Some(other)] = bridges else {
        return Err(format!(
            "{} and {} must be in one bridge, which carries the wire when there is no router: {how}",
            access.name, core.name
        ));
    };
    if bridge != other {
        return Err(format!(
            "{} is in {bridge} and {} in {other}: one bridge, please",
            access.name, core.name
        ));
    }
    for setting in ["stp_state", "multicast_snooping"] {
        let value = text(&bridge, &format!("bridge/{setting}"));
        if value.is_some_and(|value| value != "0") {
            return Err(format!(
                "{bridge} has {setting} on, and would not pass all frames: \
                 echo 0 > /sys/class/net/{bridge}/bridge/{setting}"
            ));
        }
    }
    if access.mtu != core.mtu {
        return Err(format!(
            "{} has an MTU of {} and {} one of {}: they must be the same",
            access.name, access.mtu, core.name, core.mtu
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_is_no_interface() {
        assert_eq!(Interface::find("lo").map(|found| found.name), Ok("lo".to_owned()));
        for wrong in ["", ".", "..", "../net/lo", "an-interface-that-is-not"] {
            assert!(Interface::find(wrong).is_err_and(|what| what.contains("no interface")));
        }
    }
}
