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

/// A link for the page `/live/` alone.
const OF_PAGE: &str = "lkqS5s06uJ588ZZprlntPuusbW-FZGT37P3aIuQq3bI";

#[test]
fn links_under_hmac_may_be_for_all_below_a_path() {
    let mut link = SecureLink::hmac("$secure_link_expires$uri").unwrap();
    link.signature_parameter = "sig".into();
    link.prefix_parameter = Some("for".into());
    let verifier = verifier(Scheme::SecureLink(link), keys("a", "secret"));
    // printf '2147483647/live/*' | openssl sha256 -hmac secret -binary | basenc --base64url
    let token = "sig=SIGNATURE&expires=2147483647&for=/live/";
    let token = token.replace("SIGNATURE", include_str!("../hmac.txt").trim());
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
    // printf '2147483647/live/' | openssl sha256 -hmac secret -binary | basenc --base64url
    let page = "sig=PAGE&expires=2147483647".replace("PAGE", OF_PAGE);
    assert_eq!(asked(&verifier, &format!("/live/?{page}")), Ok(()));
    // Who has a link for a page does not choose what else it is for.
    for path in ["/live/", "/live/a.m3u8"] {
        let wider = format!("{path}?{page}&for=/live/");
        assert_eq!(asked(&verifier, &wider), Err(Denied::Signature), "{path}");
    }
    let star = token.replace("&for=/live/", "");
    assert_eq!(asked(&verifier, &format!("/live/*?{star}")), Err(Denied::Path));
}
