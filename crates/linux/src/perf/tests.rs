// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

const TASK_CLOCK: Selector = Selector::new(SOFTWARE, 1);
const PAGE_FAULTS: Selector = Selector::new(SOFTWARE, 2);

/// Touches new pages and returns them, so that the next call cannot reuse them.
#[must_use]
fn touch_new_pages(pages: usize) -> Vec<u8> {
    let page = 4096;
    let mut memory = Vec::<u8>::with_capacity(pages * page + page);
    for at in (0..pages * page).step_by(page) {
        memory.spare_capacity_mut()[at].write(1);
    }
    std::hint::black_box(&mut memory);
    memory
}

#[test]
fn a_group_counts_the_faults_of_this_thread_while_enabled() {
    let leader = open(&Request::new(TASK_CLOCK), Target::CurrentThread, None);
    let Ok(leader) = leader else {
        println!("SKIP: software events are refused: {}", leader.unwrap_err());
        return;
    };
    let faults = Request { disabled: false, ..Request::new(PAGE_FAULTS) };
    let _faults = open(&faults, Target::CurrentThread, Some(&leader)).unwrap();
    let _before = touch_new_pages(600);
    assert_eq!(leader.read().unwrap().values(), [0, 0]);
    leader.enable().unwrap();
    let _meanwhile = touch_new_pages(600);
    leader.disable().unwrap();
    let first = leader.read().unwrap();
    // Huge pages would cause fewer faults, but the vector is smaller than two of them.
    assert!(first.values()[1] >= 88, "{first:?}");
    assert!(first.values()[0] > 0 && first.running_ns == first.enabled_ns, "{first:?}");
    let _after = touch_new_pages(600);
    assert_eq!(leader.read().unwrap(), first);
}

#[test]
fn refuses_an_unknown_event_with_its_number() {
    let unknown = Request::new(Selector::new(SOFTWARE, 999));
    let error = open(&unknown, Target::CurrentThread, None).unwrap_err();
    assert!([libc::EINVAL, libc::ENOENT, libc::EACCES].contains(&error.errno), "{error}");
}

#[test]
fn the_page_of_a_software_event_has_no_counter() {
    let Ok(event) = open(&Request::new(TASK_CLOCK), Target::CurrentThread, None) else {
        println!("SKIP: software events are refused");
        return;
    };
    let page = event.map().unwrap();
    let before = page.sequence();
    let fields = page.fields();
    assert_eq!(page.sequence(), before);
    assert_eq!((before & 1, fields.index, fields.can_read_counter), (0, 0, false));
}

#[test]
fn a_reading_has_its_values_with_and_without_a_group() {
    let group = reading(&[2, 30, 20, 7, 8], true).unwrap();
    assert_eq!((group.values(), group.enabled_ns, group.running_ns), (&[7, 8][..], 30, 20));
    let alone = reading(&[7, 30, 20], false).unwrap();
    assert_eq!((alone.values(), alone.enabled_ns, alone.running_ns), (&[7][..], 30, 20));
    for (words, has_group) in
        [(&[][..], true), (&[2, 30, 20, 7], true), (&[99, 30, 20], true), (&[7, 30], false)]
    {
        assert_eq!(reading(words, has_group), None, "{words:?}");
    }
}

/// Opens an event of this thread without the group, as for kernels before 4.13.
#[test]
fn an_event_without_the_group_counts_the_same() {
    let request = Request { disabled: false, inherit: true, ..Request::new(TASK_CLOCK) };
    let attributes =
        Attributes { read_format: TIME_ENABLED | TIME_RUNNING, ..request.attributes() };
    let Ok(event) = open_with(&attributes, Target::CurrentThread, None) else {
        return println!("SKIP: counting is not permitted");
    };
    let reading = event.read().unwrap();
    assert_eq!(reading.values().len(), 1);
    assert!(reading.values()[0] > 0 && reading.values()[0] <= 2 * reading.running_ns);
}
