// SPDX-License-Identifier: GPL-2.0
//! R48, shown on machine code: no function of `rust/proto` can reach a panic.
//!
//! The compiler translates the core with the options the kernel uses for a release (overflow checks on,
//! debug assertions off, panic aborts), every function of it by itself, also those that are not called
//! or would be inlined. The disassembly with its relocations is a graph of calls, and no path in it may
//! lead from a function of ours to one of the functions behind a panic.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Symbols a function refers to, by its own symbol.
type Graph = BTreeMap<String, BTreeSet<String>>;

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Translates a crate as the kernel would, `level` being its choice of optimization.
fn graph(name: &str, source: &Path, level: &str) -> Graph {
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{level}.o"));
    let object = object.to_str().unwrap();
    let level = format!("-Copt-level={level}");
    let options = "--edition=2021 --crate-type=lib --emit=obj -Cpanic=abort -Coverflow-checks=on \
        -Cdebug-assertions=off -Ccodegen-units=1 -Clink-dead-code";
    let mut arguments: Vec<&str> = options.split_whitespace().collect();
    arguments.extend([level.as_str(), "--crate-name", name, "-o", object]);
    arguments.push(source.to_str().unwrap());
    run("rustc", &arguments);
    parse(&run(
        "objdump",
        &["--disassemble", "--reloc", "--no-show-raw-insn", object],
    ))
}

/// Reads `0000 <function>:` and, below it, `12: R_KIND symbol+offset`; a local function may be named by
/// its section, `.text.function`.
fn parse(listing: &str) -> Graph {
    let (mut graph, mut function) = (Graph::new(), String::new());
    for line in listing.lines() {
        if let Some((_, name)) = line
            .strip_suffix(">:")
            .and_then(|line| line.split_once(" <"))
        {
            function = name.to_string();
            graph.entry(function.clone()).or_default();
        } else if let Some((_, relocation)) = line.split_once(": R_") {
            let symbol = relocation.split_whitespace().nth(1).unwrap_or_default();
            let end = symbol.find(['+', '-']).unwrap_or(symbol.len());
            let symbol = symbol[..end]
                .trim_start_matches(".text.")
                .trim_start_matches("unlikely.");
            graph
                .entry(function.clone())
                .or_default()
                .insert(symbol.to_string());
        }
    }
    graph
}

/// Whether it is a function that is there to panic, or in core and not known to be harmless.
fn panics(symbol: &str, graph: &Graph) -> bool {
    let harmless = ["_ZN4core3fmt", "mem", "bcmp"];
    let elsewhere = !graph.contains_key(symbol) && !symbol.starts_with('.');
    elsewhere && !harmless.iter().any(|prefix| symbol.starts_with(prefix)) && !is_data(symbol)
}

fn is_data(symbol: &str) -> bool {
    [
        "anon.",
        "switch.",
        "str.",
        "vtable.",
        "_GLOBAL_OFFSET_TABLE_",
    ]
    .iter()
    .any(|prefix| symbol.starts_with(prefix))
}

/// Paths from functions of the crate to a panic: "function -> ... -> panic".
fn paths_to_a_panic(name: &str, graph: &Graph) -> Vec<String> {
    let ours = |symbol: &&String| {
        let path = symbol
            .trim_start_matches("_ZN")
            .trim_start_matches(|c: char| c.is_ascii_digit());
        let path = path.trim_start_matches('_').trim_start_matches("$LT$");
        // Printing is core's machinery, which a message to an administrator may use.
        path.starts_with(name) && !symbol.contains("core..fmt..")
    };
    let roots: Vec<&String> = graph.keys().filter(ours).collect();
    assert!(roots.len() >= 5, "{} functions of {name} only", roots.len());
    let mut seen: BTreeSet<&String> = roots.iter().copied().collect();
    let mut work: Vec<(&String, String)> =
        roots.iter().map(|root| (*root, root.to_string())).collect();
    let mut found = Vec::new();
    while let Some((symbol, path)) = work.pop() {
        for next in graph.get(symbol).into_iter().flatten() {
            let path = format!("{path} -> {next}");
            if panics(next, graph) {
                found.push(path);
            } else if seen.insert(next) {
                work.push((next, path));
            }
        }
    }
    found
}

// rules: R48+
#[test]
fn r48_no_path_leads_to_a_panic() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    for level in ["2", "s", "3"] {
        let found = paths_to_a_panic("smbdirect_host", &graph("smbdirect_host", &source, level));
        assert!(found.is_empty(), "opt-level {level}:\n{}", found.join("\n"));
    }
}

/// One function for each way to panic, and one behind another function; none is seen where none is.
const TWIN: &str = "#![no_std]
    pub fn index(bytes: &[u8]) -> u8 { bytes[0] }
    pub fn slice(bytes: &[u8], from: usize) -> &[u8] { &bytes[from..] }
    pub fn add(a: u32, b: u32) -> u32 { a + b }
    pub fn negate(a: i32) -> i32 { -a }
    pub fn divide(a: u32, b: u32) -> u32 { a / b }
    pub fn shift(a: u32, b: u32) -> u32 { a << b }
    pub fn unwrap(a: Option<u8>) -> u8 { a.unwrap() }
    pub fn expect(a: Result<u8, u8>) -> u8 { a.expect(\"no\") }
    pub fn copy(a: &mut [u8], b: &[u8]) { a.copy_from_slice(b) }
    pub fn caller(a: &[u8]) -> u8 { hidden(a) }
    #[inline(never)] fn hidden(a: &[u8]) -> u8 { if a.len() > 3 { 0 } else { panic!() } }
    pub fn good(a: &[u8], b: u32) -> u32 { u32::from(*a.get(3).unwrap_or(&0)).saturating_add(b) }
    pub fn guarded(a: &[u8]) -> u8 { if a.len() > 3 { a[3] } else { 0 } }
    ";

// rules: R48-
#[test]
fn r48_every_kind_of_panic_is_seen() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("can_panic.rs");
    fs::write(&source, TWIN).unwrap();
    let functions = "index slice add negate divide shift unwrap expect copy hidden";
    for level in ["2", "s", "3"] {
        let found = paths_to_a_panic("can_panic", &graph("can_panic", &source, level));
        let from = |function: &str| {
            let part = format!("can_panic{}{function}", function.len());
            found.iter().any(|path| path.contains(&part))
        };
        for function in functions.split(' ') {
            assert!(
                from(function),
                "{function} can panic, unseen at opt-level {level}"
            );
        }
        assert!(!from("good") && !from("guarded"), "{found:?}");
    }
}
