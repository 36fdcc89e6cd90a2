// SPDX-License-Identifier: MIT OR Apache-2.0
//! The link's loss, delay and duplication match its parameters.

use linerate_rlp::channel::{Burst, Channel, Loss, Weather};
use linerate_rlp::frame::{ByteRange, Frame, NakList, Writer, parse};

const FRAMES: u32 = 40_000;

/// Returns a packet with an idle frame that carries this number.
fn packet(number: u32) -> Vec<u8> {
    let mut packet = vec![0; 60];
    let mut writer = Writer::new(&mut packet).expect("room");
    assert!(writer.idle(number));
    writer.finish(&[7; 12], 5);
    packet
}

/// Sends frame `n` at tick `n`, and returns the numbers and arrival ticks of the frames that came
/// out.
fn passed(weather: Weather) -> (Vec<(u32, u64)>, Channel) {
    let mut channel = Channel::new(weather, 3);
    let mut out = Vec::new();
    for now in 0..u64::from(FRAMES) + 100 {
        channel.arrive(now, |packet| {
            let access = parse(packet).expect("in order");
            assert_eq!((&packet[..12], access.session, access.frames), (&[7; 12][..], 5, 1));
            let Some(Ok(Frame::Idle { sequence })) = access.frames().next() else {
                panic!("another frame than went in");
            };
            out.push((sequence, now));
        });
        if now < FRAMES.into() {
            channel.send(now, &packet(now as u32)).expect("in order");
        }
    }
    assert!(channel.is_empty());
    let counts = *channel.counts();
    assert_eq!(counts.sent, u64::from(FRAMES));
    assert_eq!(counts.sent - counts.lost + counts.doubled, out.len() as u64);
    (out, channel)
}

/// Asserts that a count of independent events is within 4 standard deviations of its expectation; 1
/// run in 16,000 is not.
fn expect_share(count: u64, share: f64) {
    let (n, count) = (f64::from(FRAMES), count as f64);
    let reach = 4.0 * (n * share * (1.0 - share)).sqrt();
    assert!((count - n * share).abs() <= reach, "{count} of {n} for {share}");
}

#[test]
fn a_still_link_delays_and_nothing_else() {
    let (out, channel) = passed(Weather::losing(Loss::Independent(0.0), 7));
    assert_eq!(out, (0..FRAMES).map(|n| (n, u64::from(n) + 7)).collect::<Vec<_>>());
    assert_eq!((channel.counts().held, channel.counts().doubled), (0, 0));
}

#[test]
fn losses_delays_and_duplicates_match_their_parameters() {
    let weather = Weather {
        hold: 0.1,
        held_ticks: 5,
        double: 0.2,
        ..Weather::losing(Loss::Independent(0.3), 2)
    };
    let (out, channel) = passed(weather);
    let counts = channel.counts();
    expect_share(counts.lost, 0.3);
    expect_share(counts.held, 0.7 * 0.1);
    expect_share(counts.doubled, 0.7 * 0.2);
    let late = |&(number, tick): &(u32, u64)| tick - u64::from(number) - 2;
    assert_eq!(out.iter().map(late).max(), Some(10), "held back, and its double as long again");
    let overtaken = out.windows(2).filter(|pair| pair[0].0 > pair[1].0).count();
    assert!(overtaken > 1_000, "{overtaken}");
}

#[test]
fn bursts_match_their_parameters() {
    let burst = Burst { worsen: 0.02, recover: 0.25, loss: [0.0, 1.0] };
    let (out, channel) = passed(Weather::losing(Loss::GilbertElliott(burst), 1));
    let gaps = out.windows(2).filter(|pair| pair[1].0 > pair[0].0 + 1).count() as f64;
    let lost = channel.counts().lost as f64;
    // About 740 bursts averaging 4 frames, whose lengths have a standard deviation of 3.5.
    let length = lost / gaps;
    assert!((length - 4.0).abs() < 4.0 * 3.5 / gaps.sqrt(), "{length}");
    let share = lost / f64::from(FRAMES);
    assert!((share - burst.share_bad()).abs() < 0.015, "{share}");
}

#[test]
fn the_frames_of_a_packet_travel_apart_and_equal_seeds_are_equal() {
    let mut packet = vec![0; 300];
    let mut writer = Writer::new(&mut packet).expect("room");
    let mut list = NakList::default();
    assert!(list.push(ByteRange { first: 9, bytes: 8 }));
    assert!(writer.data(1, [b"some ", b"bytes"], true) && writer.nak(&list) && writer.idle(4));
    writer.finish(&[7; 12], 5);
    let mut both = [1, 1].map(|seed| {
        let loss = Loss::Independent(0.5);
        let mut channel = Channel::new(Weather::losing(loss, 1), seed);
        (0..50).for_each(|_| channel.send(0, &packet).expect("in order"));
        let mut out = Vec::new();
        channel.arrive(1, |packet| out.push(packet.to_vec()));
        out
    });
    assert!(both[0] == both[1]);
    let [out, _] = &mut both;
    out.sort();
    out.dedup();
    let kinds = |packet: &Vec<u8>| match parse(packet).expect("in order").frames().next() {
        Some(Ok(Frame::Data { sequence: 1, bytes: b"some bytes", again: true })) => 1,
        Some(Ok(Frame::Nak(ranges))) if ranges.iter().eq(list.ranges().iter().copied()) => 2,
        Some(Ok(Frame::Idle { sequence: 4 })) => 3,
        other => panic!("{other:?}"),
    };
    let mut found: Vec<i32> = out.iter().map(kinds).collect();
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3]);
    assert!(Channel::new(Weather::losing(Loss::Independent(0.0), 1), 1).send(0, &[0; 9]).is_err());
}
