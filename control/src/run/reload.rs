//! Reading the file again while the NIC runs.

use super::NicFile;
use super::file::{LogLevel, PeerTable, RegionTable, RunTable};
use super::region::memory;
use super::service::Service;
use crate::config::attributes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The file that holds now.
pub(super) struct Running {
    file: NicFile,
}

/// What one table has that is another in the other, by name.
struct Changes<'a, T> {
    gone: Vec<&'a T>,
    came: Vec<(usize, &'a T)>,
    /// Those that are there still, and are others now.
    changed: Vec<(usize, &'a T)>,
}

fn changes<'a, T: PartialEq>(old: &'a [T], new: &'a [T], name: fn(&T) -> &str) -> Changes<'a, T> {
    let find = |list: &'a [T], wanted: &T| list.iter().find(|item| name(item) == name(wanted));
    let numbered = || new.iter().enumerate();
    Changes {
        gone: old.iter().filter(|item| find(new, item).is_none()).collect(),
        came: numbered().filter(|(_, item)| find(old, item).is_none()).collect(),
        changed: numbered().filter(|(_, item)| find(old, item).is_some_and(|was| was != *item)).collect(),
    }
}

impl Running {
    pub(super) const fn new(file: NicFile) -> Running {
        Running { file }
    }

    /// How long to wait for what is in flight.
    pub(super) const fn drain(&self) -> Duration {
        Duration::from_nanos(self.file.run.table.drain.0)
    }

    /// How much is logged, where the file says it.
    pub(super) const fn log(&self) -> Option<LogLevel> {
        self.file.run.table.log
    }

    /// Reads the file again, and does what can be done while the NIC runs; a line for each thing that was done, or left. A wrong file
    /// changes nothing.
    pub(super) fn reload(&mut self, service: &Arc<Service>) -> Vec<String> {
        let path = self.file.path.clone();
        let name = path.display();
        let fresh = match NicFile::load(&path) {
            Ok(fresh) => fresh,
            Err(e) => return vec![format!("error: {e}"), format!("{name}: nothing was changed")],
        };
        match self.apply(service, fresh) {
            Ok(lines) if lines.is_empty() => vec![format!("{name}: read again, nothing is new")],
            Ok(mut lines) => {
                lines.insert(0, format!("{name}: read again"));
                lines
            }
            Err(why) => vec![format!("error: {name}: {why}"), format!("{name}: nothing was changed")],
        }
    }

    fn apply(&mut self, service: &Arc<Service>, mut fresh: NicFile) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        let left = |what: &str| format!("warning: {what} can't change while the NIC runs, and is left as it was");
        for attribute in attributes() {
            let value = |file: &NicFile| attribute.get(&file.loaded.config);
            if value(&self.file) != value(&fresh) {
                lines.push(left(attribute.full));
            }
        }
        let (old, new) = (&self.file.run.table, &fresh.run.table);
        lines.extend(fixed(old, new).into_iter().map(left));
        let regions = changes(&old.region, &new.region, |region: &RegionTable| &region.name);
        // All that may fail comes before anything changes.
        let came = regions.came.iter().map(|&(_, table)| Ok((table.clone(), memory(table)?)));
        let came = came.collect::<Result<Vec<_>, String>>()?;
        lines.extend(regions.changed.iter().map(|(_, region)| left(&format!("region {:?}", region.name))));
        let peers = changes(&old.peer, &new.peer, |peer: &PeerTable| &peer.name);
        for peer in peers.gone.iter().copied().chain(peers.changed.iter().map(|(_, peer)| *peer)) {
            service.remove_peer(&peer.name);
        }
        for region in &regions.gone {
            service.remove_region(&region.name);
            lines.push(format!("region {}: gone", region.name));
        }
        // What fails is not in the file that holds, so that the next reading tries it again.
        let mut failed = BTreeSet::new();
        for (table, memory) in &came {
            let done = service.add_region(table.clone(), memory);
            failed.extend(done.is_err().then(|| ("region", table.name.clone())));
            lines.push(said(format!("region {}", table.name), "new", done));
        }
        lines.extend(peers.gone.iter().map(|peer| format!("peer {}: gone", peer.name)));
        let all = [(&peers.changed, "changed: joined anew"), (&peers.came, "new")];
        for (n, peer, what) in
            all.into_iter().flat_map(|(list, what)| list.iter().map(move |&(n, peer)| (n, peer, what)))
        {
            let done = service.add_peer(&fresh.run, n);
            failed.extend(done.is_err().then(|| ("peer", peer.name.clone())));
            lines.push(said(format!("peer {}", peer.name), what, done));
        }
        if old.drain != new.drain {
            lines.push("run.drain: changed".into());
        }
        if old.log != new.log {
            lines.push("run.log: changed".into());
        }
        // What was left is what holds, so that it is named the next time, too.
        keep(&self.file, &mut fresh);
        let failed = |what, name: &String| failed.contains(&(what, name.clone()));
        fresh.run.table.region.retain(|region| !failed("region", &region.name));
        fresh.run.table.peer.retain(|peer| !failed("peer", &peer.name));
        self.file = fresh;
        Ok(lines)
    }
}

fn said(thing: String, what: &str, done: Result<(), String>) -> String {
    match done {
        Ok(()) => format!("{thing}: {what}"),
        Err(why) => format!("error: {thing}: {why}"),
    }
}

/// Keys of `[run]` that differ and hold for as long as the NIC runs.
fn fixed(old: &RunTable, new: &RunTable) -> Vec<&'static str> {
    let same = [
        ("run.name", old.name == new.name),
        ("run.workers", old.workers == new.workers),
        ("run.cores", old.cores == new.cores),
        ("run.ctl", old.ctl == new.ctl),
        ("run.listen", old.listen == new.listen),
        ("run.idle_polls", old.idle_polls == new.idle_polls),
        ("run.seed", old.seed == new.seed),
        ("run.metrics", old.metrics == new.metrics),
        ("run.node_id", old.node_id == new.node_id),
        ("run.records", old.records == new.records),
        ("run.port", old.port == new.port),
        ("run.address", old.address == new.address),
        ("run.profile", old.profile == new.profile),
    ];
    same.into_iter().filter(|(_, same)| !same).map(|(key, _)| key).collect()
}

/// Puts what could not change back into the file that holds from now on.
fn keep(old: &NicFile, fresh: &mut NicFile) {
    let of = &old.run.table;
    let known: BTreeSet<&str> = of.region.iter().map(|region| region.name.as_str()).collect();
    let region = fresh.run.table.region.iter().map(|region| {
        let was = known.contains(region.name.as_str()).then(|| of.region.iter().find(|was| was.name == region.name));
        was.flatten().unwrap_or(region).clone()
    });
    let region = region.collect();
    let RunTable { drain, log, ref peer, .. } = fresh.run.table;
    fresh.run.table = RunTable { drain, log, peer: peer.clone(), region, ..of.clone() };
    fresh.loaded = old.loaded.clone();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_came_and_changed_is_told_by_name_whatever_the_order() {
        let name = |item: &(&'static str, u32)| item.0;
        let (old, new) = ([("a", 1), ("b", 1), ("c", 1)], [("c", 2), ("d", 1), ("a", 1)]);
        let changes = changes(&old, &new, name);
        assert_eq!(changes.gone, [&("b", 1)]);
        assert_eq!(changes.came, [(1, &("d", 1))]);
        assert_eq!(changes.changed, [(0, &("c", 2))]);
    }
}
