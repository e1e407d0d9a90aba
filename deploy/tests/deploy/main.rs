//! Runs what operators get with the programs that it is for: Prometheus, HAProxy, systemd, Helm's engine.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod chart;
mod compose;
mod dashboard;
mod haproxy;
mod prometheus;
mod support;
mod systemd;
