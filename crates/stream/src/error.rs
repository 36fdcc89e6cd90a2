// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of a stream measurement.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why a measurement could not start or ended early.
#[derive(Debug)]
pub enum StreamError {
    /// The server's address cannot be used.
    Bind {
        /// Address to listen on.
        address: SocketAddr,
        /// Error reported by the kernel.
        error: io::Error,
    },
    /// Connecting to the server failed.
    Connect {
        /// The server's address.
        server: String,
        /// Error reported by the kernel.
        error: io::Error,
    },
    /// The host name has no address.
    NoAddress {
        /// The host, as named by the user.
        host: String,
    },
    /// The server refused to serve the client.
    Refused {
        /// Reason given by the server.
        reason: String,
    },
    /// A test could not run, or one of its connections failed.
    Failed {
        /// Why the test or connection failed.
        reason: String,
    },
    /// The other end violated the protocol or uses a different one.
    Protocol {
        /// The unexpected or missing message.
        what: String,
    },
    /// The other end did not send the expected message in time.
    Late {
        /// What did not arrive in time, for the error message.
        what: String,
    },
    /// The other end closed the connection.
    PeerEnded {
        /// Operation during which the connection was closed.
        during: &'static str,
    },
    /// A kernel interface failed.
    Kernel(linerate_linux::Error),
    /// A socket failed.
    Socket {
        /// Operation during which the socket failed.
        during: &'static str,
        /// Error reported by the kernel.
        error: io::Error,
    },
    /// The server process could not be started, or failed.
    Child {
        /// The error message of the server process, or why the process could not be started.
        what: String,
    },
    /// The request is invalid.
    Invalid {
        /// What is invalid, and what is allowed.
        what: String,
    },
}

impl From<linerate_linux::Error> for StreamError {
    fn from(error: linerate_linux::Error) -> Self {
        Self::Kernel(error)
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, error } if error.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "cannot listen on {address}: the port is in use; choose another with --port, or 0 \
                 for any free port"
            ),
            Self::Bind { address, error } => {
                write!(
                    f,
                    "cannot listen on {address}: {error}; pass an address of this machine with \
                     --bind"
                )
            }
            Self::Connect { server, error } => match error.raw_os_error() {
                Some(linerate_linux::errno::ENETUNREACH | linerate_linux::errno::EHOSTUNREACH) => {
                    write!(
                        f,
                        "cannot connect to {server}: no route; check with `ip route get ADDRESS`"
                    )
                }
                _ => write!(
                    f,
                    "cannot connect to {server}: {error}; start `linerate stream --server` on \
                     that host (with --bind and --token-file if it is remote)"
                ),
            },
            Self::NoAddress { host } => {
                write!(f, "cannot resolve host '{host}'; check the name")
            }
            Self::Failed { reason } => write!(f, "the test failed: {reason}"),
            Self::Refused { reason } => write!(f, "rejected by the server: {reason}"),
            Self::Protocol { what } => write!(
                f,
                "the other end does not speak `linerate stream`: \
                                                  {what}"
            ),
            Self::Late { what } => write!(f, "the other end did not answer: {what}"),
            Self::PeerEnded { during } => write!(
                f,
                "the other end closed the connection {during}; results obtained before that are \
                 kept"
            ),
            Self::Kernel(error) => error.fmt(f),
            Self::Socket { during, error } => write!(f, "socket error {during}: {error}"),
            Self::Child { what } => write!(f, "the server process failed: {what}"),
            Self::Invalid { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for StreamError {}

/// Converts a socket error on an established connection.
pub(crate) fn socket_error(during: &'static str, error: io::Error) -> StreamError {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::BrokenPipe
        | Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::UnexpectedEof => StreamError::PeerEnded { during },
        _ => StreamError::Socket { during, error },
    }
}
