//! URLs signed with CloudFront's canned policy.

use crate::denied::Denied;
use crate::keys::{Keys, Material, first_good};
use crate::question::Question;
use crate::seen::Seen;
use crate::text::base64_url;
use crate::times::{Times, seconds};
use crate::verifier::Grant;

/// Signed URLs. The name of a key is its `Key-Pair-Id`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloudFront;

impl CloudFront {
    /// The parameters that are the token.
    pub(crate) const PARAMETERS: [&'static str; 4] =
        ["Expires", "Signature", "Key-Pair-Id", "Hash-Algorithm"];

    pub(crate) fn verify(
        self,
        question: &Question<'_>,
        keys: &Keys,
        seen: &Seen<()>,
        leeway_s: u64,
    ) -> Result<Grant, Denied> {
        let one = |name| question.parameter(name);
        let expires = one("Expires")?.ok_or(Denied::Missing)?;
        let signature = one("Signature")?.ok_or(Denied::Missing)?;
        let id = one("Key-Pair-Id")?.ok_or(Denied::Missing)?;
        let is_sha1 = match one("Hash-Algorithm")? {
            None | Some("SHA1") => true,
            Some("SHA256") => false,
            Some(_) => return Err(Denied::Key),
        };
        let until = seconds(expires)?;
        // `-_~` stand for `+=/`.
        let signature = signature.trim_end_matches('_');
        if signature.contains('_') {
            return Err(Denied::Malformed);
        }
        let signature = base64_url(&signature.replace('~', "_")).ok_or(Denied::Malformed)?;
        let times = Times { expires_s: Some(until as f64), ..Times::default() };
        // What a URL leads to is what has one meaning only.
        question.decoded_path()?;
        let url = base_url(question);
        let mut last = Denied::Signature;
        // Behind a load balancer that ends TLS the node does not know which one was signed.
        for scheme in ["https", "http"] {
            let policy = format!(
                "{{\"Statement\":[{{\"Resource\":\"{scheme}://{url}\",\"Condition\":{{\
                 \"DateLessThan\":{{\"AWS:EpochTime\":{until}}}}}}}]}}"
            );
            let parts = [policy.as_bytes(), &signature, id.as_bytes(), &[u8::from(is_sha1)]];
            let good = seen.get_or(&parts, || {
                first_good(keys.named(Some(id.as_bytes())), |key| match (key, is_sha1) {
                    (Material::Rsa { sha1, .. }, true) => {
                        Some(sha1.verify_sig(policy.as_bytes(), &signature).is_ok())
                    }
                    (Material::Rsa { sha256, .. }, false) => {
                        Some(sha256.verify_sig(policy.as_bytes(), &signature).is_ok())
                    }
                    (Material::P256 { der, .. }, false) => {
                        Some(der.verify_sig(policy.as_bytes(), &signature).is_ok())
                    }
                    _ => None,
                })
            });
            match good {
                Ok(_) => return times.check(question.now_s, leeway_s).map(|()| Grant::default()),
                Err(why) => last = why,
            }
        }
        Err(last)
    }
}

/// Host, path and the client's own query.
fn base_url(question: &Question<'_>) -> String {
    let query: Vec<_> = question
        .query()
        .split('&')
        .filter(|pair| {
            let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
            !pair.is_empty() && !CloudFront::PARAMETERS.contains(&name)
        })
        .collect();
    let mark = if query.is_empty() { "" } else { "?" };
    let host = question.authority.to_ascii_lowercase();
    format!("{host}{}{mark}{}", question.path(), query.join("&"))
}
