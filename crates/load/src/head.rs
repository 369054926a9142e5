//! Reading response heads: only what a measurement needs, and strictly.
//!
//! One pass over the bytes, nothing is copied. What HTTP does not allow is a fault of the server, not
//! something to guess around: a measurement that goes on after a lost byte measures nonsense.

/// Bytes of a head at most; what servers here send is some hundred.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;

/// How long a body is (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Whether a response came out of the cache, as far as its head says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Hit {
    #[default]
    Unknown,
    Yes,
    No,
}

/// What the fields of a head say about the cache; the first that speaks decides, best first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Signs {
    cache_status: Hit,
    x_cache: Hit,
    x_varnish: Hit,
    age: Hit,
}

impl Signs {
    /// Takes note of a field; names are compared without regard to case.
    pub(super) fn note(&mut self, name: &[u8], value: &[u8]) {
        match name.len() {
            3 if name.eq_ignore_ascii_case(b"age") => {
                // 0 says nothing: a cache may have stored it in this very second.
                let is_old = value.iter().any(|digit| (b'1'..=b'9').contains(digit));
                self.age = if is_old { Hit::Yes } else { Hit::Unknown };
            }
            7 if name.eq_ignore_ascii_case(b"x-cache") => self.x_cache = word(value),
            9 if name.eq_ignore_ascii_case(b"x-varnish") => {
                // Two transaction numbers: the second is that of the fetch that stored it.
                let is_hit = value.trim_ascii().contains(&b' ');
                self.x_varnish = if is_hit { Hit::Yes } else { Hit::No };
            }
            12 if name.eq_ignore_ascii_case(b"cache-status") => {
                self.cache_status = cache_status(value);
            }
            _ => {}
        }
    }

    pub(super) fn verdict(self) -> Hit {
        [self.cache_status, self.x_cache, self.x_varnish, self.age]
            .into_iter()
            .find(|hit| *hit != Hit::Unknown)
            .unwrap_or_default()
    }
}

/// `Cache-Status` of the cache closest to us, the last member: a parameter `hit` (RFC 9211 §2.1).
fn cache_status(value: &[u8]) -> Hit {
    let last = value.rsplit(|byte| *byte == b',').next().unwrap_or(value);
    let mut parameters = last.split(|byte| *byte == b';').skip(1).map(<[u8]>::trim_ascii);
    if parameters.any(|parameter| parameter == b"hit" || parameter == b"hit=?1") {
        Hit::Yes
    } else {
        Hit::No
    }
}

/// `HIT`, `MISS` and what caches call in between; a number is a count of hits. Of several caches the last is the
/// one closest to us.
fn word(value: &[u8]) -> Hit {
    let value = value.rsplit(|byte| *byte == b',').next().unwrap_or(value).trim_ascii();
    if !value.is_empty() && value.iter().all(u8::is_ascii_digit) {
        return if value.iter().all(|digit| *digit == b'0') { Hit::No } else { Hit::Yes };
    }
    let starts =
        |word: &[u8]| value.len() >= word.len() && value[..word.len()].eq_ignore_ascii_case(word);
    match () {
        () if starts(b"hit")
            || starts(b"stale")
            || starts(b"updating")
            || starts(b"revalidated") =>
        {
            Hit::Yes
        }
        () if starts(b"miss") || starts(b"expired") || starts(b"bypass") || starts(b"pass") => {
            Hit::No
        }
        () => Hit::Unknown,
    }
}

/// A response head.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Head {
    /// Bytes of the head, the empty line included.
    pub(super) bytes: usize,
    pub(super) status: u16,
    pub(super) framing: Framing,
    /// Whether the connection can be used again.
    pub(super) keep: bool,
    pub(super) signs: Signs,
}

/// Reads the head of the response to a GET at the start of `input`; `Ok(None)` when it is not there
/// as a whole yet. Interim responses (1xx) are returned like others, with an empty body.
///
/// # Errors
/// What is wrong, in words.
pub(super) fn parse(input: &[u8]) -> Result<Option<Head>, &'static str> {
    let Some(line_end) = find_line(input)? else { return Ok(None) };
    let (status, minor) = status_line(&input[..line_end])?;
    let mut keep = minor == b'1';
    let mut length: Option<u64> = None;
    let mut chunked = false;
    let mut signs = Signs::default();
    let mut at = line_end + 2;
    loop {
        let Some(end) = find_line(&input[at..])? else { return Ok(None) };
        let line = &input[at..at + end];
        at += end + 2;
        if line.is_empty() {
            break;
        }
        let colon = line.iter().position(|byte| *byte == b':').ok_or("a field without a colon")?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || name.iter().any(|byte| !is_token(*byte)) {
            return Err("a field whose name is no token");
        }
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => {
                if value.eq_ignore_ascii_case(b"close") {
                    keep = false;
                } else if value.eq_ignore_ascii_case(b"keep-alive") {
                    keep = true;
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let value = number(value).ok_or("a Content-Length that is no number")?;
                if length.is_some_and(|before| before != value) {
                    return Err("two lengths that differ");
                }
                length = Some(value);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err("a transfer coding other than chunked");
                }
                chunked = true;
            }
            _ => signs.note(name, value),
        }
    }
    let framing = match (status, chunked, length) {
        (100..=199 | 204 | 304, _, _) => Framing::Length(0),
        (_, true, Some(_)) => return Err("both a length and chunks"),
        (_, true, None) => Framing::Chunked,
        (_, false, Some(length)) => Framing::Length(length),
        (_, false, None) => Framing::UntilClose,
    };
    keep &= framing != Framing::UntilClose;
    Ok(Some(Head { bytes: at, status, framing, keep, signs }))
}

/// Where the line that `input` begins with ends, without its CRLF.
fn find_line(input: &[u8]) -> Result<Option<usize>, &'static str> {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    match end.checked_sub(1).and_then(|before| input.get(before)) {
        Some(b'\r') => Ok(Some(end - 1)),
        _ => Err("a line that ends without CR"),
    }
}

fn status_line(line: &[u8]) -> Result<(u16, u8), &'static str> {
    match line {
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'1',
            b'.',
            minor @ (b'0' | b'1'),
            b' ',
            a,
            b,
            c,
            rest @ ..,
        ] if [a, b, c].iter().all(|digit| digit.is_ascii_digit())
            && (rest.is_empty() || rest[0] == b' ') =>
        {
            let digit = |c: &u8| u16::from(*c - b'0');
            let status = digit(a) * 100 + digit(b) * 10 + digit(c);
            if status < 100 { Err("a status below 100") } else { Ok((status, *minor)) }
        }
        _ => Err("a first line that is no status line of HTTP/1"),
    }
}

/// Decimal digits only, as a number.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Where a decoder of chunks is (RFC 9112 §7.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Chunks {
    /// In the line with the size; what was read of it, and whether digits have ended.
    Size { value: u64, digits: u8, in_extension: bool },
    /// This many bytes of a chunk are left.
    Data(u64),
    /// Between a chunk and the next: how much of CRLF has been seen.
    DataEnd(u8),
    /// In the trailer: bytes of the current line without its end.
    Trailer(u32),
    /// Behind it all.
    Done,
}

impl Chunks {
    pub(super) const START: Self = Self::Size { value: 0, digits: 0, in_extension: false };

    /// Takes the next bytes: how many were consumed, and how many of these, at their end, are body.
    /// To be called until the input is used up or it is done.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<(usize, usize), &'static str> {
        if let Self::Data(left) = *self {
            let count = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            *self = match left - count as u64 {
                0 => Self::DataEnd(0),
                left => Self::Data(left),
            };
            return Ok((count, count));
        }
        for (index, byte) in input.iter().enumerate() {
            *self = self.step(*byte)?;
            if matches!(self, Self::Data(_) | Self::Done) {
                return Ok((index + 1, 0));
            }
        }
        Ok((input.len(), 0))
    }

    fn step(self, byte: u8) -> Result<Self, &'static str> {
        match (self, byte) {
            (Self::Size { value: 0, digits, .. }, b'\n') if digits > 0 => Ok(Self::Trailer(0)),
            (Self::Size { value, digits, .. }, b'\n') if digits > 0 => Ok(Self::Data(value)),
            (Self::Size { value, digits, in_extension }, byte) => {
                if in_extension || (digits > 0 && matches!(byte, b';' | b' ' | b'\t' | b'\r')) {
                    return Ok(Self::Size { value, digits, in_extension: true });
                }
                let digit = (byte as char).to_digit(16).ok_or("a chunk size that is no number")?;
                if digits >= 16 {
                    return Err("a chunk size of more than 16 digits");
                }
                let value = value << 4 | u64::from(digit);
                Ok(Self::Size { value, digits: digits + 1, in_extension })
            }
            (Self::DataEnd(0), b'\r') => Ok(Self::DataEnd(1)),
            (Self::DataEnd(1), b'\n') => Ok(Self::START),
            (Self::DataEnd(_), _) => Err("a chunk that is longer than its size"),
            (Self::Trailer(_), b'\r') => Ok(self),
            (Self::Trailer(0), b'\n') => Ok(Self::Done),
            (Self::Trailer(_), b'\n') => Ok(Self::Trailer(0)),
            (Self::Trailer(count), _) if count as usize >= HEAD_BYTES_MAX => {
                Err("a trailer without an end")
            }
            (Self::Trailer(count), _) => Ok(Self::Trailer(count + 1)),
            (other @ (Self::Data(_) | Self::Done), _) => Ok(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(text: &str) -> Head {
        parse(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn a_usual_head_is_read() {
        let text = "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 1048576\r\nAge: 0\r\n\r\nbody";
        let head = head(text);
        assert_eq!((head.status, head.framing), (200, Framing::Length(1_048_576)));
        assert_eq!(head.bytes, text.len() - 4);
        assert!(head.keep);
        assert_eq!(head.signs.verdict(), Hit::Unknown);
    }

    #[test]
    fn connections_and_framings_follow_the_standard() {
        let of = |fields: &str| head(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
        assert!(!of("Connection: close\r\nContent-Length: 0\r\n").keep);
        assert_eq!(of("Transfer-Encoding: chunked\r\n").framing, Framing::Chunked);
        let until_close = of("");
        assert_eq!((until_close.framing, until_close.keep), (Framing::UntilClose, false));
        assert!(!head("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n").keep);
        assert_eq!(head("HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n").framing, Framing::Length(0));
    }

    #[test]
    fn signs_of_caches_are_understood_best_first() {
        let verdict =
            |fields: &str| head(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).signs.verdict();
        for (fields, hit) in [
            ("Cache-Status: freshet; hit; ttl=57\r\nX-Cache: MISS\r\n", Hit::Yes),
            ("Cache-Status: parent; hit, freshet; fwd=uri-miss; stored\r\nAge: 5\r\n", Hit::No),
            ("X-Cache: HIT\r\n", Hit::Yes),
            ("X-Cache: MISS\r\n", Hit::No),
            ("X-Cache: MISS, HIT\r\n", Hit::Yes),
            ("X-Cache: HIT, MISS\r\n", Hit::No),
            ("X-Cache: 0\r\n", Hit::No),
            ("X-Cache: 17\r\n", Hit::Yes),
            ("X-Varnish: 32770 3\r\nAge: 0\r\n", Hit::Yes),
            ("X-Varnish: 32770\r\n", Hit::No),
            ("Age: 12\r\n", Hit::Yes),
            ("Age: 0\r\n", Hit::Unknown),
        ] {
            assert_eq!(verdict(fields), hit, "{fields}");
        }
    }

    #[test]
    fn what_http_does_not_allow_is_refused() {
        for text in [
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/1.1 200 OK\n\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    fn unchunk(input: &[u8], step: usize) -> Result<(Vec<u8>, bool), &'static str> {
        let (mut chunks, mut body) = (Chunks::START, Vec::new());
        for part in input.chunks(step.max(1)) {
            let mut part = part;
            while !part.is_empty() && chunks != Chunks::Done {
                let (used, data) = chunks.take(part)?;
                body.extend_from_slice(&part[used - data..used]);
                part = &part[used..];
            }
        }
        Ok((body, chunks == Chunks::Done))
    }

    #[test]
    fn chunks_are_put_together_wherever_they_are_cut() {
        let input = b"5;ext=1\r\nhello\r\nA\r\n, worlds!!\r\n0\r\nTrailer: x\r\n\r\n";
        for step in 1..input.len() {
            assert_eq!(unchunk(input, step), Ok((b"hello, worlds!!".to_vec(), true)), "{step}");
        }
        for input in ["x\r\n", "5\r\nhellox", "\r\n", "11111111111111111\r\n"] {
            assert!(unchunk(input.as_bytes(), 3).is_err(), "{input:?}");
        }
    }

    proptest! {
        #[test]
        fn a_head_is_incomplete_until_its_last_byte(cut in 0_usize..68) {
            let text = b"HTTP/1.1 200 OK\r\nServer: some\r\nContent-Length: 12\r\nAge: 5\r\nX: y\r\n\r\n";
            prop_assume!(cut < text.len());
            prop_assert_eq!(parse(&text[..cut]), Ok(None));
        }

        #[test]
        fn no_bytes_break_the_readers(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let _ = unchunk(&bytes, 7);
        }
    }
}
