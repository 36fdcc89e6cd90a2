// SPDX-License-Identifier: MIT OR Apache-2.0
//! One worker's sessions, found by key.
//!
//! An open-addressing hash table that is at most half full. Each cell holds a key and an index into
//! a separate list of states. After [`Sessions::new`], the table itself allocates no memory.
//!
//! Sessions cannot be closed, which would require A11 signalling.

/// Why a session was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Session limit reached.
    Full,
    /// A session with this key is already open.
    Taken,
}

/// Sessions and their states.
#[derive(Clone, Debug)]
pub struct Sessions<T> {
    /// Key, and index in `states` plus one; 0 marks an empty cell.
    cells: Box<[(u32, u32)]>,
    states: Vec<T>,
    limit: usize,
    /// Right shift that reduces a 32-bit hash to a cell index.
    shift: u32,
}

impl<T> Sessions<T> {
    /// Creates an empty table with room for `limit` sessions.
    ///
    /// # Panics
    /// Panics if `limit` is 2^31 or more.
    pub fn new(limit: usize) -> Self {
        assert!(limit < 1 << 31, "{limit} sessions exceed the table's maximum of 2^31 - 1");
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
    /// Returns [`Refusal`] and drops `state`.
    pub fn open(&mut self, key: u32, state: T) -> Result<&mut T, Refusal> {
        let at = match self.cell(key) {
            (_, 0) if self.states.len() == self.limit => return Err(Refusal::Full),
            (at, 0) => at,
            _ => return Err(Refusal::Taken),
        };
        let place = self.states.len();
        self.states.push(state);
        // Fits: the limit is below 2^31.
        self.cells[at] = (key, place as u32 + 1);
        Ok(&mut self.states[place])
    }

    /// Returns the state of the session with this key, opening it with the state returned by `make`
    /// if necessary.
    ///
    /// # Errors
    /// Returns the error from `make`, or [`Refusal::Full`].
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
        // A cell's second value is the index plus one.
        Ok(&mut self.states[mark as usize - 1])
    }

    /// Returns the state of the session with this key, if open.
    #[inline]
    pub fn find(&mut self, key: u32) -> Option<&mut T> {
        let (_, mark) = self.cell(key);
        self.states.get_mut((mark as usize).wrapping_sub(1))
    }

    /// Returns all sessions' states, in the order they were opened.
    pub fn states(&self) -> &[T] {
        &self.states
    }

    /// Returns the index and the second value of the cell that holds `key`, or of the empty cell
    /// where it would be inserted.
    #[inline]
    fn cell(&self, key: u32) -> (usize, u32) {
        let mask = self.cells.len() - 1;
        // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4): the multiplier is 2^32
        // divided by the golden ratio; the product's upper bits are mixed best.
        let mut at = (key.wrapping_mul(0x9e37_79b9) >> self.shift) as usize;
        // Terminates: at least half of the cells are empty.
        while self.cells[at].1 != 0 && self.cells[at].0 != key {
            at = (at + 1) & mask;
        }
        (at, self.cells[at].1)
    }
}
