//! Codings of bodies: what is done to an origin's bytes before they are kept, and to kept bytes
//! before they are sent.
//!
//! A `Chain` is a row of stages. Bytes go in at one end and come out at the other in pieces of
//! bounded size, however much they grow on the way, so that a small body that unpacks to a huge one
//! streams like any other.

use crate::coding::gzip::Gzip;
use crate::coding::{Checker, Recode, packer, unpacker};
use crate::esi::split::Splitter;
use freshet_http::coding::Coding;
use thiserror::Error;

/// Bytes a stage gives out at a time. As much as one TLS record or two: more would only sit in
/// buffers.
pub const PIECE_BYTES: usize = 32 << 10;

/// Filters, in the order they are applied to an origin's body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Filter {
    /// Takes a coding off.
    Unpack(Coding),
    /// Leaves a coding on and checks that it can be taken off.
    Check(Coding),
    /// Puts a coding on.
    Pack(Coding),
    /// Parts for edge side includes.
    Esi,
    /// The same, each part under gzip.
    EsiGzip,
}

/// Their names: Varnish's where it has one.
const NAMES: [(&str, Filter); 11] = [
    ("gunzip", Filter::Unpack(Coding::Gzip)),
    ("testgunzip", Filter::Check(Coding::Gzip)),
    ("gzip", Filter::Pack(Coding::Gzip)),
    ("unbr", Filter::Unpack(Coding::Brotli)),
    ("testunbr", Filter::Check(Coding::Brotli)),
    ("br", Filter::Pack(Coding::Brotli)),
    ("unzstd", Filter::Unpack(Coding::Zstd)),
    ("testunzstd", Filter::Check(Coding::Zstd)),
    ("zstd", Filter::Pack(Coding::Zstd)),
    ("esi", Filter::Esi),
    ("esi_gzip", Filter::EsiGzip),
];

impl Filter {
    /// Whether it takes a page apart for the parts it includes.
    pub fn makes_page(&self) -> bool {
        matches!(self, Self::Esi | Self::EsiGzip)
    }

    /// The filter of this name.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, filter)| *filter)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, filter)| *filter == self).map_or("", |(name, _)| name)
    }
}

/// Why a body could not be taken apart. All are the fault of who made the body.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum CodingError {
    /// It does not begin as RFC 1952 §2.3 has it.
    #[error("Invalid Gzip input: incorrect header check")]
    Header,
    /// The compressed data make no sense.
    #[error("Invalid Gzip input: invalid data")]
    Data,
    /// The checksum or the length behind the data is another.
    #[error("Invalid Gzip input: incorrect data check")]
    Sum,
    /// It ended too early.
    #[error("Invalid Gzip input: unexpected end of data")]
    Truncated,
    /// Something follows behind the end.
    #[error("Junk after gzip data")]
    Junk,
    /// It is not what this coding has.
    #[error("invalid data under {}", .0.name())]
    Invalid(Coding),
    /// Under this coding it ended too early.
    #[error("unexpected end of data under {}", .0.name())]
    Cut(Coding),
    /// Stored parts are not as they were written.
    #[error("stored parts are damaged")]
    Parts,
}

/// What a stage did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Step {
    /// Bytes taken.
    pub consumed: usize,
    /// Whether nothing more will come out.
    pub ended: bool,
    /// Whether it has worked and goes on, though nothing was taken and nothing came out: a check of
    /// a few bytes that stand for many.
    pub is_busy: bool,
}

/// One stage.
pub enum Stage {
    /// Bytes as they are, in pieces.
    Copy,
    /// Puts a coding on, takes one off, or checks one.
    Code(Box<dyn Recode>),
    /// Takes a page apart.
    Split(Box<Splitter>),
    /// Makes of parts the page as it came.
    Join(Box<crate::esi::parts::RawJoiner>),
}

impl Stage {
    /// Puts a coding on.
    pub fn pack(coding: Coding) -> Self {
        Self::Code(packer(coding))
    }

    /// Puts gzip on, as hard as this, 1 to 9.
    pub fn gzip(level: u32) -> Self {
        Self::Code(Box::new(Gzip::new(level)))
    }

    /// Takes a coding off.
    pub fn unpack(coding: Coding) -> Self {
        Self::Code(unpacker(coding))
    }

    /// Leaves a coding on and checks it.
    pub fn check(coding: Coding) -> Self {
        Self::Code(Box::new(Checker::new(coding)))
    }

    /// Takes some of `input` and appends what comes of it, some [`PIECE_BYTES`] at most. `is_last`
    /// says that nothing follows behind `input`.
    fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        match self {
            Self::Copy => {
                let piece = input.get(..PIECE_BYTES).unwrap_or(input);
                out.extend_from_slice(piece);
                let ended = is_last && piece.len() == input.len();
                Ok(Step { consumed: piece.len(), ended, ..Step::default() })
            }
            Self::Code(stage) => stage.step(input, is_last, out),
            Self::Split(stage) => stage.step(input, is_last, out),
            Self::Join(stage) => stage.step(input, is_last, out),
        }
    }

    /// Whether there is something to come out though nothing goes in.
    fn has_pending(&self) -> bool {
        match self {
            Self::Code(stage) => stage.is_full(),
            Self::Copy | Self::Split(_) | Self::Join(_) => false,
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), CodingError> {
        match self {
            Self::Code(stage) => stage.flush(out),
            Self::Split(stage) => stage.flush(out),
            Self::Copy | Self::Join(_) => Ok(()),
        }
    }
}

/// A stage with the bytes that wait for it.
struct Link {
    stage: Stage,
    waiting: Vec<u8>,
    taken: usize,
    ended: bool,
    bytes_in: u64,
    bytes_out: u64,
}

impl Link {
    fn new(stage: Stage) -> Self {
        let (bytes_in, bytes_out) = (0, 0);
        Self { stage, waiting: Vec::new(), taken: 0, ended: false, bytes_in, bytes_out }
    }

    /// Counts what a step took and made.
    fn count(&mut self, consumed: usize, made: usize) {
        self.bytes_in += consumed as u64;
        self.bytes_out += made as u64;
    }
}

/// A row of stages.
pub struct Chain {
    links: Vec<Link>,
}

impl Chain {
    /// The stages in the order bytes go through them.
    pub fn new(stages: impl IntoIterator<Item = Stage>) -> Self {
        let mut links: Vec<_> = stages.into_iter().map(Link::new).collect();
        if links.is_empty() {
            links.push(Link::new(Stage::Copy));
        }
        Self { links }
    }

    /// Takes some of `input` and appends what comes out at the end. Nothing consumed, nothing
    /// appended and not ended: it waits for more.
    ///
    /// # Errors
    /// [`CodingError`].
    pub fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        let mut consumed = 0;
        loop {
            let before = out.len();
            let rest = input.get(consumed..).unwrap_or(&[]);
            let step = self.advance(rest, is_last, out)?;
            let (has_worked, is_busy) = (step.is_some(), step.is_some_and(|step| step.is_busy));
            consumed += step.map_or(0, |step| step.consumed);
            if !has_worked || is_busy || out.len() > before || self.has_ended() {
                return Ok(Step { consumed, ended: self.has_ended(), is_busy });
            }
        }
    }

    /// Lets out what stages hold back for the sake of density.
    ///
    /// # Errors
    /// [`CodingError`].
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), CodingError> {
        let count = self.links.len();
        for index in 0..count {
            let (here, behind) = self.links.split_at_mut(index + 1);
            let Some(link) = here.last_mut() else { continue };
            let target = match behind.first_mut() {
                Some(next) => &mut next.waiting,
                None => &mut *out,
            };
            if !link.ended {
                let before = target.len();
                link.stage.flush(target)?;
                link.bytes_out += (target.len() - before) as u64;
            }
        }
        Ok(())
    }

    /// How many bytes went into each stage, and how many came out; of a check, how many are under its
    /// coding.
    pub fn counts(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.links.iter().map(|link| {
            let seen = match &link.stage {
                Stage::Code(stage) => stage.seen_bytes(),
                _ => None,
            };
            (link.bytes_in, seen.unwrap_or(link.bytes_out))
        })
    }

    /// How much content is under the coding that its last stage puts on or checks, once all has come out: all
    /// streams of gzip counted, whatever the end of the last one says.
    pub fn content_bytes(&self) -> Option<u64> {
        let link = self.links.last().filter(|link| link.ended)?;
        match &link.stage {
            Stage::Code(stage) if stage.packs() => Some(link.bytes_in),
            Stage::Code(stage) => stage.seen_bytes(),
            Stage::Copy | Stage::Split(_) | Stage::Join(_) => None,
        }
    }

    /// Whether it began as markup, where it has a stage for edge side includes and that knows.
    pub fn split_decision(&self) -> Option<Option<bool>> {
        self.links.iter().find_map(|link| match &link.stage {
            Stage::Split(splitter) => Some(splitter.is_markup()),
            _ => None,
        })
    }

    /// Puts another stage where the one for edge side includes was, with what that took already.
    pub fn replace_split(&mut self, stage: Stage) {
        let Some(link) = self.links.iter_mut().find(|link| matches!(link.stage, Stage::Split(_)))
        else {
            return;
        };
        let Stage::Split(splitter) = std::mem::replace(&mut link.stage, stage) else { return };
        let rest = link.waiting.split_off(link.taken);
        link.waiting = splitter.into_held();
        link.waiting.extend_from_slice(&rest);
        link.taken = 0;
        link.ended = false;
        // All that went in is taken once more.
        (link.bytes_in, link.bytes_out) = (0, 0);
    }

    /// The splitter, where it has one.
    pub fn splitter(&mut self) -> Option<&mut Splitter> {
        self.links.iter_mut().find_map(|link| match &mut link.stage {
            Stage::Split(splitter) => Some(&mut **splitter),
            _ => None,
        })
    }

    fn has_ended(&self) -> bool {
        self.links.last().is_some_and(|link| link.ended)
    }

    /// Lets the last stage that can do something do it; how much of `input` was taken, and whether
    /// it is busy. `None` where none can.
    fn advance(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Step>, CodingError> {
        let count = self.links.len();
        for index in (0..count).rev() {
            let before_ended = index > 0 && self.links.get(index - 1).is_some_and(|one| one.ended);
            let (here, behind) = self.links.split_at_mut(index + 1);
            let Some(link) = here.last_mut() else { continue };
            if link.ended {
                continue;
            }
            let waiting = link.waiting.len() - link.taken;
            let has_outer = index == 0 && !input.is_empty();
            // What was put back waits in front of the input.
            let ends = if index == 0 { is_last } else { before_ended };
            if waiting == 0 && !has_outer && !link.stage.has_pending() && !ends {
                continue;
            }
            let target = match behind.first_mut() {
                Some(next) => &mut next.waiting,
                None => &mut *out,
            };
            let before = target.len();
            if waiting > 0 {
                let bytes = link.waiting.get(link.taken..).unwrap_or(&[]);
                let step = link.stage.step(bytes, ends && !has_outer, target)?;
                let grew = target.len() > before;
                link.count(step.consumed, target.len() - before);
                link.taken += step.consumed;
                link.ended = step.ended;
                if link.taken == link.waiting.len() {
                    link.waiting.clear();
                    link.taken = 0;
                }
                if step.consumed > 0 || step.ended || grew || step.is_busy {
                    return Ok(Some(Step { consumed: 0, ..step }));
                }
                continue;
            }
            let bytes = if index == 0 { input } else { &[] };
            let step = link.stage.step(bytes, ends, target)?;
            let grew = target.len() > before;
            link.count(step.consumed, target.len() - before);
            link.ended = step.ended;
            if step.consumed > 0 || step.ended || grew || step.is_busy {
                let consumed = if index == 0 { step.consumed } else { 0 };
                return Ok(Some(Step { consumed, ..step }));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs all of `input` through, in pieces of this size.
    pub(crate) fn run(
        chain: &mut Chain,
        input: &[u8],
        piece_bytes: usize,
    ) -> Result<Vec<u8>, CodingError> {
        let (mut all, mut out, mut at) = (Vec::new(), Vec::new(), 0);
        loop {
            let end = (at + piece_bytes).min(input.len());
            let is_last = end == input.len();
            out.clear();
            let step = chain.step(&input[at..end], is_last, &mut out)?;
            at += step.consumed;
            assert!(out.len() <= 3 * PIECE_BYTES, "{} bytes at once", out.len());
            all.extend_from_slice(&out);
            if step.ended {
                return Ok(all);
            }
            let is_idle = step.consumed == 0 && out.is_empty() && !step.is_busy;
            assert!(!(is_last && is_idle), "it stands still");
        }
    }

    fn packed(coding: Coding, text: &[u8]) -> Vec<u8> {
        run(&mut Chain::new([Stage::pack(coding)]), text, 1 << 20).expect("it packs all")
    }

    fn coding() -> impl Strategy<Value = Coding> {
        proptest::sample::select(&Coding::ALL[..])
    }

    proptest! {
        #[test]
        fn what_is_packed_unpacks_to_itself(
            coding in coding(),
            text in proptest::collection::vec(0u8..20, 0..3000),
            piece_bytes in 1usize..500,
            repeats in 1usize..50,
        ) {
            let text = text.repeat(repeats);
            let mut both = Chain::new([Stage::pack(coding), Stage::unpack(coding)]);
            prop_assert_eq!(&run(&mut both, &text, piece_bytes).expect("it is whole"), &text);
            let mut pack = Chain::new([Stage::pack(coding)]);
            let packed = run(&mut pack, &text, piece_bytes).expect("it packs all");
            let mut check = Chain::new([Stage::check(coding)]);
            prop_assert_eq!(run(&mut check, &packed, piece_bytes).expect("it is whole"), packed);
            let content_bytes = Some(text.len() as u64);
            prop_assert_eq!((pack.content_bytes(), check.content_bytes()), (content_bytes, content_bytes));
        }

        #[test]
        fn damage_is_noticed_where_there_is_a_sum_and_does_no_harm_anywhere(
            coding in coding(),
            text in proptest::collection::vec(any::<u8>(), 1..300),
            at in any::<proptest::sample::Index>(),
            flip in 1u8..=255,
        ) {
            let mut bytes = packed(coding, &text);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let result = run(&mut Chain::new([Stage::unpack(coding)]), &bytes, 64);
            // Time, flags and system say nothing about the data.
            if coding == Coding::Gzip && !(3..10).contains(&at) {
                prop_assert!(result.is_err() || result == Ok(text));
            }
        }
    }

    #[test]
    fn a_small_body_that_unpacks_to_a_huge_one_comes_in_small_pieces() {
        for coding in Coding::ALL {
            let bomb = packed(coding, &vec![0; 30 << 20]);
            assert!(bomb.len() < 64 << 10);
            let checked = run(&mut Chain::new([Stage::check(coding)]), &bomb, 16 << 10);
            assert_eq!(checked.as_ref(), Ok(&bomb));
            let mut chain = Chain::new([Stage::unpack(coding)]);
            let unpacked = run(&mut chain, &bomb, 16 << 10).expect("it is whole");
            assert_eq!(unpacked.len(), 30 << 20);
        }
    }

    #[test]
    fn a_cut_a_tail_and_another_format_are_refused() {
        let unpack = |coding, bytes: &[u8]| {
            run(&mut Chain::new([Stage::unpack(coding)]), bytes, 5).map(|_| ())
        };
        let errors = |coding| match coding {
            Coding::Gzip => (CodingError::Truncated, CodingError::Junk, CodingError::Header),
            other => {
                let invalid = CodingError::Invalid(other);
                (CodingError::Cut(other), invalid, invalid)
            }
        };
        for coding in Coding::ALL {
            let whole = packed(coding, b"hello hello hello");
            let (cut, tail, other) = errors(coding);
            assert_eq!(unpack(coding, &whole[..whole.len() - 1]), Err(cut));
            assert_eq!(unpack(coding, &[&whole[..], b"xxxxx"].concat()), Err(tail));
            assert_eq!(unpack(coding, b"hello hello hello"), Err(other));
            assert_eq!(unpack(coding, b""), Ok(()), "nothing is nothing");
        }
    }

    #[test]
    fn streams_of_gzip_in_a_row_are_one_body_and_zeros_behind_it_none() {
        let (first, second) = (packed(Coding::Gzip, b"hello "), packed(Coding::Gzip, b"world"));
        let unpack = |parts: &[&[u8]], piece| {
            run(&mut Chain::new([Stage::unpack(Coding::Gzip)]), &parts.concat(), piece)
        };
        for piece in [1, 5, 1000] {
            assert_eq!(unpack(&[&first, &second], piece), Ok(b"hello world".to_vec()));
            assert_eq!(unpack(&[&first, &[0; 20]], piece), Ok(b"hello ".to_vec()));
            for (rest, content_bytes) in [(&second[..], 11), (&[0; 20], 6)] {
                let all = [&first[..], rest].concat();
                let mut check = Chain::new([Stage::check(Coding::Gzip)]);
                assert_eq!(check.content_bytes(), None, "it has not ended");
                assert_eq!(run(&mut check, &all, piece).as_ref(), Ok(&all));
                assert_eq!(check.content_bytes(), Some(content_bytes));
            }
            for wrong in [&[&first[..], &second[..5]][..], &[&first, b"\x1fx"], &[&first, b"\0x"]] {
                assert!(unpack(wrong, piece).is_err(), "{wrong:?}");
            }
        }
    }

    #[test]
    fn what_was_flushed_can_be_read_before_the_end() {
        for coding in Coding::ALL {
            let mut chain = Chain::new([Stage::pack(coding)]);
            let mut packed = Vec::new();
            chain.step(b"first", false, &mut packed).expect("it packs all");
            chain.flush(&mut packed).expect("it packs all");
            let mut unpacked = Vec::new();
            let mut unpack = Chain::new([Stage::unpack(coding)]);
            unpack.step(&packed, false, &mut unpacked).expect("it is whole so far");
            assert_eq!(unpacked, b"first", "{coding:?}");
        }
    }

    #[test]
    fn a_window_of_more_than_8_mib_is_not_made_for_a_stranger() {
        // A frame without its length, of a window of 16 MiB (RFC 8878 §3.1.1.1.2).
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, (24 - 10) << 3, 1, 0, 0];
        let unpacked = run(&mut Chain::new([Stage::unpack(Coding::Zstd)]), &frame, 64);
        assert_eq!(unpacked, Err(CodingError::Invalid(Coding::Zstd)));
        let allowed = [0x28, 0xb5, 0x2f, 0xfd, 0, (23 - 10) << 3, 1, 0, 0];
        assert_eq!(run(&mut Chain::new([Stage::unpack(Coding::Zstd)]), &allowed, 64), Ok(vec![]));
    }
}
