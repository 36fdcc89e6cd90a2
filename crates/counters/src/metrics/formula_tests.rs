// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares formulas with directly evaluated expression trees.

use super::*;
use proptest::prelude::*;

fn counts(name: &str) -> Option<f64> {
    match name {
        "a" => Some(6.0),
        "b" => Some(3.0),
        "c.d_1" => Some(0.5),
        "zero" => Some(0.0),
        _ => None,
    }
}

#[test]
fn precedence_is_that_of_school() {
    for (text, value) in [
        ("a", Some(6.0)),
        ("a + b * 2", Some(12.0)),
        ("(a+b)*2", Some(18.0)),
        ("a - b - 1", Some(2.0)),
        ("a / b / 2", Some(1.0)),
        (" 100*b / ( a - b ) ", Some(100.0)),
        ("1000 * c.d_1 / a", Some(500.0 / 6.0)),
        ("0.25", Some(0.25)),
        ("a / zero", None),
        ("zero / zero", None),
        ("a / (b - 3)", None),
        ("a + unknown", None),
    ] {
        assert_eq!(Formula::parse(text).unwrap().value(counts), value, "{text}");
    }
}

#[test]
fn events_stand_once_in_the_order_of_the_text() {
    let formula = Formula::parse("1000 * (b + a) / (a + c.d_1)").unwrap();
    assert_eq!(formula.events(), ["b", "a", "c.d_1"]);
    assert_eq!(Formula::parse("1 + 2").unwrap().events(), [""; 0]);
}

#[test]
fn errors_have_a_position() {
    for (text, at, expected) in [
        ("", 0, "a number, a name or `(`"),
        ("  ", 2, "a number, a name or `(`"),
        ("a +", 3, "a number, a name or `(`"),
        ("a b", 2, "an operator or the end of the formula"),
        ("(a", 2, "`)`"),
        ("a)", 1, "an operator or the end of the formula"),
        ("-a", 0, "a number, a name or `(`"),
        ("1.2.3", 0, "a decimal number"),
        ("a * 1e", 5, "an operator or the end of the formula"),
        ("größe", 2, "an operator or the end of the formula"),
        ("_a", 0, "a number, a name or `(`"),
    ] {
        let error = Formula::parse(text).unwrap_err();
        assert_eq!((error.at, error.expected), (at, expected), "{text:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let deepest = 64;
    let deep = |depth| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Formula::parse(&deep(deepest)).is_ok());
    assert!(Formula::parse(&deep(deepest + 1)).is_err());
    assert!(Formula::parse(&"(".repeat(1 << 20)).is_err());
}

/// A formula as an expression tree, which the tests evaluate directly.
#[derive(Clone, Debug)]
enum Tree {
    Number(u16),
    Event(usize),
    Both(Box<Tree>, char, Box<Tree>),
}

const NAMES: [&str; 3] = ["x", "y_1", "z.z"];

impl Tree {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => format!("{}.25", number),
            Self::Event(at) => NAMES[*at].to_owned(),
            Self::Both(left, operator, right) => {
                format!("({} {operator}{})", left.text(), right.text())
            }
        }
    }

    fn value(&self, counts: &[f64; 3]) -> f64 {
        match self {
            Self::Number(number) => f64::from(*number) + 0.25,
            Self::Event(at) => counts[*at],
            Self::Both(left, operator, right) => {
                let (left, right) = (left.value(counts), right.value(counts));
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![any::<u16>().prop_map(Tree::Number), (0usize..3).prop_map(Tree::Event)];
    leaf.prop_recursive(6, 40, 2, |inner| {
        let operator = prop::sample::select(vec!['+', '-', '*', '/']);
        (inner.clone(), operator, inner)
            .prop_map(|(left, operator, right)| Tree::Both(left.into(), operator, right.into()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn computes_what_the_tree_does(tree in tree(), counts in [0.0..9.0, -9.0..9.0, 0.0..1e18]) {
        let formula = Formula::parse(&tree.text()).unwrap();
        let count = |name: &str| NAMES.iter().position(|n| *n == name).map(|at| counts[at]);
        let expected = Some(tree.value(&counts)).filter(|value| value.is_finite());
        prop_assert_eq!(formula.value(count), expected);
    }

    #[test]
    fn any_text_is_a_formula_or_an_error_within_it(text in "[a-c0-9+*/(). -]{0,24}|\\PC{0,16}") {
        match Formula::parse(&text) {
            // If no event has a count, only a formula without events has a value.
            Ok(formula) if !formula.events().is_empty() => {
                prop_assert_eq!(formula.value(|_| None), None);
            }
            Ok(formula) => prop_assert_eq!(formula.value(|_| None), formula.value(|_| Some(1.0))),
            Err(error) => {
                prop_assert!(text.is_char_boundary(error.at));
                prop_assert!(error.to_string().contains(&text));
            }
        }
    }
}
