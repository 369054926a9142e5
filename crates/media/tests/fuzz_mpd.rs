//! Random manifests of DASH.

mod support;

use bolero::check;
use freshet_media::Format;

const WORDS: [&str; 40] = [
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
