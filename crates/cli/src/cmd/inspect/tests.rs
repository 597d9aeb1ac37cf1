//! Commands on a small file system in memory, sound and damaged.

use super::memory::{DIR, FILE, Memory, SECOND, dir as dir_inode, entry, file_system, key, place};
use super::target::{SourceArgs, Target, TargetArgs, parse};
use super::*;
use crate::cmd::terminal::Format;
use fsfmt::tables::session_key;
use fsfmt::{DentryKey, DirFrag, Ino, names};
use serde_json::Value;
use stdx::Rng;

fn shown(
    memory: &Memory,
    format: Format,
    command: impl Fn(Show<'_>) -> Result<Findings>,
) -> Result<(String, usize)> {
    let mut out = Vec::new();
    let printer = Printer::new(&mut out, format);
    let findings = command(Show { objects: memory, rank: 0, printer })?;
    Ok((String::from_utf8(out).expect("text"), findings.count()))
}

fn plain(memory: &Memory, command: impl Fn(Show<'_>) -> Result<Findings>) -> (String, usize) {
    shown(memory, Format::Plain, command).expect("objects can be read")
}

fn json(memory: &Memory, command: impl Fn(Show<'_>) -> Result<Findings>) -> Value {
    let (text, _) = shown(memory, Format::Json, command).expect("objects can be read");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn of(text: &str) -> TargetArgs {
    TargetArgs { target: parse(text).expect("a target"), source: SourceArgs::default() }
}

fn stored(text: &str) -> TargetArgs {
    TargetArgs { source: SourceArgs { stored: true }, ..of(text) }
}

fn sessions_of(show: Show<'_>) -> Result<Findings> {
    sessions::show(show, &SourceArgs::default())
}

fn tables_of(show: Show<'_>) -> Result<Findings> {
    tables::show(show, &SourceArgs::default())
}

fn events(show: Show<'_>) -> Result<Findings> {
    journal::show(show, &journal::JournalArgs { summary: false })
}

/// The names of a listing, each with its source.
fn names_of(listing: &Value) -> Vec<(String, bool)> {
    let entries = listing["frags"].as_array().into_iter().flatten();
    let entries = entries.flat_map(|frag| frag["dentries"].as_array().into_iter().flatten());
    let one = |e: &Value| (e["dname"].as_str().unwrap_or("?").to_owned(), e["from_journal"] == true);
    let mut names: Vec<_> = entries.map(one).collect();
    names.sort();
    names
}

#[test]
fn a_directory_is_listed_with_and_without_the_journal() {
    let m = file_system();
    let (text, damage) = plain(&m, |s| dir::show(s, &of("/d")));
    assert_eq!(damage, 0, "{text}");
    for line in ["fragment 10000000000.00000000: version 7, stored up to event 4", "[2,3]", "remote"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let name = |name: &str, is_from_journal| (name.to_owned(), is_from_journal);
    let listing = json(&m, |s| dir::show(s, &of("0x10000000000")));
    let expected = [name("again", false), name("one", false), name("one", false), name("two", true)];
    assert_eq!(names_of(&listing), expected);
    let listing = json(&m, |s| dir::show(s, &stored("/d")));
    let expected = [name("again", false), name("gone", false), name("one", false), name("one", false)];
    assert_eq!(names_of(&listing), expected);
    assert_eq!((&listing["journal_events"], &listing["damage"]), (&Value::Null, &serde_json::json!([])));
}

#[test]
fn a_damaged_entry_is_named_and_the_others_are_listed() {
    let mut m = file_system();
    let object = names::dir_object(DirFrag::whole(DIR));
    m.at(object.clone()).omap.insert(key("one"), b"rubbish".to_vec());
    m.at(object.clone()).omap.insert(b"no key".to_vec(), Vec::new());
    let (text, damage) = plain(&m, |s| dir::show(s, &of("/d")));
    let at = format!("DAMAGED: meta/{object} key {}: it does not decode", super::text::shown(&key("one")));
    assert!(text.contains(&at) && text.contains("its 7 bytes are 72756262697368"), "{text}");
    assert!(text.contains("docs/damage.md") && text.contains("again") && text.contains("two"), "{text}");
    let listing = json(&m, |s| dir::show(s, &of("/d")));
    assert_eq!(listing["damage"].as_array().map(Vec::len), Some(damage));
    assert_eq!(listing["damage"][0]["damage_type"], "dentry");
    assert_eq!(names_of(&listing).len(), 3);
}

#[test]
fn a_lost_fragment_is_damage_only_if_the_journal_lacks_its_entries() {
    let mut m = file_system();
    m.objects.remove(&names::dir_object(DirFrag::whole(DIR)));
    let (text, damage) = plain(&m, |s| dir::show(s, &of("/d")));
    assert!(damage == 1 && text.contains("1 entries can be read, and the inode counts 3"), "{text}");
    let (text, damage) = plain(&m, |s| dir::show(s, &stored("/d")));
    assert!(damage == 0 && text.contains("leave out --stored"), "{text}");
    m.put(names::dir_object(DirFrag::whole(Ino::ROOT)), key("d"), &entry(dir_inode(DIR, 1, 0)));
    let (text, damage) = plain(&m, |s| dir::show(s, &of("/d")));
    assert!(damage == 0 && text.contains("journal [0,head]"), "{text}");
}

#[test]
fn a_directory_without_an_inode_is_listed_by_the_fragments_that_exist() {
    let mut m = file_system();
    m.objects.remove(&names::index_object(DIR));
    let object = names::dir_object(DirFrag::whole(DIR));
    let whole = m.objects.remove(&object).expect("is there");
    for (key, value) in whole.omap {
        let hash = DentryKey::from_omap(&key).expect("a key").hash;
        let part = DirFrag::whole(DIR).part_of(hash, 3);
        m.at(names::dir_object(part)).omap.insert(key, value);
    }
    let listing = json(&m, |s| dir::show(s, &of("0x10000000000")));
    assert_eq!(names_of(&listing).len(), 4, "one is in the journal: {listing}");
    assert_eq!(
        (&listing["inode"], &listing["damage"][0]["damage_type"]),
        (&Value::Null, &"backtrace".into())
    );
}

#[test]
fn an_inode_is_found_by_number_and_by_path() {
    let m = file_system();
    let (text, damage) = plain(&m, |s| inode::show(s, &of("1099511627777")));
    assert_eq!(damage, 0, "{text}");
    for part in ["path         /d/one", "10000000001 is one in 10000000000", "size             5", "[0,head]"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let found = json(&m, |s| inode::show(s, &of("/d/again")));
    assert_eq!((&found["ino"], &found["path"]), (&FILE.0.into(), &"/d/one".into()));
    assert_eq!(found["backtrace"][1]["dname"], "d");
    assert_eq!((&found["inode"]["size"], &found["from_journal"]), (&5.into(), &false.into()));
    let found = json(&m, |s| inode::show(s, &of("0x10000000002")));
    assert_eq!((&found["path"], &found["from_journal"]), (&"/d/two".into(), &true.into()));
    let root = json(&m, |s| inode::show(s, &of("/")));
    assert_eq!((&root["ino"], &root["path"], &root["dentry"]), (&1.into(), &"/".into(), &Value::Null));
    let none = shown(&m, Format::Plain, |s| inode::show(s, &of("0x10000000fff")));
    assert!(none.expect_err("no such inode").to_string().contains("no inode 0x10000000fff"));
    let none = shown(&m, Format::Plain, |s| inode::show(s, &of("/d/one/x")));
    assert!(none.expect_err("no directory").to_string().contains("/d/one is no directory"));
}

#[test]
fn a_wrong_inode_index_is_named() {
    let mut m = file_system();
    let (object, key) = (names::index_object(FILE), names::index_key(FILE));
    m.put(object.clone(), key.clone(), &place(DIR, "elsewhere"));
    let (text, damage) = plain(&m, |s| inode::show(s, &of("0x10000000001")));
    assert!(
        damage == 1 && text.contains("it names 10000000000/elsewhere, where 10000000001 is not"),
        "{text}"
    );
    m.at(object.clone()).omap.insert(key, vec![9]);
    let (text, damage) = plain(&m, |s| inode::show(s, &of("0x10000000001")));
    assert!(damage == 1 && text.contains(&format!("meta/{object} key 0000010000000001")), "{text}");
    m.put(names::index_object(DIR), names::index_key(DIR), &place(FILE, "x"));
    m.put(object, names::index_key(FILE), &place(DIR, "one"));
    let found = json(&m, |s| inode::show(s, &of("0x10000000001")));
    let damage = found["damage"].to_string();
    assert!(damage.contains("lead back to"), "{damage}");
    assert_eq!(found["inode"]["ino"], FILE.0, "its entry is found all the same");
}

#[test]
fn a_journal_is_listed_with_its_positions() {
    let m = file_system();
    let (text, damage) = plain(&m, events);
    assert_eq!(damage, 0, "{text}");
    for part in [
        "1:0                   5",
        "create: dentry 10000000000/two = 10000000002 v2",
        "unlink: dentry 10000000000/gone removed",
        "expire position: object 1, event 5",
        "write position: object 2, offset",
        "event 8\n",
        "  create: 1\n",
        "Overall journal integrity: OK",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let all = json(&m, events);
    assert_eq!(all["events"].as_array().map(Vec::len), Some(3));
    assert_eq!(all["events"][0]["updates"][0]["dentry"]["inode"]["size"], 5);
    assert_eq!((&all["write_pos"]["seq"], &all["expire_pos"]["seq"]), (&8.into(), &5.into()));
    let summary = |s: Show<'_>| journal::show(s, &journal::JournalArgs { summary: true });
    let (text, _) = plain(&m, summary);
    assert!(!text.contains("dentry") && text.contains("  unlink: 1\n"), "{text}");
    assert_eq!(json(&m, summary)["events_by_type"]["noop"], 1);
}

#[test]
fn a_damaged_journal_is_listed_as_far_as_it_goes() {
    let mut m = file_system();
    let first = names::journal_object(0, 1);
    m.at(first.clone()).data[40] ^= 1;
    let (text, damage) = plain(&m, events);
    assert!(damage == 1 && text.contains("event 5 has a wrong checksum; event 5 is missing"), "{text}");
    assert!(text.contains("unlink: ") && text.contains("noop: "), "{text}");
    assert!(text.contains("Overall journal integrity: DAMAGED"), "{text}");
    assert!(text.contains(&format!("DAMAGED: meta/{first}: bytes 0 to")), "{text}");

    let mut m = file_system();
    m.objects.remove(&first);
    let (text, damage) = plain(&m, events);
    assert!(damage == 1 && text.contains("it is missing, and object 2 of the journal is there"), "{text}");

    let mut m = file_system();
    m.unreadable.push(first);
    let found = json(&m, events);
    assert_eq!(found["integrity"], "DAMAGED");
    assert!(found["damage"][0]["why"].as_str().is_some_and(|why| why.contains("no copy of it")), "{found}");
    assert_eq!(found["events"].as_array().map(Vec::len), Some(1));

    let mut m = file_system();
    m.objects.remove(&names::journal_object(0, 0));
    let (text, damage) = plain(&m, events);
    assert!(damage == 1 && text.contains("lost its journal's header") && text.contains("unlink: "), "{text}");
}

#[test]
fn sessions_and_tables_are_listed() {
    let mut m = file_system();
    let (text, damage) = plain(&m, sessions_of);
    assert!(damage == 0 && text.contains("client.4100 ") && text.contains("mds0_sessionmap: 1\n"), "{text}");
    let all = json(&m, sessions_of);
    assert_eq!(
        (&all["sessions"][0]["id"], &all["sessions"][0]["auth_name"]),
        (&4100.into(), &"client.admin".into())
    );
    let (text, damage) = plain(&m, tables_of);
    assert_eq!(damage, 0, "{text}");
    for part in
        ["the next number is 0x10000000003", "  3 live of 1, made", ": monday", "strays, 600.00000000: 1"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let all = json(&m, tables_of);
    assert_eq!(
        (&all["snaptable"]["last_snap"], &all["snaptable"]["snaps"][0]["name"]),
        (&3.into(), &"monday".into())
    );
    assert_eq!((&all["inotable"]["next"], &all["packs"]), (&(SECOND.0 + 1).into(), &serde_json::json!([])));

    m.at(names::session_table(0)).omap.insert(session_key(4101), vec![1, 2]);
    m.at(names::session_table(0)).omap.insert(b"x".to_vec(), Vec::new());
    m.at(names::ino_table(0)).data = vec![0xff; 9];
    let (text, damage) = plain(&m, sessions_of);
    assert!(
        damage == 2 && text.contains("client.4100 ") && text.contains("no client has such a key"),
        "{text}"
    );
    let (text, damage) = plain(&m, tables_of);
    assert!(damage == 1 && text.contains("DAMAGED: meta/mds0_inotable: it does not decode"), "{text}");
}

#[test]
fn no_bytes_end_a_look() {
    let mut rng = Rng::from_seed(17);
    let sound = file_system();
    let names: Vec<String> = sound.objects.keys().cloned().collect();
    for round in 0..300 {
        let mut m = sound.clone();
        for _ in 0..=rng.below(3) {
            let object = m.at(names[rng.below(names.len() as u64) as usize].clone());
            let of_omap = object.omap.values_mut();
            let mut all: Vec<&mut Vec<u8>> =
                [&mut object.data, &mut object.header].into_iter().chain(of_omap).collect();
            let at = rng.below(all.len() as u64) as usize;
            damage(all[at], &mut rng);
        }
        for target in ["/d", "/d/one", "0x10000000001", "0x10000000000"] {
            for args in [of(target), stored(target)] {
                check_all(&m, &args, round);
            }
        }
    }
}

/// Runs everything; what is printed is whole, or there is an error that says why not.
fn check_all(m: &Memory, args: &TargetArgs, round: u32) {
    let whole = |shown: Result<(String, usize)>| match shown {
        Ok((text, _)) => {
            drop(serde_json::from_str::<Value>(&text).unwrap_or_else(|e| panic!("{round} {e}: {text}")))
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    };
    whole(shown(m, Format::Json, |s| dir::show(s, args)));
    whole(shown(m, Format::Json, |s| inode::show(s, args)));
    whole(shown(m, Format::Json, events));
    whole(shown(m, Format::Json, sessions_of));
    whole(shown(m, Format::Json, tables_of));
    drop(shown(m, Format::Plain, |s| dir::show(s, args)));
    drop(shown(m, Format::Plain, |s| inode::show(s, args)));
    drop(shown(m, Format::Plain, events));
}

/// Changes a bit, cuts, or replaces the bytes.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(bytes.len().max(1) as u64) as usize;
    match rng.below(3) {
        0 => bytes.truncate(at),
        1 => *bytes = (0..rng.below(60)).map(|_| rng.u64() as u8).collect(),
        _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << rng.below(8)),
    }
}

#[test]
fn targets_are_paths_or_numbers() {
    assert_eq!(parse("/a/b"), Ok(Target::Path("/a/b".into())));
    assert_eq!(parse("1"), Ok(Target::Ino(Ino::ROOT)));
    assert_eq!(parse("0x10000000000"), Ok(Target::Ino(DIR)));
    assert!(parse("a/b").expect_err("neither").contains("begins with /"));
}

#[test]
fn the_file_system_is_chosen_by_name_or_is_the_only_one() {
    let fs = |name: &str| serde_json::json!({ "name": name, "metadata_pool": format!("{name}_meta") });
    assert_eq!(pool::choose(&[fs("a")], None).expect("the only one"), "a_meta");
    assert_eq!(pool::choose(&[fs("a"), fs("b")], Some("b")).expect("by name"), "b_meta");
    for (list, wanted, says) in [
        (vec![], None, "no file system"),
        (vec![fs("a"), fs("b")], None, "--fs"),
        (vec![fs("a")], Some("c"), "`c`"),
    ] {
        let error = pool::choose(&list, wanted).expect_err("no choice").to_string();
        assert!(error.contains(says), "{error}");
    }
}
