//! Waiting for something that others do.

use anyhow::{Result, anyhow};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until `left` finds nothing left to wait for. If it still finds something after `patience`, `advise`
/// says what that is, and what to do.
pub(crate) fn wait_while<W>(
    patience: Duration,
    mut left: impl FnMut() -> Result<Option<W>>,
    advise: impl FnOnce(W) -> String,
) -> Result<()> {
    let began = Instant::now();
    while let Some(what) = left()? {
        if began.elapsed() > patience {
            return Err(anyhow!(advise(what)));
        }
        std::thread::park_timeout(LOOK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_what_is_waited_for_or_with_advice() {
        let mut left = 1;
        let look = || Ok((left > 0).then(|| std::mem::replace(&mut left, 0)));
        wait_while(Duration::from_secs(60), look, |_| String::new()).expect("nothing is left");
        let late = wait_while(Duration::ZERO, || Ok(Some("osd.1")), |what| format!("{what}: end it"));
        assert_eq!(late.expect_err("it is there for ever").to_string(), "osd.1: end it");
        let failed =
            wait_while(Duration::ZERO, || Err::<Option<()>, _>(anyhow!("no answer")), |()| String::new());
        assert_eq!(failed.expect_err("can't look").to_string(), "no answer");
    }
}
