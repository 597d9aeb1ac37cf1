//! The commands on schedules, on the book of one file system.

use super::book::{Book, Entry, Schedule};
use super::calendar::Date;
use super::spec::{self, Retention};
use crate::failure::{Done, Failure, invalid, missing};
use decl::Args;
use serde_json::{Value, json};
use wire::Errno;

/// The path of a command: absolute, without slashes at its end.
fn path(args: &Args) -> Done<String> {
    let path = args.opt_str("path").unwrap_or("/");
    if !path.starts_with('/') || path.split('/').any(|name| name == "..") {
        return invalid(format!("'{path}' is no absolute path"));
    }
    let path = path.trim_end_matches('/');
    Ok(if path.is_empty() { "/".to_owned() } else { path.to_owned() })
}

fn is_json(args: &Args) -> bool {
    args.format().starts_with("json")
}

fn start(args: &Args) -> Done<Option<u64>> {
    match args.opt_str("start").map(|text| (text, Date::parse(text))) {
        None => Ok(None),
        Some((_, Some(at))) => Ok(Some(at)),
        Some((text, None)) => invalid(format!("'{text}' is no time: write 2026-01-31T12:00:00")),
    }
}

pub(crate) fn status(book: &Book, fs: &str, args: &Args) -> Done<String> {
    let path = path(args)?;
    let all: Vec<Value> = match book.paths.get(&path) {
        Some(entry) => entry.schedules.iter().map(|s| s.status(fs, &path, &entry.retention)).collect(),
        None => Vec::new(),
    };
    match is_json(args) {
        true => Ok(Value::Array(all).to_string()),
        false => Ok(all.iter().map(Value::to_string).collect::<Vec<_>>().join("\n===\n")),
    }
}

pub(crate) fn list(book: &Book, args: &Args) -> Done<String> {
    let path = path(args)?;
    let below = format!("{}/", path.trim_end_matches('/'));
    let is_meant = |at: &str| at == path || args.flag("recursive") && at.starts_with(&below);
    let found: Vec<(&String, &Entry)> = book.paths.iter().filter(|(at, _)| is_meant(at)).collect();
    if found.is_empty() {
        return if is_json(args) {
            Ok("{}".into())
        } else {
            missing(format!("SnapSchedule for {path} not found"))
        };
    }
    let each = |(at, entry): &(&String, &Entry)| -> Vec<(String, String, String)> {
        let one = |s: &Schedule| ((*at).clone(), s.interval.clone(), spec::shown(&entry.retention));
        entry.schedules.iter().map(one).collect()
    };
    let all: Vec<_> = found.iter().flat_map(each).collect();
    if is_json(args) {
        let schedules: Vec<&String> = all.iter().map(|(_, interval, _)| interval).collect();
        let retention = |entry: &Entry| -> Value {
            entry.retention.iter().map(|(c, n)| (c.to_string(), Value::from(*n))).collect()
        };
        let retentions: Vec<Value> =
            found.iter().flat_map(|(_, entry)| entry.schedules.iter().map(|_| retention(entry))).collect();
        return Ok(json!({ "path": path, "schedule": schedules, "retention": retentions }).to_string());
    }
    let lines: Vec<String> =
        all.iter().map(|(at, interval, kept)| format!("{at} {interval} {kept}")).collect();
    Ok(lines.join("\n"))
}

pub(crate) fn add(book: &mut Book, fs: &str, args: &Args, now: u64) -> Done<String> {
    let (path, interval) = (path(args)?, args.text("snap_schedule"));
    let midnight = now / 86_400 * 86_400;
    let Some(new) = Schedule::new(&interval, start(args)?.unwrap_or(midnight), now) else {
        return missing("invalid schedule specified - multiplier should be one of m,h,d,w,M,y");
    };
    let entry = book.paths.entry(path.clone()).or_default();
    if entry.schedules.iter().any(|old| (old.start, old.repeat) == (new.start, new.repeat)) {
        let found: Vec<Value> =
            entry.schedules.iter().map(|s| s.status(fs, &path, &entry.retention)).collect();
        let text = format!("Found existing schedule {}", Value::Array(found));
        return Err(Failure::new(Errno::EEXIST, text));
    }
    entry.schedules.push(new);
    Ok(format!("Schedule set for path {path}"))
}

/// The schedules of an entry that a command means: all, or those with its interval and start.
fn meant(args: &Args) -> Done<impl Fn(&Schedule) -> bool> {
    let (interval, start) = (args.opt_str("repeat").map(str::to_owned), start(args)?);
    Ok(move |schedule: &Schedule| {
        interval.as_ref().is_none_or(|interval| *interval == schedule.interval)
            && start.is_none_or(|start| start == schedule.start)
    })
}

fn entry<'a>(book: &'a mut Book, path: &str) -> Done<&'a mut Entry> {
    match book.paths.get_mut(path) {
        Some(entry) => Ok(entry),
        None => missing(format!("SnapSchedule for {path} not found")),
    }
}

fn none_meant<T>(args: &Args) -> Done<T> {
    let given = |name| args.opt_str(name).unwrap_or("None");
    missing(format!("No schedule found for {} {}", given("repeat"), given("start")))
}

pub(crate) fn remove(book: &mut Book, args: &Args) -> Done<String> {
    let (path, is_meant) = (path(args)?, meant(args)?);
    let entry = entry(book, &path)?;
    let before = entry.schedules.len();
    entry.schedules.retain(|schedule| !is_meant(schedule));
    if entry.schedules.len() == before {
        return none_meant(args);
    }
    if entry.schedules.is_empty() {
        book.paths.remove(&path);
    }
    Ok(format!("Schedule removed for path {path}"))
}

pub(crate) fn activate(book: &mut Book, args: &Args, active: bool) -> Done<String> {
    let (path, is_meant) = (path(args)?, meant(args)?);
    let schedules = &mut entry(book, &path)?.schedules;
    if !schedules.iter().any(&is_meant) {
        return none_meant(args);
    }
    schedules.iter_mut().filter(|schedule| is_meant(schedule)).for_each(|schedule| schedule.active = active);
    Ok(format!("Schedule {} for path {path}", if active { "activated" } else { "deactivated" }))
}

fn retention(args: &Args) -> Done<Retention> {
    let text = match args.opt_str("retention_count") {
        Some(count) => format!("{count}{}", args.text("retention_spec_or_period")),
        None => args.text("retention_spec_or_period"),
    };
    match spec::retention(&text) {
        Some(retention) => Ok(retention),
        None => missing(format!("Retention spec {text} is invalid")),
    }
}

pub(crate) fn add_retention(book: &mut Book, args: &Args) -> Done<String> {
    let (path, new) = (path(args)?, retention(args)?);
    let Some(entry) = book.paths.get_mut(&path) else {
        return missing(format!("No schedule found for {path}"));
    };
    if let Some((letter, count)) = entry.retention.iter().find(|(letter, _)| new.contains_key(letter)) {
        return invalid(format!(
            "Retention for {letter} is already present with value {count}. Please remove first"
        ));
    }
    entry.retention.extend(new);
    Ok(format!("Retention added to path {path}"))
}

pub(crate) fn remove_retention(book: &mut Book, args: &Args) -> Done<String> {
    let (path, old) = (path(args)?, retention(args)?);
    let Some(entry) = book.paths.get_mut(&path) else {
        return missing(format!("No schedule found for {path}"));
    };
    if let Some((letter, count)) =
        old.iter().find(|(letter, count)| entry.retention.get(letter) != Some(count))
    {
        return missing(format!("Retention for {letter}: {count} was not set for {path} can't remove"));
    }
    entry.retention.retain(|letter, _| !old.contains_key(letter));
    Ok(format!("Retention removed from path {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Args {
        let value: Value = serde_json::from_str(text).expect("JSON");
        Args::from_map(value.as_object().expect("an object").clone())
    }

    #[test]
    fn schedules_come_and_go() {
        let mut book = Book::default();
        let hourly = args(r#"{"path":"/a/","snap_schedule":"1h","start":"2023-11-14T22:00:00"}"#);
        assert_eq!(add(&mut book, "f", &hourly, 5).as_deref(), Ok("Schedule set for path /a"));
        assert_eq!(add(&mut book, "f", &hourly, 5).map_err(|f| f.errno), Err(Errno::EEXIST));
        let daily = args(r#"{"path":"/a","snap_schedule":"1d"}"#);
        assert!(add(&mut book, "f", &daily, 86_400 + 5).is_ok());
        let keep = args(r#"{"path":"/a","retention_spec_or_period":"h","retention_count":"24"}"#);
        assert!(add_retention(&mut book, &keep).is_ok());
        assert_eq!(add_retention(&mut book, &keep).map_err(|f| f.errno), Err(Errno::EINVAL));
        let listed = list(&book, &args(r#"{"path":"/","recursive":true}"#));
        assert_eq!(listed.as_deref(), Ok("/a 1h 24h\n/a 1d 24h"));
        let json = list(&book, &args(r#"{"path":"/a","format":"json"}"#)).expect("a list");
        assert_eq!(json, r#"{"path":"/a","schedule":["1h","1d"],"retention":[{"h":24},{"h":24}]}"#);
        assert!(activate(&mut book, &args(r#"{"path":"/a","repeat":"1d"}"#), false).is_ok());
        assert_eq!(book.paths["/a"].schedules.iter().map(|s| s.active).collect::<Vec<_>>(), [true, false]);
        assert!(remove_retention(&mut book, &keep).is_ok() && remove_retention(&mut book, &keep).is_err());
        assert!(remove(&mut book, &args(r#"{"path":"/a","repeat":"1w"}"#)).is_err());
        assert!(remove(&mut book, &args(r#"{"path":"/a"}"#)).is_ok());
        assert_eq!(book, Book::default());
        assert_eq!(list(&book, &args(r#"{"path":"/a"}"#)).map_err(|f| f.errno), Err(Errno::ENOENT));
    }

    #[test]
    fn nonsense_is_refused() {
        let mut book = Book::default();
        for (text, errno) in [
            (r#"{"path":"a","snap_schedule":"1h"}"#, Errno::EINVAL),
            (r#"{"path":"/a/../b","snap_schedule":"1h"}"#, Errno::EINVAL),
            (r#"{"path":"/a","snap_schedule":"1x"}"#, Errno::ENOENT),
            (r#"{"path":"/a","snap_schedule":"1h","start":"soon"}"#, Errno::EINVAL),
        ] {
            assert_eq!(add(&mut book, "f", &args(text), 5).map_err(|f| f.errno), Err(errno));
        }
        assert_eq!(book, Book::default());
    }
}
