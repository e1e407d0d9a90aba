//! Compiles `worker.proto` with protox, so that no `protoc` has to be installed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=worker.proto");
    let descriptors = protox::compile(["worker.proto"], ["."])?;
    prost_build::Config::new().bytes(["."]).btree_map(["."]).compile_fds(descriptors)?;
    Ok(())
}
