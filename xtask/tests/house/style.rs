// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the project's vocabulary: words that a clean directory must not use, as listed in
//! `style.toml`.

use crate::prose::{Placed, Token, words};
use crate::tree::{File, files};
use std::collections::BTreeMap;

const DATA: &str = include_str!("style.toml");

/// A word that must not be used, with its phrases and exceptions.
struct Entry {
    word: String,
    phrases: Vec<Vec<String>>,
    instead: String,
    allowed: Vec<Vec<String>>,
}

/// Files that may use some of these words.
struct Quote {
    paths: Vec<String>,
    words: Vec<String>,
}

struct Style {
    clean: Vec<String>,
    quotes: Vec<Quote>,
    entries: Vec<Entry>,
}

/// Returns the list of texts for a key.
fn texts(table: &toml::Table, key: &str) -> Vec<String> {
    let list = table.get(key).and_then(|value| value.as_array());
    let text = |value: &toml::Value| value.as_str().expect("a list of texts").to_owned();
    list.map_or_else(Vec::new, |list| list.iter().map(text).collect())
}

fn text(table: &toml::Table, key: &str) -> String {
    let value = table.get(key).and_then(|value| value.as_str());
    value.unwrap_or_else(|| panic!("style.toml: `{key}` is missing in {table:?}")).to_owned()
}

fn phrases(table: &toml::Table, key: &str) -> Vec<Vec<String>> {
    let words = |phrase: String| phrase.split(' ').map(str::to_owned).collect();
    texts(table, key).into_iter().map(words).collect()
}

fn tables<'a>(data: &'a toml::Table, key: &str) -> impl Iterator<Item = &'a toml::Table> {
    let list = data[key].as_array().expect("an array of tables");
    list.iter().map(|value| value.as_table().expect("a table"))
}

fn style() -> Style {
    let data: toml::Table = DATA.parse().expect("style.toml is TOML");
    let entry = |table| Entry {
        word: text(table, "word"),
        phrases: phrases(table, "phrases"),
        instead: text(table, "instead"),
        allowed: phrases(table, "allowed"),
    };
    let quote = |table| {
        text(table, "why");
        Quote { paths: texts(table, "paths"), words: texts(table, "words") }
    };
    Style {
        clean: texts(&data, "clean"),
        quotes: tables(&data, "quotes").map(quote).collect(),
        entries: tables(&data, "words").map(entry).collect(),
    }
}

/// Returns whether a file is in a folder, or is that path itself.
fn is_within(path: &str, folder: &str) -> bool {
    folder == "." || path.strip_prefix(folder).is_some_and(|r| r.is_empty() || r.starts_with('/'))
}

/// Returns whether a phrase begins at the first of these tokens.
fn begins(tokens: &[Placed], phrase: &[String]) -> bool {
    let is_word = |(placed, wanted): (&Placed, &String)| match &placed.token {
        Token::Word(word) => wanted == "*" || word == wanted,
        Token::Break => false,
    };
    tokens.len() >= phrase.len() && tokens.iter().zip(phrase).all(is_word)
}

impl Style {
    /// Describes the words in a file that it may not use.
    fn faults(&self, file: &File) -> Vec<String> {
        let tokens = words(file);
        let quoted = |entry: &Entry| {
            let by = |quote: &&Quote| quote.words.iter().any(|w| *w == "*" || *w == entry.word);
            let is_of = |quote: &Quote| quote.paths.iter().any(|path| is_within(&file.path, path));
            self.quotes.iter().filter(by).any(is_of)
        };
        let mut faults = Vec::new();
        for entry in self.entries.iter().filter(|entry| !quoted(entry)) {
            faults.extend(entry.faults(&tokens).into_iter().map(|(line, found)| {
                (line, format!("{}:{line}: `{found}`; write: {}", file.path, entry.instead))
            }));
        }
        faults.sort();
        faults.into_iter().map(|(_, fault)| fault).collect()
    }
}

impl Entry {
    /// Returns the line and words of each use that is not allowed.
    fn faults(&self, tokens: &[Placed]) -> Vec<(usize, String)> {
        // Lengths of the allowed phrases that begin at each token; most tokens have none.
        let mut allowed = BTreeMap::new();
        let mut found = Vec::new();
        for at in 0..tokens.len() {
            let rest = &tokens[at..];
            for phrase in self.allowed.iter().filter(|phrase| begins(rest, phrase)) {
                allowed.insert(at, phrase.len());
            }
            let Some(phrase) = self.phrases.iter().find(|phrase| begins(rest, phrase)) else {
                continue;
            };
            found.push((at, phrase));
        }
        let is_allowed = |at: usize, length: usize| {
            allowed.iter().any(|(from, span)| *from <= at && at + length <= from + span)
        };
        found.retain(|(at, phrase)| !is_allowed(*at, phrase.len()));
        found.into_iter().map(|(at, phrase)| (tokens[at].line, phrase.join(" "))).collect()
    }
}

#[test]
fn clean_folders_use_the_words_of_the_project() {
    let style = style();
    let asked = std::env::var("STYLE").ok();
    let folders = asked.map_or(style.clean.clone(), |folder| vec![folder]);
    let all = files();
    for folder in &folders {
        assert!(all.iter().any(|f| is_within(&f.path, folder)), "there is no {folder}");
    }
    let is_clean = |file: &&File| folders.iter().any(|folder| is_within(&file.path, folder));
    let faults: Vec<String> =
        all.iter().filter(is_clean).flat_map(|file| style.faults(file)).collect();
    assert!(faults.is_empty(), "{}\n{} in all", faults.join("\n"), faults.len());
}

#[test]
fn every_word_of_the_style_is_found() {
    let style = style();
    assert!(style.entries.len() > 30, "the list is not read");
    for entry in &style.entries {
        assert!(!entry.phrases.is_empty(), "`{}` has no phrases", entry.word);
        for phrase in &entry.phrases {
            let spelled = phrase.join(" ").replace('*', "word");
            for text in [
                format!("// It {spelled}, always.\n"),
                format!("/// It is\n/// {}, always.\n", spelled.replace(' ', "\n    /// ")),
                format!("const A: &str = \"it {} always: {{a}}\";\n", spelled.to_uppercase()),
                format!("const A: &str = r#\"a \"{spelled}\" b\"#;\n"),
                format!("fn a_{}_b() {{}}\n", spelled.replace(' ', "_")),
            ] {
                found_once(&style, entry, "crates/none/src/a.rs", &text);
            }
            let prose = format!("# A\n\nIt is {}.\n", spelled.replace(' ', "\n"));
            found_once(&style, entry, "docs/a.md", &prose);
            found_once(&style, entry, "native/a.c", &format!("/* {spelled} */ int a;\n"));
            found_once(&style, entry, "examples/a.toml", &format!("a = 1 # {spelled}\n"));
        }
        for phrase in &entry.allowed {
            let text = format!("// It {} x.\n", phrase.join(" ").replace('*', "word"));
            let file = File { path: "crates/none/src/a.rs".to_owned(), text };
            assert!(entry.faults(&words(&file)).is_empty(), "{}", file.text);
            let has = |inner: &Vec<String>| phrase.windows(inner.len()).any(|w| w == inner);
            assert!(entry.phrases.iter().any(has), "`{}` allows nothing", phrase.join(" "));
        }
    }
}

/// Checks that a text contains the word, and that the word is reported.
fn found_once(style: &Style, entry: &Entry, path: &str, text: &str) {
    let file = File { path: path.to_owned(), text: text.to_owned() };
    let message = |fault: &String| fault.ends_with(&format!("; write: {}", entry.instead));
    assert!(style.faults(&file).iter().any(message), "`{}` is not found in {text}", entry.word);
}

#[test]
fn code_output_and_quotes_are_left_out() {
    let style = style();
    for (path, text) in [
        ("docs/a.md", "`told` and [x](told.md)\n\n```\ntold\n```\n[told]: told.md\n"),
        ("docs/a.md", "It was made. Up it went.\n"),
        ("crates/none/src/a.rs", "fn f(told: u8) { g(told, \"{told} {}\", 'x', '\\'', told) }\n"),
        ("crates/none/src/a.rs", "// A lifetime, `told`.\nfn f<'a>(a: &'a str) { a.told() }\n"),
        ("crates/none/src/a.rs", "// made\nlet x = 1;\n// up\n"),
        ("native/a.c", "int told = 'a'; /* fine */\n"),
        ("GLOSSARY.md", "A strand.\n"),
        ("docs/a.svg", "told"),
    ] {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        assert_eq!(style.faults(&file), Vec::<String>::new(), "{text}");
    }
    let file = File { path: "crates/none/src/a.rs".to_owned(), text: "\n//! Told.\n".to_owned() };
    assert!(style.faults(&file)[0].starts_with("crates/none/src/a.rs:2: `told`; write: "));
}

#[test]
fn quotes_name_words_of_the_list_and_files_that_use_them() {
    let style = style();
    let all = files();
    for quote in &style.quotes {
        let is_known =
            |word: &String| *word == "*" || style.entries.iter().any(|e| e.word == *word);
        assert!(quote.words.iter().all(is_known), "{:?}: {:?}", quote.paths, quote.words);
        for path in &quote.paths {
            let within = all.iter().filter(|file| is_within(&file.path, path));
            let tokens: Vec<_> = within.map(words).collect();
            let used = |word: &String| {
                let mut entries = style.entries.iter().filter(|e| *word == "*" || e.word == *word);
                entries.any(|entry| tokens.iter().any(|t| !entry.faults(t).is_empty()))
            };
            let needed = quote.words.iter().all(used);
            assert!(needed, "{path} does not use all of {:?}: delete it there", quote.words);
        }
    }
}
