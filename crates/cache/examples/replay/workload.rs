//! Traces from files and made ones.

use freshet_cache::eviction::{Demand, Objective};
use std::collections::HashMap;
use std::error::Error;

/// Requests in order. Each object has one size throughout, that of its first request.
pub(crate) struct Trace {
    pub(crate) uses: Vec<Demand>,
    pub(crate) footprint_bytes: u64,
}

/// Reads a trace from a file or makes one.
pub(crate) fn load(name: &str, objective: Objective) -> Result<Trace, Box<dyn Error>> {
    if let Some((model, seed)) = name.split_once(':')
        && let Some(make) = MODELS.iter().find(|(known, _)| *known == model)
    {
        return Ok(Trace::new(make.1(&mut Random(seed.parse()?)), objective));
    }
    let bytes = std::fs::read(name).map_err(|error| format!("{name}: {error}"))?;
    let requests = if name.contains(".oracleGeneral") {
        records::<24>(&bytes)
            .map(|record| (number(&record[4..12]), number(&record[12..16])))
            .collect()
    } else if name.ends_with(".i32be") {
        records::<4>(&bytes).map(|record| (u64::from(u32::from_be_bytes(*record)), 1)).collect()
    } else if name.ends_with(".u32le") {
        records::<4>(&bytes).map(|record| (u64::from(u32::from_le_bytes(*record)), 1)).collect()
    } else if name.ends_with(".u64") {
        records::<8>(&bytes).map(|record| (u64::from_le_bytes(*record), 1)).collect()
    } else {
        text(name, &String::from_utf8(bytes)?)?
    };
    Ok(Trace::new(requests, objective))
}

fn records<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = &[u8; N]> {
    bytes.as_chunks::<N>().0.iter()
}

fn number(little_endian: &[u8]) -> u64 {
    little_endian.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

fn text(name: &str, text: &str) -> Result<Vec<(u64, u64)>, Box<dyn Error>> {
    let mut requests = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fields: Vec<&str> =
            line.split([',', ' ', '\t']).filter(|field| !field.is_empty()).collect();
        let field = |at: usize| -> Result<u64, Box<dyn Error>> {
            let text = fields.get(at).ok_or_else(|| format!("{name}:{}: too short", index + 1))?;
            Ok(text.parse().map_err(|error| format!("{name}:{}: `{text}`: {error}", index + 1))?)
        };
        if fields.is_empty() || (index == 0 && fields[0].parse::<u64>().is_err()) {
            continue;
        }
        if name.ends_with(".lis") {
            let (first, blocks) = (field(0)?, field(1)?);
            requests.extend((first..first + blocks).map(|block| (block, 1)));
        } else {
            requests.push((field(1)?, field(2)?));
        }
    }
    Ok(requests)
}

impl Trace {
    fn new(requests: Vec<(u64, u64)>, objective: Objective) -> Self {
        let mut sizes: HashMap<u64, u64> = HashMap::new();
        let mut uses = Vec::with_capacity(requests.len());
        for (object, bytes) in requests {
            let bytes = *sizes.entry(object).or_insert_with(|| bytes.max(1));
            let fingerprint = mix(object);
            let point = (mix(fingerprint) >> 32) as u32;
            uses.push(Demand { point, fingerprint, bytes, objective });
        }
        Self { uses, footprint_bytes: sizes.values().sum() }
    }

    /// The trace as libCacheSim reads it: time, object, bytes, number of the next request for it.
    pub(crate) fn to_oracle_general(&self) -> Vec<u8> {
        let mut next = vec![-1_i64; self.uses.len()];
        let mut later: HashMap<u64, usize> = HashMap::new();
        for (index, request) in self.uses.iter().enumerate().rev() {
            if let Some(at) = later.insert(request.fingerprint, index) {
                next[index] = at as i64;
            }
        }
        let mut bytes = Vec::with_capacity(self.uses.len() * 24);
        for (index, request) in self.uses.iter().enumerate() {
            bytes.extend((index as u32).to_le_bytes());
            bytes.extend(request.fingerprint.to_le_bytes());
            bytes.extend(u32::try_from(request.bytes).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(next[index].to_le_bytes());
        }
        bytes
    }
}

type Model = fn(&mut Random) -> Vec<(u64, u64)>;

const MODELS: [(&str, Model); 4] = [
    ("zipf-churn", zipf_churn),
    ("scan-mix", scan_mix),
    ("live-window", live_window),
    ("vod-mix", vod_mix),
];

/// Pages and pictures: popularity falls with rank to the power of 0.8, sizes are lognormal with a
/// median of 8 KB, and every 20 requests one of 50,000 things is replaced by a new one.
fn zipf_churn(random: &mut Random) -> Vec<(u64, u64)> {
    let names = 50_000;
    let zipf = Zipf::new(names, 0.8);
    let mut things: Vec<u64> = (0..names as u64).collect();
    let mut newest = names as u64;
    (0..1_500_000_u64)
        .map(|time| {
            if time % 20 == 0 {
                things[random.below(names as u64) as usize] = newest;
                newest += 1;
            }
            let thing = things[zipf.draw(random)];
            (thing, lognormal(thing, 8_000.0, 1.5))
        })
        .collect()
}

/// The same without churn, and every 50,000 requests a crawler asks for 20,000 things once.
fn scan_mix(random: &mut Random) -> Vec<(u64, u64)> {
    let zipf = Zipf::new(50_000, 0.9);
    let mut requests = Vec::new();
    let mut crawled = 1 << 40;
    for time in 0..1_000_000_u64 {
        let thing = zipf.draw(random) as u64;
        requests.push((thing, lognormal(thing, 8_000.0, 1.5)));
        if time % 50_000 == 49_999 {
            for thing in crawled..crawled + 20_000 {
                requests.push((thing, lognormal(thing, 8_000.0, 1.5)));
            }
            crawled += 20_000;
        }
    }
    requests
}

/// Bytes of the objects of a segment of six seconds in all its bit rates.
const SEGMENT_KB: [u64; 11] = [384, 4096, 512, 1024, 512, 72, 256, 4096, 2048, 1024, 12_000];

/// Live television: 200 channels of unequal popularity, a segment every six seconds of which each
/// viewer takes one picture and one sound, most at the live edge and some up to 6 minutes behind.
fn live_window(random: &mut Random) -> Vec<(u64, u64)> {
    let zipf = Zipf::new(200, 0.9);
    let mut requests = Vec::new();
    for segment in 60..660_u64 {
        for _ in 0..700 {
            let channel = zipf.draw(random) as u64;
            let behind = match random.below(10) {
                0 => random.below(60),
                1..=3 => 1 + random.below(3),
                _ => 0,
            };
            let picture = [1, 2, 3, 4, 7, 8, 9, 10][random.below(8) as usize];
            for kind in [picture, [0, 5, 6][random.below(3) as usize]] {
                let name = (channel << 32) | ((segment - behind) << 8) | kind;
                requests.push((name, SEGMENT_KB[kind as usize] << 10));
            }
        }
    }
    requests
}

/// Video on demand with the same objects: who watches a title takes its segments in turn, titles
/// of unequal popularity, and 15 of 100 requests are for something nobody else asks for.
fn vod_mix(random: &mut Random) -> Vec<(u64, u64)> {
    let zipf = Zipf::new(2_000, 0.8);
    let mut viewers: Vec<(u64, u64, u64)> = Vec::new();
    let mut requests = Vec::new();
    for time in 0..600_000_u64 {
        if random.below(100) < 15 {
            let kind = random.below(11);
            requests.push(((1 << 60) | (time << 8) | kind, SEGMENT_KB[kind as usize] << 10));
            continue;
        }
        if viewers.len() < 500 {
            viewers.push((zipf.draw(random) as u64, 0, random.below(11)));
        }
        let at = random.below(viewers.len() as u64) as usize;
        let (title, segment, kind) = viewers[at];
        requests.push(((title << 32) | (segment << 8) | kind, SEGMENT_KB[kind as usize] << 10));
        if segment >= 40 || random.below(25) == 0 {
            viewers.swap_remove(at);
        } else {
            viewers[at].1 += 1;
        }
    }
    requests
}

/// Ranks whose popularity falls with rank to some power.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(names: usize, skew: f64) -> Self {
        let mut sum = 0.0;
        let add = |rank: usize| {
            sum += (rank as f64).powf(-skew);
            sum
        };
        Self((1..=names).map(add).collect())
    }

    fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit() * self.0.last().copied().unwrap_or(0.0);
        self.0.partition_point(|upper| *upper < at).min(self.0.len() - 1)
    }
}

/// A size that belongs to this object.
fn lognormal(object: u64, median: f64, sigma: f64) -> u64 {
    let mut random = Random(mix(object ^ 0x5eed));
    // Twelve uniform numbers less six: normal enough within three deviations.
    let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    (median * (sigma * normal).exp()) as u64 + 1
}

/// Numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

fn mix(number: u64) -> u64 {
    let mut z = number ^ (number >> 30);
    z = z.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
