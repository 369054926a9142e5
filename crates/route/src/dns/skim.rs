//! What can be had of a message that cannot be read as a whole, and what reading it as a whole passes over.

use super::HEAD_BYTES;
use hickory_proto::op::{Message, Query};
use hickory_proto::rr::rdata::opt::EdnsCode;
use hickory_proto::rr::{Name, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

/// What is in a message up to where it cannot be read.
#[derive(Debug, Default)]
pub(super) struct Skimmed<'a> {
    /// Its question; of several, the first.
    pub(super) question: Option<Query>,
    pub(super) opt: Option<Opt<'a>>,
}

/// An OPT, with its options as they came.
#[derive(Debug)]
pub(super) struct Opt<'a> {
    pub(super) payload_bytes: u16,
    options: &'a [u8],
}

/// Skims a message.
pub(super) fn skim(message: &[u8]) -> Skimmed<'_> {
    let mut out = Skimmed::default();
    // What came before it ended counts.
    let _ = read(message, &mut out);
    out
}

fn read<'a>(message: &'a [u8], out: &mut Skimmed<'a>) -> Option<()> {
    let head: &[u8; HEAD_BYTES] = message.first_chunk()?;
    let count = |at: usize| Some(u16::from_be_bytes([*head.get(at)?, *head.get(at + 1)?]));
    let mut decoder = BinDecoder::new(message);
    decoder.read_slice(HEAD_BYTES).ok()?;
    for _ in 0..count(4)? {
        let question = Query::read(&mut decoder).ok()?;
        out.question.get_or_insert(question);
    }
    let records = [6, 8, 10].into_iter().filter_map(count).map(u32::from).sum();
    for _ in 0..records {
        Name::read(&mut decoder).ok()?;
        let mut number = || Some(decoder.read_u16().ok()?.unverified());
        let [kind, class, _, _, bytes] = [number()?, number()?, number()?, number()?, number()?];
        let data = decoder.read_slice(usize::from(bytes)).ok()?.unverified();
        if RecordType::from(kind) == RecordType::OPT {
            out.opt = Some(Opt { payload_bytes: class, options: data });
        }
    }
    Some(())
}

impl Opt<'_> {
    /// The bytes of each option of this number.
    fn options(&self, code: u16) -> impl Iterator<Item = &[u8]> {
        let mut left = self.options;
        std::iter::from_fn(move || {
            let (head, rest) = left.split_first_chunk::<4>()?;
            let bytes = usize::from(u16::from_be_bytes([head[2], head[3]]));
            let (data, rest) = rest.split_at_checked(bytes)?;
            left = rest;
            Some((u16::from_be_bytes([head[0], head[1]]), data))
        })
        .filter_map(move |(at, data)| (at == code).then_some(data))
    }
}

/// Whether the client's network, where a query says one, has as many octets as its prefix needs. One with more or
/// fewer is malformed (RFC 7871 §6), and those that are too many are passed over where it is read.
pub(super) fn subnet_is_exact(message: &[u8], query: &Message) -> bool {
    let has_one = |edns: &hickory_proto::op::Edns| edns.option(EdnsCode::Subnet).is_some();
    if !query.edns.as_ref().is_some_and(has_one) {
        return true;
    }
    let Some(opt) = skim(message).opt else { return false };
    let is_exact = |data: &[u8]| {
        data.get(2).is_some_and(|bits| data.len() == 4 + usize::from(bits.div_ceil(8)))
    };
    opt.options(u16::from(EdnsCode::Subnet)).all(is_exact)
}
