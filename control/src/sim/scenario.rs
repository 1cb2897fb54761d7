//! A scenario file: fabric, NICs, paths, traffic, and for how long.

use super::fault_file::FaultTable;
use super::file::{FileError, Source, Step};
use super::flows::Flow;
use super::nic_config;
use super::nic_file::{FabricDefaults, NicTable, SprayingName};
use super::pattern::{MEMORY_MAX, TrafficTable};
use super::plan_file::FabricTable;
use super::units::Time;
use super::ways::{Ways, unloaded_rtt};
use super::world::{World, WorldError};
use crate::config::{Config, Finding, Loaded, RecordSettings, Switches};
use crate::controller::ProfileSpec;
use dataplane::Ns;
use dataplane::fabric::{Fabric, Plan, Topology};
use dataplane::nic::NicParams;
use dataplane::time::{MS, US};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::Path;

/// How long a scenario runs at most where its file does not say, in ns.
const DURATION: u64 = 10 * MS;
/// Between two records, in ns, where the file does not say.
const INTERVAL: u64 = 10 * US;

/// A scenario, ready to run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Decides all that is random.
    pub seed: u64,
    /// The end, in virtual time, should flows go on so long.
    pub duration: Ns,
    /// Over IPv6.
    pub ipv6: bool,
    /// Every byte of every message is compared.
    pub verify: bool,
    /// Time between two records in ns.
    pub interval_ns: u64,
    /// The fabric, and what breaks.
    pub plan: Plan,
    /// Every NIC.
    pub nic: NicParams,
    /// `ReliabilityProbePeriod` in ns.
    pub probe_period_ns: u64,
    /// The flows.
    pub flows: Vec<Flow>,
    /// Their patterns in order: the name of each, and the number behind its last flow.
    pub patterns: Vec<(String, usize)>,
    /// Which records the NICs keep: as their configuration has it, or without one its defaults.
    pub records: RecordSettings,
    /// What the NICs' configuration does that its writer may not have meant.
    pub warnings: Vec<Finding>,
}

/// What is said beside a scenario's file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// Takes the place of the file's seed.
    pub seed: Option<u64>,
    /// The NICs' configuration, in the place of the one that the file names.
    pub config: Option<&'a Path>,
    /// Attributes of that configuration, or of the defaults, `KEY=VALUE` each.
    pub set: &'a [String],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    seed: Option<u64>,
    duration: Option<Time>,
    #[serde(default)]
    ipv6: bool,
    verify: Option<bool>,
    #[serde(default)]
    records: RecordsTable,
    fabric: FabricTable,
    #[serde(default)]
    fault: Vec<FaultTable>,
    #[serde(default)]
    nic: NicTable,
    /// Of two shapes: it is read apart.
    #[serde(rename = "ev_profile")]
    ev_profile: Option<IgnoredAny>,
    traffic: Vec<TrafficTable>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordsTable {
    interval: Option<Time>,
}

/// The file with nothing but an EV profile of one shape or the other.
#[derive(Deserialize)]
struct ProfileOnly<T> {
    ev_profile: T,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathsTable {
    paths: bool,
}

impl Scenario {
    /// Reads a scenario. `seed` takes the place of the file's.
    ///
    /// # Errors
    /// [`FileError`] names the file, the line, the key and the reason.
    pub fn read(text: &str, file_name: &str, seed: Option<u64>) -> Result<Scenario, FileError> {
        Scenario::read_beside(text, file_name, &Beside { seed, ..Beside::default() })
    }

    /// Reads a scenario, and what is said beside it. A file with the NICs' configuration that it names is searched from its own directory on.
    ///
    /// # Errors
    /// [`FileError`] names the file or the option, the line, the key and the reason.
    pub fn read_beside(text: &str, file_name: &str, beside: &Beside<'_>) -> Result<Scenario, FileError> {
        let source = Source { text, name: file_name };
        let file: ScenarioFile = source.read()?;
        let seed = beside.seed.or(file.seed).unwrap_or(1);
        let loaded = nic_config::load(&file.nic, beside, source)?;
        let mut plan = file.fabric.plan(&file.fault, source)?;
        if let Some(loaded) = &loaded {
            nic_config::join(loaded, &mut plan, source);
        }
        // What cannot be built was refused.
        let fabric = |error| source.wrong(&["fabric".into()], format!("{error}"));
        let fabric = Fabric::<Vec<u8>>::new(&plan, seed).map_err(fabric)?;
        let config = loaded.as_ref().map_or_else(Config::default, |loaded| loaded.config.clone());
        let setup = config.setup();
        let (nic, spraying, probe_period_ns) = if loaded.is_some() {
            let nic = file.nic.configured(&setup, fabric.ports(), source)?;
            (nic, setup.spraying.into(), file.nic.configured_probe_period_ns(&setup))
        } else {
            let base_rtt = file.nic.base_rtt_ns().or_else(|| unloaded_rtt(&fabric, file.nic.mss(), file.ipv6));
            let defaults = FabricDefaults { data_rate: plan.host.rate.saturating_mul(fabric.ports().into()) };
            let nic = file.nic.params(defaults, base_rtt.unwrap_or(NicParams::default().base_rtt_ns), source)?;
            (nic, file.nic.spraying(), file.nic.probe_period_ns())
        };
        let (mut flows, patterns) = flows(&file.traffic, fabric.nics(), seed, source)?;
        let ways = ways(&file, spraying, source)?;
        let key = if file.ev_profile.is_some() { "ev_profile" } else { "nic" };
        ways.lay(&fabric, file.ipv6, seed, &mut flows).map_err(|why| source.wrong(&[key.into()], why))?;
        let interval_ns = file.records.interval.map_or(INTERVAL, |time| time.0);
        let duration = file.duration.map_or(DURATION, |time| time.0);
        for (path, time) in
            [(&["records".into(), "interval".into()][..], interval_ns), (&["duration".into()], duration)]
        {
            if time == 0 {
                return Err(source.wrong(path, "is out of range: give 1ns to 60s"));
            }
        }
        Ok(Scenario {
            seed,
            duration: Ns(duration),
            ipv6: file.ipv6,
            verify: file.verify.unwrap_or(true),
            interval_ns,
            plan,
            nic,
            probe_period_ns,
            flows,
            patterns,
            records: setup.records,
            warnings: loaded.iter().flat_map(|loaded| Loaded::warnings(loaded, Switches::default())).collect(),
        })
    }

    /// The NICs and the fabric, before anything has happened.
    ///
    /// # Errors
    /// [`WorldError`].
    pub fn world(&self) -> Result<World, WorldError> {
        World::probing(&self.plan, self.nic, self.ipv6, self.seed, self.probe_period_ns)
    }

    /// Whether each NIC has several ports, each on a plane of its own.
    #[must_use]
    pub const fn planes(&self) -> u8 {
        match self.plan.topology {
            Topology::Paths { .. } => 1,
            Topology::LeafSpine { planes, .. } | Topology::ThreeTier { planes, .. } => planes,
        }
    }
}

/// Flows, and where the patterns that they follow end.
type Patterned = (Vec<Flow>, Vec<(String, usize)>);

fn flows(traffic: &[TrafficTable], nics: u32, seed: u64, source: Source<'_>) -> Result<Patterned, FileError> {
    // Another stream than those of the fabric and of the NICs.
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(!seed);
    let (mut flows, mut patterns) = (Vec::new(), Vec::new());
    for (at, table) in traffic.iter().enumerate() {
        let more = table.flows(at, flows.len(), nics, &mut rng, source)?;
        flows.extend(more);
        patterns.push((table.name().to_owned(), flows.len()));
        let memory = TrafficTable::memory(&flows);
        if memory > MEMORY_MAX {
            let path: [Step<'_>; 3] = ["traffic".into(), at.into(), "size".into()];
            let why = format!(
                "with it receivers need {memory} bytes, and {MEMORY_MAX} is the most: make size or outstanding smaller"
            );
            return Err(source.wrong(&path, why));
        }
    }
    Ok((flows, patterns))
}

/// How packets find their way, as `[ev_profile]` and the NICs' spraying say.
fn ways(file: &ScenarioFile, spraying: SprayingName, source: Source<'_>) -> Result<Ways, FileError> {
    if file.ev_profile.is_none() {
        return Ok(if spraying == SprayingName::None { Ways::Own } else { Ways::Sprayed });
    }
    if spraying == SprayingName::None {
        if file.nic.spraying() == SprayingName::None {
            return Err(source.wrong(&["nic".into(), "spraying".into()], "\"none\" does not go with an EV profile"));
        }
        let why = "does not go with a configuration whose PacketSprayingType is None: take either away";
        return Err(source.wrong(&["ev_profile".into()], why));
    }
    if source.has(&["ev_profile".into(), "paths".into()]) {
        let table = source.read::<ProfileOnly<PathsTable>>()?.ev_profile;
        return Ok(if table.paths { Ways::EachPath } else { Ways::Sprayed });
    }
    Ok(Ways::Profile(Box::new(source.read::<ProfileOnly<ProfileSpec>>()?.ev_profile)))
}
