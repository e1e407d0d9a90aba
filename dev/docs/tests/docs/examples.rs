//! Runs the programs of the pages as they stand there, with a relay of their own.

/// Program of the README.
#[allow(clippy::print_stdout, reason = "the page shows what it prints")]
mod readme {
    include!(concat!(env!("OUT_DIR"), "/readme.rs"));

    #[test]
    fn the_program_of_the_readme_runs() {
        crate::programs::program("sandbox-relay");
        main().unwrap();
    }
}

/// Test in docs/rust.md, which runs here as a test, too.
mod application {
    include!(concat!(env!("OUT_DIR"), "/test.rs"));
}
