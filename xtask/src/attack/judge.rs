// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks how a call ended.

use super::{Call, Done};
use linerate_record::{Figure, Record};

/// Exit statuses documented for every command.
const DOCUMENTED: [i32; 3] = [0, 1, 2];

/// Additional exit statuses of commands that start another program; the same as those of env(1).
const OF_ENV: [i32; 3] = [125, 126, 127];

/// Returns the finding about a call; `None` if it ended acceptably.
pub(crate) fn judge(call: &Call, done: &Done) -> Option<String> {
    if !done.changed.is_empty() {
        return Some(format!("inputs changed or missing: {}", done.changed.join(", ")));
    }
    if done.stderr.contains("panicked at") || done.stderr.contains("memory allocation of") {
        return Some(format!("panicked: {}", first_line(&done.stderr)));
    }
    let status = match done.status {
        None => return Some("did not end within the time limit".to_owned()),
        Some(Err(signal)) => return Some(format!("killed by signal {signal}")),
        Some(Ok(status)) => status,
    };
    let is_stat = call.words.first().is_some_and(|word| word == "stat");
    let is_known = DOCUMENTED.contains(&status)
        || is_stat && (OF_ENV.contains(&status) || is_status_of_killed(status, done))
        || call.statuses.contains(&status);
    if !is_known {
        return Some(format!("exit status {status}: {}", first_line(&done.stderr)));
    }
    if [2, 125].contains(&status) && done.stderr.is_empty() && !call.is_mute {
        return Some(format!("exit status {status} without a message"));
    }
    if done.stderr.contains('\u{1b}') || done.stdout.contains('\u{1b}') {
        return Some("the output contains an escape sequence".to_owned());
    }
    record_of(call, done).and_then(|json| wrong_record(&json))
}

/// Returns whether `status` means that a signal killed the command that linerate had started, and
/// the report says so. Without such a report, the signal may have killed linerate itself, and
/// `status` may come from the shell that ran it.
fn is_status_of_killed(status: i32, done: &Done) -> bool {
    let stated = format!("killed by signal {} ", status - 128);
    status > 128 && (done.stderr.contains(&stated) || done.stdout.contains(&stated))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Returns the printed record, if one was requested.
fn record_of(call: &Call, done: &Done) -> Option<String> {
    let has = |word: &str| call.words.iter().any(|w| w == word);
    let prints = has("--json") && !has("--list") && !has("--check") && !has("stages");
    (prints && done.stdout.starts_with('{') && done.status == Some(Ok(0)))
        .then(|| done.stdout.clone())
}

fn wrong_record(json: &str) -> Option<String> {
    let record = match Record::from_json(json) {
        Ok(record) => record,
        Err(error) => return Some(format!("the record cannot be read: {error}")),
    };
    let figures = record.figures();
    let wrong = figures.iter().find_map(|(name, figure)| Some((name, wrong_figure(figure)?)));
    wrong.map(|(name, why)| format!("figure {name}: {why}"))
}

fn wrong_figure(figure: &Figure) -> Option<&'static str> {
    let Some(value) = figure.as_number() else {
        let is_told = figure.reason.as_ref().is_some_and(|reason| !reason.is_empty());
        let is_text = matches!(figure.value, linerate_record::Scalar::Text(_));
        return (!is_told && !is_text).then_some("neither a value nor a reason");
    };
    let is_above = figure.low.is_some_and(|low| low > value);
    let is_below = figure.high.is_some_and(|high| high < value);
    (is_above || is_below).then_some("its value is outside its interval")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(status: i32, stderr: &str) -> Done {
        let (stdout, stderr) = (String::new(), stderr.to_owned());
        Done { status: Some(Ok(status)), stdout, stderr, changed: Vec::new() }
    }

    #[test]
    fn detects_exactly_the_faults() {
        let (run, stat) = (Call::new("run x"), Call::new("stat -- x"));
        for (call, done) in
            [(&run, done(0, "")), (&run, done(2, "linerate: no")), (&stat, done(127, "no"))]
        {
            assert_eq!(judge(call, &done), None);
        }
        let killed = done(137, "The command was killed by signal 9 (SIGKILL) after 119 ms");
        assert_eq!(judge(&stat, &killed), None);
        let panicked = "thread 'main' panicked at src/main.rs";
        for (call, done) in [
            (&run, done(2, "")),
            (&run, done(101, panicked)),
            (&run, done(1, panicked)),
            (&run, done(127, "no")),
            (&run, killed),
            (&stat, done(137, "The command took 119 ms")),
            (&run, done(0, "\u{1b}[2J")),
            (&run, Done { status: Some(Err(9)), ..done(0, "") }),
            (&run, Done { status: None, ..done(0, "") }),
            (&run, Done { changed: vec!["a".to_owned()], ..done(0, "") }),
            (&Call::new("run --json"), Done { stdout: "{}".to_owned(), ..done(0, "") }),
        ] {
            assert!(judge(call, &done).is_some(), "{done:?}");
        }
    }
}
