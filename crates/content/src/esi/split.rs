//! Making parts of a page while it comes.

use super::parse::{Complaint, Found, Parser};
use super::parts::{Head, Kind, write_include};
use crate::chain::{CodingError, PIECE_BYTES, Step};
use crate::coding::gzip::{deflate, flush};
use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress};
use freshet_config::esi::EsiSettings;

/// White space in front of a page that is looked through for its first character.
const BLANK_BYTES_MAX: usize = 64 << 10;
/// A page that is looked through for its first element: of a longer one it is not known in time.
const LOOKED_THROUGH_BYTES_MAX: usize = 1 << 20;
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// A stage that makes parts of a page.
pub struct Splitter {
    parser: Parser,
    writer: Writer,
    settings: EsiSettings,
    /// Whether it is a page at all; `None` while that is not known.
    is_markup: Option<bool>,
    held: Vec<u8>,
    refusal: Option<&'static str>,
    /// What looks for the first element, where one makes it a page.
    scout: Option<Scout>,
}

/// Reads ahead for the first element of a page.
struct Scout {
    parser: Parser,
    /// How much of what is held it has seen.
    seen: usize,
}

impl Scout {
    /// Whether there is an element in what is held; `None` while that is not known.
    fn look(&mut self, held: &[u8], is_last: bool) -> Option<bool> {
        let Self { parser, seen } = self;
        parser.feed(held.get(*seen..).unwrap_or(&[]), &mut |_| ());
        if is_last {
            parser.end(&mut |_| ());
        }
        *seen = held.len();
        let has_found = parser.has_found();
        let is_long = held.len() > LOOKED_THROUGH_BYTES_MAX;
        (has_found || is_last || is_long).then_some(has_found || !is_last)
    }
}

impl Splitter {
    /// Splits a page at this path, with its parts packed at this level, if at all.
    pub fn new(settings: &EsiSettings, page: &str, level: Option<u32>) -> Self {
        Self {
            parser: Parser::new(settings.clone(), page),
            writer: Writer::new(level),
            settings: settings.clone(),
            is_markup: None,
            held: Vec::new(),
            refusal: None,
            scout: None,
        }
    }

    /// The same, which takes it for a page only if there is an element in it: nobody waits for its
    /// beginning.
    #[must_use]
    pub fn looking_through(self, page: &str) -> Self {
        let parser = Parser::new(self.settings.clone(), page);
        Self { scout: Some(Scout { parser, seen: 0 }), ..self }
    }

    /// Whether it is a page at all; `None` while that is not known. Nothing comes out before.
    pub fn is_markup(&self) -> Option<bool> {
        self.is_markup
    }

    /// What it took before it was known.
    pub fn into_held(self) -> Vec<u8> {
        self.held
    }

    /// Why it is no page.
    pub fn take_refusal(&mut self) -> Option<&'static str> {
        self.refusal.take()
    }

    /// What was wrong since the last call.
    pub fn take_complaints(&mut self) -> Vec<Complaint> {
        self.parser.take_complaints()
    }

    pub(crate) fn step(
        &mut self,
        input: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, CodingError> {
        match self.is_markup {
            Some(false) => return Ok(Step::default()),
            Some(true) => {}
            None => {
                self.held.extend_from_slice(input);
                self.look(is_last);
                self.look_through(is_last);
                if self.is_markup == Some(true) {
                    let held = std::mem::take(&mut self.held);
                    let page = held.strip_prefix(&BOM).filter(|_| self.settings.remove_bom);
                    self.feed(page.unwrap_or(&held), out)?;
                    if is_last {
                        return self.end(input.len(), out);
                    }
                }
                return Ok(Step { consumed: input.len(), ended: false, ..Step::default() });
            }
        }
        let piece = input.get(..PIECE_BYTES).unwrap_or(input);
        self.feed(piece, out)?;
        if is_last && piece.len() == input.len() {
            return self.end(piece.len(), out);
        }
        Ok(Step { consumed: piece.len(), ended: false, ..Step::default() })
    }

    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), CodingError> {
        self.writer.flush(FlushCompress::Sync, out)
    }

    fn end(&mut self, consumed: usize, out: &mut Vec<u8>) -> Result<Step, CodingError> {
        let (writer, mut result) = (&mut self.writer, Ok(()));
        self.parser.end(&mut |found| {
            if result.is_ok() {
                result = writer.take(found, out);
            }
        });
        result?;
        self.writer.end_run(out)?;
        Ok(Step { consumed, ended: true, ..Step::default() })
    }

    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodingError> {
        let (writer, mut result) = (&mut self.writer, Ok(()));
        self.parser.feed(input, &mut |found| {
            if result.is_ok() {
                result = writer.take(found, out);
            }
        });
        result?;
        self.writer.end_piece(out)
    }

    /// Looks for an element in what has come of a page, where one is needed.
    fn look_through(&mut self, is_last: bool) {
        let Some(scout) = self.scout.as_mut().filter(|_| self.is_markup == Some(true)) else {
            return;
        };
        self.is_markup = scout.look(&self.held, is_last);
        if self.is_markup == Some(false) {
            // What is wrong with it is told all the same.
            std::mem::swap(&mut self.parser, &mut scout.parser);
        }
    }

    /// Looks at how the page begins.
    fn look(&mut self, is_last: bool) {
        let has_bom = self.held.starts_with(&BOM);
        let may_be_bom = !has_bom && BOM.starts_with(&self.held) && !is_last;
        if may_be_bom {
            return;
        }
        if !self.settings.check_markup {
            self.is_markup = Some(true);
            return;
        }
        let skipped = if has_bom && self.settings.remove_bom { BOM.len() } else { 0 };
        let page = self.held.get(skipped..).unwrap_or(&[]);
        let first = page.iter().find(|byte| !byte.is_ascii_whitespace());
        self.is_markup = match first {
            Some(b'<') => Some(true),
            Some(_) if has_bom && skipped == 0 => {
                self.refusal = Some(
                    "No ESI processing, first char not '<' but BOM. (See feature esi_remove_bom)",
                );
                Some(false)
            }
            Some(_) => {
                self.refusal = Some(
                    "No ESI processing, first char not '<'. (See feature esi_disable_xml_check)",
                );
                Some(false)
            }
            None if is_last || self.held.len() > BLANK_BYTES_MAX => Some(false),
            None => None,
        };
    }
}

/// Writes parts.
struct Writer {
    packing: Option<Compress>,
    kind: Kind,
    /// What goes behind the head of the part that is being made.
    bytes: Vec<u8>,
    text_bytes: u32,
    sum: Hasher,
    /// Whether the run has anything that is not in `bytes` any more.
    in_run: bool,
}

impl Writer {
    fn new(level: Option<u32>) -> Self {
        Self {
            packing: level.map(|level| Compress::new(Compression::new(level), false)),
            kind: Kind::Text,
            bytes: Vec::new(),
            text_bytes: 0,
            sum: Hasher::new(),
            in_run: false,
        }
    }

    fn take(&mut self, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), CodingError> {
        let (kind, text) = match found {
            Found::Text(text) => (Kind::Text, text),
            Found::Markup(text) => (Kind::Markup, text),
            Found::Include(include) => {
                self.end_run(out)?;
                write_include(&include, out);
                return Ok(());
            }
        };
        if kind != self.kind {
            self.end_run(out)?;
            self.kind = kind;
        }
        self.in_run = true;
        for piece in text.chunks(PIECE_BYTES) {
            self.sum.update(piece);
            self.text_bytes += u32::try_from(piece.len()).unwrap_or(0);
            match &mut self.packing {
                Some(raw) => {
                    let mut rest = piece;
                    while !rest.is_empty() {
                        let (taken, _) = deflate(raw, rest, FlushCompress::None, &mut self.bytes)?;
                        rest = rest.get(taken..).unwrap_or(&[]);
                    }
                }
                None => self.bytes.extend_from_slice(piece),
            }
            if self.text_bytes as usize >= PIECE_BYTES {
                self.flush(FlushCompress::Sync, out)?;
            }
        }
        Ok(())
    }

    /// A piece of the page is through: what needs no packing goes on.
    fn end_piece(&mut self, out: &mut Vec<u8>) -> Result<(), CodingError> {
        if self.packing.is_some() { Ok(()) } else { self.flush(FlushCompress::None, out) }
    }

    fn end_run(&mut self, out: &mut Vec<u8>) -> Result<(), CodingError> {
        if std::mem::take(&mut self.in_run) {
            self.flush(FlushCompress::Full, out)?;
        }
        Ok(())
    }

    /// Writes the part that is being made.
    fn flush(&mut self, how: FlushCompress, out: &mut Vec<u8>) -> Result<(), CodingError> {
        if self.text_bytes == 0 && how != FlushCompress::Full {
            return Ok(());
        }
        if let Some(raw) = &mut self.packing {
            flush(raw, how, &mut self.bytes)?;
        }
        if self.bytes.is_empty() {
            return Ok(());
        }
        let bytes = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let sum = std::mem::take(&mut self.sum).finalize();
        Head { kind: self.kind, bytes, text_bytes: self.text_bytes, sum }.write(out);
        out.append(&mut self.bytes);
        self.text_bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::RawJoiner;
    use super::*;
    use crate::chain::{Chain, Stage};
    use crate::coding::gzip::LEVEL;
    use proptest::prelude::*;

    fn run(stages: Vec<Stage>, input: &[u8], piece_bytes: usize) -> Vec<u8> {
        let mut chain = Chain::new(stages);
        let (mut all, mut out, mut at) = (Vec::new(), Vec::new(), 0);
        loop {
            let end = (at + piece_bytes).min(input.len());
            out.clear();
            let step = chain.step(&input[at..end], end == input.len(), &mut out).expect("whole");
            at += step.consumed;
            all.extend_from_slice(&out);
            if step.ended {
                return all;
            }
        }
    }

    proptest! {
        #[test]
        fn parts_joined_are_the_page(
            words in proptest::collection::vec(
                proptest::sample::select(vec![
                    "<esi:remove>", "</esi:remove>", "<esi:include src='/x'/>", "<!--esi", "-->",
                    "text ", "<p>",
                ]),
                0..60,
            ),
            repeats in 1usize..200,
            piece_bytes in 1usize..5000,
            is_packed in any::<bool>(),
        ) {
            let page = ["<html>", &words.concat().repeat(repeats)].concat();
            let splitter = Splitter::new(&EsiSettings::default(), "/", is_packed.then_some(LEVEL));
            let mut stages = vec![
                Stage::Split(Box::new(splitter)),
                Stage::Join(Box::new(RawJoiner::new(is_packed))),
            ];
            if is_packed {
                stages.push(Stage::unpack(freshet_http::coding::Coding::Gzip));
            }
            let back = run(stages, page.as_bytes(), piece_bytes);
            prop_assert_eq!(String::from_utf8_lossy(&back), page);
        }
    }

    #[test]
    fn what_has_no_element_is_no_page_where_nobody_waits() {
        let decided = |pieces: &[&str]| {
            let splitter = Splitter::new(&EsiSettings::default(), "/", None).looking_through("/");
            let mut chain = Chain::new([Stage::Split(Box::new(splitter))]);
            let (mut out, mut decisions) = (Vec::new(), Vec::new());
            for (at, piece) in pieces.iter().enumerate() {
                let is_last = at + 1 == pieces.len();
                let step = chain.step(piece.as_bytes(), is_last, &mut out).expect("fine");
                assert_eq!(step.consumed, piece.len());
                decisions.push(chain.split_decision().expect("it splits"));
            }
            decisions
        };
        assert_eq!(decided(&["<p>", "a", "</p>"]), [None, None, Some(false)]);
        assert_eq!(decided(&["<p>a<es", "i:remove>"]), [None, Some(true)]);
        assert_eq!(decided(&["<p>a<!--es", "i b-->", "c"]), [None, Some(true), Some(true)]);
        assert_eq!(decided(&["<p>a<!--esi", " b"]), [None, Some(false)]);
        // What begins as no page is not looked through, and nothing more of it is taken.
        assert_eq!(decided(&["a<esi:remove>"]), [Some(false)]);
        let long = "<p>".repeat(LOOKED_THROUGH_BYTES_MAX / 3 + 1);
        assert_eq!(decided(&[&long, "<p>"]), [Some(true), Some(true)]);
    }

    #[test]
    fn what_is_no_page_is_given_back() {
        let splitter = Splitter::new(&EsiSettings::default(), "/", None);
        let mut chain = Chain::new([Stage::Split(Box::new(splitter))]);
        let mut out = Vec::new();
        let step = chain.step(b"  x", false, &mut out).expect("nothing is wrong");
        assert_eq!((step.consumed, chain.split_decision()), (3, Some(Some(false))));
        chain.replace_split(Stage::Copy);
        let step = chain.step(b"y", true, &mut out).expect("nothing is wrong");
        let mut consumed = step.consumed;
        while !chain
            .step(&b"y"[consumed..], true, &mut out)
            .map(|step| {
                consumed += step.consumed;
                step.ended
            })
            .expect("nothing is wrong")
        {}
        assert_eq!(out, b"  xy");
    }

    #[test]
    fn what_was_held_of_no_page_counts_once() {
        let settings = EsiSettings::default();
        for text in [&b"bar"[..], &[b'a'; 5000]] {
            let splitter = Splitter::new(&settings, "/", Some(6)).looking_through("/");
            let mut chain = Chain::new([Stage::Split(Box::new(splitter))]);
            let mut out = Vec::new();
            let mut at = 0;
            while chain.split_decision() != Some(Some(false)) {
                let step = chain.step(&text[at..], true, &mut out).expect("it is read");
                at += step.consumed;
                assert!(out.is_empty());
            }
            chain.replace_split(Stage::gzip(6));
            loop {
                let step = chain.step(&text[at..], true, &mut out).expect("it is packed");
                at += step.consumed;
                if step.ended {
                    break;
                }
            }
            assert_eq!(chain.content_bytes(), Some(text.len() as u64));
            let counts: Vec<_> = chain.counts().collect();
            assert_eq!(counts, [(text.len() as u64, out.len() as u64)]);
        }
    }
}
