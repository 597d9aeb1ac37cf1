//! What a store must do, in the plainest way: everything in maps.

use std::collections::BTreeMap;
use store::{ObjectKey, ObjectView, OmapRange, Read, ReadReply, Transaction, TxnOp};

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Object {
    pub data: Vec<u8>,
    pub attrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub header: Vec<u8>,
    pub omap: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Model {
    pub objects: BTreeMap<ObjectKey, Object>,
}

impl Object {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        if !bytes.is_empty() {
            self.data.resize(self.data.len().max(end), 0);
            self.data[offset as usize..end].copy_from_slice(bytes);
        }
    }
}

impl Model {
    /// In what two states differ, for people.
    pub fn difference(&self, other: &Self) -> String {
        let mut out = String::new();
        let keys: std::collections::BTreeSet<_> = self.objects.keys().chain(other.objects.keys()).collect();
        for key in keys {
            let name = String::from_utf8_lossy(&key.name).into_owned();
            match (self.objects.get(key), other.objects.get(key)) {
                (Some(a), Some(b)) if a == b => {}
                (Some(a), Some(b)) => {
                    let at = a.data.iter().zip(&b.data).position(|(x, y)| x != y);
                    out += &format!(
                        "{name}: sizes {} {}, data differs at {at:?}, attrs {}, header {}, omap {:?}; ",
                        a.data.len(),
                        b.data.len(),
                        a.attrs != b.attrs,
                        a.header != b.header,
                        (a.omap != b.omap).then(|| {
                            let of = |o: &Object| {
                                o.omap
                                    .iter()
                                    .map(|(k, v)| (String::from_utf8_lossy(k).into_owned(), v.len()))
                                    .collect::<Vec<_>>()
                            };
                            (of(a), of(b))
                        })
                    );
                }
                (a, _) => {
                    out += &format!("{name}: only in the {}; ", if a.is_some() { "first" } else { "second" })
                }
            }
        }
        out
    }

    pub fn apply(&mut self, txn: &Transaction) {
        txn.ops.iter().for_each(|op| self.step(op));
    }

    fn make(&mut self, key: &ObjectKey) -> &mut Object {
        self.objects.entry(key.clone()).or_default()
    }

    fn step(&mut self, op: &TxnOp) {
        match op {
            TxnOp::Touch(key) => drop(self.make(key)),
            TxnOp::Write(key, offset, data) => self.make(key).write(*offset, &data.to_vec()),
            TxnOp::Zero(key, offset, len) => self.make(key).write(*offset, &vec![0; *len as usize]),
            TxnOp::Truncate(key, size) => self.make(key).data.resize(*size as usize, 0),
            TxnOp::Remove(key) => drop(self.objects.remove(key)),
            TxnOp::Clone(from, to) => {
                if let Some(object) = self.objects.get(from).cloned() {
                    self.objects.insert(to.clone(), object);
                }
            }
            TxnOp::CloneRange(from, to, source, len, destination) => {
                let mut bytes = vec![0; *len as usize];
                if let Some(object) = self.objects.get(from) {
                    let from = (*source as usize).min(object.data.len());
                    let to = (from + *len as usize).min(object.data.len());
                    bytes[..to - from].copy_from_slice(&object.data[from..to]);
                }
                self.make(to).write(*destination, &bytes);
            }
            TxnOp::Rename(from, to) => {
                if let Some(object) = self.objects.remove(from) {
                    self.objects.insert(to.clone(), object);
                }
            }
            TxnOp::SetAttr(key, name, value) => {
                drop(self.make(key).attrs.insert(name.clone(), value.clone()))
            }
            TxnOp::RemoveAttr(key, name) => {
                if let Some(object) = self.objects.get_mut(key) {
                    object.attrs.remove(name);
                }
            }
            TxnOp::OmapSet(key, entries) => self.make(key).omap.extend(entries.iter().cloned()),
            TxnOp::OmapRemove(key, names) => {
                if let Some(object) = self.objects.get_mut(key) {
                    object.omap.retain(|name, _| !names.contains(name));
                }
            }
            TxnOp::OmapRemoveRange(key, from, to) => {
                if let Some(object) = self.objects.get_mut(key) {
                    object.omap.retain(|name, _| name < from || name >= to);
                }
            }
            TxnOp::OmapClear(key) => {
                let object = self.make(key);
                object.omap.clear();
                object.header.clear();
            }
            TxnOp::OmapSetHeader(key, header) => self.make(key).header.clone_from(header),
        }
    }

    /// The answer that a store must give; extents are compared elsewhere.
    pub fn read(&self, read: &Read) -> ReadReply {
        match read {
            Read::Object { key, attrs, data, omap_header, omap_keys, omap_range } => {
                let Some(object) = self.objects.get(key) else { return ReadReply::Object(None) };
                let mut view = ObjectView { size: object.data.len() as u64, ..ObjectView::default() };
                if *attrs {
                    view.attrs = object.attrs.clone().into_iter().collect();
                }
                for (offset, len) in data {
                    let from = (*offset as usize).min(object.data.len());
                    let to = (from + *len as usize).min(object.data.len());
                    view.data.push(object.data[from..to].to_vec().into());
                }
                if *omap_header {
                    view.omap_header.clone_from(&object.header);
                }
                let wanted = object.omap.iter().filter(|(name, _)| omap_keys.contains(name));
                view.omap_values = wanted.map(|(k, v)| (k.clone(), v.clone())).collect();
                if let Some(range) = omap_range {
                    (view.omap_entries, view.omap_more) = entries(object, range);
                }
                ReadReply::Object(Some(view))
            }
            Read::List { from, to, max } => {
                let keys = self.objects.keys().filter(|k| *k >= from && *k < to).take(*max);
                ReadReply::List(keys.cloned().collect())
            }
            Read::Extents { .. } => panic!("the model has no extents"),
        }
    }
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(object: &Object, range: &OmapRange) -> (Entries, bool) {
    let (mut out, mut bytes) = (Vec::new(), 0);
    let after = |name: &Vec<u8>| range.after.as_ref().is_none_or(|after| name > after);
    for (name, value) in object.omap.iter().filter(|(n, _)| after(n) && n.starts_with(&range.prefix)) {
        bytes += name.len() + value.len();
        if out.len() >= range.max || !out.is_empty() && bytes > range.max_bytes {
            return (out, true);
        }
        out.push((name.clone(), value.clone()));
    }
    (out, false)
}
