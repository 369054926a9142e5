//! What the papers print, transcribed: facts, each with its place.

/// 000: channel density and cost of a rack.
pub(crate) const P000: &str = "000: Increase CDN Channel Density at a Reduced TCO with Intel Optane \
                               Technology (AT&T and Intel, 2022)";
/// 001: throughput of a node.
pub(crate) const P001: &str = "001: Delivering up to 500 Gbps Throughput for Next-Gen CDNs (Varnish \
                               Software and Intel, 2021)";
/// 002: energy, cost and carbon of sites.
pub(crate) const P002: &str = "002: Tests Show Energy Management Impact of Intel-based Varnish CDS \
                               (Varnish Software and Intel, 2023)";
/// 003: an edge platform of a mobile network.
pub(crate) const P003: &str = "003: Case Study of Scaled-Up SKT 5G MEC Reference Architecture (SK \
                               Telecom and Intel)";
/// 004: a node with large QLC drives.
pub(crate) const P004: &str = "004: Dense Storage Enables More Responsive Content Delivery Networks \
                               (StorageReview, 2023)";

/// Sites of Tables 2 and 3 of 002, as the inputs write them.
pub(crate) const SITES: [&str; 5] =
    ["100 Gbit/s", "200 Gbit/s", "400 Gbit/s", "800 Gbit/s", "1 Tbit/s"];

/// Servers of Tables 2 and 3 of 002, as the inputs write them.
pub(crate) const SERVERS: [&str; 5] = [
    "10 Gbit/s servers",
    "25 Gbit/s servers",
    "100 Gbit/s servers",
    "200 Gbit/s servers",
    "400 Gbit/s servers",
];

/// 002 Table 2: energy in a year, MWh; a row for each of [`SERVERS`], a column for each of [`SITES`].
pub(crate) const TABLE_2: [[&str; 5]; 5] = [
    ["29.36", "55.26", "107.06", "214.12", "269.38"],
    ["17.27", "31.08", "58.71", "117.42", "148.50"],
    ["6.48", "9.50", "15.54", "27.63", "33.67"],
    ["6.56", "6.56", "9.67", "15.89", "18.99"],
    ["12.78", "12.78", "12.78", "16.06", "19.34"],
];

/// 002 Table 3: carbon in five years, tCO2e; as [`TABLE_2`].
pub(crate) const TABLE_3: [[&str; 5]; 5] = [
    ["26.65", "50.16", "97.18", "194.35", "244.51"],
    ["15.67", "28.21", "53.29", "106.58", "134.79"],
    ["5.88", "8.62", "14.11", "25.08", "30.56"],
    ["5.96", "5.96", "8.78", "14.42", "17.24"],
    ["11.60", "11.60", "11.60", "14.58", "17.55"],
];

/// 002 conclusion: energy saved in a year at 400 Gbit/s, MWh, by the old servers.
pub(crate) const SAVED_ENERGY: [(&str, &str); 2] =
    [("25 by 200, as in the conclusion", "45.59"), ("40 by 200, as in the conclusion", "31.77")];

/// 002 energy consumption modeling: what it says energy costs, in USD/kWh. The conclusion's sums need ten
/// times as much.
pub(crate) const STATED_PRICE: f64 = 0.0125;

/// 002 conclusion: energy cost of five more years, USD, and the digits it is printed to.
pub(crate) const SAVED_COST: [(&str, f64); 2] =
    [("25 by 200, as in the conclusion", 42_700.0), ("40 by 200, as in the conclusion", 29_000.0)];

/// 002 conclusion: carbon avoided, tCO2e.
pub(crate) const SAVED_CARBON: [(&str, &str); 2] =
    [("25 by 200, as in the conclusion", "41.38"), ("40 by 200, as in the conclusion", "28.84")];

/// 002 below Figure 5: carbon intensity of the mix, kgCO2e/MWh.
pub(crate) const MIX_INTENSITY: &str = "181.54";

/// 000 Tables 1 and 4: configuration and channels in a virtual machine; and 000 §2.2.3, §2.3.1:
/// channels for a socket.
pub(crate) const CHANNELS: [(&str, f64, f64, &str); 5] = [
    ("DRAM", 100.0, 200.0, "000 Table 1"),
    ("PMem 2-2-1", 175.0, 350.0, "000 Table 1"),
    ("PMem 2-2-2", 250.0, 500.0, "000 Table 1"),
    ("PMem 2-2-2, 2nd gen", 250.0, 500.0, "000 Table 4"),
    ("PMem 2-2-2-2, 3rd gen", 325.0, 650.0, "000 Table 4"),
];

/// 000 Table 3: sizes named in the URLs of the eleven objects, kB, in the order of the inputs. The
/// column of object sizes is in the inputs themselves.
pub(crate) const URL_SIZES_KB: [f64; 11] =
    [405.0, 4770.0, 443.0, 1106.0, 680.0, 72.0, 268.0, 3536.0, 2418.0, 1633.0, 15360.0];

/// 000 key finding: channels "per server" of the 3rd generation configuration.
pub(crate) const FINDING_CHANNELS: f64 = 700.0;

/// 000 §2.4: cost findings. Configuration, compared with, change in cost per TB, as printed.
pub(crate) const COST_FINDINGS: [(&str, &str, f64, &str); 3] = [
    ("PMem 2-2-1", "DRAM", -0.30, "30 % lower"),
    ("PMem 2-2-2", "PMem 2-2-1", 0.14, "14 % higher"),
    ("PMem 2-2-2-2, 3rd gen", "DRAM", -0.72, "up to 72 % lower"),
];
