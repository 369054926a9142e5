//! What runs apps. A driver does one thing at a time for an instance and knows no platform: each of its
//! acts may be done again when it was done before, whole or in part.

use freshet_base::private;
use freshet_package::image::{self, Image};
use freshet_router::rule::wire::TrafficFilter;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// How an instance is run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Spec {
    /// Its identifier.
    pub instance: String,
    /// Its name for what runs it.
    pub name: String,
    /// What it was granted, by name: another one when it comes to another host.
    pub grant: String,
    /// What it is made of.
    pub package: Package,
    /// A folder of its own, on the machine that runs it.
    #[serde(skip)]
    pub folder: PathBuf,
    /// What it may use at most, in thousandths of a processor.
    pub cpu_milli_max: u64,
    /// As well, in MiB.
    pub memory_mib_max: u64,
    /// What it may write to files, in MiB, where what runs it holds it to that.
    pub disk_mib_max: u64,
    /// Which host it is to run on, where there are several.
    pub host: String,
    /// Whole ones that are its own, by name, where what runs it has any.
    pub accelerators: BTreeMap<String, u64>,
    /// How it is reached.
    pub network: Network,
    /// `NAME=value`, each, besides what the image has.
    pub environment: Vec<String>,
}

/// What an instance is made of.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Package {
    /// The SHA-256 of its archive, in hexadecimal digits.
    pub sha256: String,
    /// The image in it.
    pub image: String,
    /// The folder that has the archive, and what was in it, on the machine that runs the instance.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Package {
    /// In its folder, what came: an archive.
    pub const ARCHIVE: &str = "package.csar";
    /// And what was in it.
    pub const UNPACKED: &str = "unpacked";

    /// Where the image is.
    fn image(&self) -> PathBuf {
        self.folder.join(Self::UNPACKED).join(&self.image)
    }
}

/// The network of an instance.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Network {
    /// Which of the host's.
    pub slot: u32,
    /// The host's address in it.
    pub host: Ipv4Addr,
    /// The instance's own.
    pub app: Ipv4Addr,
    /// Addresses and networks in whose place the instance answers.
    pub answers_for: Vec<String>,
    /// What it may send at most, in bits per second.
    pub sends_bps_max: Option<u64>,
    /// What it may be sent at most, in bits per second, where what runs it holds that: the edge router does else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receives_bps_max: Option<u64>,
    /// What some of what it sends has for itself, where what runs it tells that apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends_apart: Vec<SendsApart>,
    /// The way of packets from another machine's edge router, where they are led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
}

/// A tunnel of VXLAN (RFC 7348) between an edge router's machine and an instance on another one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Wire {
    /// The network's identifier.
    pub vni: u32,
    /// Address of the edge router's machine.
    pub near: Ipv4Addr,
    /// Address of the machine that runs the instance.
    pub far: Ipv4Addr,
    /// Longest IP packet in it, in bytes.
    pub mtu: u16,
}

impl Wire {
    /// What a frame of it has besides its IP packet, in bytes: its own header of Ethernet, and those of VXLAN, UDP and
    /// IPv4.
    pub const HEADER_BYTES: u16 = 50;
    /// Longest packets, in bytes: what IPv6 needs, to what jumbo frames carry.
    pub const MTU_BYTES: RangeInclusive<u16> = 1280..=9216 - Self::HEADER_BYTES;
    /// Identifiers: RFC 7348 has 24 bits for them.
    pub const VNIS: RangeInclusive<u32> = 1..=(1 << 24) - 1;
    /// Networks that have wires: their addresses have 14 bits.
    pub const SLOTS_MAX: u32 = 1 << 14;

    /// The address of the edge router's machine in all of them. It is a link-local one (RFC 3927), as nobody else
    /// has to reach it.
    pub const NEAR: Ipv4Addr = Ipv4Addr::new(169, 254, 128, 1);

    /// The address of an instance in its wire: another than [`Network::app`], which others reach without it.
    pub fn address(slot: u32) -> Ipv4Addr {
        (u32::from(Ipv4Addr::new(169, 254, 64, 0)) + slot % Self::SLOTS_MAX).into()
    }
}

/// Some of what an instance sends.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SendsApart {
    /// Which: what any of these accepts as it goes, or with source and destination exchanged.
    pub filter: Vec<TrafficFilter>,
    /// What it may have, in bits per second.
    pub bps_max: u64,
}

/// The ends of the pairs of an app's network: of veth, and of its wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The host's.
    Host = 1,
    /// The app's.
    App = 2,
    /// The app's, of its wire.
    Wire = 3,
    /// The edge router's, of that.
    Near = 4,
}

/// The host's end of an app's network, by its name.
pub fn device(slot: u32) -> String {
    format!("mec{slot}")
}

/// The hardware address of an end: a local one (IEEE 802, U/L bit) that says where it belongs, the same at
/// every start.
pub fn mac(slot: u32, end: End) -> String {
    format!("02:4d:45:{:02x}:{:02x}:{:02x}", slot >> 8 & 0xff, slot & 0xff, end as u8)
}

/// How an instance is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Health {
    /// It runs, and takes connections where its image says that it does.
    Up,
    /// It runs, and takes none.
    Silent,
    /// It is about to run, as soon as there is room for it and its image.
    Coming,
    /// It does not run.
    Gone,
    /// Its host is lost, and does not run it any more.
    Lost,
}

/// Why something is not done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Trouble {
    /// It will not be by itself.
    Lasting(String),
    /// Who has to do it cannot be asked now, or is about to: it may be done later.
    Passing(String),
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Lasting(why)
    }
}

impl Trouble {
    /// Why.
    pub fn why(&self) -> &str {
        match self {
            Self::Lasting(why) | Self::Passing(why) => why,
        }
    }
}

/// Runs instances. Calls may take seconds and block.
pub trait Driver: std::fmt::Debug + Send + Sync {
    /// Makes files of the image, and says which ports it serves, when they are there.
    fn unpack(&self, spec: &Spec) -> Result<Option<Vec<u16>>, Trouble>;
    /// Gives it a network, in place of what is left of one.
    fn link(&self, spec: &Spec) -> Result<(), Trouble>;
    /// Has it run, and says whether it does already; one that runs stays as it is.
    fn start(&self, spec: &Spec) -> Result<bool, Trouble>;
    /// Holds what it sends, and is sent where that is for it to hold, to what it may.
    fn shape(&self, spec: &Spec) -> Result<(), Trouble>;
    /// Looks how it is.
    fn health(&self, spec: &Spec) -> Result<Health, Trouble>;
    /// Has it end, by force where that is said, and says whether nothing of it runs any more.
    fn stop(&self, spec: &Spec, is_forced: bool) -> Result<bool, Trouble>;
    /// Takes its network away.
    fn unlink(&self, spec: &Spec) -> Result<(), Trouble>;
    /// Removes its files.
    fn clear(&self, spec: &Spec) -> Result<(), Trouble>;
    /// The last words of its output.
    fn last_words(&self, spec: &Spec) -> String;
    /// Hosts that nothing can be run on now.
    fn away(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
}

/// In the folder of an instance: what its image says.
const IMAGE: &str = "image.json";
/// The image's files.
pub(crate) const ROOTFS: &str = "rootfs";

/// Unpacks the image of an instance, once, and says which ports it serves. `settle` is given its files before what the
/// image says is kept.
pub(crate) fn unpack(
    spec: &Spec,
    settle: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<Vec<u16>, Trouble> {
    let folder = spec.folder.as_path();
    if folder.join(IMAGE).exists() {
        return Ok(image_of(folder)?.ports);
    }
    let say = |error: io::Error| format!("{}: {error}", folder.display());
    clear(folder).map_err(say)?;
    fs::create_dir(folder).map_err(say)?;
    let rootfs = folder.join(ROOTFS);
    let image = image::unpack(&spec.package.image(), &rootfs)
        .map_err(|error| format!("the image: {error}"))?;
    settle(&rootfs).and_then(|()| keep_image(folder, &image)).map_err(say)?;
    Ok(image.ports)
}

/// Keeps what an image says: there or not there, also after the power fails.
fn keep_image(folder: &Path, image: &Image) -> io::Result<()> {
    let text = serde_json::to_vec(image).expect("an image is plain data");
    private::replace(&folder.join(IMAGE), &text)
}

/// What is kept of an image.
pub(crate) fn image_of(folder: &Path) -> Result<Image, String> {
    let path = folder.join(IMAGE);
    let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes a folder with all that is in it, where there is one.
pub(crate) fn clear(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
