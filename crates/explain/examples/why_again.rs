// SPDX-License-Identifier: MIT OR Apache-2.0
//! Re-applies the current rules to `why` records, or to observations kept with `cargo xtask why
//! --keep FOLDER`, which begin with a line that contains the rate:
//! `cargo run -p linerate-explain --example why_again -- FILE…`.

use linerate_explain::why::explain;
use linerate_record::{Body, Record};

fn main() {
    for file in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&file).expect("a file that can be read");
        let (rate, record) = match text.split_once('\n') {
            Some((rate, record)) if !text.starts_with('{') => (rate, record),
            _ => ("-", text.as_str()),
        };
        let record = Record::from_json(record).expect("a record");
        let Body::Why(report) = record.body else { panic!("{file} is not a `why` record") };
        let name = file.rsplit('/').next().unwrap_or(&file);
        println!("{name} rate {rate}");
        for finding in explain(&report.observation) {
            let gain = finding.gain.percent.estimate();
            let gain = gain.map(|gain| format!("{:.0} to {:.0} %", gain.low, gain.high));
            println!(
                "    {} [{}] {} | {}",
                finding.cause.name(),
                gain.unwrap_or_default(),
                finding.sentence,
                finding.fix.unwrap_or_default()
            );
        }
    }
}
