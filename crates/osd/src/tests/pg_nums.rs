//! What the tests of splits and merges share.

use super::cluster::Cluster;
use maps::OsdId;

/// Names of so many objects.
pub fn names(n: u32) -> Vec<String> {
    (0..n).map(|i| format!("o{i}")).collect()
}

impl Cluster {
    /// Objects of all PGs together, by what their primaries say.
    pub fn objects_counted(&self) -> i64 {
        let all =
            self.alive().0.into_iter().flat_map(|osd| self.osd(osd).pgs.values().map(move |pg| (osd, pg)));
        let led = all.filter(|(osd, pg)| pg.primary() == Some(OsdId(*osd as i32)));
        led.map(|(_, pg)| pg.info.stats.objects).sum()
    }
}
