//! Entity types, names and addresses (docs/protocol.md 1.2).

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The role of a peer, as Ceph's numbers (MON 1, MDS 2, OSD 4, CLIENT 8, MGR 0x10, AUTH 0x20).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityType(pub u8);

impl EntityType {
    /// A monitor.
    pub const MON: Self = Self(1);
    /// A metadata server.
    pub const MDS: Self = Self(2);
    /// An object storage daemon.
    pub const OSD: Self = Self(4);
    /// A client.
    pub const CLIENT: Self = Self(8);
    /// A manager: Nacre has none, clients may ask for its tickets.
    pub const MGR: Self = Self(0x10);
    /// The authentication service itself (its tickets are what a session key is renewed with).
    pub const AUTH: Self = Self(0x20);

    /// `mon`, `osd`, …
    pub fn name(self) -> &'static str {
        match self {
            Self::MON => "mon",
            Self::MDS => "mds",
            Self::OSD => "osd",
            Self::CLIENT => "client",
            Self::MGR => "mgr",
            Self::AUTH => "auth",
            _ => "unknown",
        }
    }

    /// The inverse of [`Self::name`].
    pub fn parse(name: &str) -> Option<Self> {
        [Self::MON, Self::MDS, Self::OSD, Self::CLIENT, Self::MGR, Self::AUTH]
            .into_iter()
            .find(|t| t.name() == name)
    }
}

impl fmt::Debug for EntityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Encode for EntityType {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl Decode for EntityType {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.get().map(Self)
    }
}

/// A name that keys are stored under: `client.admin`, `osd.0`, `mon.` (`EntityName` in Ceph: u32 type, string
/// id).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityName {
    /// The role.
    pub ty: EntityType,
    /// The part after the dot.
    pub id: String,
}

impl EntityName {
    /// `ty.id`.
    pub fn new(ty: EntityType, id: impl Into<String>) -> Self {
        Self { ty, id: id.into() }
    }

    /// Parses `type.id`; `None` if the type is unknown or there is no dot.
    pub fn parse(text: &str) -> Option<Self> {
        let (ty, id) = text.split_once('.')?;
        Some(Self::new(EntityType::parse(ty)?, id))
    }
}

impl fmt::Display for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.ty.name(), self.id)
    }
}

impl fmt::Debug for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for EntityName {
    fn encode(&self, w: &mut Writer) {
        w.put(&u32::from(self.ty.0));
        w.put(&self.id);
    }
}

impl Decode for EntityName {
    const MIN_SIZE: usize = 8;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let ty: u32 = r.get()?;
        let ty = u8::try_from(ty).map_err(|_| r.error(format!("entity type {ty}")))?;
        Ok(Self { ty: EntityType(ty), id: r.get()? })
    }
}

/// A numbered entity: `client.4123` (its `global_id`), `osd.0` (`entity_name_t` in Ceph: u8 type, i64
/// number).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityId {
    /// The role.
    pub ty: EntityType,
    /// OSD id, monitor rank, MDS rank or `global_id`.
    pub num: i64,
}

impl EntityId {
    /// `ty.num`.
    pub fn new(ty: EntityType, num: i64) -> Self {
        Self { ty, num }
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.ty.name(), self.num)
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for EntityId {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.ty);
        w.put(&self.num);
    }
}

impl Decode for EntityId {
    const MIN_SIZE: usize = 9;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { ty: r.get()?, num: r.get()? })
    }
}

/// The protocol of an address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct AddrType(pub u32);

impl AddrType {
    /// No address.
    pub const NONE: Self = Self(0);
    /// msgr v1, never ours.
    pub const LEGACY: Self = Self(1);
    /// msgr v2.
    pub const MSGR2: Self = Self(2);
    /// Either; how clients name themselves.
    pub const ANY: Self = Self(3);
}

/// `entity_addr_t`: protocol, nonce (the incarnation of the process) and socket address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityAddr {
    /// Protocol.
    pub ty: AddrType,
    /// Changes at each start of a process; 0 for monitors.
    pub nonce: u32,
    /// `None` for a blank address.
    pub addr: Option<SocketAddr>,
}

/// AF_INET and AF_INET6 of Linux, little-endian on the wire.
const FAMILY_V4: u16 = 2;
const FAMILY_V6: u16 = 10;

impl EntityAddr {
    /// An msgr2 address.
    pub fn msgr2(addr: SocketAddr, nonce: u32) -> Self {
        Self { ty: AddrType::MSGR2, nonce, addr: Some(addr) }
    }

    /// `ip:port/nonce`, or `:/0` for a blank one.
    pub fn legacy_string(&self) -> String {
        match self.addr {
            Some(addr) => format!("{addr}/{}", self.nonce),
            None => format!(":/{}", self.nonce),
        }
    }

    /// Parses `[v2:]ip:port[/nonce]`, as [`fmt::Display`] and [`Self::legacy_string`] print.
    pub fn parse(text: &str) -> Option<Self> {
        let (ty, rest) = match text.split_once(':') {
            Some(("v1", rest)) => (AddrType::LEGACY, rest),
            Some(("v2", rest)) => (AddrType::MSGR2, rest),
            Some(("any", rest)) => (AddrType::ANY, rest),
            _ => (AddrType::MSGR2, text),
        };
        let (addr, nonce) = rest.split_once('/').unwrap_or((rest, "0"));
        let addr = match addr.parse::<SocketAddr>() {
            Ok(addr) => addr,
            Err(_) => SocketAddr::new(addr.parse::<IpAddr>().ok()?, 0),
        };
        Some(Self { ty, nonce: nonce.parse().ok()?, addr: Some(addr) })
    }
}

impl fmt::Display for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.ty {
            AddrType::NONE => return f.write_str("-"),
            AddrType::LEGACY => "v1:",
            AddrType::MSGR2 => "v2:",
            _ => "any:",
        };
        write!(f, "{prefix}{}", self.legacy_string())
    }
}

impl fmt::Debug for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for EntityAddr {
    fn encode(&self, w: &mut Writer) {
        w.put(&1u8); // marks the versioned form; 0 was the legacy one
        w.versioned(1, 1, |w| {
            w.put(&self.ty.0);
            w.put(&self.nonce);
            w.sized(|w| match self.addr {
                None => {}
                Some(SocketAddr::V4(v4)) => {
                    w.put(&FAMILY_V4);
                    w.raw(&v4.port().to_be_bytes());
                    w.raw(&v4.ip().octets());
                    w.raw(&[0; 8]);
                }
                Some(SocketAddr::V6(v6)) => {
                    w.put(&FAMILY_V6);
                    w.raw(&v6.port().to_be_bytes());
                    w.put(&v6.flowinfo());
                    w.raw(&v6.ip().octets());
                    w.put(&v6.scope_id());
                }
            });
        });
    }
}

impl Decode for EntityAddr {
    const MIN_SIZE: usize = 7;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.get::<u8>()? {
            1 => r.versioned(1, |_, r| {
                let (ty, nonce) = (AddrType(r.get()?), r.get()?);
                Ok(Self { ty, nonce, addr: decode_sockaddr(&mut r.sub()?)? })
            }),
            0 => {
                // The form before Infernalis: 3 bytes of padding, nonce, then a 128-byte sockaddr_storage.
                r.take(3)?;
                let nonce = r.get()?;
                let mut storage = Reader::new(r.take(128)?);
                let family = u16::from_be_bytes(storage.array()?);
                let addr = decode_sockaddr_body(family, &mut storage)?;
                Ok(Self { ty: AddrType::LEGACY, nonce, addr })
            }
            marker => Err(r.error(format!("address marker {marker}"))),
        }
    }
}

fn decode_sockaddr(r: &mut Reader<'_>) -> Result<Option<SocketAddr>, DecodeError> {
    if r.is_empty() {
        return Ok(None);
    }
    let family = r.get()?;
    decode_sockaddr_body(family, r)
}

fn decode_sockaddr_body(family: u16, r: &mut Reader<'_>) -> Result<Option<SocketAddr>, DecodeError> {
    match family {
        0 => Ok(None),
        FAMILY_V4 => {
            let port = u16::from_be_bytes(r.array()?);
            Ok(Some((r.array::<4>()?, port).into()))
        }
        FAMILY_V6 => {
            let port = u16::from_be_bytes(r.array()?);
            r.take(4)?;
            Ok(Some((r.array::<16>()?, port).into()))
        }
        other => Err(r.error(format!("address family {other}"))),
    }
}

/// `entity_addrvec_t`: all addresses of one entity, the preferred one first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddrVec(pub Vec<EntityAddr>);

impl AddrVec {
    /// The first msgr2 address.
    pub fn msgr2(&self) -> Option<EntityAddr> {
        self.0.iter().copied().find(|a| a.ty == AddrType::MSGR2)
    }

    /// The address that Ceph prints if only one fits: the first, or a blank one.
    pub fn front(&self) -> EntityAddr {
        self.0.first().copied().unwrap_or_default()
    }
}

impl From<EntityAddr> for AddrVec {
    fn from(addr: EntityAddr) -> Self {
        Self(vec![addr])
    }
}

impl fmt::Display for AddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [one] => one.fmt(f),
            many => {
                f.write_str("[")?;
                for (i, addr) in many.iter().enumerate() {
                    write!(f, "{}{addr}", if i > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

impl fmt::Debug for AddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for AddrVec {
    fn encode(&self, w: &mut Writer) {
        w.put(&2u8);
        w.put(&self.0);
    }
}

impl Decode for AddrVec {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // A single address, old or new, may stand in a vector's place.
        let mut peek = r.clone();
        match peek.get::<u8>()? {
            2 => {
                *r = peek;
                r.get().map(Self)
            }
            _ => Ok(Self(vec![r.get()?])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_print_as_ceph_prints_them_and_parse_back() {
        for text in ["v2:127.0.0.1:3300/0", "v1:10.0.0.1:6789/5", "v2:[::1]:6800/77"] {
            assert_eq!(EntityAddr::parse(text).expect("parses").to_string(), text);
        }
        assert_eq!(EntityAddr::default().to_string(), "-");
    }

    #[test]
    fn a_decoded_address_equals_the_encoded_one() {
        for text in ["v2:127.0.0.1:3300/0", "v2:[fe80::1]:6800/77"] {
            let addr = EntityAddr::parse(text).expect("parses");
            let bytes = Writer::encode(&AddrVec::from(addr));
            assert_eq!(Reader::new(&bytes).get::<AddrVec>().expect("decodes"), AddrVec::from(addr));
        }
    }
}
