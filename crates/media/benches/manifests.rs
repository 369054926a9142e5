//! What reading a manifest costs, which a node does once for each version it stores.

use criterion::{Criterion, criterion_group, criterion_main};
use freshet_media::{Format, read};
use std::fmt::Write as _;
use std::hint::black_box;

/// A low-latency playlist: the last three segments have ten parts each.
fn playlist(segments: u64) -> String {
    let mut out = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-PART-INF:PART-TARGET=0.2\n\
                   #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=0.6\n"
        .to_owned();
    for number in 0..segments {
        for part in 0..if number + 3 >= segments { 10 } else { 0 } {
            let _ = writeln!(out, "#EXT-X-PART:DURATION=0.2,URI=\"video_{number}_{part}.m4s\"");
        }
        let _ = write!(
            out,
            "#EXT-X-PROGRAM-DATE-TIME:2025-01-01T00:00:00.000Z\n#EXTINF:2.00000,\n\
             video_{number}.m4s\n"
        );
    }
    out
}

/// A manifest with a timeline for each of some representations.
fn mpd(runs: usize) -> String {
    let timeline: String = (0..runs).map(|at| format!("<S t=\"{}\" d=\"96256\"/>\n", at)).collect();
    let sets: String = (0..4)
        .map(|at| {
            format!(
                "<AdaptationSet mimeType=\"video/mp4\"><SegmentTemplate timescale=\"48000\" \
                 media=\"$RepresentationID$/$Time$.m4s\"><SegmentTimeline>{timeline}\
                 </SegmentTimeline></SegmentTemplate><Representation id=\"{at}\" \
                 bandwidth=\"1\"/></AdaptationSet>"
            )
        })
        .collect();
    format!("<MPD type=\"dynamic\" timeShiftBufferDepth=\"PT60S\"><Period>{sets}</Period></MPD>")
}

fn reading(criterion: &mut Criterion) {
    for (name, format, text) in [
        ("low-latency playlist of 60 segments", Format::Hls, playlist(60)),
        ("playlist of 1,800 segments", Format::Hls, playlist(1800)),
        ("MPD of 100 KB", Format::Mpd, mpd(980)),
    ] {
        criterion.bench_function(&format!("{name}, {} bytes", text.len()), |bench| {
            bench.iter(|| read(format, black_box(text.as_bytes())));
        });
    }
}

criterion_group!(benches, reading);
criterion_main!(benches);
