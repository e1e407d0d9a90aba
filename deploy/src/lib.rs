//! Has only tests: what is in this folder runs as an operator runs it.
