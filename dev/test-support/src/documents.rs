//! OpenAPI documents of public APIs, from packages that the files in `dev/test-support/documents` pin. They are installed on
//! demand into the target folder and take 390 MB there.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::packages::{Packages, target_folder};

const DOCUMENTS: Packages = Packages {
    name: "openapi-documents",
    pins: &[
        ("package.json", include_str!("../documents/package.json")),
        ("package-lock.json", include_str!("../documents/package-lock.json")),
    ],
    environments: &[],
};

/// Finds a file of one of the packages, such as `@octokit/openapi/generated/ghec.json`.
///
/// # Panics
/// The packages cannot be installed.
#[track_caller]
pub fn document(path: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let installed = target_folder().and_then(|target| DOCUMENTS.install_below(&target.join("tmp")));
        installed.unwrap_or_else(|error| panic!("the OpenAPI documents of the tests cannot be had: {error}"))
    });
    folder.join("node_modules").join(path)
}
