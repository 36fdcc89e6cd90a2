// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kmod/pmc74xx` in Linux on an emulated MPC7455: the registers hold what was chosen. Counts there
//! are none, because the emulator has the registers of the counters and counts nothing.

use super::super::linux_7455::{Linux, NAME};
use super::super::{Answer, Obstacle, note};
use super::{Extent, Page};

const MODULE: &str = "pmc74xx";

/// A load, whether it must work, and what must be said.
struct Load {
    parameters: &'static str,
    works: bool,
    says: &'static [&'static str],
}

/// What each counter must say after the first: that any can, the only one that can, by number.
const LOADS: [Load; 9] = [
    Load {
        parameters: "",
        works: true,
        says: &[
            "counter 1 selects 0x01 PM_CYC",
            "counter 2 selects 0x00 nothing",
            AS_WRITTEN,
            ZERO,
        ],
    },
    // Six at once; an event that any counter has yields to those that have one, or two.
    Load {
        parameters: "events=PM_CYC,PM_INST_CMPL,PM_ST_CMPL,PM_L1_DCACHE_MISS,PM_L2_HIT,0x61d",
        works: true,
        says: &[
            "counter 1 selects 0x14 PM_ST_CMPL",
            "counter 2 selects 0x17 PM_L1_DCACHE_MISS",
            "counter 3 selects 0x02 PM_INST_CMPL",
            "counter 4 selects 0x01 PM_CYC",
            "counter 5 selects 0x02 PM_L2_HIT",
            "counter 6 selects 0x1d -",
            // 0x14 << 6 | 0x17; 2 << 27 | 1 << 22 | 2 << 17 | 0x1d << 11.
            "MMCR0 0x00000517 MMCR1 0x1044e800",
            "user's UMMCR0 0x00000517 UMMCR1 0x1044e800",
            AS_WRITTEN,
            "/proc: counter 6 selects 0x1d - count 0",
            ZERO,
        ],
    },
    Load {
        parameters: "events=pm_br_mpred,user_only=1",
        works: false,
        says: &["there is no event `user_only=1`"],
    },
    Load { parameters: "events=PM_BR_MPRD", works: false, says: &["the nearest is PM_BR_MPRED"] },
    Load {
        parameters: "events=PM_L1_DCACHE_MISS,PM_LD_CMPL",
        works: false,
        says: &["each counter that has it is taken by another event"],
    },
    Load {
        parameters: "events=0x17",
        works: false,
        says: &["no counter of this processor has it"],
    },
    Load {
        parameters: "events=0x720",
        works: false,
        says: &["no counter of this processor has it"],
    },
    Load {
        parameters: "events=0x33f",
        works: false,
        says: &["no counter of this processor has it"],
    },
    // Nothing of the refusals is left, and the registers were put back.
    Load {
        parameters: "events=PM_BR_FOLDED",
        works: true,
        says: &["counter 4 selects 0x1d PM_BR_FOLDED", AS_WRITTEN, ZERO],
    },
];

const AS_WRITTEN: &str = ": as written";
const ZERO: &str = "all counts are 0, as an emulator's are; MMCR0 0x00000000 MMCR1 0x00000000";

/// Loads it in every way, and on a processor that has no such counters.
pub(super) fn check(_: Extent, page: &mut Page) -> Result<(), Obstacle> {
    let linux = Linux::with(MODULE)?;
    let words = LOADS.map(|load| format!("{MODULE}:{}", load.parameters));
    let words = words.each_ref().map(String::as_str);
    let answers = linux.load("7455", &words)?;
    for (load, answer) in LOADS.iter().zip(&answers) {
        judge(load, answer).map_err(|why| linux.fault("7455", &why))?;
    }
    let none =
        Load { parameters: "", works: false, says: &["has no counters that are known here"] };
    let on_another = linux.load("750", &[MODULE])?;
    judge(&none, &on_another[0]).map_err(|why| linux.fault("750", &why))?;
    // What is not counted has no count, rather than 0.
    let output = answers[1].output.replace(" count 0\n", " count null\n");
    let shown = format!("# insmod {MODULE}.ko {}\n{output}", LOADS[1].parameters);
    page.add(format!("{NAME}, by {MODULE}"), &shown);
    note(&format!(
        "RESULT PASS linux-7455: {MODULE} chooses by name on six counters, the registers read as \
         written, {} wrong choices refused, nothing on a 750; counts null: the emulator has none",
        LOADS.iter().filter(|load| !load.works).count()
    ));
    Ok(())
}

fn judge(load: &Load, answer: &Answer) -> Result<(), String> {
    let Answer { status, output, errors, .. } = answer;
    let said = || format!("`{}` said {output}{errors}", load.parameters);
    if (*status == 0) != load.works {
        return Err(format!("status {status}; {}", said()));
    }
    match load.says.iter().find(|what| !output.contains(**what)) {
        Some(what) => Err(format!("no `{what}`; {}", said())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, LOADS, judge};

    #[test]
    fn silence_and_a_wrong_status_are_found() {
        let load = &LOADS[3];
        let output = load.says.concat();
        let answer = |status, output: &str| Answer {
            status,
            output: output.to_owned(),
            ..Answer::default()
        };
        assert_eq!(judge(load, &answer(1, &output)), Ok(()));
        assert!(judge(load, &answer(0, &output)).is_err());
        assert!(judge(load, &answer(1, "")).is_err());
    }
}
