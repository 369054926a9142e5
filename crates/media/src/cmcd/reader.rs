//! Reading it, without an allocation.

use super::{BYTES_MAX, Cmcd, Stream};

/// Takes percent-encoding off the value of the query parameter, into `room`. What is longer than that
/// is cut at a comma. `None` where it is no text.
pub fn decoded<'a>(value: &str, room: &'a mut [u8]) -> Option<&'a str> {
    let mut bytes = value.bytes();
    let mut length = 0;
    let mut is_cut = false;
    while let Some(byte) = bytes.next() {
        let Some(place) = room.get_mut(length) else {
            is_cut = true;
            break;
        };
        *place = match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' => b' ',
            byte => byte,
        };
        length += 1;
    }
    let bytes = room.get(..length)?;
    std::str::from_utf8(if is_cut { whole_members(bytes) } else { bytes }).ok()
}

/// Those before the last comma, of what was cut in a number or in a character.
fn whole_members(cut: &[u8]) -> &[u8] {
    let end = cut.iter().rposition(|byte| *byte == b',').unwrap_or(0);
    cut.get(..end).unwrap_or_default()
}

/// Reads what a text says: one of the four fields, the query parameter without its encoding, or a line
/// of a report. Keys that are in `known` already are kept unless this text has them too. What is longer than
/// [`BYTES_MAX`] is cut at a comma.
pub fn read<'a>(text: &'a str, known: &mut Cmcd<'a>) {
    let cut = text.as_bytes().get(..=BYTES_MAX).map(whole_members);
    let text = cut.map_or(text, |whole| text.get(..whole.len()).unwrap_or_default());
    for member in Members(text) {
        let (key, value) = member.split_once('=').unwrap_or((member, ""));
        known.take(key.trim(), value.trim(), !member.contains('='));
    }
}

/// Members of a list, separated by commas that are in no string and in no inner list.
struct Members<'a>(&'a str);

impl<'a> Iterator for Members<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let (mut is_string, mut is_escaped, mut depth) = (false, false, 0_u32);
        let end = self.0.bytes().position(|byte| {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_string => is_escaped = true,
                b'"' => is_string = !is_string,
                _ if is_string => {}
                b'(' => depth = depth.saturating_add(1),
                b')' => depth = depth.saturating_sub(1),
                b',' => return depth == 0,
                _ => {}
            }
            false
        });
        let end = end.unwrap_or(self.0.len());
        let (member, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        Some(member)
    }
}

impl<'a> Cmcd<'a> {
    fn take(&mut self, key: &str, value: &'a str, is_bare: bool) {
        let count = || number(value).and_then(|number| u32::try_from(number).ok());
        let rate = || of_pictures(value).or_else(count);
        let truth = is_bare || matches!(value, "?1" | "true");
        match key {
            "sid" => self.session = text(value).or(self.session),
            "cid" => self.content = text(value).or(self.content),
            "br" => self.bitrate_kbps = rate().or(self.bitrate_kbps),
            "tb" => self.top_bitrate_kbps = rate().or(self.top_bitrate_kbps),
            "lb" => self.lowest_bitrate_kbps = rate().or(self.lowest_bitrate_kbps),
            "tpb" => self.playable_bitrate_kbps = rate().or(self.playable_bitrate_kbps),
            "pb" => self.playhead_bitrate_kbps = rate().or(self.playhead_bitrate_kbps),
            "ab" => self.all_bitrate_kbps = count().or(self.all_bitrate_kbps),
            "tab" => self.all_top_bitrate_kbps = count().or(self.all_top_bitrate_kbps),
            "lab" => self.all_lowest_bitrate_kbps = count().or(self.all_lowest_bitrate_kbps),
            "mtp" => self.throughput_kbps = count().or(self.throughput_kbps),
            "rtp" => self.requested_kbps = count().or(self.requested_kbps),
            "d" => self.duration_ms = count().or(self.duration_ms),
            "pr" => self.rate = decimal(value).or(self.rate),
            "sta" => self.state = text(value).or(self.state),
            "bl" => self.buffer_ms = count().or(self.buffer_ms),
            "tbl" => self.target_buffer_ms = count().or(self.target_buffer_ms),
            "pt" => self.playhead_ms = number(value).or(self.playhead_ms),
            "dl" => self.deadline_ms = count().or(self.deadline_ms),
            "ltc" => self.latency_ms = count().or(self.latency_ms),
            "msd" => self.start_up_ms = count().or(self.start_up_ms),
            "bsd" => self.starved_ms = count().or(self.starved_ms),
            "bsa" => self.starvations_all = count().or(self.starvations_all),
            "bsda" => self.starved_all_ms = count().or(self.starved_all_ms),
            "dfa" => self.dropped_pictures_all = count().or(self.dropped_pictures_all),
            "bg" => self.is_in_background |= truth,
            "nr" => self.is_not_rendered |= truth,
            "sn" => self.number = number(value).or(self.number),
            "ec" => self.error = text(first(value)).or(self.error),
            "rc" => self.status = count().and_then(|count| u16::try_from(count).ok()),
            "ttfb" => self.first_byte_ms = count().or(self.first_byte_ms),
            "ttfbb" => self.first_body_byte_ms = count().or(self.first_body_byte_ms),
            "ttlb" => self.last_byte_ms = count().or(self.last_byte_ms),
            "url" => self.asked = text(value).or(self.asked),
            "cmsdd" => self.server_dynamic = text(value).or(self.server_dynamic),
            "cmsds" => self.server_static = text(value).or(self.server_static),
            "smrt" => self.trace = text(value).or(self.trace),
            "cs" => self.signature = text(value).or(self.signature),
            "h" => self.host = text(value).or(self.host),
            "cen" => self.custom_event = text(value).or(self.custom_event),
            "bs" => self.is_starved |= truth,
            "su" => self.is_start_up |= truth,
            "st" => self.stream = stream(value).or(self.stream),
            "sf" => self.format = value.bytes().next().filter(u8::is_ascii_lowercase),
            "ot" => self.object = text(value).or(self.object),
            "nor" => {
                self.next = text(first(value)).or(self.next);
                self.next_range = range(value).or(self.next_range);
            }
            "nrr" => self.next_range = text(value).or(self.next_range),
            "e" => self.event = text(value).or(self.event),
            "ts" => self.at_ms = number(value).or(self.at_ms),
            "v" => self.version = number(value).and_then(|number| u8::try_from(number).ok()),
            _ => {}
        }
    }
}

/// The first of an inner list, without its parameters; a value that is none as it is.
fn first(value: &str) -> &str {
    let Some(list) = value.strip_prefix('(') else { return value };
    let list = list.trim_start();
    let end = match list.strip_prefix('"') {
        Some(string) => string.find('"').map_or(list.len(), |at| at + 2),
        None => list.find([';', ' ', ')']).unwrap_or(list.len()),
    };
    list.get(..end).unwrap_or_default()
}

/// The number in an inner list that is marked as that of pictures, `;v` or `;av`.
fn of_pictures(value: &str) -> Option<u32> {
    let mut items = value.strip_prefix('(')?.split([' ', ')']);
    let is_marked = |item: &&str| item.split(';').skip(1).any(|mark| matches!(mark, "v" | "av"));
    number(items.find(is_marked)?).and_then(|number| u32::try_from(number).ok())
}

/// The parameter `r` of the first of an inner list of strings.
fn range(value: &str) -> Option<&str> {
    let after = value.strip_prefix('(')?.trim_start().strip_prefix('"')?.split_once('"')?.1;
    let parameters = after.split([' ', ')']).next()?;
    text(parameters.split(';').find_map(|one| one.strip_prefix("r="))?)
}

/// A number, whole or rounded down; negative ones and what is none are nothing.
fn number(value: &str) -> Option<u64> {
    let value = first(value).split(';').next().unwrap_or_default();
    let whole = value.split_once('.').map_or(value, |(whole, _)| whole);
    whole.parse().ok()
}

/// A decimal number, as it is written.
fn decimal(value: &str) -> Option<&str> {
    let value = first(value).split(';').next()?;
    let is_one = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_one && value.parse::<f64>().is_ok()).then_some(value)
}

/// A string or a token, without its quotes; one with escapes, or of nothing, is left out.
fn text(value: &str) -> Option<&str> {
    let value = match value.strip_prefix('"') {
        Some(string) => string.split_once('"')?.0,
        None => value.split(';').next()?,
    };
    (!value.is_empty() && !value.contains('\\')).then_some(value)
}

fn stream(value: &str) -> Option<Stream> {
    match value {
        "v" => Some(Stream::Vod),
        "l" => Some(Stream::Live),
        "ll" => Some(Stream::LowLatency),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Response;
    use super::*;

    fn of(text: &str) -> Cmcd<'_> {
        let mut out = Cmcd::default();
        read(text, &mut out);
        out
    }

    #[test]
    fn version_one_is_read_from_the_query() {
        let value = "bl%3D21300%2Cbr%3D3200%2Cbs%2Ccid%3D%22faec5fc2%22%2Cmtp%3D25400%2C\
                     nor%3D%22..%252F300kbps%252Ftrack.m4v%22%2Cot%3Dv%2Csf%3Dd%2C\
                     sid%3D%226e2fb550-c457%22%2Cst%3Dll%2Csu%2Ctb%3D6000";
        let mut room = [0; BYTES_MAX];
        let read = of(decoded(value, &mut room).unwrap());
        assert_eq!(read.session, Some("6e2fb550-c457"));
        assert_eq!(read.content, Some("faec5fc2"));
        assert_eq!((read.bitrate_kbps, read.top_bitrate_kbps), (Some(3200), Some(6000)));
        assert_eq!((read.buffer_ms, read.throughput_kbps), (Some(21_300), Some(25_400)));
        assert_eq!((read.is_starved, read.is_start_up), (true, true));
        assert_eq!((read.stream, read.format), (Some(Stream::LowLatency), Some(b'd')));
        assert_eq!(read.next, Some("..%2F300kbps%2Ftrack.m4v"));
    }

    #[test]
    fn version_two_has_lists_with_parameters() {
        let read =
            of("br=(3200;v 128;a),bl=(2900;v),bs=?0,v=2,e=ps,ts=1763800000000,ltc=812,msd=420,\
             nor=(\"a,b.m4s\";r=\"0-99\" \"c.m4s\"),sid=\"s\",sta=p,com.example-x=\"y,z\"");
        assert_eq!((read.bitrate_kbps, read.buffer_ms), (Some(3200), Some(2900)));
        assert!(!read.is_starved);
        assert_eq!((read.version, read.event), (Some(2), Some("ps")));
        assert_eq!(read.at_ms, Some(1_763_800_000_000));
        assert_eq!((read.latency_ms, read.start_up_ms), (Some(812), Some(420)));
        assert_eq!((read.next, read.session), (Some("a,b.m4s"), Some("s")));
        assert_eq!(read.next_range, Some("0-99"));
        let one = of("nor=(\"a.m4s\" \"b.m4s\";r=\"0-9\")");
        assert_eq!((one.next, one.next_range), (Some("a.m4s"), None), "the range is of the second");
    }

    #[test]
    fn the_bit_rate_of_pictures_counts_wherever_it_is() {
        for (text, kbps) in [
            ("br=(128;a 3200;v)", Some(3200)),
            ("br=( 96;a  800;x;av )", Some(800)),
            ("br=(128;a 64;c)", Some(128)),
            ("br=(128;a x;v)", Some(128)),
            ("br=()", None),
        ] {
            assert_eq!(of(text).bitrate_kbps, kbps, "{text}");
        }
    }

    #[test]
    fn what_a_response_was_like_is_read() {
        let read = of("e=rr,rc=503,ttfb=120,ttlb=900,ttfbb=121,url=\"https://a/b\",sid=\"s\"");
        assert_eq!(
            (read.status, read.first_byte_ms, read.last_byte_ms),
            (Some(503), Some(120), Some(900))
        );
        assert_eq!(of("rc=70000,ttfb=-1").status, None);
        let said = Response { is_failed: true, first_byte_ms: Some(120), last_byte_ms: Some(900) };
        assert_eq!(read.response(), Some(said));
        for (text, is_failed) in [("e=rr,rc=0", true), ("e=rr,rc=206", false), ("e=rr", false)] {
            assert_eq!(of(text).response().map(|one| one.is_failed), Some(is_failed), "{text}");
        }
        assert_eq!(of("e=ps,rc=503").response(), None);
    }

    #[test]
    fn what_is_cut_is_so_between_two_keys() {
        // Each has a number or a character where the room ends.
        for last in ["bl=21000", "cid=\"äöüßäöüß\""] {
            for before in BYTES_MAX - last.len() - 5..BYTES_MAX {
                let text = format!("br=1,x={},{last},{last}", "y".repeat(before - 8));
                let read = of(&text);
                assert_eq!(read.bitrate_kbps, Some(1), "{before}");
                assert!(read.buffer_ms.is_none_or(|ms| ms == 21_000), "{before}");
                let mut room = [0; BYTES_MAX];
                let decoded = decoded(&text, &mut room).unwrap();
                assert!(of(decoded).buffer_ms.is_none_or(|ms| ms == 21_000), "{before}");
                assert_eq!(of(decoded).bitrate_kbps, Some(1), "{before}");
            }
        }
        let fits = format!("x={},bl=7", "y".repeat(BYTES_MAX - 7));
        assert_eq!((fits.len(), of(&fits).buffer_ms), (BYTES_MAX, Some(7)));
    }

    #[test]
    fn fields_are_read_one_after_the_other() {
        let mut read = Cmcd::default();
        for field in ["br=3200,d=4004,ot=v", "bl=100,su", "sid=token,st=l,sf=h", "bs"] {
            super::read(field, &mut read);
        }
        assert_eq!((read.bitrate_kbps, read.session), (Some(3200), Some("token")));
        assert!(read.is_starved && read.is_start_up);
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        let read =
            of("br=-1,bl=x,tb=99999999999999999999,sid=\"\",st=q,,=,su=?0,e=\"a\\\"\",cid=\"open");
        assert_eq!(read, Cmcd::default());
        let mut room = [0; BYTES_MAX];
        assert_eq!(decoded("%", &mut room), None);
        assert_eq!(decoded("%zz", &mut room), None);
        assert_eq!(decoded("%ff", &mut room), None);
        // 64 KB of it are looked at as far as there is room.
        let long = "br%3D1%2C".repeat(8000);
        assert_eq!(of(decoded(&long, &mut room).unwrap()).bitrate_kbps, Some(1));
        assert_eq!(decoded(&"x".repeat(70_000), &mut room), Some(""));
        assert_eq!(of(&"(".repeat(70_000)), Cmcd::default());
    }
}
