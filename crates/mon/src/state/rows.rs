//! The stored snapshot of the state: one omap entry a row, so that a checkpoint writes only what changed.

use crate::state::State;
use crate::state::osdmaps::OsdMaps;
use crate::state::row::Row;
use maps::Epoch;
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::Buf;
use wire::{Decode, DecodeError, Reader, Writer};

impl State {
    /// The content of a row; `None` if the row is to be removed.
    pub fn row(&self, row: &Row) -> Option<Vec<u8>> {
        Some(match row {
            Row::Version => Writer::encode(&self.version),
            Row::MonMap => Writer::encode(&*self.monmap),
            Row::OsdFull => self.osd.rows()[0].to_vec(),
            Row::OsdOldest => self.osd.rows()[1].to_vec(),
            Row::Nacre => self.osd.rows()[2].to_vec(),
            Row::OsdInc(epoch) => self.osd.inc(*epoch)?.to_vec(),
            Row::FsMap => Writer::encode(&*self.fsmap),
            Row::Auth(name) => Writer::encode(self.auth.get(name)?),
            Row::Rotating(service) => Writer::encode(self.rotating.get(service)?),
            Row::GlobalIds => Writer::encode(&self.global_ids),
            Row::Config(who, name) => Writer::encode(self.config.get(&(who.clone(), name.clone()))?),
            Row::Kv(key) => self.kv.get(key)?.clone(),
            Row::Metadata(name) => Writer::encode(self.metadata.get(name)?),
            Row::ReconnectMap(id) => Writer::encode(self.reconnect_maps.get(id)?),
            Row::Voters => Writer::encode(&*self.voters),
            Row::Term => Writer::encode(&self.term),
            Row::Log(segment) => self.log.segment(*segment)?,
            Row::Done => Writer::encode(&self.done.iter().copied().collect::<Vec<_>>()),
            Row::Refused => Writer::encode(&self.refused.iter().cloned().collect::<Vec<_>>()),
        })
    }

    /// All rows, for a monitor that is too far behind for incremental changes.
    pub fn all_rows(&self) -> Vec<Row> {
        let mut rows = vec![
            Row::Version,
            Row::Term,
            Row::Voters,
            Row::Done,
            Row::Refused,
            Row::MonMap,
            Row::FsMap,
            Row::GlobalIds,
        ];
        rows.extend([Row::OsdFull, Row::OsdOldest, Row::Nacre]);
        rows.extend((self.osd.oldest().0 + 1..=self.osd.epoch().0).map(|e| Row::OsdInc(Epoch(e))));
        rows.extend(self.auth.keys().cloned().map(Row::Auth));
        rows.extend(self.rotating.keys().copied().map(Row::Rotating));
        rows.extend(self.config.keys().map(|(who, name)| Row::Config(who.clone(), name.clone())));
        rows.extend(self.kv.keys().cloned().map(Row::Kv));
        rows.extend(self.metadata.keys().cloned().map(Row::Metadata));
        rows.extend(self.reconnect_maps.keys().copied().map(Row::ReconnectMap));
        rows.extend(self.log.segments().map(Row::Log));
        rows
    }

    /// The rows that many entries change, whatever else they do.
    pub fn common_rows(&self) -> impl Iterator<Item = Row> {
        let rows = [Row::Version, Row::Term, Row::Done, Row::Refused, Row::OsdFull, Row::Nacre, Row::FsMap];
        rows.into_iter().chain(self.log.segments().last().map(Row::Log))
    }

    /// Rebuilds the state from a stored snapshot.
    pub fn from_rows(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Self, DecodeError> {
        let mut state = Self::default();
        let mut incs = BTreeMap::new();
        for (key, value) in rows {
            let row = Row::parse(key)?;
            state.load(row, value, &mut incs)?;
        }
        state.log.check()?;
        if state.version > 0 && state.term == 0 {
            // Stored before there were elections.
            state.term = 1;
        }
        let get = |row: Row| rows.get(&row.key()).map(Vec::as_slice);
        if let (Some(full), Some(oldest), Some(nacre)) =
            (get(Row::OsdFull), get(Row::OsdOldest), get(Row::Nacre))
        {
            state.osd = OsdMaps::from_rows([full, oldest, nacre], incs)?;
        }
        Ok(state)
    }

    fn load(&mut self, row: Row, value: &[u8], incs: &mut BTreeMap<Epoch, Buf>) -> Result<(), DecodeError> {
        match row {
            Row::Version => self.version = get(value)?,
            Row::MonMap => self.monmap = Arc::new(get(value)?),
            Row::OsdFull | Row::OsdOldest | Row::Nacre => {}
            Row::OsdInc(epoch) => {
                incs.insert(epoch, value.to_vec().into());
            }
            Row::FsMap => self.fsmap = Arc::new(get(value)?),
            Row::Auth(name) => {
                Arc::make_mut(&mut self.auth).insert(name, get(value)?);
            }
            Row::Rotating(service) => {
                Arc::make_mut(&mut self.rotating).insert(service, get(value)?);
            }
            Row::GlobalIds => self.global_ids = get(value)?,
            Row::Config(who, name) => {
                Arc::make_mut(&mut self.config).insert((who, name), get(value)?);
            }
            Row::Kv(key) => {
                Arc::make_mut(&mut self.kv).insert(key, value.to_vec());
            }
            Row::Metadata(name) => {
                Arc::make_mut(&mut self.metadata).insert(name, get(value)?);
            }
            Row::Voters => self.voters = Arc::new(get(value)?),
            Row::Term => self.term = get(value)?,
            Row::Log(segment) => Arc::make_mut(&mut self.log).load(segment, value)?,
            Row::Done => self.done = Arc::new(get::<Vec<_>>(value)?.into()),
            Row::Refused => self.refused = Arc::new(get::<Vec<_>>(value)?.into()),
            Row::ReconnectMap(id) => {
                Arc::make_mut(&mut self.reconnect_maps).insert(id, get(value)?);
            }
        }
        Ok(())
    }
}

fn get<T: Decode>(value: &[u8]) -> Result<T, DecodeError> {
    Reader::new(value).get()
}
