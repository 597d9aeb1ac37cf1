//! Numbers and names of object operations.

use std::fmt;

/// An operation's number. Its high bits tell its kind: 0x1000 reads, 0x2000 writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OpCode(pub u16);

macro_rules! op_codes {
    ($($name:ident = $value:literal $text:literal;)*) => {
        #[allow(missing_docs)]
        impl OpCode {
            $( pub const $name: Self = Self($value); )*
            /// All that have a name.
            pub const ALL: &'static [Self] = &[$( Self::$name ),*];

            /// Ceph's name of it: `writefull`.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $( Self::$name => Some($text), )*
                    _ => None,
                }
            }
        }
    };
}

op_codes! {
    READ = 0x1201 "read";
    STAT = 0x1202 "stat";
    MAPEXT = 0x1203 "mapext";
    MASKTRUNC = 0x1204 "masktrunc";
    SPARSE_READ = 0x1205 "sparse-read";
    NOTIFY = 0x1206 "notify";
    NOTIFY_ACK = 0x1207 "notify-ack";
    ASSERT_VER = 0x1208 "assert-version";
    LIST_WATCHERS = 0x1209 "list-watchers";
    LIST_SNAPS = 0x120a "list-snaps";
    SYNC_READ = 0x120b "sync_read";
    TMAPGET = 0x120c "tmapget";
    OMAPGETKEYS = 0x1211 "omap-get-keys";
    OMAPGETVALS = 0x1212 "omap-get-vals";
    OMAPGETHEADER = 0x1213 "omap-get-header";
    OMAPGETVALSBYKEYS = 0x1214 "omap-get-vals-by-keys";
    OMAP_CMP = 0x1219 "omap-cmp";
    ISDIRTY = 0x121d "isdirty";
    COPY_GET = 0x121e "copy-get";
    CHECKSUM = 0x121f "checksum";
    CMPEXT = 0x1220 "cmpext";
    WRITE = 0x2201 "write";
    WRITEFULL = 0x2202 "writefull";
    TRUNCATE = 0x2203 "truncate";
    ZERO = 0x2204 "zero";
    DELETE = 0x2205 "delete";
    APPEND = 0x2206 "append";
    STARTSYNC = 0x2207 "startsync";
    SETTRUNC = 0x2208 "settrunc";
    TRIMTRUNC = 0x2209 "trimtrunc";
    TMAPPUT = 0x220b "tmapput";
    CREATE = 0x220d "create";
    ROLLBACK = 0x220e "rollback";
    WATCH = 0x220f "watch";
    OMAPSETVALS = 0x2215 "omap-set-vals";
    OMAPSETHEADER = 0x2216 "omap-set-header";
    OMAPCLEAR = 0x2217 "omap-clear";
    OMAPRMKEYS = 0x2218 "omap-rm-keys";
    COPY_FROM = 0x221a "copy-from";
    UNDIRTY = 0x221c "undirty";
    SETALLOCHINT = 0x2223 "set-alloc-hint";
    CACHE_PIN = 0x2224 "cache-pin";
    CACHE_UNPIN = 0x2225 "cache-unpin";
    WRITESAME = 0x2226 "write-same";
    SET_REDIRECT = 0x2227 "set-redirect";
    SET_CHUNK = 0x2228 "set-chunk";
    TIER_PROMOTE = 0x2229 "tier-promote";
    UNSET_MANIFEST = 0x222a "unset-manifest";
    TIER_FLUSH = 0x222b "tier-flush";
    OMAPRMKEYRANGE = 0x222c "omap-rm-key-range";
    COPY_FROM2 = 0x222d "copy-from2";
    TIER_EVICT = 0x222e "tier-evict";
    TMAPUP = 0x320a "tmapup";
    TMAP2OMAP = 0x3222 "tmap2omap";
    CACHE_FLUSH = 0x821f "cache-flush";
    CACHE_EVICT = 0x8220 "cache-evict";
    CACHE_TRY_FLUSH = 0x8221 "cache-try-flush";
    GETXATTR = 0x1301 "getxattr";
    GETXATTRS = 0x1302 "getxattrs";
    CMPXATTR = 0x1303 "cmpxattr";
    SETXATTR = 0x2301 "setxattr";
    SETXATTRS = 0x2302 "setxattrs";
    RESETXATTRS = 0x2303 "resetxattrs";
    RMXATTR = 0x2304 "rmxattr";
    CALL = 0x1401 "call";
    PGLS = 0x1501 "pgls";
    PGLS_FILTER = 0x1502 "pgls-filter";
    PG_HITSET_LS = 0x1503 "pg-hitset-ls";
    PG_HITSET_GET = 0x1504 "pg-hitset-get";
    PGNLS = 0x1505 "pgnls";
    PGNLS_FILTER = 0x1506 "pgnls-filter";
    SCRUBLS = 0x1507 "scrubls";
}

impl OpCode {
    /// True if it reads. CALL depends on the method.
    pub fn reads(self) -> bool {
        self.0 & 0x1000 != 0 && self != Self::CALL
    }

    /// True if it writes. CALL depends on the method.
    pub fn writes(self) -> bool {
        self.0 & 0x2000 != 0
    }

    /// True if its object is a PG.
    pub fn is_pg_op(self) -> bool {
        self.0 & 0x0f00 == 0x0500
    }
}

impl fmt::Display for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "op-{:#x}", self.0),
        }
    }
}

impl fmt::Debug for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
