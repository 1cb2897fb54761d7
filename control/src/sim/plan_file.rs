//! The fabric of a scenario file: `[fabric]` and `[[fault]]`, as a [`Plan`].

use super::fault_file::FaultTable;
use super::file::{FileError, Source, Step, name_or_table};
use super::units::{Rate, Share, Size, Time};
use dataplane::fabric::{EcnParams, EvBits, Forwarding, Hash, LinkParams, Plan, PlanError, QueueParams, Topology};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What a scenario file says of the fabric.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanFile {
    /// The fabric, faults included.
    pub plan: Plan,
}

/// Reads the fabric of a scenario file; what the file says besides is left alone, but its top keys must be those of a scenario.
///
/// # Errors
/// [`FileError`] names the file, the line, the key and the reason.
pub fn read(text: &str, file_name: &str) -> Result<PlanFile, FileError> {
    let source = Source { text, name: file_name };
    let file: FabricOnly = source.read()?;
    Ok(PlanFile { plan: file.fabric.plan(&file.fault, source)? })
}

/// A scenario file of which only the fabric counts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricOnly {
    fabric: FabricTable,
    #[serde(default)]
    fault: Vec<FaultTable>,
    #[serde(default, rename = "seed")]
    _seed: IgnoredAny,
    #[serde(default, rename = "duration")]
    _duration: IgnoredAny,
    #[serde(default, rename = "ipv6")]
    _ipv6: IgnoredAny,
    #[serde(default, rename = "verify")]
    _verify: IgnoredAny,
    #[serde(default, rename = "records")]
    _records: IgnoredAny,
    #[serde(default, rename = "nic")]
    _nic: IgnoredAny,
    #[serde(default, rename = "ev_profile")]
    _ev_profile: IgnoredAny,
    #[serde(default, rename = "traffic")]
    _traffic: IgnoredAny,
}

/// `[fabric]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FabricTable {
    topology: Kind,
    nics: Option<u32>,
    paths: Option<u32>,
    planes: Option<u8>,
    pods: Option<u32>,
    leaves: Option<u32>,
    nics_per_leaf: Option<u32>,
    spines: Option<u32>,
    cores: Option<u32>,
    #[serde(default)]
    host: LinkTable,
    #[serde(default)]
    links: LinkTable,
    nic_queue: Option<Size>,
    #[serde(default)]
    queue: QueueTable,
    #[serde(default)]
    forwarding: ForwardingTable,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Paths,
    LeafSpine,
    ThreeTier,
}

/// `host` and `links`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    rate: Option<Rate>,
    delay: Option<Time>,
    loss: Option<Share>,
    corrupt: Option<Share>,
    reorder: Option<Share>,
    late: Option<Time>,
    overhead: Option<u8>,
}

/// `queue`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueTable {
    data: Option<Size>,
    control: Option<Size>,
    ecn: Option<EcnTable>,
    trimming: Option<bool>,
}

/// `ecn`: `"off"`, or thresholds.
#[derive(Clone, Debug)]
struct EcnTable(Option<Thresholds>);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Thresholds {
    min: Option<Size>,
    max: Option<Size>,
    #[serde(default)]
    last_hop: bool,
}

/// `forwarding`: a name, or a table with `kind`.
#[derive(Clone, Debug, Default)]
struct ForwardingTable(ForwardingKeys);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForwardingKeys {
    kind: ForwardingKind,
    salt: Option<u64>,
    flow_label: Option<bool>,
    repair: Option<bool>,
    bits: Option<Bits>,
    widths: Option<Vec<u8>>,
    locator: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum ForwardingKind {
    #[default]
    Ecmp,
    StructuredEv,
    Srv6,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Bits {
    Port,
    LabelAndPort,
}

/// The locator block of SRv6 where none is given: fcbb:bbbb::/32, as in the examples of RFC 9800.
const LOCATOR: u32 = 0xFCBB_BBBB;

name_or_table!(
    EcnTable,
    "\"off\", or a table with min, max and last_hop",
    |text: &str| match text {
        "off" => Ok(EcnTable(None)),
        _ => Err(E::custom(format!("{text:?} is not \"off\": give that, or a table with min, max and last_hop"))),
    },
    |table| EcnTable(Some(table))
);

name_or_table!(
    ForwardingTable,
    "\"ecmp\", \"structured-ev\" or \"srv6\", or a table with such a kind",
    |text: &str| {
        let kind = ForwardingKind::deserialize(serde::de::value::StrDeserializer::<E>::new(text))?;
        Ok(ForwardingTable(ForwardingKeys { kind, ..ForwardingKeys::default() }))
    },
    ForwardingTable
);

impl LinkTable {
    fn params(&self) -> LinkParams {
        let default = LinkParams::default();
        LinkParams {
            rate: self.rate.map_or(default.rate, |rate| rate.0),
            delay_ns: self.delay.map_or(default.delay_ns, |delay| delay.0),
            loss: self.loss.map_or(default.loss, |share| share.0),
            corrupt: self.corrupt.map_or(default.corrupt, |share| share.0),
            reorder: self.reorder.map_or(default.reorder, |share| share.0),
            late_ns: self.late.map_or(default.late_ns, |late| late.0),
            overhead: self.overhead.unwrap_or(default.overhead),
        }
    }
}

/// Bytes of a queue as the fabric counts them.
fn bytes(size: Option<Size>, default: u32) -> u32 {
    size.map_or(default, |size| u32::try_from(size.0).unwrap_or(u32::MAX))
}

impl QueueTable {
    fn params(&self) -> QueueParams {
        let default = QueueParams::default();
        let marks = EcnParams::default();
        QueueParams {
            data: bytes(self.data, default.data),
            control: bytes(self.control, default.control),
            ecn: match &self.ecn {
                None => default.ecn,
                Some(EcnTable(None)) => None,
                Some(EcnTable(Some(Thresholds { min, max, last_hop }))) => {
                    Some(EcnParams { min: bytes(*min, marks.min), max: bytes(*max, marks.max), last_hop: *last_hop })
                }
            },
            trimming: self.trimming.unwrap_or(default.trimming),
        }
    }
}

impl ForwardingKeys {
    /// `ups`: links up of each tier.
    fn forwarding(&self, ups: &[u32], source: Source<'_>) -> Result<Forwarding, FileError> {
        use ForwardingKind::{Ecmp, Srv6, StructuredEv};
        let given = [
            ("salt", self.salt.is_some(), &[Ecmp, Srv6][..]),
            ("flow_label", self.flow_label.is_some(), &[Ecmp, Srv6]),
            ("repair", self.repair.is_some(), &[Ecmp, Srv6]),
            ("bits", self.bits.is_some(), &[StructuredEv]),
            ("widths", self.widths.is_some(), &[StructuredEv]),
            ("locator", self.locator.is_some(), &[Srv6]),
        ];
        for (key, is_given, kinds) in given {
            if is_given && !kinds.contains(&self.kind) {
                let path = ["fabric".into(), "forwarding".into(), key.into()];
                return Err(source.wrong(&path, "does not go with this kind of forwarding: take it away"));
            }
        }
        let hash = Hash {
            salt: self.salt.unwrap_or(0),
            flow_label: self.flow_label.unwrap_or(false),
            repair: self.repair.unwrap_or(false),
        };
        // As many bits as name every link up.
        let least = |&links: &u32| links.next_power_of_two().trailing_zeros().max(1) as u8;
        Ok(match self.kind {
            Ecmp => Forwarding::Ecmp(hash),
            StructuredEv => Forwarding::StructuredEv {
                bits: match self.bits {
                    Some(Bits::LabelAndPort) => EvBits::LabelAndPort,
                    Some(Bits::Port) | None => EvBits::Port,
                },
                widths: self.widths.clone().unwrap_or_else(|| ups.iter().map(least).collect()),
            },
            Srv6 => Forwarding::Srv6 { locator: self.locator.unwrap_or(LOCATOR), others: hash },
        })
    }
}

impl FabricTable {
    fn topology(&self, source: Source<'_>) -> Result<Topology, FileError> {
        let wrong = |key: &str, why: String| source.wrong(&["fabric".into(), key.into()], why);
        let counts = [
            ("nics", self.nics, &[Kind::Paths][..]),
            ("paths", self.paths, &[Kind::Paths]),
            ("planes", self.planes.map(u32::from), &[Kind::LeafSpine, Kind::ThreeTier]),
            ("pods", self.pods, &[Kind::ThreeTier]),
            ("leaves", self.leaves, &[Kind::LeafSpine, Kind::ThreeTier]),
            ("nics_per_leaf", self.nics_per_leaf, &[Kind::LeafSpine, Kind::ThreeTier]),
            ("spines", self.spines, &[Kind::LeafSpine, Kind::ThreeTier]),
            ("cores", self.cores, &[Kind::ThreeTier]),
        ];
        let needed = || counts.iter().filter(|(.., kinds)| kinds.contains(&self.topology)).map(|(key, ..)| *key);
        for (key, count, kinds) in counts {
            let goes = kinds.contains(&self.topology);
            if count.is_some() && !goes {
                let all = needed().collect::<Vec<_>>().join(", ");
                return Err(wrong(key, format!("does not go with this topology, which has {all}")));
            }
            if goes && count.is_none() && key != "planes" {
                return Err(wrong(key, "is missing: this topology needs it".into()));
            }
        }
        let count = |count: Option<u32>| count.unwrap_or(1);
        let (planes, leaves) = (self.planes.unwrap_or(1), count(self.leaves));
        let (nics_per_leaf, spines) = (count(self.nics_per_leaf), count(self.spines));
        Ok(match self.topology {
            Kind::Paths => Topology::Paths { nics: count(self.nics), paths: count(self.paths) },
            Kind::LeafSpine => Topology::LeafSpine { planes, leaves, nics_per_leaf, spines },
            Kind::ThreeTier => {
                let (pods, cores) = (count(self.pods), count(self.cores));
                Topology::ThreeTier { planes, pods, leaves, nics_per_leaf, spines, cores }
            }
        })
    }

    /// The plan, checked.
    pub(super) fn plan(&self, faults: &[FaultTable], source: Source<'_>) -> Result<Plan, FileError> {
        let topology = self.topology(source)?;
        let ups = match topology {
            Topology::Paths { paths, .. } => vec![paths],
            Topology::LeafSpine { spines, .. } => vec![spines],
            Topology::ThreeTier { spines, cores, .. } => vec![spines, cores],
        };
        let mut plan = Plan::new(topology);
        plan.host = self.host.params();
        plan.fabric = self.links.params();
        plan.nic_queue = bytes(self.nic_queue, plan.nic_queue);
        plan.queue = self.queue.params();
        plan.forwarding = self.forwarding.0.forwarding(&ups, source)?;
        plan.check().map_err(|error| source.wrong(&blamed(&plan, &error), error.to_string()))?;
        for (n, table) in faults.iter().enumerate() {
            let entry = table.fault(n, source)?;
            // One at a time, so that it is known which one is wrong.
            let one = Plan { schedule: vec![entry], ..plan.clone() };
            one.check().map_err(|error| {
                let key = if matches!(error, PlanError::Flap) { "what" } else { "where" };
                source.wrong(&["fault".into(), n.into(), key.into()], error.to_string())
            })?;
            plan.schedule.push(entry);
        }
        Ok(plan)
    }
}

/// The key that a plan is refused for.
fn blamed(plan: &Plan, error: &PlanError) -> Vec<Step<'static>> {
    let keys: &[&'static str] = match error {
        PlanError::Planes(_) => &["planes"],
        PlanError::Queue(bytes) if *bytes == plan.nic_queue => &["nic_queue"],
        PlanError::Queue(bytes) if *bytes == plan.queue.data => &["queue", "data"],
        PlanError::Queue(_) => &["queue", "control"],
        PlanError::Ecn { .. } => &["queue", "ecn", "max"],
        PlanError::FieldWidths | PlanError::FieldTooNarrow { .. } => &["forwarding", "widths"],
        _ => &["topology"],
    };
    core::iter::once("fabric").chain(keys.iter().copied()).map(Step::Key).collect()
}
