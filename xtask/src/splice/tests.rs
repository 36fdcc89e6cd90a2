// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;

/// Folders whose pages contain figures.
const RESULTS: [&str; 5] = [
    "docs/results",
    "docs/results/kernels",
    "docs/results/netra",
    "docs/results/rlp",
    "docs/results/tcp",
];

/// Common programs that pages call in addition to ours.
const COMMON: [&str; 8] = ["cat", "grep", "head", "mkdir", "sed", "tail", "tr", "uptime"];

/// Shell keywords and built-ins in figure commands.
const SHELL: [&str; 6] = ["for", "do", "done", "done'", "echo", "wait"];

const TEXT: &str = "a\n```\n$ b\n```\n```console\n$ c \\\n  d\nl1d_misses  1,000  x\n$ e\n```\nf\n\
                    > `$ g`\n\n| old |\n\n<!-- end -->\nh\n";

#[test]
fn replaces_output_and_nothing_else() {
    let mut ran = Vec::new();
    let now = spliced(TEXT, |command| {
        ran.push(command.to_owned());
        Ok(format!("l1d_misses  {}\n", 1020 * ran.len()))
    });
    let wanted = "a\n```\n$ b\n```\n```console\n$ c \\\n  d\nl1d_misses  1020\n$ e\n\
                  l1d_misses  2040\n```\nf\n> `$ g`\n\nl1d_misses  3060\n\n<!-- end -->\nh\n";
    assert_eq!(now.as_deref(), Ok(wanted));
    assert_eq!(ran, ["c \\\n  d", "e", "g"]);
    let again = spliced(wanted, |_| Ok("l1d_misses  1\n".to_owned())).unwrap();
    assert_eq!(spliced(&again, |_| Ok("l1d_misses  1".to_owned())), Ok(again.clone()));
}

#[test]
fn a_command_that_fails_and_a_block_without_end_are_errors() {
    assert_eq!(spliced(TEXT, |_| Err("no".to_owned())), Err("no".to_owned()));
    for text in ["> `$ a`\n| b |\n", "```console\n$ a\n", "```console\n$ a \\\n"] {
        assert!(spliced(text, |_| Ok(String::new())).is_err(), "{text}");
    }
}

#[test]
fn a_command_has_a_limit_and_its_status_counts() {
    assert_eq!(printed("echo a", 1).as_deref(), Ok("a\n"));
    assert!(printed("exit 3", 1).is_err());
    let words = ["--limit", "5", "a.md", "--check"];
    let wanted = Choice { files: vec!["a.md".to_owned()], is_check: true, limit: 5 };
    assert_eq!(choose(&words), Ok(wanted));
    for words in [&["--limit", "0", "a.md"][..], &["--limit"], &["--fast", "a.md"], &[]] {
        assert!(choose(words).is_err(), "{words:?}");
    }
}

#[test]
fn the_first_line_that_differs_is_named() {
    assert_eq!(difference("a.md", "b\nc\n", "b\nc\n"), None);
    let why = difference("a.md", "b\nc\n", "b\nd\n").unwrap();
    assert!(why.starts_with("a.md:2: was `c`, is `d`; `cargo xtask splice a.md`"), "{why}");
    assert!(difference("a.md", "b\n", "b\nc\n").unwrap().starts_with("a.md:2: was `the end`"));
}

#[test]
fn programs_of_a_line_are_found() {
    let of = |command| programs(command).collect::<Vec<_>>();
    assert_eq!(of("A=b linerate run | tail -n 7"), ["linerate", "tail"]);
    assert_eq!(of("mkdir -p a && figures b; cat c"), ["mkdir", "figures", "cat"]);
}

#[test]
fn counts_that_moved_are_found() {
    assert_eq!(compare(TEXT, "l1d_misses 1049"), Ok(()));
    assert!(compare(TEXT, "l1d_misses 1051").is_err());
    assert!(compare(TEXT, "l1d_misses 940").is_err());
    assert!(compare(TEXT, "l1d_misses 1000\nl1d_misses 1000").is_err());
    assert!(compare("", "").is_err());
    assert_eq!(compare("L1  32 KiB\n", "L1  48 KiB\nL1  1 ns\n"), Ok(()));
    assert!(compare("L1  32 KiB\nnoise  1 %\n", "L1  48 KiB\n").is_err());
}

/// Returns whether a package (or any package, if `None`) has an example or bench with this name, as
/// a directory or a file.
fn has(package: Option<&str>, name: &str) -> bool {
    let home = package.map(|package| package.trim_start_matches("linerate-"));
    let home = home.map(|home| if home == "linerate" { "cli" } else { home });
    let folders = ["crates", "examples", "lab"].map(|folder| fs::read_dir(root().join(folder)));
    folders.into_iter().flatten().flatten().flatten().any(|crate_of| {
        let file = crate_of.path().join(name);
        let is_home = home.is_none_or(|home| crate_of.file_name() == home);
        is_home && (file.is_dir() || file.with_extension("rs").exists())
    })
}

/// Checks that a program is cargo with something from this repository, one of ours, or one that
/// every system has. The error describes the problem.
fn is_ours(command: &str) -> Result<(), String> {
    for name in programs(command) {
        let known = ["cargo"].iter().chain(&OWN).chain(&COMMON).chain(&SHELL);
        let known = known.copied().any(|known| known == name);
        if !known {
            return Err(format!("`{name}` is not a program of ours"));
        }
    }
    // In a line with several commands, the options of cargo commands are checked.
    let cargo = command.split(['|', ';', '&']).find(|part| part.contains("cargo "));
    let words: Vec<&str> = cargo.unwrap_or_default().split_whitespace().collect();
    let given = |option: &str| {
        let place = words.iter().position(|word| *word == option)?;
        words.get(place + 1).copied()
    };
    if let Some(package) = given("-p") {
        let lock = read(&root().join("Cargo.lock"))?;
        if !lock.contains(&format!("name = \"{package}\"\nversion")) {
            return Err(format!("no package {package}"));
        }
    }
    for (option, folder) in [("--example", "examples"), ("--bench", "benches")] {
        let Some(name) = given(option) else { continue };
        if !has(given("-p"), &format!("{folder}/{name}")) {
            return Err(format!("no {folder}/{name}"));
        }
    }
    if let Some(rest) = command.strip_prefix("cargo xtask ") {
        // Quoted text is one word.
        let (plain, quoted) = rest.split_once('\'').map_or((rest, None), |(a, b)| (a, Some(b)));
        let words: Vec<&str> = plain.split_whitespace().chain(quoted).collect();
        crate::task(&words).map(drop)?;
    }
    Ok(())
}

#[test]
fn commands_of_pages_are_ours() {
    let mut seen = 0;
    for folder in RESULTS.into_iter().chain([TUTORIALS]) {
        for path in pages(folder).unwrap() {
            let ran = spliced(&read(&path).unwrap(), |command| {
                seen += 1;
                is_ours(command).map_err(|why| format!("`{command}`: {why}"))?;
                Ok(String::new())
            });
            assert!(ran.is_ok(), "{}: {ran:?}", path.display());
        }
    }
    assert!(seen > 50, "{seen} commands");
    for other in ["curl x", "cargo run -p nothing", "cargo xtask nothing", "cargo run --example x"]
    {
        assert!(is_ours(other).is_err(), "{other}");
    }
}

#[test]
fn commands_of_lists_of_figures_are_ours() {
    let mut seen = 0;
    for folder in RESULTS {
        let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|file| file.extension().is_some_and(|toml| toml == "toml")) {
            let list: toml::Table = read(&file).unwrap().parse().unwrap();
            let Some(commands) = list.get("command") else { continue };
            for command in commands.as_array().unwrap() {
                let run = command["run"].as_str().unwrap();
                is_ours(run).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen} commands");
}

/// Returns the tables and fenced blocks in results pages that are outside command blocks.
fn without_command(text: &str) -> Vec<String> {
    let rest = spliced(text, |_| Ok(String::new())).unwrap();
    let mut is_console = false;
    let mut found = Vec::new();
    for line in rest.lines() {
        let is_fence = line.starts_with("```");
        if is_fence && (is_console || line == "```console") {
            is_console = !is_console;
        } else if is_fence || line.starts_with('|') {
            found.push(line.to_owned());
        }
    }
    found
}

#[test]
fn figures_of_pages_have_their_command() {
    assert!(
        without_command(TEXT).contains(&"```".to_owned()),
        "a block without a command is found"
    );
    assert_eq!(without_command("| a |\n"), ["| a |"]);
    assert!(without_command("> `$ a`\n\n| a |\n\n<!-- end -->\n").is_empty());
    for folder in RESULTS {
        for path in pages(folder).unwrap() {
            let text = read(&path).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            let is_empty =
                lines.windows(3).any(|three| marked(three[0]).is_some() && three[2] == END);
            assert!(!is_empty, "{}: a command without what it prints", path.display());
            let found = without_command(&text);
            assert!(found.is_empty(), "{}: no command above {found:?}", path.display());
        }
    }
}
