//! What a server of NATS needs to know who is who: the part of its configuration.

use super::{IdentityError, Role};
use crate::identity::folder::{CA, IDENTITY};
use std::path::Path;

/// The name of that part.
pub(super) const CONFIGURATION: &str = "fleet.conf";

/// The host of a server's address, which its certificate has to prove.
pub(super) fn host(server: &str) -> Result<String, IdentityError> {
    let wrong = || IdentityError::ConfigServer(server.to_owned());
    let rest = server.strip_prefix("tls://").ok_or_else(wrong)?;
    let host = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(wrong)?.0,
        None => rest.split(':').next().unwrap_or_default(),
    };
    // It is the name of a folder as well.
    let is_host = !host.is_empty()
        && !host.starts_with('.')
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte));
    if is_host { Ok(host.to_owned()) } else { Err(wrong()) }
}

/// The part, for a server that has its files in `folder`. Who shows a certificate is mapped by the names in it: nodes
/// cannot say what all do, and who joins can but ask.
pub(super) fn configuration(fleet: &str, folder: &Path) -> String {
    let [operator, node, joining] =
        [Role::Operator, Role::Node, Role::Joining].map(|role| role.name(fleet));
    let file = |name: &str| folder.join(name).display().to_string();
    let (ca, identity) = (file(CA), file(IDENTITY));
    format!(
        r#"# Who may do what in the fleet `{fleet}`. Made by `freshet fleet issuer init`.
tls {{
  cert_file: "{identity}"
  key_file: "{identity}"
  ca_file: "{ca}"
  verify_and_map: true
  timeout: 5
}}
authorization {{
  users = [
    {{ user: "{operator}", permissions: {{ publish: ">", subscribe: ">" }} }}
    {{ user: "{node}", permissions: {{
      publish: {{
        allow: ["freshet.{fleet}.state.*", "freshet.{fleet}.node.*", "freshet.{fleet}.roll", "freshet.{fleet}.identity",
                "$JS.API.>", "$JS.FC.>"]
        deny: ["$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.UPDATE.>", "$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.PURGE.>",
               "$JS.API.STREAM.MSG.DELETE.>", "$JS.API.STREAM.SNAPSHOT.>", "$JS.API.STREAM.RESTORE.>"]
      }}
      subscribe: ["_INBOX.>", "freshet.{fleet}.>"]
    }} }}
    {{ user: "{joining}", permissions: {{ publish: "freshet.{fleet}.identity", subscribe: "_JOINING.>" }} }}
  ]
}}
"#
    )
}
