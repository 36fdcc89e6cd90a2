// SPDX-License-Identifier: MIT OR Apache-2.0
//! Client, server and wire under one pattern: the loop that everything runs in.
//!
//! ```text
//! each turn, one virtual microsecond:
//!     the application gives the client what there is room for
//!     the client takes in what has arrived and sends
//!     the wire carries
//!     the server takes in what has arrived and sends
//!     the application takes what the server has received
//! if nothing moved: on to the next moment at which something will
//! if nothing has got through for long: give up, and say what was on the wire
//! ```
//!
//! A session goes on from slice to slice of work, so that sets can be measured in turns without
//! connecting anew. Comparing what arrived is left out of the time.

use crate::endpoint::{
    Checksums, Config, Congestion, Counters, Endpoint, HEADER_OCTETS, Micros, Side, Stack, State,
    WireMode,
};
use crate::error::{Error, Stuck};
use crate::pattern::{Mix, Pattern};
use crate::routines::{Activity, Reading, Set, Tallies};
use crate::stream::{Sink, Stream};
use crate::wire::{Carried, Impairments, Wire};
use linerate_linux::thread_cpu_time_ns;
use linerate_trial::{Dropped, Machine, Window};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Virtual time without progress after which a run has failed. A sender that is not answered waits
/// twice as long each time, from a second up to a minute: this is more than ten attempts.
const PATIENCE: Micros = 600_000_000;

/// Turns without progress after which a run has failed, whatever the virtual time: a few seconds.
const PATIENCE_TURNS: u64 = 2_000_000;

/// The same after which the wire is asked to keep the last segment.
const UNEASE: Micros = 10_000_000;
const UNEASE_TURNS: u64 = 10_000;

/// For how long the client waits for a server that does not take its connection for one: longer
/// than a stack keeps what is half open, 20 seconds in lwIP (`TCP_SYN_RCVD_TIMEOUT`). One
/// connection in a hundred thousand, where some per cent of all handshakes need another attempt.
const HALF_OPEN: Micros = 60_000_000;

/// Segments that the application hands over at once.
const SEGMENTS_PER_WRITE: usize = 4;

/// What a session is made for, but for stacks and set.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What the applications do.
    pub pattern: Pattern,
    /// Octets of payload of a full segment.
    pub segment: usize,
    /// Octets of each buffer of each end; rounded up to whole segments.
    pub buffer: usize,
    /// How frames reach the receiver.
    pub wire: WireMode,
    /// What happens to them on the way.
    pub impairments: Impairments,
    /// Lengths of messages in [`Pattern::Mixed`].
    pub mix: Mix,
    /// Whether segments that are not full wait for acknowledgements.
    pub nagle: bool,
    /// How the ends react to loss.
    pub congestion: Congestion,
    /// For how long the ends hold acknowledgements back; 0 for not at all.
    pub ack_delay: Micros,
    /// Draws everything that is drawn.
    pub seed: u64,
}

impl Setup {
    /// A pattern as it is measured: no impairments, buffers of 256 KiB, copies on the wire.
    pub fn of(pattern: Pattern) -> Self {
        Self {
            pattern,
            segment: pattern.segment(),
            buffer: 256 << 10,
            wire: WireMode::Copy,
            impairments: Impairments::default(),
            mix: Mix::presets().next().expect("there is a preset"),
            nagle: false,
            congestion: Congestion::None,
            ack_delay: 0,
            seed: 1,
        }
    }

    /// Octets that each buffer really has: whole segments, and two writes at least.
    pub fn buffer_octets(&self) -> usize {
        self.buffer.max(2 * write_octets(self)).next_multiple_of(self.segment)
    }
}

/// What one slice of work took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Octets of payload that arrived and were compared, in both directions.
    pub octets: u64,
    /// Exchanges, or connections opened and closed.
    pub exchanges: u64,
    /// Frames that were sent, in both directions.
    pub frames: u64,
    /// Processor time in nanoseconds, comparisons excluded.
    pub cpu_ns: u64,
    /// Virtual microseconds.
    pub virtual_us: u64,
    /// Why the slice does not count: the thread did not have its CPU all the time.
    pub dropped: Option<Dropped>,
}

/// Two endpoints, a wire and two applications.
pub struct Session {
    stacks: String,
    set: String,
    setup: Setup,
    client: Box<dyn Endpoint>,
    server: Box<dyn Endpoint>,
    wire: Wire,
    stream: Rc<Stream>,
    random: fastrand::Rng,
    now: Micros,
    /// When an application looks again, even if nothing happens until then.
    alarm: Option<Micros>,
    /// Octets the client has sent.
    sent: u64,
    /// Octets of the message that is next, where there are messages.
    message: usize,
    /// What arrived at the server, and at the client.
    at_server: Sink,
    at_client: Sink,
    exchanges: u64,
    /// Connections that were refused, because of what an impaired wire had left over or lost.
    refused: u64,
    /// Processor time spent on comparing.
    comparing_ns: u64,
    /// Where a sampler looks at what runs.
    activity: Option<Arc<AtomicU8>>,
    watchdog: Watchdog,
    clock: Machine,
}

#[derive(Debug, Default)]
struct Watchdog {
    progress: u64,
    since: Micros,
    turns: u64,
}

impl Session {
    /// Makes both ends and connects them, but for [`Pattern::Response`].
    ///
    /// # Errors
    /// A stack cannot do what is asked, or the connection does not come about.
    pub fn new(
        setup: &Setup,
        [client, server]: [&dyn Stack; 2],
        set: &Set,
        stream: &Rc<Stream>,
    ) -> Result<Self, Error> {
        let end = |stack: &dyn Stack, side| {
            let made = stack.endpoint(&config(setup, set, side));
            made.map_err(|reason| Error::Stack { stack: stack.name().to_owned(), reason })
        };
        let stacks = match client.name() == server.name() {
            true => client.name().to_owned(),
            false => format!("{} to {}", client.name(), server.name()),
        };
        let octets_max = setup.segment + HEADER_OCTETS;
        let summed = set.checksums() != Checksums::Off;
        let room = write_octets(setup);
        let mut session = Self {
            stacks,
            set: set.name().to_owned(),
            client: end(client, Side::Client)?,
            server: end(server, Side::Server)?,
            wire: Wire::new(octets_max, setup.impairments, summed, setup.seed),
            stream: Rc::clone(stream),
            random: fastrand::Rng::with_seed(setup.seed ^ 0x6d69_7865),
            now: 0,
            alarm: None,
            sent: 0,
            message: 0,
            at_server: Sink::new(room),
            at_client: Sink::new(room),
            exchanges: 0,
            refused: 0,
            comparing_ns: 0,
            activity: None,
            watchdog: Watchdog::default(),
            clock: Machine::kernel(),
            setup: setup.clone(),
        };
        if setup.pattern != Pattern::Response {
            session.connect()?;
        }
        Ok(session)
    }

    /// Does so much work: octets of payload, exchanges or connections, as the pattern has it.
    ///
    /// # Errors
    /// Nothing gets through any more, the connection ended, or what arrived is not what was sent.
    pub fn run(&mut self, amount: u64) -> Result<Slice, Error> {
        let before = self.totals();
        self.tell(Activity::Stack);
        let clock = self.clock;
        let window = Window::open(&clock);
        let compared = self.comparing_ns;
        match self.setup.pattern {
            Pattern::Bulk | Pattern::Jumbo => self.transfer(amount, Self::give_bulk)?,
            Pattern::Mixed => self.transfer(amount, Self::give_messages)?,
            Pattern::Interactive => (0..amount).try_for_each(|_| self.exchange())?,
            Pattern::Response => (0..amount).try_for_each(|_| self.open_and_close())?,
        }
        let window = window.close();
        self.tell(Activity::Comparing);
        let cpu_ns = window.charged.cpu_ns.saturating_sub(self.comparing_ns - compared);
        self.compare()?;
        let after = self.totals();
        Ok(Slice {
            octets: after.octets - before.octets,
            exchanges: after.exchanges - before.exchanges,
            frames: after.frames - before.frames,
            cpu_ns,
            virtual_us: after.virtual_us - before.virtual_us,
            dropped: window.verdict.err(),
        })
    }

    fn totals(&self) -> Slice {
        Slice {
            octets: self.at_server.received() + self.at_client.received(),
            exchanges: self.exchanges,
            frames: self.wire.carried().frames,
            virtual_us: self.now,
            ..Slice::default()
        }
    }

    /// What the wire has done.
    pub fn carried(&self) -> Carried {
        self.wire.carried()
    }

    /// What client and server have counted.
    pub fn counters(&self) -> [Counters; 2] {
        [self.client.counters(), self.server.counters()]
    }

    /// Connections that were refused and opened again, because an impaired wire had left over what
    /// the server took for the beginning of one.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Begins or ends telling a sampler what runs.
    pub(crate) fn mark(&mut self, activity: Option<&Arc<AtomicU8>>) {
        self.client.mark(activity);
        self.server.mark(activity);
        self.activity = activity.map(Arc::clone);
    }

    /// Tells a sampler, if there is one.
    fn tell(&self, what: Activity) {
        if let Some(activity) = &self.activity {
            activity.store(what as u8, Ordering::Relaxed);
        }
    }

    /// Begins or ends watching the calls of routines.
    pub fn watch(&mut self, reading: Option<Reading>) {
        self.client.watch(reading);
        self.server.watch(reading);
    }

    /// What was seen of them, at both ends.
    pub fn tallies(&self) -> Tallies {
        self.client.tallies() + &self.server.tallies()
    }

    /// Opens a connection.
    fn connect(&mut self) -> Result<(), Error> {
        let (stack, now) = (self.stacks.clone(), self.now);
        let refused = |reason| Error::Stack { stack, reason };
        if self.server.state() == State::Closed {
            self.server.open(now).map_err(refused.clone())?;
        }
        self.client.open(now).map_err(refused)?;
        self.shake_hands()
    }

    /// Turns until both ends take what the client has opened for a connection; opens another one
    /// where the server does not.
    fn shake_hands(&mut self) -> Result<(), Error> {
        let over = self.now + HALF_OPEN;
        let is_over = |s: &Self| match [s.client.state(), s.server.state()] {
            [State::Open, State::Open] | [State::Closed, _] => true,
            [State::Open, _] => s.now >= over,
            _ => false,
        };
        self.alarm = Some(over);
        self.until(is_over)?;
        self.alarm = None;
        if [self.client.state(), self.server.state()] == [State::Open; 2] {
            return Ok(());
        }
        // The server has forgotten what the client takes for a connection, and says so when the
        // client closes it.
        self.client.close();
        self.until(|s| s.client.state() == State::Closed)?;
        self.refused += 1;
        self.connect()
    }

    fn open_and_close(&mut self) -> Result<(), Error> {
        self.connect()?;
        self.client.close();
        self.until(|s| matches!(s.server.state(), State::PeerClosed | State::Closed))?;
        self.server.close();
        self.until(|s| s.client.state() == State::Closed && s.server.state() == State::Closed)?;
        self.exchanges += 1;
        Ok(())
    }

    /// Sends one or two octets and waits until they are back.
    fn exchange(&mut self) -> Result<(), Error> {
        let octets = 1 + (self.exchanges % 2) as usize;
        let message = self.stream.piece(self.sent, octets);
        let sent = self.client.send(message);
        self.sent += sent as u64;
        let target = self.sent;
        while self.at_client.received() < target {
            self.open_still()?;
            let mut busy = self.turn();
            let before = self.at_server.received();
            busy |= self.take(Side::Server)?;
            let arrived = (self.at_server.received() - before) as usize;
            let echo = self.stream.piece(before, arrived);
            let echoed = self.server.send(echo);
            debug_assert_eq!(echoed, arrived, "the buffer holds more than an exchange");
            busy |= self.take(Side::Client)?;
            self.advance(busy)?;
        }
        self.exchanges += 1;
        Ok(())
    }

    /// Sends until so many octets more have arrived.
    fn transfer(&mut self, octets: u64, give: fn(&mut Self) -> bool) -> Result<(), Error> {
        let target = self.at_server.received() + octets;
        while self.at_server.received() < target {
            self.open_still()?;
            let mut busy = give(self);
            busy |= self.turn();
            busy |= self.take(Side::Server)?;
            self.advance(busy)?;
        }
        Ok(())
    }

    /// Gives the client whole writes while there is room; whether there was.
    fn give_bulk(&mut self) -> bool {
        let write = write_octets(&self.setup);
        let mut gave = false;
        while self.client.send_room() >= write {
            let sent = self.client.send(self.stream.piece(self.sent, write));
            self.sent += sent as u64;
            gave = true;
        }
        gave
    }

    /// Gives the client messages, each of which becomes a segment before the next one.
    fn give_messages(&mut self) -> bool {
        let mut gave = false;
        for _ in 0..MESSAGES_PER_TURN {
            if self.message == 0 {
                self.message = self.setup.mix.draw(&mut self.random);
            }
            if self.client.send_room() < self.message {
                break;
            }
            let sent = self.client.send(self.stream.piece(self.sent, self.message));
            self.sent += sent as u64;
            self.exchanges += 1;
            self.message = 0;
            self.client.poll(self.now, &mut self.wire.port(Side::Client));
            gave = true;
        }
        gave
    }

    /// Takes what has been received; whether there was anything.
    fn take(&mut self, side: Side) -> Result<bool, Error> {
        let mut took = false;
        loop {
            let (end, sink) = match side {
                Side::Client => (&mut self.client, &mut self.at_client),
                Side::Server => (&mut self.server, &mut self.at_server),
            };
            if sink.is_full() {
                self.tell(Activity::Comparing);
                let before = thread_cpu_time_ns();
                self.compare()?;
                self.comparing_ns += thread_cpu_time_ns() - before;
                self.tell(Activity::Stack);
                continue;
            }
            let octets = end.receive(sink.room());
            if octets == 0 {
                return Ok(took);
            }
            sink.fill(octets);
            took = true;
        }
    }

    /// Compares everything that has arrived with what was sent.
    fn compare(&mut self) -> Result<(), Error> {
        for sink in [&mut self.at_server, &mut self.at_client] {
            if let Some(difference) = sink.compare(&self.stream) {
                return Err(Error::Corrupt {
                    stacks: self.stacks.clone(),
                    set: self.set.clone(),
                    octet: difference.octet,
                    expected: difference.expected,
                    got: difference.got,
                });
            }
        }
        Ok(())
    }

    /// Turns until something is so.
    fn until(&mut self, done: impl Fn(&Self) -> bool) -> Result<(), Error> {
        while !done(self) {
            let busy = self.turn();
            self.advance(busy)?;
        }
        Ok(())
    }

    /// One microsecond; whether the wire carried anything.
    fn turn(&mut self) -> bool {
        self.now += 1;
        self.client.poll(self.now, &mut self.wire.port(Side::Client));
        let mut carried = self.wire.carry(self.now);
        self.server.poll(self.now, &mut self.wire.port(Side::Server));
        carried |= self.wire.carry(self.now);
        carried
    }

    /// Goes on to when something happens, unless something just did; and watches for progress.
    fn advance(&mut self, busy: bool) -> Result<(), Error> {
        if !busy {
            let ends = [self.client.poll_at(self.now), self.server.poll_at(self.now)];
            let others =
                self.wire.next_arrival().into_iter().chain(self.alarm.filter(|at| *at > self.now));
            let next = ends.into_iter().flatten().chain(others).min();
            match next {
                Some(at) => self.now = self.now.max(at.saturating_sub(1)),
                // Nothing will ever happen; but an application may just have something to say.
                None => self.now += 1,
            }
        }
        let Slice { octets, exchanges, .. } = self.totals();
        let progress = octets + exchanges + u64::from(self.client.state() == State::Open);
        if progress != self.watchdog.progress {
            self.watchdog = Watchdog { progress, since: self.now, turns: 0 };
            return Ok(());
        }
        self.watchdog.turns += 1;
        self.bark()
    }

    /// Fails if there has been no progress for too long.
    fn bark(&mut self) -> Result<(), Error> {
        let Watchdog { since, turns, .. } = self.watchdog;
        let waited = self.now - since;
        if waited > UNEASE || turns > UNEASE_TURNS {
            self.wire.keep_last();
        }
        if waited <= PATIENCE && turns <= PATIENCE_TURNS {
            return Ok(());
        }
        let bad_checksums = self.counters().iter().map(|counted| counted.bad_checksums).sum();
        Err(Error::Stuck(Box::new(Stuck {
            stacks: self.stacks.clone(),
            pattern: self.setup.pattern.name().to_owned(),
            set: self.set.clone(),
            seconds: waited / 1_000_000,
            turns,
            octets: self.totals().octets,
            bad_checksums,
            segment: self.wire.last(),
        })))
    }

    /// Fails if the connection has gone.
    fn open_still(&self) -> Result<(), Error> {
        if self.client.state() == State::Open && self.server.state() == State::Open {
            return Ok(());
        }
        Err(Error::Lost {
            stacks: self.stacks.clone(),
            pattern: self.setup.pattern.name().to_owned(),
            set: self.set.clone(),
            octets: self.totals().octets,
        })
    }
}

/// Messages that are given between two turns at most.
const MESSAGES_PER_TURN: usize = 16;

/// Octets the application hands over or asks for at once.
fn write_octets(setup: &Setup) -> usize {
    setup.segment * SEGMENTS_PER_WRITE
}

fn config(setup: &Setup, set: &Set, side: Side) -> Config {
    Config {
        side,
        segment: setup.segment,
        buffer: setup.buffer_octets(),
        routines: *set.routines(),
        checksums: set.checksums(),
        wire: setup.wire,
        nagle: setup.nagle,
        ack_delay: setup.ack_delay,
        congestion: setup.congestion,
        seed: setup.seed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lwip::Lwip;
    use crate::proof::{ROUGH, little};
    use crate::routines::{OFF, Routines, SELECTED, STACK};
    use crate::smol::Smoltcp;

    fn session(setup: &Setup, set: &Set) -> Result<Session, Error> {
        between(setup, &Smoltcp, set)
    }

    fn between(setup: &Setup, stack: &dyn Stack, set: &Set) -> Result<Session, Error> {
        let stream = Rc::new(Stream::new(1, setup.buffer_octets()));
        Session::new(setup, [stack, stack], set, &stream)
    }

    #[test]
    fn every_pattern_gets_through_with_every_kind_of_set_over_either_wire() {
        for pattern in Pattern::ALL {
            for wire in [WireMode::Copy, WireMode::Reference] {
                for set in ["document", SELECTED, STACK, OFF] {
                    let set = Set::find(set).expect("a set");
                    let mut session =
                        session(&Setup { wire, ..Setup::of(pattern) }, &set).expect("it connects");
                    let slice = session.run(little(pattern)).expect("it gets through");
                    let done =
                        if pattern.is_about_octets() { slice.octets } else { slice.exchanges };
                    assert!(done >= little(pattern) && slice.frames > 0, "{pattern} {slice:?}");
                    assert_eq!(session.carried().lost, 0);
                }
            }
        }
    }

    #[test]
    fn every_pattern_survives_every_impairment() {
        for pattern in Pattern::ALL {
            let setup = Setup { impairments: ROUGH, ..Setup::of(pattern) };
            let set = Set::find(SELECTED).expect("a set");
            let mut session = session(&setup, &set).expect("it connects");
            session.run(little(pattern)).expect("it gets through");
            let carried = session.carried();
            assert!(carried.lost > 0 && carried.corrupted > 0, "{pattern} {carried:?}");
            let dropped: u64 = session.counters().iter().map(|c| c.bad_checksums).sum();
            // What is still on its way has not been judged.
            let duplicates = carried.duplicated;
            assert!(dropped <= carried.corrupted + duplicates, "{pattern} {carried:?} {dropped}");
            assert!(dropped + 4 >= carried.corrupted, "{pattern} {carried:?} {dropped}");
        }
    }

    #[test]
    fn a_server_that_has_forgotten_the_handshake_is_asked_again() {
        let setup = Setup::of(Pattern::Response);
        let set = Set::find(SELECTED).expect("a set");
        let mut session = session(&setup, &set).expect("an idle session");
        session.server.open(0).expect("it listens");
        session.client.open(0).expect("it calls");
        session.until(|s| s.client.state() == State::Open).expect("it is answered");
        session.server = Smoltcp.endpoint(&config(&setup, &set, Side::Server)).expect("another");
        session.server.open(session.now).expect("it listens");
        session.shake_hands().expect("a second connection");
        assert_eq!([session.client.state(), session.server.state()], [State::Open; 2]);
        assert_eq!(session.refused(), 1);
        assert!(session.now > HALF_OPEN && session.watchdog.turns < UNEASE_TURNS);
    }

    /// The negative control: what the checksum would have found, the comparison finds.
    #[test]
    fn without_checksums_the_comparison_finds_damage() {
        let corrupt = Impairments { corrupt: 0.01, only_data: true, ..Impairments::default() };
        for wire in [WireMode::Copy, WireMode::Reference] {
            let setup = Setup { impairments: corrupt, wire, ..Setup::of(Pattern::Bulk) };
            let mut off = session(&setup, &Set::find(OFF).expect("a set")).expect("it connects");
            let error = off.run(100_000_000).expect_err("damage gets through");
            assert!(matches!(error, Error::Corrupt { .. } | Error::Lost { .. }), "{error}");
            let selected = Set::find(SELECTED).expect("a set");
            let mut on = session(&setup, &selected).expect("it connects");
            on.run(3_000_000).expect("no damage gets through");
            assert!(on.carried().corrupted > 10);
        }
    }

    #[test]
    fn a_routine_wrong_by_one_carry_ends_the_run_and_names_the_segment() {
        let wrong = Set::of(Routines::wrong_by_a_carry());
        let lwip = Lwip::new();
        let mut stacks: Vec<&dyn Stack> = vec![&Smoltcp];
        match lwip.check(1460).and_then(|()| lwip.check(8000)) {
            Ok(()) => stacks.push(&lwip),
            Err(error) => println!("SKIP: lwIP: {error}"),
        }
        let patterns = [Pattern::Bulk, Pattern::Jumbo, Pattern::Mixed];
        let each = stacks.into_iter().flat_map(|stack| patterns.map(|pattern| (stack, pattern)));
        for (stack, pattern) in each {
            let made = between(&Setup::of(pattern), stack, &wrong);
            let run = made.and_then(|mut session| session.run(100_000_000));
            let Err(Error::Stuck(stuck)) = run else { panic!("{pattern}: {run:?}") };
            assert!(stuck.bad_checksums > 0, "{stuck}");
            let text = stuck.to_string();
            for part in [pattern.name(), stack.name(), "`wrong`", "sequence number", "octets"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn sums_taken_by_the_stack_and_by_the_device_understand_each_other() {
        let setup = Setup::of(Pattern::Bulk);
        let mut mixed = session(&setup, &Set::find(SELECTED).expect("a set")).expect("connects");
        let stack = config(&setup, &Set::find(STACK).expect("a set"), Side::Server);
        mixed.server = Smoltcp.endpoint(&stack).expect("an endpoint");
        mixed.client = Smoltcp
            .endpoint(&config(&setup, &Set::find("document").expect("a set"), Side::Client))
            .expect("an endpoint");
        mixed.connect().expect("it connects");
        mixed.run(3_000_000).expect("it gets through");
        assert_eq!(mixed.counters()[0].bad_checksums, 0);
    }
}
