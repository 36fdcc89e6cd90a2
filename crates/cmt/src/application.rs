// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes applications as data: what each strand does, and where every number comes from.
//!
//! An application is a TOML file of parameters, roles and configurations. A role is the work of one
//! strand for one flow; a configuration maps each role of each flow to a strand. A role refers to
//! its numbers by parameter name, so that a fit or a what-if analysis changes each number in one
//! place.

use super::chip::Chip;
use super::system::{
    Input, Misses, Poll, Queue, Runs, Source, Strand, System, Task, UnitUse, WhenFull, Work,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// An application, as read from its TOML file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// Name of the application in reports.
    pub name: String,
    /// Document that describes the application.
    pub source: String,
    /// Number of independent flows, each with its own link, queues and strands.
    pub flows: u32,
    /// The link that delivers the packets of each flow.
    pub line: LineSpec,
    /// Numbers that roles and the line refer to by name.
    #[serde(rename = "parameter")]
    pub parameters: BTreeMap<String, Parameter>,
    /// The queues between the roles. Each flow has its own.
    #[serde(rename = "queue")]
    pub queues: Vec<QueueSpec>,
    /// The roles, each of which is the work that one strand does for one flow.
    #[serde(rename = "role")]
    pub roles: Vec<Role>,
    /// Ways to place the roles on pipes, with the document's measurements where it has any.
    #[serde(default, rename = "configuration")]
    pub configurations: Vec<Configuration>,
}

/// A number in an application, with its origin.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Value of the number, in the unit that its name implies.
    pub value: f64,
    /// Whether the value is documented, fitted or assumed.
    pub origin: Origin,
    /// What the number means, or how it was computed.
    pub text: String,
    /// Lower bound for fits; `None` if the parameter is not fitted.
    pub low: Option<f64>,
    /// Upper bound for fits; `None` if the parameter is not fitted.
    pub high: Option<f64>,
}

/// Where a parameter's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Taken from the document, or computed from its numbers.
    Given,
    /// Fitted to make the model reproduce the observations.
    Fitted,
    /// Chosen as plausible, but neither documented nor fitted.
    Assumed,
}

impl Origin {
    /// Returns the keyword used in files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
        }
    }
}

/// The line on which a flow's packets arrive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineSpec {
    /// Name of the parameter that holds the rate in packets per second.
    pub packets_per_s: String,
    /// Capacity, in packets, of the interface's receive ring.
    pub ring: u32,
}

/// A queue between two of a flow's roles, as described in the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Name by which tasks refer to the queue.
    pub name: String,
    /// Capacity of the queue in packets.
    pub capacity: u32,
    /// Cycles until a change at one end of the queue is visible at the other.
    pub hand_over_cycles: u32,
    /// What a writer does when the queue is full.
    pub when_full: WhenFull,
}

/// A role: the work that one strand does for one flow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Name by which configurations refer to the role.
    pub name: String,
    /// Tasks that the strand executes in rotation.
    #[serde(rename = "task")]
    pub tasks: Vec<TaskSpec>,
}

/// One of a role's tasks. The strings are parameter names, except for `input` and `output`. An
/// omitted parameter is 0, except that `instructions` is 1.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// Input to poll: `line` or a queue name. Without an input, the task polls but never finds a
    /// packet.
    pub input: Option<String>,
    /// Name of the queue to write packets to; without one, packets leave the system.
    pub output: Option<String>,
    /// Parameter with the number of instructions per poll.
    pub poll_instructions: String,
    /// Parameter with the stall time of a successful poll, in nanoseconds.
    pub packet_stall_ns: Option<String>,
    /// Parameter with the stall time of an empty poll, in nanoseconds.
    pub empty_stall_ns: Option<String>,
    /// Parameter with the number of cycles that the strand pauses after an empty poll.
    pub slow_cycles: Option<String>,
    /// Parameter with the number of instructions per packet; must be absent in a task without
    /// input.
    pub instructions: Option<String>,
    /// Parameter with the mean number of L1 misses per packet.
    pub l1_misses: Option<String>,
    /// Parameter with the mean number of L2 misses per packet.
    pub l2_misses: Option<String>,
}

/// A placement of roles on pipes, with its measurements if there are any.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Name of the configuration in the document.
    pub name: String,
    /// What each pipe's strands do: `ROLE FLOW`, `while(1)` or `parked`.
    pub pipes: Vec<Vec<String>>,
    /// What the document reports as measured; `None` if it reports nothing.
    pub observed: Option<Observed>,
}

/// What the document reports as measured in a configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// Measured rate per flow in kpps.
    pub kpps: f64,
    /// Measured cycles per instruction (CPI), by role.
    pub cpi: BTreeMap<String, f64>,
}

/// Why an application cannot be read or placed on a chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadApplication {
    /// The text is not a valid application. Holds the parser's message.
    Text(String),
    /// A name refers to an item that does not exist.
    Unknown {
        /// Kind of the missing item: `parameter`, `role`, `flow`, `queue` or `configuration`.
        what: &'static str,
        /// The undefined name.
        name: String,
    },
    /// The configuration needs more pipes or strands than the chip has.
    TooSmall {
        /// Name of the chip.
        chip: String,
        /// Which resource is insufficient: `pipes` or `strands per pipe`.
        what: &'static str,
        /// Number of `pipes` or `strands per pipe` that the configuration needs.
        needed: usize,
        /// Number of `pipes` or `strands per pipe` that the chip has.
        has: u32,
    },
}

impl fmt::Display for BadApplication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text.trim_end()),
            Self::Unknown { what, name } => {
                write!(f, "the application has no {what} `{name}`; add it or fix the name")
            }
            Self::TooSmall { chip, what, needed, has } => {
                write!(f, "the configuration needs {needed} {what}, but {chip} has {has}")
            }
        }
    }
}

impl std::error::Error for BadApplication {}

/// Built-in applications, by name.
const BUILT_IN: [(&str, &str); 1] = [("rlp", include_str!("../data/applications/rlp.toml"))];

impl Application {
    /// Returns the built-in application with this name.
    pub fn named(word: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(built_in, _)| *built_in == word)?;
        Some(Self::from_toml(text).expect("built-in files are valid: a test checks them"))
    }

    /// Parses an application from TOML.
    ///
    /// # Errors
    /// Returns an error if the text is not TOML, or if a key is missing, unknown or of the wrong
    /// type.
    pub fn from_toml(text: &str) -> Result<Self, BadApplication> {
        toml::from_str(text).map_err(|error| BadApplication::Text(error.to_string()))
    }

    /// Returns a parameter's value.
    ///
    /// # Errors
    /// Returns an error if there is no such parameter.
    pub fn value(&self, name: &str) -> Result<f64, BadApplication> {
        let unknown = || BadApplication::Unknown { what: "parameter", name: name.to_owned() };
        Ok(self.parameters.get(name).ok_or_else(unknown)?.value)
    }

    /// Returns the configuration with this name.
    ///
    /// # Errors
    /// Returns an error if there is no such configuration.
    pub fn configuration(&self, name: &str) -> Result<&Configuration, BadApplication> {
        let unknown = || BadApplication::Unknown { what: "configuration", name: name.to_owned() };
        let named = |configuration: &&Configuration| configuration.name == name;
        self.configurations.iter().find(named).ok_or_else(unknown)
    }

    /// Places the application on a chip. `pipes` lists what each pipe's strands do.
    ///
    /// # Errors
    /// Returns an error if a name is undefined or the chip is too small. Call [`System::check`] to
    /// verify that the result can be simulated.
    pub fn on(&self, chip: &Chip, pipes: &[Vec<String>]) -> Result<System, BadApplication> {
        let too_small = |what, needed, has| {
            let chip = chip.name.clone();
            Err(BadApplication::TooSmall { chip, what, needed, has })
        };
        if pipes.len() > chip.pipes() as usize {
            return too_small("pipes", pipes.len(), chip.pipes());
        }
        let mut strands = Vec::new();
        for (pipe, words) in (0..).zip(pipes) {
            if words.len() > chip.strands_per_pipe as usize {
                return too_small("strands per pipe", words.len(), chip.strands_per_pipe);
            }
            for (place, word) in (0..).zip(words) {
                let cpu = pipe * chip.strands_per_pipe + place;
                strands.push(Strand { name: word.clone(), cpu, runs: self.runs(chip, word)? });
            }
        }
        let queue = |queue: &QueueSpec| Queue {
            capacity: queue.capacity,
            hand_over_cycles: queue.hand_over_cycles,
            when_full: queue.when_full,
        };
        let source =
            Source { packets_per_s: self.value(&self.line.packets_per_s)?, ring: self.line.ring };
        Ok(System {
            chip: chip.clone(),
            strands,
            queues: (0..self.flows).flat_map(|_| self.queues.iter().map(queue)).collect(),
            sources: vec![source; self.flows as usize],
        })
    }

    fn runs(&self, chip: &Chip, word: &str) -> Result<Runs, BadApplication> {
        match word {
            "while(1)" => return Ok(Runs::Busy),
            "parked" => return Ok(Runs::Parked),
            _ => {}
        }
        let unknown = |what, name: &str| BadApplication::Unknown { what, name: name.to_owned() };
        let (name, flow) = word.rsplit_once(' ').ok_or_else(|| unknown("role", word))?;
        let flow = flow.parse::<u32>().ok().filter(|flow| *flow < self.flows);
        let flow = flow.ok_or_else(|| unknown("flow", word))?;
        let role = self.roles.iter().find(|role| role.name == name);
        let role = role.ok_or_else(|| unknown("role", name))?;
        let tasks = role.tasks.iter().map(|task| self.task(chip, task, flow as usize));
        Ok(Runs::Packets {
            bubble_cycles: self.value("bubble_cycles")?,
            tasks: tasks.collect::<Result<_, _>>()?,
        })
    }

    fn task(&self, chip: &Chip, task: &TaskSpec, flow: usize) -> Result<Task, BadApplication> {
        let or_zero =
            |name: &Option<String>| name.as_ref().map_or(Ok(0.0), |name| self.value(name));
        let cycles = |ns: f64| ns * chip.clock_hz / 1e9;
        let queue = |name: &String| {
            let found = self.queues.iter().position(|queue| queue.name == *name);
            let unknown = || BadApplication::Unknown { what: "queue", name: name.clone() };
            Ok(flow * self.queues.len() + found.ok_or_else(unknown)?)
        };
        let instructions = task.instructions.as_ref().map_or(Ok(1.0), |name| self.value(name))?;
        let uses = match (chip.unit("lsu"), &task.input) {
            (Some(unit), Some(_)) => {
                vec![UnitUse { unit, per_packet: self.value("lsu_uses")? * instructions }]
            }
            _ => Vec::new(),
        };
        Ok(Task {
            input: match &task.input {
                None => Input::Nothing,
                Some(line) if line == "line" => Input::Source(flow),
                Some(name) => Input::Queue(queue(name)?),
            },
            poll: Poll {
                instructions: self.value(&task.poll_instructions)?,
                packet_stall_cycles: cycles(or_zero(&task.packet_stall_ns)?),
                empty_stall_cycles: cycles(or_zero(&task.empty_stall_ns)?),
                slow_cycles: or_zero(&task.slow_cycles)?,
            },
            work: Work {
                instructions,
                misses: Misses { l1: or_zero(&task.l1_misses)?, l2: or_zero(&task.l2_misses)? },
                units: uses,
            },
            outputs: task.output.iter().map(queue).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processor::Processor;

    fn rlp() -> Application {
        Application::named("rlp").unwrap()
    }

    fn t1() -> Chip {
        Chip::new(&Processor::named("t1").unwrap()).unwrap()
    }

    /// Recomputes the parameters marked as given from the document's tables.
    #[test]
    fn given_parameters_follow_from_the_tables() {
        let cycles = |kpps: f64| 1.2e6 / kpps;
        let instructions = |kpps: f64, cpi: f64| cycles(kpps) / cpi;
        let misses = |cost: f64, latency: f64, instructions: f64| cost / latency * instructions;
        let rx = instructions(310.0, 8.53);
        let (rlp_all, tx_all) = (instructions(310.0, 3.91), instructions(310.0, 2.82));
        let both = rx + 15.0;
        let rxtx = instructions(224.0, 12.51);
        let wanted = [
            ("line_packets_per_s", 1e9 / (362.0 * 8.0)),
            ("rx_instructions", rx - 20.0),
            ("rx_l1_misses", misses(1.43, 23.0, rx)),
            ("rx_l2_misses", misses(1.8, 108.0, rx)),
            ("rlp_l1_misses", misses(0.33, 23.0, rlp_all)),
            ("rlp_l2_misses", misses(0.7, 108.0, rlp_all)),
            ("tx_l1_misses", misses(0.13, 23.0, tx_all)),
            ("tx_l2_misses", misses(0.1, 108.0, tx_all)),
            ("rxtx_rx_l1_misses", misses(1.76, 23.0, both)),
            ("rxtx_rx_l2_misses", misses(1.73, 108.0, both)),
            ("rxtx_tx_l1_misses", misses(1.89, 23.0, rxtx)),
            ("rxtx_tx_l2_misses", misses(0.93, 108.0, rxtx)),
        ];
        let application = rlp();
        for (name, wanted) in wanted {
            let value = application.value(name).unwrap();
            assert!((value / wanted - 1.0).abs() < 1e-3, "{name}: {value} for {wanted}");
        }
        let given = |parameter: &&Parameter| parameter.origin == Origin::Given;
        assert_eq!(application.parameters.values().filter(given).count(), wanted.len());
    }

    #[test]
    fn at_most_five_parameters_are_fitted_and_each_within_bounds() {
        let application = rlp();
        let fitted = application.parameters.values().filter(|p| p.origin == Origin::Fitted);
        let within = |p: &&Parameter| (p.low.unwrap()..=p.high.unwrap()).contains(&p.value);
        assert_eq!(fitted.clone().count(), 5);
        assert_eq!(fitted.filter(within).count(), 5);
    }

    #[test]
    fn configurations_become_systems() {
        let application = rlp();
        for configuration in &application.configurations {
            let system = application.on(&t1(), &configuration.pipes).unwrap();
            assert_eq!(system.check(), Ok(()));
            assert_eq!((system.strands.len(), system.queues.len()), (32, 8));
        }
        let chip = Chip::new(&Processor::named("t2").unwrap()).unwrap();
        let two = application.configuration("2").unwrap();
        let system = application.on(&chip, &two.pipes).unwrap();
        let Runs::Packets { tasks, .. } = &system.strands[0].runs else {
            panic!("handles packets")
        };
        assert!(!tasks[0].work.units.is_empty(), "loads and stores share a unit");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            rlp().on(&t1(), &[words]).unwrap_err().to_string()
        };
        assert!(said(&["PDSN 0"]).contains("no role `PDSN`"));
        assert!(said(&["RLP 4"]).contains("no flow `RLP 4`"));
        assert!(said(&["RLP"]).contains("no role `RLP`"));
        assert!(said(&["parked"; 5]).contains("needs 5 strands per pipe, but"));
        let pipes = vec![Vec::new(); 9];
        assert!(rlp().on(&t1(), &pipes).unwrap_err().to_string().contains("needs 9 pipes, but"));
        assert!(rlp().configuration("3").unwrap_err().to_string().contains("`3`"));
        let spoilt = BUILT_IN[0].1.replace("value = 20.0", "valu = 20.0");
        assert!(Application::from_toml(&spoilt).unwrap_err().to_string().contains("valu"));
        let mut spoilt = rlp();
        spoilt.roles[1].tasks[0].output = Some("elsewhere".to_owned());
        let two = spoilt.configuration("2").unwrap().pipes.clone();
        assert!(spoilt.on(&t1(), &two).unwrap_err().to_string().contains("queue `elsewhere`"));
    }
}
