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
const STARTS: [&[u8]; 5] = [b"<esi:", b"</esi:", b"<!--esi", b"<!--", b"<![CDATA["];

/// Looks for includes.
pub struct Parser {
    mode: Mode,
    held: Vec<u8>,
    /// Bytes seen before `held`.
    offset: u64,
    in_ours: bool,
    in_remove: bool,
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
        let base = path.rfind('/').and_then(|slash| path.get(..=slash)).unwrap_or("/");
        Self {
            mode: Mode::Text,
            held: Vec::new(),
            offset: 0,
            in_ours: false,
            in_remove: false,
            run: 0,
            run_is_markup: false,
            settings,
            base: base.into(),
            complaints: Vec::new(),
        }
    }

    /// What was wrong since the last call.
    pub fn take_complaints(&mut self) -> Vec<Complaint> {
        std::mem::take(&mut self.complaints)
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
            let offset = self.run;
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
                        self.in_ours = false;
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
                self.mode = Mode::Tag;
                self.held = held;
            }
            b"<!--esi" => {
                if self.in_remove {
                    self.complain("ESI 1.0 Nested <!--esi element in <esi:remove>");
                } else {
                    self.in_ours = true;
                }
                self.mode = Mode::Text;
                self.markup(&held, found);
            }
            b"<![CDATA[" => {
                self.mode = Mode::Cdata(0);
                self.pass(&held, found);
            }
            text if STARTS.iter().any(|start| start.starts_with(text)) => self.held = held,
            text if text.starts_with(b"<!--") => {
                let after = text.get(4..).unwrap_or(&[]).to_vec();
                self.mode = Mode::Comment(0);
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
        let name_bytes = inner
            .iter()
            .position(|byte| byte.is_ascii_whitespace() || *byte == b'/')
            .unwrap_or(inner.len());
        let (name, rest) = inner.split_at(name_bytes);
        let include = match (name, is_end) {
            (b"include", false) => self.include(rest),
            (b"remove", _) => {
                self.remove(is_end, rest, tag, found);
                return;
            }
            (b"comment", false) => {
                if self.in_remove {
                    self.complain("ESI 1.0 <esi:comment> element nested in <esi:remove>");
                } else if !rest.ends_with(b"/") {
                    self.complain("ESI 1.0 <esi:comment> needs final '/'");
                } else if !has_slash_at_end_only(rest) {
                    self.complain("XML 1.0 '>' does not follow '/' in tag");
                }
                None
            }
            (b"include", true) => {
                self.complain("ESI 1.0 </esi:include> illegal end-tag");
                None
            }
            (b"comment", true) => {
                self.complain("ESI 1.0 </esi:comment> illegal end-tag");
                None
            }
            _ => {
                self.complain("ESI 1.0 <esi:bogus> element");
                None
            }
        };
        self.markup(tag, found);
        if let Some(include) = include {
            found(Found::Include(include));
        }
    }

    fn remove(&mut self, is_end: bool, rest: &[u8], tag: &[u8], found: &mut dyn FnMut(Found<'_>)) {
        match (is_end, self.in_remove) {
            (false, _) if rest.ends_with(b"/") => self.complain("ESI 1.0 <esi:remove/> not legal"),
            (false, true) => self.complain("ESI 1.0 <esi:remove> already open"),
            (true, false) => self.complain("ESI 1.0 <esi:remove> not open"),
            (false, false) => {
                self.markup(tag, found);
                self.in_remove = true;
                return;
            }
            (true, true) => self.in_remove = false,
        }
        self.markup(tag, found);
    }

    /// What an include asks for; `None` where that cannot be told.
    fn include(&mut self, attributes: &[u8]) -> Option<Include> {
        let list = match read_attributes(attributes) {
            Ok(list) => list,
            Err(wrong) => {
                self.complain(wrong);
                return None;
            }
        };
        if self.in_remove {
            self.complain("ESI 1.0 <esi:include> element nested in <esi:remove>");
            return None;
        }
        if !list.is_closed {
            self.warn("ESI 1.0 <esi:include> lacks final '/'");
        }
        let mut sources = list.pairs.iter().filter(|(name, _)| *name == b"src");
        let source = match (sources.next(), sources.next()) {
            (Some((_, Some(source))), None) => source,
            (Some(_), Some(_)) => {
                self.complain("ESI 1.0 <esi:include> has multiple src= attributes");
                return None;
            }
            _ => {
                self.complain("ESI 1.0 <esi:include> lacks src attr");
                return None;
            }
        };
        if source.iter().any(u8::is_ascii_whitespace) {
            self.complain("ESI 1.0 <esi:include> has whitespace in src= attribute");
            return None;
        }
        let may_fail = list
            .pairs
            .iter()
            .any(|(name, value)| *name == b"onerror" && *value == Some(&b"continue"[..]));
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
                return None;
            }
            self.warn("ESI 1.0 <esi:include> https:// treated as http://");
            Some(rest)
        } else {
            after(b"//")
        };
        let (host, target) = match with_host {
            Some(rest) => {
                let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
                    self.complain("ESI 1.0 <esi:include> invalid src= URL");
                    return None;
                };
                let (host, target) = rest.split_at(slash);
                (host.to_vec(), target.to_vec())
            }
            None if source.starts_with(b"/") => (Vec::new(), source),
            None => (Vec::new(), [self.base.as_slice(), &source].concat()),
        };
        // What is no target in a request's first line cannot be asked for.
        let is_plain = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_graphic);
        if !is_plain(&host) || !target.iter().all(|byte| *byte > b' ' && *byte != 0x7f) {
            self.complain("ESI 1.0 <esi:include> invalid src= URL");
            return None;
        }
        Some(Include { host, target, may_fail })
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

    /// What people are told as the place: the beginning of the markup the tag belongs to.
    fn place(&self) -> u64 {
        if self.run_is_markup { self.run } else { self.offset }
    }
}

/// Attributes of a tag.
struct Attributes<'a> {
    /// Names and values; a name may stand alone.
    pairs: Vec<(&'a [u8], Option<&'a [u8]>)>,
    is_closed: bool,
}

fn has_slash_at_end_only(text: &[u8]) -> bool {
    text.iter().position(|byte| *byte == b'/') == Some(text.len().saturating_sub(1))
}

/// Attributes between the name of a tag and its `>`.
fn read_attributes(text: &[u8]) -> Result<Attributes<'_>, &'static str> {
    let mut out = Attributes { pairs: Vec::new(), is_closed: false };
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_start();
        let Some(first) = rest.first() else { return Ok(out) };
        if *first == b'/' {
            if rest.len() > 1 {
                return Err("XML 1.0 '>' does not follow '/' in tag");
            }
            out.is_closed = true;
            return Ok(out);
        }
        if !is_name_start(*first) {
            return Err("XML 1.0 Illegal attribute start char");
        }
        let name_bytes = rest.iter().position(|byte| !is_name(*byte)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(name_bytes);
        match after.first() {
            Some(b'=') => {
                let after = after.get(1..).unwrap_or(&[]);
                let (value, after) = read_value(after)?;
                out.pairs.push((name, Some(value)));
                rest = after;
            }
            None | Some(b'/') => {
                out.pairs.push((name, None));
                rest = after;
            }
            Some(byte) if byte.is_ascii_whitespace() => {
                out.pairs.push((name, None));
                rest = after;
            }
            Some(_) => return Err("XML 1.0 Illegal attr char"),
        }
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
