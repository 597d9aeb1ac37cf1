//! The record of a host: which cluster it belongs to and which daemons it runs. It is written before each
//! step of joining and leaving, so that a step that was cut short is done again.

use super::HostPaths;
use crate::cluster::{advise, files};
use anyhow::{Context, Result, bail};
use auth::Key;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::PathBuf;
use wire::{EntityName, EntityType, Uuid};

/// How far a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// `nacre init` has begun.
    Founding,
    /// `nacre join` has begun.
    Joining,
    /// It is a member.
    Member,
    /// `nacre leave` has begun.
    Leaving,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Founding, Self::Joining, Self::Member, Self::Leaving];

    fn name(self) -> &'static str {
        match self {
            Self::Founding => "founding",
            Self::Joining => "joining",
            Self::Member => "member",
            Self::Leaving => "leaving",
        }
    }

    fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|stage| stage.name() == name);
        found.with_context(|| format!("bad `stage`: {name}"))
    }
}

/// A host's record.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Host {
    /// The cluster.
    pub(crate) fsid: Uuid,
    /// Its name: that of its CRUSH bucket, its monitor and its metadata server.
    pub(crate) hostname: String,
    /// The address of its daemons.
    pub(crate) addr: IpAddr,
    /// The CRUSH bucket that it is in, if it is in one.
    pub(crate) rack: Option<String>,
    /// How far it is.
    pub(crate) stage: Stage,
    /// True if it runs a monitor.
    pub(crate) mon: bool,
    /// True if it runs a metadata server.
    pub(crate) mds: bool,
    /// Its OSDs.
    pub(crate) osds: Vec<Osd>,
}

/// An OSD of a host.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Osd {
    /// Its number; `None` before the monitors gave it one.
    pub(crate) id: Option<u32>,
    /// The identity of its store.
    pub(crate) uuid: Uuid,
    /// Its device.
    pub(crate) device: PathBuf,
    /// Its secret, until it is in the OSD's keyring.
    pub(crate) secret: Option<Key>,
    /// True if it is being removed: it is not started any more.
    pub(crate) removing: bool,
}

impl Osd {
    /// One that the monitors do not know yet.
    pub(crate) fn new(device: PathBuf) -> Self {
        let mut bytes = [0; 16];
        runtime::rng().fill(&mut bytes);
        let (uuid, secret) = (Uuid::from_random(bytes), Some(crate::cluster::new_key()));
        Self { id: None, uuid, device, secret, removing: false }
    }

    /// `osd.3`, once it has a number.
    pub(crate) fn name(&self) -> Option<EntityName> {
        Some(EntityName::new(EntityType::OSD, self.id?.to_string()))
    }
}

impl Host {
    /// Reads the record; `None` if the host belongs to no cluster.
    pub(crate) fn read(paths: &HostPaths) -> Result<Option<Self>> {
        let path = paths.record();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(advise("read", &path, e)),
        };
        let value: Value = serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged: it is not JSON", path.display()))?;
        Self::parse(&value).map(Some).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Reads the record of a host that is a member.
    pub(crate) fn member(paths: &HostPaths) -> Result<Self> {
        match Self::read(paths)? {
            Some(host) if matches!(host.stage, Stage::Founding | Stage::Joining) => bail!(
                "this host has not finished joining cluster {}: give the same `nacre init` or `nacre join` \
                 again",
                host.fsid
            ),
            Some(host) => Ok(host),
            None => bail!(
                "this host belongs to no cluster ({} is missing): begin one with `nacre init`, or join one \
                 with `nacre join`",
                paths.record().display()
            ),
        }
    }

    /// Writes the record, durably. It may hold secrets.
    pub(crate) fn write(&self, paths: &HostPaths) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.json())?;
        files::write(&paths.record(), &format!("{text}\n"), 0o600)
    }

    /// The names of its daemons, in the order in which they are started.
    pub(crate) fn daemons(&self) -> Vec<EntityName> {
        let own = |ty| EntityName::new(ty, self.hostname.as_str());
        let mon = self.mon.then(|| own(EntityType::MON));
        let mds = self.mds.then(|| own(EntityType::MDS));
        let osds = self.osds.iter().filter(|osd| !osd.removing).filter_map(Osd::name);
        mon.into_iter().chain(osds).chain(mds).collect()
    }

    fn json(&self) -> Value {
        let osds = self.osds.iter().map(|osd| {
            json!({
                "id": osd.id, "uuid": osd.uuid.to_string(), "device": osd.device.to_string_lossy(),
                "secret": osd.secret.as_ref().map(Key::to_base64), "removing": osd.removing,
            })
        });
        json!({
            "version": 1,
            "fsid": self.fsid.to_string(),
            "hostname": self.hostname,
            "addr": self.addr.to_string(),
            "rack": self.rack,
            "stage": self.stage.name(),
            "mon": self.mon,
            "mds": self.mds,
            "osds": osds.collect::<Vec<_>>(),
        })
    }

    fn parse(value: &Value) -> Result<Self> {
        if value["version"] != 1 {
            bail!("version {} is not known: it was written by a newer nacre", value["version"]);
        }
        let text = |value: &Value, key: &str| {
            value[key].as_str().map(str::to_owned).with_context(|| format!("no `{key}`"))
        };
        let uuid = |value: &Value, key: &str| {
            Uuid::parse(&text(value, key)?).with_context(|| format!("bad `{key}`"))
        };
        let osd = |value: &Value| {
            let secret = value["secret"].as_str().map(Key::from_base64).transpose()?;
            let id = value["id"].as_u64().map(u32::try_from).transpose()?;
            let (uuid, device) = (uuid(value, "uuid")?, text(value, "device")?.into());
            anyhow::Ok(Osd { id, uuid, device, secret, removing: value["removing"] == true })
        };
        let osds = value["osds"].as_array().context("no `osds`")?;
        Ok(Self {
            fsid: uuid(value, "fsid")?,
            hostname: text(value, "hostname")?,
            addr: text(value, "addr")?.parse().context("bad `addr`")?,
            rack: value["rack"].as_str().map(str::to_owned),
            stage: Stage::parse(&text(value, "stage")?)?,
            mon: value["mon"].as_bool().context("no `mon`")?,
            mds: value["mds"].as_bool().context("no `mds`")?,
            osds: osds.iter().map(osd).collect::<Result<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let paths = HostPaths::new(dir.path()).expect("paths");
        paths.create().expect("directories");
        assert_eq!(Host::read(&paths).expect("no error"), None);
        assert!(Host::member(&paths).expect_err("not a member").to_string().contains("nacre join"));
        let named = Osd { id: Some(7), secret: None, ..Osd::new("/dev/sdb".into()) };
        let host = Host {
            fsid: Uuid::from_random([3; 16]),
            hostname: "h1".into(),
            addr: [10, 0, 0, 1].into(),
            rack: Some("r1".into()),
            stage: Stage::Joining,
            mon: true,
            mds: true,
            osds: vec![named, Osd::new("/dev/sdc".into())],
        };
        host.write(&paths).expect("writes");
        assert_eq!(Host::read(&paths).expect("reads"), Some(host.clone()));
        assert!(Host::member(&paths).expect_err("not yet").to_string().contains("again"));
        let names: Vec<String> = host.daemons().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["mon.h1", "osd.7", "mds.h1"], "an OSD without a number is not started");
        std::fs::write(paths.record(), "{\"version\": 2}").expect("writes");
        assert!(format!("{:#}", Host::read(&paths).expect_err("newer")).contains("newer nacre"));
    }
}
