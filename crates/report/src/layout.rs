// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lays out lines and tables within a given width.
//!
//! Colour is applied to whole lines and labels after layout, so it takes no columns.

use crate::value::clean;
use crate::{Markup, Style};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

/// Role of a text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// Table heading or label.
    Head,
    /// Good result, or the chosen row of a table.
    Good,
    /// Caveat.
    Warning,
}

impl Paint {
    /// Returns the ECMA-48 SGR (Select Graphic Rendition) code of this style.
    fn code(self) -> &'static str {
        match self {
            Self::Head => "1",
            Self::Good => "32",
            Self::Warning => "33",
        }
    }

    fn apply(self, text: &str, style: &Style) -> String {
        if style.color { format!("\x1b[{}m{text}\x1b[0m", self.code()) } else { text.to_owned() }
    }
}

/// Paints each line of `text` separately, because some pagers spill colour across line ends. In
/// Markdown, formats a heading.
pub(crate) fn painted(paint: Paint, text: &str, style: &Style) -> String {
    match (style.markup, paint) {
        (Markup::Terminal, _) => {}
        (Markup::Markdown, Paint::Head) => {
            return format!("### {}\n", untagged(&text.replace('\n', " ")));
        }
        (Markup::Markdown, _) => return text.to_owned(),
    }
    text.lines().map(|line| paint.apply(line, style)).collect::<Vec<_>>().join("\n")
}

/// Escapes what Markdown would take for an HTML tag or a character reference, as in
/// `vector<int>::size`. Code spans are shown as they are.
fn untagged(text: &str) -> String {
    let plain = |text: &str| {
        let mut escaped = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            let next = text[at + c.len_utf8()..].chars().next();
            match (c, next) {
                ('<', Some(next)) if next.is_ascii_alphabetic() || "/!?".contains(next) => {
                    escaped += "&lt;";
                }
                ('&', Some(next)) if next.is_ascii_alphanumeric() || next == '#' => {
                    escaped += "&amp;";
                }
                _ => escaped.push(c),
            }
        }
        escaped
    };
    let mut parts: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some((before, (code, after))) =
        rest.split_once('`').and_then(|(before, rest)| Some((before, rest.split_once('`')?)))
    {
        parts.push(format!("{}`{code}`", plain(before)));
        rest = after;
    }
    parts.concat() + &plain(rest)
}

/// Column at which the text after a label starts.
pub(crate) const LABEL_COLUMNS: usize = 12;

/// Formats `label` with `text` next to it, word-wrapped and indented.
pub(crate) fn labelled(label: &str, paint: Paint, text: &str, style: &Style) -> String {
    if style.markup == Markup::Markdown {
        let label = if label.is_empty() { String::new() } else { format!("**{label}** ") };
        return format!("- {label}{}\n", untagged(text.trim()));
    }
    let indent = " ".repeat(LABEL_COLUMNS);
    let options =
        textwrap::Options::new(style.width).initial_indent(&indent).subsequent_indent(&indent);
    let body = textwrap::fill(text, options);
    let rest = body.get(label.len()..).unwrap_or_default();
    let lines = format!("{}{rest}", paint.apply(label, style));
    lines.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Formats lines whose columns must stay aligned: unchanged or, in Markdown, as a code block.
pub(crate) fn fenced(text: &str, style: &Style) -> String {
    match style.markup {
        Markup::Terminal => text.to_owned(),
        Markup::Markdown if text.trim().is_empty() => String::new(),
        Markup::Markdown => format!("```\n{}\n```\n", text.trim_end_matches('\n')),
    }
}

/// A table under construction.
pub(crate) struct Grid {
    head: Vec<String>,
    head_lines: usize,
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

/// Spaces between two columns of a table.
const GAP: usize = 2;

/// Mark of the chosen row.
pub(crate) const CHOSEN: &str = ">";

impl Grid {
    /// Creates columns with these headings. A leading `>` aligns right. Multi-line headings are
    /// aligned at the bottom.
    pub(crate) fn new(columns: &[&str]) -> Self {
        let lines = |head: &str| head.split('\n').count();
        let head_lines = columns.iter().map(|head| lines(head)).max().unwrap_or(0);
        let head = columns.iter().map(|column| {
            let head = column.strip_prefix('>').unwrap_or(column);
            "\n".repeat(head_lines - lines(head)) + head
        });
        let right = columns.iter().map(|c| c.starts_with('>')).collect();
        Self { head: head.collect(), head_lines, right, rows: Vec::new() }
    }

    /// Adds a row. Newlines in cells are kept.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        let clean = |cell: &String| cell.lines().map(clean).collect::<Vec<_>>().join("\n");
        self.rows.push(cells.iter().map(clean).collect());
    }

    /// Returns whether every cell fits without wrapping.
    pub(crate) fn fits(&self, style: &Style) -> bool {
        let lines = |cell: &String| cell.lines().map(|line| line.chars().count()).max();
        let column = |index: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.chain(self.head.get(index)).filter_map(lines).max().unwrap_or(0)
        };
        let columns: Vec<usize> = (0..self.head.len()).map(column).collect();
        columns.iter().sum::<usize>() + GAP * columns.len().saturating_sub(1) <= style.width
    }

    /// Returns the width of the longest word of each column, below which a word would be broken.
    fn widths_of_words(&self) -> Vec<usize> {
        let longest =
            |text: &String| text.split_whitespace().map(|word| word.chars().count()).max();
        let column = |(index, head): (usize, &String)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.chain([head]).filter_map(longest).max().unwrap_or(0)
        };
        self.head.iter().enumerate().map(column).collect()
    }

    /// Returns the lines of the table, with columns at least as wide as `words`.
    fn arranged(&self, style: &Style, words: Option<&[usize]>) -> Vec<String> {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(style.width).unwrap_or(u16::MAX))
            .set_header(self.head.clone())
            .add_rows(self.rows.clone());
        let last = self.head.len() - 1;
        for (index, (column, right)) in table.column_iter_mut().zip(&self.right).enumerate() {
            let padding = if index == last { 0 } else { GAP };
            column.set_padding((0, padding as u16));
            if let Some(word) = words.and_then(|words| words.get(index)) {
                let width = u16::try_from(word + padding).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
            }
            if *right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().collect()
    }

    /// Returns whether any word of a cell was broken across lines.
    fn breaks_a_word(&self, lines: &[String]) -> bool {
        let is_broken = |word: &str| !lines.iter().any(|line| line.contains(word));
        self.rows.iter().flatten().flat_map(|cell| cell.split_whitespace()).any(is_broken)
    }

    /// Formats the table as GitHub Markdown, with a trailing empty line.
    fn markdown(&self) -> String {
        let cell = |text: &String| untagged(text.trim()).replace('|', "\\|").replace('\n', " ");
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(cell).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = |right: &bool| if *right { "---:|" } else { "---|" };
        let rules: String = self.right.iter().map(rule).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}|{rules}\n{rows}\n", line(&self.head))
    }

    /// Formats the table and the notes below it, or as many whole rows as fit into `lines` lines
    /// and a note on how many lines were omitted.
    pub(crate) fn limited(mut self, notes: &str, lines: usize, style: &Style) -> String {
        let whole = self.render(style) + notes;
        let all = whole.lines().count();
        if all <= lines {
            return whole;
        }
        while self.rows.len() > 1 {
            self.rows.pop();
            let text = self.render(style);
            let kept = text.lines().count();
            if kept < lines {
                return text + &more_lines(all.saturating_sub(kept));
            }
        }
        limited(&whole, lines)
    }

    /// Formats the table; empty without rows.
    pub(crate) fn render(&self, style: &Style) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        if style.markup == Markup::Markdown {
            return self.markdown();
        }
        let mut lines = self.arranged(style, None);
        let words = self.widths_of_words();
        let fits = words.iter().sum::<usize>() + GAP * (words.len() - 1) <= style.width;
        if fits && self.breaks_a_word(&lines) {
            lines = self.arranged(style, Some(&words));
        }
        let paint = |(index, line): (usize, String)| {
            let line = line.trim_end();
            let line = match index {
                _ if index < self.head_lines => Paint::Head.apply(line, style),
                _ if line.starts_with(CHOSEN) => Paint::Good.apply(line, style),
                _ => line.to_owned(),
            };
            line + "\n"
        };
        lines.into_iter().enumerate().map(paint).collect()
    }
}

/// Formats a GitHub Markdown table, for result pages with figures from several records or none. A
/// leading `>` in a heading aligns right.
pub fn markdown_table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut grid = Grid::new(columns);
    rows.into_iter().for_each(|row| grid.row(row));
    grid.markdown()
}

/// Returns the first lines of a block and a note on how many were omitted. A text next to a label
/// is kept whole or omitted.
pub(crate) fn limited(block: &str, lines: usize) -> String {
    let all: Vec<&str> = block.lines().collect();
    if all.len() <= lines {
        return block.to_owned();
    }
    let most = lines.saturating_sub(1);
    let indent = " ".repeat(LABEL_COLUMNS);
    let begins = (0..=most).rev().find(|at| !all[*at].starts_with(&indent)).unwrap_or(0);
    // Indented lines below a row of a table are notes on the table.
    let is_row = |line: &str| line.chars().skip(LABEL_COLUMNS).collect::<String>().contains("  ");
    let kept = match begins {
        begins if begins < most && is_row(all[begins]) => begins + 1,
        // A text longer than the screen is cut.
        0 => most,
        begins => begins,
    };
    let text: String = all[..kept].iter().flat_map(|line| [line, "\n"]).collect();
    format!("{text}{}", more_lines(all.len() - kept))
}

/// Returns a block and as many of the sentences after it as fit, each whole, with a note on how
/// many lines were omitted.
pub(crate) fn followed(block: &str, sentences: &[String], lines: usize) -> String {
    let height = |text: &str| text.lines().count();
    let gap = usize::from(!block.is_empty());
    let below: usize = sentences.iter().map(|sentence| height(sentence)).sum();
    if below == 0 || height(block) + gap + below <= lines {
        return limited(&stacked(&[block.to_owned(), sentences.concat()]), lines);
    }
    let room = lines.saturating_sub(height(block) + gap + 1);
    let mut used = 0;
    let fits = |sentence: &&String| {
        used += height(sentence);
        used <= room
    };
    let kept: String = sentences.iter().take_while(fits).map(String::as_str).collect();
    let note = more_lines(below - height(&kept));
    // Without room for a sentence, the note stands right below the block.
    match kept.is_empty() {
        true => limited(&format!("{block}{note}"), lines),
        false => stacked(&[block.to_owned(), kept + &note]),
    }
}

fn more_lines(more: usize) -> String {
    let lines = if more == 1 { "line" } else { "lines" };
    format!("... {more} more {lines}: --details\n")
}

/// Joins non-empty blocks with blank lines.
pub(crate) fn stacked(blocks: &[String]) -> String {
    let blocks: Vec<&str> =
        blocks.iter().map(String::as_str).filter(|block| !block.is_empty()).collect();
    blocks.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style::plain(40);

    #[test]
    fn texts_stay_next_to_their_label() {
        let text = "one two three four five six seven eight nine";
        assert_eq!(
            labelled("label", Paint::Head, text, &PLAIN),
            "label       one two three four five six\n            seven eight nine\n"
        );
        assert_eq!(labelled("label", Paint::Head, "", &PLAIN), "label\n");
    }

    #[test]
    fn texts_and_rows_are_kept_whole_or_omitted() {
        let text = |words: usize| labelled("label", Paint::Head, &"word ".repeat(words), &PLAIN);
        let block = text(1) + &text(30) + "end\n";
        assert_eq!(block.lines().count(), 8);
        assert_eq!(limited(&block, 8), block);
        assert_eq!(limited(&block, 5), text(1) + "... 7 more lines: --details\n");
        // A text that is longer than the screen has no better end.
        assert_eq!(limited(&text(30), 3).lines().count(), 3);

        let sentences = ["one\ntwo\n".to_owned(), "three\nfour\n".to_owned()];
        assert_eq!(followed("block\n", &sentences, 6), "block\n\none\ntwo\nthree\nfour\n");
        let cut = "block\n\none\ntwo\n... 2 more lines: --details\n";
        assert_eq!(followed("block\n", &sentences, 5), cut);
        let none = "block\n... 4 more lines: --details\n";
        assert_eq!(followed("block\n", &sentences, 4), none);

        let table = || {
            let mut grid = Grid::new(&["name", ">n"]);
            grid.row(vec!["a\nb".to_owned(), "1".to_owned()]);
            grid.row(vec!["c\nd".to_owned(), "2".to_owned()]);
            grid
        };
        assert_eq!(table().limited("", 5, &PLAIN), table().render(&PLAIN));
        let first = "name  n\na     1\nb\n... 2 more lines: --details\n";
        assert_eq!(table().limited("", 4, &PLAIN), first);
    }

    #[test]
    fn columns_align_and_lines_have_no_trailing_blanks() {
        let mut grid = Grid::new(&["name", ">n"]);
        grid.row(vec!["a".to_owned(), "1".to_owned()]);
        grid.row(vec!["long".to_owned(), "1000".to_owned()]);
        assert_eq!(grid.render(&PLAIN), "name     n\na        1\nlong  1000\n");
        assert_eq!(Grid::new(&["name"]).render(&PLAIN), "");
    }

    #[test]
    fn words_are_not_broken_where_they_fit() {
        let mut grid = Grid::new(&["one", ">n", "asleep in"]);
        let long = "a text of many words that takes more than its part of the line";
        grid.row(vec![long.to_owned(), "1".to_owned(), "inet_csk_accept".to_owned()]);
        let text = grid.render(&PLAIN);
        assert!(text.contains("inet_csk_accept"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn a_table_of_markdown_has_rules_and_no_bar_in_a_cell() {
        let rows = [vec!["a|b".to_owned(), "1".to_owned()]];
        let table = markdown_table(&["name", ">n"], rows);
        assert_eq!(table, "| name | n |\n|---|---:|\n| a\\|b | 1 |\n\n");
    }

    #[test]
    fn markdown_shows_the_arguments_of_templates() {
        let all = ["vector<int>::at", "<T as Foo>::bar", "a < b, 5 <6", "`f<int>` of g<T>", "`<a"];
        let shown = all.map(untagged);
        let wanted = [
            "vector&lt;int>::at",
            "&lt;T as Foo>::bar",
            "a < b, 5 <6",
            "`f<int>` of g&lt;T>",
            "`&lt;a",
        ];
        assert_eq!(shown, wanted);
        assert_eq!(
            ["f<T&&>", "a &lt; b", "R & D"].map(untagged),
            ["f&lt;T&&>", "a &amp;lt; b", "R & D"]
        );
        let style = Style { markup: Markup::Markdown, ..PLAIN };
        let line = labelled("in", Paint::Head, "f<int>", &style);
        assert_eq!(line, "- **in** f&lt;int>\n");
        let table = markdown_table(&["name"], [vec!["f<int>".to_owned()]]);
        assert!(table.contains("| f&lt;int> |"), "{table}");
    }

    #[test]
    fn heads_stand_on_their_last_line() {
        let mut grid = Grid::new(&["name", ">ticks/\npacket"]);
        grid.row(vec!["a".to_owned(), "1".to_owned()]);
        assert_eq!(grid.render(&PLAIN), "      ticks/\nname  packet\na          1\n");
        let color = grid.render(&Style { color: true, ..PLAIN });
        assert_eq!(color.matches("\x1b[1m").count(), 2, "{color:?}");
    }

    #[test]
    fn colour_takes_no_room() {
        let mut grid = Grid::new(&["", ">n"]);
        grid.row(vec![CHOSEN.to_owned(), "1".to_owned()]);
        let color = grid.render(&Style { color: true, ..PLAIN });
        assert_eq!(color, "\x1b[1m   n\x1b[0m\n\x1b[32m>  1\x1b[0m\n");
    }
}
