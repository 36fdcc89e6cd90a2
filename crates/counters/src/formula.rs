// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metric formulas, composed of event names, numbers, `+ - * /` and parentheses.
//!
//! The build checks the data files with this module, so it uses only the standard library.

use std::fmt;

/// A parsed formula, which can be evaluated any number of times.
///
/// Stored in reverse Polish notation, evaluated in one pass with a stack:
///
/// ```text
/// 1000 * misses / (hits + misses)   ->   1000 misses * hits misses + /
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Number(f64),
    Event(String),
    Operator(Operator),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A formula could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormulaError {
    /// Text of the formula.
    pub formula: String,
    /// Byte offset of the error.
    pub at: usize,
    /// What was expected at this offset.
    pub expected: &'static str,
}

impl fmt::Display for FormulaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = &self.formula[self.at..];
        let found = if rest.is_empty() { "its end" } else { rest };
        write!(f, "formula `{}`: expected {} at `{found}`", self.formula, self.expected)
    }
}

impl std::error::Error for FormulaError {}

impl Formula {
    /// Parses a formula with the grammar `sum = product {(+|-) product}`, `product = factor {(*|/)
    /// factor}`, `factor = number | name | ( sum )`. Names begin with a letter, followed by
    /// letters, digits, `_` and `.`; numbers are decimal, without sign or exponent.
    ///
    /// # Errors
    /// Returns [`FormulaError`] with the position of the error.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        let mut parser = Parser { text, at: 0, depth: 0, steps: Vec::new() };
        parser.sum()?;
        match parser.peek() {
            None => Ok(Self { steps: parser.steps }),
            Some(_) => Err(parser.error("an operator or the end of the formula")),
        }
    }

    /// Returns the event names in the formula without duplicates, in order of appearance.
    pub fn events(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for step in &self.steps {
            match step {
                Step::Event(name) if !names.contains(&name.as_str()) => names.push(name.as_str()),
                _ => {}
            }
        }
        names
    }

    /// Evaluates the formula, getting event counts from `count`. Returns `None` if a count is
    /// missing or the result is not finite, as after division by 0.
    pub fn value(&self, count: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        let mut stack = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let value = match step {
                Step::Number(number) => *number,
                Step::Event(name) => count(name)?,
                Step::Operator(operator) => {
                    let (right, left): (f64, f64) = (stack.pop()?, stack.pop()?);
                    match operator {
                        Operator::Add => left + right,
                        Operator::Subtract => left - right,
                        Operator::Multiply => left * right,
                        Operator::Divide => left / right,
                    }
                }
            };
            stack.push(value);
        }
        stack.pop().filter(|value| value.is_finite())
    }
}

/// Maximum nesting depth, which keeps hostile input from overflowing the stack.
const DEPTH_MAX: usize = 64;

/// A recursive descent parser that emits operators after their operands.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    steps: Vec<Step>,
}

impl<'a> Parser<'a> {
    /// Skips white space and returns the next character without consuming it.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    /// Consumes and returns the longest run of characters that `fits` accepts.
    fn run(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn error(&self, expected: &'static str) -> FormulaError {
        FormulaError { formula: self.text.to_owned(), at: self.at, expected }
    }

    fn sum(&mut self) -> Result<(), FormulaError> {
        self.product()?;
        loop {
            let operator = match self.peek() {
                Some('+') => Operator::Add,
                Some('-') => Operator::Subtract,
                _ => return Ok(()),
            };
            self.at += 1;
            self.product()?;
            self.steps.push(Step::Operator(operator));
        }
    }

    fn product(&mut self) -> Result<(), FormulaError> {
        self.factor()?;
        loop {
            let operator = match self.peek() {
                Some('*') => Operator::Multiply,
                Some('/') => Operator::Divide,
                _ => return Ok(()),
            };
            self.at += 1;
            self.factor()?;
            self.steps.push(Step::Operator(operator));
        }
    }

    fn factor(&mut self) -> Result<(), FormulaError> {
        match self.peek() {
            Some('(') => self.parentheses(),
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_ascii_alphabetic() => {
                let name = self.run(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
                self.steps.push(Step::Event(name.to_owned()));
                Ok(())
            }
            _ => Err(self.error("a number, a name or `(`")),
        }
    }

    fn parentheses(&mut self) -> Result<(), FormulaError> {
        if self.depth == DEPTH_MAX {
            return Err(self.error("at most 64 nested parentheses"));
        }
        self.at += 1;
        self.depth += 1;
        self.sum()?;
        self.depth -= 1;
        match self.peek() {
            Some(')') => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.error("`)`")),
        }
    }

    fn number(&mut self) -> Result<(), FormulaError> {
        let start = self.at;
        let digits = self.run(|c| c.is_ascii_digit() || c == '.');
        match digits.parse() {
            Ok(number) => {
                self.steps.push(Step::Number(number));
                Ok(())
            }
            Err(_) => {
                self.at = start;
                Err(self.error("a decimal number"))
            }
        }
    }
}
