//! Random manifests of DASH.

mod support;

use bolero::check;
use freshet_media::Format;

const WORDS: [&str; 46] = [
    "<MPD type='dynamic' timeShiftBufferDepth='PT9S'>",
    "</MPD>",
    "<Period>",
    "</Period>",
    "<AdaptationSet mimeType='video/mp4'>",
    "</AdaptationSet>",
    "<Representation id='a' bandwidth='9'>",
    "<Representation/>",
    "</Representation>",
    "<BaseURL>",
    "</BaseURL>",
    "http://h/a/",
    "/b/",
    "<SegmentTemplate media='$Number%05d$-$Time$$' initialization='$RepresentationID$'>",
    "<SegmentTemplate media='$' duration='2' timescale='0'/>",
    "</SegmentTemplate>",
    "<SegmentTimeline>",
    "</SegmentTimeline>",
    "<S d='4' r='99999999999'/>",
    "<S d='18446744073709551615' r='-1'/>",
    "<SegmentList duration='1'>",
    "</SegmentList>",
    "<SegmentURL media='1.m4s'/>",
    "<Initialization sourceURL='i'/>",
    "<!DOCTYPE m [<!ENTITY a 'b'>]>",
    "&a;",
    "&amp;",
    "&#38;",
    "<!-- -->",
    "<![CDATA[x]]>",
    "<?xml version='1.0'?>",
    "<x:y z='1' z='2'/>",
    "<SegmentTemplate media='$Time$' availabilityTimeOffset='1' presentationTimeOffset='9'>",
    "<SegmentTemplate media='$Number$' duration='2' startNumber='7'>",
    "<S t='7' d='3' r='2'/>",
    "<MPD type='dynamic' availabilityStartTime='2026-01-01T00:00:00Z' publishTime='2026-01-01T00:00:00Z'>",
    "<Location>",
    "</Location>",
    "<EventStream>",
    "</EventStream>",
    "<",
    ">",
    "'",
    "é",
    "\u{feff}",
    " ",
];

#[test]
fn fuzz_mpd() {
    check!()
        .with_test_time(support::TEST_TIME)
        .with_max_len(support::INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| support::as_bytes_and_words(Format::Mpd, input, &WORDS));
}
