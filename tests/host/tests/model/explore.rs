// SPDX-License-Identifier: GPL-2.0
//! Visits every reachable state and judges the graph.
//!
//! In the explorers that exist "eventually" is not decided on graphs with cycles, and delivery here is a
//! matter of "can always still be reached" (some cycles are only as fair as their scheduler). So this is a
//! plain breadth-first search, with two passes over the edges it has found.

use super::config::Config;
use super::judge::ensure;
use super::world::World;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// A quick hash; the default one is several times slower.
#[derive(Default)]
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

/// What is known of the states, by number, and the edges between them.
#[derive(Default)]
struct Graph {
    /// (from, to).
    edges: Vec<(u32, u32)>,
    /// The edges that are not reluctant.
    brisk: Vec<(u32, u32)>,
    /// From where each state was first seen, and by which step.
    seen_from: Vec<(u32, &'static str, u8)>,
    dead: Vec<bool>,
    idle: Vec<bool>,
    delivered: Vec<u32>,
    destroyed: Vec<u32>,
}

/// Explores everything; returns the number of states.
///
/// # Errors
///
/// What does not hold, in which state, and the steps that led there.
pub fn explore(config: &Config) -> Result<usize, String> {
    let mut index: HashMap<World, u32, BuildHasherDefault<Quick>> = HashMap::default();
    let mut queue = VecDeque::from([World::start(config)]);
    let mut graph = Graph::default();
    index.insert(queue[0].clone(), 0);
    graph.seen_from.push((0, "start", 0));

    while let Some(world) = queue.pop_front() {
        let here = u32::try_from(graph.idle.len()).unwrap();
        let explain = |graph: &Graph, what: String| {
            let (way, state) = (graph.way_to(here), world.describe());
            format!("{what}: {state} after {way} under {config:?}")
        };
        world.check(config).map_err(|what| explain(&graph, what))?;
        graph.idle.push(world.is_idle(config));
        graph.dead.push(world.is_dead());
        let steps = world.steps(config).map_err(|what| explain(&graph, what))?;
        if world.is_destroyed() {
            graph.destroyed.push(here);
        } else if steps.is_empty() {
            let good = world.is_delivered(config) && !world.is_dead();
            ensure(good, "stuck").map_err(|what| explain(&graph, what))?;
        }
        if world.is_delivered(config) && !world.is_dead() {
            graph.delivered.push(here);
        }
        for step in steps {
            let fresh = u32::try_from(index.len()).unwrap();
            let to = match index.entry(step.next) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    queue.push_back(entry.key().clone());
                    graph.seen_from.push((here, step.what, step.side as u8));
                    *entry.insert(fresh)
                }
            };
            graph.edges.push((here, to));
            if !step.reluctant {
                graph.brisk.push((here, to));
            }
        }
    }
    graph.judge()?;
    Ok(graph.idle.len())
}

impl Graph {
    /// The steps from the start to a state.
    fn way_to(&self, mut at: u32) -> String {
        let mut way = Vec::new();
        while at != 0 {
            let (from, what, side) = self.seen_from[at as usize];
            way.push(format!("{side} {what}"));
            at = from;
        }
        way.reverse();
        way.join(", ")
    }

    /// Liveness.
    fn judge(&self) -> Result<(), String> {
        let delivered = self.reaching(&self.delivered);
        let destroyed = self.reaching(&self.destroyed);
        for at in 0..self.idle.len() {
            let reaches = if self.dead[at] {
                destroyed[at]
            } else {
                delivered[at]
            };
            ensure(reaches, "the end gets out of reach")
                .map_err(|what| format!("{what} after {}", self.way_to(at as u32)))?;
        }
        ensure(self.acyclic(&self.idle), "credit-only messages without end")?;
        ensure(self.acyclic(&self.dead), "a teardown without end")
    }

    /// Which states can reach one of `ends`.
    fn reaching(&self, ends: &[u32]) -> Vec<bool> {
        let states = self.idle.len();
        let mut start = vec![0u32; states + 1];
        for &(_, to) in &self.edges {
            start[to as usize + 1] += 1;
        }
        for at in 0..states {
            start[at + 1] += start[at];
        }
        let mut fill = start.clone();
        let mut from_of = vec![0u32; self.edges.len()];
        for &(from, to) in &self.edges {
            from_of[fill[to as usize] as usize] = from;
            fill[to as usize] += 1;
        }
        let mut seen = vec![false; states];
        let mut work = ends.to_vec();
        for &end in ends {
            seen[end as usize] = true;
        }
        while let Some(to) = work.pop() {
            let (first, last) = (start[to as usize], start[to as usize + 1]);
            for &from in &from_of[first as usize..last as usize] {
                if !std::mem::replace(&mut seen[from as usize], true) {
                    work.push(from);
                }
            }
        }
        seen
    }

    /// Whether the part of the graph selected by `inside` has no cycle (Kahn).
    fn acyclic(&self, inside: &[bool]) -> bool {
        let mut incoming = vec![0u32; inside.len()];
        let mut outgoing: HashMap<u32, Vec<u32>> = HashMap::new();
        for &(from, to) in &self.brisk {
            if inside[from as usize] && inside[to as usize] {
                incoming[to as usize] += 1;
                outgoing.entry(from).or_default().push(to);
            }
        }
        let mut work: Vec<u32> = (0..inside.len() as u32)
            .filter(|&at| inside[at as usize] && incoming[at as usize] == 0)
            .collect();
        let mut removed = 0;
        while let Some(at) = work.pop() {
            removed += 1;
            for &to in outgoing.get(&at).into_iter().flatten() {
                incoming[to as usize] -= 1;
                if incoming[to as usize] == 0 {
                    work.push(to);
                }
            }
        }
        removed == inside.iter().filter(|&&inside| inside).count()
    }
}
