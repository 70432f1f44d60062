// SPDX-License-Identifier: GPL-2.0
//! What must hold in a state, and what kind of state it is.

use super::config::{Config, Rule};
use super::world::World;

pub fn ensure(good: bool, what: &str) -> Result<(), String> {
    good.then_some(()).ok_or_else(|| what.to_string())
}

impl World {
    /// Safety. An endpoint that is destroyed has nothing to count any more.
    pub fn check(&self, config: &Config) -> Result<(), String> {
        let gone = self.end.iter().any(|end| end.is_destroyed());
        for side in 0..2 {
            self.check_buffers(config, side)?;
            if !gone {
                self.check_credits(config, side)?;
            }
        }
        Ok(())
    }

    fn check_buffers(&self, config: &Config, side: usize) -> Result<(), String> {
        let end = &self.end[side];
        let credits = &end.credits;
        // What the ablation of C5 gets wrong; it is to show what comes of it.
        let balanced = config.rule[side] == Rule::PostedMinusOutstanding
            || credits.outstanding() + credits.available() == credits.posted_receives();
        ensure(balanced, "grants and posts out of balance")?;
        ensure(
            credits.posted_receives() <= credits.limit() + u32::from(end.late),
            "receive queue overrun",
        )?;
        ensure(
            credits.outstanding() <= u32::from(config.window[side]) + 1,
            "window",
        )?;
        // What was under way to an endpoint that is gone took its buffer along.
        let lost = end.is_destroyed();
        ensure(
            lost || end.held() + end.receives() == u32::from(config.buffers(side)),
            "buffer lost",
        )
    }

    fn check_credits(&self, config: &Config, side: usize) -> Result<(), String> {
        let (end, peer) = (&self.end[side], &self.end[1 - side]);
        let unhandled = u32::try_from(peer.channel.len()).unwrap();
        // A receive for every message, even if it arrives before any handler runs.
        ensure(unhandled <= end.receives(), "receiver not ready")?;
        let granted: u32 = end
            .channel
            .iter()
            .map(|message| u32::from(message.granted))
            .sum();
        ensure(
            u32::from(peer.credits.send_credits()) + granted + unhandled
                == end.credits.outstanding(),
            "credits lost or made up",
        )?;
        let target = end.credits.receive_target();
        ensure((1..=config.window[side]).contains(&target), "target")
    }

    /// An error has ended the connection on one side at least.
    pub fn is_dead(&self) -> bool {
        self.end.iter().any(|end| end.is_dead())
    }

    /// Both sides are in their final state.
    pub fn is_destroyed(&self) -> bool {
        self.end.iter().all(|end| end.is_destroyed())
    }

    /// Everything arrived and was read, and nobody waits for a message.
    pub fn is_delivered(&self, config: &Config) -> bool {
        self.is_read(config)
            && self.end.iter().all(|end| {
                end.channel.is_empty() && !end.answer.is_owed() && !end.keepalive.is_pending()
            })
    }

    /// No data is left anywhere, and nobody will ask for an answer.
    pub fn is_idle(&self, config: &Config) -> bool {
        self.is_read(config) && self.ticked(config)
    }

    fn is_read(&self, config: &Config) -> bool {
        (0..2).all(|side| {
            self.end[1 - side].received == config.messages[side] && self.end[side].unread.is_empty()
        })
    }

    pub fn describe(&self) -> String {
        let side = |side: usize| {
            let end = &self.end[side];
            let credits = &end.credits;
            format!(
                "[{} send {} count {} available {} posted {} free {} partial {} unread {:?} sent {} owed {} channel {}]",
                end.state().status().name(),
                credits.send_credits(),
                credits.outstanding(),
                credits.available(),
                credits.posted_receives(),
                end.free,
                end.partial,
                end.unread,
                end.sent,
                end.train.owed(),
                end.channel.len()
            )
        };
        format!("{} {}", side(0), side(1))
    }
}
