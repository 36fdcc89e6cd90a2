// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::profiling::tests::thread;

fn process(pid: u32, name: &str, is_busy: bool) -> ThreadActivity {
    let mut main = ThreadActivity { pid, tid: pid, name: name.to_owned(), ..thread(0.5, 0.3) };
    if !is_busy {
        main.time.clear();
    }
    main
}

#[test]
fn the_process_that_works_is_named_and_not_the_one_that_waits_for_it() {
    let shell = process(900, "timeout", false);
    // PIDs wrap around at the end of their range: the child has the smaller one.
    let child = process(40, "iperf3", true);
    let name = |threads: &[ThreadActivity]| main_name(threads, &[900, 40]);
    assert_eq!(name(&[child.clone(), shell.clone()]).as_deref(), Some("iperf3"));
    // A program that does the work itself, and one whose processes are all idle.
    assert_eq!(name(&[child, process(900, "nginx", true)]), None);
    assert_eq!(name(&[process(40, "iperf3", false), shell]), None);
    // The main thread of the process that works has ended, so its name is unknown.
    let worker = ThreadActivity { tid: 41, ..process(40, "worker", true) };
    assert_eq!(name(&[worker, process(900, "sh", false)]), None);
    assert_eq!(main_name(&[], &[]), None);
}

#[test]
fn acknowledgements_that_are_dropped_on_purpose_are_no_drops() {
    let listening = |drops| SocketCounts {
        kind: SocketKind::TcpListen,
        inode: 1,
        pid: 1,
        local: "0.0.0.0:80".to_owned(),
        remote: None,
        peer_pid: None,
        reads: None,
        receive_queue_mean: 0.0,
        receive_queue_max: 0,
        receive_queue_share: None,
        receive_buffer: None,
        send_queue_mean: 0.0,
        send_buffer: None,
        drops: Some(drops),
        tcp: None,
    };
    let mut sockets = vec![listening(100), listening(30)];
    let protocols = BTreeMap::from([("TcpExt.TCPDeferAcceptDrop".to_owned(), 100)]);
    exclude_deferred(&mut sockets, &protocols);
    assert_eq!([sockets[0].drops, sockets[1].drops], [Some(0), Some(20)]);
    exclude_deferred(&mut sockets, &BTreeMap::new());
    assert_eq!(sockets[1].drops, Some(20));
}
