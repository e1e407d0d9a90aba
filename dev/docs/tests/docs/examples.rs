//! Programs of the pages that run as they stand there, with a relay of their own.

/// The program of the README.
#[allow(clippy::print_stdout, reason = "the page shows what it prints")]
mod readme {
    include!(concat!(env!("OUT_DIR"), "/readme.rs"));

    #[test]
    fn the_program_of_the_readme_runs() {
        crate::programs::program("sandbox-relay");
        main().unwrap();
    }
}

/// The test that docs/rust.md shows, which is one here, too.
mod application {
    include!(concat!(env!("OUT_DIR"), "/test.rs"));
}
