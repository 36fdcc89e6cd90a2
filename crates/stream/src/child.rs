// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server for measurements within this machine: a child process that exits with its parent or
//! when its time limit expires.
//!
//! ```text
//! parent --order--> child: enters its namespace
//!                   both open a veth pair (new namespaces only)
//!        <listening ADDRESS--
//! ```

use crate::StreamError;
use crate::path::local_addresses;
use crate::server::{Limits, Service, nonce, serve};
use linerate_linux::speaking::{Ends, Speaking, hear_from_parent, say_to_parent};
use linerate_linux::{end_with_parent, enter_network, enter_new_network, enter_private_network};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Interfaces of the veth pair between new namespaces.
const ENDS: Ends = Ends { near: "stream0", far: "stream1" };

/// Directory of named network namespaces.
const NAMED: &str = "/run/netns";

/// Margin added to the expected duration in the child's time limit, for machines where processes
/// start slowly.
const MORE: Duration = Duration::from_secs(30);

/// Network between client and server on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// The loopback interface.
    Loopback,
    /// Two new network namespaces with a veth pair.
    New,
    /// Two named network namespaces: the client's and the server's.
    Named([String; 2]),
}

/// First message from the parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    token: String,
    place: Place,
    seconds: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Place {
    Here,
    New,
    Named(String),
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    /// Ends when dropped.
    _process: Speaking,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

impl Server {
    /// Starts the server with `command` and moves the calling thread to the client's namespace,
    /// which threads started later inherit.
    pub(crate) fn start(
        command: Command,
        network: &Network,
        time: Duration,
    ) -> Result<Self, StreamError> {
        let place = match network {
            Network::Loopback => Place::Here,
            Network::New => {
                // Real root needs no user namespace, and a container may forbid creating one.
                enter_private_network().or_else(|error| enter_new_network().map_err(|_| error))?;
                Place::New
            }
            Network::Named([near, far]) => {
                enter_named(near)?;
                Place::Named(far.clone())
            }
        };
        let token = format!("{:016x}{:016x}", nonce()?, nonce()?);
        let seconds = u32::try_from(time.saturating_add(MORE).as_secs()).unwrap_or(u32::MAX);
        let order = Order { token: token.clone(), place, seconds };
        let order = serde_json::to_string(&order).map_err(child_error)?;
        // Ctrl-C must reach only the parent, which then ends the child.
        let mut process = Speaking::start_apart(command).map_err(child_error)?;
        process.say(&order).map_err(child_error)?;
        if *network == Network::New {
            ENDS.open_near(&mut process).map_err(child_error)?;
        }
        let address = |line: &str| line.strip_prefix("listening ")?.parse().ok();
        let address = process.hear(address).map_err(child_error)?;
        Ok(Self { _process: process, address, token })
    }
}

fn child_error(what: impl Display) -> StreamError {
    StreamError::Child { what: what.to_string() }
}

fn enter_named(name: &str) -> Result<(), StreamError> {
    if name.is_empty() || name.contains('/') {
        return Err(StreamError::Invalid { what: format!("invalid network namespace '{name}'") });
    }
    let path = PathBuf::from(NAMED).join(name);
    let file = File::open(&path).map_err(|error| StreamError::Invalid {
        what: format!(
            "cannot open network namespace {}: {error}; `ip netns` lists the names",
            path.display()
        ),
    })?;
    Ok(enter_network(&file)?)
}

/// Serves the parent process, which sends an `Order` on stdin, until the parent disconnects or the
/// time limit expires.
///
/// # Errors
/// Returns an error if the namespace cannot be entered or has no address, or if the order is
/// invalid.
pub fn serve_parent() -> Result<(), StreamError> {
    // Limit until the order sets another one.
    end_with_parent(MORE.as_secs() as u32)?;
    let order = hear_from_parent().map_err(child_error)?;
    let order: Order = serde_json::from_str(&order).map_err(child_error)?;
    end_with_parent(order.seconds)?;
    let address = match &order.place {
        Place::Here => IpAddr::from(Ipv4Addr::LOCALHOST),
        Place::New => {
            enter_new_network()?;
            ENDS.open_far().map_err(child_error)?;
            Ends::FAR_ADDRESS.into()
        }
        Place::Named(name) => {
            enter_named(name)?;
            let found = local_addresses().into_iter().next();
            found.ok_or_else(|| StreamError::Invalid {
                what: format!(
                    "network namespace {name} has no IP address; add one: ip -n {name} addr add \
                     ADDRESS/PREFIX dev INTERFACE"
                ),
            })?
        }
    };
    let limits = Limits { token: Some(order.token), is_for_one: true };
    let service: Service = serve((address, 0).into(), limits)?;
    say_to_parent(&format!("listening {}", service.address())).map_err(child_error)?;
    service.run(&AtomicBool::new(false), &|_| {});
    Ok(())
}
