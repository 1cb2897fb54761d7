//! Received frames that are lost, duplicated, reordered or trimmed on purpose.
//!
//! This stands at the engine's door: whatever queue or worker a frame came by, it is judged once, and by one random number. The
//! same seed and order of arrival have the same fates.

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::lane::Engine;
use super::rx::{Batch, Mbuf};
use super::stats::LaneStats;
use crate::Ns;
use crate::nic::{HEAD_MAX, PortId, RxFrame};
use crate::time::US;
use crate::wire::{Ext, Rules, Trim, parse};

/// Frames that are held back at a time; what would be one more passes as it is.
const HELD_MAX: usize = 32;
/// A frame that is held back goes in after so many later ones at most.
const LATER_MAX: u64 = 16;
/// Where no later frames come, it goes in after so long.
const HELD_NS: u64 = 10 * US;
/// Ethernet addresses; the EtherType follows.
const ETHERTYPE_AT: usize = 12;

/// What is done to received frames on purpose. Each share is that of all received frames, from 0 to less than 1; a frame has one
/// fate, so together they are 1 at most.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Impairments {
    /// Frames that are lost.
    pub loss: f64,
    /// Frames that the engine gets twice: at once, and again after 1 to 16 later ones (or 10 us).
    pub duplicate: f64,
    /// Frames that are held back until 1 to 16 later ones were taken, but not for longer than about 10 us.
    pub reorder: f64,
    /// Frames that are trimmed as a switch would, if they are data that a switch may trim; others pass as they are.
    pub trim: f64,
    /// Seed of the fates.
    pub seed: u64,
    /// How data is told from the rest, and the codepoints of what may be trimmed and of what is.
    pub rules: Rules,
}

/// Why impairments are refused.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ImpairmentError {
    /// A share outside its range.
    #[error("{name} {share}: a share from 0 to less than 1; 0.05 is one frame in twenty")]
    Share {
        /// The impairment.
        name: &'static str,
        /// What was given.
        share: f64,
    },
    /// A frame has one fate.
    #[error("loss, duplicate, reorder and trim make {0} together: give 1 at most, since a frame has one fate")]
    Sum(f64),
}

impl Impairments {
    /// The shares by their names, in the order in which they are drawn.
    const fn shares(&self) -> [(&'static str, f64); 4] {
        [("loss", self.loss), ("duplicate", self.duplicate), ("reorder", self.reorder), ("trim", self.trim)]
    }

    /// True when nothing is done to any frame.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.shares().iter().all(|&(_, share)| share == 0.0)
    }

    /// Checks the shares.
    ///
    /// # Errors
    /// The first that is out of range, or their sum.
    pub fn validate(&self) -> Result<(), ImpairmentError> {
        for (name, share) in self.shares() {
            if !(0.0..1.0).contains(&share) {
                return Err(ImpairmentError::Share { name, share });
            }
        }
        let sum: f64 = self.shares().iter().map(|(_, share)| share).sum();
        // Decimal shares that make 1 on paper may make a little more.
        if sum > 1.0 + 1e-9 { Err(ImpairmentError::Sum(sum)) } else { Ok(()) }
    }
}

/// What becomes of a frame. A number says after how many later ones it comes, or comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Passed,
    Lost,
    Twice(u64),
    Late(u64),
    Trimmed,
}

/// Draws fates.
#[derive(Debug)]
struct Dice {
    /// A random number below the first is a loss, below the second a duplicate, and so on.
    below: [u64; 4],
    random: Xoshiro256PlusPlus,
}

impl Dice {
    fn new(of: &Impairments) -> Dice {
        let mut sum = 0.0;
        let below = of.shares().map(|(_, share)| {
            sum += share;
            // Saturates: 1 is all but one frame in 2^64.
            (sum * 2f64.powi(64)) as u64
        });
        Dice { below, random: Xoshiro256PlusPlus::seed_from_u64(of.seed) }
    }

    fn cast(&mut self) -> Fate {
        let number = self.random.next_u64();
        let [loss, duplicate, reorder, trim] = self.below;
        // The high bits chose the fate; the low ones are as good as another number.
        let later = 1 + number % LATER_MAX;
        match number {
            n if n < loss => Fate::Lost,
            n if n < duplicate => Fate::Twice(later),
            n if n < reorder => Fate::Late(later),
            n if n < trim => Fate::Trimmed,
            _ => Fate::Passed,
        }
    }
}

/// Frames that are held back.
#[derive(Debug)]
struct Held<T> {
    places: [Option<Kept<T>>; HELD_MAX],
    count: usize,
    /// Frames that came so far.
    came: u64,
    /// No frame is due before so many came.
    next: u64,
}

#[derive(Debug)]
struct Kept<T> {
    frame: T,
    /// Due when so many frames came.
    at: u64,
    since: Ns,
}

impl<T> Held<T> {
    fn new() -> Held<T> {
        Held { places: [const { None }; HELD_MAX], count: 0, came: 0, next: u64::MAX }
    }

    const fn has_room(&self) -> bool {
        self.count < HELD_MAX
    }

    /// Keeps a frame until `later` more came. There is room.
    fn keep(&mut self, now: Ns, frame: T, later: u64) {
        if let Some(place) = self.places.iter_mut().find(|place| place.is_none()) {
            let at = self.came + later;
            *place = Some(Kept { frame, at, since: now });
            self.count += 1;
            self.next = self.next.min(at);
        }
    }

    /// A frame that waited for enough later ones.
    fn overtaken(&mut self) -> Option<T> {
        if self.came < self.next {
            return None;
        }
        let came = self.came;
        let due = self.take(|kept| kept.at <= came);
        if due.is_none() {
            self.next = self.places.iter().flatten().map(|kept| kept.at).min().unwrap_or(u64::MAX);
        }
        due
    }

    /// A frame that waited for long enough.
    fn overdue(&mut self, now: Ns) -> Option<T> {
        if self.count == 0 { None } else { self.take(|kept| now.since(kept.since) >= HELD_NS) }
    }

    fn take(&mut self, wanted: impl Fn(&Kept<T>) -> bool) -> Option<T> {
        let place = self.places.iter_mut().find(|place| place.as_ref().is_some_and(&wanted))?;
        self.count -= 1;
        place.take().map(|kept| kept.frame)
    }
}

/// Impairs what goes into an engine.
#[derive(Debug)]
pub(super) struct Impairer {
    dice: Dice,
    rules: Rules,
    held: Held<(PortId, Mbuf)>,
    /// One frame that is held no more.
    released: Batch,
    /// The headers of a trimmed frame: the mbuf itself may be shared with its sender.
    cut: [u8; HEAD_MAX],
    stats: Arc<LaneStats>,
}

impl Impairer {
    pub(super) fn new(of: &Impairments, stats: Arc<LaneStats>) -> Impairer {
        Impairer {
            dice: Dice::new(of),
            rules: of.rules,
            held: Held::new(),
            released: Batch::new(),
            cut: [0; HEAD_MAX],
            stats,
        }
    }

    /// Brings frame `at` of a batch to the engine, or does to it what its fate is; then those whose turn has come.
    pub(super) fn admit<E: Engine>(&mut self, engine: &mut E, now: Ns, port: PortId, batch: &mut Batch, at: usize) {
        self.held.came += 1;
        match self.dice.cast() {
            Fate::Lost => self.stats.injected_losses.add(1),
            Fate::Late(later) if self.held.has_room() => {
                if let Some(mbuf) = batch.take(at) {
                    self.held.keep(now, (port, mbuf), later);
                    self.stats.injected_reorders.add(1);
                }
            }
            Fate::Twice(later) if self.held.has_room() => {
                pass(engine, now, port, batch, at);
                if let Some(mbuf) = batch.take(at) {
                    self.held.keep(now, (port, mbuf), later);
                    self.stats.injected_duplicates.add(1);
                }
            }
            Fate::Trimmed => {
                let Some(frame) = batch.frame(at) else { return };
                match trim(frame.head(), frame.len(), &self.rules, &mut self.cut) {
                    Some(cut) => {
                        self.stats.injected_trims.add(1);
                        engine.receive(now, port, &cut);
                    }
                    None => engine.receive(now, port, &frame),
                }
            }
            Fate::Passed | Fate::Late(_) | Fate::Twice(_) => pass(engine, now, port, batch, at),
        }
        while let Some(held) = self.held.overtaken() {
            self.release(engine, now, held);
        }
    }

    /// Brings the frames to the engine that were held for long enough; how many.
    #[inline]
    pub(super) fn on_time<E: Engine>(&mut self, engine: &mut E, now: Ns) -> usize {
        let mut released = 0;
        while let Some(held) = self.held.overdue(now) {
            self.release(engine, now, held);
            released += 1;
        }
        released
    }

    fn release<E: Engine>(&mut self, engine: &mut E, now: Ns, (port, mbuf): (PortId, Mbuf)) {
        let mut mbuf = Some(mbuf);
        self.released.refill(|| mbuf.take());
        pass(engine, now, port, &mut self.released, 0);
        self.released.free();
    }
}

#[inline]
fn pass<E: Engine>(engine: &mut E, now: Ns, port: PortId, batch: &mut Batch, at: usize) {
    if let Some(frame) = batch.frame(at) {
        engine.receive(now, port, &frame);
    }
}

/// What a switch that trims leaves of a frame: the headers up to and including the RETH, with the codepoint of trimmed packets, lengths
/// and checksum as they were. `None` for what it does not trim.
fn trim<'a>(head: &[u8], len: usize, rules: &Rules, out: &'a mut [u8; HEAD_MAX]) -> Option<&'a [u8]> {
    let packet = parse(head, len, rules).ok()?;
    let Ext::Write(headers) = packet.ext else { return None };
    let may = [rules.dscp.trimmable, rules.dscp.trimmable_retx].contains(&packet.ip.dscp);
    if packet.trim != Trim::Whole || !may {
        return None;
    }
    let immediate = if headers.immediate.is_some() { 4 } else { 0 };
    let end = packet.payload_at - immediate;
    let cut = out.get_mut(..end)?;
    cut.copy_from_slice(head.get(..end)?);
    // IP begins behind the Ethernet header and its tags.
    let mut ip_at = ETHERTYPE_AT + 2;
    while matches!(cut.get(ip_at - 2..ip_at)?, [0x81, 0x00] | [0x88, 0xA8]) {
        ip_at += 4;
    }
    let [first, second, ..] = cut.get_mut(ip_at..)? else { return None };
    let dscp = rules.dscp.trimmed;
    if packet.ip.source.is_ipv4() {
        *second = dscp << 2 | (*second & 0x03);
    } else {
        *first = (*first & 0xF0) | dscp >> 2;
        *second = dscp << 6 | (*second & 0x3F);
    }
    Some(cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        Addressing, Aeth, Bth, DscpMap, MacAddr, Marks, Opcode, Reth, Template, Timestamp, UDP_PORT, WriteHeaders,
    };
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    fn all(share: f64, seed: u64) -> Impairments {
        Impairments { loss: share, duplicate: share, reorder: share, trim: share, seed, ..Impairments::default() }
    }

    fn fates(of: &Impairments) -> Vec<Fate> {
        let mut dice = Dice::new(of);
        (0..100_000).map(|_| dice.cast()).collect()
    }

    #[test]
    fn a_seed_has_the_same_fates_again_and_another_seed_has_others() {
        assert_eq!(fates(&all(0.1, 7)), fates(&all(0.1, 7)));
        assert_ne!(fates(&all(0.1, 7)), fates(&all(0.1, 8)));
    }

    #[test]
    fn each_fate_has_its_share() {
        let fates =
            fates(&Impairments { loss: 0.1, duplicate: 0.2, reorder: 0.3, trim: 0.05, seed: 1, ..Default::default() });
        let share = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count() as f64 / fates.len() as f64;
        let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 0.01, "{got} for {wanted}");
        near(share(|fate| *fate == Fate::Lost), 0.1);
        near(share(|fate| matches!(fate, Fate::Twice(1..=16))), 0.2);
        near(share(|fate| matches!(fate, Fate::Late(1..=16))), 0.3);
        near(share(|fate| *fate == Fate::Trimmed), 0.05);
        for later in 1..=16 {
            assert!(fates.contains(&Fate::Late(later)), "{later}");
        }
    }

    #[test]
    fn a_loss_alone_takes_the_frames_that_it_takes_with_the_others_too() {
        let alone = fates(&Impairments { loss: 0.1, seed: 3, ..Default::default() });
        let lost = |fates: &[Fate]| fates.iter().map(|fate| *fate == Fate::Lost).collect::<Vec<_>>();
        assert_eq!(lost(&alone), lost(&fates(&all(0.1, 3))));
    }

    #[test]
    fn shares_outside_their_range_are_refused_by_name() {
        assert!(Impairments::default().is_none() && Impairments::default().validate().is_ok());
        assert!(!all(0.25, 1).is_none());
        assert_eq!(all(0.25, 1).validate(), Ok(()));
        let tenths = Impairments { loss: 0.1, duplicate: 0.2, reorder: 0.3, trim: 0.4, ..Default::default() };
        assert_eq!(tenths.validate(), Ok(()));
        assert_eq!(all(0.3, 1).validate(), Err(ImpairmentError::Sum(1.2)));
        for share in [-0.1, 1.0, 2.0, f64::NAN, f64::INFINITY] {
            for (of, name) in [
                (Impairments { loss: share, ..Default::default() }, "loss"),
                (Impairments { duplicate: share, ..Default::default() }, "duplicate"),
                (Impairments { reorder: share, ..Default::default() }, "reorder"),
                (Impairments { trim: share, ..Default::default() }, "trim"),
            ] {
                let refusal = of.validate().expect_err(name).to_string();
                assert!(refusal.starts_with(name), "{refusal}");
            }
        }
    }

    proptest! {
        /// Whatever is held comes out, once, after at least one and at most so many later frames as it was to wait for.
        #[test]
        fn nothing_that_is_held_back_is_lost(lates in prop::collection::vec(prop::option::of(1..=LATER_MAX), 1..500)) {
            let mut held = Held::new();
            let mut out = vec![0; lates.len()];
            let now = Ns(1_000);
            for (i, late) in lates.iter().enumerate() {
                held.came += 1;
                match late {
                    Some(later) if held.has_room() => held.keep(now, (i, *later), *later),
                    _ => out[i] += 1,
                }
                while let Some((was, later)) = held.overtaken() {
                    prop_assert_eq!(i as u64, was as u64 + later);
                    out[was] += 1;
                }
            }
            prop_assert!(held.overdue(Ns(1_000 + HELD_NS - 1)).is_none());
            while let Some((was, _)) = held.overdue(Ns(1_000 + HELD_NS)) {
                out[was] += 1;
            }
            prop_assert!(out.iter().all(|&times| times == 1));
            prop_assert_eq!(held.count, 0);
        }
    }

    #[test]
    fn what_would_be_one_more_than_is_held_has_no_room() {
        let mut held = Held::new();
        for i in 0..HELD_MAX {
            assert!(held.has_room());
            held.keep(Ns(0), i, 1);
        }
        assert!(!held.has_room());
        held.came += 1;
        assert_eq!(held.overtaken(), Some(0));
        assert!(held.has_room());
    }

    struct Kind {
        v6: bool,
        vlan: Option<u16>,
        tsh: bool,
        opcode: Opcode,
        dscp: u8,
    }

    /// A frame with 1,000 bytes of payload where it is data.
    fn frame(kind: &Kind) -> Vec<u8> {
        let (source, destination): (IpAddr, IpAddr) = if kind.v6 {
            (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::from(0xFD00_u128 << 112 | 1).into())
        } else {
            (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into())
        };
        let template = Template::new(&Addressing {
            source_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            vlan: kind.vlan,
            source,
            destination,
            hop_limit: 64,
            udp_port: UDP_PORT,
        })
        .unwrap();
        let mut bth = Bth::new(kind.opcode, 0x01_0002, 0xFF_FFFE);
        bth.ack_request = true;
        bth.tsh = kind.tsh;
        let ext = if kind.opcode.is_data() {
            Ext::Write(WriteHeaders {
                reth: Reth { va: 0x1234_5678_9ABC, rkey: 7, dmalen: 1_000 },
                immediate: kind.opcode.has_immediate().then_some(99),
                timestamp: kind.tsh.then(Timestamp::default),
                ..WriteHeaders::default()
            })
        } else {
            Ext::Ack(Aeth { syndrome: 0x1F, msn: 3 })
        };
        let payload = if kind.opcode.is_data() { 1_000 } else { 0 };
        let mut frame = vec![0; template.frame_len(ext.len(), payload)];
        let at = template
            .write_headers(&mut frame, Marks { ev: 0x1234, dscp: kind.dscp, ecn: 2 }, &bth, &ext, payload)
            .unwrap();
        assert!(template.seal(&mut frame, at, payload));
        frame
    }

    fn cut(frame: &[u8]) -> Option<Vec<u8>> {
        let head = &frame[..frame.len().min(HEAD_MAX)];
        trim(head, frame.len(), &Rules::default(), &mut [0xEE; HEAD_MAX]).map(<[u8]>::to_vec)
    }

    #[test]
    fn a_trimmed_copy_reads_as_trimmed_with_the_same_headers() {
        for (v6, vlan, tsh, len) in [
            (false, None, false, 74),
            (true, None, false, 94),
            (false, Some(5), false, 78),
            (true, Some(5), true, 102),
            (false, None, true, 78),
        ] {
            for opcode in Opcode::ALL.into_iter().filter(|opcode| opcode.is_data()) {
                for dscp in [4, 8] {
                    let whole = frame(&Kind { v6, vlan, tsh, opcode, dscp });
                    let cut = cut(&whole).expect("data is trimmed");
                    assert_eq!(cut.len(), len);
                    let before = parse(&whole[..HEAD_MAX], whole.len(), &Rules::default()).unwrap();
                    let after = parse(&cut, cut.len(), &Rules::default()).unwrap();
                    assert_eq!(after.trim, Trim::Trimmed);
                    assert_eq!((after.bth, after.ev()), (before.bth, before.ev()));
                    assert_eq!((after.ip.ecn, after.ip.source), (before.ip.ecn, before.ip.source));
                    assert_eq!(
                        (after.ip.destination, after.ip.hop_limit),
                        (before.ip.destination, before.ip.hop_limit)
                    );
                    let changed = whole.iter().zip(&cut).filter(|(a, b)| a != b).count();
                    assert!((1..=2).contains(&changed), "the codepoint alone changes: {changed}");
                }
            }
        }
    }

    #[test]
    fn what_a_switch_does_not_trim_passes() {
        let plain = |opcode, dscp| frame(&Kind { v6: false, vlan: None, tsh: false, opcode, dscp });
        let DscpMap { no_trim, trimmable, trimmed, control, .. } = DscpMap::default();
        assert_eq!(cut(&plain(Opcode::WriteOnly, no_trim)), None);
        assert_eq!(cut(&plain(Opcode::WriteOnly, trimmed)), None);
        assert_eq!(cut(&plain(Opcode::Ack, control)), None);
        assert_eq!(cut(&plain(Opcode::Ack, trimmable)), None);
        assert_eq!(cut(&[0; 64]), None);
        assert_eq!(cut(&[]), None);
        let whole = plain(Opcode::WriteOnly, trimmable);
        assert_eq!(cut(&whole[..40]), None);
        assert!(cut(&whole).is_some());
    }
}
