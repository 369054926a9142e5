//! Networks in which clients' addresses are unique: the network instances of 3GPP TS 23.501, §5.6.12.
//!
//! A core may give one address to two clients, in two data networks or slices. Their tunnels tell them
//! apart on the wire, but what an app answers has only the address; so every client is in a network, and
//! an app answers the clients of one. Which network that is, the core says by its name in PFCP; without
//! it the wire says it by a VLAN or by the core's address. Who is in none that has a name is in the one
//! without.

use super::{Client, Hop};
use crate::rule::AddressRange;

/// Networks that have a name. More clients of one address would fill the part of the table of sessions
/// that is searched for one.
pub const NETWORKS_MAX: usize = 15;
/// Longest name, in bytes: that of a domain.
pub const NAME_BYTES_MAX: usize = 100;
/// VLANs there are.
pub const VLANS: usize = 4096;

/// A network that has a name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Network {
    /// Its name, which its clients have as a tag.
    pub name: String,
    /// What the core calls it, in lower case.
    pub instances: Vec<String>,
    /// VLANs of the wire that are its alone, by their outer tag.
    pub vlans: Vec<u16>,
    /// Addresses of the core's user plane that serve it alone.
    pub cores: Vec<AddressRange>,
}

/// The networks there are. Their numbers begin with 1; 0 is the one without a name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Networks(Vec<Network>);

impl Networks {
    /// These networks.
    ///
    /// # Errors
    /// What of them is not possible.
    pub fn new(networks: Vec<Network>) -> Result<Self, String> {
        if networks.len() > NETWORKS_MAX {
            return Err(format!("network: {NETWORKS_MAX} are the most"));
        }
        let mut seen = std::collections::HashMap::new();
        for network in &networks {
            let place = format!("network.{}", network.name);
            let is_name = |one: char| one.is_ascii_alphanumeric() || matches!(one, '.' | '-' | '_');
            let is_good = !network.name.is_empty()
                && network.name.len() <= NAME_BYTES_MAX
                && network.name.chars().all(is_name);
            if !is_good {
                return Err(format!("{place}: a name has letters, digits, `.`, `-` and `_`"));
            }
            for vlan in &network.vlans {
                if !(1..=4094).contains(vlan) {
                    return Err(format!("{place}.vlans: {vlan} is no VLAN, which are 1 to 4094"));
                }
                if let Some(other) = seen.insert(vlan, &network.name) {
                    return Err(format!("{place}.vlans: {vlan} is `{other}` already"));
                }
            }
        }
        Ok(Self(networks))
    }

    /// Whether no network has a name.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The highest number.
    #[must_use]
    pub const fn last(&self) -> u16 {
        self.0.len() as u16
    }

    /// Their names, in the order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|network| network.name.as_str())
    }

    /// The name of a number; none for 0.
    #[must_use]
    pub fn name(&self, number: u16) -> Option<&str> {
        let place = usize::from(number).checked_sub(1)?;
        self.0.get(place).map(|network| network.name.as_str())
    }

    /// The number of a name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u16> {
        self.number_where(|network| network.name == name)
    }

    /// The network the core calls so.
    #[must_use]
    pub fn of_instance(&self, instance: &str) -> Option<u16> {
        let instance = instance.to_ascii_lowercase();
        self.number_where(|network| network.instances.contains(&instance))
    }

    /// The network a frame's VLAN tells.
    #[must_use]
    pub fn of_vlan(&self, hop: &Hop) -> Option<u16> {
        let [kind, control] = hop.tags[0];
        let vlan = control & 0xfff;
        self.number_where(|network| kind != 0 && network.vlans.contains(&vlan))
    }

    /// The network an address of the core's user plane tells.
    #[must_use]
    pub fn of_core(&self, core: u128) -> Option<u16> {
        self.number_where(|network| network.cores.iter().any(|range| range.contains(core)))
    }

    /// Every VLAN that tells a network, with its number.
    pub fn vlans(&self) -> impl Iterator<Item = (u16, u16)> {
        let numbered = self.0.iter().zip(1..);
        numbered.flat_map(|(network, number)| network.vlans.iter().map(move |vlan| (*vlan, number)))
    }

    /// Reads a client as [`Self::text`] writes it.
    #[must_use]
    pub fn client(&self, text: &str) -> Option<Client> {
        match text.split_once('@') {
            None => Client::parse(text),
            Some((address, name)) => Some(Client::parse(address)?.within(self.number(name)?)),
        }
    }

    /// A client for people: `10.45.0.2`, or `10.45.0.2@enterprise` in a network that has a name.
    #[must_use]
    pub fn text(&self, client: Client) -> String {
        match self.name(client.network) {
            None => client.to_string(),
            Some(name) => format!("{client}@{name}"),
        }
    }

    fn number_where(&self, is: impl Fn(&Network) -> bool) -> Option<u16> {
        self.0.iter().position(is).map(|place| place as u16 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(name: &str, vlans: &[u16]) -> Network {
        let instances = vec![name.to_owned()];
        Network { name: name.to_owned(), instances, vlans: vlans.to_vec(), ..Network::default() }
    }

    #[test]
    fn clients_are_read_and_written_with_their_network() {
        let networks = Networks::new(vec![network("enterprise", &[100])]).expect("it is good");
        for text in ["10.45.0.2", "10.45.0.2@enterprise", "2001:db8:1:2::/64@enterprise"] {
            let client = networks.client(text).expect(text);
            assert_eq!(networks.text(client), text);
            assert_eq!(client.network, u16::from(text.contains('@')));
        }
        for wrong in ["10.45.0.2@", "10.45.0.2@other", "@enterprise", "10.45.0.2@a@b"] {
            assert_eq!(networks.client(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_vlan_tells_one_network() {
        let networks = vec![network("one", &[100, 7]), network("two", &[8])];
        let networks = Networks::new(networks).expect("they are good");
        let of = |tags| networks.of_vlan(&Hop { addresses: [[0; 6]; 2], tags });
        assert_eq!(of([[0x8100, 0x2007], [0, 0]]), Some(1), "priority is no part of it");
        assert_eq!(of([[0x88a8, 8], [0x8100, 7]]), Some(2), "the outer tag tells");
        assert_eq!(of([[0x8100, 9], [0, 0]]), None);
        assert_eq!(of([[0, 0], [0, 0]]), None);
    }

    #[test]
    fn mistakes_are_said() {
        let say = |networks| Networks::new(networks).expect_err("there is a mistake");
        assert!(say(vec![network("a@b", &[])]).contains("letters, digits"));
        assert!(say(vec![network("a", &[4095])]).contains("no VLAN"));
        assert!(say(vec![network("a", &[5]), network("b", &[5])]).contains("`a` already"));
        let many = (0..=NETWORKS_MAX).map(|number| network(&format!("n{number}"), &[]));
        assert!(say(many.collect()).contains("15 are the most"));
    }
}
