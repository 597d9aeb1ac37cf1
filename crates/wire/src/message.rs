//! `messages!` and `message_bodies!`: a message is declared once (number, versions, fields with the version
//! they came in) and gets its type, encoding, decoding and test samples; a family of messages gets one enum.

use crate::{DecodeError, RawMsg};

/// Priority of a message that has no reason for another.
pub const PRIORITY_DEFAULT: u16 = 127;

/// A message of either family: the data of its header, and its three segments.
pub trait Message: Sized {
    /// Type number.
    const KIND: u16;
    /// The type's name in `snake_case`, for logs and counters.
    const NAME: &'static str;
    /// The newest version that we know, and send unless the message says otherwise.
    const VERSION: u16;
    /// The oldest version that a reader of ours must know.
    const COMPAT: u16;

    /// Fills in the segments of `raw`; may lower its version.
    fn encode_parts(&self, raw: &mut RawMsg);

    /// Reads the segments.
    fn decode_parts(raw: &RawMsg) -> Result<Self, DecodeError>;

    /// The raw form that the messenger carries.
    fn to_raw(&self, tid: u64) -> RawMsg {
        let mut raw = RawMsg {
            kind: Self::KIND,
            version: Self::VERSION,
            compat: Self::COMPAT,
            tid,
            priority: PRIORITY_DEFAULT,
            ..RawMsg::default()
        };
        self.encode_parts(&mut raw);
        raw
    }

    /// Decodes an untrusted message of this type; refuses one that only a newer reader may read.
    fn from_raw(raw: &RawMsg) -> Result<Self, DecodeError> {
        let what = if raw.kind != Self::KIND {
            format!("message type {} where {} was expected", raw.kind, Self::NAME)
        } else if raw.compat > Self::VERSION {
            format!(
                "{} needs a reader of version {}, this one knows {}",
                Self::NAME,
                raw.compat,
                Self::VERSION
            )
        } else {
            return Self::decode_parts(raw);
        };
        Err(DecodeError::of_all(what))
    }
}

/// Declares messages: `struct Name = number "name" [v version/compat] { fields }`.
///
/// A field without a mark is in the front; `= since N` is there from version N on; `= data` and `= middle`
/// are the other two segments (of type `Bufs` and `Vec<u8>`).
///
/// ```
/// wire::messages! {
///     /// Asks for a chunk.
///     pub struct GetChunk = 0xf000 "get_chunk" [v 2/1] {
///         /// Which.
///         pub id: u64,
///         /// At most so many bytes, since version 2.
///         pub max: u32 = since 2,
///         /// Bulk.
///         pub bulk: stdx::Bufs = data,
///     }
/// }
/// use wire::Message;
/// let m = GetChunk { id: 1, max: 2, bulk: stdx::Bufs::new() };
/// assert_eq!(GetChunk::from_raw(&m.to_raw(7)).unwrap(), m);
/// ```
#[macro_export]
macro_rules! messages {
    ($( $(#[$meta:meta])*
    $vis:vis struct $name:ident = $kind:literal $text:literal [v $version:literal / $compat:literal] {
        $( $(#[$fmeta:meta])* $fvis:vis $field:ident : $type:ty $(= $mark:ident $($since:literal)?)? ),* $(,)?
    } )*) => {$(
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug, Default)]
        $vis struct $name { $( $(#[$fmeta])* $fvis $field: $type ),* }

        impl $crate::Message for $name {
            const KIND: u16 = $kind;
            const NAME: &'static str = $text;
            const VERSION: u16 = $version;
            const COMPAT: u16 = $compat;

            #[allow(unused_variables, unused_mut)]
            fn encode_parts(&self, raw: &mut $crate::RawMsg) {
                let mut w = $crate::Writer::new();
                $( $crate::messages!(@put self, w, raw, $field $(, $mark)?); )*
                raw.front = w.into_vec();
            }

            #[allow(unused_variables, unused_mut)]
            fn decode_parts(raw: &$crate::RawMsg) -> Result<Self, $crate::DecodeError> {
                let mut r = $crate::Reader::new(&raw.front);
                Ok(Self { $( $field: $crate::messages!(@get r, raw $(, $mark $($since)?)?) ),* })
            }
        }
        impl $crate::Sample for $name {
            #[allow(unused_variables)]
            fn sample(rng: &mut ::stdx::Rng) -> Self {
                Self { $( $field: $crate::Sample::sample(rng) ),* }
            }
        }
    )*};
    (@put $self:ident, $w:ident, $raw:ident, $field:ident) => { $w.put(&$self.$field) };
    (@put $self:ident, $w:ident, $raw:ident, $field:ident, since) => { $w.put(&$self.$field) };
    (@put $self:ident, $w:ident, $raw:ident, $field:ident, data) => { $raw.data = $self.$field.clone() };
    (@put $self:ident, $w:ident, $raw:ident, $field:ident, middle) => { $raw.middle = $self.$field.clone() };
    (@get $r:ident, $raw:ident) => { $r.get()? };
    (@get $r:ident, $raw:ident, since $since:literal) => {
        if $raw.version >= $since { $r.get()? } else { Default::default() }
    };
    (@get $r:ident, $raw:ident, data) => { $raw.data.clone() };
    (@get $r:ident, $raw:ident, middle) => { $raw.middle.clone() };
}

/// Declares the enum of a family of messages: each variant boxes the message type of its name.
#[macro_export]
macro_rules! message_bodies {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($variant:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug)]
        #[allow(missing_docs)]
        $vis enum $name { $( $variant(Box<$variant>) ),* }

        impl $name {
            /// The type number.
            pub fn kind(&self) -> u16 {
                match self { $( Self::$variant(_) => <$variant as $crate::Message>::KIND ),* }
            }
            /// The type's name.
            pub fn name(&self) -> &'static str {
                match self { $( Self::$variant(_) => <$variant as $crate::Message>::NAME ),* }
            }
            /// The raw form that the messenger carries.
            pub fn to_raw(&self, tid: u64) -> $crate::RawMsg {
                match self { $( Self::$variant(m) => $crate::Message::to_raw(&**m, tid) ),* }
            }
            /// Decodes an untrusted message: its tid and body.
            pub fn from_raw(raw: $crate::RawMsg) -> Result<(u64, Self), $crate::DecodeError> {
                let body = match raw.kind {
                    $( <$variant as $crate::Message>::KIND => {
                        Self::$variant(Box::new(<$variant as $crate::Message>::from_raw(&raw)?))
                    } )*
                    kind => {
                        let what = format!("message type {kind} is unknown");
                        return Err($crate::DecodeError::of_all(what));
                    }
                };
                Ok((raw.tid, body))
            }
            /// One random message of each type.
            pub fn samples(rng: &mut ::stdx::Rng) -> Vec<Self> {
                vec![ $( Self::$variant(Box::new(<$variant as $crate::Sample>::sample(rng))) ),* ]
            }
        }
        $( impl From<$variant> for $name {
            fn from(m: $variant) -> Self {
                Self::$variant(Box::new(m))
            }
        } )*
    };
}
