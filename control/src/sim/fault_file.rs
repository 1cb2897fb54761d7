//! Faults of a scenario file: `[[fault]]`.

use super::file::{FileError, Source};
use super::units::{Rate, Share, Time};
use dataplane::Ns;
use dataplane::fabric::{Fault, Node, Place, SwitchId};
use serde::Deserialize;

/// `[[fault]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultTable {
    at: Time,
    what: What,
    #[serde(rename = "where")]
    place: String,
    /// Of a flap.
    down: Option<Time>,
    /// Of a flap.
    up: Option<Time>,
    /// Of a flap.
    times: Option<u32>,
    /// Of a loss.
    share: Option<Share>,
    /// Of a rate.
    rate: Option<Rate>,
    /// Of a reboot.
    lasts: Option<Time>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum What {
    Down,
    Up,
    BlackHole,
    Heal,
    Flap,
    Loss,
    Rate,
    Reboot,
}

/// Links by name: `A-B` in both directions, `A>B` one way, a switch `p0.t1.2`, or a plane `p0`.
fn place(text: &str) -> Option<Place> {
    let node = |name: &str| name.trim().parse::<Node>().ok();
    if let Some((from, to)) = text.split_once('>') {
        return Some(Place::OneWay(node(from)?, node(to)?));
    }
    if let Some((one, other)) = text.split_once('-') {
        return Some(Place::Link(node(one)?, node(other)?));
    }
    if let Ok(switch) = text.parse::<SwitchId>() {
        return Some(Place::Switch(switch));
    }
    let plane = text.strip_prefix('p').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    plane.parse().ok().map(Place::Plane)
}

impl FaultTable {
    /// The fault that is the `n`-th of the file, and when it strikes.
    pub(super) fn fault(&self, n: usize, source: Source<'_>) -> Result<(Ns, Fault), FileError> {
        let wrong = |key: &str, why: &str| source.wrong(&["fault".into(), n.into(), key.into()], why);
        let given = [
            ("down", self.down.is_some(), What::Flap),
            ("up", self.up.is_some(), What::Flap),
            ("times", self.times.is_some(), What::Flap),
            ("share", self.share.is_some(), What::Loss),
            ("rate", self.rate.is_some(), What::Rate),
            ("lasts", self.lasts.is_some(), What::Reboot),
        ];
        for (key, is_given, what) in given {
            match (is_given, self.what == what) {
                (true, false) => return Err(wrong(key, "does not go with this fault: take it away")),
                (false, true) if key != "times" => return Err(wrong(key, "is missing: this fault needs it")),
                _ => {}
            }
        }
        let place = place(&self.place).ok_or_else(|| {
            wrong(
                "where",
                &format!(
                    "{:?} is no place: give a link as in \"p0.t0.0-p0.t1.3\" or \"nic2.0-p0.t0.2\", one direction \
                     of it as in \"p0.t0.0>p0.t1.3\", a switch as in \"p0.t1.3\", or a plane as in \"p0\"",
                    self.place
                ),
            )
        })?;
        let ns = |time: Option<Time>| time.map_or(0, |time| time.0);
        let fault = match self.what {
            What::Down => Fault::Down(place),
            What::Up => Fault::Up(place),
            What::BlackHole => Fault::BlackHole(place),
            What::Heal => Fault::Heal(place),
            What::Flap => {
                let (down_ns, up_ns) = (ns(self.down), ns(self.up));
                if self.times == Some(0) {
                    return Err(wrong(
                        "times",
                        "is 0, and a flap that never goes down is none: leave it out, or give 1 or more",
                    ));
                }
                Fault::Flap { place, down_ns, up_ns, times: self.times.unwrap_or(1) }
            }
            What::Loss => Fault::Loss(place, self.share.map_or(0.0, |share| share.0)),
            What::Rate => Fault::Rate(place, self.rate.map_or(0, |rate| rate.0)),
            What::Reboot => match place {
                Place::Switch(switch) => Fault::Reboot(switch, ns(self.lasts)),
                _ => return Err(wrong("where", "a reboot is of a switch, as in \"p0.t1.3\"")),
            },
        };
        Ok((Ns(self.at.0), fault))
    }
}
