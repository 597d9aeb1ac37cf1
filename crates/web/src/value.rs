//! Reads fields of JSON that may be lacking: what a monitor of another build does not say counts as zero or
//! empty.

use serde_json::Value;

/// A number.
pub(crate) fn num(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// A whole number.
pub(crate) fn int(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_f64().map(|x| x as i64)).unwrap_or(0)
}

/// A text.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The elements of an array.
pub(crate) fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The fields of an object.
pub(crate) fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The IP address and port of Ceph's `IP:PORT/NONCE`, or of the first of several in brackets.
pub(crate) fn addr(text: &str) -> &str {
    let first = text.trim_start_matches('[').split([',', '/']).next().unwrap_or_default();
    first.strip_prefix("v2:").or_else(|| first.strip_prefix("v1:")).unwrap_or(first)
}

/// The address without its port.
pub(crate) fn ip(text: &str) -> &str {
    let addr = addr(text);
    addr.rsplit_once(':').map_or(addr, |(ip, _)| ip.trim_matches(['[', ']']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_every_form() {
        assert_eq!(addr("[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]"), "10.0.0.1:3300");
        assert_eq!(addr("127.0.0.1:6800/123"), "127.0.0.1:6800");
        assert_eq!(ip("10.0.0.1:3300/0"), "10.0.0.1");
        assert_eq!((ip(""), addr("")), ("", ""));
    }
}
