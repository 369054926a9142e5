//! Finding edge side includes in a text that comes in pieces.
//!
//! Only what may be a tag is held back, so a piece of text goes through at once and memory is
//! bounded by the longest tag.

use freshet_config::esi::EsiSettings;

/// Bytes of one tag of ours. More is an error and skipped.
const TAG_BYTES_MAX: usize = 32 << 10;

/// What was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found<'a> {
    /// Text for clients.
    Text(&'a [u8]),
    /// What clients do not see once includes are put in.
    Markup(&'a [u8]),
    /// A response to be put in here.
    Include(Include),
}

/// A response to be put in.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Include {
    /// Another host than the page's; empty for the same.
    pub host: Vec<u8>,
    /// Path and query.
    pub target: Vec<u8>,
    /// Whether the page goes on without it when it cannot be had.
    pub may_fail: bool,
}

/// Something wrong with a page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Complaint {
    /// Bytes of the page before what is wrong.
    pub offset: u64,
    /// Whether it had an effect all the same.
    pub is_warning: bool,
    /// What is wrong.
    pub text: &'static str,
}

/// Where the parser is.
#[derive(Debug)]
enum Mode {
    Text,
    /// After `<`, as long as it may be one of ours.
    Start,
    /// In one of our tags, up to `>`.
    Tag,
    /// One of our tags that became too long.
    TooLong,
    /// In somebody else's tag, up to `>`.
    Other,
    /// Up to `-->`.
    Comment(u8),
    /// Up to `]]>`.
    Cdata(u8),
    /// Dashes within `<!--esi`, which may be its end.
    Dashes,
}

/// What begins with `<` and means something.
const STARTS: [&[u8]; 6] = [b"<esi:", b"</esi:", b"<!--esi", b"<!--", EMPTY_COMMENT, b"<![CDATA["];
const EMPTY_COMMENT: &[u8] = b"<!---->";

/// Looks for includes.
pub struct Parser {
    mode: Mode,
    held: Vec<u8>,
    /// Bytes seen before `held`.
    offset: u64,
    in_ours: bool,
    in_remove: bool,
    has_found: bool,
    /// Where the last run of text or of markup began.
    run: u64,
    run_is_markup: bool,
    settings: EsiSettings,
    /// What relative addresses begin with: the page's path up to its last slash.
    base: Vec<u8>,
    complaints: Vec<Complaint>,
}

impl Parser {
    /// Parses a page at this path.
    pub fn new(settings: EsiSettings, page: &str) -> Self {
        let path = page.split('?').next().unwrap_or("");
        let folder = path.rfind('/').and_then(|slash| path.get(..slash));
        Self {
            mode: Mode::Text,
            held: Vec::new(),
            offset: 0,
            in_ours: false,
            in_remove: false,
            has_found: false,
            run: 0,
            run_is_markup: false,
            settings,
            // A path that has none is one, as Varnish takes it.
            base: format!("{}/", folder.unwrap_or(path)).into(),
            complaints: Vec::new(),
        }
    }

    /// What was wrong since the last call.
    pub fn take_complaints(&mut self) -> Vec<Complaint> {
        std::mem::take(&mut self.complaints)
    }

    /// Whether there was anything that makes it another page: one of our tags, or what is between
    /// `<!--esi` and its end.
    pub fn has_found(&self) -> bool {
        self.has_found
    }

    /// The next bytes of the page.
    pub fn feed(&mut self, input: &[u8], found: &mut dyn FnMut(Found<'_>)) {
        let mut rest = input;
        while let Some(first) = rest.first() {
            let taken = match self.mode {
                Mode::Text => self.text(rest, found),
                Mode::Other | Mode::TooLong => {
                    let end = rest.iter().position(|byte| *byte == b'>');
                    let taken = end.map_or(rest.len(), |at| at + 1);
                    let tag = rest.get(..taken).unwrap_or(rest);
                    match self.mode {
                        Mode::TooLong => self.markup(tag, found),
                        _ => self.pass(tag, found),
                    }
                    if end.is_some() {
                        self.mode = Mode::Text;
                    }
                    taken
                }
                Mode::Comment(_) | Mode::Cdata(_) => self.section(rest, found),
                Mode::Start | Mode::Tag | Mode::Dashes => {
                    self.held.push(*first);
                    self.held_byte(*first, found);
                    1
                }
            };
            rest = rest.get(taken..).unwrap_or(&[]);
        }
    }

    /// The page is over.
    pub fn end(&mut self, found: &mut dyn FnMut(Found<'_>)) {
        if !matches!(self.mode, Mode::Text | Mode::Dashes) {
            let offset = if matches!(self.mode, Mode::Tag) { self.place() } else { self.run };
            self.complain_at(offset, "VEP ended inside a tag");
        }
        let held = std::mem::take(&mut self.held);
        match self.mode {
            Mode::Tag | Mode::TooLong => self.markup(&held, found),
            _ => self.pass(&held, found),
        }
    }

    /// Bytes up to the next that may mean something; how many.
    fn text(&mut self, input: &[u8], found: &mut dyn FnMut(Found<'_>)) -> usize {
        let ours = self.in_ours;
        let end = input.iter().position(|byte| *byte == b'<' || (ours && *byte == b'-'));
        let text = input.get(..end.unwrap_or(input.len())).unwrap_or(input);
        self.pass(text, found);
        let Some(at) = end else { return input.len() };
        let is_tag = input.get(at) == Some(&b'<');
        self.mode = if is_tag { Mode::Start } else { Mode::Dashes };
        self.held.extend(input.get(at));
        at + 1
    }

    /// Bytes of a comment or a section up to its end; how many.
    fn section(&mut self, input: &[u8], found: &mut dyn FnMut(Found<'_>)) -> usize {
        let (mut seen, double) = match self.mode {
            Mode::Comment(seen) => (seen, b'-'),
            Mode::Cdata(seen) => (seen, b']'),
            _ => return 0,
        };
        let mut taken = 0;
        let mut has_ended = false;
        for byte in input {
            taken += 1;
            if *byte == double {
                seen = (seen + 1).min(2);
            } else if *byte == b'>' && seen == 2 {
                has_ended = true;
                break;
            } else {
                seen = 0;
            }
        }
        self.mode = match self.mode {
            _ if has_ended => Mode::Text,
            Mode::Comment(_) => Mode::Comment(seen),
            _ => Mode::Cdata(seen),
        };
        self.pass(input.get(..taken).unwrap_or(input), found);
        taken
    }

    /// A byte was added to what is held.
    fn held_byte(&mut self, byte: u8, found: &mut dyn FnMut(Found<'_>)) {
        match self.mode {
            Mode::Start => self.start(byte, found),
            Mode::Tag if byte == b'>' => {
                let tag = std::mem::take(&mut self.held);
                self.mode = Mode::Text;
                self.element(&tag, found);
            }
            Mode::Tag if self.held.len() > TAG_BYTES_MAX => {
                self.complain("ESI 1.0 tag is too long");
                let tag = std::mem::take(&mut self.held);
                self.markup(&tag, found);
                self.mode = Mode::TooLong;
            }
            Mode::Dashes => {
                let held = std::mem::take(&mut self.held);
                match (held.as_slice(), byte) {
                    (b"--", _) => self.held = held,
                    ([b'-', b'-', b'>'], _) => {
                        (self.in_ours, self.has_found) = (false, true);
                        self.mode = Mode::Text;
                        self.markup(&held, found);
                    }
                    // One dash more: the first is text.
                    (_, b'-') => {
                        self.pass(b"-", found);
                        self.held = b"--".to_vec();
                    }
                    (_, b'<') => {
                        let text = held.get(..held.len() - 1).unwrap_or(&[]).to_vec();
                        self.pass(&text, found);
                        self.held.push(b'<');
                        self.mode = Mode::Start;
                    }
                    _ => {
                        self.mode = Mode::Text;
                        self.pass(&held, found);
                    }
                }
            }
            Mode::Tag
            | Mode::TooLong
            | Mode::Text
            | Mode::Other
            | Mode::Comment(_)
            | Mode::Cdata(_) => {}
        }
    }

    /// Decides what a tag is as soon as that is known.
    fn start(&mut self, byte: u8, found: &mut dyn FnMut(Found<'_>)) {
        let held = std::mem::take(&mut self.held);
        match held.as_slice() {
            b"<esi:" | b"</esi:" => {
                (self.mode, self.has_found) = (Mode::Tag, true);
                self.held = held;
            }
            b"<!--esi" => {
                if self.in_remove {
                    self.complain("ESI 1.0 Nested <!--esi element in <esi:remove>");
                }
                self.in_ours = true;
                self.mode = Mode::Text;
                self.markup(&held, found);
            }
            b"<![CDATA[" => {
                self.mode = Mode::Cdata(0);
                self.pass(&held, found);
            }
            EMPTY_COMMENT => {
                self.mode = Mode::Text;
                self.pass(&held, found);
            }
            text if STARTS.iter().any(|start| start.starts_with(text)) => self.held = held,
            text if text.starts_with(b"<!--") => {
                let after = text.get(4..).unwrap_or(&[]).to_vec();
                self.mode = Mode::Comment(0);
                // Its end is that of both.
                self.in_ours = false;
                self.pass(b"<!--", found);
                self.section(&after, found);
            }
            text => {
                let is_closed = byte == b'>' || self.settings.ignore_other_elements;
                self.mode = if is_closed { Mode::Text } else { Mode::Other };
                // Another tag may begin within, where others are text.
                match text.split_last() {
                    Some((b'<', before)) if self.settings.ignore_other_elements => {
                        self.pass(before, found);
                        self.mode = Mode::Start;
                        self.held.push(b'<');
                    }
                    _ => self.pass(text, found),
                }
            }
        }
    }

    /// One of our tags, whole.
    fn element(&mut self, tag: &[u8], found: &mut dyn FnMut(Found<'_>)) {
        let inner = tag.get(1..tag.len().saturating_sub(1)).unwrap_or(&[]);
        let (is_end, inner) = match inner.strip_prefix(b"/") {
            Some(inner) => (true, inner),
            None => (false, inner),
        };
        let inner = inner.strip_prefix(b"esi:").unwrap_or(inner);
        let is_named = |name: &[u8]| inner.strip_prefix(name);
        let place = self.place();
        let mut include = None;
        let judged = if let Some(rest) = is_named(b"include") {
            self.include(is_end, rest).map(|found| include = found)
        } else if let Some(rest) = is_named(b"remove") {
            // The tag that begins it is not in it.
            self.markup(tag, found);
            let was_in_remove = self.in_remove;
            let judged = self.remove(is_end, rest);
            if !was_in_remove {
                self.run = place;
            }
            return judged.unwrap_or_else(|wrong| self.complain_at(place, wrong));
        } else if let Some(rest) = is_named(b"comment") {
            self.comment(is_end, rest)
        } else {
            Err("ESI 1.0 <esi:bogus> element")
        };
        judged.unwrap_or_else(|wrong| self.complain_at(place, wrong));
        self.markup(tag, found);
        if let Some(include) = include {
            found(Found::Include(include));
        }
    }

    fn comment(&self, is_end: bool, rest: &[u8]) -> Result<(), &'static str> {
        if self.in_remove {
            return Err("ESI 1.0 <esi:comment> element nested in <esi:remove>");
        }
        if is_end {
            return Err("ESI 1.0 </esi:comment> illegal end-tag");
        }
        if !read_attributes(rest, |_, _| Ok(()))? {
            return Err("ESI 1.0 <esi:comment> needs final '/'");
        }
        Ok(())
    }

    fn remove(&mut self, is_end: bool, rest: &[u8]) -> Result<(), &'static str> {
        let is_empty = read_attributes(rest, |_, _| Ok(()))?;
        match (is_end, self.in_remove) {
            _ if is_empty => return Err("ESI 1.0 <esi:remove/> not legal"),
            (false, true) => return Err("ESI 1.0 <esi:remove> already open"),
            (true, false) => return Err("ESI 1.0 <esi:remove> not open"),
            _ => self.in_remove = !is_end,
        }
        Ok(())
    }

    /// What an include asks for; `None` where it is not asked for.
    fn include(
        &mut self,
        is_end: bool,
        attributes: &[u8],
    ) -> Result<Option<Include>, &'static str> {
        if self.in_remove {
            return Err("ESI 1.0 <esi:include> element nested in <esi:remove>");
        }
        if is_end {
            return Err("ESI 1.0 </esi:include> illegal end-tag");
        }
        let (mut source, mut may_fail) = (None, false);
        let is_closed = read_attributes(attributes, |name, value| {
            let Some(value) = value else { return Ok(()) };
            match name {
                b"src" if source.is_some() => {
                    return Err("ESI 1.0 <esi:include> has multiple src= attributes");
                }
                b"src" if value.iter().any(u8::is_ascii_whitespace) => {
                    return Err("ESI 1.0 <esi:include> has whitespace in src= attribute");
                }
                b"src" => source = Some(value),
                b"onerror" => may_fail = value == b"continue",
                _ => {}
            }
            Ok(())
        })?;
        if !is_closed {
            self.warn("ESI 1.0 <esi:include> lacks final '/'");
        }
        let source = source.ok_or("ESI 1.0 <esi:include> lacks src attr")?;
        let source = unescape(source);
        let after = |prefix: &[u8]| {
            let (start, rest) = source.split_at_checked(prefix.len())?;
            start.eq_ignore_ascii_case(prefix).then_some(rest)
        };
        let with_host = if let Some(rest) = after(b"http://") {
            Some(rest)
        } else if let Some(rest) = after(b"https://") {
            if !self.settings.https_as_http {
                self.warn("ESI 1.0 <esi:include> with https:// ignored");
                return Ok(None);
            }
            self.warn("ESI 1.0 <esi:include> https:// treated as http://");
            Some(rest)
        } else {
            after(b"//")
        };
        let (host, target) = match with_host {
            Some(rest) => {
                let slash = rest.iter().position(|byte| *byte == b'/').ok_or(NO_URL)?;
                let (host, target) = rest.split_at(slash);
                (host.to_vec(), target.to_vec())
            }
            None if source.starts_with(b"/") => (Vec::new(), source),
            None => (Vec::new(), [self.base.as_slice(), &source].concat()),
        };
        // What is no target in a request's first line cannot be asked for.
        let is_plain = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_graphic);
        if !is_plain(&host) || !target.iter().all(|byte| *byte > b' ' && *byte != 0x7f) {
            return Err(NO_URL);
        }
        Ok(Some(Include { host, target, may_fail }))
    }

    /// Bytes that are text, or markup within what is removed.
    fn pass(&mut self, bytes: &[u8], found: &mut dyn FnMut(Found<'_>)) {
        if bytes.is_empty() {
            return;
        }
        let removed = self.in_remove;
        self.begin_run(removed);
        self.offset += bytes.len() as u64;
        found(if removed { Found::Markup(bytes) } else { Found::Text(bytes) });
    }

    fn markup(&mut self, bytes: &[u8], found: &mut dyn FnMut(Found<'_>)) {
        if bytes.is_empty() {
            return;
        }
        self.begin_run(true);
        self.offset += bytes.len() as u64;
        found(Found::Markup(bytes));
    }

    fn begin_run(&mut self, is_markup: bool) {
        if self.run_is_markup != is_markup {
            self.run_is_markup = is_markup;
            self.run = self.offset;
        }
    }

    fn complain(&mut self, text: &'static str) {
        let offset = self.place();
        self.complain_at(offset, text);
    }

    fn warn(&mut self, text: &'static str) {
        let offset = self.place();
        self.complaints.push(Complaint { offset, is_warning: true, text });
    }

    fn complain_at(&mut self, offset: u64, text: &'static str) {
        self.complaints.push(Complaint { offset, is_warning: false, text });
    }

    /// What people are told as the place: where a tag begins, or what is removed around it.
    fn place(&self) -> u64 {
        if self.in_remove { self.run } else { self.offset }
    }
}

const NO_URL: &str = "ESI 1.0 <esi:include> invalid src= URL";

/// Reads attributes between the name of a tag and its `>`, one after the other; a name may stand
/// alone. Whether the tag is its own end.
fn read_attributes<'a>(
    text: &'a [u8],
    mut each: impl FnMut(&'a [u8], Option<&'a [u8]>) -> Result<(), &'static str>,
) -> Result<bool, &'static str> {
    const NO_START: &str = "XML 1.0 Illegal attribute start char";
    let is_apart = text.first().is_none_or(|first| first.is_ascii_whitespace() || *first == b'/');
    let mut rest = if is_apart { text } else { return Err(NO_START) };
    loop {
        rest = rest.trim_ascii_start();
        let Some(first) = rest.first() else { return Ok(false) };
        if *first == b'/' {
            let is_last = rest.len() == 1;
            return if is_last { Ok(true) } else { Err("XML 1.0 '>' does not follow '/' in tag") };
        }
        if !is_name_start(*first) {
            return Err(NO_START);
        }
        let name_bytes = rest.iter().position(|byte| !is_name(*byte)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(name_bytes);
        let (value, after) = match after.split_first() {
            Some((b'=', after)) => {
                let (value, after) = read_value(after)?;
                (Some(value), after)
            }
            None | Some((b'/', _)) => (None, after),
            Some((byte, _)) if byte.is_ascii_whitespace() => (None, after),
            Some(_) => return Err("XML 1.0 Illegal attr char"),
        };
        each(name, value)?;
        rest = after;
    }
}

/// A value and what is behind it.
fn read_value(text: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let (value, end) = match text.split_first() {
        Some((quote @ (b'"' | b'\''), value)) => {
            (value, value.iter().position(|byte| byte == quote))
        }
        Some((first, _)) if !first.is_ascii_whitespace() => {
            (text, text.iter().position(u8::is_ascii_whitespace))
        }
        _ => return Err("XML 1.0 Illegal attribute delimiter"),
    };
    let (value, after) = value.split_at(end.ok_or("XML 1.0 Missing end attribute delimiter")?);
    Ok((value, after.get(1..).unwrap_or(&[])))
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':') || byte >= 0x80
}

fn is_name(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
}

/// The five entities every XML has.
const ENTITIES: [(&[u8], u8); 5] =
    [(b"&amp;", b'&'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&quot;", b'"'), (b"&apos;", b'\'')];

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let entity = ENTITIES.iter().find(|(name, _)| rest.starts_with(name));
        match entity {
            Some((name, byte)) => {
                out.push(*byte);
                rest = rest.get(name.len()..).unwrap_or(&[]);
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
