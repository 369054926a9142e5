//! From XML to a presentation, element by element: nothing is kept but what representations inherit.

use super::presentation::{Listed, Presentation, Representation, Run};
use super::time;
use crate::error::Unreadable;
use crate::limits::{
    BASE_BYTES_MAX, BASES_MAX, LATER_MAX, MADE_BYTES_MAX, REFERENCE_BYTES_MAX, REPRESENTATIONS_MAX,
    RUNS_MAX, XML_ATTRIBUTES_MAX, XML_DEPTH_MAX, XML_ELEMENTS_MAX,
};
use crate::progress::Period;
use crate::text::{STAND_IN, text_of};
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Reads an MPD.
///
/// # Errors
/// [`Unreadable`]
pub(super) fn read(bytes: &[u8]) -> Result<Presentation, Unreadable> {
    let text = text_of(bytes);
    let mut xml = Reader::from_str(&text);
    xml.config_mut().allow_dangling_amp = true;
    let mut reading = Reading::new();
    loop {
        match xml.read_event().map_err(|_| reading.refusal())? {
            Event::Eof => return reading.finish(),
            event => reading.event(&event)?,
        }
    }
}

/// The elements that mean something here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Element {
    Mpd,
    Period,
    AdaptationSet,
    Representation,
    BaseUrl,
    /// `Location` and `PatchLocation`.
    Later,
    SegmentBase,
    SegmentTemplate,
    SegmentList,
    SegmentTimeline,
    Initialization,
    SegmentUrl,
    S,
    Other,
}

/// What an element hands on to those in it. To hand it on costs the same however much it is: elements that only
/// inherit may be as many as what they inherit has parts.
#[derive(Clone, Debug, Default)]
struct Level {
    base: Rc<str>,
    /// Where else the same is: as further `BaseURL`s say, of this element or of those around it.
    elsewhere: Vec<Rc<str>>,
    /// What the elements around it have, once a `BaseURL` of this one was there.
    around: Vec<Rc<str>>,
    id: Rc<str>,
    is_video: bool,
    bandwidth: u64,
    initialization: Option<Rc<str>>,
    media: Option<Rc<str>>,
    initialization_range: Option<Range<u64>>,
    index_range: Option<Range<u64>>,
    listed: Rc<Vec<Listed>>,
    /// Whether these are its own: they take the place of those of the elements around it.
    has_own_list: bool,
    start_number: Option<u64>,
    timescale: Option<u64>,
    duration: Option<u64>,
    early_ms: Option<u64>,
    timeline: Rc<Vec<Run>>,
    is_open: bool,
    period_ms: Option<u64>,
    period_length_ms: Option<u64>,
    time_offset: u64,
}

struct Reading {
    presentation: Presentation,
    open: Vec<Element>,
    levels: Vec<Level>,
    elements: usize,
    runs: usize,
    made: Made,
    /// Text of the `BaseURL`, `Location` or `PatchLocation` that is open.
    text: String,
    is_one: bool,
    /// Where the period before ends, and the next one begins that does not say where.
    period_end_ms: Option<u64>,
}

impl Reading {
    fn new() -> Self {
        Self {
            presentation: Presentation::default(),
            open: Vec::new(),
            levels: Vec::new(),
            elements: 0,
            runs: 0,
            made: Made { bytes_left: MADE_BYTES_MAX },
            text: String::new(),
            is_one: false,
            period_end_ms: Some(0),
        }
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Unreadable> {
        match event {
            Event::Start(element) => self.start(element),
            Event::Empty(element) => {
                self.start(element)?;
                self.end()
            }
            Event::End(_) => self.end(),
            Event::Text(text) => self.text(text),
            Event::CData(text) => self.text(text),
            Event::GeneralRef(name) => self.reference(name),
            Event::DocType(_) => Err(Unreadable::OriginEntities),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::Eof => Ok(()),
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), Unreadable> {
        self.elements += 1;
        if self.elements > XML_ELEMENTS_MAX {
            return Err(Unreadable::OriginTooMany);
        }
        if self.open.len() >= XML_DEPTH_MAX {
            return Err(Unreadable::OriginTooDeep);
        }
        let element = element(start.local_name().as_ref());
        if self.open.is_empty() && (element != Element::Mpd || self.is_one) {
            return Err(Unreadable::OriginNoManifest);
        }
        self.is_one = true;
        self.open.push(element);
        match element {
            Element::Mpd | Element::Period | Element::AdaptationSet | Element::Representation => {
                let mut level = self.levels.last().cloned().unwrap_or_default();
                level.around.clear();
                level.has_own_list = false;
                self.levels.push(level);
                self.level_attributes(element, start)
            }
            Element::SegmentTemplate | Element::SegmentList | Element::SegmentBase => {
                self.template(start)
            }
            Element::SegmentTimeline => {
                let level = self.level();
                level.timeline = Rc::default();
                level.is_open = false;
                Ok(())
            }
            // What stands elsewhere would be a change to what many share.
            Element::S if self.is_in(Element::SegmentTimeline) => self.run(start),
            Element::Initialization => {
                let source = attribute(start, "sourceURL")?;
                let range = attribute(start, "range")?.as_deref().and_then(bytes);
                let level = self.level();
                // Without a source it is in the file of the segments.
                if let Some(source) = source.or_else(|| range.is_some().then(String::new)) {
                    (level.initialization, level.initialization_range) =
                        (Some(source.into()), range);
                }
                Ok(())
            }
            Element::SegmentUrl if self.is_in(Element::SegmentList) => {
                let media = attribute(start, "media")?;
                let range = attribute(start, "mediaRange")?.as_deref().and_then(bytes);
                let reference = media.or_else(|| range.is_some().then(String::new));
                self.runs += 1;
                if self.runs > RUNS_MAX {
                    return Err(Unreadable::OriginTooMany);
                }
                let level = self.level();
                if !std::mem::replace(&mut level.has_own_list, true) {
                    level.listed = Rc::default();
                }
                let listed = reference.map(|reference| Listed { reference, range });
                Rc::make_mut(&mut level.listed).extend(listed);
                Ok(())
            }
            Element::BaseUrl | Element::Later => {
                self.text.clear();
                Ok(())
            }
            Element::Other | Element::S | Element::SegmentUrl => attributes(start, |_, _| {}),
        }
    }

    fn level_attributes(
        &mut self,
        element: Element,
        start: &BytesStart<'_>,
    ) -> Result<(), Unreadable> {
        let mut presentation = std::mem::take(&mut self.presentation);
        let (mut period_start, mut period_length) = (None, None);
        let mut period_id = DefaultHasher::new();
        let level = self.level();
        let span = |text: &str| time::duration_ms(text).map(Duration::from_millis);
        let result = known_attributes(start, |name, value| match (element, name) {
            (Element::Mpd, "type") => presentation.is_dynamic = value == "dynamic",
            (Element::Mpd, "availabilityStartTime") => presentation.start = time::instant(value),
            (Element::Mpd, "publishTime") => presentation.published = time::instant(value),
            (Element::Mpd, "minimumUpdatePeriod") => presentation.update = span(value),
            (Element::Mpd, "suggestedPresentationDelay") => presentation.delay = span(value),
            (Element::Mpd, "timeShiftBufferDepth") => presentation.time_shift = span(value),
            (Element::Mpd, "maxSegmentDuration") => presentation.segment_max = span(value),
            (Element::Mpd, "mediaPresentationDuration") => presentation.length = span(value),
            (Element::Period, "id") => period_id.write(value.as_bytes()),
            (Element::Period, "start") => period_start = time::duration_ms(value),
            (Element::Period, "duration") => period_length = time::duration_ms(value),
            (Element::AdaptationSet | Element::Representation, "mimeType") => {
                level.is_video = value.starts_with("video/");
            }
            (Element::AdaptationSet, "contentType") => level.is_video |= value == "video",
            (Element::Representation, "id") => level.id = value.into(),
            (Element::Representation, "bandwidth") => level.bandwidth = value.parse().unwrap_or(0),
            _ => {}
        });
        self.presentation = presentation;
        if element == Element::Period {
            // ISO/IEC 23009-1 §5.3.2.1
            let start = period_start.or(self.period_end_ms);
            let level = self.level();
            (level.period_ms, level.period_length_ms) = (start, period_length);
            self.presentation.last_period =
                Some(Period { start_ms: start, id: period_id.finish() });
            self.period_end_ms = start.zip(period_length).and_then(|(at, ms)| at.checked_add(ms));
        }
        result
    }

    fn template(&mut self, start: &BytesStart<'_>) -> Result<(), Unreadable> {
        let level = self.level();
        known_attributes(start, |name, value| match name {
            "initialization" => {
                (level.initialization, level.initialization_range) = (Some(value.into()), None);
            }
            "indexRange" => level.index_range = bytes(value),
            "media" => level.media = Some(value.into()),
            "startNumber" => level.start_number = value.parse().ok(),
            "timescale" => level.timescale = value.parse().ok(),
            "duration" => level.duration = value.parse().ok(),
            "presentationTimeOffset" => level.time_offset = value.parse().unwrap_or(0),
            "availabilityTimeOffset" => level.early_ms = crate::hls::milliseconds(value),
            _ => {}
        })
    }

    fn run(&mut self, start: &BytesStart<'_>) -> Result<(), Unreadable> {
        let (mut time, mut duration, mut repeats) = (None, None, 0_i64);
        attributes(start, |name, value| match name {
            "t" => time = value.parse::<u64>().ok(),
            "d" => duration = value.parse::<u64>().ok(),
            "r" => repeats = value.parse().unwrap_or(0),
            _ => {}
        })?;
        self.runs += 1;
        if self.runs > RUNS_MAX {
            return Err(Unreadable::OriginTooMany);
        }
        let level = self.level();
        let timeline = Rc::make_mut(&mut level.timeline);
        // A negative number goes on to the next run.
        if let (true, Some(before), Some(time)) = (level.is_open, timeline.last_mut(), time) {
            let count = time.saturating_sub(before.start).div_ceil(before.duration.max(1));
            before.count = count.max(1);
        }
        level.is_open = false;
        if let Some(duration) = duration {
            let start = time.unwrap_or_else(|| timeline.last().map_or(0, Run::end));
            let count = u64::try_from(repeats).unwrap_or(0).saturating_add(1);
            level.is_open = repeats < 0;
            timeline.push(Run { start, duration, count });
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Unreadable> {
        if !matches!(self.open.last(), Some(Element::BaseUrl | Element::Later)) {
            return Ok(());
        }
        if self.text.len() + text.len() > REFERENCE_BYTES_MAX {
            return Err(Unreadable::OriginTooLong);
        }
        self.text.push_str(text);
        Ok(())
    }

    /// A reference to an entity or a character.
    fn reference(&mut self, name: &str) -> Result<(), Unreadable> {
        let text = match name {
            "amp" => "&",
            "lt" => "<",
            "gt" => ">",
            "quot" => "\"",
            "apos" => "'",
            // No character of a reference that a cache could know is written by its number.
            name if name.starts_with('#') => "\u{fffd}",
            _ => return Err(Unreadable::OriginEntities),
        };
        self.text(text)
    }

    fn end(&mut self) -> Result<(), Unreadable> {
        match self.open.pop() {
            Some(Element::Representation) => {
                let level = self.levels.pop().unwrap_or_default();
                if self.presentation.representations.len() >= REPRESENTATIONS_MAX {
                    return Err(Unreadable::OriginTooMany);
                }
                self.runs += level.timeline.len() + level.listed.len();
                if self.runs > RUNS_MAX {
                    return Err(Unreadable::OriginTooMany);
                }
                let representation = level.into_representation(&mut self.made)?;
                self.presentation.representations.push(representation);
            }
            Some(Element::Mpd | Element::Period | Element::AdaptationSet) => {
                self.levels.pop();
            }
            Some(Element::BaseUrl) => {
                let base = std::mem::take(&mut self.text);
                let mut level = std::mem::take(self.level());
                level.is_at(base.trim(), &mut self.made)?;
                *self.level() = level;
            }
            Some(Element::Later) => {
                let later = std::mem::take(&mut self.text);
                if self.presentation.later.len() < LATER_MAX {
                    self.presentation.later.push(later.trim().to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// Whether the element that was opened last is directly in this one.
    fn is_in(&self, element: Element) -> bool {
        self.open.iter().rev().nth(1) == Some(&element)
    }

    /// Why what the XML reader refuses is refused.
    fn refusal(&self) -> Unreadable {
        if self.is_one { Unreadable::OriginNoXml } else { Unreadable::OriginNoManifest }
    }

    fn finish(self) -> Result<Presentation, Unreadable> {
        if !self.is_one || !self.open.is_empty() {
            return Err(self.refusal());
        }
        Ok(self.presentation)
    }
}

impl Level {
    /// Takes a `BaseURL`: the first is where it is, further ones where else.
    fn is_at(&mut self, url: &str, made: &mut Made) -> Result<(), Unreadable> {
        if self.around.is_empty() {
            let others = std::mem::take(&mut self.elsewhere);
            self.around.push(std::mem::take(&mut self.base));
            self.around.extend(others);
            self.base = made.base(&self.around[0], url)?;
            for around in &self.around[1..] {
                self.elsewhere.push(made.base(around, url)?);
            }
            return Ok(());
        }
        let room = (BASES_MAX - 1).saturating_sub(self.elsewhere.len());
        for around in self.around.iter().take(room) {
            self.elsewhere.push(made.base(around, url)?);
        }
        Ok(())
    }

    fn into_representation(self, made: &mut Made) -> Result<Representation, Unreadable> {
        let mut at = |base: &str, reference: &str| {
            let Some(reference) = self.expanded(reference) else { return Ok(None) };
            let reference = made.joined(base, &reference)?;
            Ok(reference.filter(|reference| !reference.contains(STAND_IN)))
        };
        let (mut initialization_elsewhere, mut media_elsewhere) = (Vec::new(), Vec::new());
        for base in self.elsewhere.iter().filter(|base| base.len() <= BASE_BYTES_MAX) {
            if let Some(initialization) = &self.initialization {
                initialization_elsewhere.extend(at(base, initialization)?);
            }
            if let Some(media) = &self.media {
                media_elsewhere.extend(at(base, media)?);
            }
        }
        let mut whole = |reference: &str| at(&self.base, reference);
        let mut listed = Vec::with_capacity(self.listed.len());
        for one in self.listed.iter() {
            let reference = whole(&one.reference)?;
            let range = one.range.clone();
            listed.extend(reference.map(|reference| Listed { reference, range }));
        }
        // It is of use where segments are nowhere listed.
        let is_one_file = self.media.is_none() && self.listed.is_empty();
        let index_range = self.index_range.clone().filter(|_| is_one_file);
        let index = if index_range.is_some() { whole("")? } else { None };
        let initialization = self.initialization.as_deref().map(&mut whole).transpose()?.flatten();
        let media = self.media.as_deref().map(&mut whole).transpose()?.flatten();
        Ok(Representation {
            is_video: self.is_video,
            bandwidth: self.bandwidth,
            initialization_range: self.initialization_range,
            index: index.zip(index_range),
            initialization,
            initialization_elsewhere,
            media,
            media_elsewhere,
            listed,
            start_number: self.start_number.unwrap_or(1),
            timescale: self.timescale.unwrap_or(1),
            duration: self.duration,
            early: self.early_ms.map(Duration::from_millis),
            timeline: Rc::unwrap_or_clone(self.timeline),
            is_open: self.is_open,
            period: self.period_ms.map(Duration::from_millis),
            period_length: self.period_length_ms.map(Duration::from_millis),
            time_offset: self.time_offset,
        })
    }

    /// `reference` with what it says in the place of its representation's name and bandwidth; `None` where
    /// that is longer than a reference may be.
    fn expanded(&self, reference: &str) -> Option<String> {
        const ID: &str = "$RepresentationID$";
        let ids_bytes = reference.matches(ID).count() * self.id.len();
        if reference.len() + ids_bytes > REFERENCE_BYTES_MAX {
            return None;
        }
        Some(super::expand(&reference.replace(ID, &self.id), "Bandwidth", self.bandwidth))
    }
}

/// What may still be put together. What many inherit is made for each of them, and small documents become large
/// ones that way as well.
struct Made {
    bytes_left: usize,
}

impl Made {
    /// `reference` seen from `base`; `None` where it is longer than a reference may be.
    ///
    /// # Errors
    /// [`Unreadable::OriginTooLong`]
    fn joined(&mut self, base: &str, reference: &str) -> Result<Option<String>, Unreadable> {
        let joined = joined(base, reference);
        let left = self.bytes_left.checked_sub(joined.len());
        self.bytes_left = left.ok_or(Unreadable::OriginTooLong)?;
        Ok(Some(joined).filter(|joined| joined.len() <= REFERENCE_BYTES_MAX))
    }

    /// The same of a base, without which nothing below it can be named.
    fn base(&mut self, base: &str, reference: &str) -> Result<Rc<str>, Unreadable> {
        Ok(self.joined(base, reference)?.ok_or(Unreadable::OriginTooLong)?.into())
    }
}

/// `reference` seen from `base`, both relative to the manifest or absolute (RFC 3986 §5.2, dots left).
fn joined(base: &str, reference: &str) -> String {
    let has_scheme = reference
        .split_once("://")
        .is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    if has_scheme || reference.starts_with("//") || base.is_empty() {
        return reference.to_owned();
    }
    if reference.is_empty() {
        return base.to_owned();
    }
    let authority = base
        .split_once("://")
        .map_or(0, |(scheme, rest)| scheme.len() + 3 + rest.find('/').unwrap_or(rest.len()));
    let path = base.get(..base.find('?').unwrap_or(base.len())).unwrap_or_default();
    let kept = if reference.starts_with('/') {
        base.get(..authority).unwrap_or_default()
    } else {
        let folder = path.rfind('/').map_or(0, |at| at + 1);
        path.get(..folder.max(authority)).unwrap_or_default()
    };
    // A host alone is its root (RFC 3986 §5.2.3).
    let slash = if authority > 0 && kept.len() == authority && !reference.starts_with('/') {
        "/"
    } else {
        ""
    };
    format!("{kept}{slash}{reference}")
}

/// `a-b` as bytes.
fn bytes(text: &str) -> Option<Range<u64>> {
    let (first, last) = text.trim().split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..last.checked_add(1)?)
}

fn element(name: &str) -> Element {
    match name {
        "MPD" => Element::Mpd,
        "Period" => Element::Period,
        "AdaptationSet" => Element::AdaptationSet,
        "Representation" => Element::Representation,
        "BaseURL" => Element::BaseUrl,
        "Location" | "PatchLocation" => Element::Later,
        "SegmentBase" => Element::SegmentBase,
        "SegmentTemplate" => Element::SegmentTemplate,
        "SegmentList" => Element::SegmentList,
        "SegmentTimeline" => Element::SegmentTimeline,
        "Initialization" => Element::Initialization,
        "SegmentURL" => Element::SegmentUrl,
        "S" => Element::S,
        _ => Element::Other,
    }
}

/// Shows each attribute: its name without a prefix, and its value.
fn attributes(start: &BytesStart<'_>, mut see: impl FnMut(&str, &str)) -> Result<(), Unreadable> {
    for (at, attribute) in start.attributes().with_checks(false).enumerate() {
        if at >= XML_ATTRIBUTES_MAX {
            return Err(Unreadable::OriginTooMany);
        }
        let attribute = attribute.map_err(|_| Unreadable::OriginNoXml)?;
        see(attribute.key.local_name().as_ref(), &value(&attribute)?);
    }
    Ok(())
}

/// The same of an element whose attributes are kept, which are no longer than references.
fn known_attributes(
    start: &BytesStart<'_>,
    mut see: impl FnMut(&str, &str),
) -> Result<(), Unreadable> {
    let mut longest = 0;
    attributes(start, |name, value| {
        longest = longest.max(value.len());
        if value.len() <= REFERENCE_BYTES_MAX {
            see(name, value);
        }
    })?;
    if longest > REFERENCE_BYTES_MAX { Err(Unreadable::OriginTooLong) } else { Ok(()) }
}

fn attribute(start: &BytesStart<'_>, wanted: &str) -> Result<Option<String>, Unreadable> {
    let mut found = None;
    known_attributes(start, |name, value| {
        if name == wanted {
            found = Some(value.to_owned());
        }
    })?;
    Ok(found)
}

fn value<'a>(attribute: &Attribute<'a>) -> Result<Cow<'a, str>, Unreadable> {
    if !attribute.value.contains('&') {
        return Ok(attribute.value.clone());
    }
    let attribute = Attribute { key: attribute.key, value: escaped(&attribute.value).into() };
    attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|_| Unreadable::OriginEntities)
}

/// What was meant where an ampersand begins no reference, as between two parameters of a query: packagers write
/// these, and players read them.
fn escaped(value: &str) -> String {
    let mut parts = value.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name = part.split(';').next().unwrap_or_default();
        let refers = name.len() < part.len()
            && !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'#');
        out.push_str(if refers { "&" } else { "&amp;" });
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is open behind a text that is not whole.
    fn begun(text: &str) -> Reading {
        let (mut xml, mut reading) = (Reader::from_str(text), Reading::new());
        loop {
            match xml.read_event().unwrap() {
                Event::Eof => return reading,
                event => reading.event(&event).unwrap(),
            }
        }
    }

    #[test]
    fn to_inherit_costs_the_same_however_much_it_is() {
        let list = "<SegmentList><SegmentURL media='a'/><SegmentURL media='b'/></SegmentList>";
        let line = "<SegmentTemplate media='m'><SegmentTimeline><S d='1'/></SegmentTimeline>\
                    </SegmentTemplate>";
        // An element out of its place changes nothing of it.
        let text = format!(
            "<MPD><BaseURL>a/</BaseURL><Period>{list}{line}<AdaptationSet><S d='2'/>\
             <SegmentURL media='c'/><Representation>"
        );
        let levels = begun(&text).levels;
        let [mpd, period, set, representation] = &levels[..] else { panic!("four") };
        assert!(Rc::ptr_eq(&mpd.base, &representation.base));
        assert_eq!((period.timeline.len(), period.listed.len()), (1, 2));
        for inner in [set, representation] {
            assert!(Rc::ptr_eq(&period.timeline, &inner.timeline));
            assert!(Rc::ptr_eq(&period.listed, &inner.listed));
            assert_eq!(period.media.as_ref().map(Rc::as_ptr), inner.media.as_ref().map(Rc::as_ptr));
        }
        // A list of its own takes its place.
        let levels = begun(&(text + "<SegmentList><SegmentURL media='d'/>")).levels;
        assert_eq!(levels[3].listed[..], [Listed { reference: "d".into(), range: None }]);
    }

    #[test]
    fn what_is_put_together_is_bounded() {
        let long = "x".repeat(8000);
        let of = |attributes: &str, inner: &str| {
            read(format!("<MPD><Period><Representation {attributes}>{inner}").as_bytes())
        };
        let listed = format!("<SegmentURL media='{long}'/>").repeat(50);
        let text = format!(
            "<MPD><Period><AdaptationSet><SegmentList>{listed}</SegmentList>{}</AdaptationSet>\
             </Period></MPD>",
            "<Representation/>".repeat(50)
        );
        assert_eq!(read(text.as_bytes()), Err(Unreadable::OriginTooLong));
        let ids = "$RepresentationID$".repeat(400);
        let text = format!(
            "<MPD><Period><Representation id='{long}'><SegmentTemplate media='{ids}' \
             initialization='$RepresentationID$i'/></Representation></Period></MPD>"
        );
        let [one] = &read(text.as_bytes()).unwrap().representations[..] else { panic!("one") };
        assert_eq!((&one.media, &one.initialization), (&None, &Some(long.clone() + "i")));
        let longer = long.repeat(2);
        for (attributes, inner) in [
            (format!("id='{longer}'"), String::new()),
            (String::new(), format!("<BaseURL>{longer}</BaseURL>")),
            (String::new(), format!("<BaseURL>{long}&amp;{long}</BaseURL>")),
            (
                String::new(),
                format!(
                    "<BaseURL>{long}/</BaseURL><Representation>\
                                     <BaseURL>{long}</BaseURL>"
                ),
            ),
            (String::new(), format!("<SegmentTemplate media='{longer}'/>")),
            (String::new(), format!("<Initialization sourceURL='{longer}'/>")),
        ] {
            assert_eq!(of(&attributes, &inner), Err(Unreadable::OriginTooLong), "{}", inner.len());
        }
    }

    #[test]
    fn bases_follow_one_another() {
        for (base, reference, want) in [
            ("", "a/", "a/"),
            ("a/", "b/", "a/b/"),
            ("a/x", "b", "a/b"),
            ("http://h/a/", "b", "http://h/a/b"),
            ("http://h/a/", "/b", "http://h/b"),
            ("http://h", "b", "http://h/b"),
            ("http://h", "/b", "http://h/b"),
            ("a/", "http://h/", "http://h/"),
            ("/a/?q=/x", "b", "/a/b"),
            ("a/", "//h/b", "//h/b"),
            ("a/b.mp4", "", "a/b.mp4"),
        ] {
            assert_eq!(joined(base, reference), want, "{base} {reference}");
        }
    }
}
