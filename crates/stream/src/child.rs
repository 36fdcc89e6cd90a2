// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server for measurements within this machine: a child process that exits with its parent or
//! when its time limit expires.
//!
//! ```text
//! parent --order--> child: enters its namespace
//!        <entered--        (new namespaces only)
//!        --joined->        once the veth pair connects both
//!        <listening ADDRESS--
//! ```

use crate::StreamError;
use crate::path::local_addresses;
use crate::server::{Limits, Service, nonce, serve};
use linerate_linux::network::Network as Sockets;
use linerate_linux::{end_with_parent, enter_network, enter_new_network, enter_private_network};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Address of the client's end of the veth pair, from the range reserved for documentation (RFC
/// 5737).
const NEAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Address of the server's end of the veth pair.
const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PREFIX: u8 = 24;
const NEAR: &str = "stream0";
const FAR: &str = "stream1";

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

/// The parent's handle to the child process, which is killed when the handle is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    says: BufReader<std::process::ChildStdout>,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

impl Server {
    /// Starts the server with `command` and moves the calling thread to the client's namespace,
    /// which threads started later inherit.
    pub(crate) fn start(
        mut command: Command,
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
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C must reach only the parent, which then ends the child.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| child_error(&error.to_string()))?;
        let says = child.stdout.take().map(BufReader::new);
        let says = says.ok_or_else(|| child_error("its standard output is not a pipe"))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut server = Self { child, says, address, token: token.clone() };
        server.tell(&Order { token, place, seconds })?;
        if *network == Network::New {
            server.expect("entered")?;
            let sockets = Sockets::own()?;
            sockets.add_pair(NEAR, FAR, server.child.id())?;
            sockets.bring_up(NEAR, NEAR_ADDRESS, PREFIX)?;
            server.tell(&"joined")?;
        }
        let line = server.line()?;
        let address = line.strip_prefix("listening ").and_then(|address| address.parse().ok());
        server.address = address.ok_or_else(|| server.failure())?;
        Ok(server)
    }

    fn tell(&mut self, message: &impl Serialize) -> Result<(), StreamError> {
        let text =
            serde_json::to_string(message).map_err(|error| child_error(&error.to_string()))?;
        let stdin = self.child.stdin.as_mut();
        let stdin = stdin.ok_or_else(|| child_error("its standard input is not a pipe"))?;
        let written = writeln!(stdin, "{text}").and_then(|()| stdin.flush());
        written.map_err(|_| self.failure())
    }

    fn line(&mut self) -> Result<String, StreamError> {
        let mut line = String::new();
        self.says.read_line(&mut line).map_err(|error| child_error(&error.to_string()))?;
        Ok(line.trim().to_owned())
    }

    fn expect(&mut self, wanted: &str) -> Result<(), StreamError> {
        if self.line()? == wanted { Ok(()) } else { Err(self.failure()) }
    }

    /// Builds an error from the child's stderr.
    fn failure(&mut self) -> StreamError {
        drop(self.child.stdin.take());
        let mut words = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            // If the output cannot be read, the message goes without it.
            let _ = stderr.read_to_string(&mut words);
        }
        let words = words.trim();
        let words = words.strip_prefix("linerate: ").unwrap_or(words);
        child_error(if words.is_empty() { "it exited early" } else { words })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn child_error(what: &str) -> StreamError {
    StreamError::Child { what: what.to_owned() }
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
    let stdin = std::io::stdin();
    let mut line = String::new();
    let mut next = || {
        line.clear();
        let read = stdin.lock().read_line(&mut line);
        read.map_err(|error| child_error(&error.to_string())).map(|_| line.clone())
    };
    let order: Order =
        serde_json::from_str(&next()?).map_err(|error| child_error(&error.to_string()))?;
    end_with_parent(order.seconds)?;
    let address = match &order.place {
        Place::Here => IpAddr::from(Ipv4Addr::LOCALHOST),
        Place::New => {
            enter_new_network()?;
            say("entered")?;
            if next()?.trim() != "\"joined\"" {
                return Err(child_error("unexpected order"));
            }
            Sockets::own()?.bring_up(FAR, FAR_ADDRESS, PREFIX)?;
            FAR_ADDRESS.into()
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
    say(&format!("listening {}", service.address()))?;
    service.run(&AtomicBool::new(false), &|_| {});
    Ok(())
}

fn say(line: &str) -> Result<(), StreamError> {
    let mut stdout = std::io::stdout();
    let written = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    written.map_err(|error| child_error(&error.to_string()))
}
