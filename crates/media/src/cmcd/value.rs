//! What is said by one key, for who shows it.

use super::{Cmcd, Stream};
use std::fmt;

/// The keys that are read, of requests and of reports, in the order of the alphabet.
pub const KEYS: [&str; 50] = [
    "ab", "bg", "bl", "br", "bs", "bsa", "bsd", "bsda", "cen", "cid", "cmsdd", "cmsds", "cs", "d",
    "dfa", "dl", "e", "ec", "h", "lab", "lb", "ltc", "msd", "mtp", "nor", "nr", "nrr", "ot", "pb",
    "pr", "pt", "rc", "rtp", "sf", "sid", "smrt", "sn", "st", "sta", "su", "tab", "tb", "tbl",
    "tpb", "ts", "ttfb", "ttfbb", "ttlb", "url", "v",
];

/// What a key says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Kilobits per second, milliseconds, or a count.
    Number(u64),
    /// A string or a token.
    Text(&'a str),
    /// It is there, and says no more.
    True,
}

impl<'a> Cmcd<'a> {
    /// What one of [`KEYS`] says; `None` where it says nothing, or nothing that makes sense.
    pub fn value(&self, key: &str) -> Option<Value<'a>> {
        let truth = |is_true: bool| is_true.then_some(Value::True);
        let count = |count: Option<u32>| count.map(|count| Value::Number(count.into()));
        match key {
            "ab" => count(self.all_bitrate_kbps),
            "bg" => truth(self.is_in_background),
            "bl" => count(self.buffer_ms),
            "br" => count(self.bitrate_kbps),
            "bs" => truth(self.is_starved),
            "bsa" => count(self.starvations_all),
            "bsd" => count(self.starved_ms),
            "bsda" => count(self.starved_all_ms),
            "cen" => self.custom_event.map(Value::Text),
            "cid" => self.content.map(Value::Text),
            "cmsdd" => self.server_dynamic.map(Value::Text),
            "cmsds" => self.server_static.map(Value::Text),
            "cs" => self.signature.map(Value::Text),
            "d" => count(self.duration_ms),
            "dfa" => count(self.dropped_pictures_all),
            "dl" => count(self.deadline_ms),
            "e" => self.event.map(Value::Text),
            "ec" => self.error.map(Value::Text),
            "h" => self.host.map(Value::Text),
            "lab" => count(self.all_lowest_bitrate_kbps),
            "lb" => count(self.lowest_bitrate_kbps),
            "ltc" => count(self.latency_ms),
            "msd" => count(self.start_up_ms),
            "mtp" => count(self.throughput_kbps),
            "nor" => self.next.map(Value::Text),
            "nr" => truth(self.is_not_rendered),
            "nrr" => self.next_range.map(Value::Text),
            "ot" => self.object.map(Value::Text),
            "pb" => count(self.playhead_bitrate_kbps),
            "pr" => self.rate.map(Value::Text),
            "pt" => self.playhead_ms.map(Value::Number),
            "rc" => count(self.status.map(u32::from)),
            "rtp" => count(self.requested_kbps),
            "sf" => self.format.and_then(format).map(Value::Text),
            "sid" => self.session.map(Value::Text),
            "smrt" => self.trace.map(Value::Text),
            "sn" => self.number.map(Value::Number),
            "st" => self.stream.map(|stream| Value::Text(stream.key())),
            "sta" => self.state.map(Value::Text),
            "su" => truth(self.is_start_up),
            "tab" => count(self.all_top_bitrate_kbps),
            "tb" => count(self.top_bitrate_kbps),
            "tbl" => count(self.target_buffer_ms),
            "tpb" => count(self.playable_bitrate_kbps),
            "ts" => self.at_ms.map(Value::Number),
            "ttfb" => count(self.first_byte_ms),
            "ttfbb" => count(self.first_body_byte_ms),
            "ttlb" => count(self.last_byte_ms),
            "url" => self.asked.map(Value::Text),
            "v" => self.version.map(|version| Value::Number(version.into())),
            _ => None,
        }
    }
}

impl Stream {
    /// As it is written: `v`, `l` or `ll`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Vod => "v",
            Self::Live => "l",
            Self::LowLatency => "ll",
        }
    }
}

/// The formats there are.
fn format(byte: u8) -> Option<&'static str> {
    ["d", "h", "o", "s"].into_iter().find(|known| known.as_bytes() == [byte])
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::True => f.write_str("true"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    #[test]
    fn each_key_says_what_was_read() {
        let text = "ab=11,bg,bl=1,br=2,bs,bsa=12,bsd=8,bsda=13,cen=\"n1\",cid=\"c\",cmsdd=\"ImEiO3J0dD04\",\
                    cmsds=\"YnI9Mg==\",cs=\"g\",d=9,dfa=14,dl=3,e=rr,ec=(\"e\" \"f\"),h=\"a.example\",\
                    lab=15,lb=16,ltc=4,msd=5,mtp=6,nor=\"n\",nr=?1,nrr=\"0-9\",ot=v,pb=17,pr=1.5,pt=18,\
                    rc=206,rtp=10,sf=d,sid=\"s\",smrt=\"bQ==\",sn=19,st=ll,sta=p,su,tab=20,tb=(21;a 7;v),\
                    tbl=22,tpb=23,ts=24,ttfb=25,ttfbb=26,ttlb=27,url=\"https://a.example/b,c?d=1\",v=2";
        let mut of = Cmcd::default();
        read(text, &mut of);
        let all: Vec<_> = KEYS.iter().filter_map(|key| of.value(key)).collect();
        let shown: Vec<_> = all.iter().map(ToString::to_string).collect();
        let want = "11 true 1 2 true 12 8 13 n1 c ImEiO3J0dD04 YnI9Mg== g 9 14 3 rr e a.example 15 16 4 5 6 n \
                    true 0-9 v 17 1.5 18 206 10 d s bQ== 19 ll p true 20 7 22 23 24 25 26 27 \
                    https://a.example/b,c?d=1 2";
        assert_eq!(shown.join(" "), want);
        assert!(KEYS.is_sorted());
        let nothing = Cmcd { format: Some(b'x'), ..Cmcd::default() };
        assert!(KEYS.iter().all(|key| nothing.value(key).is_none()));
        assert_eq!(of.value("com.example-x"), None);
    }

    #[test]
    fn who_is_about_to_stand_still_is_urgent() {
        for (text, urgent) in [
            ("bl=1999", true),
            ("bl=2000,dl=2000", false),
            ("bl=9000,dl=10", true),
            ("bs", true),
            ("su,bl=20000", true),
            ("br=1,sid=\"a\"", false),
        ] {
            let mut of = Cmcd::default();
            read(text, &mut of);
            assert_eq!(of.is_urgent(), urgent, "{text}");
        }
    }
}
