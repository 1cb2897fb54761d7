//! Numbers with their units, as a screen has room for.

/// Three digits that count, and a prefix: `31.4 k`.
fn prefixed(value: f64) -> String {
    const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];
    let mut value = value;
    let mut at = 0;
    // What would be rounded to a thousand has the next prefix.
    while value >= 999.5 && at + 1 < PREFIXES.len() {
        value /= 1_000.0;
        at += 1;
    }
    let digits = match value {
        _ if at == 0 && value.fract() == 0.0 => format!("{value:.0}"),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    };
    if at == 0 { digits } else { format!("{digits} {}", PREFIXES[at]) }
}

/// A count: `4,242` or `1.23 M`.
pub(super) fn count(count: u64) -> String {
    if count < 100_000 { crate::text::grouped(count) } else { prefixed(count as f64) }
}

/// Things a second: `31.4 k/s`.
pub(super) fn per_second(rate: f64) -> String {
    let spaced = prefixed(rate);
    format!("{spaced}/s")
}

/// Bits a second: `1.03 Gbit/s`.
pub(super) fn bits(rate: f64) -> String {
    let number = prefixed(rate);
    if number.contains(' ') { format!("{number}bit/s") } else { format!("{number} bit/s") }
}

/// Bytes by powers of two: `98.1 KiB`.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut at) = (bytes as f64, 0);
    while value >= 1023.5 && at + 1 < UNITS.len() {
        value /= 1024.0;
        at += 1;
    }
    if at == 0 || value >= 99.95 { format!("{value:.0} {}", UNITS[at]) } else { format!("{value:.1} {}", UNITS[at]) }
}

/// A time in microseconds: `88.2 us`, `1.35 ms`.
pub(super) fn time(us: f64) -> String {
    match us {
        us if us < 99.95 => format!("{us:.1} us"),
        us if us < 999.5 => format!("{us:.0} us"),
        us if us < 999_500.0 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// A share: `0.36 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Hours, minutes, seconds.
pub(super) fn clock(us: f64) -> String {
    let seconds = (us / 1e6) as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The last `width` values as a line of blocks, the largest of them being the highest.
pub(super) fn sparkline(values: impl DoubleEndedIterator<Item = f64>, width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut last: Vec<f64> = values.rev().take(width).collect();
    last.reverse();
    let most = last.iter().copied().fold(0.0, f64::max);
    let block = |value: f64| {
        let height = if most > 0.0 { (value / most * 7.0).round() as usize } else { 0 };
        BLOCKS[height.min(7)]
    };
    last.into_iter().map(block).collect()
}

/// At most `width` characters: the middle makes room, and a mark says so.
pub(super) fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let (head, tail) = (width.saturating_sub(1) / 2, width.saturating_sub(1) - width.saturating_sub(1) / 2);
    let mut short: String = text.chars().take(head).collect();
    if width > 0 {
        short.push('…');
    }
    short.extend(text.chars().skip(length - tail));
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count_and_a_unit() {
        assert_eq!(
            [0.0, 7.0, 7.256, 999.4, 999.6, 31_415.9].map(per_second),
            ["0/s", "7/s", "7.26/s", "999/s", "1.00 k/s", "31.4 k/s"]
        );
        assert_eq!([0.0, 512.0, 1.0345e9].map(bits), ["0 bit/s", "512 bit/s", "1.03 Gbit/s"]);
        assert_eq!([0, 1023, 1024, 100_454, 131_072].map(bytes), ["0 B", "1023 B", "1.0 KiB", "98.1 KiB", "128 KiB"]);
        assert_eq!(
            [0.25, 88.25, 99.96, 1_350.0, 2_000_000.0].map(time),
            ["0.2 us", "88.2 us", "100 us", "1.35 ms", "2.00 s"]
        );
        assert_eq!([4_242, 1_234_567].map(count), ["4,242", "1.23 M"]);
        assert_eq!(clock(3_725e6), "1:02:05");
    }

    #[test]
    fn a_line_shows_the_last_values_against_the_largest_of_them() {
        assert_eq!(sparkline([9.0, 0.0, 1.0, 2.0].into_iter(), 3), "▁▅█");
        assert_eq!(sparkline([0.0, 0.0].into_iter(), 9), "▁▁");
        assert_eq!(sparkline([].into_iter(), 9), "");
    }

    #[test]
    fn what_is_too_long_is_marked_in_its_middle() {
        assert_eq!(shortened("2001:db8::1", 11), "2001:db8::1");
        assert_eq!(shortened("2001:db8:aaaa::1", 9), "2001…a::1");
        assert_eq!(shortened("abc", 1), "…");
    }
}
