// SPDX-License-Identifier: GPL-2.0
//! The fuzzer's bytes as a supply of choices.

/// Bytes not yet used. Whoever asks for more than there is gets zeros.
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Up to `count` bytes.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// All that is left.
    pub fn all(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    pub fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A size, mostly near one of the limits of the protocol or of its type. Two bytes decide, so that
    /// a short input reaches far.
    pub fn size(&mut self) -> u32 {
        let [kind, low] = self.array();
        let low = u32::from(low);
        match kind & 7 {
            0 => low,
            1 => 1000 + 16 * low,
            2 => 131_072 - 128 + low,
            3 => 32_768 - 128 + low,
            4 => u32::MAX - low,
            5 => 1 << (low & 31),
            6 => (low << 16) + 173_910,
            _ => self.u32(),
        }
    }

    /// A credit count, mostly a small one.
    pub fn credits(&mut self) -> u16 {
        match self.byte() {
            255 => self.u16(),
            254 => u16::MAX,
            count => count.into(),
        }
    }
}
