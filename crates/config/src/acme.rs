//! `[acme]`: certificates that the node gets by itself.

use super::document::Document;
use super::mistake::{Mistake, Place};
use super::values::optional;
use std::path::PathBuf;

/// `[acme]`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Acme {
    /// URL of the authority's directory.
    pub directory: String,
    /// URLs the authority may write to.
    pub contact: Vec<String>,
    /// Names besides the hosts of sites, in lower case.
    pub names: Vec<String>,
    /// Who says which further names get certificates when clients ask for them, and how many.
    pub on_demand: Option<(String, u64)>,
    /// Directory that keeps everything; `None` is the service's or the user's.
    pub state: Option<PathBuf>,
    /// `p256`, `p384`, `rsa2048` or `rsa4096`.
    pub key_type: String,
    /// `http-01` and `tls-alpn-01`, best first.
    pub challenges: Vec<String>,
    /// PEM file of authorities to trust with the directory.
    pub ca: Option<PathBuf>,
    /// Name of the key of an account elsewhere, and the file it is in.
    pub external_account: Option<(String, PathBuf)>,
    /// Where it is switched on.
    pub place: Place,
}

/// How names can be proved.
const CHALLENGES: [&str; 2] = ["http-01", "tls-alpn-01"];

/// What a document says of it, if it is wanted; what is wrong is listed.
pub(super) fn acme(document: &Document, wrong: &mut Vec<Mistake>) -> Option<Acme> {
    let text = |key: &str| document.value(&format!("acme.{key}")).text();
    let file = |key: &str| optional(text(key)).map(PathBuf::from);
    let place = document.at("acme.terms_agreed");
    if !document.value("acme.terms_agreed").bool() {
        let said = ["directory", "contact", "names", "on_demand", "state", "ca", "eab_key_id"];
        let said = said.map(|key| document.at(&format!("acme.{key}")));
        if let Some(said) = said.into_iter().find(|place| place.span().is_some()) {
            let message = "[acme] does nothing without `terms_agreed = true`";
            let help = "read the authority's terms of service, agree, and say so with that key";
            wrong.push(Mistake::error(said, message).help(help));
        }
        return None;
    }
    let challenges = document.value("acme.challenges").list();
    let unknown = challenges.iter().find(|word| !CHALLENGES.contains(&word.as_str()));
    if unknown.is_some() || challenges.is_empty() {
        let message =
            format!("acme.challenges takes {}", CHALLENGES.map(|c| format!("`{c}`")).join(" and "));
        wrong.push(Mistake::error(document.at("acme.challenges"), message));
    }
    let external_account = match (optional(text("eab_key_id")), file("eab_hmac_file")) {
        (Some(id), Some(key)) => Some((id, key)),
        (None, None) => None,
        _ => {
            let message = "acme.eab_key_id and acme.eab_hmac_file go together: give both, or none";
            let place = document.at("acme.eab_key_id").or(document.at("acme.eab_hmac_file"));
            wrong.push(Mistake::error(place, message));
            None
        }
    };
    Some(Acme {
        directory: text("directory"),
        contact: document.value("acme.contact").list().into_iter().map(contact).collect(),
        names: document.value("acme.names").list().iter().map(|n| n.to_ascii_lowercase()).collect(),
        on_demand: optional(text("on_demand"))
            .map(|service| (service, document.value("acme.on_demand_max").number())),
        state: file("state").filter(|state| state.as_os_str() != "auto"),
        key_type: text("key_type"),
        challenges,
        ca: file("ca"),
        external_account,
        place,
    })
}

/// An address of mail as a URL.
fn contact(text: String) -> String {
    let is_address = text.contains('@') && !text.contains(':');
    if is_address { format!("mailto:{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<Acme>, Vec<Mistake>) {
        let mut wrong = Vec::new();
        let document = Document::parse(text).expect("the text is well-formed");
        (acme(&document, &mut wrong), wrong)
    }

    #[test]
    fn agreeing_is_enough() {
        let (acme, wrong) = read(
            "[acme]\nterms_agreed = true\ncontact = [\"ops@a.example\"]\nnames = [\"B.example\"]\n",
        );
        let acme = acme.unwrap();
        assert!(wrong.is_empty());
        assert!(acme.directory.starts_with("https://acme-v02."));
        assert_eq!(
            (acme.contact, acme.names),
            (vec!["mailto:ops@a.example".into()], vec!["b.example".into()])
        );
        assert_eq!((acme.challenges.len(), acme.state), (2, None));
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        assert_eq!(read(""), (None, Vec::new()));
        for (text, says) in [
            ("[acme]\ncontact = [\"a@b\"]\n", "terms_agreed"),
            ("[acme]\nterms_agreed = true\nchallenges = [\"dns-01\"]\n", "`http-01`"),
            ("[acme]\nterms_agreed = true\nchallenges = []\n", "`http-01`"),
            ("[acme]\nterms_agreed = true\neab_key_id = \"a\"\n", "go together"),
        ] {
            let (_, wrong) = read(text);
            assert!(wrong.len() == 1 && wrong[0].message.contains(says), "{text}: {wrong:?}");
        }
    }
}
