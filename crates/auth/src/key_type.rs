//! The types of keys.

/// A key's type, by its number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum KeyType {
    /// 16 bytes, AES-128-CBC. Every release reads it.
    Aes = 1,
    /// 32 bytes, AES256-CTS-HMAC-SHA384-192 (RFC 8009). Read by Ceph from 19.2.6 and 20.2.4 on, and by Linux
    /// from 7.0 on.
    Aes256k = 2,
}

impl KeyType {
    const ALL: [Self; 2] = [Self::Aes, Self::Aes256k];

    /// The type of this number.
    pub(crate) fn of_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == number)
    }

    /// Ceph's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes => "aes",
            Self::Aes256k => "aes256k",
        }
    }

    /// The type of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
