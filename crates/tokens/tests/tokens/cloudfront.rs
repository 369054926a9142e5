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
    include_str!("../cloudfront/urls.txt").lines().map(|line| line.rsplit(' ').next().unwrap())
}

#[test]
fn urls_signed_as_the_developer_guide_says_are_good() {
    for url in urls() {
        let encoded = url.replace('~', "%7E");
        assert_eq!(asked(&encoded, "https", HOST, NOW), Ok(()), "{encoded}");
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
        assert_eq!(asked(&format!("{url}&Expires=1"), "https", HOST, NOW), Err(Denied::Ambiguous));
        assert_eq!(asked(&format!("{url}&x=y"), "https", HOST, NOW), Err(Denied::Signature));
    }
}

/// Policies signed with `openssl dgst`, as the developer guide has it: algorithm, key, policy,
/// signature.
fn policies() -> Vec<[&'static str; 4]> {
    let words = |line: &'static str| line.split(' ').collect::<Vec<_>>().try_into().unwrap();
    include_str!("../cloudfront/custom.txt").lines().map(words).collect()
}

fn query([algorithm, key, policy, signature]: [&str; 4]) -> String {
    let algorithm = algorithm.to_uppercase();
    format!("Policy={policy}&Signature={signature}&Key-Pair-Id={key}&Hash-Algorithm={algorithm}")
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

/// `{"Statement":[{"Resource":"https://d111111abcdef8.cloudfront.net/images/image.jpg",…` of 2147483647: the text
/// that the first URL is signed for, as a policy.
const CANNED: &str = "eyJTdGF0ZW1lbnQiOlt7IlJlc291cmNlIjoiaHR0cHM6Ly9kMTExMTExYWJjZGVmOC5jbG91ZGZyb250Lm5ldC9pbWFnZXMvaW1hZ2UuanBnIiwiQ29uZGl0aW9uIjp7IkRhdGVMZXNzVGhhbiI6eyJBV1M6RXBvY2hUaW1lIjoyMTQ3NDgzNjQ3fX19XX0_";

#[test]
fn the_text_of_a_link_is_for_its_url_alone_whoever_comes_first() {
    let canned = urls().next().unwrap();
    let policy = canned.replace("Expires=2147483647", &format!("Policy={CANNED}"));
    let film = policy.replace("/images/image.jpg", "/film");
    for order in [[canned, &policy], [&policy, canned]] {
        let front = front();
        let ask = |target| front.verify(&Question::get("https", HOST, target, NOW)).map(drop);
        for target in order {
            assert_eq!(ask(target), Ok(()), "{target}");
            assert_eq!(ask(&film), Err(Denied::Url));
        }
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
