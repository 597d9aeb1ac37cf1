//! Choosing a fault, carrying it out and mending it.

use super::hurt::Hurt;
use super::state::{POOLS, Thrasher};
use rustix::process::Signal;
use std::os::unix::fs::FileExt;

impl Hurt {
    /// Chooses a fault that is possible now; `None` if there is none.
    pub(super) fn choose(on: &mut Thrasher) -> Option<Self> {
        let away: Vec<u32> = on.wounds.iter().filter_map(|w| w.hurt.away()).collect();
        let osd = on.rng.below(u64::from(on.plan.osds)) as u32;
        let is_touched = on.wounds.iter().any(|w| w.hurt.osd() == Some(osd));
        let mon_is_down = on.wounds.iter().any(|w| matches!(w.hurt, Self::KillMon(_)));
        let out = on.wounds.iter().any(|w| matches!(w.hurt, Self::Out(_)));
        // Seldom a second one goes while the first is away: PGs may stand still then, but nothing is lost.
        let may_go = !is_touched && (away.is_empty() || away.len() == 1 && on.rng.below(6) == 0);
        match on.rng.below(100) {
            0..22 => may_go.then_some(Self::Kill(osd)),
            22..36 => may_go.then_some(Self::Pause(osd)),
            36..50 => (may_go && on.hosts.is_some()).then_some(Self::Cut(osd)),
            50..60 => (!is_touched && !out).then_some(Self::Out(osd)),
            60..70 => (!is_touched).then(|| Self::Reweight(osd, 30 + on.rng.below(71))),
            70..75 => Some(Self::Recreate(osd)),
            75..85 => {
                let letters = ["a", "b", "c", "d", "e"];
                let mon = on.rng.below(u64::from(on.plan.mons)) as usize;
                (!mon_is_down && on.plan.mons > 2).then(|| Self::KillMon(format!("mon.{}", letters[mon])))
            }
            85..93 => Some(Self::Rest),
            93..96 => on.plan.splits.then(|| Self::Split(POOLS[on.rng.below(2) as usize])),
            96.. => (on.plan.flips).then_some(Self::Flip(osd)),
        }
    }

    pub(super) fn inflict(&self, on: &mut Thrasher) -> Result<(), String> {
        match self {
            Self::Kill(osd) => on.kill(&format!("osd.{osd}")),
            Self::Pause(osd) => on.signal(&format!("osd.{osd}"), Signal::STOP),
            Self::Cut(osd) => on.hosts.iter().for_each(|hosts| hosts.cut(*osd)),
            Self::Out(osd) => drop(on.ceph(&["osd", "out", &osd.to_string()])),
            Self::Reweight(osd, weight) => on.reweight(*osd, *weight),
            Self::Recreate(osd) => {
                on.recreate(*osd)?;
                return on.wait_until_clean();
            }
            Self::KillMon(name) => on.kill(name),
            Self::Rest => {}
            Self::Split(pool) => on.split(pool),
            Self::Flip(osd) => on.flip(*osd)?,
        }
        Ok(())
    }

    pub(super) fn mend(&self, on: &mut Thrasher) -> Result<(), String> {
        match self {
            Self::Kill(osd) | Self::Flip(osd) => on.start(&format!("osd.{osd}")),
            Self::Pause(osd) => on.signal(&format!("osd.{osd}"), Signal::CONT),
            Self::Cut(osd) => on.hosts.iter().for_each(|hosts| hosts.mend(*osd)),
            Self::Out(osd) => drop(on.ceph(&["osd", "in", &osd.to_string()])),
            Self::Reweight(osd, _) => on.reweight(*osd, 100),
            Self::KillMon(name) => on.start(name),
            Self::Recreate(_) | Self::Rest | Self::Split(_) => {}
        }
        Ok(())
    }
}

impl Thrasher {
    fn kill(&mut self, name: &str) {
        self.signal(name, Signal::KILL);
        // Reaped, so that its device is free for the next one.
        self.daemons.remove(name);
    }

    fn reweight(&self, osd: u32, hundredths: u64) {
        let weight = format!("{:.2}", hundredths as f64 / 100.0);
        self.ceph(&["osd", "reweight", &osd.to_string(), &weight]);
    }

    fn split(&self, pool: &str) {
        let text = self.ceph(&["osd", "pool", "get", pool, "pg_num", "-f", "json"]);
        let now = serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["pg_num"].as_u64();
        let now = now.expect("a number");
        if now < 64 {
            self.ceph(&["osd", "pool", "set", pool, "pg_num", &(now * 2).to_string()]);
        }
    }

    /// Replaces a disk, as an operator does: the OSD keeps its number and gets a new store.
    fn recreate(&mut self, osd: u32) -> Result<(), String> {
        let (name, id) = (format!("osd.{osd}"), osd.to_string());
        self.kill(&name);
        let dir = self.cluster.dir().join(&name);
        let is_down = |text: &str| text.lines().any(|l| l.contains(&name) && l.contains("down"));
        while !is_down(&self.ceph(&["osd", "tree"])) {
            self.pass(std::time::Duration::from_millis(200))?;
        }
        self.ceph(&["osd", "destroy", &id, "--yes-i-really-mean-it"]);
        std::fs::remove_file(dir.join("block")).map_err(|e| e.to_string())?;
        let target = dir.to_str().expect("UTF-8");
        let keyring = std::fs::read_to_string(dir.join("keyring")).map_err(|e| e.to_string())?;
        let key = keyring.lines().find_map(|l| l.trim().strip_prefix("key = ")).expect("a key");
        let secret = dir.join("secret");
        std::fs::write(&secret, format!("{{\"cephx_secret\": \"{key}\"}}")).map_err(|e| e.to_string())?;
        let bits = format!("{:016x}{:016x}", self.rng.u64(), self.rng.u64());
        let uuid = [&bits[..8], &bits[8..12], &bits[12..16], &bits[16..20], &bits[20..]].join("-");
        std::fs::write(dir.join("fsid"), format!("{uuid}\n")).map_err(|e| e.to_string())?;
        self.ceph(&["osd", "new", &uuid, &id, "-i", secret.to_str().expect("UTF-8")]);
        for file in ["secret", "fsid"] {
            std::fs::rename(dir.join(file), dir.with_extension(file)).map_err(|e| e.to_string())?;
        }
        crate::run::nacre(&["osd", "create", target, "--size", "2G"]).ok();
        std::fs::rename(dir.with_extension("fsid"), dir.join("fsid")).map_err(|e| e.to_string())?;
        self.start(&name);
        Ok(())
    }

    /// Changes one bit of a copy, as a disk does that forgets.
    fn flip(&mut self, osd: u32) -> Result<(), String> {
        let name = format!("osd.{osd}");
        self.kill(&name);
        let path = self.cluster.dir().join(&name).join("block");
        let file =
            std::fs::OpenOptions::new().read(true).write(true).open(path).map_err(|e| e.to_string())?;
        let size = file.metadata().map_err(|e| e.to_string())?.len();
        let (at, mut byte) = (self.rng.below(size), [0]);
        let changed = file.read_exact_at(&mut byte, at).and_then(|()| {
            byte[0] ^= 1 << self.rng.below(8);
            file.write_all_at(&byte, at)
        });
        changed.map_err(|e| e.to_string())
    }
}
