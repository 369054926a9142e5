//! Tokens that others made, and what attackers make of them.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod cat;
mod cloudfront;
mod edge_auth;
mod jwt;
mod secure_link;

use freshet_http::fields::Fields;
use freshet_tokens::{
    Cat, CloudFront, Denied, EdgeAuth, Jwt, Keys, Question, Revoked, Scheme, SecureLink, Source,
    Verifier,
};

const NOW: u64 = 1_700_000_000;

fn keys(name: &str, content: &str) -> Keys {
    Keys::read([(name, content.as_bytes())]).unwrap()
}

fn public_keys() -> Keys {
    Keys::read([
        ("rsa", include_bytes!("../keys/rsa.pem").as_slice()),
        ("p256", include_bytes!("../keys/p256.pem").as_slice()),
        ("ed25519", include_bytes!("../keys/ed25519.pem").as_slice()),
        ("guide", include_bytes!("../keys/guide.pem").as_slice()),
        ("guide-p256", include_bytes!("../keys/guide-p256.pem").as_slice()),
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
