use super::*;

fn of(keys: Keys) -> Verifier {
    let jwt = Jwt {
        source: parameter("token"),
        issuers: vec!["joe".into()],
        audiences: vec!["*".into()],
        may_be_endless: false,
    };
    verifier(Scheme::Jwt(jwt), keys)
}

fn ask(verifier: &Verifier, token: &str, now: u64) -> Result<(), Denied> {
    asked_from(verifier, &format!("/a?token={token}"), "127.0.0.1", now)
}

// RFC 7515, appendices A.1 and A.3.
const HS256: &str = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEz\
    MDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r\
    _wW1gFWFOEjXk";
const HS256_KEY: &str = r#"{"keys":[{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}]}"#;
const ES256: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0\
    dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjD\
    xw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
const ES256_KEY: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
const BEFORE: u64 = 1_300_819_379;

#[test]
fn the_examples_of_rfc_7515_are_good_until_they_expire() {
    for (token, key) in [(HS256, HS256_KEY), (ES256, ES256_KEY)] {
        let verifier = of(keys("k", key));
        // The second time it is remembered.
        for _ in 0..2 {
            assert_eq!(ask(&verifier, token, BEFORE), Ok(()));
            assert_eq!(ask(&verifier, token, BEFORE + 1), Err(Denied::Expired));
        }
        let target = format!("/a?token={token}");
        let granted = verifier.verify(&Question::get("https", "h", &target, BEFORE)).unwrap();
        let claim = |name| granted.grant.claim(name);
        assert_eq!(claim("http://example.com/is_root"), Some("true"));
        assert_eq!((claim("exp"), claim("none")), (Some("1300819380"), None));
        let last = if token.ends_with('k') { "l" } else { "Q" };
        let changed = format!("{}A{last}", &token[..token.len() - 2]);
        let why = ask(&verifier, &changed, BEFORE);
        assert!(matches!(why, Err(Denied::Signature | Denied::Malformed)), "{why:?}");
        let shorter = ask(&verifier, &token[..token.len() - 8], BEFORE);
        assert!(matches!(shorter, Err(Denied::Signature | Denied::Malformed)), "{shorter:?}");
    }
}

#[test]
fn tokens_signed_by_openssl_are_good() {
    let verifier = of(public_keys());
    for line in include_str!("../jwts.txt").lines() {
        let (name, token) = line.split_once(' ').unwrap();
        assert_eq!(ask(&verifier, token, NOW), Ok(()), "{name}");
        let question = Question::get("https", "h", "/", NOW);
        let target = format!("/?token={token}");
        let granted = verifier.verify(&Question { target: &target, ..question }).unwrap();
        let grant = &granted.grant;
        assert_eq!((grant.subject.as_deref(), grant.id.as_deref()), (Some("ann"), Some("j1")));
        for (audience, expected) in [("tv", Ok(())), ("radio", Err(Denied::Audience))] {
            let jwt = Jwt {
                source: parameter("token"),
                audiences: vec![audience.into()],
                ..Jwt::default()
            };
            let strict = super::verifier(Scheme::Jwt(jwt), public_keys());
            assert_eq!(ask(&strict, token, NOW), expected);
        }
        let other = Jwt { source: parameter("token"), issuers: vec!["x".into()], ..Jwt::default() };
        let other = super::verifier(Scheme::Jwt(other), public_keys());
        assert_eq!(ask(&other, token, NOW), Err(Denied::Issuer));
        for revoked in ["j1", "sub:ann", "\u{feff}j1"] {
            let revoking = of(public_keys()).revoking(Revoked::read(revoked));
            assert_eq!(ask(&revoking, token, NOW), Err(Denied::Revoked));
        }
    }
}

#[test]
fn a_token_for_somebody_else_lets_nobody_in() {
    let secret = [b'k'; 32];
    let file = String::from_utf8(secret.to_vec()).unwrap();
    let with = |audiences: &[&str]| {
        let audiences = audiences.iter().map(|one| (*one).to_owned()).collect();
        let jwt = Jwt { source: parameter("token"), audiences, ..Jwt::default() };
        verifier(Scheme::Jwt(jwt), keys("k", &file))
    };
    let token = |claim: &str| {
        signed(r#"{"alg":"HS256"}"#, &format!(r#"{{"exp":2147483647{claim}}}"#), &secret)
    };
    for (audiences, claim, expected) in [
        (&[][..], "", Ok(())),
        (&[], r#","aud":[]"#, Ok(())),
        // Whom it names it is for, and nobody has said that this is one of them (RFC 7519 §4.1.3).
        (&[], r#","aud":"tv""#, Err(Denied::Audience)),
        (&["*"], "", Ok(())),
        (&["*"], r#","aud":["tv","radio"]"#, Ok(())),
        (&["tv"], r#","aud":["tv","radio"]"#, Ok(())),
        (&["tv"], "", Err(Denied::Audience)),
    ] {
        assert_eq!(ask(&with(audiences), &token(claim), NOW), expected, "{audiences:?} {claim}");
    }
}

#[test]
fn base64_of_a_token_has_no_padding() {
    use base64::Engine as _;
    let secret = [b'k'; 32];
    let verifier = of(keys("k", std::str::from_utf8(&secret).unwrap()));
    let claims = r#"{"iss":"joe","exp":2147483647}"#;
    let good = signed(r#"{"alg":"HS256"}"#, claims, &secret);
    assert_eq!(ask(&verifier, &good, NOW), Ok(()));
    // RFC 7515 §2, in each of its parts, also where that is what is signed.
    assert_eq!(ask(&verifier, &format!("{good}="), NOW), Err(Denied::Malformed));
    let encode = |text: &str| base64::prelude::BASE64_URL_SAFE.encode(text);
    let text = format!("{}.{}", encode(r#"{"alg":"HS256" }"#), encode(claims));
    assert!(text.contains('='), "{text}");
    let tag = aws_lc_rs::hmac::sign(
        &aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &secret),
        text.as_bytes(),
    );
    let signature = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(tag);
    assert_eq!(ask(&verifier, &format!("{text}.{signature}"), NOW), Err(Denied::Malformed));
}

fn unsigned(header: &str, claims: &str, signature: &[u8]) -> String {
    use base64::Engine as _;
    let encode = |bytes: &[u8]| base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(bytes);
    format!("{}.{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()), encode(signature))
}

fn signed(header: &str, claims: &str, secret: &[u8]) -> String {
    use aws_lc_rs::hmac;
    let text = unsigned(header, claims, b"");
    let text = text.trim_end_matches('.');
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
    use base64::Engine as _;
    format!("{text}.{}", base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(tag))
}

#[test]
fn there_is_no_none_and_no_public_key_is_a_secret() {
    let verifier = of(public_keys());
    let claims = r#"{"iss":"joe","exp":2147483647}"#;
    for alg in ["none", "None", "", "HS256", "HS512", "ES384"] {
        let header = format!(r#"{{"alg":"{alg}"}}"#);
        assert_eq!(ask(&verifier, &unsigned(&header, claims, b""), NOW), Err(Denied::Key));
    }
    // The public key as an HMAC's secret, as its file has it and without its armour.
    for secret in [include_bytes!("../keys/rsa.pem").as_slice(), include_bytes!("../keys/p256.pem")]
    {
        let token = signed(r#"{"alg":"HS256","kid":"rsa"}"#, claims, secret);
        assert_eq!(ask(&verifier, &token, NOW), Err(Denied::Key));
    }
    let rs256 = unsigned(r#"{"alg":"RS256","kid":"p256"}"#, claims, &[0; 256]);
    assert_eq!(ask(&verifier, &rs256, NOW), Err(Denied::Key));
}

#[test]
fn claims_that_make_no_sense_let_nobody_in() {
    let secret = [b'k'; 32];
    let file = String::from_utf8(secret.to_vec()).unwrap();
    let verifier = of(keys("k", &file));
    let ask = |header: &str, claims: &str| ask(&verifier, &signed(header, claims, &secret), NOW);
    let plain = r#"{"alg":"HS256"}"#;
    assert_eq!(ask(plain, r#"{"iss":"joe","exp":2147483647.5}"#), Ok(()));
    for (claims, why) in [
        (r#"{"iss":"joe"}"#, Denied::Endless),
        (r#"{"iss":"joe","exp":1e400}"#, Denied::Malformed),
        (r#"{"iss":"joe","exp":1e300}"#, Denied::Malformed),
        (r#"{"iss":"joe","exp":-1}"#, Denied::Malformed),
        (r#"{"iss":"joe","exp":"2147483647"}"#, Denied::Malformed),
        (r#"{"iss":"joe","exp":1,"exp":2147483647}"#, Denied::Malformed),
        (r#"{"iss":"joe","exp":2147483647,"nbf":1700000001}"#, Denied::NotYet),
        (r#"{"iss":["joe"],"exp":2147483647}"#, Denied::Malformed),
        (r#"{"exp":2147483647}"#, Denied::Issuer),
        ("[]", Denied::Malformed),
        ("", Denied::Malformed),
    ] {
        assert_eq!(ask(plain, claims), Err(why), "{claims}");
    }
    let claims = r#"{"iss":"joe","exp":2147483647}"#;
    for header in [r#"{"alg":"HS256","crit":["x"]}"#, r#"{"alg":"HS256","b64":false}"#] {
        assert_eq!(ask(header, claims), Err(Denied::Claim));
    }
    assert_eq!(ask(r#"{"alg":"HS512","kid":"other"}"#, claims), Err(Denied::Key));
    assert_eq!(ask(r#"{"alg":"HS256","alg":"none"}"#, claims), Err(Denied::Malformed));
    assert_eq!(ask("{}", claims), Err(Denied::Malformed));
}

#[test]
fn a_name_in_a_token_chooses_among_keys_that_have_one() {
    let secret = [b'k'; 32];
    let in_set = |kid: &str| {
        let k = "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s";
        format!(r#"{{"keys":[{{"kty":"oct",{kid}"k":"{k}"}}]}}"#)
    };
    let file = String::from_utf8(secret.to_vec()).unwrap();
    let claims = r#"{"iss":"joe","exp":2147483647}"#;
    let token = |kid: &str| signed(&format!(r#"{{"alg":"HS256","kid":"{kid}"}}"#), claims, &secret);
    // What has no name but its file's is for tokens of any name: who signs them does not know that.
    for content in [file, in_set("")] {
        let verifier = of(keys("idp", &content));
        for kid in ["2024-11", "idp"] {
            assert_eq!(ask(&verifier, &token(kid), NOW), Ok(()), "{kid} by {content}");
        }
    }
    let named = of(keys("idp", &in_set(r#""kid":"2024-11","#)));
    assert_eq!(ask(&named, &token("2024-11"), NOW), Ok(()));
    for kid in ["2024-12", "idp"] {
        assert_eq!(ask(&named, &token(kid), NOW), Err(Denied::Key), "{kid}");
    }
}

#[test]
fn a_revoked_token_is_none_beside_one_that_is_good() {
    let secret = [b'k'; 32];
    let jwt =
        Jwt { source: Source { cookie: Some("t".into()), ..parameter("token") }, ..Jwt::default() };
    let file = String::from_utf8(secret.to_vec()).unwrap();
    let verifier = verifier(Scheme::Jwt(jwt), keys("k", &file)).revoking(Revoked::read("old"));
    let token = |id: &str| {
        let claims = format!(r#"{{"jti":"{id}","exp":2147483647}}"#);
        signed(r#"{"alg":"HS256"}"#, &claims, &secret)
    };
    let ask = |cookie: &str, parameter: &str| {
        let fields = [("Cookie", &*format!("t={}", token(cookie)))].into_iter().collect();
        let target = format!("/a?token={}", token(parameter));
        let question = Question::get("https", "h", &target, NOW);
        verifier.verify(&Question { fields: Some(&fields), ..question })
    };
    for (cookie, parameter) in [("old", "new"), ("new", "old")] {
        let granted = ask(cookie, parameter).unwrap();
        assert_eq!(granted.grant.id.as_deref(), Some("new"));
    }
    assert_eq!(ask("old", "old").unwrap_err(), Denied::Revoked);
}
