// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of the control connection: one JSON value per line, with limits on length and time.

use crate::StreamError;
use crate::error::socket_error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Maximum line length in bytes: an account of 64 connections with 20 slices each takes about 150
/// KB.
const MAX_LINE: usize = 1 << 20;
/// Maximum line length before authentication, in bytes.
const MAX_FIRST_LINE: usize = 4 << 10;

/// How long a read blocks before the caller checks the time.
const STEP: Duration = Duration::from_millis(10);

/// A control connection.
#[derive(Debug)]
pub(crate) struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
    longest: usize,
}

impl Line {
    pub(crate) fn new(stream: TcpStream) -> Result<Self, StreamError> {
        let failed = |error| socket_error("during connection setup", error);
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(STEP)).map_err(failed)?;
        stream.set_write_timeout(Some(Duration::from_secs(5))).map_err(failed)?;
        Ok(Self { stream, buffer: Vec::new(), longest: MAX_FIRST_LINE })
    }

    /// Accepts long lines from now on, because the other end has been authenticated.
    pub(crate) fn trust(&mut self) {
        self.longest = MAX_LINE;
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn send(&mut self, message: &impl Serialize) -> Result<(), StreamError> {
        let mut bytes = serde_json::to_vec(message)
            .map_err(|error| StreamError::Protocol { what: error.to_string() })?;
        bytes.push(b'\n');
        self.stream.write_all(&bytes).map_err(|error| socket_error("while sending", error))
    }

    /// Waits for a message, at most until `deadline`.
    pub(crate) fn receive<T: DeserializeOwned>(
        &mut self,
        deadline: Instant,
        during: &'static str,
    ) -> Result<T, StreamError> {
        loop {
            if let Some(message) = self.poll(during)? {
                return Ok(message);
            }
            if Instant::now() >= deadline {
                let what = format!("timed out waiting for a message {during}");
                return Err(StreamError::Late { what });
            }
        }
    }

    /// Returns a message if one arrives within [`STEP`].
    pub(crate) fn poll<T: DeserializeOwned>(
        &mut self,
        during: &'static str,
    ) -> Result<Option<T>, StreamError> {
        if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            return parse(&line[..end]).map(Some);
        }
        if self.buffer.len() > self.longest {
            let what = format!("line longer than {} bytes", self.longest);
            return Err(StreamError::Protocol { what });
        }
        let mut room = [0; 4096];
        match self.stream.read(&mut room) {
            Ok(0) => Err(StreamError::PeerEnded { during }),
            Ok(count) => {
                self.buffer.extend_from_slice(&room[..count]);
                Ok(None)
            }
            Err(error) if is_timeout(&error) => Ok(None),
            Err(error) => Err(socket_error(during, error)),
        }
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, StreamError> {
    serde_json::from_slice(line).map_err(|_| {
        let shown: String = String::from_utf8_lossy(line)
            .chars()
            .map(|c| if c.is_control() { '\u{fffd}' } else { c })
            .take(40)
            .collect();
        StreamError::Protocol { what: format!("unexpected message '{shown}'") }
    })
}

/// Returns whether a call timed out or was interrupted by a signal.
pub(crate) fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
