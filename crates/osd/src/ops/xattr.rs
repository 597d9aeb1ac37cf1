//! GETXATTR, GETXATTRS, CMPXATTR, SETXATTR, RMXATTR.

use super::exec::Exec;
use super::result::{OpOutput, done, output};
use crate::object::user_attr;
use msgs::op::cmp_op;
use std::cmp::Ordering;
use stdx::Bufs;
use store::TxnOp;
use wire::Errno;

impl Exec<'_> {
    pub(super) fn get_xattr(&mut self, name: &[u8]) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        let value = self.loaded.attrs.get(name).ok_or(Errno::ENODATA)?;
        Ok(OpOutput::of(value.clone()))
    }

    pub(super) fn get_xattrs(&mut self) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        output(&self.loaded.attrs)
    }

    /// A missing xattr compares as an empty one; that of an object created by the vector does not compare.
    pub(super) fn cmp_xattr(
        &mut self,
        name: &[u8],
        value: &Bufs,
        op: u8,
        mode: u8,
    ) -> Result<OpOutput, Errno> {
        if !self.loaded.exists {
            return Err(Errno::ENOENT);
        }
        let have = self.loaded.attrs.get(name).map_or(&[][..], Vec::as_slice);
        let want = value.to_vec();
        let order = match mode {
            cmp_op::MODE_STRING => want.as_slice().cmp(have),
            cmp_op::MODE_U64 => {
                let want =
                    u64::from_le_bytes(want.get(..8).and_then(|b| b.try_into().ok()).ok_or(Errno::EINVAL)?);
                want.cmp(&number(have))
            }
            _ => return Err(Errno::EINVAL),
        };
        if compare(op, order)? {
            Ok(OpOutput { rval: 1, ..OpOutput::default() })
        } else {
            Err(Errno::ECANCELED)
        }
    }

    pub(crate) fn set_xattr(&mut self, name: &[u8], value: &Bufs) -> Result<OpOutput, Errno> {
        if name.len() > self.limits.attr_name_len {
            return Err(Errno::ENAMETOOLONG);
        }
        if value.len() > self.limits.attr_size {
            return Err(Errno::EFBIG);
        }
        if name.is_empty() {
            return Err(Errno::EINVAL);
        }
        self.ensure_exists();
        self.txn.push(TxnOp::SetAttr(self.key.clone(), user_attr(name), value.to_vec()));
        done()
    }

    pub(super) fn rm_xattr(&mut self, name: &[u8]) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        if name.is_empty() {
            return Err(Errno::EINVAL);
        }
        self.modified = true;
        self.txn.push(TxnOp::RemoveAttr(self.key.clone(), user_attr(name)));
        done()
    }
}

/// The number at the start of a text, as C's `strtoull` reads it: an overflow gives the maximum, a negative
/// number wraps around, and no digits give 0.
fn number(text: &[u8]) -> u64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let digits = digits.iter().take_while(|c| c.is_ascii_digit());
    let value = digits.map(|c| u64::from(c - b'0')).try_fold(0u64, |n, d| n.checked_mul(10)?.checked_add(d));
    match value {
        None => u64::MAX,
        Some(value) if negative => value.wrapping_neg(),
        Some(value) => value,
    }
}

/// True if `order`, of the given value relative to the stored one, satisfies the operator: EQ, GT and so on
/// read "the given value is … the stored value".
pub(super) fn compare(op: u8, order: Ordering) -> Result<bool, Errno> {
    Ok(match op {
        cmp_op::EQ => order.is_eq(),
        cmp_op::NE => order.is_ne(),
        cmp_op::GT => order.is_gt(),
        cmp_op::GTE => order.is_ge(),
        cmp_op::LT => order.is_lt(),
        cmp_op::LTE => order.is_le(),
        _ => return Err(Errno::EINVAL),
    })
}
