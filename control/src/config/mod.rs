//! A NIC's configuration: every attribute of the Scala MRC NIC documentation, from a TOML file or its nested form, checked by named rules, as
//! parameters of the engine.
//!
//! There is one table of attributes ([`attributes`]). Reading, writing, `mrcnic config` and docs/configuration.md all come from it.

mod docs;
mod file;
mod host;
mod list;
mod model;
mod monitor;
mod nested;
mod network;
mod nscc;
mod qp_manager;
mod rule;
mod rules;
mod set;
mod setup;
mod table;
mod value;

pub use docs::document;
pub use file::Origin;
pub use host::{HostSide, NicSide};
pub use list::{Filter, NodeId, QpEnd, Triggers};
pub use model::Model;
pub use monitor::Monitor;
pub use nested::export;
pub use network::{EgressBuffer, IngressBuffer, Medium, Nic, Uplink};
pub use nscc::NsccComponent;
pub use qp_manager::{PacketSpraying, QpManager};
pub use rule::{Finding, Rule, Severity};
pub use rules::Switches;
pub use setup::{RecordSettings, Setup};
pub use table::{Acts, Attribute, attributes, find};
pub use value::{Bytes, DataRate, Kind, QueueSize, Range, SprayingType, TimeVal, Value};

use set::OPTION;
use std::collections::BTreeMap;

/// The values of all attributes, by component. The default is the documentation's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The NIC itself.
    pub nic: Nic,
    /// Its port.
    pub uplink: Uplink,
    /// Its link.
    pub medium: Medium,
    /// The receive buffer.
    pub ingress_buffer: IngressBuffer,
    /// The transmit buffer.
    pub egress_buffer: EgressBuffer,
    /// The NIC's end of the link to the host.
    pub nic_side: NicSide,
    /// The host's end.
    pub host_side: HostSide,
    /// Queue pairs.
    pub qp_manager: QpManager,
    /// Entropy values.
    pub packet_spraying: PacketSpraying,
    /// Congestion control.
    pub nscc: NsccComponent,
    /// The monitor.
    pub monitor: Monitor,
    /// What is modelled.
    pub model: Model,
}

/// A configuration, and where its values come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The values; no rule that stops is broken.
    pub config: Config,
    /// The file, as it was named.
    file: String,
    /// It is of the nested form: messages name attributes as the documentation does.
    nested: bool,
    /// The attributes that are set, by section and key, and where.
    set: BTreeMap<&'static str, Place>,
}

/// Where an attribute is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On this line of the file, from 1.
    Line(usize),
    /// In the file, which has the nested form.
    Form,
    /// By an option of the command line.
    Option,
}

impl Loaded {
    /// Where an attribute's value comes from.
    #[must_use]
    pub fn origin(&self, attribute: &Attribute) -> Origin<'_> {
        match self.set.get(attribute.full) {
            Some(Place::Line(line)) => Origin::File { file: &self.file, line: Some(*line) },
            Some(Place::Form) => Origin::File { file: &self.file, line: None },
            Some(Place::Option) => Origin::Option,
            None => Origin::Default,
        }
    }

    /// The file, or the option in its place, and the line that are to blame for an attribute's value.
    fn place(&self, full: &str) -> (&str, Option<usize>) {
        match self.set.get(full) {
            Some(Place::Option) => (OPTION, None),
            Some(Place::Line(line)) => (&self.file, Some(*line)),
            Some(Place::Form) | None => (&self.file, None),
        }
    }

    /// The attributes that are set, as TOML.
    #[must_use]
    pub fn toml(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for attribute in attributes().filter(|attribute| self.set.contains_key(attribute.full)) {
            if attribute.section != section {
                section = attribute.section;
                let gap = if text.is_empty() { "" } else { "\n" };
                text += &format!("{gap}[{section}]\n");
            }
            text += &format!("{} = {}\n", attribute.key, attribute.get(&self.config).toml());
        }
        text
    }

    /// Takes the rules of the whole as read: what stops, if anything does.
    fn checked(self) -> Result<Loaded, Vec<Finding>> {
        let stops = rules::stops(&self);
        if stops.is_empty() { Ok(self) } else { Err(stops) }
    }
}
