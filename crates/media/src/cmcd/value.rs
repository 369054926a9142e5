//! What is said by one key, for who shows it.

use super::{Cmcd, Stream};
use std::fmt;

/// The keys of requests that are read, in the order of the alphabet.
pub const KEYS: [&str; 22] = [
    "bl", "br", "bs", "bsd", "cid", "d", "dl", "ltc", "msd", "mtp", "nor", "nrr", "ot", "pr",
    "rtp", "sf", "sid", "st", "sta", "su", "tb", "v",
];

/// What a key says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Kilobits per second, or milliseconds.
    Number(u32),
    /// A string or a token.
    Text(&'a str),
    /// It is there, and says no more.
    True,
}

impl<'a> Cmcd<'a> {
    /// What one of [`KEYS`] says; `None` where it says nothing, or nothing that makes sense.
    pub fn value(&self, key: &str) -> Option<Value<'a>> {
        let truth = |is_true: bool| is_true.then_some(Value::True);
        match key {
            "bl" => self.buffer_ms.map(Value::Number),
            "br" => self.bitrate_kbps.map(Value::Number),
            "bs" => truth(self.is_starved),
            "bsd" => self.starved_ms.map(Value::Number),
            "cid" => self.content.map(Value::Text),
            "d" => self.duration_ms.map(Value::Number),
            "dl" => self.deadline_ms.map(Value::Number),
            "ltc" => self.latency_ms.map(Value::Number),
            "msd" => self.start_up_ms.map(Value::Number),
            "mtp" => self.throughput_kbps.map(Value::Number),
            "nor" => self.next.map(Value::Text),
            "nrr" => self.next_range.map(Value::Text),
            "ot" => self.object.map(Value::Text),
            "pr" => self.rate.map(Value::Text),
            "rtp" => self.requested_kbps.map(Value::Number),
            "sf" => self.format.and_then(format).map(Value::Text),
            "sid" => self.session.map(Value::Text),
            "st" => self.stream.map(|stream| Value::Text(stream.key())),
            "sta" => self.state.map(Value::Text),
            "su" => truth(self.is_start_up),
            "tb" => self.top_bitrate_kbps.map(Value::Number),
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
        let text = "bl=1,br=2,bs,bsd=8,cid=\"c\",d=9,dl=3,ltc=4,msd=5,mtp=6,nor=\"n\",nrr=\"0-9\",\
                    ot=v,pr=1.5,rtp=10,sf=d,sid=\"s\",st=ll,sta=p,su,tb=7,v=2";
        let mut of = Cmcd::default();
        read(text, &mut of);
        let all: Vec<_> = KEYS.iter().filter_map(|key| of.value(key)).collect();
        let shown: Vec<_> = all.iter().map(ToString::to_string).collect();
        let want = "1 2 true 8 c 9 3 4 5 6 n 0-9 v 1.5 10 d s ll p true 7 2";
        assert_eq!(shown.join(" "), want);
        let nothing = Cmcd { format: Some(b'x'), ..Cmcd::default() };
        assert!(KEYS.iter().all(|key| nothing.value(key).is_none()));
        assert_eq!(of.value("e"), None);
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
