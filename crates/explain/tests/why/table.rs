// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rule table is complete and consistent.

use linerate_explain::why::remarks::{RemarkRule, remark_rules};
use linerate_explain::why::rules::{Bound, Condition, Rule, rules};
use linerate_record::why::Cause;

#[test]
fn every_removable_cause_has_a_rule() {
    for cause in Cause::ALL.into_iter().filter(|cause| cause.is_removable()) {
        assert!(rules().any(|rule| rule.cause == cause), "{}", cause.name());
    }
}

#[test]
fn rules_can_hold_and_say_when_they_are_wrong() {
    for rule in rules() {
        let name = rule.cause.name();
        assert!(!rule.conditions.is_empty() && !rule.wrong_if.is_empty(), "{name}");
        assert!(!rule.fix.is_empty() && !rule.measure.is_empty(), "{name}");
        assert!(rule.symptoms <= rule.conditions.len(), "{name}");
        assert!(!rule.explained_by.contains(&rule.cause), "{name}");
        for condition in rule.conditions {
            assert!(!condition.measure.title().0.is_empty(), "{name}: {condition:?}");
            let (Bound::AtLeast(at) | Bound::AtMost(at)) = condition.bound;
            assert!(at.is_finite() && !condition.source.is_empty(), "{name}");
        }
    }
}

#[test]
fn no_two_causes_explain_each_other() {
    for one in rules() {
        for other in rules() {
            let both =
                one.explained_by.contains(&other.cause) && other.explained_by.contains(&one.cause);
            assert!(!both, "{} and {}", one.cause.name(), other.cause.name());
        }
    }
}

/// The documentation page that lists the causes.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands/why.md");

/// Marks at the beginning and end of the list of rules on the page.
const MARKS: (&str, &str) = ("<!-- rules -->\n", "<!-- end -->");

/// The marks of the list of remarks.
const MARKS_OF_REMARKS: (&str, &str) = ("<!-- remarks -->\n", "<!-- end of remarks -->");

fn of_rule(condition: &Condition) -> String {
    threshold(condition.measure.title(), condition.bound, condition.source)
}

fn threshold((name, unit): (&str, &str), bound: Bound, source: &str) -> String {
    let (words, at) = bound.parts();
    let condition_text = match (unit, bound) {
        ("1 = yes", Bound::AtLeast(_)) => format!("{name}: yes"),
        ("1 = yes", Bound::AtMost(_)) => format!("{name}: no"),
        ("ratio", _) => format!("{name} {words} {at}"),
        _ => format!("{name} {words} {at} {unit}"),
    };
    format!("{condition_text} ({source})")
}

/// Text of the page for each value that depends on the program. Texts that are printed only in
/// some cases are empty.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("as_root", "sudo"),
    ("bulk_peer", "PEER"),
    ("confined", ""),
    ("cpu", "N"),
    ("end_tracer", "Stop the tracer (TracerPid in /proc/PID/status), or remove the probes"),
    (
        "fault_fix",
        "Reuse memory: leave MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_ unset or large, use \
         a pool, or map with MAP_POPULATE; if the program forks to copy itself, let it fork less \
         often",
    ),
    ("interface", "IF"),
    (
        "kernel_part_fix",
        "Depends on the part: merge the rules of `ip rule`; close packet sockets that see every \
         packet (ss -0p); wait with epoll instead of select or poll; read random numbers in larger \
         blocks; exempt packets from connection tracking (notrack); let the bridge learn \
         addresses; use the TSC as clock source; remove audit rules; shorten the profile of the \
         security module, the IPsec policies or the seccomp filter",
    ),
    ("line_option", "--line RATE"),
    (
        "lock_fix",
        "Do not hold the lock while sleeping; shorten the critical section, or split the lock; if \
         it guards a pool, enlarge the pool; in Python, run several processes instead of threads",
    ),
    (
        "move_others",
        "pin the thread (taskset -cp N TID) and move the others (taskset -acp CPUS PID)",
    ),
    ("no_quota", "write -1 to cpu.cfs_quota_us, or max to cpu.max, of the control group"),
    ("or_move_others", ""),
    (
        "other_calls_fix",
        "Depends on the calls: find what sends signals; open files and sockets once; read the \
         clock without a system call, or once per batch; ask for random numbers in blocks; set \
         options once per socket",
    ),
    ("pid", "PID"),
    ("port", "PORT"),
    ("program", "the program"),
    (
        "reassembly_fix",
        "if the memory for fragments is full, raise net.ipv4.ipfrag_high_thresh; if fragments are \
         missing, look for losses on the path",
    ),
    ("remove_qdisc", "sudo tc qdisc del dev IF root"),
    ("reserve_cpu", ""),
    ("resume", "Send SIGCONT (kill -CONT PID), or thaw the control group; find out what stops it"),
    (
        "storage_fix",
        "Move the write to another thread or to io_uring, or sync once per batch of requests; for \
         reads, keep the file in memory (page cache, mlock) or read ahead",
    ),
    ("tid", "TID"),
    ("watch_peer", "linerate why PID, on the peer's machine"),
    ("watch_server", "linerate why PID, on the server's machine"),
    (
        "conntrack_fix",
        "Raise net.netfilter.nf_conntrack_max or, if hash chains are too long (`chaintoolong` in \
         `conntrack -S`), net.netfilter.nf_conntrack_buckets; or exempt the traffic from tracking \
         (an nft rule with notrack in a raw prerouting chain)",
    ),
    ("keep_open", "Keep"),
    ("combine", ""),
    ("collector_fix", "; in Python, compare the rate after gc.freeze() first"),
];

fn filled(text: &str) -> String {
    let text = PLACEHOLDERS
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value));
    assert!(!text.contains('{'), "no text for the page: {text}");
    text
}

/// A line that lists causes; empty without any.
fn causes(label: &str, causes: &[Cause]) -> String {
    let names: Vec<String> = causes.iter().map(|cause| format!("`{}`", cause.name())).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("\n{label}: {}\n", names.join(", ")),
    }
}

/// A remark: its conditions, what to try, and with which findings it is made or left out.
fn one_remark(rule: &RemarkRule) -> String {
    let conditions = rule.conditions.iter();
    let conditions: String = conditions
        .map(|one| format!("- {}\n", threshold(one.measure.title(), one.bound, one.source)))
        .collect();
    format!(
        "\n### `{}`\n\nConditions:\n\n{conditions}\nTry: {}\n{}{}",
        rule.id.name(),
        filled(rule.next),
        causes("Only with", rule.only_with),
        causes("Left out with", rule.same_as)
    )
}

/// One rule of a cause: its conditions, what to do, and the causes that explain it. `which` tells
/// several rules of a cause apart.
fn one_rule(rule: &Rule, which: &str) -> String {
    let conditions = rule.conditions.iter().map(|one| format!("- {}\n", of_rule(one)));
    let conditions: String = conditions.collect();
    let fix = filled(rule.fix);
    let explained = causes("Explained by", rule.explained_by);
    format!("\nConditions{which}:\n\n{conditions}\nDo: {fix}\n{explained}")
}

/// The rules by cause, below links to all causes.
fn listing() -> String {
    let mut causes: Vec<Cause> = Vec::new();
    for rule in rules() {
        if !causes.contains(&rule.cause) {
            causes.push(rule.cause);
        }
    }
    let links = causes.iter().map(|cause| format!("[`{0}`](#{0})", cause.name()));
    let links: Vec<String> = links.collect();
    let mut text = format!("\n{}\n", links.join(",\n"));
    for cause in causes {
        text += &format!("\n### `{}`\n", cause.name());
        let own: Vec<&Rule> = rules().filter(|rule| rule.cause == cause).collect();
        for (index, rule) in own.iter().enumerate() {
            let which = match own.len() {
                1 => String::new(),
                many => format!(" (rule {} of {many})", index + 1),
            };
            text += &one_rule(rule, &which);
        }
    }
    text + "\n"
}

/// Returns the page with the current lists of rules and of remarks.
fn with_lists(page: &str) -> String {
    let remarks: String = remark_rules().iter().map(one_remark).collect();
    let lists = [(MARKS, listing()), (MARKS_OF_REMARKS, remarks + "\n")];
    lists.into_iter().fold(page.to_owned(), |page, ((begin, end), list)| {
        let (before, rest) = page.split_once(begin).expect("a mark where the list begins");
        let (_, after) = rest.split_once(end).expect("a mark where it ends");
        format!("{before}{begin}{list}{end}{after}")
    })
}

/// To update the page after an intended change: `UPDATE_GOLDEN=1 cargo test -p linerate-explain`.
#[test]
fn the_page_lists_every_rule_with_its_thresholds() {
    let page = std::fs::read_to_string(PAGE).expect("docs/commands/why.md");
    let current = with_lists(&page);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PAGE, current).expect("the page can be written");
        return;
    }
    assert!(page == current, "docs/commands/why.md is old: UPDATE_GOLDEN=1");
    for cause in Cause::ALL {
        assert!(page.contains(&format!("`{}`", cause.name())), "{}", cause.name());
    }
}
