//! Tables of QPACK against a model that remembers everything: what a peer may say is read as the model has
//! it, and what we say never waits, whatever comes late, out of order or not at all.

#![allow(clippy::unwrap_used, reason = "all of it is tests")]

use freshet_wire::h2::hpack::huffman;
use freshet_wire::h3::qpack::{Decoder, Encoder, Unread};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Field = (Vec<u8>, Vec<u8>);
/// A compressed head and its fields.
type Head = (Vec<u8>, Vec<Field>);

/// All fields that were ever told, and from which on they are there.
#[derive(Default)]
struct Model {
    all: Vec<Field>,
    first: usize,
    capacity: usize,
}

impl Model {
    fn shrink(&mut self, bytes_max: usize) {
        let bytes = |model: &Self| -> usize {
            model.all[model.first..].iter().map(|(name, value)| name.len() + value.len() + 32).sum()
        };
        while bytes(self) > bytes_max {
            self.first += 1;
        }
    }

    fn insert(&mut self, field: Field) {
        self.shrink(self.capacity - field.0.len() - field.1.len() - 32);
        self.all.push(field);
    }
}

fn number(pattern: u8, bits: u32, value: usize, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if value < most {
        return out.push(pattern | value as u8);
    }
    out.push(pattern | most as u8);
    let mut rest = value - most;
    while rest > 127 {
        out.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    out.push(rest as u8);
}

fn plain(pattern: u8, bits: u32, text: &[u8], out: &mut Vec<u8>) {
    number(pattern, bits, text.len(), out);
    out.extend_from_slice(text);
}

/// What a peer says: an instruction, or a line of a head.
#[derive(Clone, Debug)]
enum Said {
    Capacity(usize),
    OfStatic(Vec<u8>),
    OfEntry(usize, Vec<u8>),
    Literal(Vec<u8>, Vec<u8>),
    Again(usize),
}

#[derive(Clone, Debug)]
enum Line {
    Entry(usize),
    Name(usize, Vec<u8>),
    Static,
    Literal(Vec<u8>, Vec<u8>),
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..40)
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        1 => (100..400_usize).prop_map(Said::Capacity),
        3 => text().prop_map(Said::OfStatic),
        3 => (any::<usize>(), text()).prop_map(|(entry, value)| Said::OfEntry(entry, value)),
        3 => (text(), text()).prop_map(|(name, value)| Said::Literal(name, value)),
        2 => any::<usize>().prop_map(Said::Again),
    ]
}

fn line() -> impl Strategy<Value = Line> {
    prop_oneof![
        4 => any::<usize>().prop_map(Line::Entry),
        3 => (any::<usize>(), text()).prop_map(|(entry, value)| Line::Name(entry, value)),
        1 => Just(Line::Static),
        1 => (text(), text()).prop_map(|(name, value)| Line::Literal(name, value)),
    ]
}

/// Tells the decoder something, and the model.
fn tell(said: Said, model: &mut Model, out: &mut Vec<u8>) {
    let (there, end) = (model.all.len() - model.first, model.all.len());
    match said {
        Said::Capacity(bytes) => {
            number(0x20, 5, bytes, out);
            model.capacity = bytes;
            model.shrink(bytes);
        }
        Said::OfStatic(value) => {
            number(0xc0, 6, 95, out);
            plain(0, 7, &value, out);
            model.insert((b"user-agent".to_vec(), value));
        }
        Said::OfEntry(entry, value) if there > 0 => {
            let at = model.first + entry % there;
            let name = model.all[at].0.clone();
            if name.len() + value.len() + 32 > model.capacity {
                return;
            }
            number(0x80, 6, end - at - 1, out);
            plain(0, 7, &value, out);
            model.insert((name, value));
        }
        Said::Literal(name, value) if name.len() + value.len() + 32 <= model.capacity => {
            plain(0x40, 5, &name, out);
            plain(0, 7, &value, out);
            model.insert((name, value));
        }
        Said::Again(entry) if there > 0 => {
            let at = model.first + entry % there;
            number(0, 5, end - at - 1, out);
            let field = model.all[at].clone();
            model.insert(field);
        }
        _ => {}
    }
}

/// A head of these lines, with this base, and what it is.
fn head(lines: &[Line], base: usize, model: &Model, entries_max: usize) -> Head {
    let there = model.all.len() - model.first;
    let pick = |entry: &usize| (there > 0).then(|| model.first + entry % there);
    let used = lines.iter().filter_map(|line| match line {
        Line::Entry(entry) | Line::Name(entry, _) => pick(entry),
        _ => None,
    });
    let required = used.max().map_or(0, |at| at + 1);
    let (mut out, mut want) = (Vec::new(), Vec::new());
    let encoded = if required == 0 { 0 } else { required % (2 * entries_max) + 1 };
    number(0, 8, encoded, &mut out);
    match base.checked_sub(required) {
        Some(above) => number(0, 7, above, &mut out),
        None => number(0x80, 7, required - base - 1, &mut out),
    }
    for line in lines {
        match line {
            Line::Entry(entry) => {
                let Some(at) = pick(entry) else { continue };
                match base.checked_sub(at + 1) {
                    Some(before) => number(0x80, 6, before, &mut out),
                    None => number(0x10, 4, at - base, &mut out),
                }
                want.push(model.all[at].clone());
            }
            Line::Name(entry, value) => {
                let Some(at) = pick(entry) else { continue };
                match base.checked_sub(at + 1) {
                    Some(before) => number(0x40, 4, before, &mut out),
                    None => number(0, 3, at - base, &mut out),
                }
                plain(0, 7, value, &mut out);
                want.push((model.all[at].0.clone(), value.clone()));
            }
            Line::Static => {
                number(0xc0, 6, 17, &mut out);
                want.push((b":method".to_vec(), b"GET".to_vec()));
            }
            Line::Literal(name, value) => {
                plain(0x20, 3, name, &mut out);
                plain(0, 7, value, &mut out);
                want.push((name.clone(), value.clone()));
            }
        }
    }
    (out, want)
}

fn decoded(decoder: &Decoder, block: &[u8]) -> Result<Vec<Field>, Unread> {
    let mut fields = Vec::new();
    decoder.decode(block, |name, value| fields.push((name.to_vec(), value.to_vec())))?;
    Ok(fields)
}

proptest! {
    #[test]
    fn what_a_peer_tells_is_what_its_heads_say(
        turns in proptest::collection::vec(
            (said(), proptest::collection::vec(line(), 0..5), any::<usize>(), 1..30_usize),
            1..60,
        ),
    ) {
        const BYTES_MAX: usize = 400;
        let (mut decoder, mut model) = (Decoder::new(BYTES_MAX), Model::default());
        let mut stream = Vec::new();
        tell(Said::Capacity(300), &mut model, &mut stream);
        for (said, lines, base, cut) in turns {
            tell(said, &mut model, &mut stream);
            let base = base % (model.all.len() + 5);
            let (block, want) = head(&lines, base, &model, BYTES_MAX / 32);
            // However it is cut into packets; a head that is ahead of it waits and gives nothing.
            while !stream.is_empty() {
                let now = cut.min(stream.len());
                let (done, _) = decoder.instructions(&stream[..now]).unwrap();
                if done == 0 && now < stream.len() {
                    let (done, _) = decoder.instructions(&stream).unwrap();
                    stream.drain(..done);
                } else {
                    stream.drain(..done);
                }
            }
            prop_assert_eq!(decoded(&decoder, &block), Ok(want));
        }
    }
}

/// Reads what our encoder says, knowing nothing of it but the RFC.
struct Peer {
    model: Model,
    bytes_max: usize,
    entries_max: usize,
}

fn read(input: &mut &[u8], bits: u32) -> usize {
    let most = (1 << bits) - 1;
    let mut value = usize::from(input[0]) & most;
    *input = &input[1..];
    let mut shift = 0;
    while value >= most {
        let byte = input[0];
        *input = &input[1..];
        value += usize::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            break;
        }
    }
    value
}

fn read_text(input: &mut &[u8], bits: u32) -> Vec<u8> {
    let is_packed = input[0] >> bits & 1 != 0;
    let len = read(input, bits);
    let (text, rest) = input.split_at(len);
    *input = rest;
    let mut out = Vec::new();
    match is_packed {
        true => huffman::decode(text, &mut out).unwrap(),
        false => out.extend_from_slice(text),
    }
    out
}

impl Peer {
    fn told(&mut self, mut input: &[u8]) {
        while let Some(first) = input.first() {
            match first {
                0x20..0x40 => {
                    self.model.capacity = read(&mut input, 5);
                    assert!(self.model.capacity <= self.bytes_max);
                }
                0xc0.. => {
                    // The static entries that these tests come upon.
                    let name = match read(&mut input, 6) {
                        5 => b"cookie".to_vec(),
                        92 => b"server".to_vec(),
                        36 => b"cache-control".to_vec(),
                        other => panic!("{other} is not among them"),
                    };
                    let value = read_text(&mut input, 7);
                    self.model.insert((name, value));
                }
                0x40..0x80 => {
                    let name = read_text(&mut input, 5);
                    let value = read_text(&mut input, 7);
                    self.model.insert((name, value));
                }
                other => panic!("{other:x} is not said by ours"),
            }
        }
    }

    /// How many entries a head needs, and the entries it refers to.
    fn needs(&self, block: &[u8]) -> (usize, usize) {
        let mut input = block;
        let encoded = read(&mut input, 8);
        if encoded == 0 {
            return (0, 0);
        }
        // The one number of those that are said so which is nearest to what was told.
        let full = 2 * self.entries_max;
        let low = self.model.all.len().saturating_sub(self.entries_max);
        let required = (low..=self.model.all.len() + self.entries_max)
            .find(|number| number % full + 1 == encoded && *number > 0)
            .unwrap();
        (required, required + read(&mut input, 7))
    }

    fn fields(&self, block: &[u8]) -> Vec<Field> {
        let (required, base) = self.needs(block);
        let mut input = block;
        read(&mut input, 8);
        read(&mut input, 7);
        let mut out = Vec::new();
        while let Some(first) = input.first() {
            match first {
                0x80..0xc0 => {
                    let at = base - read(&mut input, 6) - 1;
                    assert!(at < required && at >= self.model.first, "it is not there any more");
                    out.push(self.model.all[at].clone());
                }
                0x50..0x80 => {
                    let name = match read(&mut input, 4) {
                        5 => b"cookie".to_vec(),
                        92 => b"server".to_vec(),
                        36 => b"cache-control".to_vec(),
                        other => panic!("{other} is not among them"),
                    };
                    let value = read_text(&mut input, 7);
                    out.push((name, value));
                }
                0x20..0x40 => {
                    let name = read_text(&mut input, 3);
                    let value = read_text(&mut input, 7);
                    out.push((name, value));
                }
                other => panic!("{other:x} is not said by ours"),
            }
        }
        out
    }
}

/// What happens between two heads.
#[derive(Clone, Debug)]
enum Between {
    /// The peer reads a head of those that are under way, the oldest of some stream.
    Read(usize),
    /// It says how many entries came.
    Count,
    /// It gives a stream up.
    Cancel(usize),
}

proptest! {
    #[test]
    fn what_we_say_never_waits_and_is_there_when_it_is_read(
        capacity in 0..2000_u64,
        heads in proptest::collection::vec(
            (
                0..4_u64,
                proptest::collection::vec((0..8_usize, 0..6_usize, any::<bool>()), 0..8),
                proptest::collection::vec(
                    prop_oneof![
                        4 => any::<usize>().prop_map(Between::Read),
                        2 => Just(Between::Count),
                        1 => any::<usize>().prop_map(Between::Cancel),
                    ],
                    0..4,
                ),
            ),
            1..80,
        ),
    ) {
        let names = ["server", "cache-control", "cookie", "x-a", "x-cache", "via", "x-b", "x-c"];
        let mut encoder = Encoder::new(capacity, 1500);
        let model = Model::default();
        let bytes_max = capacity as usize;
        let mut peer = Peer { model, bytes_max, entries_max: bytes_max / 32 };
        let mut acknowledged = 0;
        // Heads that were not read, by stream.
        let mut under_way: BTreeMap<u64, Vec<Head>> = BTreeMap::new();
        for (stream, fields, between) in heads {
            let mut draft = encoder.begin(stream);
            let mut want = Vec::new();
            for (name, value, is_secret) in fields {
                let (name, value) = (names[name].as_bytes(), vec![b'0' + value as u8; 5 + 50 * value]);
                encoder.field(&mut draft, name, &value, is_secret && name == b"cookie");
                want.push((name.to_vec(), value));
            }
            let (prefix, rest) = encoder.finish(draft);
            let block = [prefix, rest].concat();
            peer.told(&encoder.take_said());
            let (required, _) = peer.needs(&block);
            prop_assert!(required <= acknowledged, "it would have to wait");
            under_way.entry(stream).or_default().push((block, want));
            for what in between {
                under_way.retain(|_, heads| !heads.is_empty());
                let pick = |at: usize| under_way.keys().nth(at % under_way.len().max(1)).copied();
                let mut said = Vec::new();
                match what {
                    Between::Read(at) => {
                        let Some(stream) = pick(at) else { continue };
                        let (block, want) = under_way.get_mut(&stream).unwrap().remove(0);
                        prop_assert_eq!(peer.fields(&block), want);
                        let (required, _) = peer.needs(&block);
                        if required > 0 {
                            number(0x80, 7, stream as usize, &mut said);
                            acknowledged = acknowledged.max(required);
                        }
                    }
                    Between::Count => {
                        let more = peer.model.all.len() - acknowledged;
                        if more > 0 {
                            number(0, 6, more, &mut said);
                            acknowledged += more;
                        }
                    }
                    Between::Cancel(at) => {
                        let Some(stream) = pick(at) else { continue };
                        under_way.remove(&stream);
                        number(0x40, 6, stream as usize, &mut said);
                    }
                }
                prop_assert_eq!(encoder.instructions(&said), Ok(said.len()));
            }
        }
        for (block, want) in under_way.into_values().flatten() {
            prop_assert_eq!(peer.fields(&block), want);
        }
    }
}

#[test]
fn where_heads_are_not_acknowledged_others_refer_to_nothing() {
    use freshet_wire::h3::qpack::SECTIONS_MAX;
    let mut encoder = Encoder::new(4096, 4096);
    let mut block = |stream: u64| {
        let mut draft = encoder.begin(stream);
        encoder.field(&mut draft, b"x-cache", b"a value that is long enough", false);
        let (prefix, rest) = encoder.finish(draft);
        if stream == 1 {
            encoder.instructions(&[0x01]).unwrap();
        }
        [prefix, rest].concat()
    };
    let (first, _) = (block(0).len(), block(1));
    for stream in 0..SECTIONS_MAX as u64 {
        assert!(block(2 + stream).len() < first);
    }
    assert_eq!(block(1000).len(), first);
}
