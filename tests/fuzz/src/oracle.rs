// SPDX-License-Identifier: GPL-2.0
//! What the rules say about a received data message (D1 to D12), worked out from its bytes and from
//! plain sums over what was accepted before.

use smbdirect_host::proto::credits::Credits;
use smbdirect_host::proto::reassembly::Reassembly;
use smbdirect_host::proto::rule::Rule;

pub fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from(le16(bytes, at)) | u32::from(le16(bytes, at + 2)) << 16
}

/// The fields of a data message as they lie in its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    pub requested: u16,
    pub granted: u16,
    pub flags: u16,
    pub remaining: u64,
    pub offset: u64,
    pub length: u64,
}

/// The fields, or the first rule without history that the message breaks.
pub fn fields(received: &[u8], max_fragmented: u32) -> Result<Fields, Rule> {
    if received.len() < 20 {
        return Err(Rule::D1);
    }
    let fields = Fields {
        requested: le16(received, 0),
        granted: le16(received, 2),
        flags: le16(received, 4),
        remaining: le32(received, 8).into(),
        offset: le32(received, 12).into(),
        length: le32(received, 16).into(),
    };
    let broken = [
        (fields.requested == 0, Rule::D2),
        (fields.offset & 7 != 0, Rule::D3),
        (
            fields.offset + fields.length > received.len() as u64,
            Rule::D4,
        ),
        (
            fields.length + fields.remaining > max_fragmented.into(),
            Rule::D5,
        ),
        (fields.length != 0 && fields.offset < 24, Rule::D8),
    ];
    match broken.into_iter().find(|&(broken, _)| broken) {
        Some((_, rule)) => Err(rule),
        None => Ok(fields),
    }
}

/// Everything a receiver has to remember: credits in sums that only grow, and the message in progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inbox {
    /// Credits granted to the peer, ever.
    pub granted: u64,
    /// Messages with a credit, ever.
    pub arrived: u64,
    /// Length of the upper-layer message in progress; 0 between messages.
    total: u64,
    /// Bytes of it that have arrived.
    have: u64,
    /// Payload ever accepted.
    pub bytes: u64,
    /// Length of all upper-layer messages ever completed.
    pub completed: u64,
    /// Empty messages inside a fragment train.
    pub strays: u64,
}

/// What must become of an accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub stored: bool,
    pub first: bool,
    pub last: bool,
    pub total: u32,
}

impl Inbox {
    /// Credits the peer holds.
    pub fn held(&self) -> u64 {
        self.granted - self.arrived
    }

    /// Bytes still to come of the message in progress.
    pub fn owed(&self) -> u64 {
        self.total - self.have
    }

    /// The engine's counters are what the sums say, when `posted` receives were posted in all.
    pub fn agrees(&self, posted: u64, credits: &Credits, reassembly: &Reassembly) {
        assert_eq!(u64::from(credits.outstanding()), self.held());
        assert_eq!(u64::from(credits.available()), posted - self.granted);
        assert_eq!(u64::from(credits.posted_receives()), posted - self.arrived);
        assert_eq!(u64::from(reassembly.owed()), self.owed());
    }

    /// Judges a message whose fields are in order, and takes it in if it is good.
    pub fn judge(&mut self, fields: &Fields, strict: bool) -> Result<Verdict, Rule> {
        if self.held() == 0 {
            return Err(Rule::D9);
        }
        let inside = self.owed() > 0;
        let announced = fields.length + fields.remaining;
        if announced == 0 {
            if inside && strict {
                return Err(Rule::D6);
            }
            self.arrived += 1;
            self.strays += u64::from(inside);
            return Ok(Verdict {
                stored: false,
                first: false,
                last: false,
                total: 0,
            });
        }
        if inside && fields.remaining == 0 && fields.length < self.owed() {
            return Err(Rule::D6);
        }
        // Two questions, so that the fuzzer sees two ways and keeps both.
        if inside && announced < self.owed() {
            return Err(Rule::D7);
        }
        if inside && announced > self.owed() {
            return Err(Rule::D7);
        }
        if !inside {
            (self.total, self.have) = (announced, 0);
        }
        let verdict = Verdict {
            stored: fields.length > 0,
            first: fields.length > 0 && self.have == 0,
            last: fields.remaining == 0,
            total: u32::try_from(self.total).unwrap(),
        };
        self.arrived += 1;
        self.have += fields.length;
        self.bytes += fields.length;
        if verdict.last {
            assert_eq!(self.have, self.total, "a message ends with its length");
            self.completed += self.total;
            (self.total, self.have) = (0, 0);
        }
        assert_eq!(self.bytes, self.completed + self.have);
        Ok(verdict)
    }
}
