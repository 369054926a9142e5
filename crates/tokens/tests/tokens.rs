//! Tokens that others made, and what attackers make of them.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

use freshet_http::fields::Fields;
use freshet_tokens::{
    Cat, CloudFront, Denied, EdgeAuth, Jwt, Keys, Question, Scheme, SecureLink, Source, Verifier,
};

const NOW: u64 = 1_700_000_000;

fn keys(name: &str, content: &str) -> Keys {
    Keys::read([(name, content.as_bytes())]).unwrap()
}

fn public_keys() -> Keys {
    Keys::read([
        ("rsa", include_bytes!("keys/rsa.pem").as_slice()),
        ("p256", include_bytes!("keys/p256.pem").as_slice()),
        ("ed25519", include_bytes!("keys/ed25519.pem").as_slice()),
        ("guide", include_bytes!("keys/guide.pem").as_slice()),
        ("guide-p256", include_bytes!("keys/guide-p256.pem").as_slice()),
    ])
    .unwrap()
}

fn verifier(scheme: Scheme, keys: Keys) -> Verifier {
    Verifier::new(scheme, keys, [3; 16])
}

fn parameter(name: &str) -> Source {
    Source { parameter: Some(name.into()), ..Source::default() }
}

fn asked(verifier: &Verifier, target: &str) -> Result<(), Denied> {
    asked_from(verifier, target, "127.0.0.1", NOW)
}

fn asked_from(verifier: &Verifier, target: &str, client: &str, now_s: u64) -> Result<(), Denied> {
    let mut question = Question::get("https", "example.test", target, now_s);
    question.client = Some(client.parse().unwrap());
    verifier.verify(&question).map(drop)
}

mod secure_link {
    use super::*;

    fn nginx() -> Verifier {
        // The example of the module's documentation.
        let link = SecureLink::md5("$secure_link_expires$uri$remote_addr $secret").unwrap();
        verifier(Scheme::SecureLink(link), keys("a", "secret\n"))
    }

    const LINK: &str = "/s/link?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647";

    #[test]
    fn the_link_of_nginx_s_documentation_is_good() {
        assert_eq!(asked(&nginx(), LINK), Ok(()));
        assert_eq!(asked(&nginx(), &LINK.replace('?', "?a=b&")), Ok(()));
        assert_eq!(asked_from(&nginx(), LINK, "127.0.0.1", 2_147_483_647), Ok(()));
        let late = asked_from(&nginx(), LINK, "127.0.0.1", 2_147_483_648);
        assert_eq!(late, Err(Denied::Expired));
        assert_eq!(asked_from(&nginx(), LINK, "127.0.0.2", NOW), Err(Denied::Signature));
    }

    #[test]
    fn nothing_but_that_link_is() {
        let md5 = "md5=_e4Nc3iduzkWRm01TBBNYw";
        for (target, why) in [
            ("/s/link".into(), Denied::Missing),
            ("/s/link?md5=&expires=1".into(), Denied::Signature),
            (format!("/s/link?{md5}"), Denied::Missing),
            (format!("/s/link?{md5}&expires="), Denied::Malformed),
            (format!("/s/link?{md5}&expires=18446744073709551617"), Denied::Malformed),
            (format!("/s/link?{md5}&expires=-1"), Denied::Malformed),
            (format!("/s/link?{md5}&expires=2147483648"), Denied::Signature),
            (format!("{LINK}&expires=2147483648"), Denied::Ambiguous),
            (format!("{LINK}&md5=a"), Denied::Ambiguous),
            (LINK.replace("link?", "link2?"), Denied::Signature),
            (LINK.replace("link?", "LINK?"), Denied::Signature),
            (LINK.replace("/s/", "//s/"), Denied::Path),
            (LINK.replace("/s/", "/x/../s/"), Denied::Path),
            (LINK.replace("/s/", "/x/%2e%2e/s/"), Denied::Path),
            (LINK.replace("link?", "link%2f..?"), Denied::Path),
            (LINK.replace("NYw", "NY"), Denied::Malformed),
            (LINK.replace("NYw", "NYx"), Denied::Malformed),
            (LINK.replace("NYw", "NYwAAAA"), Denied::Signature),
        ] {
            assert_eq!(asked(&nginx(), &target), Err(why), "{target}");
        }
        // Encoding that changes nothing changes nothing.
        assert_eq!(asked(&nginx(), &LINK.replace("link?", "lin%6b?")), Ok(()));
    }

    #[test]
    fn links_under_hmac_may_be_for_all_below_a_path() {
        let mut link = SecureLink::hmac("$secure_link_expires$uri").unwrap();
        link.signature_parameter = "sig".into();
        link.prefix_parameter = Some("for".into());
        let verifier = verifier(Scheme::SecureLink(link), keys("a", "secret"));
        // printf '2147483647/live/' | openssl sha256 -hmac secret -binary | basenc --base64url
        let token = "sig=SIGNATURE&expires=2147483647&for=/live/";
        let token = token.replace("SIGNATURE", include_str!("hmac.txt").trim());
        assert_eq!(asked(&verifier, &format!("/live/a.m3u8?{token}")), Ok(()));
        assert_eq!(asked(&verifier, &format!("/live/b/c.ts?{token}")), Ok(()));
        for path in ["/lived/a", "/live", "/other", "/Live/a"] {
            assert_eq!(asked(&verifier, &format!("{path}?{token}")), Err(Denied::Url), "{path}");
        }
        let shorter = token.replace("for=/live/", "for=/live");
        assert_eq!(asked(&verifier, &format!("/lived?{shorter}")), Err(Denied::Malformed));
        let wider = token.replace("for=/live/", "for=/");
        assert_eq!(asked(&verifier, &format!("/other?{wider}")), Err(Denied::Signature));
        let out = format!("/live/../other?{token}");
        assert_eq!(asked(&verifier, &out), Err(Denied::Path));
    }
}

mod edge_auth {
    use super::*;

    const KEY: &str = "aabbccddeeff00112233445566778899";
    // Made with this key by the steps that Akamai's generator documents, in another language.
    const ACL: &str = "exp=2147483647~acl=/live/*!/vod/?.mp4\
        ~hmac=af2375de0d8a5ff633b3579321e06adc6667185f70a99d8139844f07386af15d";
    const URL: &str = "ip=192.0.2.7~st=1700000000~exp=2147483647~id=s1~data=d\
        ~hmac=b8f0bc242bba21be227a5fc8f990f5c57c8da2d129584c8605f3a6362d558d22";

    fn edge(salt: Option<&str>) -> Verifier {
        let scheme = EdgeAuth { source: parameter("hdnts"), salt: salt.map(Into::into) };
        verifier(Scheme::EdgeAuth(scheme), keys("a", KEY))
    }

    #[test]
    fn tokens_of_akamai_s_generator_are_good_for_what_they_say() {
        let acl = |path: &str| asked(&edge(None), &format!("{path}?hdnts={ACL}"));
        for path in ["/live/a/b.ts", "/vod/1.mp4"] {
            assert_eq!(acl(path), Ok(()), "{path}");
        }
        for path in ["/vod/12.mp4", "/lived", "/", "/LIVE/a"] {
            assert_eq!(acl(path), Err(Denied::Url), "{path}");
        }
        for path in ["/live/../secret", "/live/%2e%2e/secret", "/live//a", "/live/%2fa"] {
            assert_eq!(acl(path), Err(Denied::Path), "{path}");
        }
        let url = |path: &str, client, now| {
            asked_from(&edge(Some("pepper")), &format!("{path}?hdnts={URL}"), client, now)
        };
        assert_eq!(url("/live/a.m3u8", "192.0.2.7", NOW), Ok(()));
        assert_eq!(url("/live/a.m3u8", "::ffff:192.0.2.7", NOW), Ok(()));
        assert_eq!(url("/live/a.m3u8", "192.0.2.8", NOW), Err(Denied::Client));
        assert_eq!(url("/live/b.m3u8", "192.0.2.7", NOW), Err(Denied::Signature));
        assert_eq!(url("/live/a.m3u8", "192.0.2.7", NOW - 1), Err(Denied::NotYet));
        assert_eq!(url("/live/a.m3u8", "192.0.2.7", 2_147_483_647), Err(Denied::Expired));
        let unsalted =
            asked_from(&edge(None), &format!("/live/a.m3u8?hdnts={URL}"), "192.0.2.7", NOW);
        assert_eq!(unsalted, Err(Denied::Signature));
    }

    #[test]
    fn what_was_changed_is_refused() {
        for (from, to, why) in [
            ("2147483647", "2147483648", Denied::Signature),
            ("/live/*", "/*", Denied::Signature),
            ("exp=2147483647~", "", Denied::Signature),
            ("exp=", "exp=1~exp=", Denied::Ambiguous),
            ("exp=", "exp=99999999999999999999~x=", Denied::Malformed),
            ("exp=", "salt=a~exp=", Denied::Claim),
            ("exp=2147483647", "exp", Denied::Malformed),
            ("~hmac=", "~HMAC=", Denied::Malformed),
            ("f15d", "f15", Denied::Malformed),
            ("f15d", "f15e", Denied::Signature),
            ("af23", "zz23", Denied::Malformed),
        ] {
            let target = format!("/live/a?hdnts={}", ACL.replacen(from, to, 1));
            assert_eq!(asked(&edge(None), &target), Err(why), "{target}");
        }
    }

    #[test]
    fn tokens_may_come_in_a_cookie_and_be_revoked() {
        let source = Source { cookie: Some("hdntl".into()), ..Source::default() };
        let scheme = EdgeAuth { source, salt: Some("pepper".into()) };
        let fields: Fields = [("Cookie", &*format!("a=b; hdntl={URL}"))].into_iter().collect();
        let mut question = Question::get("https", "example.test", "/live/a.m3u8", NOW);
        question.client = Some([192, 0, 2, 7].into());
        question.fields = Some(&fields);
        let good = verifier(Scheme::EdgeAuth(scheme.clone()), keys("a", KEY));
        assert_eq!(good.verify(&question).unwrap().id.as_deref(), Some("s1"));
        let revoking = verifier(Scheme::EdgeAuth(scheme), keys("a", KEY)).revoking(["s1"]);
        assert_eq!(revoking.verify(&question), Err(Denied::Revoked));
    }
}

mod cloudfront {
    use super::*;

    fn front() -> Verifier {
        verifier(Scheme::CloudFront(CloudFront), public_keys())
    }

    fn asked(target: &str, scheme: &str, host: &str, now: u64) -> Result<(), Denied> {
        front().verify(&Question::get(scheme, host, target, now)).map(drop)
    }

    const HOST: &str = "d111111abcdef8.cloudfront.net";

    /// Signed with `openssl dgst`, as the developer guide has it.
    fn urls() -> impl Iterator<Item = &'static str> {
        include_str!("cloudfront/urls.txt").lines().map(|line| line.rsplit(' ').next().unwrap())
    }

    #[test]
    fn urls_signed_as_the_developer_guide_says_are_good() {
        for url in urls() {
            assert_eq!(asked(url, "https", HOST, NOW), Ok(()), "{url}");
            assert_eq!(asked(url, "http", &HOST.to_uppercase(), NOW), Ok(()), "{url}");
            assert_eq!(asked(url, "https", HOST, 2_147_483_647), Err(Denied::Expired));
            assert_eq!(asked(url, "https", "other.test", NOW), Err(Denied::Signature));
            let other = url.replace("image.jpg", "other.jpg");
            assert_eq!(asked(&other, "https", HOST, NOW), Err(Denied::Signature));
            let later = url.replace("2147483647", "2147483648");
            assert_eq!(asked(&later, "https", HOST, NOW), Err(Denied::Signature));
            let up = url.replace("/images/", "/x/../images/");
            assert_eq!(asked(&up, "https", HOST, NOW), Err(Denied::Path));
            assert_eq!(
                asked(&format!("{url}&Expires=1"), "https", HOST, NOW),
                Err(Denied::Ambiguous)
            );
            assert_eq!(asked(&format!("{url}&x=y"), "https", HOST, NOW), Err(Denied::Signature));
        }
    }

    /// Policies signed with `openssl dgst`, as the developer guide has it: algorithm, key, policy,
    /// signature.
    fn policies() -> Vec<[&'static str; 4]> {
        let words = |line: &'static str| line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        include_str!("cloudfront/custom.txt").lines().map(words).collect()
    }

    fn query([algorithm, key, policy, signature]: [&str; 4]) -> String {
        let algorithm = algorithm.to_uppercase();
        format!(
            "Policy={policy}&Signature={signature}&Key-Pair-Id={key}&Hash-Algorithm={algorithm}"
        )
    }

    fn cookies([algorithm, key, policy, signature]: [&str; 4]) -> String {
        let algorithm = algorithm.to_uppercase();
        format!(
            "a=b; CloudFront-Policy={policy}; CloudFront-Signature={signature}; \
             CloudFront-Key-Pair-Id={key}; CloudFront-Hash-Algorithm={algorithm}"
        )
    }

    fn with_cookies(target: &str, cookies: &str) -> Result<(), Denied> {
        let fields: Fields = [("Cookie", cookies)].into_iter().collect();
        let question = Question::get("https", HOST, target, NOW);
        front().verify(&Question { fields: Some(&fields), ..question }).map(drop)
    }

    #[test]
    fn a_policy_for_many_urls_lets_each_of_them_in() {
        for policy in &policies()[..3] {
            for path in ["/film/1.ts", "/film/", "/film/a/b.ts?x=y"] {
                let mark = if path.contains('?') { '&' } else { '?' };
                let target = format!("{path}{mark}{}", query(*policy));
                assert_eq!(asked(&target, "http", HOST, NOW), Ok(()), "{target}");
                assert_eq!(asked(&target, "http", HOST, 2_147_483_647), Err(Denied::Expired));
                assert_eq!(with_cookies(path, &cookies(*policy)), Ok(()), "{path}");
            }
            for path in ["/film", "/other/film/1.ts", "/Film/1.ts", "/%66ilm/1.ts"] {
                assert_eq!(with_cookies(path, &cookies(*policy)), Err(Denied::Url), "{path}");
            }
            assert_eq!(with_cookies("/film/../x", &cookies(*policy)), Err(Denied::Path));
            let target = format!("/film/1.ts?{}", query(*policy));
            assert_eq!(asked(&target, "https", "other.test", NOW), Err(Denied::Url));
            // Another policy under this signature, and a canned one.
            let other = [policy[0], policy[1], policies()[4][2], policy[3]];
            assert_eq!(with_cookies("/film/1", &cookies(other)), Err(Denied::Signature));
            let canned = target.replace("Policy=", "Expires=2147483647&x=");
            assert_eq!(asked(&canned, "https", HOST, NOW), Err(Denied::Signature));
            let both = format!("{target}&Expires=2147483647");
            assert_eq!(asked(&both, "https", HOST, NOW), Err(Denied::Ambiguous));
            let twice = format!("{}; CloudFront-Policy=x", cookies(*policy));
            assert_eq!(with_cookies("/film/1", &twice), Err(Denied::Ambiguous));
        }
    }

    #[test]
    fn a_policy_says_who_and_from_when() {
        let [.., narrow, everything, odd] = <[_; 6]>::try_from(policies()).unwrap();
        let from = |client: &str, target: &str, now| {
            let client = client.parse().ok();
            let target = format!("{target}&{}", query(narrow));
            let question = Question::get("http", HOST, &target, now);
            front().verify(&Question { client, ..question }).map(drop)
        };
        assert_eq!(from("192.0.2.7", "/film/1.ts?x=y", NOW), Ok(()));
        assert_eq!(from("::ffff:192.0.2.7", "/film/1.ts?x=y", NOW), Ok(()));
        assert_eq!(from("192.0.3.7", "/film/1.ts?x=y", NOW), Err(Denied::Client));
        assert_eq!(from("", "/film/1.ts?x=y", NOW), Err(Denied::Client));
        assert_eq!(from("192.0.2.7", "/film/1.ts?x=y", 1_599_999_999), Err(Denied::NotYet));
        assert_eq!(from("192.0.2.7", "/film/11.ts?x=y", NOW), Err(Denied::Url));
        assert_eq!(with_cookies("/anything?at=all", &cookies(everything)), Ok(()));
        assert_eq!(with_cookies("/film/1.ts", &cookies(odd)), Err(Denied::Claim));
    }

    #[test]
    fn a_key_is_for_what_it_is_for() {
        let rsa = urls().next().unwrap();
        for (from, to) in [("=rsa", "=p256"), ("=rsa", "=ed25519"), ("=rsa", "=nobody")] {
            assert_eq!(asked(&rsa.replace(from, to), "https", HOST, NOW), Err(Denied::Key));
        }
        let p256 = urls().last().unwrap();
        let as_sha1 = p256.replace("&Hash-Algorithm=SHA256", "");
        assert_eq!(asked(&as_sha1, "https", HOST, NOW), Err(Denied::Key));
        let odd = p256.replace("SHA256", "MD5");
        assert_eq!(asked(&odd, "https", HOST, NOW), Err(Denied::Key));
    }
}

mod jwt {
    use super::*;

    fn of(keys: Keys) -> Verifier {
        let jwt = Jwt {
            source: parameter("token"),
            issuers: vec!["joe".into()],
            audiences: Vec::new(),
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
        for line in include_str!("jwts.txt").lines() {
            let (name, token) = line.split_once(' ').unwrap();
            assert_eq!(ask(&verifier, token, NOW), Ok(()), "{name}");
            let question = Question::get("https", "h", "/", NOW);
            let target = format!("/?token={token}");
            let grant = verifier.verify(&Question { target: &target, ..question }).unwrap();
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
            let other =
                Jwt { source: parameter("token"), issuers: vec!["x".into()], ..Jwt::default() };
            let other = super::verifier(Scheme::Jwt(other), public_keys());
            assert_eq!(ask(&other, token, NOW), Err(Denied::Issuer));
            for revoked in ["j1", "sub:ann"] {
                let revoking = of(public_keys()).revoking([revoked]);
                assert_eq!(ask(&revoking, token, NOW), Err(Denied::Revoked));
            }
        }
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
        for secret in [include_bytes!("keys/rsa.pem").as_slice(), include_bytes!("keys/p256.pem")] {
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
        let ask =
            |header: &str, claims: &str| ask(&verifier, &signed(header, claims, &secret), NOW);
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
        assert_eq!(ask(r#"{"alg":"HS256","kid":"other"}"#, claims), Err(Denied::Key));
        assert_eq!(ask(r#"{"alg":"HS256","alg":"none"}"#, claims), Err(Denied::Malformed));
        assert_eq!(ask("{}", claims), Err(Denied::Malformed));
    }
}

mod cat {
    use super::*;
    use ciborium::{Value, cbor};

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
        digits
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
            .collect()
    }

    fn web_key(id: &str) -> String {
        use base64::Engine as _;
        let k = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(secret());
        format!(r#"{{"keys":[{{"kty":"oct","kid":"{id}","k":"{k}"}}]}}"#)
    }

    fn of(change: impl FnOnce(&mut Cat)) -> Verifier {
        let mut cat = Cat { source: parameter("cat"), may_be_endless: true, ..Cat::default() };
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
        let token = Value::Tag(61, Box::new(Value::Tag(tag, Box::new(parts))));
        base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(encode(&token))
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
            (cbor!({308 => 1}), Denied::Claim),
            (cbor!({310 => 2}), Denied::Claim),
            (cbor!({316 => ["SE"]}), Denied::Claim),
            (cbor!({311 => [64512]}), Denied::Claim),
            (cbor!({312 => {3 => {4 => ["^/a", ""]}}}), Denied::Claim),
            (cbor!({312 => {9 => {0 => "a"}}}), Denied::Claim),
            (cbor!({312 => {3 => {}}}), Denied::Malformed),
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
        let mut deep = Value::Null;
        for _ in 0..200 {
            deep = Value::Array(vec![deep]);
        }
        assert_eq!(get(&made(&deep), "http://h/a"), Err(Denied::Malformed));
    }
}

#[test]
fn any_token_is_refused_without_a_panic() {
    let schemes = |keys: fn() -> Keys| {
        let link = SecureLink::hmac("$secure_link_expires$uri").unwrap();
        let jwt = Jwt { source: parameter("t"), ..Jwt::default() };
        let cat = Cat { source: parameter("t"), ..Cat::default() };
        let edge = EdgeAuth { source: parameter("t"), salt: None };
        [
            verifier(Scheme::SecureLink(link), keys()),
            verifier(Scheme::CloudFront(CloudFront), keys()),
            verifier(Scheme::Jwt(jwt), keys()),
            verifier(Scheme::Cat(cat), keys()),
            verifier(Scheme::EdgeAuth(edge), keys()),
        ]
    };
    let verifiers = std::panic::AssertUnwindSafe(schemes(public_keys));
    bolero::check!().with_type::<(String, Vec<u8>)>().for_each(|(text, bytes)| {
        use base64::Engine as _;
        let encoded = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(bytes);
        for verifier in verifiers.iter() {
            for target in [
                text.clone(),
                format!("/a?t={text}"),
                format!("/a?t={encoded}"),
                format!("/a?t={encoded}.{encoded}.{encoded}"),
                format!("/a?t=exp={text}~acl={text}~hmac={encoded}"),
                format!("/a?md5={encoded}&expires={text}"),
                format!("/a?Expires=1&Signature={encoded}&Key-Pair-Id=rsa"),
                format!("/a?Policy={encoded}&Signature={encoded}&Key-Pair-Id=rsa"),
            ] {
                assert!(asked(verifier, &target).is_err());
            }
        }
        let _ = Keys::read([("f", bytes.as_slice())]);
        let _ = Keys::read([("f", format!("{{\"keys\":[{text}]}}").as_bytes())]);
        let _ = SecureLink::md5(text);
    });
}
