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

#[cfg(test)]
mod tests {
    use super::super::{ControlledNic, Controller, Event, PROBE_PERIOD, WorkerEnd, link};
    use super::*;
    use dataplane::nic::{Nic, NicParams, PortInfo};
    use dataplane::wire::MacAddr;
    use std::sync::Arc;

    /// A NIC with two workers, and the engine of one.
    fn two_workers() -> (Vec<Member>, [WorkerEnd; 2], Nic) {
        let [(first, a), (second, b)] = [(); 2].map(|()| link(None));
        let port = PortInfo { mac: MacAddr::default(), max_frame: 9000 };
        let nic = Nic::new(NicParams::default(), &[port]).unwrap();
        nic.stats().rx_frames.add(7);
        let controller = Controller::new(PROBE_PERIOD, 2, 1);
        let (workers, engines, links) = (vec![a, b], vec![Arc::clone(nic.stats()); 2], Vec::new());
        let member =
            Member::new(ControlledNic { name: "a".into(), controller, workers, engines, links, vicinity: None });
        (vec![member], [first, second], nic)
    }

    fn hear(gatherings: &mut Gatherings, now: Ns, members: &mut [Member]) {
        members[0].turn(now, |worker, event| {
            if let Event::Surveyed { token, survey } = event {
                gatherings.told(0, worker, token, survey);
            }
        });
        gatherings.finish(now, members);
    }

    #[test]
    fn an_answer_comes_when_all_workers_have_told_and_names_those_that_did_not_in_time() {
        let (mut members, [mut first, mut second], mut nic) = two_workers();
        let (mut gatherings, (answer, answers)) = (Gatherings::new(), mpsc::channel());
        for _ in 0..2 {
            gatherings.begin(Ns(1), vec![0], SurveyOf::default(), &answer, &mut members).unwrap();
        }
        hear(&mut gatherings, Ns(1), &mut members);
        first.exchange(Ns(2), &mut nic);
        hear(&mut gatherings, Ns(2), &mut members);
        assert!(answers.try_recv().is_err(), "one has not told");
        hear(&mut gatherings, Ns(2 + WAIT_NS), &mut members);
        let late: Value = answers.try_recv().unwrap();
        assert_eq!((&late["ok"], &late["nics"][0]["silent_workers"]), (&json!(true), &json!([1])));
        assert_eq!(late["nics"][0]["counters"]["rx_frames"], 14, "counters need no worker");
        answers.try_recv().unwrap();
        // What comes too late is for nobody, and the next one is complete.
        gatherings.begin(Ns(3 + WAIT_NS), vec![0], SurveyOf::default(), &answer, &mut members).unwrap();
        hear(&mut gatherings, Ns(3 + WAIT_NS), &mut members);
        first.exchange(Ns(3), &mut nic);
        second.exchange(Ns(3), &mut nic);
        hear(&mut gatherings, Ns(4 + WAIT_NS), &mut members);
        let whole: Value = answers.try_recv().unwrap();
        assert_eq!(whole["nics"][0]["silent_workers"], json!([]));
        assert!(answers.try_recv().is_err());
    }

    #[test]
    fn a_survey_too_many_is_refused() {
        let (mut members, _, _) = two_workers();
        let (mut gatherings, (answer, _answers)) = (Gatherings::new(), mpsc::channel());
        let mut begin =
            |gatherings: &mut Gatherings| gatherings.begin(Ns(0), vec![0], SurveyOf::default(), &answer, &mut members);
        assert!((0..GATHERINGS_MAX).all(|_| begin(&mut gatherings).is_ok()));
        assert!(begin(&mut gatherings).unwrap_err().contains("try again"));
    }
}
