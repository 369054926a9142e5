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

/// What nodes hear of what operators say.
const HEARD: [&str; 5] = ["pushed", "roll", "config.*", "upgrade.*", "identity.*"];
/// What they ask and say there.
const SAID: [&str; 2] = ["identity", "node.*"];
/// Streams that they may read, behind the name of the log.
const READ: [&str; 5] = ["", "_nodes", "_config", "_bundles", "_identity"];

/// The part, for a server that has its files in `folder`. Who shows a certificate is mapped by the names in it: nodes
/// cannot say what all do, and who joins can but ask.
///
/// Permissions alone do not keep them from it: a server sends its answers, and what consumers deliver, to whichever subject
/// was named for them, and asks nobody's permission. So nodes have an account of their own, where no stream hears a subject, and
/// nothing comes to the streams' but questions of what they read, and their names.
pub(super) fn configuration(fleet: &str, folder: &Path) -> String {
    let [operator, node, joining] =
        [Role::Operator, Role::Node, Role::Joining].map(|role| role.name(fleet));
    let file = |name: &str| folder.join(name).display().to_string();
    let (ca, identity) = (file(CA), file(IDENTITY));
    let log = format!("FRESHET_{fleet}");
    let nodes = format!("{log}_nodes");
    let subject = |what: &&str| format!("freshet.{fleet}.{what}");
    let streams = READ.iter().map(|what| match *what {
        "_config" | "_identity" => format!("KV_{log}{what}"),
        "_bundles" => format!("OBJ_{log}{what}"),
        _ => format!("{log}{what}"),
    });
    let questions = streams.flat_map(|stream| {
        ["INFO", "MSG.GET"].map(|what| format!("$JS.API.STREAM.{what}.{stream}"))
    });
    let services: Vec<_> = SAID.iter().map(subject).chain(questions).collect();
    let heard: Vec<_> = HEARD.iter().map(subject).collect();
    let exports = lines(
        heard.iter().map(|heard| format!(r#"{{ stream: "{heard}" }}"#)),
        services.iter().map(|asked| format!(r#"{{ service: "{asked}" }}"#)),
    );
    let of_log = |what: &str, subject: &str| {
        format!(r#"{{ {what}: {{ account: "{log}", subject: "{subject}" }} }}"#)
    };
    let imports = lines(
        heard.iter().map(|heard| of_log("stream", heard)),
        services.iter().map(|asked| of_log("service", asked)),
    );
    let quoted = |subjects: &[String]| format!("\"{}\"", subjects.join("\", \""));
    let (heard, said) = (quoted(&heard), quoted(&SAID.iter().map(subject).collect::<Vec<_>>()));
    format!(
        r#"# Who may do what in the fleet `{fleet}`. Made by `freshet fleet issuer init`.
tls {{
  cert_file: "{identity}"
  key_file: "{identity}"
  ca_file: "{ca}"
  verify_and_map: true
  timeout: 5
}}
accounts {{
  "{log}" {{
    jetstream: enabled
    users = [ {{ user: "{operator}", permissions: {{ publish: ">", subscribe: ">" }} }} ]
    exports = [
{exports}    ]
    imports = [ {{ stream: {{ account: "{nodes}", subject: "freshet.{fleet}.state.*" }} }} ]
  }}
  "{nodes}" {{
    users = [
      {{ user: "{node}", permissions: {{
        publish: ["freshet.{fleet}.state.*", "freshet.{fleet}.roll", {said},
                  "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.*"]
        subscribe: ["_INBOX.>", "freshet.{fleet}.state.*", {heard}]
      }} }}
      {{ user: "{joining}", permissions: {{ publish: "freshet.{fleet}.identity", subscribe: "_JOINING.>" }} }}
    ]
    exports = [ {{ stream: "freshet.{fleet}.state.*" }} ]
    imports = [
{imports}    ]
  }}
}}
"#
    )
}

fn lines(some: impl Iterator<Item = String>, others: impl Iterator<Item = String>) -> String {
    some.chain(others).map(|line| format!("      {line}\n")).collect()
}
