// SPDX-License-Identifier: GPL-2.0
//! Every file of the corpora once more, without libFuzzer.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// Feeds the target all files of its corpus; names those that fail.
fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("no corpus {}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(
        !files.is_empty(),
        "the corpus {} is empty",
        folder.display()
    );
    // What nothing was chosen for must be survived, too.
    target(&[]);
    let failed: Vec<&PathBuf> = files
        .iter()
        .filter(|file| {
            let data = fs::read(file).unwrap();
            catch_unwind(|| target(&data)).is_err()
        })
        .collect();
    println!("{} files", files.len());
    assert!(failed.is_empty(), "the target fails with {failed:?}");
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name), smbdirect_fuzz::$name);
        })*
    };
}

targets!(pdu, receiver, negotiate, descriptor, depth, connection);
