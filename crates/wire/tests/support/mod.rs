//! Shared by the fuzz targets.

/// What messages are made of, the good and the bad.
const WORDS: [&[u8]; 64] = [
    b"\r\n",
    b"\r\n\r\n",
    b"\r",
    b"\n",
    b" ",
    b"\t",
    b":",
    b": ",
    b",",
    b";",
    b"=",
    b"\"",
    b"\0",
    b"\x7f",
    b"\xff",
    b"0",
    b"1",
    b"5",
    b"a",
    b"f",
    b"x",
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"OPTIONS ",
    b"/",
    b"/a?b ",
    b"* ",
    b"http://h/ ",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"HTTP/",
    b" HTTP/1.1\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 ",
    b"204",
    b"304",
    b"Host: a\r\n",
    b"Host",
    b"[::1]:80",
    b"GET / HTTP/1.1\r\nHost: a\r\n",
    b"POST /x HTTP/1.1\r\nHost: a.example\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding",
    b"chunked",
    b"gzip",
    b"Connection: ",
    b"close",
    b"keep-alive",
    b"upgrade",
    b"Upgrade: websocket\r\n",
    b"Expect: 100-continue\r\n",
    b"X-Y: z\r\n",
    b"\r\n ",
    b"5\r\nhello\r\n",
    b"0\r\n",
    b"1;a=b\r\nx\r\n",
    b"PROXY ",
    b"TCP4 1.2.3.4 5.6.7.8 9 10\r\n",
    b"UNKNOWN",
    b"\r\n\r\n\0\r\nQUIT\n",
    b"\x21\x11\x00\x0c",
];

/// The input made into something like a message, so that random bytes get past the first line: the
/// lower three quarters of byte values stand for words, the others for themselves.
pub(crate) fn spoken(input: &[u8]) -> Vec<u8> {
    let word = |byte: &u8| match WORDS.get(usize::from(*byte) / 3) {
        Some(word) => word.to_vec(),
        None => vec![*byte],
    };
    input.iter().flat_map(word).collect()
}

/// Runs `check` on the input as it is and as words.
pub(crate) fn as_bytes_and_words(input: &[u8], check: impl Fn(&[u8])) {
    check(input);
    check(&spoken(input));
}

/// A place to cut `text`, taken from its own bytes so that a failure can be repeated.
pub(crate) fn cut(text: &[u8]) -> usize {
    let sum = text.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31) + usize::from(*byte));
    sum % (text.len() + 1)
}
