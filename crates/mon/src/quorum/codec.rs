//! Consensus messages as bytes. Entries travel as they are stored.

use crate::consensus::{Entry, Message, Position};
use crate::raft_log::parse_entry;
use std::sync::Arc;
use wire::{DecodeError, Reader, Writer, wire_structs};

wire_structs! {
    /// All kinds of messages in one structure; fields that a kind does not use are zero.
    struct Step[v 1/1] {
        kind: u8,
        term: u64,
        /// `last` of votes, `prev` of appends.
        position_term: u64,
        position_index: u64,
        /// `commit` or `matched`.
        index: u64,
        sent: u64,
        /// `granted`, `agrees` or `stand`.
        yes: bool,
        entries: Vec<Vec<u8>>,
    }
}

/// Encodes a message for [`peer::MonRaft::payload`].
pub fn encode(message: &Message) -> Vec<u8> {
    let at = |step: Step, at: &Position| Step { position_term: at.term, position_index: at.index, ..step };
    let term = message.term();
    let step = |kind| Step { kind, term, ..Step::default() };
    let step = match message {
        Message::PreVote { last, .. } => at(step(1), last),
        Message::PreVoteReply { granted, .. } => Step { yes: *granted, ..step(2) },
        Message::Vote { last, .. } => at(step(3), last),
        Message::VoteReply { granted, .. } => Step { yes: *granted, ..step(4) },
        Message::Append { prev, commit, sent, entries, .. } => Step {
            index: *commit,
            sent: *sent,
            entries: entries.iter().map(|e| e.data.to_vec()).collect(),
            ..at(step(5), prev)
        },
        Message::AppendReply { sent, agrees, matched, .. } => {
            Step { sent: *sent, yes: *agrees, index: *matched, ..step(6) }
        }
        Message::Resign { stand, .. } => Step { yes: *stand, ..step(7) },
    };
    Writer::encode(&step)
}

/// Decodes a message from outside. Entries must be contiguous from `prev` on, in terms that do not decrease.
pub fn decode(payload: &[u8]) -> Result<Message, DecodeError> {
    let mut r = Reader::new(payload);
    let Step { kind, term, position_term, position_index, index, sent, yes, entries } = r.get()?;
    let at = Position { term: position_term, index: position_index };
    Ok(match kind {
        1 => Message::PreVote { term, last: at },
        2 => Message::PreVoteReply { term, granted: yes },
        3 => Message::Vote { term, last: at },
        4 => Message::VoteReply { term, granted: yes },
        5 => Message::Append {
            term,
            prev: at,
            commit: index,
            sent,
            entries: decode_entries(term, at, entries)?,
        },
        6 => Message::AppendReply { term, sent, agrees: yes, matched: index },
        7 => Message::Resign { term, stand: yes },
        kind => return Err(r.error(format!("consensus step of kind {kind}"))),
    })
}

fn decode_entries(term: u64, prev: Position, entries: Vec<Vec<u8>>) -> Result<Vec<Entry>, DecodeError> {
    let mut last = prev;
    let mut out = Vec::with_capacity(entries.len());
    for bytes in entries {
        let entry = parse_entry(Arc::new(bytes))?;
        if Some(entry.at.index) != last.index.checked_add(1)
            || entry.at.term < last.term
            || entry.at.term > term
        {
            let what = format!("entry {:?} after {last:?} in term {term}", entry.at);
            return Err(DecodeError::of_all(what));
        }
        last = entry.at;
        out.push(entry);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Change, LogEntry};

    fn entry(index: u64, term: u64) -> Entry {
        let changes = vec![Change::GlobalIds(index)];
        let entry = LogEntry { index, term, changes, ..LogEntry::default() };
        parse_entry(Arc::new(Writer::encode(&entry))).expect("own encoding")
    }

    #[test]
    fn every_message_survives_its_encoding() {
        let last = Position { term: 3, index: 9 };
        let messages = [
            Message::PreVote { term: 4, last },
            Message::PreVoteReply { term: 4, granted: true },
            Message::Vote { term: 4, last },
            Message::VoteReply { term: 5, granted: false },
            Message::Append {
                term: 4,
                prev: last,
                commit: 8,
                sent: 77,
                entries: vec![entry(10, 3), entry(11, 4)],
            },
            Message::AppendReply { term: 4, sent: 77, agrees: true, matched: 11 },
            Message::Resign { term: 4, stand: true },
        ];
        for message in messages {
            assert_eq!(decode(&encode(&message)).expect("own encoding"), message);
        }
    }

    #[test]
    fn entries_that_do_not_follow_one_another_are_refused() {
        let prev = Position { term: 3, index: 9 };
        for entries in
            [vec![entry(11, 3)], vec![entry(10, 2)], vec![entry(10, 5)], vec![entry(10, 4), entry(10, 4)]]
        {
            let message = Message::Append { term: 4, prev, commit: 0, sent: 1, entries };
            assert!(decode(&encode(&message)).is_err(), "{message:?}");
        }
        assert!(decode(b"").is_err() && decode(&[1, 1, 9]).is_err());
    }
}
