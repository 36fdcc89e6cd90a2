// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pipes and FIFOs that processes write to. If the reader of a pipe is slow, the process waits for
//! it, possibly in poll(2) or a similar call, whose arguments do not show the pipe.

use crate::descriptors::DescriptorInfo;
use crate::sleep::of_kind;
use linerate_machine::Root;
use linerate_record::why::OutputPipe;

/// Maximum number of processes, of descriptors per process, and of pipes. The descriptors of pipes
/// with which a program was started have low numbers.
const PROCESSES: usize = 16;
const DESCRIPTORS: u32 = 64;
const PIPES: usize = 16;

/// Returns the pipes that the processes `pids` have open for writing only. A process that can also
/// read from the pipe uses it to wake itself up.
pub(crate) fn output_pipes(root: &Root, pids: &[u32]) -> Vec<OutputPipe> {
    let pids = pids.iter().take(PROCESSES);
    pids.flat_map(|&pid| of_process(root, pid)).take(PIPES).collect()
}

fn of_process(root: &Root, pid: u32) -> Vec<OutputPipe> {
    let pipes = (0..DESCRIPTORS).filter_map(|descriptor| {
        let path = root.path(&format!("proc/{pid}/fd/{descriptor}"));
        let link = std::fs::read_link(&path).ok()?.to_string_lossy().into_owned();
        let is_pipe = link.starts_with("pipe:[");
        if !is_pipe && !link.starts_with('/') {
            return None;
        }
        let is_written = DescriptorInfo::of(root, pid, descriptor)?.is_write_only();
        // Asking for the kind of a file may take long on a network file system. Of descriptors that
        // are not only written, the link is enough.
        let name = match is_pipe || !is_written {
            true => "pipe".to_owned(),
            false => Some(of_kind(&path, link.clone())).filter(|it| it.starts_with("fifo "))?,
        };
        Some((link, is_written, OutputPipe { pid, descriptor, name }))
    });
    let pipes: Vec<_> = pipes.collect();
    let is_read = |link: &str| pipes.iter().any(|(other, writes, _)| other == link && !writes);
    let written = pipes.iter().filter(|(link, writes, _)| *writes && !is_read(link));
    written.map(|(.., pipe)| pipe.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn outputs_that_are_pipes_are_found() {
        let place = tempfile::tempdir().unwrap();
        let fifo = place.path().join("log");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let _reader = std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        let root = Root::new(std::path::Path::new("/"));
        // Input and output of the shell are pipes.
        let found = |opens: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("exec {opens}; echo; read line")]);
            let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut shell = shell.spawn().unwrap();
            let mut output = BufReader::new(shell.stdout.take().unwrap());
            output.read_line(&mut String::new()).unwrap();
            let pipes = output_pipes(&root, &[shell.id()]);
            assert!(pipes.iter().all(|pipe| pipe.pid == shell.id()));
            shell.wait().unwrap();
            pipes.into_iter().map(|pipe| (pipe.descriptor, pipe.name)).collect::<Vec<_>>()
        };
        let (path, of_pipe) = (fifo.display(), (1, "pipe".to_owned()));
        // One that the process can also read.
        assert_eq!(found(&format!("3>{path} 4<>{path}")), std::slice::from_ref(&of_pipe));
        assert_eq!(found(&format!("3>{path}")), [of_pipe, (3, format!("fifo {path}"))]);
    }
}
