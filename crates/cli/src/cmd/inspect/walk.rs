//! A walk over the journal of a rank, object by object, past what is damaged.

use super::findings::{Findings, Part};
use super::stored::{Objects, Stored};
use anyhow::Result;
use fsfmt::journal::{JournalHeader, KNOWN_FEATURES};
use fsfmt::{JournalScan, Scanned, names};

/// Objects that are looked for behind a missing one: the journal has no gaps, so it ends if none is there.
const LOOKED_FOR: u64 = 8;

/// A journal that was walked over.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// Objects that have events.
    pub objects: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// The object that was written last, and its length.
    pub end: (u64, u64),
    /// The next event's number, if there is any event.
    pub next_seq: Option<u64>,
}

/// The header of a rank's journal; `None`, and the damage is noted, if there is none.
pub(super) fn header(
    objects: &dyn Objects,
    rank: u32,
    findings: &mut Findings,
) -> Result<Option<JournalHeader>> {
    let object = names::journal_object(rank, 0);
    let header: Option<JournalHeader> = match objects.data(&object)? {
        Stored::Here(bytes) => findings.decode(Part::Journal, &object, None, &bytes),
        Stored::Absent => {
            let what =
                format!("it does not exist: rank {rank} was never there, or has lost its journal's header");
            findings.damage(Part::Journal, &object, None, what);
            None
        }
        Stored::Unreadable(errno) => {
            findings.unreadable(Part::Journal, &object, errno);
            None
        }
    };
    if let Some(features) = header.as_ref().map(|header| header.needs & !KNOWN_FEATURES).filter(|f| *f != 0) {
        findings.note(format!("a later version of nacre has written the journal (features {features:#x})"));
    }
    Ok(header)
}

/// Passes each event and each damaged place of a journal to `each`, in order.
pub(super) fn walk(
    objects: &dyn Objects,
    rank: u32,
    header: Option<&JournalHeader>,
    findings: &mut Findings,
    each: &mut dyn FnMut(Scanned) -> Result<()>,
) -> Result<Walked> {
    let first = match header {
        Some(header) => header.first,
        None => first_object(objects, rank)?,
    };
    let scan = JournalScan::new(header.map_or(0, |header| header.first_seq));
    let mut walk = Walk { objects, rank, findings, each, scan, walked: Walked::default() };
    if header.is_none() {
        walk.scan.skip();
    }
    let mut next = Some(first);
    while let Some(number) = next {
        next = walk.object(number)?;
    }
    walk.hand_on_last()?;
    walk.walked.next_seq = walk.scan.next_seq();
    Ok(walk.walked)
}

/// The first object of a journal whose header is lost.
fn first_object(objects: &dyn Objects, rank: u32) -> Result<u64> {
    let header = names::journal_object(rank, 0);
    let prefix = header.split_once('.').map_or_else(String::new, |(ino, _)| format!("{ino}."));
    let names = objects.names(&prefix)?;
    let number = |name: &String| u64::from_str_radix(name.strip_prefix(&prefix)?, 16).ok();
    Ok(names.iter().filter_map(number).filter(|number| *number > 0).min().unwrap_or(1))
}

struct Walk<'a> {
    objects: &'a dyn Objects,
    rank: u32,
    findings: &'a mut Findings,
    each: &'a mut dyn FnMut(Scanned) -> Result<()>,
    scan: JournalScan,
    walked: Walked,
}

impl Walk<'_> {
    /// Takes an object; returns the next one.
    fn object(&mut self, number: u64) -> Result<Option<u64>> {
        let object = names::journal_object(self.rank, number);
        match self.objects.data(&object)? {
            Stored::Here(bytes) if !bytes.is_empty() => {
                self.take(number, &bytes)?;
                Ok(Some(number + 1))
            }
            Stored::Unreadable(errno) => {
                self.findings.unreadable(Part::Journal, &object, errno);
                self.leave_out()?;
                Ok(Some(number + 1))
            }
            Stored::Here(_) | Stored::Absent => self.behind(number, &object),
        }
    }

    fn take(&mut self, number: u64, bytes: &[u8]) -> Result<()> {
        let (last, _) = self.walked.end;
        if !self.scan.is_followed_by(bytes)
            && let Stored::Here(again) = self.objects.data(&names::journal_object(self.rank, last))?
        {
            self.scan.take_again(last, &again);
        }
        let found = self.scan.take(number, bytes);
        self.walked.objects += 1;
        self.walked.bytes += bytes.len() as u64;
        self.walked.end = (number, bytes.len() as u64);
        self.hand_on(found)
    }

    /// A missing object is the end of the journal, unless later ones are there.
    fn behind(&mut self, number: u64, object: &str) -> Result<Option<u64>> {
        for later in number + 1..=number + LOOKED_FOR {
            let name = names::journal_object(self.rank, later);
            if matches!(self.objects.data(&name)?, Stored::Here(bytes) if !bytes.is_empty()) {
                self.leave_out()?;
                // A metadata server that runs removes what it needs no more.
                let now = header(self.objects, self.rank, &mut Findings::new(""))?;
                if let Some(first) = now.map(|header| header.first).filter(|first| *first > number) {
                    return Ok(Some(first));
                }
                let what = format!("it is missing, and object {later} of the journal is there");
                self.findings.damage(Part::Journal, object, None, what);
                return Ok(Some(later));
            }
        }
        Ok(None)
    }

    fn leave_out(&mut self) -> Result<()> {
        self.hand_on_last()?;
        self.scan.skip();
        Ok(())
    }

    fn hand_on_last(&mut self) -> Result<()> {
        let found = self.scan.end();
        self.hand_on(found)
    }

    fn hand_on(&mut self, found: Vec<Scanned>) -> Result<()> {
        for found in found {
            if let Err(why) = &found.what {
                let object = names::journal_object(self.rank, found.object);
                let place = format!("bytes {} to {}", found.offset, found.offset + found.len);
                self.findings.damage(Part::Journal, &object, None, format!("{place}: {why}"));
            }
            (self.each)(found)?;
        }
        Ok(())
    }
}
