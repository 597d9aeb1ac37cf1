//! The replacement of a host's daemons by those of the installed program, one after another.

mod mark;
mod plan;
mod step;

pub(crate) use plan::{Planned, plan, refusal};
pub(crate) use step::Manner;

use super::{Host, HostPaths};
use crate::cmd::terminal;
use anyhow::Result;
use mark::Mark;
use peer::level::Build;
use plan::Runs;
use step::{Condition, Step};

/// Replaces the daemons that the plan names. An upgrade that was cut short goes on when it is given again:
/// the next plan has what is left.
pub(crate) fn upgrade(
    cluster: &client::Cluster,
    (paths, host): (&HostPaths, &Host),
    planned: &[Planned],
    build: &Build,
    manner: &Manner,
) -> Result<()> {
    if planned.is_empty() && !Mark::is_left(cluster, &host.hostname) {
        return Ok(());
    }
    let mark = Mark::set(cluster, &host.hostname)?;
    let done = replace_all(cluster, paths, (planned, &Runs::this(build)), manner);
    // Also after a failure: nobody else takes the flag away.
    let cleared = mark.clear(cluster);
    done.and(cleared)
}

fn replace_all(
    cluster: &client::Cluster,
    paths: &HostPaths,
    (planned, this): (&[Planned], &Runs),
    manner: &Manner,
) -> Result<()> {
    let before = Condition::of(cluster)?;
    let bar = terminal::progress("replaced");
    bar.set_length(planned.len() as u64);
    for Planned { name, from, to } in planned {
        let step = Step { cluster, paths, name, to: this, manner, before: &before };
        step.run()?;
        bar.suspend(|| complain!("nacre: {name}: {from} is replaced by {to}"));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}
