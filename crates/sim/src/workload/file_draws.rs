//! Which operation a client of files does next.

use super::file_requests::{CELLS, Task, Use, Work, place, read_of, use_of};
use super::files::{DIRS, FILES, FileLoad, HANDED, LINKS};
use crate::oracle::contents::{self, CELL};
use crate::oracle::namespace::{Action, ROOT};
use std::collections::BTreeSet;
use stdx::Rng;

/// Limits of the bytes in a tree.
const SIZES: [u64; 3] = [40, 200, 6 << 20];

/// One of these inodes.
fn pick(rng: &mut Rng, from: &BTreeSet<u64>) -> Option<u64> {
    from.iter().nth(rng.below(from.len().max(1) as u64) as usize).copied()
}

impl FileLoad {
    /// The next operation of a client.
    pub(super) fn draw(&mut self, client: usize) -> Work {
        let reading = self.draw_of_reading(client).or_else(|| self.draw_in_spree(client));
        let special = reading.or_else(|| self.draw_of_tree(client));
        if let Some(work) = special.or_else(|| self.draw_of_handed(client)) {
            return work;
        }
        let rng = &mut self.rng;
        let state = &self.clients[client];
        let name = |rng: &mut Rng, from: &[&str]| (*rng.pick(from)).to_owned();
        let dir = pick(rng, &state.dirs).unwrap_or(ROOT);
        let to = pick(rng, &state.dirs).unwrap_or(ROOT);
        let file = pick(rng, &state.files);
        let any_name = |rng: &mut Rng| (*rng.pick(&[&FILES[..], &DIRS, &LINKS].concat())).to_owned();
        self.next_tag += 1;
        let tag = self.next_tag;
        Work::Name(match rng.below(100) {
            0..7 => Action::Lookup(dir, name(rng, &FILES)),
            7..12 => Action::Lookup(dir, name(rng, &DIRS)),
            12..24 => Action::Create(dir, name(rng, &FILES)),
            24..28 => Action::OpenOrCreate(dir, name(rng, &FILES)),
            28..33 => Action::Mkdir(dir, name(rng, &DIRS)),
            33..36 => Action::Symlink(dir, name(rng, &LINKS), tag),
            36..42 => Action::Unlink(dir, name(rng, &FILES)),
            42..43 => Action::Unlink(dir, name(rng, &LINKS)),
            43..45 => Action::Rmdir(dir, name(rng, &DIRS)),
            45..53 => Action::Rename(dir, name(rng, &FILES), to, name(rng, &FILES)),
            53..56 => Action::Rename(dir, name(rng, &DIRS), to, name(rng, &DIRS)),
            56..58 => Action::Rename(dir, any_name(rng), to, any_name(rng)),
            58..61 => Action::List(dir),
            61..62 => return Work::Sync,
            62..65 => return Work::Pages(dir),
            65..66 => match pick(rng, &state.links) {
                Some(link) => Action::Readlink(link),
                None => Action::Lookup(dir, name(rng, &LINKS)),
            },
            roll => match file {
                None => Action::Create(dir, name(rng, &FILES)),
                Some(file) if roll < 70 => Action::Link(file, dir, name(rng, &FILES)),
                Some(file) if roll < 73 => return Work::Stat(file),
                // Files that are held open come first, also those without a name.
                Some(file) => {
                    let held = state.held.keys().next().copied().filter(|_| rng.chance(1, 3));
                    return self.draw_data(client, held.unwrap_or(file));
                }
            },
        })
    }

    /// Something that only reads, while all clients do little else. Sometimes they begin to.
    fn draw_of_reading(&mut self, client: usize) -> Option<Work> {
        if !self.reads_for_a_while {
            return None;
        }
        let (rng, state) = (&mut self.rng, &self.clients[client]);
        if self.reads_left == 0 {
            self.reads_left = if rng.chance(1, 60) { 20 + rng.below(100) as u32 } else { 0 };
        }
        self.reads_left = self.reads_left.checked_sub(1)?;
        if rng.chance(1, 40) {
            return None;
        }
        let dir = pick(rng, &state.dirs)?;
        let file = pick(rng, &state.files);
        Some(match (rng.below(10), file) {
            (6..8, Some(file)) => Work::Stat(file),
            (8, Some(file)) => Work::Data(file, read_of(file, rng.below(CELLS))),
            (9, _) => Work::Name(Action::List(dir)),
            _ => Work::Name(Action::Lookup(dir, (*rng.pick(&FILES)).to_owned())),
        })
    }

    /// The next operation of a client that works in one directory for a while. Sometimes it begins to.
    fn draw_in_spree(&mut self, client: usize) -> Option<Work> {
        if !self.has_sprees {
            return None;
        }
        let (rng, state) = (&mut self.rng, &mut self.clients[client]);
        if state.spree.is_none() && rng.chance(1, 16) {
            let dir = pick(rng, &state.dirs)?;
            state.spree = Some((dir, 5 + rng.below(12) as u32));
        }
        let (dir, left) = state.spree?;
        state.spree = (left > 1).then_some((dir, left - 1));
        let name = (*rng.pick(&FILES)).to_owned();
        Some(Work::Name(match rng.below(20) {
            0..9 => Action::Create(dir, name),
            9..10 => Action::OpenOrCreate(dir, name),
            10..16 => Action::Unlink(dir, name),
            16..17 => Action::Lookup(dir, name),
            17..18 => Action::Rename(dir, name, dir, (*rng.pick(&FILES)).to_owned()),
            18..19 => Action::List(dir),
            _ => match state.files.last().copied() {
                Some(file) => return Some(self.draw_data(client, file)),
                None => Action::Create(dir, name),
            },
        }))
    }

    /// Something with the file that clients pass on.
    fn draw_of_handed(&mut self, client: usize) -> Option<Work> {
        if !self.hands_over || self.rng.chance(1, 3) {
            return None;
        }
        let Some(file) = self.clients[client].handed else {
            return Some(Work::Name(Action::OpenOrCreate(ROOT, HANDED.to_owned())));
        };
        self.next_tag += 1;
        Some(if self.rng.chance(1, 3) { Work::Stat(file) } else { self.draw_data(client, file) })
    }

    /// Something with a snapshot, or with a limit of a tree.
    fn draw_of_tree(&mut self, client: usize) -> Option<Work> {
        // While somebody has written and not synced.
        let is_buffered = self.clients.iter().any(|c| c.doing.as_ref().is_some_and(|d| d.later.is_some()));
        let (rng, dirs) = (&mut self.rng, &self.clients[client].dirs);
        let now = self.has_snapshots && is_buffered && rng.chance(1, 4);
        let snaps = now || self.has_snapshots && rng.chance(1, 9);
        let limits = self.has_limits && rng.chance(1, 25);
        let dir = *dirs.iter().nth(rng.below(if snaps || limits { dirs.len() as u64 } else { 1 }) as usize)?;
        if limits {
            let (name, most) = if rng.chance(1, 2) {
                ("max_files", 2 + rng.below(12))
            } else {
                ("max_bytes", *rng.pick(&SIZES))
            };
            return Some(Work::Limit(dir, name, rng.chance(1, 2).then_some(most)));
        }
        if !snaps {
            return None;
        }
        let present: Vec<_> = self.snaps.present().cloned().collect();
        Some(Work::Snap(match rng.below(10) {
            roll if now || roll < 3 || present.is_empty() => {
                self.next_tag += 1;
                Task::Make((dir, format!("n{}", self.next_tag)))
            }
            3..5 => Task::Remove(rng.pick(&present).clone()),
            5..7 => Task::Read(dir),
            _ => Task::Read(rng.pick(&present).0),
        }))
    }

    fn draw_data(&mut self, client: usize, ino: u64) -> Work {
        use contents::Action;
        let rng = &mut self.rng;
        let (tag, cell) = (self.next_tag, rng.below(CELLS));
        let log = use_of(ino) == Use::Log;
        let others = log && (ino / 4) % self.clients.len() as u64 != client as u64;
        Work::Data(
            ino,
            match rng.below(27) {
                0..11 if log && !others => Action::Append(tag),
                0..11 if !others => Action::Write { offset: place(ino, cell), tag },
                11..15 if !others => Action::Truncate(place(ino, cell) + CELL * rng.below(2)),
                15..17 => Action::SetXattr(tag),
                17 => Action::RemoveXattr,
                18..20 => Action::GetXattr,
                20 => Action::Chmod(*rng.pick(&[0o600, 0o640, 0o755])),
                _ => read_of(ino, cell),
            },
        )
    }
}
