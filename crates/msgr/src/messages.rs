//! After the handshake: messages, acknowledgements, keepalives.

use crate::conn::{Conn, decode};
use crate::control::{Header, Keepalive, MESSAGE_FLAGS};
use crate::frame::tag;
use crate::rx::Frame;
use crate::{Event, Reason};
use stdx::Bufs;
use wire::{RawMsg, Timespec, Writer};

/// Bytes that are encoded at once: enough for one write, few enough to keep control frames prompt.
const BATCH: usize = 256 << 10;

/// The stamp of an acknowledgement lies this long before that of its keepalive. librados compares it with the
/// time at which it began to check its monitor, before it sent the keepalive. If the answer arrives before
/// the comparison, as it does on one host, the difference is negative and wraps around, and librados takes
/// the monitor for silent.
const EARLIER_NS: u32 = 100_000_000;

fn acknowledgement(Keepalive { stamp: Timespec { sec, nsec } }: Keepalive) -> Keepalive {
    let stamp = match nsec.checked_sub(EARLIER_NS) {
        Some(nsec) => Timespec { sec, nsec },
        None => Timespec { sec: sec.saturating_sub(1), nsec: nsec + (1_000_000_000 - EARLIER_NS) },
    };
    Keepalive { stamp }
}

impl Conn {
    pub(crate) fn open_frame(&mut self, frame: Frame) -> Result<(), Reason> {
        match frame.tag {
            tag::MESSAGE => self.message(frame)?,
            tag::KEEPALIVE2 => {
                let keepalive: Keepalive = decode(&frame)?;
                self.tx.control(tag::KEEPALIVE2_ACK, &acknowledgement(keepalive));
            }
            // That it came is all that counts.
            tag::KEEPALIVE2_ACK => {}
            tag::ACK => self.session.acked(decode(&frame)?),
            other => return Err(Reason::Unexpected(other)),
        }
        Ok(())
    }

    fn message(&mut self, frame: Frame) -> Result<(), Reason> {
        let header: Header = decode(&frame)?;
        if header.data_padding != 0 {
            return Err(Reason::Frame("padding before the data"));
        }
        self.session.acked(header.ack_seq);
        let had = self.session.in_seq;
        if header.seq <= had {
            // Sent again after a reconnect, though it had come: a duplicate is dropped, but acknowledged.
            self.session.received(0, self.now().mono);
            return Ok(());
        }
        // A session may start at any number; in a lossless one no number may be skipped after that.
        if self.session.lossless && had != 0 && header.seq != had + 1 {
            return Err(Reason::Gap { had, got: header.seq });
        }
        self.session.in_seq = header.seq;
        let bytes = frame.front.len() + frame.middle.len() + frame.data.len();
        self.session.received(bytes, self.now().mono);
        let msg = RawMsg {
            kind: header.kind,
            version: header.version,
            compat: header.compat,
            tid: header.tid,
            priority: header.priority,
            front: frame.front,
            middle: frame.middle,
            data: Bufs::from(frame.data),
        };
        self.event(Event::Message { msg, hold: frame.hold });
        Ok(())
    }

    /// Encodes what waits, up to a batch.
    pub(crate) fn write_messages(&mut self) {
        while self.tx.len() < BATCH {
            let Some((seq, msg)) = self.session.next() else { break };
            // A message acknowledges too.
            self.session.unacknowledged = None;
            let header = Header {
                seq,
                tid: msg.tid,
                kind: msg.kind,
                priority: msg.priority,
                version: msg.version,
                data_padding: 0,
                data_off: 0,
                ack_seq: self.session.in_seq,
                flags: MESSAGE_FLAGS,
                compat: msg.compat,
                reserved: 0,
            };
            self.tx.frame(tag::MESSAGE, &Writer::encode(&header), &msg.front, &msg.middle, &msg.data);
        }
        if self.session.must_acknowledge(self.now().mono) {
            self.session.unacknowledged = None;
            let in_seq = self.session.in_seq;
            self.tx.control(tag::ACK, &in_seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledged_stamps_are_a_little_earlier() {
        let ack = |sec, nsec| {
            let Timespec { sec, nsec } = acknowledgement(Keepalive { stamp: Timespec { sec, nsec } }).stamp;
            (sec, nsec)
        };
        assert_eq!(ack(7, 100_000_001), (7, 1));
        assert_eq!(ack(7, 99_999_999), (6, 999_999_999));
        assert_eq!(ack(0, 0), (0, 900_000_000), "nonsense is no panic");
        assert_eq!(ack(1, u32::MAX), (1, u32::MAX - EARLIER_NS));
    }
}
