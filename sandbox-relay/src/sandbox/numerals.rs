//! Reads the number at the beginning of a text, as `parseInt` and `parseFloat` do.

/// Returns the number that a text begins with, or NaN. With `is_integer`, it ends before a point or an exponent, and may
/// be hexadecimal.
pub(super) fn leading(text: &str, is_integer: bool) -> f64 {
    let text = text.trim_start();
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if is_integer && let Some(digits) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let values = digits.chars().map_while(|it| it.to_digit(16)).map(f64::from);
        return values.reduce(|number, digit| number * 16.0 + digit).map_or(f64::NAN, |number| sign * number);
    }
    if !is_integer && unsigned.starts_with("Infinity") {
        return sign * f64::INFINITY;
    }
    let mut end = digits(unsigned, 0);
    if !is_integer {
        if unsigned[end..].starts_with('.') && (end > 0 || digits(unsigned, 1) > 1) {
            end = digits(unsigned, end + 1);
        }
        let exponent = unsigned[end..].strip_prefix(['e', 'E']).map(|rest| usize::from(rest.starts_with(['+', '-'])));
        if let Some(sign) = exponent.filter(|_| end > 0)
            && digits(unsigned, end + 1 + sign) > end + 1 + sign
        {
            end = digits(unsigned, end + 1 + sign);
        }
    }
    unsigned[..end].parse().map_or(f64::NAN, |number: f64| sign * number)
}

/// Returns the end of the decimal digits that begin at `from`.
fn digits(text: &str, from: usize) -> usize {
    from + text.as_bytes()[from..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests {
    use super::leading;

    #[test]
    fn the_number_at_the_beginning_is_read() {
        for (text, integer, float) in [
            ("42px", 42.0, 42.0),
            ("1.5abc", 1.0, 1.5),
            (" -7.25e1x", -7.0, -72.5),
            ("+.5", f64::NAN, 0.5),
            ("5.", 5.0, 5.0),
            ("1e", 1.0, 1.0),
            ("1e+", 1.0, 1.0),
            ("0x1fz", 31.0, 0.0),
            ("-Infinity", f64::NAN, f64::NEG_INFINITY),
            (".", f64::NAN, f64::NAN),
            ("", f64::NAN, f64::NAN),
            ("é1", f64::NAN, f64::NAN),
            ("null", f64::NAN, f64::NAN),
        ] {
            for (read, expected) in [(leading(text, true), integer), (leading(text, false), float)] {
                assert!(read == expected || (read.is_nan() && expected.is_nan()), "{text}: {read}");
            }
        }
    }
}
