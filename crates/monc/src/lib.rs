//! A session to a monitor: maps, subscriptions, tickets.
