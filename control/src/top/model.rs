//! What `mrcnic top` knows and what its user chose: no terminal, no clock, no socket.

use super::rates::{Change, Rates, between};
use crate::controller::{DestinationReport, EvView, NicReport, QpReport, SurveyReport};
use std::collections::{HashMap, VecDeque};

/// Rates that are kept for the lines, the newest last.
pub(super) const HISTORY_MAX: usize = 240;

/// A part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Panel {
    Rates,
    Drops,
    Destinations,
    Evs,
    Qps,
}

impl Panel {
    pub(super) const ALL: [Panel; 5] = [Panel::Rates, Panel::Drops, Panel::Destinations, Panel::Evs, Panel::Qps];

    const fn index(self) -> usize {
        self as usize
    }
}

/// What QPs are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Traffic,
    Resent,
    Pending,
    Number,
}

impl Sort {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Sort::Traffic => "packets",
            Sort::Resent => "resent",
            Sort::Pending => "pending",
            Sort::Number => "number",
        }
    }

    const fn next(self) -> Sort {
        match self {
            Sort::Traffic => Sort::Resent,
            Sort::Resent => Sort::Pending,
            Sort::Pending => Sort::Number,
            Sort::Number => Sort::Traffic,
        }
    }
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    NextPanel,
    PreviousPanel,
    NextNic,
    PreviousNic,
    /// So many rows down, or up.
    Move(isize),
    First,
    Last,
    Pause,
    NextSort,
    Reverse,
    Zoom,
    Help,
    /// Leaves help, or a panel that fills the screen.
    Back,
}

/// What is known of a NIC besides the last survey.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) change: Option<Change>,
    pub(super) rates: VecDeque<Rates>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Model {
    report: SurveyReport,
    past: HashMap<String, Past>,
    /// The NIC that is shown, by name: others may come and go.
    nic: Option<String>,
    pub(super) panel: Panel,
    pub(super) zoomed: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    pub(super) sort: Sort,
    pub(super) reversed: bool,
    /// Seconds between surveys, as asked for.
    pub(super) interval: f64,
    /// What is wrong with getting surveys.
    pub(super) trouble: Option<String>,
    cursors: [usize; Panel::ALL.len()],
}

impl Model {
    /// A model that shows NIC `nic`, or the first without, every `interval` seconds.
    pub(super) fn new(report: SurveyReport, nic: Option<String>, interval: f64) -> Model {
        Model {
            report,
            past: HashMap::new(),
            nic,
            panel: Panel::Qps,
            zoomed: false,
            paused: false,
            help: false,
            sort: Sort::default(),
            reversed: false,
            interval,
            trouble: None,
            cursors: [0; Panel::ALL.len()],
        }
    }

    /// Takes the next survey. What a NIC's silent workers did not tell is as it was.
    pub(super) fn take(&mut self, mut report: SurveyReport) {
        let seconds = (report.time_us - self.report.time_us) / 1e6;
        let restarted = report.uptime_us < self.report.uptime_us;
        for nic in &mut report.nics {
            let before = self.report.nics.iter().find(|before| before.name == nic.name).filter(|_| !restarted);
            if let Some(before) = before.filter(|_| !nic.silent_workers.is_empty()) {
                nic.keep_lists(before);
            }
            let past = self.past.entry(nic.name.clone()).or_default();
            past.change = before.and_then(|before| between(before, nic, seconds));
            match &past.change {
                Some(change) => {
                    if past.rates.len() == HISTORY_MAX {
                        past.rates.pop_front();
                    }
                    past.rates.push_back(change.rates);
                }
                None => past.rates.clear(),
            }
        }
        self.report = report;
        self.trouble = None;
    }

    /// The last survey.
    pub(super) const fn report(&self) -> &SurveyReport {
        &self.report
    }

    /// The NIC that is shown, and its number from 0.
    pub(super) fn nic(&self) -> Option<(usize, &NicReport)> {
        let by_name = |name: &String| self.report.nics.iter().position(|nic| nic.name == *name);
        let at = self.nic.as_ref().and_then(by_name).unwrap_or(0);
        self.report.nics.get(at).map(|nic| (at, nic))
    }

    /// What is known of its past.
    pub(super) fn past(&self) -> Option<&Past> {
        self.past.get(&self.nic()?.1.name)
    }

    fn change(&self) -> Option<&Change> {
        self.past()?.change.as_ref()
    }

    /// The row that is chosen in a panel of so many rows.
    pub(super) fn cursor(&self, panel: Panel, rows: usize) -> usize {
        self.cursors[panel.index()].min(rows.saturating_sub(1))
    }

    /// The destination that is chosen, whose entropy values are shown.
    pub(super) fn destination(&self) -> Option<&DestinationReport> {
        let destinations = &self.nic()?.1.destinations;
        destinations.get(self.cursor(Panel::Destinations, destinations.len()))
    }

    /// Its entropy values by port and value, each with its packets a second.
    pub(super) fn evs(&self) -> Vec<(&EvView, Option<f64>)> {
        let Some(to) = self.destination() else { return Vec::new() };
        let rate = |ev: &EvView| self.change()?.evs.get(&(to.destination, ev.profile, ev.ev)).copied();
        let mut evs: Vec<_> = to.evs.iter().map(|ev| (ev, rate(ev))).collect();
        evs.sort_by_key(|(ev, _)| (ev.port, ev.ev, ev.profile));
        evs
    }

    /// QPs in the order of the sort, each with its rates.
    pub(super) fn qps(&self) -> Vec<(&QpReport, Option<super::rates::QpRates>)> {
        let Some((_, nic)) = self.nic() else { return Vec::new() };
        let rates = |qp: &QpReport| self.change()?.qps.get(&qp.qpn).copied();
        let mut qps: Vec<_> = nic.qps.iter().map(|qp| (qp, rates(qp))).collect();
        let key = |(qp, rates): &(&QpReport, Option<super::rates::QpRates>)| match self.sort {
            // Packets are whole, and rates of both directions count.
            Sort::Traffic => rates.map_or(0.0, |rates| rates.sent + rates.placed_bits / 32_768.0),
            Sort::Resent => rates.map_or(0.0, |rates| rates.resent),
            Sort::Pending => qp.pending as f64,
            Sort::Number => -f64::from(qp.qpn),
        };
        qps.sort_by(|a, b| key(b).total_cmp(&key(a)).then(a.0.qpn.cmp(&b.0.qpn)));
        if self.reversed {
            qps.reverse();
        }
        qps
    }

    /// Frames dropped by reason, most first: so many in all, and a second.
    pub(super) fn drops(&self) -> Vec<(&str, u64, Option<f64>)> {
        let Some((_, nic)) = self.nic() else { return Vec::new() };
        let rate = |reason: &str| self.change()?.drops.get(reason).copied();
        let mut drops: Vec<_> = nic.drops.iter().map(|(reason, &count)| (&**reason, count, rate(reason))).collect();
        drops.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        drops
    }

    fn rows(&self, panel: Panel) -> usize {
        match panel {
            Panel::Rates => 0,
            Panel::Drops => self.drops().len(),
            Panel::Destinations => self.nic().map_or(0, |(_, nic)| nic.destinations.len()),
            Panel::Evs => self.destination().map_or(0, |to| to.evs.len()),
            Panel::Qps => self.nic().map_or(0, |(_, nic)| nic.qps.len()),
        }
    }

    /// Does what a key says. True when that is the end.
    pub(super) fn act(&mut self, action: Action) -> bool {
        let panels = Panel::ALL.len();
        match action {
            Action::Quit => return true,
            Action::NextPanel => self.panel = Panel::ALL[(self.panel.index() + 1) % panels],
            Action::PreviousPanel => self.panel = Panel::ALL[(self.panel.index() + panels - 1) % panels],
            Action::NextNic => self.turn_nic(1),
            Action::PreviousNic => self.turn_nic(self.report.nics.len().saturating_sub(1)),
            Action::Move(by) => {
                let rows = self.rows(self.panel);
                let to = self.cursor(self.panel, rows).saturating_add_signed(by);
                self.cursors[self.panel.index()] = to.min(rows.saturating_sub(1));
            }
            Action::First => self.cursors[self.panel.index()] = 0,
            Action::Last => self.cursors[self.panel.index()] = self.rows(self.panel).saturating_sub(1),
            Action::Pause => self.paused = !self.paused,
            Action::NextSort => self.sort = self.sort.next(),
            Action::Reverse => self.reversed = !self.reversed,
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::Help => self.help = !self.help,
            Action::Back => {
                if !std::mem::take(&mut self.help) {
                    self.zoomed = false;
                }
            }
        }
        false
    }

    fn turn_nic(&mut self, by: usize) {
        let Some((at, _)) = self.nic() else { return };
        let next = (at + by) % self.report.nics.len();
        self.nic = Some(self.report.nics[next].name.clone());
        self.cursors = [0; Panel::ALL.len()];
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn model() -> Model {
        let mut model = Model::new(fixture::report(0), None, 1.0);
        model.take(fixture::report(1));
        model
    }

    #[test]
    fn arrows_choose_the_nic_and_go_round() {
        let mut model = model();
        let names: Vec<String> = (0..3)
            .map(|_| {
                model.act(Action::NextNic);
                model.nic().unwrap().1.name.clone()
            })
            .collect();
        assert_eq!(names, ["b", "a", "b"]);
        model.act(Action::PreviousNic);
        assert_eq!(model.nic().unwrap().1.name, "a");
    }

    #[test]
    fn qps_are_sorted_by_what_was_chosen_and_backwards() {
        let mut model = model();
        let first = |model: &Model| model.qps()[0].0.qpn & 0xFFFF;
        assert_eq!(first(&model), 15, "it sends most");
        model.act(Action::NextSort);
        assert_eq!((model.sort, first(&model)), (Sort::Resent, 15));
        model.act(Action::NextSort);
        assert_eq!((model.sort, first(&model)), (Sort::Pending, 0));
        model.act(Action::Reverse);
        assert_eq!(first(&model), 15);
        model.act(Action::NextSort);
        assert_eq!((model.sort, first(&model)), (Sort::Number, 15));
    }

    #[test]
    fn a_cursor_stays_among_its_rows() {
        let mut model = model();
        model.panel = Panel::Destinations;
        model.act(Action::Move(-1));
        assert_eq!(model.cursor(Panel::Destinations, 2), 0);
        model.act(Action::Move(10));
        assert_eq!(model.cursor(Panel::Destinations, 2), 1);
        assert!(model.destination().unwrap().destination.is_ipv6());
        model.act(Action::NextNic);
        assert_eq!(model.cursor(Panel::Destinations, 2), 0, "another NIC has other rows");
    }

    #[test]
    fn a_nic_that_was_restarted_begins_a_new_history() {
        let mut model = model();
        model.take(fixture::report(2));
        assert_eq!(model.past().unwrap().rates.len(), 2);
        model.take(fixture::report(1));
        assert!(model.past().unwrap().rates.is_empty() && model.past().unwrap().change.is_none());
        for t in 2..HISTORY_MAX as u64 + 10 {
            model.take(fixture::report(t));
        }
        assert_eq!(model.past().unwrap().rates.len(), HISTORY_MAX);
    }

    #[test]
    fn while_a_worker_is_silent_what_it_told_last_is_shown() {
        let mut model = model();
        let mut report = fixture::report(2);
        let nic = &mut report.nics[0];
        nic.silent_workers = vec![0, 1];
        (nic.qps, nic.destinations, nic.pending, nic.qp_states) = Default::default();
        model.take(report);
        let (_, nic) = model.nic().unwrap();
        assert_eq!((nic.qps.len(), nic.destinations.len(), nic.qp_states.rts), (16, 2, 15));
        assert_eq!(model.past().unwrap().change.as_ref().unwrap().rates.tx_frames, 30_000.0, "counters go on");
    }

    #[test]
    fn back_leaves_help_first_and_then_the_panel_that_fills_the_screen() {
        let mut model = model();
        model.act(Action::Zoom);
        model.act(Action::Help);
        model.act(Action::Back);
        assert_eq!((model.help, model.zoomed), (false, true));
        model.act(Action::Back);
        assert!(!model.zoomed);
        assert!(model.act(Action::Quit));
    }
}
