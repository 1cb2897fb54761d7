//! Values over time in bounded memory: bins that get wider as time goes on, and points of which every k-th is kept.

use std::collections::BTreeMap;

/// Most bins of a timeline: about as many as a plot has room for.
pub(super) const BINS_MAX: usize = 480;

/// What fell into a bin, of one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    /// Sum of the values.
    pub(super) sum: f64,
    /// Sum of their weights.
    pub(super) weight: f64,
    /// The lowest value; infinite where there is none.
    pub(super) min: f64,
    /// The highest value; minus infinite where there is none.
    pub(super) max: f64,
    /// The value that came last.
    pub(super) last: f64,
}

impl Default for Cell {
    fn default() -> Cell {
        Cell { sum: 0.0, weight: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY, last: f64::NAN }
    }
}

impl Cell {
    /// Adds a value: `sum` and `weight` count towards a mean, `value` is what it is by itself.
    pub(super) fn add(&mut self, sum: f64, weight: f64, value: f64) {
        self.sum += sum;
        self.weight += weight;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.last = value;
    }

    fn merge(&mut self, later: &Cell) {
        self.sum += later.sum;
        self.weight += later.weight;
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        if !later.last.is_nan() {
            self.last = later.last;
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.last.is_nan()
    }
}

/// Bins that have rows of others only because the line's own was late.
const ROWS_LATE: usize = 2;

/// What is made of times in which a line has nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gaps {
    /// It is 0: all that happened has a row, at looks that are evenly spaced.
    Zero,
    /// It is interrupted; looks are evenly spaced.
    Looks,
    /// It is interrupted where rows have no value for it. Rows are as far apart as they are: each tells of the time since the one before.
    Rows,
}

/// Cells of several lines, in bins of one width. The width doubles whenever there would be more than [`BINS_MAX`] bins.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    width_us: f64,
    bins: BTreeMap<i64, Vec<Cell>>,
}

impl Timeline {
    /// An empty one, with bins of `width_us` at first.
    pub(super) fn new(width_us: f64) -> Timeline {
        Timeline { width_us: if width_us > 0.0 { width_us } else { 1.0 }, bins: BTreeMap::new() }
    }

    /// The cell of a line for a time. A row tells of the interval that ends at its time, so a bin has its end and not its beginning.
    pub(super) fn cell(&mut self, time_us: f64, line: usize) -> &mut Cell {
        let mut bin = self.bin(time_us);
        while self.is_too_long_with(bin) {
            self.widen();
            bin = self.bin(time_us);
        }
        let cells = self.bins.entry(bin).or_default();
        if cells.len() <= line {
            cells.resize(line + 1, Cell::default());
        }
        &mut cells[line]
    }

    fn bin(&self, time_us: f64) -> i64 {
        (time_us / self.width_us).ceil() as i64
    }

    fn is_too_long_with(&self, bin: i64) -> bool {
        let (Some((&first, _)), Some((&last, _))) = (self.bins.first_key_value(), self.bins.last_key_value()) else {
            return false;
        };
        (last.max(bin) - first.min(bin)) as usize >= BINS_MAX
    }

    fn widen(&mut self) {
        self.width_us *= 2.0;
        for (bin, cells) in core::mem::take(&mut self.bins) {
            // Half of it, upwards: the bin of its end.
            let merged = self.bins.entry((bin + 1).div_euclid(2)).or_default();
            if merged.len() < cells.len() {
                merged.resize(cells.len(), Cell::default());
            }
            merged.iter_mut().zip(&cells).for_each(|(merged, cell)| merged.merge(cell));
        }
    }

    /// Width of a bin in us.
    pub(super) const fn width_us(&self) -> f64 {
        self.width_us
    }

    /// A line as points of time in us and value, in pieces between which there is nothing. `value` makes one of a cell and of the cells of
    /// all lines of its bin.
    pub(super) fn pieces(
        &self,
        line: usize,
        gaps: Gaps,
        value: impl Fn(&Cell, &[Cell]) -> f64,
    ) -> Vec<Vec<(f64, f64)>> {
        let zero = gaps == Gaps::Zero;
        let step = self.shortest();
        let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut before: Option<(usize, i64)> = None;
        for (nth, (&bin, cells)) in self.bins.iter().enumerate() {
            let cell = cells.get(line).filter(|cell| !cell.is_empty());
            let point = cell.map(|cell| value(cell, cells)).or(zero.then_some(0.0)).filter(|value| value.is_finite());
            let Some(value) = point else { continue };
            let gap = before.filter(|(nth_before, before)| match gaps {
                Gaps::Zero => bin - before > step,
                Gaps::Looks => bin - before > 2 * step,
                Gaps::Rows => nth - nth_before > ROWS_LATE + 1,
            });
            match (pieces.last_mut(), gap) {
                (Some(piece), Some((_, before))) if zero => {
                    piece.extend([(self.end(before + step), 0.0), (self.end(bin - step), 0.0)]);
                }
                (Some(_), None) => {}
                _ => pieces.push(Vec::new()),
            }
            if let Some(piece) = pieces.last_mut() {
                piece.push((self.end(bin), value));
            }
            before = Some((nth, bin));
        }
        if pieces.iter().flatten().all(|(_, value)| zero && *value == 0.0) && !self.has(line) {
            return Vec::new();
        }
        pieces
    }

    /// Whether a line has anything.
    pub(super) fn has(&self, line: usize) -> bool {
        self.bins.values().any(|cells| cells.get(line).is_some_and(|cell| !cell.is_empty()))
    }

    fn end(&self, bin: i64) -> f64 {
        bin as f64 * self.width_us
    }

    /// Bins from one row to the next: the shortest way between two.
    fn shortest(&self) -> i64 {
        let bins = self.bins.keys();
        bins.clone().skip(1).zip(bins).map(|(later, bin)| later - bin).min().unwrap_or(1)
    }
}

/// Points of which every k-th is kept; k doubles whenever there would be more than `max`.
#[derive(Clone, Debug)]
pub(super) struct Thinned {
    points: Vec<(f64, f64)>,
    max: usize,
    every: u64,
    seen: u64,
}

impl Thinned {
    pub(super) fn new(max: usize) -> Thinned {
        Thinned { points: Vec::new(), max: max.max(2), every: 1, seen: 0 }
    }

    pub(super) fn push(&mut self, point: (f64, f64)) {
        if self.seen.is_multiple_of(self.every) {
            if self.points.len() == self.max {
                let mut n = 0;
                self.points.retain(|_| {
                    n += 1;
                    n % 2 == 1
                });
                self.every *= 2;
            }
            if self.seen.is_multiple_of(self.every) {
                self.points.push(point);
            }
        }
        self.seen += 1;
    }

    /// The points that were kept.
    pub(super) fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Points that there were.
    pub(super) const fn seen(&self) -> u64 {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(cell: &Cell, _: &[Cell]) -> f64 {
        cell.sum / cell.weight
    }

    #[test]
    fn a_long_timeline_has_few_wide_bins_and_the_same_sum() {
        let mut timeline = Timeline::new(10.0);
        for n in 1..=100_000 {
            timeline.cell(f64::from(n) * 10.0, 0).add(1.0, 1.0, f64::from(n));
        }
        assert_eq!(timeline.width_us(), 2_560.0);
        let sums = timeline.pieces(0, Gaps::Rows, |cell, _| cell.sum);
        let points: Vec<(f64, f64)> = sums.concat();
        assert!(points.len() <= BINS_MAX && points.len() > BINS_MAX / 2 - 100, "{}", points.len());
        assert_eq!(points.iter().map(|(_, sum)| sum).sum::<f64>(), 100_000.0);
        assert_eq!(points[0], (2_560.0, 256.0), "a bin ends with its last row");
        let highest = timeline.pieces(0, Gaps::Rows, |cell, _| cell.max).concat();
        assert_eq!(highest[0].1, 256.0);
    }

    #[test]
    fn a_time_before_all_others_has_a_bin_too() {
        let mut timeline = Timeline::new(1.0);
        for time in [5_000.0, 0.0, 1e12] {
            timeline.cell(time, 0).add(1.0, 1.0, time);
        }
        let points = timeline.pieces(0, Gaps::Rows, |cell, _| cell.sum).concat();
        assert_eq!(points.iter().map(|(_, sum)| sum).sum::<f64>(), 3.0);
    }

    #[test]
    fn where_a_line_has_nothing_it_is_interrupted_or_zero_as_asked() {
        let mut timeline = Timeline::new(10.0);
        for time in [10.0, 20.0, 30.0, 100.0, 110.0] {
            timeline.cell(time, 0).add(4.0, 2.0, 2.0);
        }
        timeline.cell(20.0, 1).add(1.0, 1.0, 1.0);
        let apart = timeline.pieces(0, Gaps::Looks, mean);
        assert_eq!(apart.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(timeline.pieces(0, Gaps::Rows, mean).len(), 1, "no row says that there was nothing");
        let zero = timeline.pieces(0, Gaps::Zero, mean).concat();
        assert_eq!(zero[2..6], [(30.0, 2.0), (40.0, 0.0), (90.0, 0.0), (100.0, 2.0)]);
        assert_eq!(timeline.pieces(1, Gaps::Zero, mean).concat()[..3], [(10.0, 0.0), (20.0, 1.0), (30.0, 0.0)]);
        for time in [10.0, 100.0, 110.0] {
            timeline.cell(time, 3).add(1.0, 1.0, 1.0);
        }
        assert_eq!(timeline.pieces(3, Gaps::Rows, mean).len(), 1, "two rows may be late");
        timeline.cell(50.0, 0).add(1.0, 1.0, 1.0);
        assert_eq!(timeline.pieces(3, Gaps::Rows, mean).len(), 2);
        assert!(timeline.pieces(2, Gaps::Zero, mean).is_empty(), "a line of nothing is none");
    }

    #[test]
    fn thinned_points_are_evenly_spread_and_never_more_than_the_maximum() {
        let mut thinned = Thinned::new(100);
        for n in 0..10_000 {
            thinned.push((f64::from(n), 0.0));
            assert!(thinned.points().len() <= 100);
        }
        assert_eq!(thinned.seen(), 10_000);
        let apart: Vec<f64> = thinned.points().windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(apart.iter().all(|&apart| apart == 128.0), "{apart:?}");
        assert_eq!(thinned.points()[0].0, 0.0);
    }
}
