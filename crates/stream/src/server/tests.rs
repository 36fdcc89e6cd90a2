// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::protocol::tests::test;
use std::sync::mpsc;

fn reply(line: &mut Line) -> Reply {
    loop {
        if let Some(reply) = line.poll("in a test").expect("the server serves") {
            return reply;
        }
    }
}

/// Connects to a server without a token, and returns its first reply.
fn greeted(service: &Service) -> (Line, Reply) {
    let stream = TcpStream::connect(service.address()).expect("a connection");
    let mut line = Line::new(stream).expect("a control connection");
    line.send(&Hello { linerate_stream: VERSION, token: None }).expect("it is sent");
    let first = reply(&mut line);
    (line, first)
}

#[test]
fn a_rejected_client_does_not_end_a_server_for_one() {
    let limits = Limits { token: None, is_for_one: true };
    let service = serve(SocketAddr::from(([127, 0, 0, 1], 0)), limits).expect("a server");
    let stop = AtomicBool::new(false);
    let (sender, reports) = mpsc::channel();
    let report = |text: &str| {
        // The test may have failed already.
        let _ = sender.send(text.to_owned());
    };
    std::thread::scope(|scope| {
        scope.spawn(|| service.run(&stop, &report));
        let (mut first, welcome) = greeted(&service);
        assert!(matches!(welcome, Reply::Welcome), "{welcome:?}");
        let (_second, refused) = greeted(&service);
        assert!(matches!(refused, Reply::Refused { .. }), "{refused:?}");
        // The report comes after the decision whether the server ends.
        let reported = reports.recv().expect("a report");
        assert!(reported.contains("busy"), "{reported}");
        // A server that ends may still reply once.
        for _ in 0..2 {
            first.send(&Order::Test(Test { message: 0, ..test() })).expect("it is sent");
            let failed = reply(&mut first);
            assert!(matches!(failed, Reply::Failed { .. }), "{failed:?}");
        }
    });
}

#[test]
fn tokens_are_compared_whole() {
    assert!(is_same(None, None));
    assert!(is_same(None, Some("any")));
    assert!(is_same(Some("ab"), Some("ab")));
    for wrong in [None, Some(""), Some("a"), Some("abc"), Some("ax")] {
        assert!(!is_same(Some("ab"), wrong), "{wrong:?}");
    }
}
