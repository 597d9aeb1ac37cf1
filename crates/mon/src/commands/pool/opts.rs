//! Settings of a pool that it has only where somebody set them.

use crate::failure::{Failure, invalid};
use crate::text::number;
use decl::options::parse_size;
use maps::{Pool, PoolOpt, pool_opt};
use serde_json::Value;

/// Type of a setting's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Int,
    /// Bytes, with units.
    Size,
    Double,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, stored by position.
    Number(&'static [&'static str]),
}

const MODES: &[&str] = &["none", "passive", "aggressive", "force"];

const ALGORITHMS: &[&str] = &["none", "snappy", "zlib", "zstd", "lz4"];

const CHECKSUMS: &[&str] = &["", "none", "xxhash32", "xxhash64", "crc32c", "crc32c_16", "crc32c_8"];

const ALL: [(&str, i32, Kind); 19] = [
    ("scrub_min_interval", pool_opt::SCRUB_MIN_INTERVAL, Kind::Double),
    ("scrub_max_interval", pool_opt::SCRUB_MAX_INTERVAL, Kind::Double),
    ("deep_scrub_interval", pool_opt::DEEP_SCRUB_INTERVAL, Kind::Double),
    ("recovery_priority", pool_opt::RECOVERY_PRIORITY, Kind::Int),
    ("recovery_op_priority", pool_opt::RECOVERY_OP_PRIORITY, Kind::Int),
    ("scrub_priority", pool_opt::SCRUB_PRIORITY, Kind::Int),
    ("compression_mode", pool_opt::COMPRESSION_MODE, Kind::Word(MODES)),
    ("compression_algorithm", pool_opt::COMPRESSION_ALGORITHM, Kind::Word(ALGORITHMS)),
    ("compression_required_ratio", pool_opt::COMPRESSION_REQUIRED_RATIO, Kind::Double),
    ("compression_max_blob_size", pool_opt::COMPRESSION_MAX_BLOB_SIZE, Kind::Size),
    ("compression_min_blob_size", pool_opt::COMPRESSION_MIN_BLOB_SIZE, Kind::Size),
    ("csum_type", pool_opt::CSUM_TYPE, Kind::Number(CHECKSUMS)),
    ("csum_max_block", pool_opt::CSUM_MAX_BLOCK, Kind::Size),
    ("csum_min_block", pool_opt::CSUM_MIN_BLOCK, Kind::Size),
    ("pg_num_min", pool_opt::PG_NUM_MIN, Kind::Int),
    ("pg_num_max", pool_opt::PG_NUM_MAX, Kind::Int),
    ("target_size_bytes", pool_opt::TARGET_SIZE_BYTES, Kind::Size),
    ("target_size_ratio", pool_opt::TARGET_SIZE_RATIO, Kind::Double),
    ("pg_autoscale_bias", pool_opt::PG_AUTOSCALE_BIAS, Kind::Double),
];

/// True if a setting of this name exists.
pub fn exists(name: &str) -> bool {
    ALL.iter().any(|(n, _, _)| *n == name)
}

/// The settings of a pool, in Ceph's order.
pub fn set(pool: &Pool) -> Vec<(&'static str, Value)> {
    let value = |kind: Kind, opt: &PoolOpt| match (kind, opt) {
        (Kind::Number(words), PoolOpt::Int(n)) => usize::try_from(*n)
            .ok()
            .and_then(|n| words.get(n))
            .map_or_else(|| Value::from(*n), |w| Value::from(*w)),
        (_, PoolOpt::Str(s)) => Value::from(s.clone()),
        (_, PoolOpt::Int(n)) => Value::from(*n),
        (_, PoolOpt::Double(x)) => number(*x),
    };
    ALL.iter().filter_map(|(name, key, kind)| Some((*name, value(*kind, pool.opts.get(key)?)))).collect()
}

/// Parses a setting into its number and value; without a value the setting is removed, as by 0 and empty
/// text.
pub fn parse(name: &str, text: &str) -> Result<(i32, Option<PoolOpt>), Failure> {
    let (_, key, kind) = ALL.iter().find(|(n, _, _)| *n == name).expect("the caller knows that it exists");
    let text = text.trim();
    let bad = |what: &str| invalid(format!("{name}: `{text}` is not {what}"));
    let value = match kind {
        Kind::Int => match text.parse::<i64>() {
            Ok(n) => Some(PoolOpt::Int(n)).filter(|_| n != 0),
            Err(_) => return bad("a whole number"),
        },
        Kind::Size => match parse_size(text).and_then(|n| i64::try_from(n).ok()) {
            Some(n) => Some(PoolOpt::Int(n)).filter(|_| n != 0),
            None => return bad("a number of bytes"),
        },
        Kind::Double => match text.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0) {
            Some(x) => Some(PoolOpt::Double(x)).filter(|_| x != 0.0),
            None => return bad("a number"),
        },
        Kind::Word(_) if matches!(text, "" | "unset") => None,
        Kind::Word(words) if words.contains(&text) => Some(PoolOpt::Str(text.to_owned())),
        Kind::Word(words) => return bad(&format!("one of {}", words.join(", "))),
        Kind::Number(_) if matches!(text, "" | "unset") => None,
        Kind::Number(words) => match words.iter().position(|w| *w == text) {
            Some(n) => Some(PoolOpt::Int(n as i64)),
            None => return bad(&format!("one of {}", words[1..].join(", "))),
        },
    };
    Ok((*key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_types_and_nothing_takes_a_setting_away() {
        assert_eq!(parse("pg_num_min", "4"), Ok((pool_opt::PG_NUM_MIN, Some(PoolOpt::Int(4)))));
        assert_eq!(
            parse("target_size_bytes", "1K"),
            Ok((pool_opt::TARGET_SIZE_BYTES, Some(PoolOpt::Int(1024))))
        );
        assert_eq!(parse("target_size_ratio", "0"), Ok((pool_opt::TARGET_SIZE_RATIO, None)));
        assert_eq!(parse("csum_type", "crc32c"), Ok((pool_opt::CSUM_TYPE, Some(PoolOpt::Int(4)))));
        assert_eq!(parse("compression_mode", "unset"), Ok((pool_opt::COMPRESSION_MODE, None)));
        for (name, text) in [("pg_num_min", "x"), ("compression_mode", "often"), ("scrub_min_interval", "-1")]
        {
            assert_eq!(parse(name, text).expect_err("wrong").errno, wire::Errno::EINVAL);
        }
    }

    #[test]
    fn what_is_set_is_shown_by_name() {
        let mut pool = Pool::default();
        for (name, text) in [("csum_type", "xxhash64"), ("pg_autoscale_bias", "4")] {
            let (key, value) = parse(name, text).expect("right");
            pool.opts.insert(key, value.expect("a value"));
        }
        assert_eq!(set(&pool), [("csum_type", "xxhash64".into()), ("pg_autoscale_bias", 4.into())]);
    }
}
