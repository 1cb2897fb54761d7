//! The configuration of a scenario's NICs: the file that it names, or one that is given beside it, and attributes that are set by options.

use super::file::{FileError, Source};
use super::nic_file::NicTable;
use super::scenario::Beside;
use crate::config::{Loaded, Origin, find};
use dataplane::fabric::Plan;
use std::path::Path;

/// The attribute that is the delay of a NIC's link.
const DELAY: &str = "network_interface.medium.delay";

/// The configuration of every NIC, if there is one.
pub(super) fn load(nic: &NicTable, beside: &Beside<'_>, source: Source<'_>) -> Result<Option<Loaded>, FileError> {
    let loaded = match (beside.config, nic.config()) {
        (Some(path), _) => {
            let text = std::fs::read_to_string(path).map_err(|error| FileError {
                file: "--config".into(),
                line: None,
                key: None,
                why: format!("can't read {}: {error}", path.display()),
            })?;
            Loaded::read_with(&text, &path.display().to_string(), beside.set)?
        }
        (None, Some(path)) => {
            let path = Path::new(source.name).parent().unwrap_or(Path::new("")).join(path);
            let text = std::fs::read_to_string(&path).map_err(|error| {
                source.wrong(&["nic".into(), "config".into()], format!("can't read {}: {error}", path.display()))
            })?;
            Loaded::read_with(&text, &path.display().to_string(), beside.set)?
        }
        (None, None) if beside.set.is_empty() => return Ok(None),
        (None, None) => Loaded::set_alone(beside.set)?,
    };
    Ok(Some(loaded))
}

/// What a configuration says of the links between NICs and their switches. A link runs at the lower rate of its two ends. Its delay is
/// `Delay`, unless the scenario alone says something of it.
pub(super) fn join(loaded: &Loaded, plan: &mut Plan, source: Source<'_>) {
    let setup = loaded.config.setup();
    plan.host.rate = plan.host.rate.min(setup.nic.data_rate);
    let is_set = find(DELAY).is_some_and(|delay| loaded.origin(delay) != Origin::Default);
    if is_set || !source.has(&["fabric".into(), "host".into(), "delay".into()]) {
        plan.host.delay_ns = setup.link_delay_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_of_the_delay_is_in_the_table() {
        assert!(find(DELAY).is_some());
    }
}
