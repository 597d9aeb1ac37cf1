//! `ceph osd pool autoscale-status` and `noautoscale`: the commands of a module of Ceph's manager, on what
//! the leading monitor does.

use crate::commands::reply::{Outcome, answer, said};
use crate::commands::table::Align::{L, R};
use crate::commands::table::Table;
use crate::domain::autoscale::{Scale, Settings, scales};
use crate::domain::config_log;
use crate::domain::pool::MODES;
use crate::edit::Edit;
use crate::options::mgr_option;
use crate::text::{bytes, number};
use crate::view::View;
use decl::Args;
use serde_json::{Value, json};

pub fn status(view: &View<'_>, args: &Args) -> Outcome {
    let (scales, settings) = (scales(view), Settings::of(view));
    let mode = |scale: &Scale| {
        let pool = &view.state.osdmap().pools[&scale.id];
        MODES[usize::from(settings.mode(pool))]
    };
    let json = || scales.iter().map(|scale| scale_json(view, scale, mode(scale))).collect::<Vec<_>>().into();
    answer(args, json, || text(view, &scales, &mode))
}

fn scale_json(view: &View<'_>, scale: &Scale, mode: &str) -> Value {
    json!({
        "pool_id": scale.id,
        "pool_name": view.state.osdmap().pool_name(scale.id),
        "crush_root_id": scale.root,
        "pg_autoscale_mode": mode,
        "pg_num_target": scale.pg_num,
        "logical_used": scale.stored,
        "target_bytes": scale.target_bytes,
        "raw_used_rate": scale.rate,
        "subtree_capacity": scale.capacity,
        "actual_raw_used": scale.stored as f64 * scale.rate,
        "raw_used": scale.stored.max(scale.target_bytes) as f64 * scale.rate,
        "actual_capacity_ratio": scale.actual_ratio,
        "capacity_ratio": scale.ratio,
        "target_ratio": scale.target_ratio,
        "effective_target_ratio": scale.effective_ratio,
        "pg_num_ideal": scale.wanted as u64,
        "pg_num_final": scale.ideal,
        "would_adjust": scale.differs,
        "bias": scale.bias,
        "bulk": scale.bulk,
    })
}

fn text(view: &View<'_>, scales: &[Scale], mode: &dyn Fn(&Scale) -> &'static str) -> String {
    let mut table = Table::new(&[
        ("POOL", L, L),
        ("SIZE", R, R),
        ("TARGET SIZE", R, R),
        ("RATE", R, R),
        ("RAW CAPACITY", R, R),
        ("RATIO", R, R),
        ("TARGET RATIO", R, R),
        ("EFFECTIVE RATIO", R, R),
        ("BIAS", R, R),
        ("PG_NUM", R, R),
        ("NEW PG_NUM", R, R),
        ("AUTOSCALE", L, L),
        ("BULK", L, L),
    ]);
    for scale in scales {
        let set = |is_set: bool, text: String| if is_set { text } else { String::new() };
        table.row(vec![
            view.state.osdmap().pool_name(scale.id).to_owned(),
            bytes(scale.stored),
            set(scale.target_bytes > 0, bytes(scale.target_bytes)),
            format!("{:.1}", scale.rate),
            bytes(scale.capacity),
            format!("{:.4}", scale.ratio),
            set(scale.target_ratio > 0.0, format!("{:.4}", scale.target_ratio)),
            set(scale.effective_ratio > 0.0, format!("{:.4}", scale.effective_ratio)),
            number(scale.bias).to_string(),
            scale.pg_num.to_string(),
            set(scale.differs, scale.ideal.to_string()),
            mode(scale).to_owned(),
            if scale.bulk { "True" } else { "False" }.to_owned(),
        ]);
    }
    table.render()
}

fn set(edit: &mut Edit<'_>, name: &str, value: String) {
    config_log::change(edit, vec![("mgr".to_owned(), format!("mgr/pg_autoscaler/{name}"), Some(value))]);
}

pub fn threshold(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    set(edit, "threshold", number(args.float("num").unwrap_or(1.0)).to_string());
    said("threshold updated")
}

/// Pools keep their modes for the time when autoscaling is switched on again.
pub fn switch(edit: &mut Edit<'_>, on: bool) -> Outcome {
    let is_on = !mgr_option::<bool>(edit.config, edit.base, "mgr/pg_autoscaler/noautoscale");
    if on != is_on {
        set(edit, "noautoscale", (!on).to_string());
    }
    said(match (on, is_on) {
        (false, false) => "noautoscale is already set!",
        (false, true) => "noautoscale is set, all pools now have autoscale off",
        (true, true) => "noautoscale is already unset!",
        (true, false) => "noautoscale is unset, all pools now back to its previous mode",
    })
}

pub fn noautoscale(view: &View<'_>, _: &Args) -> Outcome {
    said(if Settings::of(view).off { "noautoscale is on" } else { "noautoscale is off" })
}
