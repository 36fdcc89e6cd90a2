// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use std::fs;

fn tree(processes: &[(u32, &str, char, u32, u64)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (pid, name, state, parent, flags) in processes {
        let at = folder.path().join(format!("proc/{pid}"));
        fs::create_dir_all(at.join("fd")).expect("a folder");
        let zeros = "0 ".repeat(43);
        let stat = format!("{pid} ({name}) {state} {parent} 1 1 0 -1 {flags} {zeros}");
        fs::write(at.join("stat"), stat).expect("a file");
        fs::write(at.join("status"), format!("Tgid:\t{pid}\nUid:\t0\t0\t0\t0\n")).expect("file");
    }
    folder
}

#[test]
fn what_may_not_be_watched_is_refused_with_its_reason() {
    let folder = tree(&[
        (1, "init", 'S', 0, 0),
        (2, "kthreadd", 'S', 0, 0x0020_8040),
        (9, "gone) Z", 'Z', 1, 0),
    ]);
    let root = Root::new(folder.path());
    fs::write(folder.path().join("proc/1/status"), "Tgid:\t1\nUid:\t0\t0\t0\t0\n").unwrap();
    assert_eq!(check(&root, 1).unwrap().name, "init");
    let name = "kthreadd".to_owned();
    assert_eq!(check(&root, 2), Err(ObserveError::KernelThread { pid: 2, name }));
    assert_eq!(check(&root, 9), Err(ObserveError::Zombie(9)));
    assert_eq!(check(&root, 10), Err(ObserveError::Gone(10)));
    let bare = tempfile::tempdir().unwrap();
    assert_eq!(check(&Root::new(bare.path()), 1), Err(ObserveError::NoProc));
    fs::write(folder.path().join("proc/1/status"), "Tgid:\t4\nUid:\t0\t0\t0\t0\n").unwrap();
    assert_eq!(check(&root, 1), Err(ObserveError::Thread { tid: 1, pid: 4 }));
}

#[test]
fn a_process_whose_main_thread_has_exited_has_not_ended() {
    let folder = tree(&[(10, "worker", 'S', 1, 0)]);
    let root = Root::new(folder.path());
    let set = |threads: u32| {
        let (before, after) = ("0 ".repeat(10), "0 ".repeat(32));
        let stat = format!("9 (server) Z 1 1 1 0 -1 0 {before}{threads} {after}");
        crate::tree::put(&root, "proc/9/stat", &stat);
    };
    set(2);
    crate::tree::put(&root, "proc/9/status", "Tgid:\t9\nUid:\t0\t0\t0\t0\n");
    for tid in ["9", "10"] {
        fs::create_dir_all(folder.path().join("proc/9/task").join(tid)).unwrap();
    }
    std::os::unix::fs::symlink("socket:[55]", folder.path().join("proc/10/fd/3")).unwrap();
    assert_eq!(check(&root, 9).unwrap().name, "server");
    assert_eq!(named(&root, "server"), Ok(vec![9]));
    // Its descriptors are those of the other thread.
    assert_eq!(open_id(&root, 9), 10);
    assert_eq!(crate::descriptors::Open::of(&root, 9).sockets, [55]);
    set(1);
    assert_eq!(check(&root, 9), Err(ObserveError::Zombie(9)));
    assert_eq!(open_id(&root, 9), 9);
}

#[test]
fn names_are_those_of_the_kernel_or_of_the_file() {
    let folder = tree(&[(5, "nginx", 'S', 1, 0), (6, "worker", 'S', 5, 0), (7, "b", 'Z', 1, 0)]);
    let root = Root::new(folder.path());
    std::os::unix::fs::symlink("/usr/sbin/b (deleted)", folder.path().join("proc/6/exe")).unwrap();
    assert_eq!(named(&root, "nginx"), Ok(vec![5]));
    assert_eq!(named(&root, "b"), Ok(vec![6]));
    assert_eq!(named(&root, "c"), Err(ObserveError::NoSuchName("c".to_owned())));
}

#[test]
fn descendants_are_found_before_and_while_watching() {
    let folder = tree(&[
        (1, "a", 'S', 0, 0),
        (5, "b", 'S', 1, 0),
        (6, "c", 'S', 5, 0),
        (7, "d", 'S', 6, 0),
        (8, "e", 'S', 1, 0),
    ]);
    let root = Root::new(folder.path());
    let mut family = Family::new(&root, &[5]);
    assert_eq!(family.pids, [5, 6, 7]);
    assert!(family.look(&root).is_empty());
    let more = tree(&[(9, "f", 'S', 7, 0)]);
    fs::rename(more.path().join("proc/9"), folder.path().join("proc/9")).unwrap();
    assert_eq!(family.look(&root), [9]);
}

#[test]
fn ended_processes_are_forgotten_and_those_with_their_ids_are_strangers() {
    let folder = tree(&[(1, "a", 'S', 0, 0), (5, "b", 'S', 1, 0), (6, "c", 'S', 5, 0)]);
    let root = Root::new(folder.path());
    let begin = |pid: u32, parent: u32, began: u64| {
        let (zeros, after) = ("0 ".repeat(12), "0 ".repeat(30));
        let at = folder.path().join(format!("proc/{pid}"));
        fs::create_dir_all(&at).unwrap();
        let text = format!("{pid} (x) S {parent} 1 1 0 -1 0 {zeros}{began} {after}");
        fs::write(at.join("stat"), text).unwrap();
    };
    let end = |pid: u32| fs::remove_dir_all(folder.path().join(format!("proc/{pid}"))).unwrap();
    begin(5, 1, 70);
    begin(6, 5, 80);
    let mut family = Family::new(&root, &[5]);
    // Within a window, a child that has ended is still listed.
    end(6);
    family.look(&root);
    assert_eq!(family.pids, [5, 6]);
    family.forget_ended();
    assert_eq!(family.pids, [5]);
    // Its ID goes to a process of another program, and that of the program itself, too.
    begin(6, 1, 900);
    end(5);
    family.look(&root);
    family.forget_ended();
    assert_eq!(family.pids, [5]);
    begin(5, 1, 950);
    family.look(&root);
    assert!(family.pids.is_empty(), "{:?}", family.pids);
}

#[test]
fn an_id_that_is_used_again_within_a_window_is_not_adopted() {
    let folder = tree(&[(1, "a", 'S', 0, 0), (5, "b", 'S', 1, 0), (6, "c", 'S', 5, 0)]);
    let root = Root::new(folder.path());
    let mut family = Family::new(&root, &[5]);
    let at = folder.path().join("proc/6");
    fs::remove_dir_all(&at).unwrap();
    family.look(&root);
    fs::create_dir_all(&at).unwrap();
    let (zeros, after) = ("0 ".repeat(12), "0 ".repeat(30));
    fs::write(at.join("stat"), format!("6 (x) S 1 1 1 0 -1 0 {zeros}900 {after}")).unwrap();
    assert!(family.look(&root).is_empty());
    assert_eq!(family.pids, [5]);
    // A new child with the ID of an old one is a child.
    fs::remove_dir_all(&at).unwrap();
    family.look(&root);
    fs::create_dir_all(&at).unwrap();
    fs::write(at.join("stat"), format!("6 (x) S 5 1 1 0 -1 0 {zeros}950 {after}")).unwrap();
    assert_eq!(family.look(&root), [6]);
}

#[test]
fn the_time_of_processes_counts_from_the_start_of_the_window() {
    let folder = tree(&[(5, "b", 'S', 1, 0), (6, "c", 'S', 5, 0)]);
    let root = Root::new(folder.path());
    let set = |pid: u32, own: u64, children: u64| {
        let zeros = "0 ".repeat(39);
        let text = format!("{pid} (b) S 5 1 1 0 -1 0 0 0 0 0 {own} 0 {children} 0 {zeros}");
        fs::write(folder.path().join(format!("proc/{pid}/stat")), text).unwrap();
    };
    set(5, 100, 0);
    set(6, 30, 0);
    let mut family = Family::new(&root, &[5]);
    // Before the window, process 5 runs and waits for its child.
    set(5, 180, 40);
    fs::remove_dir_all(folder.path().join("proc/6")).unwrap();
    family.begin(&root);
    set(5, 190, 45);
    family.look(&root);
    assert_eq!(family.cpu_time(&root, 5), Some(0.1));
    assert_eq!(family.children_cpu_time(&root), 0.05);
}

#[test]
fn the_time_of_children_counts_from_the_first_look() {
    let folder = tree(&[(5, "b", 'S', 1, 0), (6, "c", 'S', 5, 0)]);
    let root = Root::new(folder.path());
    let set = |pid: u32, own: u64, children: [u64; 2]| {
        let [user, system] = children;
        let zeros = "0 ".repeat(39);
        let parent = if pid == 6 { 5 } else { 1 };
        let text =
            format!("{pid} (b) S {parent} 1 1 0 -1 0 0 0 0 0 {own} 0 {user} {system} {zeros}");
        fs::write(folder.path().join(format!("proc/{pid}/stat")), text).unwrap();
    };
    set(5, 100, [300, 200]);
    set(6, 80, [0, 0]);
    let mut family = Family::new(&root, &[5]);
    assert_eq!(family.children_cpu_time(&root), 0.0);
    set(5, 110, [330, 210]);
    assert_eq!(family.cpu_time(&root, 5), Some(0.1));
    // The time of a child that started and ended in between is included.
    let brief = tree(&[(9, "f", 'S', 5, 0)]);
    fs::rename(brief.path().join("proc/9"), folder.path().join("proc/9")).unwrap();
    assert_eq!(family.look(&root), [9]);
    fs::remove_dir_all(folder.path().join("proc/9")).unwrap();
    family.look(&root);
    assert_eq!(family.children_cpu_time(&root), 0.4);
    // The time that a child had used before the first scan is not included.
    fs::remove_dir_all(folder.path().join("proc/6")).unwrap();
    set(5, 110, [390, 260]);
    family.look(&root);
    assert_eq!(family.children_cpu_time(&root), 0.7);
}
