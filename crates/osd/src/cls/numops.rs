//! `numops`: arithmetic on decimal numbers in omap values.

use super::class::{Class, Method, MethodResult, done, input, updater};
use super::object::Object;
use wire::Errno;

pub struct NumOps;

impl Class for NumOps {
    fn name(&self) -> &'static str {
        "numops"
    }

    fn methods(&self) -> &'static [Method] {
        const { &[updater("add", add), updater("mul", mul)] }
    }
}

/// Digits of a result.
const PRECISION: usize = 10;

fn add(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    change(o, bytes, |a, b| a + b)
}

fn mul(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    change(o, bytes, |a, b| a * b)
}

fn change(o: &mut Object<'_, '_>, bytes: &[u8], f: fn(f64, f64) -> f64) -> MethodResult {
    let (key, by): (Vec<u8>, Vec<u8>) = input(bytes)?;
    let by = number(&by).ok_or(Errno::EINVAL)?;
    let before = o.omap_value(&key)?.unwrap_or_default();
    let before = number(&before).ok_or(Errno::EBADMSG)?;
    o.omap_set(vec![(key, decimal(f(before, by)).into_bytes())])?;
    done()
}

/// Parses a number as C does: leading blanks are skipped, and an empty text is zero.
fn number(text: &[u8]) -> Option<f64> {
    match std::str::from_utf8(text).ok()?.trim_start() {
        "" if text.is_empty() => Some(0.0),
        text => text.parse().ok(),
    }
}

/// Prints as C does with `%.10g`.
fn decimal(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value.is_nan() { "nan".into() } else { format!("{value}") };
    }
    let scientific = format!("{value:.*e}", PRECISION - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let strip = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..PRECISION as i32).contains(&exponent) {
        let places = usize::try_from(PRECISION as i32 - 1 - exponent).unwrap_or(0);
        return strip(&format!("{value:.places$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", strip(mantissa), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_c_prints_them() {
        let cases = [
            (0.0, "0"),
            (3.5, "3.5"),
            (-2.0, "-2"),
            (1e9, "1000000000"),
            (1e10, "1e+10"),
            (1.0 / 3.0, "0.3333333333"),
            (12345678901.5, "1.23456789e+10"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (99999999999.0, "1e+11"),
        ];
        for (value, text) in cases {
            assert_eq!(decimal(value), text);
        }
        assert_eq!(
            (number(b""), number(b" 2.5"), number(b"2x"), number(b" ")),
            (Some(0.0), Some(2.5), None, None)
        );
    }
}
