// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extracts a file's words that people read: comments, strings, prose, and the names it defines.
//! Code, inline code and output blocks are excluded.

use crate::tree::File;

/// A lower-case word, or a break that ends a phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Word(String),
    Break,
}

/// A token and its line number, from 1.
pub(crate) struct Placed {
    pub(crate) line: usize,
    pub(crate) token: Token,
}

/// Comment and string syntax of a language.
struct Syntax {
    line_comment: &'static str,
    /// Whether `/* */` is a comment.
    block_comments: bool,
    /// Whether `'` begins a string.
    single_quotes: bool,
    /// Whether there are raw strings, and names after keywords.
    is_rust: bool,
}

const RUST: Syntax =
    Syntax { line_comment: "//", block_comments: true, single_quotes: false, is_rust: true };
const C: Syntax =
    Syntax { line_comment: "//", block_comments: true, single_quotes: false, is_rust: false };
const SCRIPT: Syntax =
    Syntax { line_comment: "#", block_comments: false, single_quotes: true, is_rust: false };

/// Keywords that precede the name in a definition.
const DEFINE: [&str; 8] = ["fn", "struct", "enum", "trait", "mod", "type", "const", "static"];

/// Returns a file's words, in order; empty for file types without prose.
pub(crate) fn words(file: &File) -> Vec<Placed> {
    let prose = match file.extension() {
        "md" => markdown(&file.text),
        "rs" => source(&file.text, &RUST),
        "c" | "h" | "S" => source(&file.text, &C),
        "toml" | "sh" | "py" => source(&file.text, &SCRIPT),
        _ if file.text.starts_with("#!") => source(&file.text, &SCRIPT),
        _ => return Vec::new(),
    };
    split(&prose)
}

/// Returns the text with everything but prose replaced: code by `|`, which interrupts a phrase;
/// line ends are kept.
fn markdown(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut fenced = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        match () {
            () if is_fence || fenced => prose.push('|'),
            () if line.trim().is_empty() => prose.push('|'),
            // The target of a reference.
            () if line.starts_with('[') && line.contains("]: ") => prose.push('|'),
            () => prose.push_str(&without_targets(line)),
        }
        prose.push('\n');
    }
    without_code(&prose)
}

/// Returns a line of Markdown without its link targets.
fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push('|');
        kept.push_str(part.split_once(')').map_or(part, |(_, behind)| behind));
    }
    kept
}

/// Replaces inline code by `|`. The end of a paragraph closes an unmatched backtick.
fn without_code(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for paragraph in text.split_inclusive("|\n") {
        let closed = paragraph.matches('`').count() / 2 * 2;
        for (at, part) in paragraph.split('`').enumerate() {
            if at % 2 == 1 && at < closed {
                kept.push('|');
                kept.extend(part.chars().filter(|c| *c == '\n'));
            } else {
                kept.push_str(part);
            }
        }
    }
    kept
}

/// Token at the start of a source text.
enum Piece<'a> {
    Comment,
    /// Content of a string.
    Text(&'a str),
    Character,
    /// A character in a name or a number.
    Name(char),
    Code(char),
}

/// Returns the piece at the start of a text, and its length; `None` at the end.
fn piece<'a>(text: &'a str, syntax: &Syntax) -> Option<(Piece<'a>, usize)> {
    let first = text.chars().next()?;
    if text.starts_with(syntax.line_comment) {
        return Some((Piece::Comment, text.find('\n').unwrap_or(text.len())));
    }
    if syntax.block_comments && text.starts_with("/*") {
        return Some((Piece::Comment, text.find("*/").map_or(text.len(), |end| end + 2)));
    }
    if let Some((inside, length)) = string(text, syntax) {
        return Some((Piece::Text(inside), length));
    }
    if let Some(length) = character(text, syntax) {
        return Some((Piece::Character, length));
    }
    let piece = match first {
        '_' => Piece::Name(first),
        _ if first.is_alphanumeric() => Piece::Name(first),
        _ => Piece::Code(first),
    };
    Some((piece, first.len_utf8()))
}

/// Extracts comments, strings and defined names from a source text; the rest becomes `|`.
fn source(text: &str, syntax: &Syntax) -> String {
    let mut prose = String::with_capacity(text.len());
    // Consecutive comments with only white space between them, read as one text.
    let mut comments = String::new();
    let mut name = String::new();
    let mut defines = false;
    let mut at = 0;
    while let Some((piece, length)) = piece(&text[at..], syntax) {
        let written = &text[at..at + length];
        at += length;
        match piece {
            Piece::Comment => {
                comments.push_str(&written.replace(['/', '!', '*', '#'], " "));
                continue;
            }
            Piece::Code(c) if c.is_whitespace() && !comments.is_empty() => {
                comments.push(c);
                continue;
            }
            _ => {}
        }
        if !comments.is_empty() {
            prose.push_str(&format!("|{}|", without_code(&std::mem::take(&mut comments))));
        }
        if let Piece::Name(c) = piece {
            name.push(c);
            continue;
        }
        if !name.is_empty() {
            if defines && syntax.is_rust {
                prose.push_str(&format!("|{}|", spaced(&name)));
            }
            defines = DEFINE.contains(&name.as_str());
            name.clear();
        }
        match piece {
            Piece::Text(inside) => prose.push_str(&format!("|{}|", plain(inside))),
            Piece::Code('\n') => prose.push_str("|\n"),
            Piece::Code(c) if c.is_whitespace() => {}
            _ => defines = false,
        }
    }
    prose + "|" + &without_code(&comments)
}

/// Returns a string at the start of the text: its content, and its length including quotes.
fn string<'a>(text: &'a str, syntax: &Syntax) -> Option<(&'a str, usize)> {
    if syntax.is_rust && text.starts_with('r') {
        let hashes = text[1..].len() - text[1..].trim_start_matches('#').len();
        let open = 1 + hashes;
        if text[open..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let end = text[open + 1..].find(&close)?;
            return Some((&text[open + 1..open + 1 + end], open + 1 + end + close.len()));
        }
        return None;
    }
    let quote = text.chars().next()?;
    if !(quote == '"' || quote == '\'' && syntax.single_quotes) {
        return None;
    }
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some((&text[1..at], at + 1)),
            _ => {}
        }
    }
    None
}

/// Returns the length of a character literal at the start of the text; a lifetime does not count.
fn character(text: &str, syntax: &Syntax) -> Option<usize> {
    if syntax.single_quotes || !text.starts_with('\'') {
        return None;
    }
    let mut chars = text.char_indices().skip(1);
    if chars.next()?.1 == '\\' {
        chars.next()?;
        return text[3..].find('\'').map(|end| end + 4);
    }
    chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}

/// Returns a string's content without escapes and without words in braces.
fn plain(inside: &str) -> String {
    let mut plain = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    let mut in_braces = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') => plain.push('\n'),
                _ => plain.push('|'),
            },
            '{' | '}' => {
                in_braces = c == '{';
                plain.push('|');
            }
            '\n' => plain.push('\n'),
            _ if in_braces => {}
            _ => plain.push(c),
        }
    }
    without_code(&plain)
}

/// Formats `CacheLevel` and `cache_level` as `cache level`.
fn spaced(name: &str) -> String {
    let mut spaced = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = c.is_lowercase();
        spaced.push(c);
    }
    spaced
}

fn split(prose: &str) -> Vec<Placed> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut word = String::new();
    for c in prose.chars().chain(['\n']) {
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            tokens.push(Placed { line, token: Token::Word(std::mem::take(&mut word)) });
        }
        match c {
            '\n' => line += 1,
            // Characters that may separate the words of a phrase.
            ' ' | '\t' | '\r' | '-' | '_' | '*' | '>' | '#' | '/' | '!' => {}
            _ if matches!(tokens.last(), Some(Placed { token: Token::Break, .. })) => {}
            _ => tokens.push(Placed { line, token: Token::Break }),
        }
    }
    tokens
}
