//! Random playlists.

mod support;

use bolero::check;
use freshet_media::Format;

const WORDS: [&str; 40] = [
    "#EXTM3U\n",
    "\n",
    "\r\n",
    "#EXTINF:",
    "2.000,\n",
    "-1,\n",
    "nan,\n",
    "99999999999999999999,\n",
    "a.ts\n",
    "../b.ts?x=1\n",
    "{$v}/c.ts\n",
    "#EXT-X-TARGETDURATION:",
    "4\n",
    "18446744073709551615\n",
    "#EXT-X-MEDIA-SEQUENCE:",
    "#EXT-X-ENDLIST\n",
    "#EXT-X-PLAYLIST-TYPE:EVENT\n",
    "#EXT-X-PLAYLIST-TYPE:VOD\n",
    "#EXT-X-MAP:URI=\"i.mp4\"\n",
    "#EXT-X-MAP:URI=\"",
    "#EXT-X-PART:DURATION=0.2,URI=\"p.m4s\"\n",
    "#EXT-X-PART:",
    "#EXT-X-PART-INF:PART-TARGET=0.2\n",
    "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"h.m4s\",BYTERANGE-START=20\n",
    "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=12\n",
    "#EXT-X-SKIP:SKIPPED-SEGMENTS=",
    "#EXT-X-RENDITION-REPORT:URI=\"r.m3u8\",LAST-MSN=1,LAST-PART=2\n",
    "#EXT-X-STREAM-INF:BANDWIDTH=1\n",
    "#EXT-X-MEDIA:TYPE=AUDIO,URI=\"a.m3u8\"\n",
    "#EXT-X-DEFINE:NAME=\"v\",VALUE=\"x\"\n",
    "#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n",
    "#EXT-X-BYTERANGE:100@0\n",
    "#",
    "\u{feff}",
    "é",
    ",",
    "=",
    "\"",
    "0",
    " ",
];

#[test]
fn fuzz_hls() {
    check!()
        .with_test_time(support::TEST_TIME)
        .with_max_len(support::INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| support::as_bytes_and_words(Format::Hls, input, &WORDS));
}
