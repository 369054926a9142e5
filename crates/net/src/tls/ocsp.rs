//! OCSP responses that are stapled (RFC 6960 §4.2.1): about which certificate they speak, what they say,
//! and until when. Whether they are signed is the client's to judge.

use super::validity::{INTEGER, SEQUENCE, expect, serial_of, time};
use rustls_pki_types::CertificateDer;

const ENUMERATED: u8 = 0x0a;
const OBJECT_IDENTIFIER: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]`, explicit: the version, and the time of the next response.
const FIRST: u8 = 0xa0;
/// `[0]`, of nothing: the certificate is good.
const GOOD: u8 = 0x80;
/// `id-pkix-ocsp-basic`, 1.3.6.1.5.5.7.48.1.1.
const BASIC: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];

/// Why a response is of no use that was made for the certificate before.
pub(super) const OF_ANOTHER: &str = "an OCSP response about another certificate";

/// What a response says of a certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Said {
    /// That it is good; otherwise it is revoked, or nobody knows it.
    pub(super) is_good: bool,
    /// The last second in which it says so, of Unix time; it may not tell.
    pub(super) until_s: Option<i64>,
}

/// What a response says of a certificate.
///
/// # Errors
/// Why it is not for it, in words.
pub(super) fn read(
    response: &[u8],
    certificate: &CertificateDer<'_>,
) -> Result<Said, &'static str> {
    const BROKEN: &str = "not an OCSP response in DER form";
    let (outer, _) = expect(response, SEQUENCE).ok_or(BROKEN)?;
    let (status, rest) = expect(outer, ENUMERATED).ok_or(BROKEN)?;
    if status != [0] {
        return Err("the responder's refusal to answer, not an answer");
    }
    let answers = answers(rest).ok_or(BROKEN)?;
    let serial = serial_of(certificate).ok_or("for no certificate that can be read")?;
    about(answers, serial).ok_or(OF_ANOTHER)
}

/// The answers behind the status.
fn answers(rest: &[u8]) -> Option<&[u8]> {
    let (bytes, _) = expect(expect(rest, FIRST)?.0, SEQUENCE)?;
    let (kind, bytes) = expect(bytes, OBJECT_IDENTIFIER)?;
    let (basic, _) = expect(expect(bytes, OCTET_STRING)?.0, SEQUENCE)?;
    let (mut data, _) = expect(basic, SEQUENCE)?;
    if data.first() == Some(&FIRST) {
        (_, data) = expect(data, FIRST)?;
    }
    // The responder, by name or key, and when it answered.
    let (_, data) = expect(data, *data.first()?)?;
    let (_, data) = expect(data, GENERALIZED_TIME)?;
    expect(data, SEQUENCE).filter(|_| kind == BASIC).map(|(answers, _)| answers)
}

/// The answer about a certificate.
fn about(mut answers: &[u8], serial: &[u8]) -> Option<Said> {
    while let Some((answer, rest)) = expect(answers, SEQUENCE) {
        answers = rest;
        let (mut id, answer) = expect(answer, SEQUENCE)?;
        for tag in [SEQUENCE, OCTET_STRING, OCTET_STRING] {
            (_, id) = expect(id, tag)?;
        }
        if expect(id, INTEGER)?.0 != serial {
            continue;
        }
        let kind = *answer.first()?;
        let (_, answer) = expect(answer, kind)?;
        let (_, answer) = time(answer)?;
        let until_s = expect(answer, FIRST).and_then(|(next, _)| Some(time(next)?.0));
        return Some(Said { is_good: kind == GOOD, until_s });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = u8::try_from(content.len()).expect("short enough");
        let long: &[u8] = if length > 0x7f { &[0x81] } else { &[] };
        [&[tag], long, &[length], &content].concat()
    }

    fn response(serial: &[u8], status: u8, next: Option<&[u8]>) -> Vec<u8> {
        let id = [
            der(SEQUENCE, &[]),
            der(OCTET_STRING, &[b"name"]),
            der(OCTET_STRING, &[b"key"]),
            der(INTEGER, &[serial]),
        ];
        let now = der(GENERALIZED_TIME, &[b"20260101000000Z"]);
        let next = next.map(|text| der(FIRST, &[&der(GENERALIZED_TIME, &[text])]));
        let answer = der(
            SEQUENCE,
            &[&der(SEQUENCE, &[&id.concat()]), &der(status, &[]), &now, &next.unwrap_or_default()],
        );
        let data = der(SEQUENCE, &[&der(0xa1, &[]), &now, &der(SEQUENCE, &[&answer])]);
        let basic = der(OCTET_STRING, &[&der(SEQUENCE, &[&data])]);
        let bytes = der(SEQUENCE, &[&der(OBJECT_IDENTIFIER, &[BASIC]), &basic]);
        der(SEQUENCE, &[&der(ENUMERATED, &[&[0]]), &der(FIRST, &[&bytes])])
    }

    fn certificate(serial: u64) -> CertificateDer<'static> {
        let mut parameters = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        parameters.serial_number = Some(serial.into());
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn what_is_said_of_a_certificate_is_read() {
        let certificate = certificate(7);
        let until_s = Some(2_687_472_000);
        for (response, said) in [
            (response(&[7], GOOD, Some(b"20550301000000Z")), Ok(Said { is_good: true, until_s })),
            (response(&[7], 0xa1, None), Ok(Said { is_good: false, until_s: None })),
            (response(&[8], GOOD, None), Err("an OCSP response about another certificate")),
            (
                der(SEQUENCE, &[&der(ENUMERATED, &[&[3]])]),
                Err("the responder's refusal to answer, not an answer"),
            ),
            (b"-----BEGIN".to_vec(), Err("not an OCSP response in DER form")),
        ] {
            assert_eq!(read(&response, &certificate), said);
        }
    }

    #[test]
    fn a_response_that_is_cut_or_changed_hurts_nobody() {
        let (certificate, whole) = (certificate(7), response(&[7], GOOD, None));
        for at in 0..whole.len() {
            let _ = read(&whole[..at], &certificate);
            for value in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = read(&bytes, &certificate);
            }
        }
    }
}
