//! Lets the linker leave Node's functions open, which are there when the library is loaded.

fn main() {
    napi_build::setup();
}
