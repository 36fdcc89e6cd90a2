// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures streams between two sockets of the kernel's network stack: over loopback, between
//! network namespaces, or to another host.
//!
//! The client drives the measurement; either side can be the sender. If both run on this machine,
//! the server is a child process, so that each side still has a process of its own. The protocol is
//! the same in all cases ([`mod@protocol`]):
//!
//! ```text
//! client                         server
//!   --version and token-->         checks both
//!   --test-->                      opens a socket
//!   <--port and nonce--
//!   ==connections, nonce==>        accepts those with the nonce
//!   <--started--                   both run `side::run`, and count in slices
//!   --sent-->  <--account--        what the server's side counted
//! ```
//!
//! Every wait has a time limit, at both ends. The results are judged by `explain`, not here.

#![forbid(unsafe_code)]

mod account;
mod assemble;
mod child;
mod client;
mod compare;
mod error;
mod functions;
mod line;
mod meter;
mod methods;
mod path;
mod peer;
pub mod protocol;
mod request;
mod server;
mod side;

pub use child::{Network, serve_parent};
pub use client::{Outcome, Target, measure};
pub use error::StreamError;
pub use request::{IsCopy, Point, Request, sweep};
pub use server::{Limits, Service, serve};
