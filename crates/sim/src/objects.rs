//! The pool of scenarios that work on objects, and requests to it.

use fsclient::{ObjectRequest, Request, SnapContext};
use maps::SnapId;
use msgs::Op;

/// The pool of scenarios that work on objects.
pub const OBJECTS: &str = "objects";

/// Operations on one object of [`OBJECTS`].
pub fn object_request(name: &str, ops: Vec<Op>) -> Request {
    Request::Object(ObjectRequest {
        pool: OBJECTS.into(),
        namespace: Vec::new(),
        name: name.as_bytes().to_vec(),
        ops,
        snap: SnapId::HEAD,
        snapc: SnapContext::default(),
        flags: 0,
    })
}
