//! What one operation returns, and how its input and output are encoded.

use stdx::Bufs;
use wire::Errno;

/// What an operation returns when it succeeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpOutput {
    /// The number beside the data. It is 0 for most operations; methods of classes choose theirs.
    pub(crate) rval: u16,
    pub(crate) data: Bufs,
}

impl OpOutput {
    /// Data, and 0.
    pub(super) fn of(data: impl Into<Bufs>) -> Self {
        Self { rval: 0, data: data.into() }
    }
}

/// Why an operation returns no output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpStop {
    /// It fails.
    Fail(Errno),
    /// CMPEXT fails: the object's data differs from its own at this offset.
    Differs { at: i32 },
    /// The vector has to be executed anew once what [`Exec`](super::exec::Exec) has noted is loaded.
    NeedsData,
}

impl OpStop {
    /// The number in the operation's result. Nobody sees that of an operation that is executed anew.
    pub(super) fn to_result_code(self) -> i32 {
        match self {
            Self::Fail(errno) => errno.to_result_code(),
            Self::Differs { at } => (-Errno::MAX).saturating_sub(at),
            Self::NeedsData => Errno::EIO.to_result_code(),
        }
    }
}

impl From<Errno> for OpStop {
    fn from(errno: Errno) -> Self {
        Self::Fail(errno)
    }
}

/// Decodes an operation's input; an invalid one fails the operation, not the connection.
pub(super) fn input<T: wire::Decode>(data: &Bufs) -> Result<T, Errno> {
    msgs::op::input::read(data).map_err(|_| Errno::EINVAL)
}

pub(super) fn done() -> Result<OpOutput, Errno> {
    Ok(OpOutput::default())
}

pub(super) fn output<T: wire::Encode>(value: &T) -> Result<OpOutput, Errno> {
    Ok(OpOutput::of(msgs::op::input::write(value)))
}
