//! A copy of a PG as a file: records with checksums, as `docs/format.md` draws them.

use anyhow::{Context, Result, bail};
use maps::{Epoch, Spg};
use std::io::{Read, Write};
use stdx::crc32c;
use store::ObjectKey;
use wire::{Reader, Uuid, Writer, wire_structs};

const MAGIC: &[u8; 7] = b"NACREPG";
const FORMAT: u8 = 1;
/// The largest record, in bytes.
const LONGEST: usize = 64 << 20;

/// Pairs of names and values.
pub(super) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

wire_structs! {
    /// The origin of the copy.
    pub(super) struct Head[v 2/2] {
        /// The cluster.
        pub fsid: Uuid,
        /// The PG, and the shard of it.
        pub pgid: Spg,
        /// The number of PGs of its pool.
        pub pg_num: u32,
        /// The OSD that had the copy.
        pub osd: i32,
        /// The epoch of the newest map that the copy knew.
        pub epoch: Epoch,
    }

    /// An object, before its content.
    pub(super) struct Object[v 1/1] {
        /// The object.
        pub key: ObjectKey,
        /// The size in bytes; ranges without data are zeros.
        pub size: u64,
        /// The xattrs, in order of name.
        pub attrs: Pairs,
        /// The header of the omap.
        pub header: Vec<u8>,
    }

    /// The last record.
    #[derive(Copy, Eq)]
    pub(super) struct End[v 1/1] {
        /// The number of objects before.
        pub objects: u64,
        /// The number of records before.
        pub records: u64,
    }
}

/// The kinds of records, in the order in which they come: head, records of the PG, then each object with its
/// data and omap; the end.
#[derive(Debug, PartialEq)]
pub(super) enum Item {
    Head(Head),
    Records(Pairs),
    Object(Object),
    /// An offset and the data there.
    Data(u64, Vec<u8>),
    Omap(Pairs),
    End(End),
}

impl Item {
    fn kind(&self) -> u8 {
        match self {
            Self::Head(_) => 1,
            Self::Records(_) => 2,
            Self::Object(_) => 3,
            Self::Data(..) => 4,
            Self::Omap(_) => 5,
            Self::End(_) => 6,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        match self {
            Self::Head(head) => w.put(head),
            Self::Records(pairs) | Self::Omap(pairs) => w.put(pairs),
            Self::Object(object) => w.put(object),
            Self::Data(offset, bytes) => {
                w.put(offset);
                w.blob(bytes);
            }
            Self::End(end) => w.put(end),
        }
        w.into_vec()
    }

    fn decode(kind: u8, bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let item = match kind {
            1 => Self::Head(r.get()?),
            2 => Self::Records(r.get()?),
            3 => Self::Object(r.get()?),
            4 => Self::Data(r.get()?, r.blob()?.to_vec()),
            5 => Self::Omap(r.get()?),
            6 => Self::End(r.get()?),
            kind => bail!("a record of kind {kind}"),
        };
        r.finish()?;
        Ok(item)
    }
}

/// The checksum of a record: of its number, kind and content.
fn checksum(number: u64, kind: u8, bytes: &[u8]) -> u32 {
    let crc = crc32c::update(!0, &number.to_le_bytes());
    crc32c::update(crc32c::update(crc, &[kind]), bytes)
}

pub(super) struct PgWriter<W> {
    out: W,
    end: End,
}

impl<W: Write> PgWriter<W> {
    pub(super) fn new(mut out: W) -> Result<Self> {
        out.write_all(MAGIC)?;
        out.write_all(&[FORMAT])?;
        Ok(Self { out, end: End::default() })
    }

    pub(super) fn put(&mut self, item: &Item) -> Result<()> {
        let (kind, bytes) = (item.kind(), item.encode());
        if bytes.len() > LONGEST {
            bail!("a record of {} bytes, {LONGEST} are the most", bytes.len());
        }
        self.out.write_all(&(bytes.len() as u32).to_le_bytes())?;
        self.out.write_all(&[kind])?;
        self.out.write_all(&checksum(self.end.records, kind, &bytes).to_le_bytes())?;
        self.out.write_all(&bytes)?;
        self.end.records += 1;
        self.end.objects += u64::from(matches!(item, Item::Object(_)));
        Ok(())
    }

    /// Ends the file. Returns the number of objects in it.
    pub(super) fn finish(mut self) -> Result<(W, u64)> {
        let end = self.end;
        self.put(&Item::End(end))?;
        self.out.flush()?;
        Ok((self.out, end.objects))
    }
}

pub(super) struct PgReader<R> {
    input: R,
    seen: End,
    ended: bool,
}

impl<R: Read> PgReader<R> {
    pub(super) fn new(mut input: R) -> Result<Self> {
        let mut start = [0; 8];
        input.read_exact(&mut start).context("too short to be an export of a PG")?;
        if start[..7] != MAGIC[..] {
            bail!("it is no export of a PG");
        }
        if start[7] != FORMAT {
            bail!("an export of format {}, this program reads format {FORMAT}", start[7]);
        }
        Ok(Self { input, seen: End::default(), ended: false })
    }

    /// The next record; `None` behind the last one. An error if anything is damaged or missing.
    pub(super) fn next(&mut self) -> Result<Option<Item>> {
        if self.ended {
            let more = self.input.read(&mut [0])?;
            return if more == 0 { Ok(None) } else { bail!("damaged: something follows its end") };
        }
        let number = self.seen.records;
        self.record().map(Some).with_context(|| format!("damaged: record {number}"))
    }

    fn record(&mut self) -> Result<Item> {
        let mut head = [0; 9];
        self.input.read_exact(&mut head).context("it ends too early")?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (len, kind, crc) = (number(0) as usize, head[4], number(5));
        if len > LONGEST {
            bail!("a record of {len} bytes");
        }
        // No more than there is, since the length may be damaged.
        let mut bytes = Vec::new();
        (&mut self.input).take(len as u64).read_to_end(&mut bytes)?;
        if bytes.len() != len {
            bail!("it ends too early");
        }
        if checksum(self.seen.records, kind, &bytes) != crc {
            bail!("its checksum does not match");
        }
        let item = Item::decode(kind, &bytes)?;
        if let Item::End(end) = item {
            if end != self.seen {
                bail!(
                    "{} objects in {} records, and it should be {} in {}",
                    self.seen.objects,
                    self.seen.records,
                    end.objects,
                    end.records
                );
            }
            self.ended = true;
        }
        self.seen.records += 1;
        self.seen.objects += u64::from(matches!(item, Item::Object(_)));
        Ok(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::PgId;

    fn sample() -> Vec<Item> {
        let key = ObjectKey::head(3, 7, b"", b"", b"name");
        let pairs = vec![(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), vec![])];
        vec![
            Item::Head(Head {
                pgid: Spg { pgid: PgId::new(3, 5), shard: 1 },
                pg_num: 8,
                osd: 2,
                epoch: Epoch(77),
                ..Head::default()
            }),
            Item::Records(pairs.clone()),
            Item::Object(Object { key, size: 10_000, attrs: pairs.clone(), header: b"h".to_vec() }),
            Item::Data(4096, vec![9; 500]),
            Item::Omap(pairs),
        ]
    }

    fn written() -> Vec<u8> {
        let mut writer = PgWriter::new(Vec::new()).expect("begins");
        sample().iter().for_each(|item| writer.put(item).expect("is written"));
        writer.finish().expect("ends").0
    }

    fn read(bytes: &[u8]) -> Result<Vec<Item>> {
        let mut reader = PgReader::new(bytes)?;
        let mut out = Vec::new();
        while let Some(item) = reader.next()? {
            out.push(item);
        }
        out.pop();
        Ok(out)
    }

    #[test]
    fn what_was_written_is_read_and_every_damage_is_noticed() {
        let bytes = written();
        assert_eq!(read(&bytes).expect("is whole"), sample());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(read(&damaged).is_err(), "byte {at}");
            assert!(read(&bytes[..at]).is_err(), "cut at {at}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(read(&longer).expect_err("longer").to_string().contains("follows its end"));
        let mut newer = bytes;
        newer[7] = 2;
        assert!(read(&newer).expect_err("newer").to_string().contains("format 2"));
    }
}
