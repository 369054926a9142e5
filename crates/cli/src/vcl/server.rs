//! A language server for policies (Language Server Protocol 3.17): mistakes while they are typed,
//! completion, and what a word means.

use super::nearby::compile;
use anyhow::{Context, Result, bail};
use freshet_vcl::editor::Documents;
use serde_json::{Value, json};
use std::io::{BufRead, Read, Write};
use std::process::ExitCode;

/// Bytes of one message. Editors send whole files.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of one line of a message's head.
const LINE_BYTES_MAX: u64 = 4096;

/// Serves until the editor says `exit` or closes its end.
///
/// # Errors
/// What is said is not the protocol, or cannot be answered.
pub(super) fn run() -> Result<ExitCode> {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let mut documents = Documents::default();
    while let Some(message) = next(&mut input)? {
        if message["method"] == "exit" {
            break;
        }
        for answer in answers(&mut documents, &message) {
            let text = answer.to_string();
            write!(output, "Content-Length: {}\r\n\r\n{text}", text.len())?;
        }
        output.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The next message; `None` where there is none any more.
fn next(input: &mut impl BufRead) -> Result<Option<Value>> {
    let mut len = None;
    loop {
        let mut line = String::new();
        if input.take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if !line.ends_with('\n') {
            bail!("a line of a message's head is too long");
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            len = Some(value.trim().parse::<u64>().context("Content-Length is no number")?);
        }
    }
    let len = len.context("a message has no Content-Length")?;
    if len > MESSAGE_BYTES_MAX {
        bail!("a message is larger than 64 MiB");
    }
    let mut body = Vec::new();
    input.take(len).read_to_end(&mut body)?;
    Ok(Some(serde_json::from_slice(&body).context("a message is no JSON")?))
}

/// What a message is answered with: nothing, its response, or mistakes of a document.
fn answers(documents: &mut Documents, message: &Value) -> Vec<Value> {
    let parameters = &message["params"];
    let uri = parameters["textDocument"]["uri"].as_str().unwrap_or("");
    let position = || {
        let number = |name| usize::try_from(parameters["position"][name].as_u64().unwrap_or(0));
        (number("line").unwrap_or(0), number("character").unwrap_or(0))
    };
    let result = match message["method"].as_str().unwrap_or("") {
        "initialize" => json!({
            "capabilities": {
                "textDocumentSync": 1,
                "hoverProvider": true,
                "documentFormattingProvider": true,
                "completionProvider": { "triggerCharacters": ["."] },
            },
            "serverInfo": { "name": "freshet", "version": env!("CARGO_PKG_VERSION") },
        }),
        "textDocument/didOpen" => {
            let text = parameters["textDocument"]["text"].as_str().unwrap_or("");
            return vec![documents.change(uri, text, compile)];
        }
        "textDocument/didChange" => {
            // Whole texts are asked for, so the last change is all of it.
            let changes = parameters["contentChanges"].as_array();
            let text = changes.and_then(|all| all.last()).and_then(|last| last["text"].as_str());
            return text.map(|text| documents.change(uri, text, compile)).into_iter().collect();
        }
        "textDocument/didClose" => return vec![documents.close(uri)],
        "textDocument/hover" => documents.hover(uri, position()),
        "textDocument/completion" => documents.completion(uri, position()),
        "textDocument/formatting" => documents.format(uri),
        "shutdown" => Value::Null,
        // Notifications are not answered; requests always are.
        _ if message["id"].is_null() => return Vec::new(),
        other => {
            let error = json!({ "code": -32601, "message": format!("there is no {other}") });
            return vec![json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })];
        }
    };
    if message["id"].is_null() {
        return Vec::new();
    }
    vec![json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })]
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "file:///p.vcl";

    fn open(text: &str) -> (Documents, Value) {
        let mut documents = Documents::default();
        let message = json!({
            "method": "textDocument/didOpen",
            "params": { "textDocument": { "uri": URI, "text": text } },
        });
        let mut answers = answers(&mut documents, &message);
        (documents, answers.remove(0)["params"]["diagnostics"].take())
    }

    fn ask(documents: &mut Documents, method: &str, line: u64, character: u64) -> Value {
        let message = json!({
            "id": 1,
            "method": method,
            "params": {
                "textDocument": { "uri": URI },
                "position": { "line": line, "character": character },
            },
        });
        answers(documents, &message).remove(0)["result"].take()
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        let (_, found) =
            open("vcl 4.1;\nbackend b none;\nsub vcl_recv { set req.http.é = req.ulr; }\n");
        let first = &found[0];
        assert_eq!(first["severity"], 1, "{found}");
        assert_eq!(first["range"]["start"]["line"], 2);
        let (_, found) = open("vcl 4.1;\nbackend b none;\n");
        assert_eq!(found, json!([]));
    }

    #[test]
    fn names_of_hosts_are_taken_as_they_are() {
        let (_, found) = open("vcl 4.1;\nbackend b { .host = \"origin.invalid\"; }\n");
        assert_eq!(found, json!([]), "nobody is asked for the address while it is typed");
    }

    #[test]
    fn words_are_explained_and_completed() {
        let text = "vcl 4.1;\nimport std;\nbackend b none;\nsub vcl_backend_response {\n    set beresp.ttl = 1s;\n    std.l\n}\n";
        let (mut documents, _) = open(text);
        let hover = ask(&mut documents, "textDocument/hover", 4, 14);
        let shown = hover["contents"]["value"].as_str().unwrap();
        assert!(shown.contains("DURATION") && shown.contains("vcl_backend_response"), "{shown}");
        let list = ask(&mut documents, "textDocument/completion", 5, 9);
        let labels: Vec<_> =
            list.as_array().unwrap().iter().map(|one| one["label"].as_str().unwrap()).collect();
        assert!(labels.contains(&"std.log"), "{labels:?}");
        assert!(!labels.iter().any(|label| label.starts_with("req")), "{labels:?}");
        let hover = ask(&mut documents, "textDocument/hover", 1, 8);
        assert!(hover["contents"]["value"].as_str().unwrap().contains("VOID log"), "{hover}");
        let hover = ask(&mut documents, "textDocument/hover", 0, 1);
        assert!(hover["contents"]["value"].as_str().unwrap().contains("version"), "{hover}");
        assert_eq!(ask(&mut documents, "textDocument/hover", 0, 5), Value::Null);
    }

    #[test]
    fn documents_are_laid_out() {
        let (mut documents, _) = open("vcl 4.1;\nbackend   b none;\n");
        let edits = ask(&mut documents, "textDocument/formatting", 0, 0);
        assert_eq!(edits[0]["newText"], "vcl 4.1;\nbackend b none;\n");
    }

    #[test]
    fn messages_are_read_one_after_the_other() {
        let text = "Content-Length: 2\r\n\r\n{}content-length:4\r\nX: y\r\n\r\nnull";
        let mut input = text.as_bytes();
        assert_eq!(next(&mut input).unwrap(), Some(json!({})));
        assert_eq!(next(&mut input).unwrap(), Some(Value::Null));
        assert_eq!(next(&mut input).unwrap(), None);
        assert!(next(&mut &b"\r\n"[..]).is_err());
        assert!(next(&mut &b"Content-Length: 99999999999\r\n\r\n"[..]).is_err());
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let mut documents = Documents::default();
        let message = json!({ "id": 7, "method": "textDocument/rename" });
        assert_eq!(answers(&mut documents, &message)[0]["error"]["code"], -32601);
        assert!(answers(&mut documents, &json!({ "method": "$/setTrace" })).is_empty());
        assert_eq!(ask(&mut documents, "textDocument/hover", 9, 9), Value::Null);
    }
}
