//! `wire_structs!`: a structure is declared once, and gets its type, encoding, decoding and test samples.

/// Declares structures of the wire or of stored formats.
///
/// After the name stands the kind: `[plain]` (the fields and nothing else), `[v 3/1]` (header of version,
/// oldest compatible version, length), `[u8 2]` (one leading version byte, as in Ceph's oldest types).
/// `= since N` marks a field that the structure has from version N on; older encodings give its default.
///
/// ```
/// wire::wire_structs! {
///     /// A point in the middle of nowhere.
///     pub struct Point[v 2/1] {
///         /// Metres.
///         pub x: i32,
///         /// Metres, known since version 2.
///         pub y: i32 = since 2,
///     }
/// }
/// let p = Point { x: 1, y: 2 };
/// assert_eq!(wire::Reader::new(&wire::Writer::encode(&p)).get::<Point>().unwrap(), p);
/// ```
#[macro_export]
macro_rules! wire_structs {
    ($( $(#[$meta:meta])* $vis:vis struct $name:ident $kind:tt {
        $( $(#[$fmeta:meta])* $fvis:vis $field:ident : $type:ty $(= since $since:literal)? ),* $(,)?
    } )*) => {$(
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug, Default)]
        $vis struct $name { $( $(#[$fmeta])* $fvis $field: $type ),* }

        impl $crate::Fields for $name {
            #[allow(unused_variables)]
            fn encode_fields(&self, w: &mut $crate::Writer) {
                $( w.put(&self.$field); )*
            }
            #[allow(unused_variables)]
            fn decode_fields(r: &mut $crate::Reader<'_>, version: u16) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $( $field: $crate::wire_structs!(@field r, version $(, $since)?) ),* })
            }
        }
        impl $crate::Sample for $name {
            #[allow(unused_variables)]
            fn sample(rng: &mut ::stdx::Rng) -> Self {
                Self { $( $field: $crate::Sample::sample(rng) ),* }
            }
        }
        $crate::wire_structs!(@kind $name $kind);
    )*};
    (@field $r:ident, $version:ident) => { $r.get()? };
    (@field $r:ident, $version:ident, $since:literal) => {
        if $version >= $since { $r.get()? } else { Default::default() }
    };
    (@kind $name:ident [plain]) => {
        impl $crate::Encode for $name {
            fn encode(&self, w: &mut $crate::Writer) {
                $crate::Fields::encode_fields(self, w);
            }
        }
        impl $crate::Decode for $name {
            fn decode(r: &mut $crate::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                $crate::Fields::decode_fields(r, u16::MAX)
            }
        }
    };
    (@kind $name:ident [v $version:literal / $compat:literal]) => {
        impl $crate::Encode for $name {
            fn encode(&self, w: &mut $crate::Writer) {
                w.versioned($version, $compat, |w| $crate::Fields::encode_fields(self, w));
            }
        }
        impl $crate::Decode for $name {
            const MIN_SIZE: usize = 6;
            fn decode(r: &mut $crate::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                r.versioned($version, |v, r| $crate::Fields::decode_fields(r, u16::from(v)))
            }
        }
    };
    (@kind $name:ident [u8 $version:literal]) => {
        impl $crate::Encode for $name {
            fn encode(&self, w: &mut $crate::Writer) {
                w.raw(&[$version]);
                $crate::Fields::encode_fields(self, w);
            }
        }
        impl $crate::Decode for $name {
            fn decode(r: &mut $crate::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                let version: u8 = r.get()?;
                $crate::Fields::decode_fields(r, u16::from(version))
            }
        }
    };
}
