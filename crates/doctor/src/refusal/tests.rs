// SPDX-License-Identifier: MIT OR Apache-2.0
//! Produces every cause, with a simulated kernel that refuses events and with synthetic facts.

use super::*;
use crate::host_facts::{CoreUnit, DeviceTree, Installer, UserAccess};
use linerate_counters::refusal::Attempt;
use linerate_linux::errno::*;
use linerate_linux::perf::{
    HARDWARE, HW_CACHE, OpenError, RAW, Request, SOFTWARE, Selector, Target,
};
use linerate_machine::Platform;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tempfile::TempDir;

fn event(name: &str, class: Class, selector: Selector) -> Event {
    Event {
        name: name.to_owned(),
        native: None,
        unit: "events",
        class,
        selector,
        is_user_only: false,
        unit_cpus: Vec::new(),
    }
}

fn cycles() -> Event {
    event("cycles", Class::Hardware, Selector::new(HARDWARE, 0))
}

fn task_clock() -> Event {
    event("task_clock_ns", Class::Software, Selector::new(SOFTWARE, 1))
}

/// An unprivileged process on a machine with counters, at the default paranoid level.
fn usual() -> Facts {
    Facts {
        paranoid: Some(2),
        has_units: true,
        capabilities: Some(0),
        has_seccomp_filter: Some(false),
        core_units: vec![CoreUnit { name: "cpu".to_owned(), kind: RAW, cpus: None }],
        qemu: Some("/usr/bin/qemu-x86_64".into()),
        ..Facts::default()
    }
}

/// Like [`usual`], but for a process of root.
fn root() -> Facts {
    Facts { capabilities: Some(0x1ff_ffff_ffff), ..usual() }
}

fn without_counters() -> Facts {
    Facts { core_units: vec![], ..root() }
}

fn guest(hypervisor: &str) -> Facts {
    let platform = Platform { hypervisor: Some(hypervisor.to_owned()), emulated: Some(false) };
    Facts { platform, ..without_counters() }
}

/// Returns `facts` without privileges. Missing privileges must not be given as the reason if there
/// are no counters.
fn unprivileged(facts: Facts) -> Facts {
    Facts { capabilities: Some(0), has_seccomp_filter: Some(true), ..facts }
}

fn hybrid() -> Facts {
    let unit = |name: &str, kind, cpus: [u32; 2]| CoreUnit {
        name: name.to_owned(),
        kind,
        cpus: Some((cpus[0]..=cpus[1]).collect()),
    };
    let core_units = vec![unit("cpu_core", RAW, [0, 7]), unit("cpu_atom", 10, [8, 15])];
    Facts { core_units, ..root() }
}

/// A request, with defaults that most cases share.
struct Case {
    event: Event,
    request: Request,
    target: Target,
    group_len: usize,
    is_known: bool,
}

impl Case {
    fn new(event: Event) -> Self {
        let request = Request::new(event.selector);
        Self { event, request, target: Target::CurrentThread, group_len: 0, is_known: true }
    }

    fn on(self, target: Target) -> Self {
        Self { target, ..self }
    }

    fn user_only(self) -> Self {
        Self { request: Request { exclude_kernel: true, ..self.request }, ..self }
    }

    /// Returns the explanation for the kernel's error `errno`.
    fn refused(&self, errno: i32, facts: Facts) -> Explanation {
        self.refused_in(errno, &HostFacts::from_facts(facts))
    }

    fn refused_in(&self, errno: i32, around: &HostFacts) -> Explanation {
        let &Self { request, target, group_len, .. } = self;
        let attempt = Attempt { error: OpenError { errno }, request, target, group_len };
        let explainer = Explainer::new(around, self.is_known);
        explainer.explain(&Refusal::NotOpened(attempt), &self.event)
    }
}

/// Returns a machine with counters and the default paranoid level, on which this process belongs to
/// user `own` and process 7 to user `theirs`.
fn near_process_7(own: &str, theirs: &str, capabilities: &str) -> TempDir {
    let status = |id: &str| format!("Uid:\t{id}\t{id}\t{id}\t{id}\nGid:\t5\t5\t5\t5\n");
    let own = format!("{}CapEff:\t{capabilities}\nSeccomp:\t0\n", status(own));
    let root = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("proc/sys/kernel/perf_event_paranoid", "2\n"),
        ("proc/self/status", &own),
        ("proc/self/uid_map", "         0          0 4294967295\n"),
        ("proc/7/status", &status(theirs)),
        ("sys/bus/event_source/devices/cpu/type", "4\n"),
    ] {
        let file = root.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    root
}

/// Returns the explanation for counting process 7's CPU time.
fn process_7(own: &str, theirs: &str, capabilities: &str) -> Explanation {
    let root = near_process_7(own, theirs, capabilities);
    let case = Case::new(task_clock()).on(Target::Thread(7));
    case.refused_in(EACCES, &HostFacts::from(root.path()))
}

/// The device tree of a QEMU board with a Cortex-A7: an empty node.
fn empty_node() -> DeviceTree {
    DeviceTree::EmptyNode { path: "/pmu".to_owned(), wanted: "arm,cortex-a7-pmu".to_owned() }
}

fn no_node() -> DeviceTree {
    DeviceTree::NoNode { wanted: "arm,cortex-a76-pmu".to_owned() }
}

/// Refusals because the machine has no PMU.
fn of_machines() -> Vec<(Cause, Explanation)> {
    let refused = |facts: Facts| Case::new(cycles()).refused(ENOENT, facts);
    let tree = |device_tree, facts| Facts { device_tree, ..facts };
    let node = DeviceTree::Node("arm,cortex-a720-pmu".to_owned());
    vec![
        (Cause::NoVirtualPmu, refused(guest("KVM"))),
        (Cause::NoVirtualPmu, refused(tree(no_node(), guest("Xen")))),
        (Cause::NoVirtualPmu, Case::new(cycles()).refused(EACCES, unprivileged(guest("KVM")))),
        (Cause::NoPmuDriver, refused(without_counters())),
        (Cause::NoPmuDriver, refused(tree(node, without_counters()))),
        (Cause::DeviceTreeWithoutPmu, refused(tree(no_node(), without_counters()))),
        (Cause::DeviceTreeWithoutPmu, refused(tree(empty_node(), guest("QEMU TCG")))),
    ]
}

/// Refusals due to missing privileges.
fn of_rights() -> Vec<(Cause, Explanation)> {
    let cycles = || Case::new(cycles());
    let filtered = || Facts { has_seccomp_filter: Some(true), ..root() };
    let closed = || Facts { paranoid: Some(4), ..usual() };
    let open = || Facts { paranoid: Some(-1), ..usual() };
    let namespace = || Facts { is_in_user_namespace: true, ..root() };
    vec![
        (Cause::Paranoid, cycles().refused(EACCES, usual())),
        (Cause::Paranoid, cycles().user_only().refused(EACCES, closed())),
        (Cause::Paranoid, cycles().user_only().on(Target::Cpu(1)).refused(EACCES, usual())),
        (Cause::Paranoid, cycles().refused(EACCES, namespace())),
        (Cause::Seccomp, cycles().refused(EPERM, filtered())),
        // Lowering the paranoid level would not help: Docker's filter is applied before the
        // kernel's own check.
        (Cause::Seccomp, cycles().refused(EPERM, Facts { capabilities: Some(0), ..filtered() })),
        (Cause::Seccomp, cycles().refused(ENOSYS, filtered())),
        (Cause::MissingCapability, cycles().on(Target::Thread(77)).refused(EACCES, open())),
        (Cause::MissingCapability, cycles().refused(EPERM, open())),
        (Cause::MissingCapability, process_7("1000", "0", "0")),
        (Cause::Other, cycles().refused(EACCES, root())),
    ]
}

/// Returns a refusal in the simulator's own words.
fn simulator_lacks(fix: &str) -> Explanation {
    Explanation::new(Cause::NotSimulated, "the simulator has no such event", fix)
}

fn not_simulated(facts: Facts) -> Explanation {
    simulator_lacks(&format!("{BY_HARDWARE} -e dtlb_misses -- COMMAND")).elsewhere(&facts)
}

/// Refusals of a single event on hosts where others can be counted.
fn of_events() -> Vec<(Cause, Explanation)> {
    let atom = event("cpu_atom/0x3c/", Class::Hardware, Selector::new(10, 0x3c));
    let group = Case { group_len: 6, ..Case::new(cycles()) };
    let unknown = Case { is_known: false, ..Case::new(cycles()) };
    let memory = event("uncore_imc/reads/", Class::Hardware, Selector::new(23, 4));
    let armv6 = CoreUnit { name: "armv6_1176".to_owned(), kind: RAW, cpus: None };
    let arm1176 = Facts { core_units: vec![armv6], ..usual() };
    let never = |facts| never_scheduled(&cycles(), &HostFacts::from_facts(facts));
    let on_atom = never_scheduled(&atom, &HostFacts::from_facts(hybrid()));
    vec![
        (Cause::HybridCores, Case::new(atom).on(Target::Cpu(3)).refused(ENOENT, hybrid())),
        (Cause::HybridCores, on_atom),
        (Cause::TooManyEvents, group.refused(EINVAL, root())),
        (Cause::UnknownProcessor, unknown.refused(ENOENT, root())),
        (Cause::UnsupportedEvent, Case::new(cycles()).refused(ENOENT, root())),
        (Cause::UnsupportedEvent, Case::new(cycles()).user_only().refused(EOPNOTSUPP, root())),
        (Cause::UnsupportedEvent, Case::new(cycles()).refused(EINVAL, arm1176)),
        (Cause::UnsupportedEvent, Case::new(task_clock()).refused(EINVAL, root())),
        (Cause::UnsupportedEvent, Case::new(memory.clone()).refused(EINVAL, root())),
        (Cause::UnsupportedEvent, whole_units(&memory, &[0, 16])),
        (Cause::UnsupportedEvent, Case::new(memory).on(Target::Cpu(1)).refused(EINVAL, root())),
        (Cause::NeverScheduled, never(root())),
        (Cause::WatchdogHoldsCounter, never(Facts { is_watchdog_on: true, ..root() })),
        (Cause::NotInTable, not_in_table("branch_misses", "arm1176", "it has no such event")),
        (Cause::NotSimulated, not_simulated(root())),
        (Cause::NotSimulated, not_simulated(guest("KVM"))),
    ]
}

/// Refusals due to the operating system, resource limits, or a missing target.
fn of_systems() -> Vec<(Cause, Explanation)> {
    let user_access = |setting: &str| {
        let access = UserAccess { is_on: false, setting: setting.to_owned() };
        user_access_off(&Facts { user_access: Some(access), ..root() }).unwrap()
    };
    let rdpmc = "/sys/bus/event_source/devices/cpu/rdpmc";
    let pid = Target::Thread(4_000_000);
    vec![
        (Cause::UserAccessOff, user_access("kernel.perf_user_access")),
        (Cause::UserAccessOff, user_access(rdpmc)),
        (Cause::NoValgrind, no_valgrind(&usual()).unwrap()),
        (Cause::NoPerfEvents, Case::new(task_clock()).refused(ENOSYS, Facts::default())),
        (Cause::NoPerfEvents, Case::new(task_clock()).refused(ENODEV, Facts::default())),
        (Cause::CountersBusy, Case::new(cycles()).refused(EBUSY, root())),
        (Cause::NoDescriptors, Case::new(cycles()).refused(EMFILE, root())),
        (Cause::NoDescriptors, Case::new(cycles()).refused(ENFILE, root())),
        (Cause::TargetGone, Case::new(cycles()).on(pid).refused(ESRCH, root())),
        (Cause::TargetGone, Case::new(cycles()).on(Target::Cpu(9)).refused(ENODEV, root())),
        (Cause::TargetGone, Case::new(task_clock()).on(Target::Cpu(9)).refused(ENODEV, root())),
        (Cause::Other, Case::new(cycles()).refused(12, root())),
    ]
}

fn all() -> Vec<(Cause, Explanation)> {
    let of_registers = registers::tests::explanations();
    [of_machines(), of_rights(), of_events(), of_systems(), of_registers].concat()
}

#[test]
fn distinguishes_all_causes() {
    for (expected, refusal) in all() {
        assert_eq!(refusal.cause, expected, "{refusal:?}");
    }
}

/// Together with the exhaustive list in [`Cause::ALL`], this ensures that every cause is explained.
#[test]
fn every_cause_has_its_own_sentence_and_a_fix() {
    let mut causes_of = BTreeMap::<String, BTreeSet<&str>>::new();
    let mut seen = BTreeSet::new();
    for (cause, refusal) in all() {
        assert!(refusal.sentence.len() > 20, "{refusal:?}");
        assert!(refusal.fix.as_ref().is_some_and(|fix| fix.len() > 10), "{refusal:?}");
        causes_of.entry(refusal.sentence).or_default().insert(cause.word());
        seen.insert(cause.word());
    }
    assert!(causes_of.values().all(|causes| causes.len() == 1), "{causes_of:?}");
    assert_eq!(seen, Cause::ALL.iter().map(|cause| cause.word()).collect());
}

/// Commands that a fix may start with.
const PROGRAMS: [&str; 12] = [
    "linerate",
    "sudo",
    "docker",
    "taskset",
    "pgrep",
    "cat",
    "echo",
    "zgrep",
    "ulimit",
    "dtc",
    "scripts/config",
    "make",
];

/// A fix can be pasted into a shell: it is valid shell code, and explanations follow `#`.
#[test]
fn every_fix_is_a_line_for_a_shell() {
    for (_, refusal) in all() {
        let fix = refusal.fix.unwrap();
        let checked = std::process::Command::new("sh").args(["-n", "-c", &fix]).output().unwrap();
        assert!(checked.status.success(), "{fix}: {checked:?}");
        let command = fix.split("  # ").next().unwrap();
        let ends = command.replace("; ", "\n").replace(" | ", "\n").replace(" && ", "\n");
        for part in ends.lines().filter(|part| !part.starts_with('#')) {
            let first = part.split_whitespace().next().unwrap();
            let others = ["export", "tail", "tee", "${EDITOR:-vi}"];
            assert!(PROGRAMS.contains(&first) || others.contains(&first), "{first}: {fix}");
        }
    }
}

/// The kernel returns EACCES in both cases, but lowering the level would not give access to another
/// user's process.
#[test]
fn another_users_process_is_not_a_matter_of_the_paranoid_level() {
    let refusal = process_7("1000", "0", "0");
    assert_eq!(refusal.cause, Cause::MissingCapability);
    assert!(refusal.sentence.starts_with("process 7 runs as user 0 and this process as 1000"));
    let fix = refusal.fix.unwrap();
    assert!(fix.starts_with("sudo setcap cap_perfmon,cap_sys_ptrace=ep "), "{fix}");
    assert!(fix.ends_with("sudo -u '#0' linerate stat --pid 7"), "{fix}");
    assert_eq!(process_7("1000", "1000", "0").cause, Cause::Paranoid);
    const SYS_PTRACE: &str = "80000";
    assert_eq!(process_7("1000", "0", SYS_PTRACE).cause, Cause::Paranoid);
}

#[test]
fn distinguishes_events_of_hybrid_cores_from_missing_ones() {
    let l1d = event("l1d_misses", Class::Hardware, Selector::new(HW_CACHE, 0x1_0000));
    for event in [cycles(), l1d] {
        let name = event.name.clone();
        let refusal = Case::new(event).on(Target::Cpu(9)).refused(ENOENT, hybrid());
        assert_eq!(refusal.cause, Cause::HybridCores, "{refusal:?}");
        assert_eq!(refusal.fix.unwrap(), format!("linerate stat --cpu 0-7 -e {name}"));
    }
    let refusal = never_scheduled(&cycles(), &HostFacts::from_facts(hybrid()));
    assert_eq!(refusal.cause, Cause::HybridCores);
}

/// On ARM, no PMU has the type of raw or generalised events. The watchdog is not the reason, and
/// counting the event alone does not help.
#[test]
fn events_of_arm_cores_are_counted_on_one_of_the_types() {
    let unit = |name: &str, kind, cpus: &[u32]| CoreUnit {
        name: name.to_owned(),
        kind,
        cpus: Some(cpus.to_vec()),
    };
    let core_units = vec![unit("armv8_cortex_a55", 8, &[0, 1]), unit("armv8_cortex_a76", 9, &[2])];
    let facts = HostFacts::from_facts(Facts { core_units, is_watchdog_on: true, ..root() });
    for kind in [RAW, HARDWARE] {
        let event = event("cycles", Class::Hardware, Selector::new(kind, 0x11));
        let refusal = never_scheduled(&event, &facts);
        assert_eq!(refusal.cause, Cause::HybridCores);
        assert_eq!(
            refusal.sentence,
            "`cycles` is counted only on one type of core, on which the target may not have run \
             (PMUs: armv8_cortex_a55 on CPUs 0-1, armv8_cortex_a76 on CPU 2)"
        );
        assert_eq!(
            refusal.fix.unwrap(),
            "taskset -c 0-1 linerate stat -e cycles -- COMMAND  # or: taskset -c 2 linerate stat \
             -e cycles -- COMMAND"
        );
    }
    let of_uncore = event("reads", Class::Hardware, Selector::new(77, 1));
    assert_ne!(never_scheduled(&of_uncore, &facts).cause, Cause::HybridCores);
}

#[test]
fn a_level_is_lowered_no_further_than_needed() {
    let fix = |case: &Case, level| {
        let facts = Facts { paranoid: Some(level), ..usual() };
        case.refused(EACCES, facts).fix.unwrap()
    };
    let (both, user) = (Case::new(cycles()), Case::new(cycles()).user_only());
    let cpu = Case::new(cycles()).on(Target::Cpu(0));
    assert_eq!(fix(&both, 2), "sudo sysctl kernel.perf_event_paranoid=1");
    assert_eq!(fix(&both, 4), "sudo sysctl kernel.perf_event_paranoid=1");
    assert_eq!(fix(&user, 3), "sudo sysctl kernel.perf_event_paranoid=2");
    assert_eq!(fix(&cpu, 1), "sudo sysctl kernel.perf_event_paranoid=0");
    let container = Facts { is_in_user_namespace: true, ..root() };
    let fix = both.refused(EACCES, container).fix.unwrap();
    let on_host = "sudo sysctl kernel.perf_event_paranoid=1";
    assert_eq!(fix, format!("{SIMULATE}  # simulates; or on the host: {on_host}"));
}

#[test]
fn counters_that_are_not_here_are_looked_for_elsewhere() {
    let command = "linerate stat --tier hw -e dtlb_misses -- COMMAND";
    assert_eq!(not_simulated(root()).fix.unwrap(), command);
    let there = not_simulated(guest("KVM")).fix.unwrap();
    assert_eq!(there, format!("# on a machine with counters: {command}"));
    // The simulator itself works on this machine as well.
    let fetches = simulator_lacks("linerate stat --tier sim -e instructions -- COMMAND");
    assert_eq!(fetches.clone().elsewhere(&guest("KVM")), fetches);
}

#[test]
fn host_commands_match_the_hypervisor() {
    let asked = |facts: Facts| Case::new(cycles()).refused(ENOENT, facts).fix.unwrap();
    let cloud = |maker: &str| Facts { maker: Some(maker.to_owned()), ..guest("KVM") };
    let begins = format!("{SIMULATE}  # simulates; for counters, ");
    let ways = [
        (guest("KVM"), "on the host, if it runs QEMU: qemu-system-"),
        (cloud("Google"), "when creating the instance: gcloud "),
        (cloud("Amazon EC2"), "use a .metal instance type"),
        (cloud("Dell Inc."), "on the host, if it runs QEMU: "),
        (guest("Hyper-V"), "on the host: Set-VMProcessor"),
    ];
    for (facts, way) in ways {
        let fix = asked(facts);
        assert!(fix.starts_with(&format!("{begins}{way}")), "{fix}");
    }
    assert_eq!(asked(guest("NoBodyKnows")), SIMULATE);
    let emulated = Platform { hypervisor: Some("QEMU TCG".to_owned()), emulated: Some(true) };
    let refusal =
        Case::new(cycles()).refused(ENOENT, Facts { platform: emulated, ..without_counters() });
    assert!(refusal.sentence.contains("emulated (QEMU TCG)"), "{refusal:?}");
    let fix = refusal.fix.unwrap();
    assert!(fix.starts_with(&format!("{begins}on the host: qemu-system-")), "{fix}");
    // No emulator provides x86 counters.
    assert_eq!(fix.contains("-icount"), !cfg!(target_arch = "x86_64"), "{fix}");
}

#[test]
fn packages_are_installed_the_way_of_the_system() {
    let installer = Installer { program: "dnf", command: "sudo dnf install" };
    let refusal = no_valgrind(&Facts { installer: Some(installer), ..usual() }).unwrap();
    assert_eq!(refusal.fix.unwrap(), "sudo dnf install valgrind");
    let bare = || Facts { qemu: None, ..guest("NoBodyKnows") };
    let installs_by = |installer| Facts { installer: Some(installer), ..bare() };
    let fix = Case::new(cycles()).refused(ENOENT, installs_by(installer)).fix.unwrap();
    assert_eq!(fix, format!("sudo dnf install valgrind && {SIMULATE}"));
    let apt = Installer { program: "apt-get", command: "sudo apt-get install" };
    let refusal = no_valgrind(&Facts { installer: Some(apt), ..usual() }).unwrap();
    assert_eq!(refusal.fix.unwrap(), "sudo apt-get install qemu-user");
    let by_hand = no_valgrind(&usual()).unwrap();
    assert!(by_hand.fix.unwrap().starts_with("export PATH=\"$PATH:DIR\"  # DIR has qemu-user's"));
    assert!(by_hand.sentence.starts_with("neither QEMU's user-mode emulator (package qemu-user)"));
    // A simulator that is installed is not installed again; one that is not is named as needed.
    let fix = |facts: Facts| Case::new(cycles()).refused(ENOENT, facts).fix.unwrap();
    assert_eq!(fix(Facts { installer: Some(apt), ..guest("NoBodyKnows") }), SIMULATE);
    assert_eq!(fix(bare()), format!("{SIMULATE}  # needs qemu-user or Valgrind"));
    let there = Facts { valgrind: Some("/usr/bin/valgrind".into()), ..usual() };
    assert_eq!(no_valgrind(&there), None);
}

#[test]
fn access_of_programs_is_refused_only_where_it_is_off() {
    assert_eq!(user_access_off(&usual()), None);
    let on = UserAccess { is_on: true, setting: "kernel.perf_user_access".to_owned() };
    assert_eq!(user_access_off(&Facts { user_access: Some(on), ..usual() }), None);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// There is an explanation and a fix for any error number on any machine.
    #[test]
    fn every_answer_has_a_sentence_and_a_fix(
        errno in -1i32..140,
        paranoid in prop::option::of(-1i32..5),
        capabilities in prop::option::of(any::<u64>()),
        filter in prop::option::of(any::<bool>()),
        machine in 0usize..5,
        kind in 0u32..30,
        group_len in 0usize..3,
        target in prop_oneof![
            Just(Target::CurrentThread),
            (0u32..20).prop_map(Target::Thread),
            (0u32..20).prop_map(Target::Cpu),
        ],
    ) {
        let machines = [usual(), without_counters(), guest("KVM"), hybrid(), Facts::default()];
        let facts = Facts {
            paranoid,
            capabilities,
            has_seccomp_filter: filter,
            ..machines[machine].clone()
        };
        let class = if kind == SOFTWARE { Class::Software } else { Class::Hardware };
        let event = event("anything", class, Selector::new(kind, 1));
        let case = Case { group_len, ..Case::new(event).on(target) };
        let refusal = case.refused(errno, facts);
        prop_assert!(!refusal.sentence.is_empty() && refusal.fix.is_some());
    }
}
