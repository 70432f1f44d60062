// SPDX-License-Identifier: GPL-2.0
//! Two endpoints, what is under way between them, and every step that can happen next.

use super::config::{Config, Rule};
use super::end::{End, Message};
use smbdirect_host::proto::errno::{ECONNRESET, ESHUTDOWN, ETIMEDOUT};
use smbdirect_host::proto::fragment;
use smbdirect_host::proto::keepalive::Action;
use smbdirect_host::proto::state::{Event, Status};
use std::mem::take;

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The clock, in ticks.
    now: u8,
    pub end: [End; 2],
}

/// Something that can happen.
pub struct Step {
    pub what: &'static str,
    pub side: usize,
    pub next: World,
    /// A refill that posts fewer receives than it could: no engine does that again and again, and one that
    /// did could keep a pair of empty messages going.
    pub reluctant: bool,
}

/// What becomes of a message that is about to be posted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Post {
    /// It goes out.
    Accepted,
    /// The queue has no room: what was taken for it is given back (C10).
    Full,
    /// The device refuses it: given back, and the connection ends.
    Failed,
}

impl World {
    /// Right after the negotiation: the server (side 1) has granted its window in the response, the client
    /// has posted its receives and granted nothing yet.
    pub fn start(config: &Config) -> World {
        let mut end = [0, 1].map(|side| End::new(config, side));
        let granted = end[1].credits.grant_all_for_response();
        let target = end[0].credits.receive_target();
        end[0].credits.negotiated(granted, target);
        World { now: 0, end }
    }

    /// All steps that are possible now.
    ///
    /// # Errors
    ///
    /// A rule that a message under way breaks.
    pub fn steps(&self, config: &Config) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        for side in 0..2 {
            let mut add = |what, next: Option<World>| {
                steps.extend(next.map(|next| Step {
                    what,
                    side,
                    next,
                    reluctant: false,
                }));
            };
            add("handle", self.handle(config, side)?);
            add("settle", self.settle(side));
            add("read", self.read(side));
            add("expire", self.expire(side));
            add("error", self.error(side));
            add("clean up", self.clean_up(side));
            add("hear the disconnect", self.hear(side));
            add("end of the disconnect", self.hang_up_done(side));
            add("destroy", self.destroy(side));
            self.add_sends(config, side, &mut steps);
            self.add_refills(config, side, &mut steps);
        }
        if self.now < config.ticks {
            let mut next = self.clone();
            next.now += 1;
            steps.push(Step {
                what: "tick",
                side: 0,
                next,
                reluctant: false,
            });
        }
        Ok(steps)
    }

    /// The clock stands still from now on.
    pub fn ticked(&self, config: &Config) -> bool {
        self.now == config.ticks
    }

    // ---- sending -------------------------------------------------------------------------------

    fn add_sends(&self, config: &Config, side: usize, steps: &mut Vec<Step>) {
        let failing = self.end[side].failures > 0;
        for post in [Post::Accepted, Post::Full, Post::Failed] {
            if post != Post::Accepted && !failing {
                continue;
            }
            let mut add = |what, next: Option<World>| {
                let Some(next) = next else { return };
                let moody = config.moody[side] && post == Post::Accepted;
                let other = moody.then(|| next.moody(side));
                steps.extend([Some(next), other].into_iter().flatten().map(|next| Step {
                    what,
                    side,
                    next,
                    reluctant: false,
                }));
            };
            for length in self.lengths(config, side) {
                add("send", self.send_fragment(config, side, length, post));
            }
            add("send empty", self.send_empty(config, side, post));
        }
    }

    /// Fragments that the message about to go on or to begin may still have.
    fn lengths(&self, config: &Config, side: usize) -> std::ops::RangeInclusive<u32> {
        let end = &self.end[side];
        match end.train.owed() {
            0 if end.sent == config.messages[side] => 1..=0,
            0 => 1..=config.longest[side].into(),
            owed => owed..=owed,
        }
    }

    fn send_fragment(
        &self,
        config: &Config,
        side: usize,
        remaining: u32,
        post: Post,
    ) -> Option<World> {
        if !self.end[side].is_live() {
            return None;
        }
        let mut next = self.clone();
        let end = &mut next.end[side];
        let granted = end.take(config.rule[side])?;
        let mut message = end.train.open(remaining).unwrap();
        assert_eq!(message.append(remaining), 1);
        if post == Post::Accepted {
            end.train.closed(&message);
            end.sent += u8::from(!end.train.is_open());
        }
        next.put(config, side, message, granted, post);
        Some(next)
    }

    fn send_empty(&self, config: &Config, side: usize, post: Post) -> Option<World> {
        let rule = config.rule[side];
        let end = &self.end[side];
        let kept = end.train.is_open() && rule != Rule::EmptyInsideTrain;
        if !end.is_live() || !end.wants_empty(rule) || kept {
            return None;
        }
        let mut next = self.clone();
        let granted = next.end[side].take(rule)?;
        next.put(config, side, fragment::Message::empty(), granted, post);
        Some(next)
    }

    /// Posts a message for which a credit was taken.
    fn put(
        &mut self,
        config: &Config,
        side: usize,
        message: fragment::Message,
        granted: u16,
        post: Post,
    ) {
        let end = &mut self.end[side];
        let flagged = end.keepalive.sending(self.now.into());
        let answered = end.answer.sending();
        if post == Post::Accepted {
            end.channel.push(Message {
                length: message.length().try_into().unwrap(),
                remaining: message.remaining().try_into().unwrap(),
                granted: granted.try_into().unwrap(),
                requested: config.wish[side].try_into().unwrap(),
                flag: flagged,
            });
            return;
        }
        end.failures -= 1;
        end.credits.give_back(granted);
        if flagged {
            end.keepalive.unsent();
        }
        if answered {
            end.answer.unsent();
        }
        if post == Post::Failed {
            end.post_failed();
        }
    }

    /// The variant of a sending step in which the message asks for a single credit.
    fn moody(&self, side: usize) -> World {
        let mut next = self.clone();
        next.end[side].channel.last_mut().unwrap().requested = 1;
        next
    }

    // ---- receiving -----------------------------------------------------------------------------

    /// The oldest completion is handled.
    fn handle(&self, config: &Config, side: usize) -> Result<Option<World>, String> {
        if self.end[side].is_destroyed() || self.end[1 - side].channel.is_empty() {
            return Ok(None);
        }
        let mut next = self.clone();
        let message = next.end[1 - side].channel.remove(0);
        let header = message.header();
        let end = &mut next.end[side];
        let broken = |rule| format!("{rule:?} broken");
        let place = end.reassembly.accept(&header).map_err(broken)?;
        end.credits.received(&header).map_err(broken)?;
        if config.rule[side] == Rule::PostedMinusOutstanding {
            end.credits.posted(1);
            end.late += 1;
        }
        end.keepalive.received(self.now.into());
        if header.response_requested {
            end.answer.requested();
        }
        if place.stored {
            end.partial += 1;
        } else {
            end.free += 1;
        }
        if place.last {
            let buffers = take(&mut end.partial);
            end.unread.push(buffers);
            end.received += 1;
        }
        Ok(Some(next))
    }

    /// A handler lowers the second counter.
    fn settle(&self, side: usize) -> Option<World> {
        let late = self.end[side].late.checked_sub(1)?;
        let mut next = self.clone();
        let end = &mut next.end[side];
        end.late = late;
        end.credits.unposted(1);
        Some(next)
    }

    /// Posts some of the missing receives, when the engine would: on the triggers `Credits` names.
    fn add_refills(&self, config: &Config, side: usize, steps: &mut Vec<Step>) {
        let end = &self.end[side];
        let blocked = end.credits.check().is_err() && end.credits.send_credits() > 0;
        if end.is_dead() || !(end.credits.refill_worthwhile() || blocked) {
            return;
        }
        let missing = end.missing(config.rule[side]);
        for n in 1..=missing {
            let mut next = self.clone();
            next.end[side].post(n);
            steps.push(Step {
                what: "refill",
                side,
                next,
                reluctant: n < missing,
            });
        }
        // The device accepts some and refuses the next.
        for n in 0..missing * u32::from(end.failures > 0) {
            let mut next = self.clone();
            next.end[side].failures -= 1;
            next.end[side].post(n);
            next.end[side].post_failed();
            steps.push(Step {
                what: "refill fails",
                side,
                next,
                reluctant: false,
            });
        }
    }

    fn read(&self, side: usize) -> Option<World> {
        let first = *self.end[side].unread.first()?;
        let mut next = self.clone();
        next.end[side].free += first;
        next.end[side].unread.remove(0);
        Some(next)
    }

    // ---- timer and end -------------------------------------------------------------------------

    fn expire(&self, side: usize) -> Option<World> {
        let end = &self.end[side];
        let asks = { end.keepalive }.expired(self.now.into());
        if !end.is_live() || matches!(asks, Action::Rearm(_) | Action::Idle) {
            return None;
        }
        let mut next = self.clone();
        let end = &mut next.end[side];
        match end.keepalive.expired(self.now.into()) {
            Action::Rearm(_) | Action::Idle => None,
            Action::Probe { .. } => Some(next),
            Action::TimedOut => {
                end.fail(ETIMEDOUT, None);
                Some(next)
            }
        }
    }

    /// A shutdown, or an error of any kind.
    fn error(&self, side: usize) -> Option<World> {
        let ends = self.end[side].ends.checked_sub(1)?;
        if self.end[side].is_dead() {
            return None;
        }
        let mut next = self.clone();
        let end = &mut next.end[side];
        end.ends = ends;
        end.fail(ESHUTDOWN, None);
        Some(next)
    }

    /// The cleanup work, which the first error has queued: hangs up, or answers the peer that did.
    fn clean_up(&self, side: usize) -> Option<World> {
        if !self.end[side].is_dead() || self.end[side].cleaned {
            return None;
        }
        let mut next = self.clone();
        let end = &mut next.end[side];
        end.cleaned = true;
        end.hung_up = true;
        end.keepalive.stop();
        end.on(Event::Disconnecting);
        Some(next)
    }

    /// The CM reports the peer's disconnect.
    fn hear(&self, side: usize) -> Option<World> {
        let end = &self.end[side];
        if !self.end[1 - side].hung_up || end.heard || end.is_destroyed() {
            return None;
        }
        let mut next = self.clone();
        let end = &mut next.end[side];
        end.heard = true;
        end.on(Event::Disconnected);
        end.fail(ECONNRESET, Some(Status::Disconnected));
        Some(next)
    }

    /// The CM reports the end of our own disconnect: the peer answered, or did not in time.
    fn hang_up_done(&self, side: usize) -> Option<World> {
        if !self.end[side].hung_up || self.end[side].state().is_disconnected() {
            return None;
        }
        let mut next = self.clone();
        next.end[side].on(Event::Disconnected).then_some(next)
    }

    /// The end of the teardown: what is still under way to this endpoint is flushed.
    fn destroy(&self, side: usize) -> Option<World> {
        if !self.end[side].cleaned || !self.end[side].state().is_over() {
            return None;
        }
        let mut next = self.clone();
        next.end[1 - side].channel.clear();
        next.end[side].on(Event::Destroyed).then_some(next)
    }
}
