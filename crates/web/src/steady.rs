//! Counters of pools that do not go back a little. OSDs report what clients have read with the PGs, and one
//! that is killed has not saved the last of it. Prometheus would take the smaller number for a counter that
//! has begun anew, and show all of it as the rate of one moment.

use crate::value::{int, rows};
use serde_json::Value;

/// Statistics of pools in `df detail` that only grow.
pub(crate) const COUNTERS: [&str; 4] = ["rd", "rd_bytes", "wr", "wr_bytes"];

/// Raises counters that are a little smaller than before to what they were. One that has lost more than half
/// has begun anew.
pub(crate) fn keep_up(df: &mut Value, before: &Value) {
    let Some(pools) = df["pools"].as_array_mut() else { return };
    for pool in pools {
        let id = int(&pool["id"]);
        let Some(former) = rows(&before["pools"]).iter().find(|former| int(&former["id"]) == id) else {
            continue;
        };
        for name in COUNTERS {
            let (was, is) = (&former["stats"][name], &pool["stats"][name]);
            let (Some(had), Some(has)) = (was.as_u64(), is.as_u64()) else { continue };
            if has < had && has >= had / 2 {
                pool["stats"][name] = had.into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_killed_osd_has_forgotten_is_no_new_beginning() {
        let df = |id: u64, rd: u64| json!({ "pools": [{ "id": id, "stats": { "rd": rd, "objects": rd } }] });
        let after = |before: Value, mut now: Value| {
            keep_up(&mut now, &before);
            now
        };
        let stats = |df: Value| df["pools"][0]["stats"].clone();
        assert_eq!(stats(after(df(1, 100), df(1, 99))), json!({ "rd": 100, "objects": 99 }));
        assert_eq!(after(df(1, 100), df(1, 101)), df(1, 101));
        assert_eq!(after(df(1, 100), df(1, 7)), df(1, 7), "it begins anew");
        assert_eq!(after(df(1, 100), df(2, 99)), df(2, 99), "another pool");
        assert_eq!(after(Value::Null, df(1, 1)), df(1, 1));
    }
}
