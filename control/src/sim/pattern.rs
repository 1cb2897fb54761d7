//! Patterns of traffic: `[[traffic]]` of a scenario file, as flows.

use super::file::{FileError, Source};
use super::flows::Flow;
use super::units::{Size, Time};
use dataplane::Ns;
use dataplane::fabric::NicId;
use dataplane::nic::PathSpec;
use dataplane::transport::{MESSAGE_MAX, SEND_QUEUE_MAX};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

/// Most flows of a scenario.
pub const FLOWS_MAX: usize = 1 << 17;
/// Most bytes that receivers have registered in all, in bytes: 16 GiB.
pub const MEMORY_MAX: u64 = 16 << 30;

/// `[[traffic]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrafficTable {
    pattern: Pattern,
    name: Option<String>,
    size: Size,
    count: Option<u64>,
    outstanding: Option<usize>,
    start: Option<Time>,
    stagger: Option<Time>,
    src: Option<u32>,
    dst: Option<u32>,
    n: Option<u32>,
    from: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Pattern {
    PointToPoint,
    Permutation,
    Incast,
    AllToAll,
    RingAllReduce,
}

impl Pattern {
    const fn keys(self) -> &'static [&'static str] {
        match self {
            Pattern::PointToPoint => &["count", "outstanding", "start", "src", "dst"],
            Pattern::Permutation | Pattern::AllToAll => &["count", "outstanding", "start", "stagger"],
            Pattern::Incast => &["count", "outstanding", "start", "stagger", "n", "dst", "from"],
            Pattern::RingAllReduce => &["start"],
        }
    }
}

impl TrafficTable {
    /// What reports call it.
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(match self.pattern {
            Pattern::PointToPoint => "point-to-point",
            Pattern::Permutation => "permutation",
            Pattern::Incast => "incast",
            Pattern::AllToAll => "all-to-all",
            Pattern::RingAllReduce => "ring-all-reduce",
        })
    }

    /// The flows of the `at`-th pattern, behind `before` others, among `nics` NICs. Their paths are the default ones.
    pub(super) fn flows(
        &self,
        at: usize,
        before: usize,
        nics: u32,
        rng: &mut Xoshiro256PlusPlus,
        source: Source<'_>,
    ) -> Result<Vec<Flow>, FileError> {
        let wrong = |key: &str, why: String| source.wrong(&["traffic".into(), at.into(), key.into()], why);
        self.check(nics, wrong)?;
        let ring = self.pattern == Pattern::RingAllReduce;
        let steps = if ring { 2 * (u64::from(nics) - 1) } else { 1 };
        // Before they are made: there may be billions.
        let flows = before as u64 + self.pair_count(nics) * steps;
        if flows > FLOWS_MAX as u64 {
            let why = format!(
                "with it there are {flows} flows, and {FLOWS_MAX} are the most: take fewer NICs, or another pattern"
            );
            return Err(wrong("pattern", why));
        }
        let pairs = self.pairs(nics, rng);
        let start = self.start.map_or(0, |time| time.0);
        let stagger = self.stagger.map_or(0, |time| time.0);
        let message = self.size.0 as usize;
        let flow = |n: usize, (src, dst)| Flow {
            src: NicId(src),
            dst: NicId(dst),
            message,
            count: self.count,
            outstanding: self.outstanding.unwrap_or(1),
            start: Ns(start + stagger * n as u64),
            after: Vec::new(),
            path: PathSpec::default(),
            back: PathSpec::default(),
        };
        if !ring {
            return Ok(pairs.into_iter().enumerate().map(|(n, pair)| flow(n, pair)).collect());
        }
        let chunk = message.div_ceil(nics as usize);
        let steps =
            (0..steps as usize).flat_map(|step| pairs.iter().enumerate().map(move |(n, pair)| (step, n, *pair)));
        Ok(steps
            .map(|(step, n, pair)| {
                // What is sent on is what the predecessor sent in the step before.
                let predecessor = (n + nics as usize - 1) % nics as usize;
                let after = step.checked_sub(1).map(|last| before + last * nics as usize + predecessor);
                Flow { message: chunk, count: Some(1), after: after.into_iter().collect(), ..flow(0, pair) }
            })
            .collect())
    }

    /// Bytes that the receivers of the pattern's flows need.
    pub(super) fn memory(flows: &[Flow]) -> u64 {
        flows.iter().map(|flow| flow.message as u64 * flow.places() as u64).fold(0, u64::saturating_add)
    }

    /// How many pairs there are.
    fn pair_count(&self, nics: u32) -> u64 {
        let nics = u64::from(nics);
        match self.pattern {
            Pattern::PointToPoint => 1,
            Pattern::Permutation | Pattern::RingAllReduce => nics,
            Pattern::Incast => self.n.map_or(nics, u64::from),
            Pattern::AllToAll => nics * (nics - 1),
        }
    }

    fn pairs(&self, nics: u32, rng: &mut Xoshiro256PlusPlus) -> Vec<(u32, u32)> {
        match self.pattern {
            Pattern::PointToPoint => vec![(self.src.unwrap_or(0), self.dst.unwrap_or(0))],
            Pattern::Permutation => {
                // One cycle through all of them (Sattolo): so nobody is its own peer.
                let mut to: Vec<u32> = (0..nics).collect();
                for last in (1..to.len()).rev() {
                    to.swap(last, rng.random_range(0..last));
                }
                (0..nics).zip(to).collect()
            }
            Pattern::Incast => {
                let dst = self.dst.unwrap_or(0);
                let from = self.from.unwrap_or(dst + 1);
                let others = (0..nics).map(|n| (from + n) % nics).filter(|&src| src != dst);
                others.take(self.n.unwrap_or(nics) as usize).map(|src| (src, dst)).collect()
            }
            Pattern::AllToAll => {
                // Each begins with its neighbour, so that the first ones do not all meet.
                (1..nics).flat_map(|step| (0..nics).map(move |src| (src, (src + step) % nics))).collect()
            }
            Pattern::RingAllReduce => (0..nics).map(|src| (src, (src + 1) % nics)).collect(),
        }
    }

    fn check(&self, nics: u32, wrong: impl Fn(&str, String) -> FileError) -> Result<(), FileError> {
        let given = [
            ("count", self.count.is_some()),
            ("outstanding", self.outstanding.is_some()),
            ("start", self.start.is_some()),
            ("stagger", self.stagger.is_some()),
            ("src", self.src.is_some()),
            ("dst", self.dst.is_some()),
            ("n", self.n.is_some()),
            ("from", self.from.is_some()),
        ];
        let keys = self.pattern.keys();
        for (key, given) in given {
            if given && !keys.contains(&key) {
                let all = keys.join(", ");
                return Err(wrong(key, format!("does not go with this pattern, which has name, size, {all}")));
            }
            let needed = matches!(key, "src" | "dst" | "n") && keys.contains(&key);
            if needed && !given {
                return Err(wrong(key, "is missing: this pattern needs it".into()));
            }
        }
        for (key, nic) in [("src", self.src), ("dst", self.dst), ("from", self.from)] {
            if let Some(nic) = nic.filter(|&nic| nic >= nics) {
                return Err(wrong(key, format!("there is no NIC {nic}: the fabric has 0 to {}", nics - 1)));
            }
        }
        if nics < 2 {
            return Err(wrong("pattern", "the fabric has one NIC, and traffic needs two".into()));
        }
        if self.src.is_some() && self.src == self.dst {
            return Err(wrong("dst", "is src itself: name another NIC".into()));
        }
        if let Some(n) = self.n.filter(|&n| n == 0 || n >= nics) {
            return Err(wrong("n", format!("{n} NICs can't send to one of {nics}: give 1 to {}", nics - 1)));
        }
        if self.size.0 > u64::from(MESSAGE_MAX) {
            return Err(wrong("size", "a message has 1 GiB at most".into()));
        }
        if self.count == Some(0) {
            return Err(wrong("count", "give 1 at least, or leave it away for messages until the end".into()));
        }
        if self.outstanding.is_some_and(|outstanding| !(1..=SEND_QUEUE_MAX).contains(&outstanding)) {
            return Err(wrong("outstanding", format!("give 1 to {SEND_QUEUE_MAX}")));
        }
        Ok(())
    }
}
