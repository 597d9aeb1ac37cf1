//! The schedules of a file system, as they are stored: JSON in an object beside its metadata.

use super::calendar::Date;
use super::spec::{self, Retention};
use crate::failure::{Done, Failure};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use wire::Errno;

/// One schedule of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Schedule {
    /// The repeat interval as it was given.
    pub interval: String,
    /// The same in seconds.
    pub repeat: u64,
    /// The moment from which the intervals are counted.
    pub start: u64,
    pub created: u64,
    /// Times of the first and last snapshot, and of the last removal.
    pub first: Option<u64>,
    pub last: Option<u64>,
    pub last_pruned: Option<u64>,
    pub created_count: u64,
    pub pruned_count: u64,
    pub active: bool,
}

/// The schedules and the retention of a directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Entry {
    pub schedules: Vec<Schedule>,
    pub retention: Retention,
}

/// All schedules of a file system, by path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Book {
    pub paths: BTreeMap<String, Entry>,
}

impl Schedule {
    /// A new schedule. `None` if the interval can't be read.
    pub fn new(interval: &str, start: u64, now: u64) -> Option<Self> {
        Some(Self {
            interval: interval.to_owned(),
            repeat: spec::interval(interval)?,
            start,
            created: now,
            first: None,
            last: None,
            last_pruned: None,
            created_count: 0,
            pruned_count: 0,
            active: true,
        })
    }

    /// The last moment in `(after, now]` at which a snapshot is due. There is none at the start itself, and
    /// none that has one already.
    pub fn due(&self, after: u64, now: u64) -> Option<u64> {
        let elapsed = now.checked_sub(self.start)?;
        let at = self.start + elapsed / self.repeat * self.repeat;
        let is_new = self.last.is_none_or(|last| last < at);
        (self.active && at > self.start && at > after && is_new).then_some(at)
    }

    /// Notes a snapshot.
    pub fn taken(&mut self, now: u64) {
        self.last = Some(now);
        self.first.get_or_insert(now);
        self.created_count += 1;
    }

    /// Notes that snapshots were removed.
    pub fn pruned(&mut self, now: u64, count: u64) {
        self.last_pruned = Some(now);
        self.pruned_count += count;
    }

    /// What `status` tells.
    pub fn status(&self, fs: &str, path: &str, retention: &Retention) -> Value {
        let retention: Map<String, Value> =
            retention.iter().map(|(letter, count)| (letter.to_string(), (*count).into())).collect();
        let time = |at: Option<u64>| at.map(|at| Date::of(at).iso());
        json!({
            "fs": fs, "subvol": null, "group": null, "path": path, "rel_path": path,
            "schedule": self.interval, "retention": retention,
            "start": time(Some(self.start)), "created": time(Some(self.created)),
            "first": time(self.first), "last": time(self.last), "last_pruned": time(self.last_pruned),
            "created_count": self.created_count, "pruned_count": self.pruned_count, "active": self.active,
        })
    }

    fn to_json(&self) -> Value {
        json!({
            "interval": self.interval, "start": self.start, "created": self.created, "first": self.first,
            "last": self.last, "last_pruned": self.last_pruned, "created_count": self.created_count,
            "pruned_count": self.pruned_count, "active": self.active,
        })
    }

    fn of_json(value: &Value) -> Option<Self> {
        let new =
            Self::new(value["interval"].as_str()?, value["start"].as_u64()?, value["created"].as_u64()?)?;
        Some(Self {
            first: value["first"].as_u64(),
            last: value["last"].as_u64(),
            last_pruned: value["last_pruned"].as_u64(),
            created_count: value["created_count"].as_u64()?,
            pruned_count: value["pruned_count"].as_u64()?,
            active: value["active"].as_bool()?,
            ..new
        })
    }
}

impl Book {
    /// The stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let one = |(path, entry): (&String, &Entry)| {
            let schedules: Vec<Value> = entry.schedules.iter().map(Schedule::to_json).collect();
            let retention = spec::shown(&entry.retention);
            (path.clone(), json!({ "schedules": schedules, "retention": retention }))
        };
        json!({ "version": 1, "paths": self.paths.iter().map(one).collect::<Map<_, _>>() }).to_string().into()
    }

    /// Reads the stored form.
    pub fn parse(bytes: &[u8]) -> Done<Self> {
        let damaged = || Failure::new(Errno::EIO, "the stored snapshot schedules are damaged");
        let value: Value = serde_json::from_slice(bytes).map_err(|_| damaged())?;
        let mut out = Self::default();
        for (path, entry) in value["paths"].as_object().ok_or_else(damaged)? {
            let schedules = entry["schedules"].as_array().ok_or_else(damaged)?;
            let schedules: Option<Vec<Schedule>> = schedules.iter().map(Schedule::of_json).collect();
            let retention = spec::retention(entry["retention"].as_str().unwrap_or_default());
            let entry =
                Entry { schedules: schedules.ok_or_else(damaged)?, retention: retention.unwrap_or_default() };
            out.paths.insert(path.clone(), entry);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    #[test]
    fn a_snapshot_is_due_once_at_each_interval() {
        let mut hourly = Schedule::new("1h", 1000, 0).expect("an interval");
        assert_eq!(hourly.due(0, 999), None, "it has not begun");
        assert_eq!(hourly.due(0, 1000), None, "the first is an interval later");
        assert_eq!(hourly.due(1000, 1000 + HOUR - 1), None);
        assert_eq!(hourly.due(1000, 1000 + HOUR), Some(1000 + HOUR));
        assert_eq!(hourly.due(1000 + HOUR, 1000 + HOUR + 1), None, "it was looked at");
        hourly.taken(1000 + HOUR + 2);
        assert_eq!(hourly.due(1000, 1000 + HOUR + 5), None, "another manager took it");
        assert_eq!(hourly.due(1000, 1000 + 9 * HOUR + 5), Some(1000 + 9 * HOUR), "missed ones are one");
        hourly.active = false;
        assert_eq!(hourly.due(1000, 1000 + 9 * HOUR + 5), None);
        assert_eq!((hourly.first, hourly.created_count), (Some(1000 + HOUR + 2), 1));
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let mut schedule = Schedule::new("2d", 5, 7).expect("an interval");
        schedule.taken(9);
        schedule.pruned(11, 3);
        let entry = Entry { schedules: vec![schedule], retention: Retention::from([('h', 24), ('n', 3)]) };
        let book = Book { paths: [("/a".to_owned(), entry)].into() };
        assert_eq!(Book::parse(&book.to_bytes()), Ok(book));
        for bytes in [&b""[..], b"{}", b"{\"paths\":{\"/\":{}}}", b"{\"paths\":{\"/\":{\"schedules\":[{}]}}}"]
        {
            assert!(Book::parse(bytes).is_err());
        }
    }
}
