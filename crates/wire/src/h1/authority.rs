//! The host and port of a `Host` field or an absolute target (RFC 9110 §7.2, RFC 3986 §3.2).

use std::net::Ipv6Addr;

/// Bytes of a host and port: a DNS name has at most 253, and a port at most five digits.
const AUTHORITY_BYTES_MAX: usize = 260;

/// `value` in lower case where it is a DNS-like name, an IPv4 address or a bracketed IPv6 address,
/// with an optional port.
///
/// Narrower than RFC 3986: no user information, no `,`, `;` or other sub-delimiters, no
/// percent-encoding, no empty host, no empty labels but one at the end. None of them name a host
/// that a web client reaches, and each has been used to make two parsers see two hosts. A colon
/// without a port is left out (RFC 3986 §6.2.3).
pub(super) fn normalise(value: &[u8]) -> Option<String> {
    if value.len() > AUTHORITY_BYTES_MAX {
        return None;
    }
    let host_len = match value.first()? {
        b'[' => literal_len(value)?,
        _ => name_len(value)?,
    };
    let kept = match &value[host_len..] {
        [] | [b':'] => host_len,
        [b':', port @ ..] if is_port(port) => value.len(),
        _ => return None,
    };
    let text = str::from_utf8(&value[..kept]).ok()?;
    Some(text.to_ascii_lowercase())
}

fn name_len(value: &[u8]) -> Option<usize> {
    let mut label_len = 0;
    let mut len = 0;
    for byte in value {
        match byte {
            b'.' if label_len > 0 => label_len = 0,
            b'-' | b'_' => label_len += 1,
            byte if byte.is_ascii_alphanumeric() => label_len += 1,
            b':' => break,
            _ => return None,
        }
        len += 1;
    }
    (len > 0).then_some(len)
}

fn literal_len(value: &[u8]) -> Option<usize> {
    let close = value.iter().position(|byte| *byte == b']')?;
    let address = str::from_utf8(value.get(1..close)?).ok()?;
    address.parse::<Ipv6Addr>().ok()?;
    Some(close + 1)
}

fn is_port(port: &[u8]) -> bool {
    port.len() <= 5
        && port.iter().all(u8::is_ascii_digit)
        && str::from_utf8(port).is_ok_and(|text| text.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_a_client_can_mean_are_lowered() {
        for (value, want) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com."),
            ("a_b-c.example:8080", "a_b-c.example:8080"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]", "[::1]"),
            ("[2001:DB8::1]:443", "[2001:db8::1]:443"),
            ("example.com:", "example.com"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(normalise(value.as_bytes()).as_deref(), Some(want), "{value}");
        }
    }

    #[test]
    fn anything_two_parsers_could_read_differently_is_refused() {
        for value in [
            "",
            ":80",
            ".",
            "..",
            "a..b",
            ".a",
            "a,b",
            "a b",
            "a/b",
            "a?b",
            "a#b",
            "a@b",
            "u:p@h",
            "a;b",
            "a%41",
            "a\\b",
            "a:80:80",
            "a:8o",
            "a:-1",
            "a:65536",
            "a:000080",
            "[::1",
            "[::1]x",
            "[::g]",
            "[]",
            "[v1.x]",
            "[::1%eth0]",
            "::1",
            "h\u{e9}",
            "\"a\"",
            "a\u{7f}",
        ] {
            assert_eq!(normalise(value.as_bytes()), None, "{value}");
        }
        assert_eq!(normalise(&[b'a'; AUTHORITY_BYTES_MAX + 1]), None);
    }
}
