//! Rates, with lines of their past.

use super::super::model::{Model, Panel};
use super::super::numbers::{bits, per_second, percent, sparkline};
use super::super::rates::Rates;
use super::{ACCENT, BAD, DIM, GOOD, LABEL, VALUE, WARN, framed};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Characters before the line of the past.
const LABELS: usize = 12;
const NUMBERS: [usize; 2] = [8, 13];

/// Characters of a peak, which stands behind a line that is longer than that.
const PEAK: usize = 18;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let all = usize::from(area.width).saturating_sub(2 + LABELS + NUMBERS[0] + NUMBERS[1] + 2);
    let room = if all > 2 * PEAK { all - PEAK } else { all.min(PEAK) };
    let history = model.past().map(|past| &past.rates);
    let known = history.map_or(0, |rates| rates.len().min(room));
    let span = known as f64 * model.interval;
    let right = if known > 1 { format!("lines: last {span:.*} s", usize::from(span < 9.5)) } else { String::new() };
    let inner = framed(frame, area, model, Panel::Rates, "Rates", &right, None);
    let Some(now) = history.and_then(|rates| rates.back()).copied() else {
        let text = "Two surveys make a rate: wait for the second.";
        frame.render_widget(Paragraph::new(text).style(DIM), inner);
        return;
    };
    let line = |of: fn(&Rates) -> f64| history.map(|rates| sparkline(rates.iter().map(of), room)).unwrap_or_default();
    // Where there is room, the height of the highest block.
    let peak = |of: fn(&Rates) -> f64, said: fn(f64) -> String| match history {
        Some(rates) if room > PEAK => {
            format!("  peak {}", said(rates.iter().rev().take(known).map(of).fold(0.0, f64::max)))
        }
        _ => String::new(),
    };
    let row =
        |label: &str, first: String, second: String, of: fn(&Rates) -> f64, said: fn(f64) -> String, colour: Color| {
            Line::from(vec![
                Span::styled(format!("{label:<LABELS$}"), LABEL),
                Span::styled(format!("{first:>0$}", NUMBERS[0]), VALUE),
                Span::styled(format!("{second:>0$}  ", NUMBERS[1]), VALUE),
                Span::styled(line(of), Style::new().fg(colour)),
                Span::styled(peak(of, said), LABEL),
            ])
        };
    let failed = if now.failed > 0.0 { format!("{} fail", per_second(now.failed)) } else { String::new() };
    let resent = if now.resent_share() > 0.01 { BAD } else { WARN };
    let lines = vec![
        row("packets out", per_second(now.tx_frames), bits(now.tx_bits), |r| r.tx_frames, per_second, ACCENT),
        row("packets in", per_second(now.rx_frames), bits(now.rx_bits), |r| r.rx_frames, per_second, ACCENT),
        row("placed", String::new(), bits(now.placed_bits), |r| r.placed_bits, bits, GOOD),
        row("messages", per_second(now.messages), failed, |r| r.messages, per_second, GOOD),
        row("resent", per_second(now.resent), percent(now.resent_share()), |r| r.resent, per_second, resent),
        causes(&now, usize::from(inner.width)),
    ];
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Why packets were sent again.
fn causes(now: &Rates, width: usize) -> Line<'static> {
    let of = [("gap", now.by_gap), ("timer", now.by_timer), ("NACK", now.by_nack), ("in vain", now.in_vain)];
    let long = width >= 64;
    let mut spans = vec![Span::styled(if long { "lost by     " } else { "by " }, LABEL)];
    for (n, (name, rate)) in of.into_iter().enumerate() {
        let gap = if n == 0 {
            ""
        } else if long {
            "   "
        } else {
            " "
        };
        // Without blanks inside, four of them have room on the smallest screen.
        let number = if long { per_second(rate) } else { per_second(rate).replace([' '], "").replace("/s", "") };
        spans.push(Span::styled(format!("{gap}{name} "), LABEL));
        spans.push(Span::styled(number, VALUE));
    }
    if !long {
        spans.push(Span::styled(" /s", LABEL));
    }
    spans.into()
}
