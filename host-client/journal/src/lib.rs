//! Journals for durable runs: storages behind the interface [`Journal`](host_client_core::Journal).
//!
//! Applications name the crate `host-client`, which re-exports all of this. The storages do not depend on each other:
//! - [`SqliteJournal`]: one file, which several processes of one machine may share
//! - [`PostgresJournal`]: a schema of a Postgres database, which several machines may share
//! - `named`: journals that people name by a text
//! - `migration`: versions of a schema
//! - `integer`: conversion of numbers for databases
//!
//! Both have the same tables, which their `schema` folders describe, and pass the same tests.
#![warn(missing_docs)]

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod integer;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod migration;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod named;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub use named::{is_database, open_journal};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresJournal, PostgresOptions};
#[cfg(feature = "sqlite")]
pub use sqlite::{Durability, SqliteJournal, SqliteOptions};
