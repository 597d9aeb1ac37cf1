//! `ceph health`, and mutes of its checks.

use crate::commands::reply::{Outcome, answer, said};
use crate::edit::Edit;
use crate::entry::Change;
use crate::failure::invalid;
use crate::health::{self, Health, mute};
use crate::view::View;
use decl::Args;

pub fn health(view: &View<'_>, args: &Args) -> Outcome {
    let health = Health::of(view);
    let detail = args.str("detail") == "detail";
    let plain = || {
        let summaries: Vec<&str> = health.heard().map(|c| c.summary.as_str()).collect();
        let mut out = health.status_line();
        if !summaries.is_empty() {
            out.push_str(&format!(" {}", summaries.join("; ")));
        }
        out.push('\n');
        for c in health.checks.iter().filter(|_| detail) {
            let muted = if health.is_muted(c) { "(MUTED) " } else { "" };
            out.push_str(&format!("{muted}{} {}: {}\n", c.code.severity().tag(), c.code.name(), c.summary));
            c.detail.iter().for_each(|d| out.push_str(&format!("    {d}\n")));
            out.push_str(&format!("    to do: {}\n", c.code.advice()));
        }
        out
    };
    answer(args, || health.json(detail), plain)
}

/// Seconds of `90`, `5m`, `1h30m`, `2d`, `1w`.
fn ttl(text: &str) -> Result<u64, String> {
    let (mut total, mut number) = (0u64, None::<u64>);
    for c in text.chars() {
        let unit = match c {
            '0'..='9' => {
                let digit = u64::from(c as u8 - b'0');
                number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit));
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return Err(format!("invalid duration: {text} (write 90, 5m, 1h, 2d or 1w)")),
        };
        let Some(n) = number.take() else {
            return Err(format!("invalid duration: {text} (expected digit)"));
        };
        total = total.saturating_add(n.saturating_mul(unit));
    }
    match (total, number) {
        (0, None) => Err(format!("invalid duration: {text} (expected digit)")),
        (total, number) => Ok(total.saturating_add(number.unwrap_or(0))),
    }
}

pub fn mute(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (code, sticky) = (args.str("code"), args.flag("sticky"));
    let now = edit.now.wall.split().0;
    let until = match args.opt_str("ttl").filter(|t| !t.is_empty()) {
        Some(text) => Some(now.saturating_add(ttl(text).or_else(invalid)?)),
        None => None,
    };
    let checks = health::checks(&edit.view);
    let raised = checks.iter().find(|c| c.code.name() == code);
    let known = decl::Code::ALL.iter().any(|c| c.name() == code);
    let (summary, count) = match raised {
        Some(check) => (check.summary.clone(), check.count as u64),
        // A sticky mute may be made before there is something to mute.
        None if sticky && known => (String::new(), 0),
        None => return crate::failure::missing(format!("health alert {code} is not currently raised")),
    };
    let stored = mute::Mute { sticky, summary, count, until };
    edit.push(Change::Kv(format!("{}{code}", mute::MUTES), Some(stored.encode())));
    said("")
}

pub fn unmute(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let wanted = args.opt_str("code").filter(|c| !c.is_empty());
    for code in mute::mutes(&edit.base.kv).into_keys() {
        if wanted.is_none_or(|w| w == code) {
            edit.push(Change::Kv(format!("{}{code}", mute::MUTES), None));
        }
    }
    said("")
}

#[cfg(test)]
mod tests {
    use super::ttl;

    #[test]
    fn times_have_units() {
        assert_eq!(ttl("90"), Ok(90));
        assert_eq!(ttl("1h30m"), Ok(5400));
        assert_eq!(ttl("2d"), Ok(172_800));
        assert!(ttl("nonsense").is_err() && ttl("h").is_err() && ttl("").is_err());
    }
}
