// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::profiling::tests::thread;
use crate::quotas::Quotas;
use crate::threads::Threads;
use crate::tree::put;

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

pub(super) fn socket(kind: SocketKind, drops: u64) -> SocketCounts {
    SocketCounts {
        kind,
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
        port_sharers: None,
        tcp: None,
    }
}

#[test]
fn acknowledgements_that_are_dropped_on_purpose_are_no_drops() {
    let listening = |drops| socket(SocketKind::TcpListen, drops);
    let mut sockets = vec![listening(100), listening(30)];
    let protocols = BTreeMap::from([("TcpExt.TCPDeferAcceptDrop".to_owned(), 100)]);
    exclude_deferred(&mut sockets, &protocols);
    assert_eq!([sockets[0].drops, sockets[1].drops], [Some(0), Some(20)]);
    exclude_deferred(&mut sockets, &BTreeMap::new());
    assert_eq!(sockets[1].drops, Some(20));
}

#[test]
fn the_throttled_time_of_a_group_is_divided_over_the_cpus_of_all_its_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Root::new(folder.path());
    let stat = |ms: u64| {
        let text = format!("nr_periods 1\nnr_throttled 1\nthrottled_usec {}\n", 1000 * ms);
        put(&root, "sys/fs/cgroup/a/cpu.stat", &text);
    };
    put(&root, "sys/fs/cgroup/a/cpu.max", "20000 100000\n");
    stat(0);
    let (mut quotas, mut threads) = (Quotas::default(), Threads::default());
    // Field 39 of proc(5) is the CPU.
    let set = |pid: u32, delay_ms: u64| {
        let fields =
            (4..=52).map(|field| if field == 39 { pid.to_string() } else { "0".to_owned() });
        let fields: Vec<String> = fields.collect();
        let task = format!("proc/{pid}/task/{pid}");
        put(&root, &format!("{task}/stat"), &format!("{pid} (a) R {}", fields.join(" ")));
        put(&root, &format!("{task}/schedstat"), &format!("0 {} 1\n", delay_ms * 1_000_000));
        put(&root, &format!("proc/{pid}/cgroup"), "0::/a\n");
    };
    let pids: Vec<u32> = (1..=4).collect();
    for &pid in &pids {
        set(pid, 0);
        quotas.add(&root, pid);
    }
    threads.look(&root, &pids, 0, 0);
    pids.iter().for_each(|pid| set(*pid, 80));
    stat(4 * 80);
    threads.read(&root, 0, 100_000_000);
    quotas.read(&root, 0);
    let found = throttled(&threads.all, &quotas);
    assert_eq!(found.into_values().collect::<Vec<_>>(), [80e6; 4]);
}

#[test]
fn run_times_on_tickless_cpus_are_reported_as_coarse() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Root::new(folder.path());
    let fields: Vec<&str> = (4..=52).map(|field| if field == 39 { "3" } else { "0" }).collect();
    put(&root, "proc/5/task/5/stat", &format!("5 (a) R {}", fields.join(" ")));
    let mut threads = Threads::default();
    threads.look(&root, &[5], 0, 0);
    put(&root, "proc/5/task/5/schedstat", "1000 0 1\n");
    threads.read(&root, 0, 1000);
    let found = missing::coarse_times(&threads.all, &[2, 3]).expect("a note");
    assert!(found.reason.starts_with("on CPU 3, which"), "{}", found.reason);
    assert_eq!(missing::coarse_times(&threads.all, &[2]), None);
}
