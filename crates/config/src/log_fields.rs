//! Which fields of requests and responses the access log has.

use super::document::Document;
use super::mistake::Mistake;
use freshet_http::fields::is_token;

/// Fields of one message that are logged at most.
pub const LOG_FIELDS_MAX: usize = 16;

/// What formats have a value of their own for.
const KNOWN: [&str; 2] = ["User-agent", "Referer"];

/// Names of fields, as they are written in the configuration.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct LogFields {
    /// Those of requests.
    pub request: Vec<Box<str>>,
    /// Those of responses, as clients get them.
    pub response: Vec<Box<str>>,
}

impl LogFields {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.request.is_empty() && self.response.is_empty()
    }
}

/// What a site says, and what the format of the log names.
pub(super) fn log_fields(document: &Document, wrong: &mut Vec<Mistake>) -> LogFields {
    let format = document.value("log.format").text();
    let mut of = |key: &'static str, of_message: char| {
        let mut names: Vec<Box<str>> = Vec::new();
        let own = document.value(key).list();
        for name in own.iter().map(String::as_str).chain(named(&format, of_message)) {
            if !is_token(name) {
                let message = format!("{key}: `{name}` is not the name of a field");
                wrong.push(Mistake::error(document.at(key), message));
            } else if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                names.push(name.into());
            }
        }
        if names.len() > LOG_FIELDS_MAX {
            let message = format!("{key}: {} fields, of at most {LOG_FIELDS_MAX}", names.len());
            wrong.push(Mistake::error(document.at(key), message));
        }
        names
    };
    LogFields { request: of("log.request_fields", 'i'), response: of("log.response_fields", 'o') }
}

/// The names in `%{NAME}i` or `%{NAME}o` of a format.
fn named(format: &str, of_message: char) -> impl Iterator<Item = &str> {
    let parts = format.split("%{").skip(1).filter_map(move |part| {
        let (name, rest) = part.split_once('}')?;
        rest.starts_with(of_message).then_some(name)
    });
    parts.filter(|name| !KNOWN.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    fn read(text: &str) -> (LogFields, Vec<Mistake>) {
        let mut wrong = Vec::new();
        let document = Document::parse(text).expect("the text is well-formed");
        (log_fields(&document, &mut wrong), wrong)
    }

    fn fields(text: &str) -> LogFields {
        let (fields, wrong) = read(text);
        assert!(wrong.is_empty(), "{wrong:?}");
        fields
    }

    #[test]
    fn a_site_lists_them_and_a_format_names_them() {
        let own = "[log]\nrequest_fields = [\"X-Request-Id\", \"x-request-id\"]\n\
                   response_fields = [\"Content-Type\"]";
        let got = fields(own);
        assert_eq!(
            (&*got.request, &*got.response),
            (&["X-Request-Id".into()][..], &["Content-Type".into()][..])
        );
        let got = fields("[log]\nformat = '%h %{Accept}i %{User-agent}i %{ETag}o %{hit}x'");
        assert_eq!((&*got.request, &*got.response), (&["Accept".into()][..], &["ETag".into()][..]));
        assert!(fields("").is_empty());
        let (_, wrong) = read("[log]\nrequest_fields = [\"no name\"]");
        assert!(wrong[0].message.contains("`no name` is not the name"), "{wrong:?}");
        let many: Vec<String> = (0..=LOG_FIELDS_MAX).map(|at| format!("\"X-{at}\"")).collect();
        let (_, wrong) = read(&format!("[log]\nresponse_fields = [{}]", many.join(", ")));
        assert!(wrong[0].message.contains("17 fields, of at most 16"), "{wrong:?}");
    }
}
