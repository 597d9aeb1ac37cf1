//! cephx: keys, tickets, authorizers, capability strings.
