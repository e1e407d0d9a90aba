//! The hostile suite: everything that we could think of to get out, to break or starve others, or to lie, by class.
//! Each attack is checked from outside: what came of it, whether another subject's canary sings on, and whether the
//! relay is as it was.
//!
//! Programs stand in tables, one file for each class, and run against both ways to make a worker. SECURITY.md names the
//! test of every promise.

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
                crate::hostile::Arena::start(&[]).await.withstand($attacks, $limit).await;
            })*
        }
        mod exec {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let arguments = ["--worker-backend", "exec", "--worker-stock", "4"];
                crate::hostile::Arena::start(&arguments).await.withstand($attacks, $limit).await;
            })*
        }
    };
}

classes! {
    surface: crate::hostile::surface::ATTACKS, crate::hostile::usual;
    strings_to_code: crate::hostile::strings_to_code::ATTACKS, crate::hostile::usual;
    bridge: crate::hostile::bridge::ATTACKS, crate::hostile::usual;
    cpu: crate::hostile::cpu::ATTACKS, crate::hostile::short;
    memory: crate::hostile::memory::ATTACKS, crate::hostile::small;
    output: crate::hostile::output::ATTACKS, crate::hostile::printing;
    values: crate::hostile::values::ATTACKS, crate::hostile::usual;
    leaks: crate::hostile::leaks::ATTACKS, crate::hostile::usual;
    bindings: crate::hostile::bindings::ATTACKS, crate::hostile::all_bindings;
}
