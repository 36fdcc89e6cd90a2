// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors from planning a path for a chip.

use crate::Fault;
use linerate_plan::inputs::InputsError;
use linerate_record::units::three_digits;
use std::fmt;

/// Why a path cannot be planned.
#[derive(Clone, Debug, PartialEq)]
pub enum SimulationError {
    /// The costs or the available strands do not match the path.
    Inputs(InputsError),
    /// The mapping cannot be simulated.
    System(Fault),
    /// No packet gets through in the simulated time.
    NoPacket {
        /// Simulated time in nanoseconds.
        ns: f64,
        /// Stage that takes longest per packet, including polls.
        stage: String,
        /// Time in nanoseconds that this stage takes per packet when it is alone on its pipe.
        takes_ns: f64,
        /// Packets per flow that the line delivers in the simulated time; `None` if a packet is
        /// always waiting.
        offered: Option<f64>,
    },
}

impl fmt::Display for SimulationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inputs(error) => error.fmt(f),
            Self::System(fault) => write!(
                f,
                "this combination of [costs], [mapping] and [run] cannot be simulated: {fault}"
            ),
            Self::NoPacket { ns, stage, takes_ns, offered } => {
                let offered = offered.map_or_else(
                    || "always has a packet".to_owned(),
                    |packets| format!("delivers {} packets per flow", three_digits(packets)),
                );
                write!(
                    f,
                    "no packet gets through in {} simulated ns: the line {offered}, and `{stage}` \
                     takes {} ns per packet, polling included, according to [costs]; correct the \
                     stage's instructions and stalls in [[costs.stages]], or the rate in [run]",
                    three_digits(*ns),
                    three_digits(*takes_ns)
                )
            }
        }
    }
}

impl std::error::Error for SimulationError {}

impl From<InputsError> for SimulationError {
    fn from(error: InputsError) -> Self {
        Self::Inputs(error)
    }
}

impl From<Fault> for SimulationError {
    fn from(fault: Fault) -> Self {
        Self::System(fault)
    }
}
