//! What may go wrong on the way to a cluster: a server under TLS that answers as a test says.

use super::*;
use freshet_net::tls::client::{ClientOptions, client_config};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use tempfile::TempDir;

/// How long a client here waits.
const SHORT: Duration = Duration::from_millis(400);

/// A certificate that is an authority of its own, in `ca.pem` of a folder.
fn certify(folder: &TempDir) -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(folder.path().join("ca.pem"), made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let trusting = ClientOptions { verify: false, ..ClientOptions::default() };
    let provider = Arc::clone(client_config(&trusting).unwrap().crypto_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    Arc::new(config)
}

/// What is written to each connection, answer by answer, and then: whether it is kept open.
type Script = Vec<(Vec<Vec<u8>>, bool)>;

/// Gives heads of requests as they come, of which each begins with the number of its connection.
fn serve(listener: TcpListener, config: Arc<ServerConfig>, script: Script) -> Receiver<String> {
    let (seen, sees) = channel();
    spawn(move || {
        let mut kept = Vec::new();
        for (number, (answers, is_kept)) in script.into_iter().enumerate() {
            let (socket, _) = listener.accept().unwrap();
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, socket);
            for answer in answers {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read(&mut byte).unwrap_or(0) == 0 {
                        break;
                    }
                    head.push(byte[0]);
                }
                let _ = seen.send(format!("{number} {}", String::from_utf8_lossy(&head)));
                // A client that has had enough is gone.
                let _ = stream.write_all(&answer).and_then(|()| stream.flush());
            }
            if is_kept {
                kept.push(stream);
            }
        }
        sleep(Duration::from_secs(30));
    });
    sees
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A client of a server that does as the script says.
fn client(folder: &TempDir, token: Option<PathBuf>, script: Script) -> (Client, Receiver<String>) {
    let config = certify(folder);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let seen = serve(listener, config, script);
    let mut access = Access::new(&api, folder.path().join("ca.pem"), None, token).unwrap();
    access.server.timeouts.first_byte = SHORT;
    (Client::new(access).unwrap(), seen)
}

fn why(found: Result<Value, ClusterError>) -> String {
    match found {
        Err(ClusterError::Away(why)) => why,
        other => panic!("it is taken for an answer: {other:?}"),
    }
}

#[test]
fn a_connection_is_kept_and_a_new_token_is_told_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "first\n").unwrap();
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n";
    let script = vec![(vec![answer("200 OK", "{}"), chunked.to_vec()], true)];
    let (client, seen) = client(&folder, Some(token.clone()), script);
    assert_eq!(client.list("/a?x=y", true).unwrap(), serde_json::json!({}));
    fs::write(&token, "second").unwrap();
    assert_eq!(client.list("/b", false).unwrap(), serde_json::json!([]));
    let [first, second] = [seen.recv().unwrap(), seen.recv().unwrap()];
    assert!(first.starts_with("0 GET /a?x=y HTTP/1.1"), "{first}");
    assert!(first.contains("Bearer first\r\n") && second.contains("Bearer second\r\n"), "{second}");
    assert!(
        second.starts_with("0 GET /b ") && second.contains("PartialObjectMetadataList"),
        "{second}"
    );
    fs::write(&token, "of\ntwo lines").unwrap();
    assert!(why(client.list("/c", true)).contains("this is no token"));
    fs::remove_file(&token).unwrap();
    assert!(why(client.list("/d", true)).contains("token: No such file"));
}

#[test]
fn what_is_not_whole_or_too_much_or_too_late_is_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut huge =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", ANSWER_BYTES_MAX + 1).into_bytes();
    huge.resize(huge.len() + ANSWER_BYTES_MAX + 1, b' ');
    let broken_off = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}".to_vec();
    let faults = [
        (broken_off, false, "the cluster cannot be asked at localhost"),
        (Vec::new(), false, "closed the connection"),
        (b"SSH-2.0-x\r\n\r\n".to_vec(), true, "the cluster cannot be asked"),
        (huge, true, "longer than 8388608 bytes"),
        (Vec::new(), true, "within"),
        // Its head, and no more.
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_vec(), true, "within"),
        (answer("503 Service Unavailable", "<html>"), true, "503"),
        (answer("302 Found", ""), false, "302"),
        (answer("200 OK", "<html>"), true, "no JSON"),
    ];
    let script = faults.iter().map(|(bytes, is_kept, _)| (vec![bytes.clone()], *is_kept)).collect();
    let (client, seen) = client(&folder, None, script);
    for (number, (_, _, words)) in faults.iter().enumerate() {
        let found = client.list("/x", true);
        let said = match found {
            Err(error) => error.to_string(),
            Ok(found) => panic!("{words}: {found}"),
        };
        assert!(said.contains(words), "{number}: {said}");
        // Each is asked on a connection of its own: nothing of the last is left on it.
        let head = seen.recv().unwrap();
        assert!(head.starts_with(&format!("{number} ")), "{number}: {head}");
    }
}

#[test]
fn another_authority_is_believed_when_the_file_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (client, _seen) = client(&folder, None, vec![(vec![answer("200 OK", "{}")], true); 4]);
    let right = fs::read(folder.path().join("ca.pem")).unwrap();
    client.list("/x", true).unwrap();
    certify(&folder);
    // The connection there is was believed; the next one is not.
    assert!(why(client.list("/x", true)).contains("within"), "nobody answers on it");
    assert!(why(client.list("/x", true)).contains("certificate was not accepted"));
    fs::write(folder.path().join("ca.pem"), right).unwrap();
    assert!(why(client.list("/x", true)).contains("certificate was not accepted"));
    client.list("/x", true).unwrap();
}

#[test]
fn a_server_that_has_just_begun_refuses_nobody_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let no = || answer("403 Forbidden", "{\"message\": \"pods is forbidden\"}");
    let yes = || answer("200 OK", "{}");
    let script = vec![
        (vec![no(), answer("500 Internal Server Error", "[-]poststarthook failed")], true),
        (vec![no(), yes(), yes(), no(), yes(), no()], true),
    ];
    let (client, seen) = client(&folder, None, script);
    let said = why(client.list("/x", true));
    assert!(said.contains("pods is forbidden (it is not ready)"), "{said}");
    assert_eq!(client.list("/x", true).unwrap(), serde_json::json!({}));
    let refused = client.list("/x", true);
    assert!(matches!(refused, Err(ClusterError::Forbidden(_))), "{refused:?}");
    let asked: Vec<String> =
        seen.try_iter().map(|head| head.split(' ').nth(2).unwrap().to_owned()).collect();
    assert_eq!(asked, ["/x", "/readyz", "/x", "/readyz", "/x", "/x", "/readyz", "/x"]);
}
