//! Manifests of DASH (ISO/IEC 23009-1).

mod presentation;
mod reader;
mod series;
mod template;
pub mod time;

pub use presentation::{Listed, Presentation, Representation, Run};
pub use series::{Sequel, Series};
use template::expand;
pub use template::{matches, segment, value};

use crate::error::Unreadable;
use crate::limits::{RUNS_MAX, SERIES_RUNS_MAX, WINDOW_MAX};
use crate::manifest::{Course, Kind, Manifest, Name};
use crate::progress::Progress;
use freshet_base::clock::UnixMillis;
use series::Frame;
use std::ops::Range;
use std::time::Duration;

/// Reads a presentation as players use it.
///
/// # Errors
/// [`Unreadable`]
pub fn presentation(bytes: &[u8]) -> Result<Presentation, Unreadable> {
    reader::read(bytes)
}

/// Reads an MPD, for who keeps what it names.
///
/// # Errors
/// [`Unreadable`]
pub fn read(bytes: &[u8]) -> Result<Manifest, Unreadable> {
    let presentation = reader::read(bytes)?;
    let mut manifest = Manifest::new(match (presentation.is_dynamic, presentation.time_shift) {
        (false, _) => Course::Ended,
        (true, Some(_)) => Course::Sliding,
        (true, None) => Course::Growing,
    });
    let longest = presentation.representations.iter().filter_map(Representation::longest).max();
    let span = |span: Duration| span.min(WINDOW_MAX);
    manifest.target = span(presentation.segment_max.or(longest).unwrap_or_default());
    // Without a depth what goes on can be seen from its start (ISO/IEC 23009-1 §5.3.1.2).
    let all = if presentation.is_dynamic { WINDOW_MAX } else { Duration::ZERO };
    manifest.window = span(presentation.time_shift.or(presentation.length).unwrap_or(all));
    manifest.refresh = presentation.update;
    let until = presentation.representations.iter().filter_map(Representation::end).max();
    let (start, published) = (presentation.start, presentation.published);
    let until = until.map(|until| start.unwrap_or(UnixMillis(0)).plus(until));
    let period = presentation.last_period;
    let progress = Progress::Presentation { start, until, published, period };
    manifest.progress = presentation.is_dynamic.then_some(progress);
    let length = presentation.length;
    let frame = if presentation.is_dynamic {
        Frame { start, length, runs_max: SERIES_RUNS_MAX }
    } else {
        // All of a film is there, and players begin with what is old.
        Frame { start: Some(UnixMillis(0)), length, runs_max: RUNS_MAX }
    };
    let series = presentation.representations.iter();
    manifest.series = series.filter_map(|one| Series::of(one, frame)).collect();
    for reference in presentation.later.iter().filter(|later| !later.is_empty()) {
        manifest.name(reference, Kind::Playlist, None);
    }
    for representation in presentation.representations {
        let span = representation.longest().unwrap_or_default();
        let span_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        if let Some(reference) = &representation.initialization {
            manifest.name(reference, Kind::Init, representation.initialization_range.clone());
        }
        for reference in &representation.initialization_elsewhere {
            let range = representation.initialization_range.clone();
            manifest.name(reference, Kind::InitElsewhere, range);
        }
        if let Some((reference, range)) = representation.index {
            manifest.name(&reference, Kind::Init, Some(range));
        }
        for (place, listed) in (0..).zip(representation.listed) {
            manifest.name(&listed.reference, Kind::Segment, listed.range);
            if let Some(name) = manifest.names.last_mut() {
                (name.duration_ms, name.sequence) = (span_ms, Some(place));
                name.before_ms = span_ms.saturating_mul(place);
            }
        }
        let media = representation.media.into_iter().chain(representation.media_elsewhere);
        manifest.templates.extend(media.filter(|media| media.contains('$')));
    }
    manifest.templates.sort_unstable();
    manifest.templates.dedup();
    Ok(manifest)
}

impl Manifest {
    /// Names what is written nowhere as it is.
    fn name(&mut self, reference: &str, kind: Kind, range: Option<Range<u64>>) {
        let Ok(start) = u32::try_from(self.made.len()) else { return };
        self.made.push_str(reference);
        let Ok(end) = u32::try_from(self.made.len()) else { return };
        let (sequence, duration_ms, bandwidth, before_ms) = (None, 0, 0, 0);
        let reference = start..end;
        let name = Name { kind, reference, range, duration_ms, sequence, bandwidth, before_ms };
        self.names.push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    const LIVE: &str = "<?xml version=\"1.0\"?><!-- a > b -->\
        <MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type='dynamic' \
        availabilityStartTime=\"2025-01-01T00:00:00Z\" minimumUpdatePeriod='PT2S' \
        timeShiftBufferDepth=\"PT30S\" suggestedPresentationDelay='PT6S'><Period id='p' start='PT0S'>\
        <AdaptationSet mimeType='video/mp4'><SegmentTemplate timescale='1000' duration='2000' \
        initialization='$RepresentationID$/init.mp4' media='$RepresentationID$/$Number%05d$.m4s'/>\
        <Representation id='v1' bandwidth='100'/><Representation id='v2' bandwidth='200'/>\
        </AdaptationSet></Period></MPD>";

    #[test]
    fn a_channel_names_its_headers_and_templates() {
        let read = read(LIVE.as_bytes()).unwrap();
        assert_eq!(read.class(Duration::from_secs(600)), Some(Class::Live));
        assert_eq!((read.target.as_secs(), read.window.as_secs()), (2, 30));
        assert_eq!(read.refresh, Some(Duration::from_secs(2)));
        assert_eq!(read.templates, ["v1/$Number%05d$.m4s", "v2/$Number%05d$.m4s"]);
        let names: Vec<_> = read.names.iter().map(|name| read.reference(name, b"")).collect();
        assert_eq!(names, ["v1/init.mp4", "v2/init.mp4"]);
    }

    #[test]
    fn later_versions_are_named() {
        let text = "<MPD type='dynamic'><Location> /l/x.mpd </Location><PatchLocation ttl='60'>\
                    p?t=1&amp;u</PatchLocation><Period/></MPD>";
        let read = read(text.as_bytes()).unwrap();
        let names: Vec<_> = read.names.iter().map(|name| read.reference(name, b"")).collect();
        assert_eq!(names, ["/l/x.mpd", "p?t=1&u"]);
        assert!(read.names.iter().all(|name| name.kind == Kind::Playlist));
    }

    #[test]
    fn representations_inherit_from_what_is_around_them() {
        let text = "<MPD><BaseURL>a/</BaseURL><BaseURL>other/</BaseURL><Period>\
                    <SegmentTemplate timescale='10' duration='15'/>\
                    <AdaptationSet mimeType='audio/mp4'><SegmentTemplate initialization='i-$Bandwidth$'/>\
                    <Representation id='r' bandwidth='9'><BaseURL> b&amp;c/ </BaseURL>\
                    <SegmentTemplate media='$RepresentationID$-$Number%05d$.m4s'/>\
                    </Representation><Representation bandwidth='3'/></AdaptationSet></Period></MPD>";
        let read = presentation(text.as_bytes()).unwrap();
        let [first, second] = &read.representations[..] else { panic!("two") };
        assert_eq!(first.initialization.as_deref(), Some("a/b&c/i-9"));
        assert_eq!(first.media(40).as_deref(), Some("a/b&c/r-00041.m4s"));
        assert_eq!(first.duration(0), Some(Duration::from_millis(1500)));
        assert!(!first.is_video);
        assert_eq!(second.initialization.as_deref(), Some("a/i-3"));
        assert_eq!(second.media, None);
    }

    #[test]
    fn several_bases_are_places_of_the_same() {
        let text = "<MPD type='dynamic'><BaseURL>http://one.example</BaseURL>\
                    <BaseURL>http://two.example/x/</BaseURL><Period><AdaptationSet>\
                    <Representation id='v'><BaseURL>a/</BaseURL><BaseURL>b/</BaseURL>\
                    <SegmentTemplate duration='2' media='$Number$' initialization='i'/>\
                    </Representation></AdaptationSet></Period></MPD>";
        let read = read(text.as_bytes()).unwrap();
        let want = ["one.example/a", "one.example/b", "two.example/x/a", "two.example/x/b"];
        assert_eq!(read.templates, want.map(|place| format!("http://{place}/$Number$")));
        let names = read.names.iter().map(|name| (name.kind, read.reference(name, b"").to_owned()));
        let mut of = want.map(|place| (Kind::InitElsewhere, format!("http://{place}/i")));
        of[0].0 = Kind::Init;
        let mut names: Vec<_> = names.collect();
        names.sort_by(|one, other| one.1.cmp(&other.1));
        assert_eq!(names, of);
        let many = format!("<MPD>{}</MPD>", "<BaseURL>a/</BaseURL>".repeat(1000));
        assert!(super::read(many.as_bytes()).is_ok());
    }

    #[test]
    fn timelines_and_lists_say_how_long_each_segment_is() {
        let text = "<MPD type='dynamic'><Period><AdaptationSet><Representation bandwidth='1'>\
                    <SegmentTemplate timescale='10' media='$Time$'><SegmentTimeline>\
                    <S t='0' d='20' r='2'/><S d='7'/><S d='20' r='-1'/></SegmentTimeline>\
                    </SegmentTemplate></Representation><Representation><SegmentList duration='3'>\
                    <Initialization sourceURL='i'/><SegmentURL media='1.m4s'/><SegmentURL media='2.m4s'/>\
                    </SegmentList></Representation></AdaptationSet></Period></MPD>";
        let of = presentation(text.as_bytes()).unwrap().representations;
        let lengths: Vec<_> = (0..6).map(|at| of[0].duration(at)).collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(lengths, [ms(2000), ms(2000), ms(2000), ms(700), ms(2000), None]);
        let listed: Vec<_> = of[1].listed.iter().map(|one| &*one.reference).collect();
        assert_eq!(listed, ["1.m4s", "2.m4s"]);
        let read = read(text.as_bytes()).unwrap();
        assert_eq!((read.class(Duration::MAX), read.window), (Some(Class::Dvr), WINDOW_MAX));
        assert_eq!((read.target.as_secs(), read.templates.len(), read.names.len()), (3, 1, 3));
    }

    #[test]
    fn parts_of_a_file_have_their_bytes() {
        let text = "<MPD><Period><AdaptationSet><Representation><BaseURL>a.mp4</BaseURL>\
                    <SegmentList duration='2'><Initialization range='0-99'/>\
                    <SegmentURL mediaRange='100-199'/><SegmentURL mediaRange='200-'/>\
                    <SegmentURL media='b.mp4' mediaRange='0-9'/></SegmentList></Representation>\
                    <Representation><BaseURL>c.mp4</BaseURL><SegmentBase indexRange='50-79'>\
                    <Initialization range='0-49'/></SegmentBase></Representation></AdaptationSet>\
                    </Period></MPD>";
        let read = read(text.as_bytes()).unwrap();
        let names = read.names.iter();
        let names: Vec<_> = names
            .map(|name| (read.reference(name, b""), name.range.clone(), name.sequence))
            .collect();
        let want = [
            ("a.mp4", Some(0..100), None),
            ("a.mp4", Some(100..200), Some(0)),
            ("b.mp4", Some(0..10), Some(1)),
            ("c.mp4", Some(0..50), None),
            ("c.mp4", Some(50..80), None),
        ];
        assert_eq!(names, want);
    }

    #[test]
    fn bytes_that_are_no_text_cost_what_they_are_in_only() {
        let bytes = b"<?xml version='1.0' encoding='ISO-8859-1'?><MPD type='dynamic'>\
            <ProgramInformation><Title>K\xf6ln</Title></ProgramInformation><Period><AdaptationSet>\
            <Representation id='\xfc'><SegmentTemplate media='$RepresentationID$/$Number$'/>\
            </Representation><Representation id='v'><SegmentTemplate media='$RepresentationID$/$Number$'/>\
            </Representation></AdaptationSet></Period></MPD>";
        assert_eq!(read(bytes).unwrap().templates, ["v/$Number$"]);
    }

    #[test]
    fn films_and_odd_elements() {
        let film = "<x:MPD xmlns:x='u' type=\"static\" mediaPresentationDuration='PT1H'><x:Period>\
                    <EventStream><Event>&lt;</Event></EventStream></x:Period></x:MPD>\n";
        let read = read(film.as_bytes()).unwrap();
        assert_eq!(read.class(Duration::ZERO), Some(Class::Vod));
        assert_eq!(read.window, Duration::from_secs(3600));
    }

    #[test]
    fn what_is_no_mpd_or_a_trap_is_refused() {
        let deep = "<MPD>".to_owned() + &"<a>".repeat(1000);
        let wide = format!("<MPD {}/>", (0..100).map(|n| format!("a{n}='' ")).collect::<String>());
        let bomb = "<!DOCTYPE m [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><MPD>&b;</MPD>";
        for (text, want) in [
            ("", Unreadable::OriginNoManifest),
            ("hello", Unreadable::OriginNoManifest),
            ("<html/>", Unreadable::OriginNoManifest),
            ("<MPD/><MPD/>", Unreadable::OriginNoManifest),
            ("<MPD>", Unreadable::OriginNoXml),
            ("<MPD><Period></MPD>", Unreadable::OriginNoXml),
            ("<MPD a=b/>", Unreadable::OriginNoXml),
            ("<MPD><BaseURL>&evil;</BaseURL></MPD>", Unreadable::OriginEntities),
            ("<MPD type='&evil;'/>", Unreadable::OriginEntities),
            (bomb, Unreadable::OriginEntities),
            (&deep, Unreadable::OriginTooDeep),
            (&wide, Unreadable::OriginTooMany),
        ] {
            assert_eq!(read(text.as_bytes()), Err(want), "{}", &text[..text.len().min(60)]);
        }
    }

    #[test]
    fn ampersands_of_queries_mean_themselves_where_nobody_escaped_them() {
        let text = "<MPD><Location>a.mpd?x=1&y=2&amp;z=3</Location><Period><AdaptationSet>\
                    <SegmentList><Initialization sourceURL='i.mp4?x=1&y=2&amp;z=3&;'/>\
                    </SegmentList><Representation/></AdaptationSet></Period></MPD>";
        let read = read(text.as_bytes()).unwrap();
        let named: Vec<_> =
            read.names.iter().map(|name| read.reference(name, text.as_bytes())).collect();
        assert_eq!(named, ["a.mpd?x=1&y=2&z=3", "i.mp4?x=1&y=2&z=3&;"]);
    }

    #[test]
    fn a_timeline_that_every_quality_inherits_is_counted_for_each() {
        let runs = "<S d='1'/>".repeat(50_000);
        let text = format!(
            "<MPD><Period><AdaptationSet><SegmentTemplate><SegmentTimeline>{runs}</SegmentTimeline>\
             </SegmentTemplate>{}</AdaptationSet></Period></MPD>",
            "<Representation/>".repeat(100)
        );
        assert_eq!(read(text.as_bytes()), Err(Unreadable::OriginTooMany));
    }
}
