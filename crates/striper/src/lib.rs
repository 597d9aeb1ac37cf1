//! File layout to objects.
