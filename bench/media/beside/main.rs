//! Reads playlists of HLS with quick-m3u8, all lines of each: how many, and how many bytes a second.

use quick_m3u8::config::ParsingOptions;
use quick_m3u8::{HlsLine, Reader};
use std::hint::black_box;
use std::time::Duration;

fn lines(text: &str) -> Result<usize, String> {
    let mut reader = Reader::from_str(text, ParsingOptions::default());
    let mut count = 0;
    while let Some(line) = reader.read_line().map_err(|error| error.to_string())? {
        count += usize::from(!matches!(black_box(&line), HlsLine::Blank));
    }
    Ok(count)
}

/// How long this process was on a processor.
fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("the kernel counts times");
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn main() {
    let texts: Vec<String> = std::env::args()
        .skip(1)
        .filter(|name| !name.ends_with(".mpd"))
        .filter_map(|name| String::from_utf8(std::fs::read(name).ok()?).ok())
        .filter(|text| lines(text).is_ok_and(|count| count > 0))
        .collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    let (mut rounds, begun) = (0_u32, on_processor());
    while on_processor() - begun < Duration::from_secs(2) && !texts.is_empty() {
        for text in &texts {
            let _ = black_box(lines(black_box(text)));
        }
        rounds += 1;
    }
    let rate = bytes as f64 * f64::from(rounds) / (on_processor() - begun).as_secs_f64() / 1e6;
    println!("{} playlists, {bytes} bytes, {rate:.0} MB/s", texts.len());
}
