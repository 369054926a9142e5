use super::*;
use ciborium::{Value, cbor};
use freshet_tokens::{Places, Used};
use std::net::IpAddr;

// Vectors of Eyevinn's implementation as its tests have them.
const KEY: &str = "403697de87af64611c1d32a05dab0fe1fcb715a86ab435f1ec99192d79569388";
const ISSUED: &str = "2D3RhEOhAQWhBFBha2FtYWlfa2V5X2hzMjU2WCijAXgYY29hcDovL2pvbmFzLmV4YW1wbGUu\
    Y29tBhpn1JipBRpn1JipWCCX4nQb8SYQoa0SFLxE2Rh35DdTjoA9TzOSy1IP9O1BGQ";
const EXPIRING: &str = "2D3RhEOhAQWhBFBha2FtYWlfa2V5X2hzMjU2U6MEGnUCOrsGGmfXRKwFGmfXRKxYIOM6yR\
    x830uqAamWFv1amFYRa5vaV2z5lIQTqFEvFh8z";
const EXPIRED: &str = "2D3RhEOhAQWhBFBha2FtYWlfa2V5X2hzMjU2U6MEGmfXP_YGGmfXQAsFGmfXQAtYINTT_Kl\
    OyhaV6NaSxFXkqJWfBagSkPkem10dysoA-C0w";
const AUDIENCE: &str = "2D3RhEOhAQWhBFBha2FtYWlfa2V5X2hzMjU2V6MDgmNvbmVjdHdvBhpn12R8BRpn12R8WC\
    AdnSbUN4KbIvaHLn-q4f4YRpfq6ERYotByjbIyZ-EkfQ";
const AFTER: u64 = 1_750_000_000;

fn secret() -> Vec<u8> {
    let digits = KEY.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn web_key(id: &str) -> String {
    use base64::Engine as _;
    let k = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(secret());
    format!(r#"{{"keys":[{{"kty":"oct","kid":"{id}","k":"{k}"}}]}}"#)
}

fn of(change: impl FnOnce(&mut Cat)) -> Verifier {
    let audiences = vec!["*".into()];
    let source = parameter("cat");
    let mut cat = Cat { source, audiences, may_be_endless: true, ..Cat::default() };
    change(&mut cat);
    verifier(Scheme::Cat(cat), keys("f", &web_key("akamai_key_hs256")))
}

fn ask(verifier: &Verifier, token: &str, now: u64) -> Result<(), Denied> {
    asked_from(verifier, &format!("/a?cat={token}"), "127.0.0.1", now)
}

#[test]
fn tokens_of_others_are_good_for_what_they_say() {
    let any = of(|_| {});
    for token in [ISSUED, EXPIRING, AUDIENCE] {
        assert_eq!(ask(&any, token, AFTER), Ok(()), "{token}");
        assert_eq!(ask(&any, token, 1_700_000_000), Err(Denied::NotYet));
    }
    assert_eq!(ask(&any, EXPIRED, AFTER), Err(Denied::Expired));
    assert_eq!(ask(&of(|cat| cat.may_be_endless = false), ISSUED, AFTER), Err(Denied::Endless));
    let issuer = |name: &str| of(|cat| cat.issuers = vec![name.into()]);
    assert_eq!(ask(&issuer("coap://jonas.example.com"), ISSUED, AFTER), Ok(()));
    assert_eq!(ask(&issuer("eyevinn"), ISSUED, AFTER), Err(Denied::Issuer));
    let audience = |name: &str| of(|cat| cat.audiences = vec![name.into()]);
    assert_eq!(ask(&audience("one"), AUDIENCE, AFTER), Ok(()));
    assert_eq!(ask(&audience("three"), AUDIENCE, AFTER), Err(Denied::Audience));
    let none = of(|cat| cat.audiences.clear());
    assert_eq!(ask(&none, AUDIENCE, AFTER), Err(Denied::Audience), "it is for somebody else");
}

#[test]
fn a_changed_byte_anywhere_is_refused() {
    use base64::Engine as _;
    let engine = base64::prelude::BASE64_URL_SAFE_NO_PAD;
    let any = of(|_| {});
    let bytes = engine.decode(EXPIRING).unwrap();
    // The name of the key is not signed: whatever it says, the signature is by a key we have.
    let unprotected = 8..27;
    for at in (0..bytes.len()).filter(|at| !unprotected.contains(at)) {
        for bit in [1, 0x20, 0x80] {
            let mut changed = bytes.clone();
            changed[at] ^= bit;
            let result = ask(&any, &engine.encode(&changed), AFTER);
            assert!(result.is_err(), "byte {at}");
        }
        assert!(ask(&any, &engine.encode(&bytes[..at]), AFTER).is_err(), "{at} bytes");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(ask(&any, &engine.encode(longer), AFTER), Err(Denied::Malformed));
}

/// A token with these claims under our key.
fn made(claims: &Value) -> String {
    made_with(claims, &cbor!({1 => 5}).unwrap(), 17)
}

fn made_with(claims: &Value, header: &Value, tag: u64) -> String {
    made_in(claims, header, |parts| tagged(61, tagged(tag, parts)))
}

fn tagged(tag: u64, value: Value) -> Value {
    Value::Tag(tag, Box::new(value))
}

/// The same with what stands around its parts.
fn made_in(claims: &Value, header: &Value, around: impl FnOnce(Value) -> Value) -> String {
    use aws_lc_rs::hmac;
    use base64::Engine as _;
    let encode = |value: &Value| {
        let mut out = Vec::new();
        ciborium::into_writer(value, &mut out).unwrap();
        out
    };
    let (header, payload) = (Value::Bytes(encode(header)), Value::Bytes(encode(claims)));
    let context = Value::Text("MAC0".into());
    let signed = vec![context, header.clone(), Value::Bytes(Vec::new()), payload.clone()];
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret());
    let mac = hmac::sign(&key, &encode(&Value::Array(signed)));
    let mac = Value::Bytes(mac.as_ref().to_vec());
    let parts = Value::Array(vec![header, Value::Map(Vec::new()), payload, mac]);
    base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(encode(&around(parts)))
}

fn ask_at(token: &str, method: &str, url: &str, client: &str) -> Result<(), Denied> {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (authority, path) = rest.split_at(rest.find('/').unwrap());
    let fields: Fields =
        [("CTA-Common-Access-Token", token), ("X-Device", "tv-1")].into_iter().collect();
    let source = Source { header: Some("CTA-Common-Access-Token".into()), ..Source::default() };
    let cat = Cat { source, may_be_endless: true, ..Cat::default() };
    let verifier = verifier(Scheme::Cat(cat), keys("f", &web_key("k")));
    let mut question = Question::get(scheme, authority, path, NOW);
    question.method = method;
    question.client = Some(client.parse().unwrap());
    question.fields = Some(&fields);
    verifier.verify(&question).map(drop)
}

fn get(token: &str, url: &str) -> Result<(), Denied> {
    ask_at(token, "GET", url, "192.0.2.7")
}

#[test]
fn a_token_is_for_the_uris_it_names() {
    // As an example of Eyevinn's tests: scheme, path and extension.
    let token = made(
        &cbor!({312 => {0 => {0 => "https"}, 3 => {1 => "/content/"}, 8 => {0 => ".m3u8"}}})
            .unwrap(),
    );
    assert_eq!(get(&token, "https://example.com/content/path/file.m3u8"), Ok(()));
    for url in [
        "https://example.com/content/path/file.ts",
        "http://example.com/content/path/file.m3u8",
        "https://example.com/contents/file.m3u8",
        "https://example.com/Content/file.m3u8",
    ] {
        assert_eq!(get(&token, url), Err(Denied::Url), "{url}");
    }
    for url in [
        "https://e/content/../x.m3u8",
        "https://e/content/%2e%2e/x.m3u8",
        "https://e//content/x.m3u8",
    ] {
        assert_eq!(get(&token, url), Err(Denied::Path), "{url}");
    }
    let sha = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    assert_eq!(
        get(&made(&cbor!({312 => {3 => {-1 => sha}}}).unwrap()), "http://h/hello"),
        Err(Denied::Url)
    );
    for (claims, url) in [
        (cbor!({312 => {1 => {0 => "a.test"}, 2 => {0 => "8443"}}}), "https://A.test:8443/x"),
        (cbor!({312 => {2 => {0 => "443"}}}), "https://a.test/x"),
        (cbor!({312 => {4 => {3 => "b=c"}}}), "https://a.test/x?a=1&b=c"),
        (
            cbor!({312 => {5 => {0 => "/a/b"}, 6 => {0 => "c.tar.gz"}}}),
            "https://a.test/a/b/c.tar.gz",
        ),
        (
            cbor!({312 => {7 => {0 => "c"}, 8 => {2 => "gz", 1 => ".tar"}}}),
            "https://a.test/a/c.tar.gz",
        ),
    ] {
        assert_eq!(get(&made(&claims.unwrap()), url), Ok(()), "{url}");
    }
}

#[test]
fn a_token_is_for_the_methods_clients_and_fields_it_names() {
    let token = made(&cbor!({313 => ["GET", "HEAD"]}).unwrap());
    assert_eq!(get(&token, "http://h/"), Ok(()));
    assert_eq!(ask_at(&token, "POST", "http://h/", "::1"), Err(Denied::Method));
    let bytes = |bytes: &[u8]| Value::Bytes(bytes.to_vec());
    let tag = |tag, value| Value::Tag(tag, Box::new(value));
    let networks = Value::Array(vec![
        tag(52, Value::Array(vec![24.into(), bytes(&[192, 0, 2])])),
        tag(54, bytes(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7])),
    ]);
    let token = made(&Value::Map(vec![(311.into(), networks)]));
    for (client, expected) in [
        ("192.0.2.200", Ok(())),
        ("::ffff:192.0.2.1", Ok(())),
        ("192.0.3.1", Err(Denied::Client)),
        ("2001:db8::7", Ok(())),
        ("2001:db8::8", Err(Denied::Client)),
    ] {
        assert_eq!(ask_at(&token, "GET", "http://h/", client), expected, "{client}");
    }
    assert_eq!(
        get(&made(&cbor!({315 => {"x-device" => {1 => "tv-"}}}).unwrap()), "http://h/"),
        Ok(())
    );
    for claims in
        [cbor!({315 => {"x-device" => {0 => "tv-"}}}), cbor!({315 => {"x-none" => {1 => ""}}})]
    {
        assert_eq!(get(&made(&claims.unwrap()), "http://h/"), Err(Denied::Fields));
    }
}

#[test]
fn what_is_not_understood_lets_nobody_in() {
    for (claims, why) in [
        (cbor!({999 => 1}), Denied::Claim),
        (cbor!({"private" => 1}), Denied::Claim),
        (cbor!({308 => 3}), Denied::Claim),
        (cbor!({309 => [0.5]}), Denied::Malformed),
        (cbor!({309 => [0.5, "name"]}), Denied::Malformed),
        (Ok(Value::Map(vec![(309.into(), chance(1.5))])), Denied::Malformed),
        (Ok(Value::Map(vec![(309.into(), chance(f64::NAN))])), Denied::Malformed),
        (cbor!({317 => []}), Denied::Malformed),
        (cbor!({317 => [[91, 0, 5]]}), Denied::Malformed),
        (cbor!({317 => [[1, 2]]}), Denied::Malformed),
        (cbor!({317 => [[1, 2, (-5)]]}), Denied::Malformed),
        (cbor!({318 => [5, 1]}), Denied::Claim),
        (cbor!({310 => 2}), Denied::Claim),
        (cbor!({312 => {3 => {4 => "(unclosed"}}}), Denied::Claim),
        (cbor!({312 => {3 => {4 => "(a{1000}){1000}"}}}), Denied::Claim),
        (cbor!({312 => {3 => {4 => []}}}), Denied::Malformed),
        (cbor!({312 => {3 => {4 => [5]}}}), Denied::Malformed),
        (cbor!({312 => {3 => {4 => ["^/(a)", 5]}}}), Denied::Claim),
        (cbor!({312 => {9 => {0 => "a"}}}), Denied::Claim),
        (cbor!({312 => {3 => {}}}), Denied::Malformed),
        (cbor!({311 => [(-1)]}), Denied::Malformed),
        (cbor!({316 => "SE"}), Denied::Malformed),
        (cbor!({314 => "h2"}), Denied::Malformed),
        (cbor!({323 => {1 => 60}}), Denied::Malformed),
        (cbor!({323 => {0 => 0}}), Denied::Malformed),
        (cbor!({323 => {0 => 1, 1 => 60, 3 => "a b"}}), Denied::Malformed),
        (cbor!({323 => {0 => 1, 1 => 60, 5 => ["a\r\nb: c"]}}), Denied::Malformed),
        (cbor!({4 => "soon"}), Denied::Malformed),
        (cbor!({4 => -1}), Denied::Malformed),
        (cbor!({4 => 1e300}), Denied::Malformed),
        (cbor!({1 => 5}), Denied::Malformed),
        (cbor!([1]), Denied::Malformed),
    ] {
        let claims = claims.unwrap();
        assert_eq!(get(&made(&claims), "http://h/a"), Err(why), "{claims:?}");
    }
    let twice = Value::Map(vec![(4.into(), 1.into()), (4.into(), 2_147_483_647.into())]);
    assert_eq!(get(&made(&twice), "http://h/a"), Err(Denied::Ambiguous));
    let fine = cbor!({310 => 1, 308 => 0, 323 => {0 => 0, 1 => 60}, 2 => "ann"}).unwrap();
    assert_eq!(get(&made(&fine), "http://h/a"), Ok(()));
    for (header, tag, why) in [
        (cbor!({1 => 5, 2 => [9]}), 17, Denied::Claim),
        (cbor!({1 => 4}), 17, Denied::Key),
        (cbor!({1 => -7}), 17, Denied::Key),
        (cbor!({1 => 5}), 18, Denied::Key),
        (cbor!({1 => 5}), 16, Denied::Malformed),
        (cbor!({}), 17, Denied::Malformed),
    ] {
        let token = made_with(&fine, &header.unwrap(), tag);
        assert_eq!(get(&token, "http://h/a"), Err(why));
    }
    let in_tags = |around: fn(Value) -> Value| made_in(&fine, &cbor!({1 => 5}).unwrap(), around);
    assert_eq!(get(&in_tags(|parts| tagged(17, parts)), "http://h/a"), Ok(()));
    assert_eq!(get(&in_tags(|parts| parts), "http://h/a"), Ok(()), "its place says what it is");
    // The tag of a CWT is in front of one of COSE.
    assert_eq!(get(&in_tags(|parts| tagged(61, parts)), "http://h/a"), Err(Denied::Malformed));
    let twice = |parts| tagged(61, tagged(61, tagged(17, parts)));
    assert_eq!(get(&in_tags(twice), "http://h/a"), Err(Denied::Malformed));
    // A secret makes no signatures, whatever is said or left out.
    let signed = made_in(&fine, &cbor!({1 => -7}).unwrap(), |parts| parts);
    assert_eq!(get(&signed, "http://h/a"), Err(Denied::Key));
    let mut deep = Value::Null;
    for _ in 0..200 {
        deep = Value::Array(vec![deep]);
    }
    assert_eq!(get(&made(&deep), "http://h/a"), Err(Denied::Malformed));
}

/// 192.0.2.0/24 is in Graz, and of system 64500.
#[derive(Debug)]
struct Graz;

impl Places for Graz {
    fn is_in(&self, client: IpAddr, code: &str) -> bool {
        self.asn(client).is_some() && ["AT", "AT-6"].contains(&code)
    }

    fn asn(&self, client: IpAddr) -> Option<u32> {
        client.to_string().starts_with("192.0.2.").then_some(64500)
    }

    fn coordinates(&self, client: IpAddr) -> Option<(f64, f64)> {
        self.asn(client).map(|_| (47.0707, 15.4395))
    }
}

#[test]
fn a_token_is_for_the_places_systems_and_protocols_it_names() {
    let asked = |claims: Value, client: &str, alpn: Option<&str>, places: Option<&dyn Places>| {
        let target = format!("/a?cat={}", made(&claims));
        let verifier = of(|_| {});
        let question = Question {
            client: Some(client.parse().unwrap()),
            alpn: alpn.map(str::as_bytes),
            places,
            ..Question::get("https", "h", &target, NOW)
        };
        verifier.verify(&question).map(drop)
    };
    let known: Option<&dyn Places> = Some(&Graz);
    for (claims, client, expected) in [
        (cbor!({316 => ["SE", "AT"]}), "192.0.2.1", Ok(())),
        (cbor!({316 => ["AT-6"]}), "192.0.2.1", Ok(())),
        (cbor!({316 => ["AT-7"]}), "192.0.2.1", Err(Denied::Client)),
        (cbor!({316 => []}), "192.0.2.1", Err(Denied::Client)),
        (cbor!({316 => ["AT"]}), "198.51.100.1", Err(Denied::Client)),
        (cbor!({311 => [64499, 64500]}), "192.0.2.1", Ok(())),
        (cbor!({311 => [64500]}), "198.51.100.1", Err(Denied::Client)),
        // Vienna is 145 km away.
        (cbor!({317 => [[48.2082, 16.3738, 150000]]}), "192.0.2.1", Ok(())),
        (cbor!({317 => [48.2082, 16.3738, 150000]}), "192.0.2.1", Ok(())),
        (cbor!({317 => [[48.2082, 16.3738, 140000]]}), "192.0.2.1", Err(Denied::Client)),
        (cbor!({317 => [[0, 0, 1], [47.07, 15.44, 500]]}), "192.0.2.1", Ok(())),
        (cbor!({317 => [[47.07, 15.44, 500]]}), "198.51.100.1", Err(Denied::Client)),
    ] {
        let claims = claims.unwrap();
        let said = format!("{claims:?}");
        assert_eq!(asked(claims.clone(), client, None, known), expected, "{said}");
        // Without a database nobody is anywhere.
        assert_eq!(asked(claims, client, None, None), Err(Denied::Client), "{said}");
    }
    for (alpn, expected) in [
        (Some("h2"), Ok(())),
        (Some("http/1.1"), Err(Denied::Protocol)),
        (None, Err(Denied::Protocol)),
    ] {
        let texts = cbor!({314 => ["h2", "h3"]}).unwrap();
        assert_eq!(asked(texts, "::1", alpn, None), expected, "{alpn:?}");
        let bytes = Value::Array(vec![Value::Bytes(b"h2".to_vec())]);
        let bytes = Value::Map(vec![(314.into(), bytes)]);
        assert_eq!(asked(bytes, "::1", alpn, None), expected, "{alpn:?}");
    }
}

/// What a token's renewal puts into the response, `now_s` and by where the token was.
fn renewal(token: &str, place: &str, now_s: u64) -> Option<(String, String)> {
    let fields: Fields = match place {
        "cookie" => [("Cookie", format!("CTA-Common-Access-Token={token}"))].into_iter().collect(),
        "header" => [("CTA-Common-Access-Token", token)].into_iter().collect(),
        _ => Fields::default(),
    };
    let name = || Some("CTA-Common-Access-Token".to_owned());
    let source = Source { header: name(), cookie: name(), parameter: Some("cat".into()) };
    let verifier = of(|cat| cat.source = source);
    let target = if place == "query" { format!("/a?cat={token}") } else { "/a".into() };
    let question =
        Question { fields: Some(&fields), ..Question::get("https", "h", &target, now_s) };
    verifier.verify(&question).unwrap().renewal
}

#[test]
fn a_token_is_renewed_before_its_end_as_it_asks() {
    let of = |renewal: Value| {
        let claims = cbor!({2 => "ann", 4 => 1_700_000_100}).unwrap();
        let Value::Map(mut claims) = claims else { panic!("it is a map") };
        claims.push((323.into(), renewal));
        made_with(&Value::Map(claims), &cbor!({1 => 5}).unwrap(), 17)
    };
    let usual = of(cbor!({0 => 0, 1 => 3600}).unwrap());
    // A minute before its end, where it does not say.
    assert_eq!(renewal(&usual, "cookie", 1_700_000_040), None);
    let (name, value) = renewal(&usual, "cookie", 1_700_000_041).unwrap();
    assert_eq!(name, "Set-Cookie");
    let new = value.strip_prefix("CTA-Common-Access-Token=").unwrap();
    let new = new.strip_suffix("; Path=/; HttpOnly").unwrap();
    // The new one is good for an hour from then, is of the same, and renews itself again.
    let until = 1_700_000_041 + 3600;
    assert_eq!(ask(&self::of(|_| {}), new, until - 1), Ok(()));
    assert_eq!(ask(&self::of(|_| {}), new, until), Err(Denied::Expired));
    assert!(renewal(new, "cookie", until - 1).is_some());
    let (name, value) = renewal(&usual, "header", 1_700_000_099).unwrap();
    assert_eq!(name, "CTA-Common-Access-Token");
    assert_eq!(ask(&self::of(|_| {}), &value, 1_700_003_000), Ok(()));
    assert_eq!(renewal(&usual, "query", 1_700_000_099), None);

    let early =
        of(cbor!({0 => 1, 1 => 10, 2 => 100, 3 => "t", 5 => ["Secure", "Path=/a"]}).unwrap());
    assert_eq!(renewal(&early, "query", 1_700_000_000), None);
    let (name, value) = renewal(&early, "query", 1_700_000_001).unwrap();
    assert_eq!(name, "Set-Cookie");
    assert!(value.starts_with("t=") && value.ends_with("; Secure; Path=/a"), "{value}");
    // With parts of seconds.
    let fraction = of(cbor!({0 => 1, 1 => 10.5, 2 => 99.9}).unwrap());
    assert_eq!(renewal(&fraction, "query", 1_700_000_001), None);
    assert!(renewal(&fraction, "query", 1_700_000_002).is_some());
    // A time is no span before the end: with one it would be renewed with each request.
    for deadline in [cbor!(1_700_000_050).unwrap(), cbor!(1_700_000_050.5).unwrap()] {
        let timed = of(cbor!({0 => 1, 1 => 10, 2 => deadline}).unwrap());
        for now_s in [1_700_000_001, 1_700_000_051, 1_700_000_099] {
            assert_eq!(renewal(&timed, "query", now_s), None, "{now_s}");
        }
    }
    let field = of(cbor!({0 => 2, 1 => 10, 4 => "X-Token", 6 => "a=1"}).unwrap());
    let (name, value) = renewal(&field, "cookie", 1_700_000_099).unwrap();
    assert!(name == "X-Token" && value.ends_with("; a=1"), "{name}: {value}");
    // By a redirect: not here, and no condition.
    let redirect = of(cbor!({0 => 3, 1 => 10, 7 => 302}).unwrap());
    assert_eq!(renewal(&redirect, "query", 1_700_000_099), None);
}

#[test]
fn a_player_keeps_its_link_beside_the_cookie_that_renews_it() {
    let name = || Some("CTA-Common-Access-Token".to_owned());
    let source = Source { header: name(), cookie: name(), parameter: Some("cat".into()) };
    let verifier = of(|cat| cat.source = source);
    let asked = |link: &str, cookies: &str, now_s| {
        let fields: Fields = [("Cookie", cookies)].into_iter().collect();
        let target = format!("/a?cat={link}");
        let question =
            Question { fields: Some(&fields), ..Question::get("https", "h", &target, now_s) };
        verifier.verify(&question).map(|granted| granted.renewal)
    };
    let claims = cbor!({2 => "ann", 4 => 1_700_000_100, 323 => {0 => 1, 1 => 3600}}).unwrap();
    let link = made(&claims);
    let (_, set) = asked(&link, "a=b", 1_700_000_099).unwrap().expect("a new one");
    let cookie = set.split(';').next().unwrap();
    // Its browser sends the cookie by itself, before and after the end of the link.
    for now_s in [1_700_000_099, 1_700_003_000] {
        assert_eq!(asked(&link, cookie, now_s), Ok(None), "{now_s}");
    }
    // A new link lets in beside an old cookie, and beside one of somebody else.
    let new = made(&cbor!({2 => "ann", 4 => 1_800_000_000}).unwrap());
    for cookie in [cookie, "CTA-Common-Access-Token=x"] {
        assert_eq!(asked(&new, cookie, 1_700_010_000), Ok(None), "{cookie}");
    }
    // Of several that are not good the first says why.
    assert_eq!(asked(&link, cookie, 1_700_010_000), Err(Denied::Expired));
    // The site's own cookie of another path, which has ended, comes first.
    let own = format!("CTA-Common-Access-Token={link}; {cookie}");
    assert_eq!(asked("x", &own, 1_700_003_000), Ok(None));
}

#[test]
fn a_renewal_is_under_the_key_of_what_it_renews() {
    let with = |keys: &[(&str, Vec<u8>)]| {
        let keys = Keys::read(keys.iter().map(|(name, key)| (*name, &**key))).unwrap();
        let source = Source { cookie: Some("t".into()), ..Source::default() };
        verifier(Scheme::Cat(Cat { source, ..Cat::default() }), keys)
    };
    let (old, new) = (("old", b"another secret".to_vec()), ("new", secret()));
    let claims = cbor!({4 => 1_700_000_100, 323 => {0 => 0, 1 => 3600}}).unwrap();
    for header in [cbor!({1 => 5}), cbor!({1 => 5, 4 => Value::Bytes(b"unknown".to_vec())})] {
        let asked = |verifier: &Verifier, cookie: &str, now_s| {
            let fields: Fields = [("Cookie", cookie)].into_iter().collect();
            let question =
                Question { fields: Some(&fields), ..Question::get("https", "h", "/a", now_s) };
            verifier.verify(&question).map(|granted| granted.renewal)
        };
        let token = format!("t={}", made_with(&claims, &header.unwrap(), 17));
        let both = with(&[old.clone(), new.clone()]);
        let (_, set) = asked(&both, &token, 1_700_000_099).unwrap().expect("a new one");
        let cookie = set.split(';').next().unwrap();
        assert_eq!(asked(&with(std::slice::from_ref(&new)), cookie, 1_700_003_000), Ok(None));
        let by_old = asked(&with(std::slice::from_ref(&old)), cookie, 1_700_003_000);
        assert_eq!(by_old, Err(Denied::Signature));
    }
}

#[test]
fn claims_are_told_by_name() {
    let claims = cbor!({1 => "us", 2 => "ann", 3 => ["tv", "web"], 4 => 1_800_000_000}).unwrap();
    let target = format!("/a?cat={}", made(&claims));
    let granted = of(|_| {}).verify(&Question::get("https", "h", &target, NOW)).unwrap();
    let claim = |name| granted.grant.claim(name);
    assert_eq!((claim("iss"), claim("sub")), (Some("us"), Some("ann")));
    assert_eq!((claim("aud"), claim("exp")), (Some("tv,web"), Some("1800000000")));
    assert_eq!(claim("cti"), None);
}

#[test]
fn a_part_of_a_uri_may_have_to_fit_an_expression() {
    let token = |value: Value| {
        let matches = Value::Map(vec![(4.into(), value)]);
        made(&Value::Map(vec![(312.into(), Value::Map(vec![(3.into(), matches)]))]))
    };
    let alone = |text: &str| token(Value::Text(text.into()));
    let episodes = alone("^/vod/s[0-9]+/(e[[:digit:]]{2}|extra)\\.mp4$");
    for path in ["/vod/s1/e01.mp4", "/vod/s22/extra.mp4"] {
        assert_eq!(get(&episodes, &format!("http://h{path}")), Ok(()), "{path}");
    }
    for path in ["/vod/s/e01.mp4", "/vod/s1/e1.mp4", "/x/vod/s1/e01.mp4", "/vod/s1/e01.mp4x"] {
        assert_eq!(get(&episodes, &format!("http://h{path}")), Err(Denied::Url), "{path}");
    }
    // Without anchors it may be anywhere.
    assert_eq!(get(&alone("b+"), "http://h/abba"), Ok(()));
    let parts = [Value::Text("^/([a-z]+)/([a-z]+)".into()), Value::Null, Value::Text("hd".into())];
    let groups = token(Value::Array(parts.to_vec()));
    assert_eq!(get(&groups, "http://h/ann/hd/1.ts"), Ok(()));
    assert_eq!(get(&groups, "http://h/ann/uhd/1.ts"), Err(Denied::Url));
    let missing = token(Value::Array(vec![Value::Text("^/a".into()), Value::Text(String::new())]));
    assert_eq!(get(&missing, "http://h/a"), Err(Denied::Url), "there is no such group");
    // What stands in brackets for one thing elsewhere does not stand for another here.
    for set in
        ["[[=a=]]", "[a[.-.]]", "[a[b]]", "[a-z&&b]", "[a-z--b]", "[^a~~b]", "(?=/a)", "(a)\\1"]
    {
        assert_eq!(get(&alone(set), "http://h/aa"), Err(Denied::Claim), "{set}");
    }
    for set in ["[[:alpha:]-]+", "[]a]", "[^]b]", "[\\]a-]", "\\[?a", "[a&~]"] {
        assert_eq!(get(&alone(set), "http://h/aa"), Ok(()), "{set}");
    }
    // What takes others forever.
    let slow = alone("^(/a+)+$");
    assert_eq!(get(&slow, &format!("http://h/{}!", "a".repeat(5000))), Err(Denied::Url));
}

fn chance(probability: f64) -> Value {
    Value::Array(vec![Value::Float(probability), Value::Bytes(vec![7])])
}

/// Asks with this token and this memory.
fn use_up(token: &str, used: Option<&Used>, now_s: u64) -> Result<(), Denied> {
    let target = format!("/a?cat={token}");
    let question = Question { used, ..Question::get("https", "h", &target, now_s) };
    of(|_| {}).verify(&question).map(drop)
}

#[test]
fn a_token_for_one_use_has_one_however_it_is_written() {
    use base64::Engine as _;
    let engine = base64::prelude::BASE64_URL_SAFE_NO_PAD;
    let used = Used::default();
    let end = NOW + 60;
    let token = made(&cbor!({4 => end, 308 => 1}).unwrap());
    assert_eq!(use_up(&token, None, NOW), Err(Denied::Claim), "nobody would remember");
    assert_eq!(use_up(&token, Some(&used), NOW), Ok(()));
    assert_eq!(use_up(&token, Some(&used), NOW), Err(Denied::Used));
    // Without its outer tag, and with something beside that nobody has signed.
    let mut value: Value = ciborium::from_reader(&engine.decode(&token).unwrap()[..]).unwrap();
    let Value::Tag(61, inner) = value else { panic!("a CWT") };
    value = *inner;
    let write = |value: &Value| {
        let mut out = Vec::new();
        ciborium::into_writer(value, &mut out).unwrap();
        engine.encode(out)
    };
    assert_eq!(use_up(&write(&value), Some(&used), NOW), Err(Denied::Used));
    let Value::Tag(17, inner) = &mut value else { panic!("a MAC") };
    inner.as_array_mut().unwrap()[1] = Value::Map(vec![(99.into(), 1.into())]);
    assert_eq!(use_up(&write(&value), Some(&used), NOW), Err(Denied::Used));
    // Another one is another one, and one that may be used again is.
    let other = made(&cbor!({4 => end, 308 => 1, 2 => "ann"}).unwrap());
    assert_eq!(use_up(&other, Some(&used), NOW), Ok(()));
    for kind in [0, 2] {
        let token = made(&cbor!({4 => end, 308 => kind}).unwrap());
        assert_eq!([(); 2].map(|()| use_up(&token, Some(&used), NOW)), [Ok(()); 2]);
    }
    assert_eq!(use_up(&made(&cbor!({308 => 1}).unwrap()), Some(&used), NOW), Err(Denied::Endless));
    // One that is refused for something else keeps its use.
    let token = made(&cbor!({4 => end, 308 => 1, 313 => ["POST"]}).unwrap());
    assert_eq!(use_up(&token, Some(&used), NOW), Err(Denied::Method));
}

#[test]
fn a_token_may_ask_to_be_refused_now_and_then() {
    let token = |chance: Value| made(&Value::Map(vec![(309.into(), chance)]));
    let used = Used::default();
    let never = token(chance(0.0));
    assert!((0..100).all(|_| use_up(&never, Some(&used), NOW) == Ok(())));
    assert_eq!(use_up(&never, None, NOW), Err(Denied::Claim));
    assert_eq!(use_up(&token(chance(1.0)), Some(&used), NOW), Err(Denied::Chance));
    // All that have its name are refused from then on, for a day where nothing says until when.
    assert_eq!(use_up(&never, Some(&used), NOW + 86_399), Err(Denied::Chance));
    assert_eq!(use_up(&never, Some(&used), NOW + 86_400), Ok(()));
    let until = vec![Value::Float(1.0), Value::Bytes(vec![8]), (NOW + 9).into()];
    assert_eq!(use_up(&token(Value::Array(until)), Some(&used), NOW), Err(Denied::Chance));
    let same = token(Value::Array(vec![Value::Float(0.0), Value::Bytes(vec![8])]));
    assert_eq!(use_up(&same, Some(&used), NOW + 8), Err(Denied::Chance));
    assert_eq!(use_up(&same, Some(&used), NOW + 9), Ok(()));
    let half = |name: u32| {
        let name = Value::Bytes(name.to_be_bytes().to_vec());
        use_up(&token(Value::Array(vec![Value::Float(0.5), name])), Some(&used), NOW)
    };
    let refused = (0..400).filter(|name| half(*name).is_err()).count();
    assert!((100..300).contains(&refused), "{refused} of 400");
}
