// SPDX-License-Identifier: GPL-2.0
//! The table of rule names, and the house rules of `rust/proto` that a compiler cannot check.

use smbdirect_host::proto::rule::Rule;
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

#[test]
fn rules_are_numbered_in_order_and_named_once() {
    assert_eq!(Rule::ALL.len(), Rule::COUNT);
    let mut names = HashSet::new();
    for (position, rule) in Rule::ALL.iter().enumerate() {
        assert_eq!(rule.index(), position);
        assert_eq!(rule.id(), format!("{rule:?}"));
        assert!(names.insert(rule.id()), "{} twice", rule.id());
        assert!(names.insert(rule.text()), "{}: same text twice", rule.id());
        assert!(!rule.text().ends_with('.'));
    }
}

// rules: C6+ D12+
#[test]
fn c6_d12_are_notes_and_nothing_else() {
    let notes: Vec<&str> = Rule::ALL
        .iter()
        .filter(|r| r.is_note())
        .map(|r| r.id())
        .collect();
    assert_eq!(notes, ["D12", "C6"]);
}

fn sources() -> Vec<(PathBuf, String)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../rust/proto");
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "rs"));
    assert!(files.len() >= 14);
    files
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn files_start_with_licence_and_essay_and_stay_short() {
    for (path, text) in sources() {
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some("// SPDX-License-Identifier: GPL-2.0"),
            "{path:?}"
        );
        assert!(lines.next().unwrap().starts_with("//! "), "{path:?}");
        assert!(text.lines().count() <= 600, "{path:?} is too long");
    }
}

#[test]
fn functions_stay_short() {
    for (path, text) in sources() {
        let mut start = None;
        for (number, line) in text.lines().enumerate() {
            let code = line.trim_start();
            let indent = line.len() - code.len();
            if start.is_none() && (code.starts_with("fn ") || code.contains(" fn ")) {
                if !code.starts_with("//") && !code.ends_with(';') {
                    start = Some((number, indent));
                }
            } else if let Some((begin, at)) = start {
                if indent == at && code == "}" {
                    assert!(
                        number - begin <= 50,
                        "{path:?}:{}: {} lines",
                        begin,
                        number - begin
                    );
                    start = None;
                }
            }
        }
    }
}

#[test]
fn every_cast_has_a_reason() {
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap();
            let quoted = code.matches('"').count() > 0;
            if code.contains(" as ") && !code.contains("use ") && !quoted {
                let above = number.saturating_sub(3);
                let reason = lines[above..number]
                    .iter()
                    .any(|line| line.contains("// CAST:"));
                assert!(reason, "{path:?}:{}: {line}", number + 1);
            }
        }
    }
}

#[test]
fn no_way_into_the_kernel_and_no_unsafe() {
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap();
            for word in [
                "crate::", "kernel::", "bindings", "unsafe ", "alloc::", "std::", "Atomic",
            ] {
                assert!(!code.contains(word), "{path:?}:{}: {word}", number + 1);
            }
        }
    }
}
