//! Negotiation: a client chooses an export.

use super::connection::{Connection, Phase};
use super::number::{be16, be32};
use super::transmission;
use super::types::{Event, Export, MAX_PAYLOAD, Tls, Violation};
use stdx::{Buf, Bufs};

const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// The most bytes of one option.
const MAX_OPTION: u32 = 8 << 10;
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

/// Options.
mod option {
    pub(super) const EXPORT_NAME: u32 = 1;
    pub(super) const ABORT: u32 = 2;
    pub(super) const LIST: u32 = 3;
    pub(super) const START_TLS: u32 = 5;
    pub(super) const INFO: u32 = 6;
    pub(super) const GO: u32 = 7;
    pub(super) const STRUCTURED_REPLY: u32 = 8;
}

/// Kinds of replies.
mod reply {
    pub(super) const ACK: u32 = 1;
    pub(super) const SERVER: u32 = 2;
    pub(super) const INFO: u32 = 3;
    pub(super) const UNSUPPORTED: u32 = 1 << 31 | 1;
    pub(super) const INVALID: u32 = 1 << 31 | 3;
    pub(super) const TLS_REQUIRED: u32 = 1 << 31 | 5;
    pub(super) const UNKNOWN: u32 = 1 << 31 | 6;
}

/// Kinds of information.
mod info {
    pub(super) const EXPORT: u16 = 0;
    pub(super) const BLOCK_SIZE: u16 = 3;
}

/// What a server says first.
fn greeting() -> Bufs {
    let flags = (FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes();
    send(&[b"NBDMAGIC", b"IHAVEOPT", &flags])
}

fn send(parts: &[&[u8]]) -> Bufs {
    Buf::copy_from(&parts.concat()).into()
}

fn answer(option: u32, kind: u32, data: &[u8]) -> Event {
    let head = [option.to_be_bytes(), kind.to_be_bytes(), (data.len() as u32).to_be_bytes()].concat();
    Event::Send(send(&[&REPLY_MAGIC.to_be_bytes(), &head, data]))
}

/// The name in the data of `INFO` and `GO`, and whether the length is that of what follows.
fn name_of(data: &[u8]) -> Option<&[u8]> {
    let len = usize::try_from(be32(data.get(..4)?, 0)).ok()?;
    let name = data.get(4..)?.get(..len)?;
    let rest = &data[4 + len..];
    let count = usize::from(be16(rest.get(..2)?, 0));
    (rest.len() == 2 + 2 * count).then_some(name)
}

impl Connection {
    /// A connection that a client has just opened, and what is sent to it first.
    pub fn new(export: Export, tls: Tls) -> (Self, Bufs) {
        let connection = Self { export, phase: Phase::Flags, tls, no_zeroes: false, structured: false };
        (connection, greeting())
    }

    pub(super) fn client_flags(&mut self, flags: u32) -> Result<Vec<Event>, Violation> {
        if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return Err(Violation(format!("the client has flags that are not known ({flags:#x})")));
        }
        self.no_zeroes = flags & u32::from(NO_ZEROES) != 0;
        self.phase = Phase::Option;
        Ok(Vec::new())
    }

    pub(super) fn option_head(&mut self, magic: u64, option: u32, len: u32) -> Result<Vec<Event>, Violation> {
        if magic != OPTION_MAGIC {
            return Err(Violation("an option does not begin with NBD's magic number".into()));
        }
        if len > MAX_OPTION {
            return Err(Violation(format!("an option has {len} bytes, the most is {MAX_OPTION}")));
        }
        self.phase = Phase::OptionData { option, len };
        if len == 0 { self.option(option, &[]) } else { Ok(Vec::new()) }
    }

    pub(super) fn option(&mut self, option: u32, data: &[u8]) -> Result<Vec<Event>, Violation> {
        self.phase = Phase::Option;
        Ok(match option {
            option::START_TLS if self.tls != Tls::Off => self.start_tls(data),
            option::EXPORT_NAME if self.tls == Tls::Demanded => {
                return Err(Violation("the client uses no TLS, which this server demands".into()));
            }
            _ if self.tls == Tls::Demanded && option != option::ABORT => {
                vec![answer(option, reply::TLS_REQUIRED, b"this server demands TLS")]
            }
            option::EXPORT_NAME => return self.export_name(data),
            option::ABORT => {
                self.phase = Phase::Left;
                vec![answer(option, reply::ACK, &[]), Event::Left]
            }
            option::LIST if data.is_empty() => {
                let name = self.export.name.as_bytes();
                let entry = [&(name.len() as u32).to_be_bytes(), name].concat();
                vec![answer(option, reply::SERVER, &entry), answer(option, reply::ACK, &[])]
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                vec![answer(option, reply::ACK, &[])]
            }
            option::INFO | option::GO => self.describe(option, data),
            option::LIST | option::STRUCTURED_REPLY => {
                vec![answer(option, reply::INVALID, b"no data belong here")]
            }
            _ => vec![answer(option, reply::UNSUPPORTED, b"")],
        })
    }

    fn start_tls(&mut self, data: &[u8]) -> Vec<Event> {
        if self.tls == Tls::On || !data.is_empty() {
            return vec![answer(option::START_TLS, reply::INVALID, b"TLS is begun once, without data")];
        }
        self.tls = Tls::On;
        vec![answer(option::START_TLS, reply::ACK, &[]), Event::StartTls]
    }

    fn is_ours(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.export.name.as_bytes()
    }

    fn describe(&mut self, option: u32, data: &[u8]) -> Vec<Event> {
        let Some(name) = name_of(data) else {
            return vec![answer(option, reply::INVALID, b"the lengths do not agree")];
        };
        if !self.is_ours(name) {
            let text = format!("there is only the export `{}`", self.export.name);
            return vec![answer(option, reply::UNKNOWN, text.as_bytes())];
        }
        let of_export = [
            &info::EXPORT.to_be_bytes()[..],
            &self.export.size.to_be_bytes(),
            &transmission::flags(&self.export).to_be_bytes(),
        ];
        let sizes = [1, self.export.preferred_block, MAX_PAYLOAD].map(u32::to_be_bytes).concat();
        let of_blocks = [&info::BLOCK_SIZE.to_be_bytes()[..], &sizes];
        if option == option::GO {
            self.phase = Phase::Request;
        }
        vec![
            answer(option, reply::INFO, &of_export.concat()),
            answer(option, reply::INFO, &of_blocks.concat()),
            answer(option, reply::ACK, &[]),
        ]
    }

    /// The old way to choose an export, which has no answer but the export.
    fn export_name(&mut self, name: &[u8]) -> Result<Vec<Event>, Violation> {
        if !self.is_ours(name) {
            return Err(Violation(format!("the client wants another export than `{}`", self.export.name)));
        }
        self.phase = Phase::Request;
        let zeroes: &[u8] = if self.no_zeroes { &[] } else { &[0; 124] };
        let flags = transmission::flags(&self.export).to_be_bytes();
        Ok(vec![Event::Send(send(&[&self.export.size.to_be_bytes(), &flags, zeroes]))])
    }
}
