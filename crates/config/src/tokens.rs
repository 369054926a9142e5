//! `[[token]]`: who may have what is below a path.

use super::document::{Document, Row};
use super::mistake::{Mistake, Place};
use super::values::{beginning, optional};
use freshet_http::fields::is_token;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Most of them in a site: each is looked at for each request.
const PER_SITE_MAX: usize = 64;

/// `[[token]]`
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRule {
    /// What the path begins with.
    pub path: String,
    /// What lets in.
    pub kind: TokenKind,
    /// Files with keys.
    pub keys: Vec<PathBuf>,
    /// File with ids of tokens that are not good any more.
    pub revoked: Option<PathBuf>,
    /// The parameter of the query it is in.
    pub parameter: Option<String>,
    /// The cookie it is in.
    pub cookie: Option<String>,
    /// The field it is in.
    pub header: Option<String>,
    /// What a link's signature is of.
    pub expression: Option<String>,
    /// The parameter with a link's time.
    pub expires_parameter: String,
    /// The parameter with the beginning of paths a link is for.
    pub prefix_parameter: Option<String>,
    /// Salt of EdgeAuth tokens.
    pub salt: Option<String>,
    /// Issuers that count; any where empty.
    pub issuers: Vec<String>,
    /// Audiences that count; none where empty.
    pub audiences: Vec<String>,
    /// Whether tokens may go without an end.
    pub may_be_endless: bool,
    /// How far clocks may differ.
    pub leeway: Duration,
    /// Whether origins get the token, and keys have it.
    pub forward: bool,
    /// Where its path is written.
    pub path_place: Place,
    /// Where its keys are written.
    pub place: Place,
    /// Where the file of what is revoked is written.
    pub revoked_place: Place,
    /// Where the expression is written.
    pub expression_place: Place,
}

/// `token.kind`
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TokenKind {
    /// Everybody is let in.
    None,
    /// nginx's `secure_link_md5`.
    SecureLink,
    /// The same with HMAC-SHA256.
    SecureLinkHmac,
    /// Akamai's EdgeAuth 2.0.
    EdgeAuth,
    /// URLs and cookies signed for CloudFront.
    CloudFront,
    /// JSON Web Tokens.
    Jwt,
    /// Common Access Tokens.
    Cat,
}

/// What a document says of them; what is wrong is listed.
pub(super) fn tokens(document: &Document, wrong: &mut Vec<Mistake>) -> Arc<[TokenRule]> {
    let rows = document.rows("token");
    if rows.len() > PER_SITE_MAX {
        let message = format!("a site has at most {PER_SITE_MAX} of [[token]]");
        wrong.push(Mistake::error(document.at("token[].path"), message));
    }
    rows.iter().filter_map(|row| token(row, wrong)).collect()
}

fn token(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<TokenRule> {
    let before = wrong.len();
    let path = beginning(row, "token[].path", "/members/", wrong).unwrap_or_default();
    let value = |key: &str| row.value(&format!("token[].{key}"));
    let mut refuse = |key: &str, message: String| {
        wrong.push(Mistake::error(row.at(&format!("token[].{key}")), message));
    };
    let kind = match value("kind").text().as_str() {
        "none" => TokenKind::None,
        "secure-link" => TokenKind::SecureLink,
        "secure-link-hmac" => TokenKind::SecureLinkHmac,
        "edge-auth" => TokenKind::EdgeAuth,
        "cloudfront" => TokenKind::CloudFront,
        "jwt" => TokenKind::Jwt,
        "cat" => TokenKind::Cat,
        kind => {
            let kinds = "none, secure-link, secure-link-hmac, edge-auth, cloudfront, jwt or cat";
            if kind.is_empty() {
                refuse("kind", format!("token.kind says what lets in: {kinds}"));
            }
            return None;
        }
    };
    let keys: Vec<PathBuf> = value("keys").list().into_iter().map(Into::into).collect();
    match (kind, keys.is_empty()) {
        (TokenKind::None, false) => {
            refuse("keys", "token.keys mean nothing where kind is none".into());
        }
        (TokenKind::None, true) | (_, false) => {}
        (_, true) => refuse("keys", "token.keys names at least one file with a key".into()),
    }
    let given = |key: &str| optional(value(key).text());
    let has_source = matches!(kind, TokenKind::EdgeAuth | TokenKind::Jwt | TokenKind::Cat);
    let has_claims = matches!(kind, TokenKind::Jwt | TokenKind::Cat);
    let is_link = matches!(kind, TokenKind::SecureLink | TokenKind::SecureLinkHmac);
    for (key, is_used) in [
        ("cookie", has_source),
        ("header", has_source),
        ("parameter", has_source || is_link),
        ("expression", is_link),
        ("prefix_parameter", is_link),
        ("salt", kind == TokenKind::EdgeAuth),
        ("revoked", has_source),
        ("issuers", has_claims),
        ("audiences", has_claims),
        ("endless", has_claims),
    ] {
        if !is_used && row.has(&format!("token[].{key}")) {
            refuse(key, format!("token.{key} means nothing with this kind"));
        }
    }
    for (key, what, fits) in [
        ("header", "a field's name", is_token as fn(&str) -> bool),
        ("cookie", "a cookie's name", is_token),
        ("parameter", "a parameter's name", is_parameter),
        ("expires_parameter", "a parameter's name", is_parameter),
        ("prefix_parameter", "a parameter's name", is_parameter),
    ] {
        if let Some(name) = given(key).filter(|name| !fits(name)) {
            refuse(
                key,
                format!("token.{key} is {what} as requests have it, which `{name}` is not"),
            );
        }
    }
    let is_nowhere =
        given("cookie").is_none() && given("header").is_none() && given("parameter").is_none();
    let (parameter, cookie, header) = match kind {
        TokenKind::SecureLink | TokenKind::SecureLinkHmac if is_nowhere => {
            (Some("md5".into()), None, None)
        }
        TokenKind::EdgeAuth if is_nowhere => (Some("hdnts".into()), None, None),
        TokenKind::Jwt if is_nowhere => (None, None, Some("Authorization".into())),
        TokenKind::Cat if is_nowhere => {
            let name = || Some("CTA-Common-Access-Token".to_owned());
            (Some("cat".into()), name(), name())
        }
        _ => (given("parameter"), given("cookie"), given("header")),
    };
    let expires_parameter = value("expires_parameter").text();
    let prefix_parameter = given("prefix_parameter");
    if is_link {
        let names = [parameter.as_ref(), Some(&expires_parameter), prefix_parameter.as_ref()];
        let mut names: Vec<_> = names.into_iter().flatten().collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
            refuse("kind", format!("two parts of a link are in one parameter, `{}`", twice[0]));
        }
    }
    let rule = TokenRule {
        path,
        kind,
        keys,
        revoked: given("revoked").map(Into::into),
        parameter,
        cookie,
        header,
        expression: given("expression"),
        expires_parameter,
        prefix_parameter,
        salt: given("salt"),
        issuers: value("issuers").list(),
        audiences: value("audiences").list(),
        may_be_endless: value("endless").bool(),
        leeway: value("leeway").span(),
        forward: value("forward").bool(),
        path_place: row.at("token[].path"),
        place: row.at("token[].keys"),
        revoked_place: row.at("token[].revoked"),
        expression_place: row.at("token[].expression"),
    };
    (wrong.len() == before).then_some(rule)
}

/// Whether a name can be that of a parameter as it stands in a query.
fn is_parameter(name: &str) -> bool {
    !name.bytes().any(|byte| byte <= b' ' || matches!(byte, b'&' | b'=' | b'?' | b'#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Arc<[TokenRule]>, Vec<Mistake>> {
        let document = Document::parse(text)?;
        let mut wrong = Vec::new();
        let rules = tokens(&document, &mut wrong);
        if wrong.is_empty() { Ok(rules) } else { Err(wrong) }
    }

    #[test]
    fn each_kind_is_where_it_usually_is() {
        for (kind, parameter, cookie, header) in [
            ("secure-link", Some("md5"), None, None),
            ("edge-auth", Some("hdnts"), None, None),
            ("jwt", None, None, Some("Authorization")),
            ("cat", Some("cat"), Some("CTA-Common-Access-Token"), Some("CTA-Common-Access-Token")),
        ] {
            let rules = of(&format!("[[token]]\nkind = \"{kind}\"\nkeys = [\"k\"]\n")).unwrap();
            let rule = &rules[0];
            let found = (rule.parameter.as_deref(), rule.cookie.as_deref(), rule.header.as_deref());
            assert_eq!(found, (parameter, cookie, header), "{kind}");
        }
        let rules =
            of("[[token]]\nkind = \"jwt\"\nkeys = [\"k\"]\ncookie = \"session\"\n").unwrap();
        assert_eq!((rules[0].cookie.as_deref(), &rules[0].header), (Some("session"), &None));
    }

    #[test]
    fn what_lets_in_nobody_or_everybody_is_refused() {
        for (text, says) in [
            ("", "what lets in"),
            ("kind = \"jwt\"\n", "at least one file"),
            ("kind = \"none\"\nkeys = [\"k\"]\n", "mean nothing"),
            ("kind = \"jwt\"\nkeys = [\"k\"]\npath = \"a\"\n", "begins with `/`"),
            ("kind = \"jwt\"\nkeys = [\"k\"]\nsalt = \"a\"\n", "means nothing with this kind"),
            ("kind = \"cloudfront\"\nkeys = [\"k\"]\ncookie = \"a\"\n", "means nothing"),
            ("kind = \"basic\"\n", "is one of"),
            ("kind = \"jwt\"\nkeys = [\"k\"]\nheader = \"a b\"\n", "`a b` is not"),
            ("kind = \"jwt\"\nkeys = [\"k\"]\ncookie = \"a;b\"\n", "`a;b` is not"),
            ("kind = \"jwt\"\nkeys = [\"k\"]\nparameter = \"a&b\"\n", "`a&b` is not"),
            ("kind = \"secure-link\"\nkeys = [\"k\"]\nparameter = \"expires\"\n", "`expires`"),
            ("kind = \"secure-link\"\nkeys = [\"k\"]\nprefix_parameter = \"md5\"\n", "`md5`"),
            ("kind = \"secure-link\"\nkeys = [\"k\"]\nrevoked = \"f\"\n", "means nothing"),
            ("kind = \"cloudfront\"\nkeys = [\"k\"]\nendless = true\n", "means nothing"),
            ("kind = \"edge-auth\"\nkeys = [\"k\"]\nissuers = [\"a\"]\n", "means nothing"),
            ("kind = \"none\"\npath = \"/a?x\"\n", "no query"),
            ("kind = \"none\"\npath = \"/a/../b\"\n", "`..`"),
        ] {
            let text = format!("[[token]]\n{text}");
            let wrong = of(&text).expect_err(&text);
            assert!(wrong.iter().any(|line| line.message.contains(says)), "{text}: {wrong:?}");
        }
    }
}
