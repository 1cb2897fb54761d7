//! What stands on the screen, by its text.

use super::super::fixture;
use super::super::model::{Action, Model, Panel};
use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

fn model() -> Model {
    let mut model = Model::new(fixture::report(0), None, 1.0);
    for t in 1..5 {
        model.take(fixture::report(t));
    }
    model
}

fn screen(model: &Model, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width);
    buffer.content.chunks(width).map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
}

/// The screen's text, and a plain assertion that it has each of `parts`.
fn shows(model: &Model, width: u16, height: u16, parts: &[&str]) -> String {
    let text = lines(&screen(model, width, height)).join("\n");
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    text
}

#[test]
fn a_screen_of_80_by_24_has_every_panel_with_numbers_and_units() {
    let parts = [
        "mrcnic 0.1.0   NIC a (1 of 2)  up 0:00:04  QPs 16 (1 in error)  workers 2",
        "1 ● up  2 ● taken down  3 ● up  4 ● no link",
        "denials 1",
        "30.0 k/s   960 Mbit/s  ████",
        "28.0 k/s  22.4 Mbit/s",
        "250/s       1.00 %",
        "gap 100 timer 140 NACK 10 in vain 50 /s",
        "unknown_probe",
        "4/s",
        "10.78.0.1",
        "████████░░ ",
        "96.0 KiB / 128 KiB",
        "fair up",
        "88.2 us",
        "EVs to 10.78.0.1",
        "0x01000f",
        "2.15 k/s",
        "q quit",
        "? help",
    ];
    shows(&model(), 80, 24, &parts);
}

#[test]
fn a_large_screen_has_every_column_and_says_of_nothing_that_it_was_left_out() {
    let parts = [
        "base",
        "40.0 us",
        "12.5 us",
        "fair up",
        "69/1/1/1",
        "peer's ports out",
        "timeouts",
        "peer's QP",
        "0x02000f",
        "placed",
        "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff",
        "g good 52  S skip 1  B bad 1  D denied 1",
        "o port out 17",
    ];
    let text = shows(&model(), 160, 48, &parts);
    assert!(!text.contains("when wider") && !text.contains(" of 16") && !text.contains('…'), "{text}");
}

#[test]
fn what_does_not_fit_says_so() {
    let text = shows(&model(), 80, 24, &["1-5 of 16", "columns more when wider", "…"]);
    let ends = text.lines().filter(|line| !line.contains("quit")).skip(2);
    assert!(ends.clone().all(|line| line.ends_with(['│', '┐', '┘', '┃', '┓', '┛'])), "every frame is closed:\n{text}");
    shows(&model(), 71, 24, &["This terminal has 71 x 24 cells", "72 x 22"]);
    shows(&model(), SMALLEST.0, SMALLEST.1, &["Rates", "Drops", "Destinations", "EVs to", "QPs", "q quit", "? help"]);
}

#[test]
fn a_cell_of_the_heat_map_has_the_letter_and_the_colour_of_its_state_and_is_brighter_the_more_it_is_used() {
    let model = model();
    let buffer = screen(&model, 80, 24);
    let rows = lines(&buffer);
    let of_port = |port: &str| {
        let y = rows.iter().position(|line| line.contains(port)).unwrap();
        (0..30).map(|x| &buffer[(x, y as u16)]).filter(|cell| "gSBDo".contains(cell.symbol())).collect::<Vec<_>>()
    };
    let letters = |port: &str| of_port(port).iter().take(12).map(|cell| cell.symbol()).collect::<String>();
    assert_eq!(letters("p1 "), "g".repeat(12));
    assert_eq!(letters("p2 "), format!("D{}", "o".repeat(11)));
    assert_eq!(letters("p3 "), format!("B{}", "g".repeat(11)));
    assert_eq!(letters("p4 "), format!("S{}", "g".repeat(11)));
    let background = |port: &str, n: usize| of_port(port)[n].bg;
    assert_eq!(background("p1 ", 0), Color::Indexed(77), "it takes as many packets as any");
    assert_eq!((background("p2 ", 0), background("p2 ", 1)), (Color::Indexed(55), Color::Indexed(240)));
    assert_eq!(background("p3 ", 0), Color::Indexed(88), "assumed bad, and unused");
    // Without use all good ones are dark.
    let mut idle = Model::new(fixture::report(0), None, 1.0);
    let mut later = fixture::report(0);
    later.time_us += 1e6;
    idle.take(later);
    let buffer = screen(&idle, 80, 24);
    let y = lines(&buffer).iter().position(|line| line.contains("p1 ")).unwrap() as u16;
    assert!((0..30).any(|x| buffer[(x, y)].symbol() == "g" && buffer[(x, y)].bg == Color::Indexed(236)));
}

#[test]
fn the_value_under_the_cursor_is_described() {
    let mut model = model();
    model.panel = Panel::Evs;
    model.act(Action::Move(18));
    shows(&model, 160, 48, &["0x101 port 2 denied sent 1,000 now 0/s"]);
}

#[test]
fn a_panel_fills_the_screen_and_shows_all_rows() {
    let mut model = model();
    model.act(Action::Zoom);
    let text = shows(&model, 80, 24, &["QPs", "0x010000", "0x01000f", "error"]);
    assert!(!text.contains("Destinations"));
}

#[test]
fn trouble_a_pause_and_silent_workers_are_said() {
    let mut model = model();
    model.act(Action::Pause);
    shows(&model, 80, 24, &[" paused ", "p go on"]);
    model.trouble = Some("the NIC did not answer in time".into());
    shows(&model, 80, 24, &["the NIC did not answer in time"]);
    let mut report = fixture::report(6);
    report.nics[0].silent_workers = vec![1];
    model.take(report);
    shows(&model, 80, 24, &["silent: worker 1"]);
}

#[test]
fn before_the_second_survey_there_are_no_rates_and_the_screen_says_why() {
    let model = Model::new(fixture::report(0), None, 1.0);
    shows(&model, 80, 24, &["wait for the second", "–"]);
}

#[test]
fn help_names_every_key() {
    let mut model = model();
    model.act(Action::Help);
    shows(&model, 80, 24, &["q, Ctrl-C", "Tab, BackTab", "Enter, z", "p, Space", "s, r", "?, Esc", "assumed bad"]);
}

#[test]
fn a_nic_without_qps_and_values_has_a_screen_all_the_same() {
    let mut report = fixture::report(0);
    for nic in &mut report.nics {
        nic.qps.clear();
        nic.destinations.clear();
        nic.drops.clear();
    }
    shows(&Model::new(report, None, 1.0), 80, 24, &["No QP is open.", "No frame was dropped."]);
    let mut report = fixture::report(0);
    report.nics[0].destinations[0].evs.clear();
    shows(&Model::new(report.clone(), None, 1.0), 80, 24, &["Nothing is sprayed"]);
    report.nics[0].silent_workers = vec![0];
    report.nics[0].qps.clear();
    shows(&Model::new(report, None, 1.0), 80, 24, &["Its workers did not answer", "silent: worker 0"]);
    let nobody = crate::controller::SurveyReport::default();
    shows(&Model::new(nobody, None, 1.0), 80, 24, &["this process has no NIC"]);
}
