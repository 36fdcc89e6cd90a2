// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sessions of one worker, found by key.
//!
//! A hash table with open addressing, at most half full, whose cells hold key and index; the states
//! are in a separate list. After [`Sessions::new`] only the states themselves allocate.
//!
//! Leaves out: closing sessions, which the signalling of A11 would ask for.

/// Reasons why a session was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There are as many sessions as there may be.
    Full,
    /// The key has a session.
    Taken,
}

/// Sessions and their states.
#[derive(Clone, Debug)]
pub struct Sessions<T> {
    /// Key, and place in `states` plus one; 0 marks an empty cell.
    cells: Box<[(u32, u32)]>,
    states: Vec<T>,
    limit: usize,
    /// Takes a hash of 32 bits to a cell.
    shift: u32,
}

impl<T> Sessions<T> {
    /// Empty, with room for `limit`.
    ///
    /// # Panics
    /// If `limit` is not below 2^31.
    pub fn new(limit: usize) -> Self {
        assert!(limit < 1 << 31, "{limit} sessions are more than keys can be found for");
        let cells = (limit * 2).next_power_of_two().max(2);
        Self {
            cells: vec![(0, 0); cells].into(),
            states: Vec::with_capacity(limit),
            limit,
            shift: 32 - cells.trailing_zeros(),
        }
    }

    /// Opens a session.
    ///
    /// # Errors
    /// [`Refusal`]; the state is lost.
    pub fn open(&mut self, key: u32, state: T) -> Result<&mut T, Refusal> {
        let at = match self.cell(key) {
            (_, 0) if self.states.len() == self.limit => return Err(Refusal::Full),
            (at, 0) => at,
            _ => return Err(Refusal::Taken),
        };
        let place = self.states.len();
        self.states.push(state);
        // Below 2^31, the limit.
        self.cells[at] = (key, place as u32 + 1);
        Ok(&mut self.states[place])
    }

    /// The state of the session with this key; where there is none, one is opened with the state
    /// that `make` gives.
    ///
    /// # Errors
    /// The error of `make`, or [`Refusal::Full`].
    #[inline]
    pub fn find_or_open<E: From<Refusal>>(
        &mut self,
        key: u32,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&mut T, E> {
        let (_, mark) = self.cell(key);
        if mark == 0 {
            return Ok(self.open(key, make()?)?);
        }
        // Marks are places plus one.
        Ok(&mut self.states[mark as usize - 1])
    }

    /// The state of the session with this key, if it is open.
    #[inline]
    pub fn find(&mut self, key: u32) -> Option<&mut T> {
        let (_, mark) = self.cell(key);
        self.states.get_mut((mark as usize).wrapping_sub(1))
    }

    /// The states of all sessions, in the order they were opened.
    pub fn states(&self) -> &[T] {
        &self.states
    }

    /// The cell of a key, or the empty one where it would go, and its mark.
    #[inline]
    fn cell(&self, key: u32) -> (usize, u32) {
        let mask = self.cells.len() - 1;
        // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4): the multiplier is 2^32
        // over the golden ratio; the upper bits are the best mixed.
        let mut at = (key.wrapping_mul(0x9e37_79b9) >> self.shift) as usize;
        // Ends: at least one cell in two is empty.
        while self.cells[at].1 != 0 && self.cells[at].0 != key {
            at = (at + 1) & mask;
        }
        (at, self.cells[at].1)
    }
}
