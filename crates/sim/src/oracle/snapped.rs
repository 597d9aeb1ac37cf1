//! What snapshots showed ([`super::shown`]), as observations of the histories of names and contents: each is
//! made between the call and the return of the snapshot's creation.

use super::shown::Snapshots;
use super::{contents, namespace};
use std::rc::Rc;

/// Adds to the histories what was seen.
pub fn tell(snaps: &Snapshots, names: &mut namespace::History, contents: &mut contents::History) {
    for made in snaps.known.values() {
        names.show(made.number, &Rc::new(made.shown.clone()));
        let Some(ret) = made.ret else { continue };
        for (ino, parts) in &made.files {
            contents.observed(*ino, made.client, (made.call, ret), parts.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::namespace::{Action, Answer, ROOT};
    use super::super::shown::{Listing, Seen};
    use super::*;

    fn listing(names: &[(&str, u64, bool)]) -> Listing {
        Listing { names: names.iter().map(|(n, ino, dir)| ((*n).to_owned(), (*ino, *dir))).collect() }
    }

    /// A directory `d` with a file, of which a snapshot is made before the file moves to the root, where it
    /// replaces another. Returns what is wrong if the snapshot shows this.
    fn moved(seen: &[Seen]) -> [Option<String>; 3] {
        let (mut names, mut contents) = (namespace::History::default(), contents::History::default());
        let mut snaps = Snapshots::default();
        let of = (9, "s".to_owned());
        let name = |n: &str| n.to_owned();
        let add = |names: &mut namespace::History, action, answer| {
            let number = names.called(0, action);
            names.returned(number, answer);
        };
        add(&mut names, Action::Mkdir(ROOT, name("d")), Answer::Ino(9));
        add(&mut names, Action::Create(9, name("a")), Answer::Ino(10));
        let write = contents.called(10, 0, contents::Action::Write { offset: 0, tag: 7 });
        contents.returned(10, write, contents::Answer::Done);
        let call = contents.moment();
        let number = names.called(1, Action::Snap(9, of.1.clone(), Rc::default()));
        snaps.called(of.clone(), 1, number, call);
        names.returned(number, Answer::Done);
        snaps.made(&of, contents.moment());
        add(&mut names, Action::Rename(9, name("a"), ROOT, name("b")), Answer::Done);
        add(&mut names, Action::Rmdir(ROOT, name("d")), Answer::Error(wire::Errno::ENOTEMPTY));
        let cut = contents.called(10, 0, contents::Action::Truncate(0));
        contents.returned(10, cut, contents::Answer::Done);
        seen.iter().for_each(|seen| snaps.saw(&of, contents.moment(), seen.clone()));
        tell(&snaps, &mut names, &mut contents);
        [snaps.check(), names.check(), contents.check()].map(|judgement| judgement.wrong)
    }

    #[test]
    fn a_snapshot_shows_what_was_there_when_it_was_made() {
        let then = Seen::Dir(9, listing(&[("a", 10, false)]));
        let size = |size| Seen::File(10, contents::Action::Stat, contents::Answer::Stat(size, 0o644));
        assert_eq!(moved(&[then.clone(), size(16), then.clone(), Seen::Count(10, 1)]), [None, None, None]);
        let [constant, names, contents] = moved(&[Seen::Dir(9, Listing::default()), size(0)]);
        assert!(constant.is_none() && names.is_some() && contents.is_some(), "a later state");
        let [constant, ..] = moved(&[then.clone(), Seen::Dir(9, Listing::default())]);
        assert!(constant.is_some_and(|what| what.contains("showed")), "it has changed");
        let [_, names, _] = moved(&[Seen::Dir(9, listing(&[("a", 10, true)]))]);
        assert!(names.is_some(), "a file");
        let [_, names, _] = moved(&[then, Seen::Count(10, 2)]);
        assert!(names.is_some(), "it had one name");
    }

    #[test]
    fn what_nobody_removed_is_there() {
        let mut snaps = Snapshots::default();
        let of = (ROOT, "s".to_owned());
        snaps.called(of.clone(), 0, 0, 1);
        assert_eq!(snaps.present().count(), 1);
        let mut removed = snaps.clone();
        removed.removed(&of);
        removed.missed(&of, "a is not there".to_owned());
        assert_eq!((removed.check().wrong, removed.present().count()), (None, 0));
        snaps.missed(&of, "a is not there".to_owned());
        assert!(snaps.check().wrong.is_some());
    }
}
