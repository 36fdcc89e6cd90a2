// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask compare`: measures the effect of a change. Two commands run in pairs, in random
//! order, and each figure's ratio is computed per pair; the table is printed from the stored pairs.
//!
//! Each line of the file is one figure in one pair: pair number, figure name, and its value before
//! and after, separated by tabs.

use crate::command::{output, program, root};
use linerate_record::random::Random;
use linerate_record::stats::{CONFIDENCE, interval_name, median, median_interval};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

/// What to do with a file of pairs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    file: PathBuf,
    what: What,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    /// Print the ratios. With `is_grouped`, print each group's median ratio; a group consists of
    /// the figures whose names differ only in the last word.
    Print { is_grouped: bool },
    /// Measure pairs and append them to the file.
    Measure { pairs: u32, figures: Figures, commands: [String; 2] },
}

/// Figures of each command that are compared.
#[derive(Debug, PartialEq, Eq)]
enum Figures {
    /// Figures in the command's record whose names have one of these endings.
    Record(Vec<String>),
    /// Figures in a table that the command prints: the values in this column, each named by the
    /// number in the first column.
    Column(usize),
}

/// One line of the file: one figure in one pair.
#[derive(Clone, Debug, PartialEq)]
struct Pair {
    number: u32,
    figure: String,
    before: f64,
    after: f64,
}

/// Time limit for a command in seconds.
const LIMIT_S: &str = "600";
const HOW: &str = "usage: cargo xtask compare FILE [--grouped], or cargo xtask compare FILE PAIRS \
                   FIGURE,... BEFORE AFTER";

/// Parses the arguments of `compare`.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let (file, what) = match words {
        [file] => (file, What::Print { is_grouped: false }),
        [file, "--grouped"] => (file, What::Print { is_grouped: true }),
        [file, pairs, figures, before, after] => {
            let pairs = pairs.parse().map_err(|_| format!("compare: invalid number `{pairs}`"))?;
            let figures = match figures.parse() {
                Ok(column) => Figures::Column(column),
                Err(_) => Figures::Record(figures.split(',').map(str::to_owned).collect()),
            };
            let commands = [before, after].map(|command| (*command).to_owned());
            (file, What::Measure { pairs, figures, commands })
        }
        _ => return Err(HOW.to_owned()),
    };
    Ok(Choice { file: root().join(file), what })
}

/// Measures or prints.
pub(crate) fn run(choice: &Choice) -> Result<(), String> {
    let shown = choice.file.display();
    match &choice.what {
        What::Print { is_grouped } => {
            let text = fs::read_to_string(&choice.file).map_err(|e| format!("{shown}: {e}"))?;
            print!("{}", table(&pairs(&text)?, *is_grouped));
            Ok(())
        }
        What::Measure { pairs, figures, commands } => {
            let at = |e: std::io::Error| format!("{shown}: {e}");
            let mut options = OpenOptions::new();
            let mut file = options.create(true).append(true).open(&choice.file).map_err(at)?;
            let known = self::pairs(&fs::read_to_string(&choice.file).map_err(at)?)?;
            let first = next_number(&known);
            let mut random = Random::new(u64::from(first));
            for number in first..first + pairs {
                let text = measure(number, figures, commands, random.below(2))?;
                file.write_all(text.as_bytes()).map_err(at)?;
            }
            Ok(())
        }
    }
}

/// Returns the number of a run's first pair; numbers already in the file are not reused.
fn next_number(known: &[Pair]) -> u32 {
    known.iter().map(|pair| pair.number).max().map_or(1, |last| last + 1)
}

/// Measures a pair, running command `first` first, and returns the pair's lines.
fn measure(
    number: u32,
    figures: &Figures,
    commands: &[String; 2],
    first: usize,
) -> Result<String, String> {
    let mut values = [Vec::new(), Vec::new()];
    for which in [first, 1 - first] {
        // Both commands get the same random seed.
        let command = commands[which].replace("{seed}", &number.to_string());
        values[which] = match figures {
            Figures::Record(ends) => {
                let line = format!("{command} | linerate export - --format csv");
                of_record(&text_of(&line)?, ends)
            }
            Figures::Column(column) => of_table(&text_of(&command)?, *column),
        };
    }
    let [before, after] = &values;
    let mut text = String::new();
    for (figure, before) in before {
        let Some((_, after)) = after.iter().find(|(name, _)| name == figure) else { continue };
        let _ = writeln!(text, "{number}\t{figure}\t{before}\t{after}");
    }
    match text.is_empty() {
        true => Err("compare: none of the figures is in the outputs of both commands".to_owned()),
        false => Ok(text),
    }
}

fn text_of(line: &str) -> Result<String, String> {
    let line = format!("set -o pipefail; {line}");
    let limited = ["--kill-after=5", LIMIT_S, "bash", "-c", &line];
    String::from_utf8(output(program("timeout", &limited))?).map_err(|e| e.to_string())
}

/// Returns the figures in a record (as CSV) whose names end in one of `ends`. If there is only one
/// ending, it is removed from the names.
fn of_record(csv: &str, ends: &[String]) -> Vec<(String, f64)> {
    let figure = |line: &str| {
        let cells: Vec<&str> = line.splitn(5, ',').collect();
        let value = cells.get(3)?.parse().ok()?;
        let words: Vec<&str> = cells[..3].iter().copied().filter(|word| !word.is_empty()).collect();
        let name = words.join(" ");
        let end = ends.iter().find(|end| name.ends_with(end.as_str()))?;
        let kept = if ends.len() == 1 { name[..name.len() - end.len()].trim() } else { &name };
        Some((if kept.is_empty() { "all" } else { kept }.to_owned(), value))
    };
    csv.lines().skip(1).filter_map(figure).collect()
}

/// Returns a table column, from the rows that begin with a number.
fn of_table(text: &str, column: usize) -> Vec<(String, f64)> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        cells.first()?.parse::<f64>().ok()?;
        Some((cells[0].to_owned(), cells.get(column.checked_sub(1)?)?.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

fn pairs(text: &str) -> Result<Vec<Pair>, String> {
    let pair = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [number, figure, before, after] = cells[..] else { return None };
        Some(Pair {
            number: number.parse().ok()?,
            figure: figure.to_owned(),
            before: before.parse().ok()?,
            after: after.parse().ok()?,
        })
    };
    text.lines().map(|line| pair(line).ok_or_else(|| format!("invalid pair: `{line}`"))).collect()
}

fn group(figure: &str) -> &str {
    figure.rsplit_once(' ').map_or(figure, |(group, _)| group)
}

/// Formats one row per figure, in file order.
fn table(pairs: &[Pair], is_grouped: bool) -> String {
    let name = |pair: &Pair| match is_grouped {
        true => group(&pair.figure).to_owned(),
        false => pair.figure.clone(),
    };
    let mut names: Vec<String> = Vec::new();
    for pair in pairs {
        let name = name(pair);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut text = format!(
        "| figure | before | after / before ({}) | pairs |\n|---|---:|---|---:|\n",
        interval_name()
    );
    for wanted in names {
        let of_name: Vec<&Pair> = pairs.iter().filter(|pair| name(pair) == wanted).collect();
        let before: Vec<f64> = of_name.iter().map(|pair| pair.before).collect();
        let ratios = ratios(&of_name);
        let ratio = median_interval(&ratios, CONFIDENCE);
        let _ = writeln!(
            text,
            "| {wanted} | {:.3} | {:.3} ({:.3} to {:.3}) | {} |",
            median(&before).unwrap_or(f64::NAN),
            ratio.value,
            ratio.low,
            ratio.high,
            ratio.n
        );
    }
    text
}

/// Returns each pair's ratio: the median over its figures.
fn ratios(pairs: &[&Pair]) -> Vec<f64> {
    let mut numbers: Vec<u32> = pairs.iter().map(|pair| pair.number).collect();
    numbers.dedup();
    let of_number = |number: u32| {
        let of_pair = pairs.iter().filter(|pair| pair.number == number);
        median(&of_pair.map(|pair| pair.after / pair.before).collect::<Vec<_>>())
    };
    numbers.into_iter().filter_map(of_number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_named_by_their_place_in_the_record() {
        let csv = "worker,stage,name,value,unit\n,,ticks_per_packet,9.5,ticks\n\
                   0.0,parse,ticks_per_packet,2,ticks\n0.0,parse,busy,1,\n\
                   ,,finding,\"a, 3\",text\n";
        let named = |ends: &[&str]| {
            let ends: Vec<String> = ends.iter().map(|end| (*end).to_owned()).collect();
            of_record(csv, &ends)
        };
        let found = named(&["ticks_per_packet"]);
        assert_eq!(found, [("all".to_owned(), 9.5), ("0.0 parse".to_owned(), 2.0)]);
        assert_eq!(named(&["busy", "none"]), [("0.0 parse busy".to_owned(), 1.0)]);
        let printed = "million items\n burst linerate\n     8     73.9   0.9\n";
        assert_eq!(of_table(printed, 2), [("8".to_owned(), 73.9)]);
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        // The machine is half as fast in the second pair.
        let text = "1\ta x\t10\t11\n1\ta y\t20\t24\n2\ta x\t20\t22\n2\ta y\t40\t48\n";
        let pairs = pairs(text).expect("pairs");
        let alone = table(&pairs, false);
        assert!(alone.contains("| a x | 15.000 | 1.100 (") && alone.contains("| 2 |"), "{alone}");
        let grouped = table(&pairs, true);
        assert!(grouped.contains("| a | 20.000 | 1.150 ("), "{grouped}");
        assert!(super::pairs("1\ta\t2\n").is_err());
        assert_eq!((next_number(&pairs), next_number(&[])), (3, 1));
    }

    #[test]
    fn words_print_or_measure() {
        let print = choose(&["x.tsv", "--grouped"]).expect("known");
        assert_eq!(print.what, What::Print { is_grouped: true });
        let measure = choose(&["x.tsv", "3", "2", "a", "b"]).expect("known");
        assert!(matches!(
            measure.what,
            What::Measure { pairs: 3, figures: Figures::Column(2), .. }
        ));
        assert!(choose(&[]).is_err() && choose(&["x", "many", "a", "b", "c"]).is_err());
    }
}
