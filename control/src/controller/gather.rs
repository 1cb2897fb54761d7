//! Surveys that are being gathered from workers, for operators who wait for them.

use super::operator::refusal;
use super::survey::{NicReport, SurveyReport};
use super::{Command, Member};
use dataplane::Ns;
use dataplane::nic::{Survey, SurveyOf};
use dataplane::time::MS;
use serde_json::{Value, json};
use std::sync::mpsc;

/// Surveys that are gathered at a time.
const GATHERINGS_MAX: usize = 64;
/// How long a worker has for its part, in ns. A worker that shares its core with others takes its time.
const WAIT_NS: u64 = 1_000 * MS;

/// A survey that is being gathered.
struct Gathering {
    token: u32,
    asked: Ns,
    /// NICs whose workers were asked.
    nics: Vec<usize>,
    /// NIC and worker that have not answered.
    missing: Vec<(usize, usize)>,
    surveys: Vec<(usize, Box<Survey>)>,
    answer: mpsc::Sender<Value>,
}

/// All of them, and since when the NICs are controlled.
pub(super) struct Gatherings {
    waiting: Vec<Gathering>,
    token: u32,
    began: Option<Ns>,
}

impl Gatherings {
    pub(super) const fn new() -> Gatherings {
        Gatherings { waiting: Vec::new(), token: 0, began: None }
    }

    /// Asks the workers of some NICs.
    pub(super) fn begin(
        &mut self,
        now: Ns,
        nics: Vec<usize>,
        of: SurveyOf,
        answer: &mpsc::Sender<Value>,
        members: &mut [Member],
    ) -> Result<(), String> {
        if self.waiting.len() == GATHERINGS_MAX {
            return Err(format!("{GATHERINGS_MAX} surveys are being made already: try again"));
        }
        self.token = self.token.wrapping_add(1);
        let token = self.token;
        let mut missing = Vec::new();
        for &at in &nics {
            let nic = &mut members[at].nic;
            nic.controller.pass_on(Command::Survey { of, token });
            missing.extend((0..nic.workers.len()).map(|worker| (at, worker)));
        }
        self.waiting.push(Gathering { token, asked: now, nics, missing, surveys: Vec::new(), answer: answer.clone() });
        Ok(())
    }

    /// A worker told its part.
    pub(super) fn told(&mut self, nic: usize, worker: usize, token: u32, survey: Box<Survey>) {
        // One that comes too late is nobody's any more.
        let Some(gathering) = self.waiting.iter_mut().find(|gathering| gathering.token == token) else { return };
        let before = gathering.missing.len();
        gathering.missing.retain(|&other| other != (nic, worker));
        if gathering.missing.len() < before {
            gathering.surveys.push((nic, survey));
        }
    }

    /// Answers those that are complete, and those that have waited long enough.
    pub(super) fn finish(&mut self, now: Ns, members: &[Member]) {
        let began = *self.began.get_or_insert(now);
        let is_done = |gathering: &mut Gathering| gathering.missing.is_empty() || now.since(gathering.asked) > WAIT_NS;
        for gathering in self.waiting.extract_if(.., is_done) {
            let report = report(now, began, &gathering, members);
            let answer = serde_json::to_value(&report).map(|mut answer| {
                answer["ok"] = json!(true);
                answer
            });
            // Whoever asked may have gone.
            let _ = gathering.answer.send(answer.unwrap_or_else(|e| refusal(e.to_string())));
        }
    }
}

fn report(now: Ns, began: Ns, gathering: &Gathering, members: &[Member]) -> SurveyReport {
    let nic = |&at: &usize| {
        let mut report = NicReport::of(&members[at].nic);
        for (_, survey) in gathering.surveys.iter().filter(|(nic, _)| *nic == at) {
            report.add(survey);
        }
        report.silent_workers =
            gathering.missing.iter().filter(|(nic, _)| *nic == at).map(|&(_, worker)| worker).collect();
        report.finish();
        report
    };
    SurveyReport {
        version: env!("CARGO_PKG_VERSION").into(),
        time_us: now.0 as f64 / 1_000.0,
        uptime_us: now.since(began) as f64 / 1_000.0,
        nics: gathering.nics.iter().map(nic).collect(),
    }
}
