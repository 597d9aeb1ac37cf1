//! Every client-visible message, declared once.
