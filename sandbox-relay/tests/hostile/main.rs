//! The hostile suite: everything that we could think of to get out, to break or starve others, or to lie, by class. Each attack
//! is checked from outside: what came of it, whether another subject's canary sings on, and whether the relay is as it was.
//!
//! Programs stand in tables, one file for each class, and run against both ways to make a worker. SECURITY.md names the test
//! of every promise.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod arena;
mod attack;
mod bindings;
mod bridge;
mod cpu;
mod leaks;
mod lock;
mod memory;
mod output;
mod peers;
mod rfc6455;
mod strings_to_code;
#[path = "../suite/support.rs"]
#[allow(dead_code, reason = "the other suite uses all of it")]
mod support;
mod surface;
mod tls;
mod tokens;
mod tool_calls;
mod values;

use arena::{Arena, all_bindings, printing, short, small, usual};

macro_rules! classes {
    ($($name:ident: $attacks:path, $limit:path;)*) => {
        mod fork {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::Arena::start(&[]).await.withstand($attacks, $limit).await;
            })*
        }
        mod exec {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let arguments = ["--worker-backend", "exec", "--worker-stock", "4"];
                super::Arena::start(&arguments).await.withstand($attacks, $limit).await;
            })*
        }
    };
}

classes! {
    surface: crate::surface::ATTACKS, crate::usual;
    strings_to_code: crate::strings_to_code::ATTACKS, crate::usual;
    bridge: crate::bridge::ATTACKS, crate::usual;
    cpu: crate::cpu::ATTACKS, crate::short;
    memory: crate::memory::ATTACKS, crate::small;
    output: crate::output::ATTACKS, crate::printing;
    values: crate::values::ATTACKS, crate::usual;
    leaks: crate::leaks::ATTACKS, crate::usual;
    bindings: crate::bindings::ATTACKS, crate::all_bindings;
}
