// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `linerate stream`.

use crate::emit::Output;
use crate::failure::Failure;
use crate::help_text::{examples, paragraphs};
use crate::parse::{CpuList, TIME_SYNONYMS, cpu_list, duration, quoted, time_in};
use crate::plots::Plots;
use clap::Args;
use linerate_explain::classes::class_of;
use linerate_record::profile::CostClass;
use linerate_record::stream::StreamMode;
use linerate_record::units::{parse_bit_rate, parse_memory_size};
use linerate_stream::protocol::{MAX_PAUSE, MIN_RATE, PORT};
use linerate_stream::{Network, Request, Target, sweep};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

const AFTER: &str = "\
Without options, linerate measures TCP over loopback in 15 s: it sends to a child process and sweeps
the socket buffer and message sizes. Service demand is the CPU time of both sides per KB (1024
bytes) received. Examples:

  linerate stream
  linerate stream --netns --buffer auto,16K,64K,256K --message 64K --svg plots
  linerate stream --server --bind 192.0.2.7 --token-file token
  linerate stream --client 192.0.2.7 --token-file token --udp --rate 1Gb/s

A server serves one client at a time. It listens only on loopback, unless --bind names another
address; it then requires a token, which both ends read from a file. Exit status 2: the measurement
ended early; the points measured so far are printed.";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct StreamArgs {
    /// Send UDP datagrams
    #[arg(long, conflicts_with = "request")]
    udp: bool,
    /// Send requests over TCP, and wait for each reply
    #[arg(long, conflicts_with = "reverse")]
    request: bool,
    /// Socket buffers, e.g. auto,16K,256K (default: auto and 8K to 208K)
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = buffer)]
    buffer: Vec<Buffer>,
    /// Sender's buffer; overrides --buffer
    #[arg(long, value_name = "SIZE", value_parser = buffer, hide_short_help = true)]
    send_buffer: Option<Buffer>,
    /// Receiver's buffer; overrides --buffer
    #[arg(long, value_name = "SIZE", value_parser = buffer, hide_short_help = true)]
    receive_buffer: Option<Buffer>,
    /// Bytes per call, datagram or request, e.g. 1K,64K
    ///
    /// Default for TCP: 64K; with automatic buffers, also 128, 1K and 8K. For UDP: 1472. For
    /// requests: 1.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size)]
    message: Vec<u32>,
    /// Numbers of concurrent connections, e.g. 1,4 (default: 1)
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    connections: Vec<u32>,
    /// Limit each connection to this rate, e.g. 1Gb/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<u64>,
    /// Let the server send and the client receive
    #[arg(long)]
    reverse: bool,
    /// Send small segments immediately (TCP_NODELAY)
    #[arg(long, conflicts_with = "udp")]
    nodelay: bool,
    /// Also compare sendfile, MSG_ZEROCOPY, io_uring, sendmmsg, UDP GSO and GRO with plain calls
    #[arg(long, conflicts_with_all = ["server", "reverse"])]
    compare: bool,
    /// Write each request with this number of calls
    #[arg(long, value_name = "N", default_value_t = 1, requires = "request",
        value_parser = clap::value_parser!(u32).range(1..=1000), hide_short_help = true)]
    writes: u32,
    /// Time for which the sender pauses after each message, as a slow program would, e.g. 1ms
    #[arg(long, value_name = "TIME", value_parser = pause, hide_short_help = true)]
    write_pause: Option<Duration>,
    /// Time for which the receiver pauses after each read, as a slow program would, e.g. 1ms
    #[arg(long, value_name = "TIME", value_parser = pause, hide_short_help = true)]
    read_pause: Option<Duration>,
    /// Total measurement time, e.g. 5s or 2m; warm-ups take extra time (default: 10s)
    #[arg(long, value_name = "TIME", value_parser = duration, aliases = TIME_SYNONYMS)]
    time: Option<f64>,
    /// Number of times to measure each point (default: 3, with --compare 8)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000),
        hide_short_help = true)]
    rounds: Option<u64>,
    /// Random seed for the order of points
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    seed: u64,
    /// CPUs of the client and of the server, e.g. 0,1 (default: any)
    #[arg(long, value_name = "A,B", value_parser = cpu_pair)]
    cpus: Option<[u32; 2]>,
    /// Measure between two network namespaces: A,B, or two new ones with a veth pair
    ///
    /// Named namespaces (ip netns) need root; new ones need root or user namespaces.
    #[arg(long, value_name = "A,B", num_args = 0..=1, require_equals = true,
        default_missing_value = "", conflicts_with_all = ["client", "server"])]
    netns: Option<String>,
    /// Connect to the server on HOST and measure
    #[arg(long, value_name = "HOST", conflicts_with = "server")]
    client: Option<String>,
    /// Serve clients until interrupted
    #[arg(long, conflicts_with_all = ["json", "record", "svg"])]
    server: bool,
    /// Address on which the server listens
    #[arg(long, value_name = "ADDRESS", requires = "server", default_value_t = LOOPBACK,
        hide_short_help = true)]
    bind: IpAddr,
    /// Port of the server
    #[arg(long, value_name = "PORT", default_value_t = PORT, hide_short_help = true)]
    port: u16,
    /// File with the token that clients must present
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    token_file: Option<PathBuf>,
    /// Acts as the other side of a measurement by the parent process on the same machine.
    #[arg(long, hide = true)]
    pub(super) part: bool,
    #[command(flatten)]
    pub(super) plots: Plots,
    #[command(flatten)]
    pub(crate) output: Output,
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Default measurement time in seconds.
const TIME: f64 = 10.0;
/// Default number of rounds.
const ROUNDS: u64 = 3;
/// Default number of rounds for a comparison, whose ratios are paired by round: the interval of a
/// median needs at least 6.
const COMPARED_ROUNDS: u64 = 8;
/// Minimum token length in characters; a token of this length cannot be guessed over a network.
const TOKEN_LEAST: usize = 8;

/// A socket buffer size in bytes; `None` for automatic sizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffer(Option<u32>);

fn size(text: &str) -> Result<u32, String> {
    let bytes = parse_memory_size(text).map_err(|error| quoted(&error))?.0;
    u32::try_from(bytes).map_err(|_| format!("{bytes} bytes is too large"))
}

fn buffer(text: &str) -> Result<Buffer, String> {
    match text {
        "auto" => Ok(Buffer(None)),
        text => size(text).map(|bytes| Buffer(Some(bytes))),
    }
}

fn rate(text: &str) -> Result<u64, String> {
    let bits = parse_bit_rate(text).map_err(|error| quoted(&error))?.0;
    let is_usable = (MIN_RATE as f64..=1e15).contains(&bits);
    is_usable.then_some(bits as u64).ok_or_else(|| "expected 8b/s to 1000Tb/s".to_owned())
}

fn pause(text: &str) -> Result<Duration, String> {
    time_in(text, Duration::ZERO..=MAX_PAUSE, "1ms")
}

/// Parses two CPUs, which may be the same.
fn cpu_pair(text: &str) -> Result<[u32; 2], String> {
    let one = |text: &str| match cpu_list(text)? {
        CpuList(cpus) if cpus.len() == 1 => Ok(cpus[0]),
        CpuList(_) => Err("expected two CPUs, e.g. 0,1".to_owned()),
    };
    let (client, server) = text.split_once(',').ok_or("expected two CPUs, e.g. 0,1")?;
    Ok([one(client)?, one(server)?])
}

impl StreamArgs {
    /// Returns the address and port to listen on, if this is a server.
    pub(super) fn server(&self) -> Option<std::net::SocketAddr> {
        self.server.then(|| (self.bind, self.port).into())
    }

    /// Returns the content of the token file; `None` if the option was not given.
    pub(super) fn token(&self) -> Result<Option<String>, Failure> {
        self.token_file.as_deref().map(read_token).transpose()
    }

    /// Returns the other end of the connection: a server, or a child process on this machine.
    pub(super) fn target(&self) -> Result<Target, Failure> {
        if let Some(host) = &self.client {
            let (host, port) = (host.clone(), self.port);
            return Ok(Target::Server { host, port, token: self.token()? });
        }
        let network = match self.netns.as_deref() {
            None => Network::Loopback,
            Some("") => Network::New,
            Some(names) => match names.split_once(',') {
                Some((client, server)) => Network::Named([client, server].map(str::to_owned)),
                None => {
                    let text = format!("invalid --netns '{names}': expected two names, A,B");
                    return Err(Failure::new(text));
                }
            },
        };
        Ok(Target::Here(network))
    }

    /// Returns the measurement that the options request.
    pub(super) fn request(&self) -> Request {
        let mode = match (self.udp, self.request) {
            (true, _) => StreamMode::Udp,
            (_, true) => StreamMode::Request,
            _ => StreamMode::Tcp,
        };
        let mut buffers: Vec<Option<u32>> = self.buffer.iter().map(|buffer| buffer.0).collect();
        let is_single = self.send_buffer.is_some() || self.receive_buffer.is_some();
        if is_single && buffers.is_empty() {
            buffers.push(None);
        }
        let mut points = sweep(mode, &buffers, &self.message, &self.connections);
        for point in &mut points {
            point.send_buffer = self.send_buffer.map_or(point.send_buffer, |buffer| buffer.0);
            point.receive_buffer =
                self.receive_buffer.map_or(point.receive_buffer, |buffer| buffer.0);
        }
        Request {
            mode,
            points,
            time: Duration::from_secs_f64(self.time.unwrap_or(TIME)),
            rounds: self.rounds.unwrap_or(if self.compare { COMPARED_ROUNDS } else { ROUNDS }),
            seed: self.seed,
            reverse: self.reverse,
            nodelay: self.nodelay,
            rate_bits_per_s: self.rate,
            write_pause: self.write_pause.unwrap_or_default(),
            read_pause: self.read_pause.unwrap_or_default(),
            writes: self.writes,
            cpus: self.cpus,
            compare: self.compare,
            is_copy: |name, file| class_of(name, file) == CostClass::Copy,
        }
    }
}

fn read_token(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(format!("cannot read the token file {}: {error}", file.display()))
    })?;
    let token = text.trim();
    match token.len() >= TOKEN_LEAST {
        true => Ok(token.to_owned()),
        false => Err(Failure::new(format!(
            "the token in {} is shorter than {TOKEN_LEAST} characters; create one with `head -c 16 \
             /dev/urandom | base64`",
            file.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use linerate_record::stats::{CONFIDENCE, paired_ratio};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: StreamArgs,
    }

    #[test]
    fn a_comparison_has_enough_rounds_for_an_interval() {
        let rounds = |words: &[&str]| {
            let line = Line::try_parse_from([&["stream"][..], words].concat()).expect("options");
            line.args.request().rounds
        };
        assert_eq!((rounds(&[]), rounds(&["--compare", "--rounds", "2"])), (ROUNDS, 2));
        let ratios: Vec<f64> =
            (0..rounds(&["--compare"])).map(|round| 1.0 + round as f64).collect();
        let ratio = paired_ratio(&vec![1.0; ratios.len()], &ratios, CONFIDENCE);
        assert!(ratio.low.is_finite() && ratio.high.is_finite(), "{ratio:?}");
    }

    #[test]
    fn values_are_parsed_with_their_units() {
        assert_eq!(buffer("auto"), Ok(Buffer(None)));
        assert_eq!(buffer("16K"), Ok(Buffer(Some(16 << 10))));
        assert_eq!(rate("1Gb/s"), Ok(1_000_000_000));
        assert_eq!(cpu_pair("0,0"), Ok([0, 0]));
        assert_eq!(pause("5ms"), Ok(Duration::from_millis(5)));
        for bad in ["", "x", "0-1,2", "1", "1,2,3"] {
            assert!(cpu_pair(bad).is_err(), "{bad}");
        }
        assert!(buffer("5Q").is_err() && rate("fast").is_err() && pause("2s").is_err());
    }
}
