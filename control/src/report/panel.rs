//! What a page shows: sections of panels, each a plot, a table, or a line that says why there is none.

/// Lines of a plot at most: more are not told apart.
pub(super) const LINES_MAX: usize = 8;

/// What an axis counts. Values are in the unit that a name begins with; an axis takes the multiple that makes its numbers short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Gbit/s.
    GbitPerSecond,
    /// Bytes: shown as B, KB or MB.
    Bytes,
    /// Nanoseconds: shown as ns, us or ms.
    Nanoseconds,
    /// Microseconds: shown as us, ms or s.
    Microseconds,
    /// A share: shown as %.
    Share,
    /// Things of this name.
    Of(&'static str),
}

/// A line of a plot.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// Pieces between which there is nothing.
    pub(super) pieces: Vec<Vec<(f64, f64)>>,
}

/// A plot.
#[derive(Clone, Debug)]
pub(super) enum Plot {
    /// Lines over time in us.
    Lines { y: Unit, lines: Vec<Line> },
    /// Points over time in us.
    Points { y: &'static str, lines: Vec<Line> },
    /// A bar for each value, in their order; `label` names what they are.
    Bars { x: String, y: String, bars: Vec<(String, f64)> },
    /// Percentiles: shares from 0 to below 1, and times in us.
    Percentiles { y: &'static str, lines: Vec<Line> },
}

/// What a panel shows.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Plot(Plot),
    /// Rows of cells under a header; the first column is text, the others are numbers.
    Table {
        header: Vec<&'static str>,
        rows: Vec<Vec<String>>,
    },
    /// Why there is nothing.
    Nothing(String),
}

/// A panel: its title, its body, and what should be known about it.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) body: Body,
    pub(super) notes: Vec<String>,
}

impl Panel {
    pub(super) fn new(title: impl Into<String>, body: Body) -> Panel {
        Panel { title: title.into(), body, notes: Vec::new() }
    }

    /// Lines over time, or why there are none.
    pub(super) fn lines(title: impl Into<String>, y: Unit, lines: Vec<Line>, nothing: impl Into<String>) -> Panel {
        let lines: Vec<Line> =
            lines.into_iter().filter(|line| line.pieces.iter().any(|piece| !piece.is_empty())).collect();
        let body = if lines.is_empty() { Body::Nothing(nothing.into()) } else { Body::Plot(Plot::Lines { y, lines }) };
        Panel::new(title, body)
    }

    #[must_use]
    pub(super) fn note(mut self, note: impl Into<String>) -> Panel {
        self.notes.push(note.into());
        self
    }

    pub(super) const fn is_empty(&self) -> bool {
        matches!(self.body, Body::Nothing(_))
    }
}

/// Panels from one file.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) panels: Vec<Panel>,
}

/// A number with at most `digits` digits after its point, and its thousands set apart.
pub(super) fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), crate::text::grouped);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let sign = if whole == "0" && fraction.is_empty() { "" } else { sign };
    format!("{sign}{whole}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_digits_that_say_nothing() {
        for (value, digits, text) in
            [(0.0, 3, "0"), (1234567.0, 2, "1,234,567"), (1.5, 3, "1.5"), (-1234.25, 1, "-1,234.2"), (-0.0001, 2, "0")]
        {
            assert_eq!(number(value, digits), text);
        }
    }
}
