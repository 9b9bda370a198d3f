//! No code: the manifest has features of third-party crates that every selection of packages
//! shares.
