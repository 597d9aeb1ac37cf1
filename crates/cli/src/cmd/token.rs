//! `nacre token`: a token by which hosts join.

use super::terminal::Format;
use crate::cluster::{ClientArgs, PATIENCE, ask};
use crate::host::{make_token, monitors};
use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use wire::Uuid;

#[derive(Args)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The time within which hosts can join by it: `30m`, `1h`; a day at most.
    #[arg(long, default_value = "1h", value_parser = life)]
    valid: Duration,
    /// For hosts that only store: without a monitor, a metadata server and the administrator's key.
    #[arg(long)]
    storage_only: bool,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The longest life of a token.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

fn life(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time: give a number with s, m or h, such as 30m");
    let (number, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let time = number.parse::<u32>().map_err(|_| wrong())?;
    let time = Duration::from_secs(u64::from(time) * seconds);
    if time.is_zero() || time > LONGEST {
        return Err(format!("`{text}`: a token is valid for a day at most, and longer than no time"));
    }
    Ok(time)
}

pub(crate) fn run(args: &TokenArgs) -> Result<()> {
    let cluster = client::Cluster::connect(&args.client.options()?, PATIENCE)?;
    let fsid = ask(&cluster, &json!({ "prefix": "fsid" }))?;
    let fsid = Uuid::parse(String::from_utf8_lossy(&fsid).trim()).context("the cluster's fsid")?;
    let mons: Vec<SocketAddr> = monitors(&cluster)?.into_iter().map(|(_, addr)| addr).collect();
    let token = make_token(&cluster, fsid, &mons, args.valid, !args.storage_only)?;
    let text = token.encode();
    match args.format {
        Format::Plain => say!("{text}"),
        Format::Json => say!(
            "{}",
            json!({
                "token": text, "entity": token.name.to_string(), "expires": auth::join_expiry(&token.name),
                "storage_only": args.storage_only,
            })
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::life;
    use std::time::Duration;

    #[test]
    fn a_life_is_a_number_with_a_unit() {
        assert_eq!(life("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(life("30m"), Ok(Duration::from_secs(1800)));
        assert_eq!(life("24h"), Ok(LONG));
        for wrong in ["", "h", "1", "1d", "25h", "0s", "-1m", "1é"] {
            life(wrong).expect_err(wrong);
        }
    }

    const LONG: Duration = super::LONGEST;
}
