//! Headers of both versions, cut everywhere, and what is refused.

use super::crc32c::crc32c;
use super::*;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn v2(version_command: u8, family: u8, variable: &[u8]) -> Vec<u8> {
    let len = u16::try_from(variable.len()).unwrap();
    let fixed = [version_command, family];
    [SIGNATURE, &fixed, &len.to_be_bytes(), variable].concat()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len()).unwrap();
    [&[kind][..], &len.to_be_bytes(), value].concat()
}

const IPV4: &[u8] = &[192, 0, 2, 1, 198, 51, 100, 2, 0x30, 0x39, 0x01, 0xbb];

fn address(text: &str) -> Option<SocketAddr> {
    Some(text.parse().unwrap())
}

/// The header, after every prefix has asked for more and more bytes behind have been left alone.
fn accepted(text: &[u8]) -> Header {
    for end in 0..text.len() {
        assert_eq!(parse(&text[..end]), Ok(None), "{end}");
    }
    let (header, consumed) = parse(&[text, b"GET / HTTP/1.1\r\n"].concat()).unwrap().unwrap();
    assert_eq!(consumed, text.len());
    header
}

#[test]
fn lines_of_version_1_are_read() {
    let header = accepted(b"PROXY TCP4 192.0.2.1 198.51.100.2 12345 443\r\n");
    assert_eq!(header.source, address("192.0.2.1:12345"));
    assert_eq!(header.destination, address("198.51.100.2:443"));
    let header = accepted(b"PROXY TCP6 2001:db8::1 ::1 0 65535\r\n");
    assert_eq!(header.source, address("[2001:db8::1]:0"));
    assert_eq!(header.destination, address("[::1]:65535"));
    assert_eq!(accepted(b"PROXY UNKNOWN\r\n"), Header::default());
    assert_eq!(accepted(b"PROXY UNKNOWN what ever\r\n"), Header::default());
}

#[test]
fn wrong_lines_of_version_1_are_named() {
    for (text, error) in [
        (&b"GET / HTTP/1.1\r\n"[..], Error::ClientNoHeader),
        (b"PUT / HTTP/1.1\r\n", Error::ClientNoHeader),
        (b"PROXY\tTCP4", Error::ClientNoHeader),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 1 2\n", Error::ClientLineInvalid),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 1 2\rx", Error::ClientLineInvalid),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 1\r\n", Error::ClientFieldsTooFew),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 1 2 3\r\n", Error::ClientFieldsTooMany),
        (b"PROXY TCP4 192.0.2.1  198.51.100.2 1 2\r\n", Error::ClientFieldsTooMany),
        (b"PROXY TCP4 \xff 198.51.100.2 1 2\r\n", Error::ClientLineInvalid),
        (b"PROXY TCP5 192.0.2.1 198.51.100.2 1 2\r\n", Error::ClientFamilyUnknown),
        (b"PROXY TCP4 ::1 198.51.100.2 1 2\r\n", Error::ClientSourceInvalid),
        (b"PROXY TCP4 192.0.2.01 198.51.100.2 1 2\r\n", Error::ClientSourceInvalid),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 01 2\r\n", Error::ClientSourceInvalid),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 +1 2\r\n", Error::ClientSourceInvalid),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 1 65536\r\n", Error::ClientDestinationInvalid),
        (
            &[&b"PROXY TCP4 192.0.2.1 198.51.100.2 1 2"[..], &[b' '; 69], b"\r\n"].concat(),
            Error::ClientFieldsTooMany,
        ),
        (&[&b"PROXY "[..], &[b'x'; 102]].concat(), Error::ClientHeaderTooLarge),
    ] {
        assert_eq!(parse(text), Err(error), "{:?}", String::from_utf8_lossy(text));
    }
}

#[test]
fn addresses_of_version_2_are_read() {
    let header = accepted(&v2(0x21, 0x11, IPV4));
    assert_eq!(header.source, address("192.0.2.1:12345"));
    assert_eq!(header.destination, address("198.51.100.2:443"));
    assert!(!header.local);

    let mut ipv6 = [0; 36];
    (ipv6[15], ipv6[31], ipv6[33], ipv6[35]) = (1, 2, 80, 81);
    let header = accepted(&v2(0x21, 0x21, &ipv6));
    assert_eq!(header.source, address("[::1]:80"));
    assert_eq!(header.destination, address("[::2]:81"));

    let without = |ignored, local| Header { is_binary: true, local, ignored, ..Header::default() };
    let (unspecified, family) = (Some(Ignored::Unspecified), |byte| Some(Ignored::Family(byte)));
    assert_eq!(accepted(&v2(0x21, 0x31, &[0; 216])), without(family(0x31), false));
    assert_eq!(accepted(&v2(0x21, 0x00, b"")), without(unspecified, false));
    assert_eq!(accepted(&v2(0x20, 0x00, b"")), without(unspecified, true));
    assert_eq!(accepted(&v2(0x20, 0x11, IPV4)), without(None, true));
    assert_eq!(accepted(&v2(0x20, 0x77, b"anything")), without(family(0x77), true));
}

#[test]
fn addresses_that_say_nothing_are_passed_over_where_receivers_do_that() {
    for (family, variable, words) in [
        (0x00, &b""[..], "Ignoring UNSPEC|UNSPEC addresses"),
        (0x99, b"", "Ignoring unsupported protocol (0x99)"),
        (0x31, IPV4, "Ignoring unsupported protocol (0x31)"),
        (0x11, &IPV4[..11], "Ignoring short IPv4 addresses (11)"),
        (0x21, &[7; 35], "Ignoring short IPv6 addresses (35)"),
    ] {
        let text = [&v2(0x21, family, variable)[..], b"GET /"].concat();
        let (header, bytes) = parse_by(VARNISH, &text).unwrap().unwrap();
        assert_eq!(bytes, 16 + variable.len());
        assert_eq!(header.ignored.unwrap().to_string(), words);
        assert_eq!((header.source, header.destination), (None, None));
    }
    assert_eq!(
        parse_by(VARNISH, &v2(0x21, 0x11, &[0; 1025])[..16]),
        Err(Error::ClientHeaderTooLarge)
    );
    assert_eq!(parse_by(VARNISH, &v2(0x22, 0x11, IPV4)), Err(Error::ClientVersionUnsupported));
}

#[test]
fn tlvs_of_version_2_are_read() {
    let ssl = [
        &[0x05, 0, 0, 0, 0][..],
        &tlv(0x21, b"TLSv1.3"),
        &tlv(0x22, "Jos\u{e9}".as_bytes()),
        &tlv(0x23, b"TLS_AES_128_GCM_SHA256"),
        &tlv(0x24, b"SHA256"),
        &tlv(0x25, b"RSA2048"),
        &tlv(0x7f, b"other"),
    ]
    .concat();
    let variable = [
        IPV4,
        &tlv(0x01, b"h2"),
        &tlv(0x02, b"cdn.example"),
        &tlv(0x04, b"padding"),
        &tlv(0x05, b"id-1"),
        &tlv(0x20, &ssl),
        &tlv(0xea, b"vpce"),
    ]
    .concat();
    let tlvs = accepted(&v2(0x21, 0x11, &variable)).tlvs;
    assert_eq!(tlvs.alpn.as_deref(), Some(&b"h2"[..]));
    assert_eq!(tlvs.authority.as_deref(), Some("cdn.example"));
    assert_eq!(tlvs.unique_id.as_deref(), Some(&b"id-1"[..]));
    let ssl = tlvs.ssl.unwrap();
    assert!(ssl.over_tls && ssl.certificate_in_session);
    assert_eq!(ssl.verify_result, 0);
    assert!(!ssl.certificate_on_connection);
    assert_eq!(ssl.version.as_deref(), Some("TLSv1.3"));
    assert_eq!(ssl.common_name.as_deref(), Some("Jos\u{e9}"));
    assert_eq!(ssl.cipher.as_deref(), Some("TLS_AES_128_GCM_SHA256"));
    assert_eq!(ssl.signature_algorithm.as_deref(), Some("SHA256"));
    assert_eq!(ssl.key_algorithm.as_deref(), Some("RSA2048"));
}

#[test]
fn what_is_said_twice_is_what_it_was_the_first_time() {
    let first = [&[0x03, 0, 0, 1, 2][..], &tlv(0x22, b"one"), &tlv(0x22, b"two")].concat();
    let second = [&[0x01, 0, 0, 0, 0][..], &tlv(0x22, b"three")].concat();
    let variable = [
        IPV4,
        &tlv(0x02, b"a.example"),
        &tlv(0x02, b"b.example"),
        &tlv(0x20, &first),
        &tlv(0x20, &second),
    ]
    .concat();
    let tlvs = accepted(&v2(0x21, 0x11, &variable)).tlvs;
    assert_eq!(tlvs.authority.as_deref(), Some("a.example"));
    let ssl = tlvs.ssl.unwrap();
    assert!(ssl.over_tls && ssl.certificate_on_connection && !ssl.certificate_in_session);
    assert_eq!((ssl.verify_result, ssl.common_name.as_deref()), (258, Some("one")));
}

#[test]
fn the_checksum_covers_the_whole_header() {
    let variable = [IPV4, &tlv(0x03, &[0; 4]), &tlv(0x01, b"h2")].concat();
    let mut text = v2(0x21, 0x11, &variable);
    let checksum = crc32c([&text, b"", b""]);
    let at = 16 + IPV4.len() + 3;
    text[at..at + 4].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(accepted(&text).tlvs.alpn.as_deref(), Some(&b"h2"[..]));
    for wrong in [16, at, text.len() - 1] {
        let mut text = text.clone();
        text[wrong] ^= 1;
        assert_eq!(parse(&text), Err(Error::ClientChecksum), "{wrong}");
    }
}

#[test]
fn wrong_headers_of_version_2_are_named() {
    let long_id = tlv(0x05, &[b'i'; 129]);
    let nested = |text: &[u8]| tlv(0x20, &[&[1, 0, 0, 0, 0], text].concat());
    for (text, error) in [
        (b"\r\n\r\n\0\r\nQUIX".to_vec(), Error::ClientNoHeader),
        (v2(0x11, 0x11, IPV4), Error::ClientVersionUnsupported),
        (v2(0x22, 0x11, IPV4), Error::ClientVersionUnsupported),
        (v2(0x21, 0x41, IPV4), Error::ClientFamilyUnknown),
        (v2(0x21, 0x10, IPV4), Error::ClientFamilyUnknown),
        (v2(0x21, 0x11, &IPV4[..11]), Error::ClientTruncated),
        (v2(0x21, 0x21, IPV4), Error::ClientTruncated),
        (v2(0x21, 0x31, IPV4), Error::ClientTruncated),
        (v2(0x21, 0x11, &[IPV4, &[1, 0]].concat()), Error::ClientTlvTruncated),
        (v2(0x21, 0x11, &[IPV4, &[1, 0, 3, b'h', b'2']].concat()), Error::ClientTlvTooLong),
        (v2(0x21, 0x11, &[IPV4, &tlv(0x02, b"\xff")].concat()), Error::ClientTlvInvalid),
        (v2(0x21, 0x11, &[IPV4, &tlv(0x02, b"a\r\nb")].concat()), Error::ClientTlvInvalid),
        (v2(0x21, 0x11, &[IPV4, &tlv(0x03, b"abc")].concat()), Error::ClientTlvInvalid),
        (v2(0x21, 0x11, &[IPV4, &tlv(0x20, b"abc")].concat()), Error::ClientTlvTooLong),
        (v2(0x21, 0x11, &[IPV4, &nested(&[0x21, 0])].concat()), Error::ClientTlvTruncated),
        (v2(0x21, 0x11, &[IPV4, &nested(&[0x21, 0, 9, b'T'])].concat()), Error::ClientTlvTooLong),
        (v2(0x21, 0x11, &[IPV4, &nested(&tlv(0x23, b"a\nb"))].concat()), Error::ClientTlvInvalid),
        (v2(0x21, 0x11, &[IPV4, &long_id].concat()), Error::ClientTlvInvalid),
        (v2(0x21, 0x11, &[0; 8193])[..16].to_vec(), Error::ClientHeaderTooLarge),
    ] {
        assert_eq!(parse(&text), Err(error), "{text:?}");
    }
}
