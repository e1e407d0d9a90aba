//! `completions`: scripts of shells, from the program alone.

use std::process::Command;

use crate::support::binary;

#[test]
fn completions_need_no_settings_and_tell_of_nothing_internal() {
    for shell in ["bash", "zsh", "fish"] {
        // Settings that `serve` would refuse.
        let settings = [("RELAY_LISTEN", "nowhere"), ("RELAY_CONFIG", "/nowhere/relay.toml")];
        let printed = Command::new(binary()).args(["completions", shell]).env_clear().envs(settings).output().unwrap();
        assert!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
        let script = String::from_utf8(printed.stdout).unwrap();
        assert!(script.contains("sandbox-relay") && script.contains("self-test"), "{shell}: {script}");
        assert!(!script.contains("internal"), "{shell}: {script}");
    }
}
