//! `[[bandwidth]]`: responses that are sent no faster than a rule says.

use crate::client::{get, get_with};
use crate::h2;
use crate::harness::{Setup, run};
use crate::origin::{Origin, ranged};
use std::time::{Duration, Instant};

const LENGTH: usize = 400_000;

fn content() -> Vec<u8> {
    (0..LENGTH).map(|index| (index * 7 / 3) as u8).collect()
}

fn origin() -> Origin {
    Origin::serve(|asked| ranged(asked, &content(), "\"a\"", &["Cache-Control: max-age=60"]))
}

fn setup(origin: &Origin) -> Setup {
    Setup::of(origin).and(
        "[[bandwidth]]\npath = \"/slow/\"\nrate = \"1MB\"\nafter = \"100KB\"\n\
         [[bandwidth]]\npath = \"/all/\"\nrate = \"1MB\"\n",
    )
}

#[test]
fn a_response_takes_the_time_its_rate_says_by_every_protocol() {
    run(async {
        let origin = origin();
        let node = setup(&origin).start();
        let mut client = h2::connect(&node).await;
        // Missed, hit, a range, and a stream.
        for (target, over, least_ms) in [
            ("/slow/a", "miss", 280),
            ("/slow/a", "hit", 280),
            ("/all/a?b", "miss", 380),
            ("/%61ll/a", "miss", 380),
            ("/slow/a", "h2", 280),
        ] {
            let begun = Instant::now();
            let (status, body) = match over {
                "h2" => {
                    let answer = h2::get(&mut client, "http", target).await;
                    (answer.status, answer.body)
                }
                _ => {
                    let answer = get(&node, target).await;
                    assert!(answer.cache().contains(if over == "hit" { "; hit" } else { "fwd" }));
                    (answer.status, answer.body)
                }
            };
            let took = begun.elapsed();
            assert_eq!((status, body.len()), (200, LENGTH), "{target} {over}");
            assert!(body == content(), "{target} {over}: other bytes");
            assert!(took >= Duration::from_millis(least_ms - 20), "{target} {over}: {took:?}");
        }
        let begun = Instant::now();
        let part = get_with(&node, "/slow/a", &["Range: bytes=100000-299999"]).await;
        assert!(part.status == 206 && part.body[..] == content()[100_000..300_000]);
        assert!(begun.elapsed() >= Duration::from_millis(80));
    });
}

#[test]
fn a_client_that_leaves_a_slow_response_is_noticed() {
    run(async {
        let origin = origin();
        let node = setup(&origin).and("[[bandwidth]]\npath = \"/still/\"\nrate = \"1B\"\n").start();
        let mut client = crate::client::Client::to(&node).await;
        client.ask("GET", "/still/a", &[]).await;
        client.head().await.expect("the head does not wait");
        drop(client);
        crate::harness::until(|| node.count("connections_closed") == 1).await;
    });
}
