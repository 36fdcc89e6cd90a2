// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP segments that are lost or late, and connections that do not progress: those of the program,
//! and those of others.

use crate::doubts::{assert_doubt, server};
use crate::example::explain;
use crate::example::{client, requests, sender, socket};
use linerate_record::why::Cause::{NothingWrong, TcpLoss};
use linerate_record::why::ledger::{Whose, ledger};
use linerate_record::why::{Observation, SleepTime, SocketCounts, SocketKind, TcpCounts, Unread};

/// Returns [`server`] with a listening TCP socket too.
fn tcp_server(counts: &[(&str, u64)]) -> Observation {
    let mut seen = server(counts);
    seen.sockets.push(socket(SocketKind::TcpListen, "10.0.0.1:80", None));
    seen
}

/// Returns the counts of a connection with requests and replies.
fn exchanged() -> TcpCounts {
    TcpCounts {
        bytes_received: 5_000,
        bytes_acked: 50_000,
        segments_in: 240,
        segments_out: 240,
        data_segments_in: Some(100),
        data_segments_out: Some(100),
        needless: Some(0),
        ..TcpCounts::default()
    }
}

#[test]
fn segments_behind_gaps_are_not_nothing() {
    let few = tcp_server(&[("Tcp.InSegs", 100_000), ("TcpExt.TCPOFOQueue", 100)]);
    assert_eq!(explain(&few)[0].cause, NothingWrong);
    let many = tcp_server(&[("Tcp.InSegs", 100_000), ("TcpExt.TCPOFOQueue", 3_000)]);
    assert_doubt(&many, "3000 (3 % of all)");
}

#[test]
fn acknowledgements_that_are_always_late_are_not_nothing() {
    let answered = |remote: &str| {
        let mut seen = tcp_server(&[("TcpExt.DelayedACKs", 120), ("Tcp.InSegs", 240)]);
        let mut carried = client(0, exchanged());
        carried.remote = Some(remote.to_owned());
        seen.sockets = vec![socket(SocketKind::TcpListen, "10.0.0.1:80", None), carried];
        seen
    };
    assert_doubt(&answered("10.0.0.2:4000"), "120 were delayed");
    // If the client is on the same machine, they may be the client's.
    assert_eq!(explain(&answered("10.0.0.1:4000"))[0].cause, NothingWrong);
    // Other programs received nearly all segments.
    let mut shared = answered("10.0.0.2:4000");
    shared.protocols.insert("Tcp.InSegs".to_owned(), 25_000);
    assert_eq!(explain(&shared)[0].cause, NothingWrong);
}

#[test]
fn replies_in_hundreds_of_small_segments_are_not_nothing() {
    // Measured with a Python server that writes each row of a reply to a TLS connection.
    let with = |requests: u64, bytes: u64| {
        let mut seen = tcp_server(&[]);
        let tcp = TcpCounts {
            bytes_received: 52_290,
            bytes_acked: bytes,
            segments_in: 47_690,
            segments_out: 280_283,
            data_segments_in: Some(requests),
            data_segments_out: Some(280_283),
            needless: Some(0),
            ..TcpCounts::default()
        };
        seen.sockets.push(client(0, tcp));
        seen
    };
    assert_doubt(&with(830, 25_376_968), "338 segments of 90.5 bytes per request");
    // Full segments, a reply per request, and a feed.
    for seen in [with(830, 400_000_000), with(140_000, 25_376_968), with(3, 25_376_968)] {
        let finding = &explain(&seen)[0];
        assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    }
}

#[test]
fn segments_sent_again_are_not_nothing() {
    let few = tcp_server(&[("Tcp.OutSegs", 100_000), ("Tcp.RetransSegs", 100)]);
    assert_eq!(explain(&few)[0].cause, NothingWrong);
    let many = tcp_server(&[("Tcp.OutSegs", 95_000), ("Tcp.RetransSegs", 5_000)]);
    assert_doubt(&many, "retransmitted 5000 segments");
}

#[test]
fn a_peer_that_does_not_read_is_named() {
    let mut seen = server(&[]);
    let tcp = TcpCounts { rwnd_limited_s: seen.elapsed_s, ..TcpCounts::default() };
    seen.sockets.push(sender(0, tcp));
    assert_doubt(&seen, "is not reading");
}

#[test]
fn losses_of_other_programs_segments_do_not_concern_a_program_without_tcp() {
    let counts = [
        ("Tcp.InSegs", 100_000),
        ("Tcp.OutSegs", 95_000),
        ("Tcp.RetransSegs", 5_000),
        ("TcpExt.TCPOFOQueue", 3_000),
        ("TcpExt.ListenDrops", 4_000),
        ("TcpExt.SyncookiesSent", 50_000),
        ("Udp.InDatagrams", 25_000),
    ];
    let seen = server(&counts);
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    let ledger = ledger(&seen);
    let drops = ledger.places().into_iter().find(|one| one.counter == "TcpExt.ListenDrops");
    assert_eq!(drops.unwrap().whose, Whose::OtherPrograms);
    assert_doubt(&tcp_server(&counts[..6]), "Cannot tell");
}

#[test]
fn segments_that_others_send_again_do_not_concern_the_program() {
    let with = |own: u64| {
        let mut seen = tcp_server(&[("Tcp.OutSegs", 95_000), ("Tcp.RetransSegs", 5_000)]);
        let tcp = TcpCounts { segments_out: 9_000, retransmitted: own, ..exchanged() };
        seen.sockets.push(client(0, tcp));
        seen
    };
    assert_eq!(explain(&with(3))[0].cause, NothingWrong, "{}", explain(&with(3))[0].sentence);
    assert_eq!(explain(&with(300))[0].cause, TcpLoss);
    // Its connections end before they are counted.
    let mut brief = with(3);
    brief.unread.push(Unread {
        what: "tcp_segments".to_owned(),
        reason: "by hand".to_owned(),
        fix: None,
    });
    assert_doubt(&brief, "retransmitted 5000 segments (5 % of all)");
    let evidence = &explain(&brief)[0].evidence;
    let share = evidence.iter().find(|one| one.name == "segments retransmitted").unwrap();
    assert!((share.value - 0.05).abs() < 0.001, "{evidence:?}");
}

#[test]
fn a_client_that_left_does_not_hold_up_the_others() {
    let gone = TcpCounts { retransmitted: 7, busy_s: 5.0, ..TcpCounts::default() };
    let closed = TcpCounts { rwnd_limited_s: 5.0, busy_s: 5.0, ..TcpCounts::default() };
    for tcp in [gone, closed] {
        let with = |others: usize| {
            let mut seen = tcp_server(&[]);
            let stalled = SocketCounts { send_queue_mean: 12_000.0, ..client(0, tcp.clone()) };
            seen.sockets.push(stalled);
            seen.sockets.extend((1..=others).map(|number| client(number, exchanged())));
            seen
        };
        assert_doubt(&with(1), "Cannot tell why 10.0.0.2:4000");
        let finding = &explain(&with(200))[0];
        assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
        let note = "On 1 connection, the peer does not acknowledge or read";
        assert!(finding.sentence.contains(note), "{}", finding.sentence);
        // A proxy waits for each of its servers.
        let mut proxy = with(200);
        proxy.sockets[2].local = "10.0.0.1:40000".to_owned();
        proxy.sockets[2].remote = Some("10.0.0.3:80".to_owned());
        assert_doubt(&proxy, "Cannot tell why 10.0.0.3:80");
    }
}

#[test]
fn requests_that_wait_inside_the_program_come_before_losses_on_the_way() {
    let mut seen = tcp_server(&[("Tcp.OutSegs", 95_000), ("Tcp.RetransSegs", 5_000)]);
    seen.requests = Some(requests(0.9, 0.0));
    assert_doubt(&seen, "Cannot tell what delays the replies");
    let names: Vec<String> = explain(&seen)[0].evidence.iter().map(|it| it.name.clone()).collect();
    assert!(names[0].contains("request pending while all threads sleep"), "{names:?}");
    // The rest of a request of several segments may have been lost.
    seen.protocols.extend([("Tcp.InSegs".to_owned(), 100_000)]);
    seen.protocols.extend([("TcpExt.TCPOFOQueue".to_owned(), 3_000)]);
    let long = TcpCounts { data_segments_in: Some(100_000), ..exchanged() };
    seen.sockets.push(client(0, long));
    assert_doubt(&seen, "arrived out of order");
}

#[test]
fn a_group_of_sleeping_threads_does_not_hide_what_holds_it_up() {
    let mut seen = tcp_server(&[]);
    seen.requests = Some(requests(0.9, 0.0));
    let asleep = |on: &str, share: f64| SleepTime {
        on: on.to_owned(),
        share,
        object: (on == "fdatasync").then(|| "/var/lib/pg_wal/1".to_owned()),
        holder: None,
    };
    let waits = [vec![asleep("futex", 0.9)], vec![asleep("futex", 0.9)]];
    let syncs = vec![asleep("fdatasync", 0.45), asleep("epoll_wait", 0.45)];
    for (tid, asleep_on) in (101..).zip(waits.into_iter().chain([syncs])) {
        let mut thread = seen.threads[0].clone();
        (thread.tid, thread.asleep_on, thread.voluntary_switches) = (tid, asleep_on, 1_000);
        seen.threads.push(thread);
    }
    assert_doubt(&seen, "2 threads sleep in futex most of the time");
    assert_doubt(&seen, "the program's threads sleep in fdatasync (/var/lib/pg_wal/1) 45 % of the");
}

#[test]
fn a_client_that_left_is_noted_next_to_streams() {
    let mut seen = tcp_server(&[]);
    let stream = TcpCounts {
        bytes_acked: 5_000_000,
        bytes_received: 100,
        segments_out: 3_500,
        segments_in: 1_800,
        app_limited_share: 1.0,
        ..TcpCounts::default()
    };
    seen.sockets.extend((1..=200).map(|number| client(number, stream.clone())));
    let sentence = |seen: &Observation| explain(seen).swap_remove(0).sentence;
    assert!(sentence(&seen).contains("sends all that it has to send"), "{}", sentence(&seen));
    let closed = TcpCounts { rwnd_limited_s: 5.0, busy_s: 5.0, ..TcpCounts::default() };
    seen.sockets.push(SocketCounts { send_queue_mean: 12_000.0, ..client(0, closed) });
    assert!(sentence(&seen).contains("sends all that it has to send"), "{}", sentence(&seen));
    assert!(sentence(&seen).contains("On 1 connection, the peer does not"), "{}", sentence(&seen));
}
