//! The OMAP operations.

use super::called::OmapEntry;
use super::exec::Exec;
use super::result::{OpOutput, done, input, output};
use msgs::op::cmp_op;
use msgs::op::input::{OmapAssertions, OmapGetKeys, OmapGetVals, OmapKeyRange, OmapKeys, OmapValues};
use stdx::Bufs;
use store::TxnOp;
use wire::Errno;

impl Exec<'_> {
    fn entries(&self, i: usize) -> (&[OmapEntry], bool) {
        self.loaded.omap.get(&i).map_or((&[], false), |(entries, more)| (entries, *more))
    }

    pub(super) fn omap_get_keys(&mut self, i: usize, data: &Bufs) -> Result<OpOutput, Errno> {
        let _: OmapGetKeys = input(data)?;
        let (entries, more) = self.entries(i);
        let keys: OmapKeys = entries.iter().map(|(k, _)| k.clone()).collect();
        output(&(keys, more))
    }

    pub(super) fn omap_get_vals(&mut self, i: usize, data: &Bufs) -> Result<OpOutput, Errno> {
        let _: OmapGetVals = input(data)?;
        let (entries, more) = self.entries(i);
        let values: OmapValues = entries.iter().cloned().collect();
        output(&(values, more))
    }

    pub(super) fn omap_get_header(&mut self) -> Result<OpOutput, Errno> {
        Ok(OpOutput::of(self.loaded.omap_header.clone()))
    }

    pub(super) fn omap_get_vals_by_keys(&mut self, i: usize, data: &Bufs) -> Result<OpOutput, Errno> {
        let _: OmapKeys = input(data)?;
        let values: OmapValues = self.entries(i).0.iter().cloned().collect();
        output(&values)
    }

    /// A missing key compares as an empty value.
    pub(super) fn omap_cmp(&mut self, i: usize, data: &Bufs) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        let assertions: OmapAssertions = input(data)?;
        let values: OmapValues = self.entries(i).0.iter().cloned().collect();
        for (key, (want, op)) in assertions {
            let have = values.get(&key).map_or(&[][..], Vec::as_slice);
            let order = have.cmp(want.as_slice());
            let holds = match u8::try_from(op) {
                Ok(cmp_op::EQ) => order.is_eq(),
                Ok(cmp_op::LT) => order.is_lt(),
                Ok(cmp_op::GT) => order.is_gt(),
                _ => return Err(Errno::EINVAL),
            };
            if !holds {
                return Err(Errno::ECANCELED);
            }
        }
        done()
    }

    pub(super) fn omap_set_vals(&mut self, data: &Bufs) -> Result<OpOutput, Errno> {
        let values: OmapValues = input(data)?;
        self.ensure_exists();
        if !values.is_empty() {
            self.txn.push(TxnOp::OmapSet(self.key.clone(), values.into_iter().collect()));
        }
        done()
    }

    pub(super) fn omap_set_header(&mut self, data: &Bufs) -> Result<OpOutput, Errno> {
        self.ensure_exists();
        self.txn.push(TxnOp::OmapSetHeader(self.key.clone(), data.to_vec()));
        done()
    }

    pub(super) fn omap_clear(&mut self) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        self.modified = true;
        self.txn.push(TxnOp::OmapClear(self.key.clone()));
        done()
    }

    pub(super) fn omap_rm_keys(&mut self, data: &Bufs) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        let keys: OmapKeys = input(data)?;
        self.modified = true;
        if !keys.is_empty() {
            self.txn.push(TxnOp::OmapRemove(self.key.clone(), keys.into_iter().collect()));
        }
        done()
    }

    pub(super) fn omap_rm_key_range(&mut self, data: &Bufs) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        let (from, to): OmapKeyRange = input(data)?;
        self.modified = true;
        if from < to {
            self.txn.push(TxnOp::OmapRemoveRange(self.key.clone(), from, to));
        }
        done()
    }
}
