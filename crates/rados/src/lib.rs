//! The client's object operation engine.
