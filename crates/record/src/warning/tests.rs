// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the texts of warnings and their codes.

use super::*;

#[test]
fn says_what_to_do() {
    let text = Warning::NotIdle { share: 0.3456 }.to_string();
    assert_eq!(
        text,
        "other programs used 34.6 % of the CPUs just before the measurement: \
         stop other programs, or expect wide intervals"
    );
    let text = Warning::SharedCore { cpus: vec![0, 4] }.to_string();
    assert!(text.contains("(CPUs 0, 4)"), "{text}");
}

#[test]
fn discarded_windows_are_not_lost_time() {
    let said = |taken| Warning::PreemptedWindows { share: 0.424, taken }.to_string();
    let expected = "42.4 % of the windows were discarded because the thread lost its CPU \
                    (for 2.6 % of its time in total): intervals are based on the remaining windows";
    assert!(said(Some(0.026)).starts_with(expected), "{}", said(Some(0.026)));
    assert!(!said(None).contains("its time"), "{}", said(None));
}

#[test]
fn a_dead_end_has_its_stage_and_its_causes() {
    let said = |causes: &[&str]| {
        let causes = causes.iter().map(|cause| (*cause).to_owned()).collect();
        let end = DeadEnd { stage: "guard".to_owned(), packets: 7, causes, passed: 0 };
        let warning = Warning::NothingCameThrough(end);
        let json = serde_json::to_string(&warning).unwrap();
        assert!(json.starts_with(r#"{"code":"nothing_came_through","stage":"guard""#), "{json}");
        warning.to_string()
    };
    assert!(said(&["martian"]).contains("captured on `lo`, capture on another interface"));
    let dropped = said(&["denied", "martian"]);
    let all = "`guard` dropped all 7 packets it received (denied, martian): ";
    assert!(dropped.contains(all), "{dropped}");
    assert!(dropped.contains("`linerate stages KIND`"), "{dropped}");
    let offloaded = said(&["bad_l4_checksum"]);
    assert!(offloaded.contains("`ethtool -K IF tx off`"), "{offloaded}");
    let used = said(&[]);
    assert!(used.contains("`guard` consumed all 7 packets: "), "{used}");
}

#[test]
fn code_names_the_variant() {
    let warning = Warning::PreemptedWindows { share: 0.25, taken: None };
    let json = serde_json::to_string(&warning).unwrap();
    assert_eq!(json, r#"{"code":"preempted_windows","share":0.25}"#);
    assert_eq!(serde_json::to_string(&Warning::Emulated).unwrap(), r#"{"code":"emulated"}"#);
}

#[test]
fn a_code_of_a_later_version_is_kept_as_unknown() {
    let read: Warning = serde_json::from_str(r#"{"code":"solar_flare","kelvin":6000}"#).unwrap();
    assert_eq!(read, Warning::Unknown);
    assert!(serde_json::from_str::<Warning>(r#"{"code":"not_idle","cpus":2}"#).is_err());
}
