//! Requests of operators, as the control thread answers them.

use super::gather::Gatherings;
use super::journal::{Journal, port_numbers};
use super::member::Member;
use super::operator::{Ask, Request, refusal};
use super::spec::mode_of;
use super::{
    CcAlgorithm, Command, ControlledNic, Controller, EvList, EvSpec, Event, FabricEnd, FabricReport, LinkStats, Mode,
    NeighbourReport, ProfileSpec,
};
use dataplane::Ns;
use dataplane::nic::{PortId, SurveyOf};
use dataplane::path::profile::{Copies, ProfileState};
use dataplane::time::SEC;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

/// Lists that are gathered at a time.
const LISTINGS_MAX: usize = 64;
/// Probes that operators wait for at a time.
const PROBES_MAX: usize = 64;
/// How long an EV probe has for its answer, in ns.
const PROBE_WAIT_NS: u64 = SEC;
const NOT_SENT: &str =
    "the probe was not sent: no QP is open with that address (ev list shows which are), or too many probes wait";

/// Requests of operators, and those that wait for the workers.
pub(super) struct Desk {
    listings: Vec<Listing>,
    probes: Vec<Probing>,
    surveys: Gatherings,
    /// Token of the probe that was asked for last.
    token: u32,
    journal: Arc<Journal>,
    fabric: Option<FabricEnd>,
    /// Who waits for a report of the fabric, in the order of asking.
    reports: VecDeque<mpsc::Sender<Value>>,
}

/// A list that is being gathered: which NIC's, from which workers still, for whom.
struct Listing {
    nic: usize,
    missing: Vec<usize>,
    lists: Vec<EvList>,
    answer: mpsc::Sender<Value>,
}

/// An EV probe that an operator waits for.
struct Probing {
    nic: usize,
    token: u32,
    asked: Ns,
    /// Worker and number, once it is sent.
    sent: Option<(usize, u16)>,
    answer: mpsc::Sender<Value>,
}

/// An answer, or `None` where it comes later.
type Reply = Result<Option<Value>, String>;

fn done() -> Reply {
    Ok(Some(json!({ "ok": true })))
}

fn said<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, String> {
    result.map_err(|e| e.to_string())
}

impl Desk {
    pub(super) fn new(journal: Arc<Journal>, fabric: Option<FabricEnd>) -> Desk {
        let (listings, probes, reports) = (Vec::new(), Vec::new(), VecDeque::new());
        Desk { listings, probes, surveys: Gatherings::new(), token: 0, journal, fabric, reports }
    }

    pub(super) fn take(&mut self, now: Ns, ask: Ask, members: &mut [Member]) {
        let (request, answer) = match ask {
            Ask::Request { request, answer } => (request, answer),
            Ask::Neighbours { nic, work } => {
                let member = members.iter_mut().find(|member| member.nic.name == nic);
                return work(now, member.and_then(|member| member.nic.vicinity.as_mut()));
            }
            Ask::Control { nic, work } => return work(controller(members, &nic).ok()),
        };
        tracing::debug!(?request, "an operator asks");
        // Whoever asked may have gone: that is no matter of ours.
        match self.reply(now, request, &answer, members) {
            Ok(None) => {}
            Ok(Some(reply)) => drop(answer.send(reply)),
            Err(why) => {
                tracing::debug!(why, "an operator's request is refused");
                drop(answer.send(refusal(why)));
            }
        }
    }

    fn reply(&mut self, now: Ns, request: Request, answer: &mpsc::Sender<Value>, members: &mut [Member]) -> Reply {
        match request {
            Request::Status {} => {
                let nics: Vec<Value> = members.iter().map(|member| status(&member.nic)).collect();
                Ok(Some(json!({ "ok": true, "nics": nics })))
            }
            Request::Events { nic, follow } => {
                if let Some(name) = &nic {
                    find(members, name)?;
                }
                Ok(Some(self.events(nic.as_deref(), follow)))
            }
            Request::EvList { nic } => self.list(find(members, &nic)?, answer, members),
            Request::Survey { nic, qps, evs } => {
                let nics = match nic {
                    Some(name) => vec![find(members, &name)?],
                    None => (0..members.len()).collect(),
                };
                self.surveys.begin(now, nics, SurveyOf { qps, evs }, answer, members)?;
                Ok(None)
            }
            // What is made of a survey: whoever passes the request on does that, and keeps this thread free of it.
            Request::Qps { .. } | Request::Metrics {} => Err("this is made of a survey: ask for that".into()),
            Request::EvDeny { nic, destination, ev, denied } => {
                let changed = controller(members, &nic)?.deny(destination, ev, denied);
                Ok(Some(json!({ "ok": true, "changed": changed })))
            }
            Request::EvReplace { nic, current, new, profile, port, segment, all } => {
                let copies = if all { Copies::All } else { Copies::One };
                let new = EvSpec { ev: new, port, segment };
                let replaced = controller(members, &nic)?.replace_ev(profile, current, new, copies);
                let (profile, new, places) = said(replaced)?;
                let new = EvSpec { ev: new.value, port: Some(new.port), segment: new.segment };
                Ok(Some(json!({ "ok": true, "profile": profile, "new": new, "places": places })))
            }
            Request::Probe { nic, destination, ev } => {
                let at = find(members, &nic)?;
                if self.probes.len() == PROBES_MAX {
                    return Err(format!("{PROBES_MAX} probes wait for their answers already: try again"));
                }
                self.token = self.token.wrapping_add(1);
                let token = self.token;
                members[at].nic.controller.pass_on(Command::EvProbe { destination, ev, token });
                self.probes.push(Probing { nic: at, token, asked: now, sent: None, answer: answer.clone() });
                Ok(None)
            }
            Request::Port { nic, port, up } => {
                let changed = set_admin(now, controller(members, &nic)?, port, up)?;
                Ok(Some(json!({ "ok": true, "changed": changed })))
            }
            Request::Peers { .. } | Request::Write(_) => {
                Err("this NIC has no peers to write to: one that mrcnic run started has".into())
            }
            Request::FabricLinks {} => {
                self.fabric()?.ask_report()?;
                self.reports.push_back(answer.clone());
                Ok(None)
            }
            Request::FabricLink { link, fault } => {
                self.fabric()?.strike(&link, fault)?;
                done()
            }
            Request::ProfileCreate { nic, profile } => create(controller(members, &nic)?, &profile),
            Request::ProfileShow { nic, id } => show(controller(members, &nic)?, id),
            Request::ProfileOnline { nic, id } => {
                said(controller(members, &nic)?.profiles_mut().online(id))?;
                done()
            }
            Request::ProfileOffline { nic, id } => {
                said(controller(members, &nic)?.profiles_mut().offline(id))?;
                done()
            }
            Request::ProfileRemove { nic, id } => {
                said(controller(members, &nic)?.remove_profile(id))?;
                done()
            }
        }
    }

    fn fabric(&self) -> Result<&FabricEnd, String> {
        self.fabric.as_ref().ok_or_else(|| "the NICs have no fabric between them: mrcnic bench --fabric has".into())
    }

    /// The fabric told what it has done: that is for whoever asked first.
    pub(super) fn fabric_reported(&mut self, report: &FabricReport) {
        let Some(answer) = self.reports.pop_front() else { return };
        let mut reply = serde_json::to_value(report).unwrap_or_default();
        reply["ok"] = json!(true);
        let _ = answer.send(reply);
    }

    /// What is in the journal; who follows reads it there.
    fn events(&self, nic: Option<&str>, follow: bool) -> Value {
        if follow {
            return json!({ "ok": true, "following": true });
        }
        json!({ "ok": true, "events": self.journal.read(None, nic, 0).events })
    }

    fn list(&mut self, at: usize, answer: &mpsc::Sender<Value>, members: &mut [Member]) -> Reply {
        if self.listings.len() == LISTINGS_MAX {
            return Err(format!("{LISTINGS_MAX} lists are being made already: try again"));
        }
        let nic = &mut members[at].nic;
        nic.controller.pass_on(Command::List);
        let missing = (0..nic.workers.len()).collect();
        self.listings.push(Listing { nic: at, missing, lists: Vec::new(), answer: answer.clone() });
        Ok(None)
    }

    /// A worker of a NIC told what it was asked for.
    pub(super) fn told(&mut self, now: Ns, nic: usize, worker: usize, event: Event) {
        match event {
            Event::Listed(lists) => self.listed(nic, worker, lists),
            Event::Surveyed { token, survey } => self.surveys.told(nic, worker, token, survey),
            Event::EvProbe { token, id } => {
                let Some(at) = self.probes.iter().position(|probe| probe.nic == nic && probe.token == token) else {
                    return;
                };
                match id {
                    Some(id) => {
                        self.probes[at].sent = Some((worker, id));
                        self.probes[at].asked = now;
                    }
                    None => drop(self.probes.remove(at).answer.send(refusal(NOT_SENT))),
                }
            }
            Event::Answered(answer) => {
                let is_it = |probe: &Probing| probe.nic == nic && probe.sent == Some((worker, answer.id));
                let Some(at) = self.probes.iter().position(is_it) else { return };
                let rtt_us = answer.rtt.map(|ns| ns as f64 / 1_000.0);
                let (destination, ev) = (answer.remote, answer.ev);
                let told = json!({ "ok": true, "destination": destination, "ev": ev, "rtt_us": rtt_us });
                let _ = self.probes.remove(at).answer.send(told);
            }
            _ => {}
        }
    }

    /// Surveys that are complete, or that waited long enough.
    pub(super) fn finish_surveys(&mut self, now: Ns, members: &[Member]) {
        self.surveys.finish(now, members);
    }

    /// Probes that were not answered in time.
    pub(super) fn give_up(&mut self, now: Ns) {
        while let Some(at) = self.probes.iter().position(|probe| now.since(probe.asked) > PROBE_WAIT_NS) {
            let _ = self
                .probes
                .remove(at)
                .answer
                .send(refusal("no answer to the probe within a second: the path may be dead"));
        }
    }

    /// A worker of a NIC told its values: that is for the oldest list that lacks them, since both are in order.
    fn listed(&mut self, nic: usize, worker: usize, lists: Vec<EvList>) {
        let lacks = |listing: &Listing| listing.nic == nic && listing.missing.contains(&worker);
        let Some(at) = self.listings.iter().position(lacks) else { return };
        let listing = &mut self.listings[at];
        listing.lists.extend(lists);
        listing.missing.retain(|&other| other != worker);
        if listing.missing.is_empty() {
            let Listing { lists, answer, .. } = self.listings.remove(at);
            let destinations: Vec<Value> = lists.iter().map(list_json).collect();
            let _ = answer.send(json!({ "ok": true, "destinations": destinations }));
        }
    }
}

/// The NIC of a name; the first one where none is given.
fn find(members: &[Member], name: &str) -> Result<usize, String> {
    if name.is_empty() && !members.is_empty() {
        return Ok(0);
    }
    members.iter().position(|member| member.nic.name == name).ok_or_else(|| {
        let names: Vec<&str> = members.iter().map(|member| member.nic.name.as_str()).collect();
        format!("there is no NIC {name:?}; there are: {}", names.join(", "))
    })
}

fn controller<'a>(members: &'a mut [Member], name: &str) -> Result<&'a mut Controller, String> {
    let at = find(members, name)?;
    Ok(&mut members[at].nic.controller)
}

fn set_admin(now: Ns, controller: &mut Controller, port: u8, up: bool) -> Result<bool, String> {
    let ports = controller.ports().len();
    if port == 0 || usize::from(port) > ports {
        return Err(format!("there is no port {port}: the NIC has ports 1 to {ports}"));
    }
    Ok(controller.set_admin(now, PortId(port - 1), up))
}

fn create(controller: &mut Controller, spec: &ProfileSpec) -> Reply {
    said(controller.profiles_mut().create(spec))?;
    Ok(Some(json!({ "ok": true, "profile": summary(controller, spec.id) })))
}

fn show(controller: &Controller, id: Option<u64>) -> Reply {
    let Some(id) = id else { return Ok(Some(json!({ "ok": true, "profiles": summaries(controller) }))) };
    let spec = said(controller.profiles().spec(id))?;
    let mut profile = summary(controller, id);
    if let (Value::Object(profile), Ok(Value::Object(spec))) = (&mut profile, serde_json::to_value(&spec)) {
        profile.extend(spec);
    }
    Ok(Some(json!({ "ok": true, "profile": profile })))
}

fn summaries(controller: &Controller) -> Vec<Value> {
    controller.profiles().table().ids().map(|id| summary(controller, id)).collect()
}

const fn state_name(state: ProfileState) -> &'static str {
    match state {
        ProfileState::Init => "init",
        ProfileState::Offline => "offline",
        ProfileState::Online => "online",
    }
}

/// CC profiles, which controllers make.
fn cc_summaries(controller: &Controller) -> Vec<Value> {
    let table = controller.profiles().cc_table();
    let summary = |id| {
        let profile = table.profile(id).ok()?;
        let algorithm = controller.profiles().cc_view(id).algorithm.map(|algorithm| match algorithm {
            CcAlgorithm::None => "none",
            CcAlgorithm::Nscc => "nscc",
        });
        let state = state_name(profile.state());
        Some(json!({ "id": id, "state": state, "algorithm": algorithm, "qps": profile.qps() }))
    };
    table.ids().filter_map(summary).collect()
}

fn summary(controller: &Controller, id: u64) -> Value {
    let Ok(profile) = controller.profiles().table().profile(id) else { return Value::Null };
    let state = state_name(profile.state());
    let (mode, count) = profile.config().map_or((Mode::Auto, 0), |config| (mode_of(&config.mode), config.mode.count()));
    json!({ "id": id, "state": state, "mode": mode, "count": count, "unpopulated": profile.unpopulated(), "qps": profile.qps() })
}

fn status(nic: &ControlledNic) -> Value {
    let controller = &nic.controller;
    let denied = controller.denied().map(|(destination, ev)| json!({ "destination": destination, "ev": ev }));
    let waited = |of: fn(&LinkStats) -> &AtomicU64| {
        nic.workers.iter().map(|worker| of(worker.stats()).load(Ordering::Relaxed)).sum::<u64>()
    };
    let ports = (1..).zip(controller.ports()).map(
        |(port, status): (u8, _)| json!({ "port": port, "link": status.link, "admin": status.admin, "in_use": status.in_use() }),
    );
    let peer = |(peer, out): (IpAddr, _)| json!({ "destination": peer, "ports_out": port_numbers(out) });
    let neighbours = nic.vicinity.as_ref().map(|near| NeighbourReport::of(near.neighbours()));
    json!({
        "name": nic.name,
        "workers": nic.workers.len(),
        "neighbours": neighbours,
        "ports": ports.collect::<Vec<_>>(),
        "peers": controller.peers_out().map(peer).collect::<Vec<_>>(),
        "peers_untold": controller.untold_peers(),
        "profiles": summaries(controller),
        "cc_profiles": cc_summaries(controller),
        "probes": controller.probes(),
        "denied": denied.collect::<Vec<_>>(),
        "commands_waited": waited(|stats| &stats.commands_waited),
        "probes_left_out": waited(|stats| &stats.probes_left_out),
        "events_waited": waited(|stats| &stats.events_waited),
    })
}

fn list_json(list: &EvList) -> Value {
    let evs = list.evs.iter().map(|(profile, report)| {
        let mut entry = json!({
            "ev": report.ev.value,
            "port": report.ev.port,
            "state": report.state.name(),
            "port_out": report.port_out,
            "sent": report.sent,
        });
        if let Some(profile) = profile {
            entry["profile"] = json!(profile);
        }
        if let Some(segment) = report.ev.segment {
            entry["segment"] = json!(segment);
        }
        entry
    });
    json!({ "destination": list.destination, "evs": evs.collect::<Vec<_>>() })
}
