//! The container image; its tests are under `tests`.
