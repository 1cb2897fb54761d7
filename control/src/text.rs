//! Numbers as people read them.

/// A count with its thousands set apart.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes as the user of a benchmark names them.
pub(crate) fn bytes(size: usize) -> String {
    match size {
        0 => "0 B".into(),
        s if s % (1 << 30) == 0 => format!("{} GiB", s >> 30),
        s if s % (1 << 20) == 0 => format!("{} MiB", s >> 20),
        s if s % (1 << 10) == 0 => format!("{} KiB", s >> 10),
        s => format!("{s} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn sizes_read_as_people_write_them() {
        assert_eq!(
            [0, 64, 4096, 1 << 20, 1 << 30, 1000].map(bytes),
            ["0 B", "64 B", "4 KiB", "1 MiB", "1 GiB", "1000 B"]
        );
    }
}
