//! Writes databases, for tests: the format as
//! <https://maxmind.github.io/MaxMind-DB/> describes it, without pointers.

use std::net::IpAddr;

/// A value of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// UTF-8.
    Text(String),
    /// 64 bits with a sign and a fraction.
    Double(f64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// 16 bits.
    U16(u16),
    /// 32 bits.
    U32(u32),
    /// 64 bits.
    U64(u64),
    /// 128 bits.
    U128(u128),
    /// 32 bits with a sign.
    I32(i32),
    /// True or false.
    Bool(bool),
    /// By name.
    Map(Vec<(String, Self)>),
    /// By number.
    List(Vec<Self>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::U32(number)
    }
}

/// A map of these.
pub fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A record of a country as `GeoLite2-Country` has them.
pub fn country(continent: &str, country: &str) -> Value {
    map([
        ("continent", map([("code", continent.into())])),
        ("country", map([("iso_code", country.into())])),
    ])
}

/// A record of an autonomous system as `GeoLite2-ASN` has them.
pub fn asn(number: u32, name: &str) -> Value {
    map([
        ("autonomous_system_number", number.into()),
        ("autonomous_system_organization", name.into()),
    ])
}

/// What a place in a node leads to.
#[derive(Clone, Copy)]
enum Slot {
    Nothing,
    Node(usize),
    /// So far into the data.
    Data(usize),
}

/// A database to be.
pub struct Writer {
    kind: String,
    record_bits: u8,
    is_v6: bool,
    nodes: Vec<[Slot; 2]>,
    data: Vec<u8>,
}

impl Writer {
    /// An empty one for IPv4 and IPv6, with records of 28 bits.
    pub fn new(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            record_bits: 28,
            is_v6: true,
            nodes: vec![[Slot::Nothing; 2]],
            data: Vec::new(),
        }
    }

    /// With records of 24, 28 or 32 bits.
    #[must_use]
    pub fn record_bits(mut self, bits: u8) -> Self {
        self.record_bits = bits;
        self
    }

    /// For IPv4 alone; before the first network.
    #[must_use]
    pub fn v4_only(mut self) -> Self {
        self.is_v6 = false;
        self
    }

    /// With a record for a network as `192.0.2.0/24`, in place of what was said of a part of it.
    ///
    /// # Panics
    /// When that is no network.
    #[must_use]
    pub fn with(mut self, network: &str, record: &Value) -> Self {
        let (address, bits) = network.split_once('/').expect("a network has a length");
        let address: IpAddr = address.parse().expect("a network has an address");
        let bits: usize = bits.parse().expect("the length is a number");
        let (key, bits) = match address {
            IpAddr::V4(v4) if self.is_v6 => (u128::from(v4.to_bits()), bits + 96),
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, bits),
            IpAddr::V6(v6) => (v6.to_bits(), bits),
        };
        let data = Slot::Data(self.data.len());
        write_value(record, &mut self.data);
        let mut node = 0;
        for depth in 0..bits {
            let side = usize::from(key >> (127 - depth) & 1 == 1);
            if depth + 1 == bits {
                self.nodes[node][side] = data;
                break;
            }
            node = match self.nodes[node][side] {
                Slot::Node(next) => next,
                other => {
                    self.nodes.push([other; 2]);
                    let next = self.nodes.len() - 1;
                    self.nodes[node][side] = Slot::Node(next);
                    next
                }
            };
        }
        self
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let count = self.nodes.len();
        let number = |slot: Slot| match slot {
            Slot::Nothing => count,
            Slot::Node(at) => at,
            Slot::Data(at) => count + 16 + at,
        };
        for [left, right] in &self.nodes {
            let (left, right) = (number(*left) as u32, number(*right) as u32);
            let ([a, b @ ..], [c, d @ ..]) = (left.to_be_bytes(), right.to_be_bytes());
            match self.record_bits {
                24 => out.extend([b, d].concat()),
                28 => {
                    out.extend(b);
                    out.push(a << 4 | c);
                    out.extend(d);
                }
                _ => out.extend([left.to_be_bytes(), right.to_be_bytes()].concat()),
            }
        }
        out.extend([0; 16]);
        out.extend(&self.data);
        out.extend(b"\xab\xcd\xefMaxMind.com");
        let metadata = map([
            ("binary_format_major_version", Value::U16(2)),
            ("binary_format_minor_version", Value::U16(0)),
            ("build_epoch", Value::U64(1_700_000_000)),
            ("database_type", self.kind.as_str().into()),
            ("description", map([("en", "made for a test".into())])),
            ("ip_version", Value::U16(if self.is_v6 { 6 } else { 4 })),
            ("languages", Value::List(vec!["en".into()])),
            ("node_count", (count as u32).into()),
            ("record_size", Value::U16(self.record_bits.into())),
        ]);
        write_value(&metadata, &mut out);
        out
    }
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    /// Without the zeros in front.
    fn number(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        write_control(kind, bytes.len() - zeros, out);
        out.extend(&bytes[zeros..]);
    }
    match value {
        Value::Text(text) => {
            write_control(2, text.len(), out);
            out.extend(text.as_bytes());
        }
        Value::Double(value) => {
            write_control(3, 8, out);
            out.extend(value.to_be_bytes());
        }
        Value::Bytes(bytes) => {
            write_control(4, bytes.len(), out);
            out.extend(bytes);
        }
        Value::U16(value) => number(5, &value.to_be_bytes(), out),
        Value::U32(value) => number(6, &value.to_be_bytes(), out),
        Value::I32(value) => number(8, &value.to_be_bytes(), out),
        Value::U64(value) => number(9, &value.to_be_bytes(), out),
        Value::U128(value) => number(10, &value.to_be_bytes(), out),
        Value::Bool(value) => write_control(14, usize::from(*value), out),
        Value::Map(entries) => {
            write_control(7, entries.len(), out);
            for (name, value) in entries {
                write_value(&name.as_str().into(), out);
                write_value(value, out);
            }
        }
        Value::List(values) => {
            write_control(11, values.len(), out);
            values.iter().for_each(|value| write_value(value, out));
        }
    }
}

/// The kind of a value and its length, or how many entries it has.
fn write_control(kind: u8, count: usize, out: &mut Vec<u8>) {
    let (short, more): (usize, &[u8]) = match count {
        0..29 => (count, &[]),
        29..285 => (29, &[(count - 29) as u8]),
        _ => (30, &((count - 285) as u16).to_be_bytes()),
    };
    let more = more.to_vec();
    match kind {
        1..8 => out.push(kind << 5 | short as u8),
        _ => out.extend([short as u8, kind - 7]),
    }
    out.extend(more);
}
