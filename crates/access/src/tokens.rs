//! Whether a request's token lets it in: the `[[token]]` of a site with their keys.

use crate::client::Client;
use freshet_base::random;
use freshet_config::Mistake;
use freshet_config::tokens::{TokenKind, TokenRule};
use freshet_geo::{Code, Geo};
use freshet_http::fields::Fields;
use freshet_http::freshness::Credentials;
use freshet_http::message::{Method, RequestHead, Scheme as UrlScheme};
use freshet_http::path::{self, Firsts, Readings};
use freshet_http::reason::Reason;
use freshet_tokens::{
    Cat, CloudFront, Denied, EdgeAuth, Granted, Jwt, Keys, Places, Question, Revoked, Scheme,
    SecureLink, Source, Used, Verifier, referer_without, without_token,
};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// Longest file of keys, or of revoked tokens.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A `[[token]]` in force.
pub struct SiteToken {
    /// What it says.
    pub rule: TokenRule,
    /// Who is asked; `None` where everybody is let in.
    verifier: Option<Verifier>,
}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// 401 or 403.
    pub status: u16,
    /// For the log.
    pub reason: Reason,
    /// What the client is asked for, with 401.
    pub challenge: Option<&'static str>,
}

/// Those of a site, with their files read.
///
/// # Errors
/// What is wrong with a file or an expression, where the rule is.
pub fn load(rules: &[TokenRule]) -> Result<Arc<[SiteToken]>, Vec<Mistake>> {
    Mistake::collect(rules.iter().map(SiteToken::load))
}

/// Whether a request of a site with these rules may go on; its token is taken out of it then, unless a rule
/// says not to. The first path that fits decides; rules with the same path are alternatives.
///
/// # Errors
/// What is said to who is not let in.
pub fn admit(
    (tokens, geo): (&[SiteToken], &Geo),
    head: &mut RequestHead,
    client: &Client,
    used: &Used,
    now_s: u64,
) -> Result<Option<Granted>, Refusal> {
    let from = Asking {
        client: client.address.map(|address| address.ip()),
        alpn: client.tls.as_ref().and_then(|tls| tls.alpn.as_deref()),
        used: Some(used),
    };
    let Some(first) = first_for(tokens, head) else {
        take_out_of_referer(tokens, head);
        return Ok(None);
    };
    match judge((tokens, geo), first, head, from, now_s) {
        Verdict::Open => {
            take_all_out(tokens, first.0, head);
            Ok(None)
        }
        Verdict::In(token, granted) => {
            take_out(tokens, token, &granted, head);
            Ok(Some(granted))
        }
        Verdict::Out(denied, asks) => Err(refusal(denied, asks)),
    }
}

/// Takes tokens out of a request that needs none: those that do not stay.
pub fn take_out_of(tokens: &[SiteToken], head: &mut RequestHead) {
    match first_for(tokens, head) {
        Some((first, _)) => take_all_out(tokens, first, head),
        None => take_out_of_referer(tokens, head),
    }
}

/// What tokens see of who asks.
#[derive(Clone, Copy, Default)]
struct Asking<'a> {
    client: Option<IpAddr>,
    alpn: Option<&'a [u8]>,
    used: Option<&'a Used>,
}

/// What the rules of a site say of a request.
enum Verdict<'a> {
    /// It needs no token.
    Open,
    /// The token of this rule lets it in.
    In(&'a SiteToken, Granted),
    /// None does, for this reason, and whether a token may be asked for in a field.
    Out(Denied, bool),
}

/// The rules that are alternatives to one: of the same path.
fn alternatives<'a>(
    tokens: &'a [SiteToken],
    first: &'a SiteToken,
) -> impl Iterator<Item = &'a SiteToken> {
    tokens.iter().filter(|token| token.rule.path == first.rule.path)
}

fn judge<'a>(
    (tokens, geo): (&'a [SiteToken], &Geo),
    (first, is_clear): First<'a>,
    head: &RequestHead,
    from: Asking<'_>,
    now_s: u64,
) -> Verdict<'a> {
    let is_preflight = head.method == Method::Options
        && head.fields.contains("origin")
        && head.fields.contains("access-control-request-method");
    if is_preflight {
        // Browsers send none with it (Fetch Standard §4.8), and it gives nothing away.
        return Verdict::Open;
    }
    let places = Whereabouts(geo);
    let mut last = None;
    let mut asks = false;
    for token in alternatives(tokens, first) {
        let Some(verifier) = &token.verifier else { return Verdict::Open };
        asks |= matches!(token.rule.kind, TokenKind::Jwt | TokenKind::Cat);
        let question = Question {
            scheme: if head.scheme == UrlScheme::Https { "https" } else { "http" },
            authority: &head.authority,
            target: &head.target,
            method: head.method.as_str(),
            client: from.client,
            fields: Some(&head.fields),
            alpn: from.alpn,
            places: Some(&places),
            used: from.used,
            now_s,
        };
        let denied = match is_clear.then(|| verifier.verify(&question)) {
            Some(Ok(granted)) => return Verdict::In(token, granted),
            Some(Err(denied)) => denied,
            None => Denied::Path,
        };
        tracing::debug!(path = token.rule.path, %denied, "a token lets nobody in");
        // One that is there says more than one that is not.
        last = last.filter(|_| denied == Denied::Missing).or(Some(denied));
    }
    Verdict::Out(last.unwrap_or(Denied::Missing), asks)
}

/// Takes tokens out of a request that the one of this rule has let in: all but that one, where it stays. Others are no
/// more for origins than it, and an origin may go by one that nobody has looked at.
fn take_out(tokens: &[SiteToken], by: &SiteToken, granted: &Granted, head: &mut RequestHead) {
    let stays = by.verifier.as_ref().filter(|_| by.rule.forward);
    let stays = stays.map(|verifier| verifier.parts_of(granted)).unwrap_or_default();
    for verifier in alternatives(tokens, by).filter_map(|other| other.verifier.as_ref()) {
        without_token(head, &verifier.parts().besides(&stays));
    }
    take_out_of_referer(tokens, head);
}

/// Takes tokens out of where a request comes from: that of a page is in the requests for all that is in it, also where
/// these need none, and it is not the one that lets them in.
fn take_out_of_referer(tokens: &[SiteToken], head: &mut RequestHead) {
    if head.fields.contains("referer") {
        let parts = tokens.iter().filter_map(|token| Some(token.verifier.as_ref()?.parts()));
        let parameters: Vec<_> = parts.flat_map(|parts| parts.parameters).collect();
        referer_without(&mut head.fields, &parameters);
    }
}

/// Takes tokens out of a request that none of these rules has let in: those that do not stay.
fn take_all_out(tokens: &[SiteToken], by: &SiteToken, head: &mut RequestHead) {
    for other in alternatives(tokens, by).filter(|other| !other.rule.forward) {
        if let Some(verifier) = &other.verifier {
            without_token(head, &verifier.parts());
        }
    }
    take_out_of_referer(tokens, head);
}

/// Where clients are, as the node's databases have it.
#[derive(Debug)]
struct Whereabouts<'a>(&'a Geo);

impl Places for Whereabouts<'_> {
    fn is_in(&self, client: IpAddr, code: &str) -> bool {
        let Some((country, _)) = code.split_once('-') else {
            return Code::parse(code).is_some_and(|code| self.0.country(client) == Some(code));
        };
        let part = self.0.subdivision(client);
        let is_part = |part: &str| code.eq_ignore_ascii_case(&format!("{country}-{part}"));
        Code::parse(country).is_some_and(|country| self.0.country(client) == Some(country))
            && part.is_some_and(|part| is_part(&part))
    }

    fn asn(&self, client: IpAddr) -> Option<u32> {
        self.0.asn(client)
    }

    fn coordinates(&self, client: IpAddr) -> Option<(f64, f64)> {
        self.0.coordinates(client)
    }
}

/// What becomes of a request for its token, found out without sending it.
pub struct Preview {
    /// What lets it in, and what of that it has, in a sentence.
    pub sentence: String,
    /// The status it is refused with.
    pub refused: Option<u16>,
}

/// What becomes of a request that somebody may send; `None` where it needs no token. What it is let in by is taken out
/// of it, as of one that is served, also where it is not let in: what is stored is found without.
pub fn preview(
    (tokens, geo): (&[SiteToken], &Geo),
    head: &mut RequestHead,
    now_s: u64,
) -> Option<Preview> {
    let first = first_for(tokens, head)?;
    let (rule, _) = first;
    let kinds: Vec<_> = alternatives(tokens, rule).map(|token| kind(token.rule.kind)).collect();
    let said = format!("{} is let in by: {}", rule.rule.path, kinds.join(", or "));
    let (has, refused) = match judge((tokens, geo), first, head, Asking::default(), now_s) {
        Verdict::Open => (String::new(), None),
        Verdict::In(token, granted) => {
            take_out(tokens, token, &granted, head);
            ("; this request has one that is good".to_owned(), None)
        }
        Verdict::Out(denied, asks) => {
            let depends =
                matches!(denied, Denied::Client | Denied::Protocol | Denied::Used | Denied::Chance);
            take_all_out(tokens, rule, head);
            match depends {
                true => (
                    "; whether what this request has is good depends on who sends it".to_owned(),
                    None,
                ),
                false => (format!("; {denied}"), Some(refusal(denied, asks).status)),
            }
        }
    };
    Some(Preview { sentence: said + &has, refused })
}

/// Where tokens are that say who asks at origins too, and are in no key.
pub fn credentials(rules: &[TokenRule]) -> Option<Credentials> {
    let mut found = Credentials::default();
    for rule in rules.iter().filter(|rule| rule.forward) {
        found.fields.extend(rule.header.clone());
        found.cookies.extend(rule.cookie.clone());
        if rule.kind == TokenKind::CloudFront {
            found.cookies.extend(CloudFront::COOKIES.map(str::to_owned));
        }
    }
    (found != Credentials::default()).then_some(found)
}

/// A target of a log without the tokens that a request for it may have had.
pub fn target_without(tokens: &[SiteToken], head: &RequestHead, target: &str) -> String {
    let mut head =
        RequestHead { target: target.to_owned(), fields: Fields::default(), ..head.clone() };
    if let Some((first, _)) = first_for(tokens, &head) {
        take_all_out(tokens, first, &mut head);
    }
    head.target
}

/// A rule, and whether it is clear that it is the first whose path fits.
type First<'a> = (&'a SiteToken, bool);

/// The first rule whose path fits, and whether it is clear which one that is. A request whose path can
/// be read in several ways is of the first rule that asks for a token at all.
fn first_for<'a>(tokens: &'a [SiteToken], head: &RequestHead) -> Option<First<'a>> {
    if tokens.is_empty() {
        return None;
    }
    let asks = |token: &&SiteToken| token.verifier.is_some();
    let fits = |token: &SiteToken, path: &[u8]| path::is_below(path, &token.rule.path);
    if let Ok(path) = Question::get("", "", &head.target, 0).decoded_path()
        && let Firsts::Same(place) = Readings::of_path(&path).firsts(tokens, fits)
    {
        return Some((tokens.get(place?)?, true));
    }
    Some((tokens.iter().find(asks)?, false))
}

fn refusal(denied: Denied, asks: bool) -> Refusal {
    let reason = match denied {
        Denied::Missing => Reason::TokenMissing,
        Denied::Expired | Denied::NotYet => Reason::TokenExpired,
        Denied::Revoked | Denied::Used | Denied::Chance => Reason::TokenRevoked,
        denied if denied.asks_for_token() => Reason::TokenWrong,
        _ => Reason::TokenNotForThis,
    };
    let challenge = match denied {
        _ if !asks || !denied.asks_for_token() => None,
        Denied::Missing => Some("Bearer"),
        _ => Some("Bearer error=\"invalid_token\""),
    };
    Refusal { status: if challenge.is_some() { 401 } else { 403 }, reason, challenge }
}

fn kind(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::None => "everybody",
        TokenKind::SecureLink => "a link signed with MD5 (secure-link)",
        TokenKind::SecureLinkHmac => "a link signed with HMAC-SHA256 (secure-link-hmac)",
        TokenKind::EdgeAuth => "an EdgeAuth token (edge-auth)",
        TokenKind::CloudFront => "a URL or cookies signed for CloudFront (cloudfront)",
        TokenKind::Jwt => "a JSON Web Token (jwt)",
        TokenKind::Cat => "a Common Access Token (cat)",
    }
}

impl SiteToken {
    fn load(rule: &TokenRule) -> Result<Self, Mistake> {
        let refuse = |why: String| Mistake::error(rule.place, why);
        let mut files = Vec::with_capacity(rule.keys.len());
        for file in &rule.keys {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            files.push((stem, read(file).map_err(refuse)?));
        }
        let keys = Keys::read(files.iter().map(|(name, content)| (&**name, &**content)))
            .map_err(|error| refuse(format!("token.keys: {error}")))?;
        for key in keys.passed_over() {
            tracing::warn!(key, "a key of a set is of no kind that tokens are verified by here");
        }
        for kind in keys.kinds() {
            let fits = match rule.kind {
                TokenKind::SecureLink | TokenKind::SecureLinkHmac | TokenKind::EdgeAuth => {
                    kind == "secret"
                }
                TokenKind::CloudFront => matches!(kind, "RSA" | "P-256"),
                _ => true,
            };
            if !fits {
                let why = format!("token.keys: a key is a {kind}, which this kind does not use");
                return Err(refuse(why));
            }
        }
        if let Some(name) = keys.not_hex().filter(|_| rule.kind == TokenKind::EdgeAuth) {
            let why = format!(
                "token.keys: {name}: it is not the hexadecimal digits, two for a byte, that EdgeAuth has for a key"
            );
            return Err(refuse(why));
        }
        let of_expression = |why: String| Mistake::error(rule.expression_place, why);
        let Some(scheme) = scheme(rule).map_err(of_expression)? else {
            return Ok(Self { rule: rule.clone(), verifier: None });
        };
        let verifier = Verifier::new(scheme, keys, random::secret())
            .revoking(revoked(rule).map_err(|why| Mistake::error(rule.revoked_place, why))?)
            .with_leeway(rule.leeway.as_secs());
        Ok(Self { rule: rule.clone(), verifier: Some(verifier) })
    }
}

/// Tokens that are not good any more.
fn revoked(rule: &TokenRule) -> Result<Revoked, String> {
    let Some(file) = &rule.revoked else { return Ok(Revoked::default()) };
    let text = String::from_utf8(read(file)?)
        .map_err(|_| format!("token.revoked: {} is no text", file.display()))?;
    let mut revoked = Revoked::read(&text);
    if rule.kind == TokenKind::Cat {
        revoked = revoked.of_hex_ids();
    }
    if let Some(line) = revoked.odd().next() {
        let file = file.display();
        tracing::warn!(%file, line, "a line revokes nothing that is not called just so: each has one id, or sub:NAME");
    }
    Ok(revoked)
}

fn scheme(rule: &TokenRule) -> Result<Option<Scheme>, String> {
    let source = Source {
        header: rule.header.clone(),
        cookie: rule.cookie.clone(),
        parameter: rule.parameter.clone(),
    };
    let (issuers, audiences) = (rule.issuers.clone(), rule.audiences.clone());
    let may_be_endless = rule.may_be_endless;
    let link = |make: fn(&str) -> Result<SecureLink, _>, usual: &str| {
        let expression = rule.expression.as_deref().unwrap_or(usual);
        let mut link = make(expression).map_err(|error: freshet_tokens::ExpressionError| {
            format!("token.expression: {error}")
        })?;
        if let Some(name) = &rule.parameter {
            link.signature_parameter.clone_from(name);
        }
        link.expires_parameter.clone_from(&rule.expires_parameter);
        link.prefix_parameter.clone_from(&rule.prefix_parameter);
        Ok::<_, String>(Scheme::SecureLink(link))
    };
    Ok(Some(match rule.kind {
        TokenKind::None => return Ok(None),
        TokenKind::SecureLink => {
            link(SecureLink::md5, "$secure_link_expires$uri$remote_addr $secret")?
        }
        TokenKind::SecureLinkHmac => link(SecureLink::hmac, "$secure_link_expires$uri")?,
        TokenKind::EdgeAuth => Scheme::EdgeAuth(EdgeAuth { source, salt: rule.salt.clone() }),
        TokenKind::CloudFront => Scheme::CloudFront(CloudFront),
        TokenKind::Jwt => Scheme::Jwt(Jwt { source, issuers, audiences, may_be_endless }),
        TokenKind::Cat => Scheme::Cat(Cat { source, issuers, audiences, may_be_endless }),
    }))
}

/// A file's content, where it is not absurdly long.
fn read(file: &Path) -> Result<Vec<u8>, String> {
    let says = |error: std::io::Error| format!("{}: {error}", file.display());
    let bytes = std::fs::metadata(file).map_err(says)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!(
            "{} is {bytes} bytes long, which is no file of this kind",
            file.display()
        ));
    }
    std::fs::read(file).map_err(says)
}
