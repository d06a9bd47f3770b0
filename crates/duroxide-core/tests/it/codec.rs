//! Typed values come back as they were, and the same value is always the same text.
//!
//! `cargo xtask test serde-features` runs these with features of `serde_json` that other crates of a program may turn
//! on.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use duroxide_core::codec::{decode, encode, same_meaning};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Name(String);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Clear(String);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Wrapped(Value);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Nothing;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Loose {
    Whole(i64),
    Fraction(f64),
    Text(String),
    Many(Vec<Loose>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Strict {
    #[serde(rename = "null")]
    Nil,
    #[serde(rename = "\"quoted\"")]
    Quoted,
    Plain,
    New(String),
    Pair(i64, String),
    Fields {
        zebra: u64,
        ant: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    zebra: String,
    ant: Option<f64>,
    amount: u64,
    kinds: Vec<Strict>,
    #[serde(flatten)]
    rest: BTreeMap<String, i64>,
}

/// Strings that are JSON, nearly JSON, or anything.
fn any_text() -> impl Strategy<Value = String> {
    let special = [
        "null",
        " null ",
        "nul",
        "42",
        "-0",
        "1e999",
        "true",
        "\"x\"",
        " \"x\" ",
        "\"",
        "[]",
        "{}",
        "[1",
        "{\"a\":1}",
        "",
        " ",
        "\u{0}",
        "\\",
        "é\u{2028}",
        "\"null\"",
        "\"\\\"x\\\"\"",
        "NaN",
        "00",
        "0.10",
    ];
    prop_oneof![
        proptest::sample::select(special.to_vec()).prop_map(str::to_owned),
        any::<String>(),
        any::<String>().prop_map(|text| json!(text).to_string()),
        any::<i128>().prop_map(|number| number.to_string()),
    ]
}

fn any_loose() -> impl Strategy<Value = Loose> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Loose::Whole),
        any_fraction().prop_map(Loose::Fraction),
        any_text().prop_map(Loose::Text),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        proptest::collection::vec(inner, 0..4).prop_map(Loose::Many)
    })
}

/// Floats that no integer equals, so that an untagged enum can tell them from one.
fn any_fraction() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("finite", |f| f.is_finite())
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any_fraction().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((any_text(), inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn any_strict() -> impl Strategy<Value = Strict> {
    prop_oneof![
        Just(Strict::Nil),
        Just(Strict::Quoted),
        Just(Strict::Plain),
        any_text().prop_map(Strict::New),
        (any::<i64>(), any_text()).prop_map(|(number, text)| Strict::Pair(number, text)),
        (any::<u64>(), proptest::option::of(any_text()))
            .prop_map(|(zebra, ant)| Strict::Fields { zebra, ant }),
    ]
}

#[track_caller]
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = encode(value).expect("it serialises");
    let back: T = decode(&text).unwrap_or_else(|e| panic!("{value:?} as {text}: {e}"));
    assert_eq!(&back, value, "as {text}");
}

proptest! {
    #[test]
    fn every_text_comes_back_whatever_type_holds_it(text in any_text()) {
        comes_back(&text);
        comes_back(&Some(text.clone()));
        comes_back(&Cow::<'static, str>::Owned(text.clone()));
        comes_back(&text.clone().into_boxed_str());
        comes_back(&Some(text.clone().into_boxed_str()));
        comes_back(&Name(text.clone()));
        comes_back(&Some(Name(text.clone())));
        comes_back(&Clear(text.clone()));
        comes_back(&Some(Clear(text.clone())));
        comes_back(&Value::String(text.clone()));
        comes_back(&Some(Value::String(text.clone())));
        comes_back(&Wrapped(Value::String(text.clone())));
        comes_back(&Loose::Text(text.clone()));
        comes_back(&vec![text.clone()]);
        comes_back(&(text.clone(), 1, Some(text.clone())));
        comes_back(&BTreeMap::from([(text.clone(), text.clone())]));
        comes_back(&HashMap::from([(text.clone(), Some(text))]));
    }

    #[test]
    fn every_number_comes_back(
        i in any::<i64>(),
        u in any::<u64>(),
        i128 in any::<i128>(),
        f in any_fraction(),
        f32 in any::<f32>().prop_filter("finite", |f| f.is_finite()),
        c in any::<char>(),
    ) {
        comes_back(&i);
        comes_back(&u);
        comes_back(&Some(u));
        comes_back(&i128);
        comes_back(&u128::MAX);
        comes_back(&f);
        comes_back(&f32);
        comes_back(&c);
        comes_back(&Some(c));
        comes_back(&BTreeMap::from([(i, f)]));
        comes_back(&BTreeMap::from([(u, c)]));
        comes_back(&u.to_le_bytes().to_vec());
        comes_back(&Loose::Whole(i));
    }

    #[test]
    fn every_enum_and_tree_comes_back(
        strict in any_strict(),
        loose in any_loose(),
        value in any_value(),
        amount in any::<u64>(),
        ant in proptest::option::of(any_fraction()),
        rest in proptest::collection::btree_map("[m-p]{1,3}", any::<i64>(), 0..4),
    ) {
        comes_back(&strict);
        comes_back(&Some(strict.clone()));
        comes_back(&loose);
        comes_back(&Some(value.clone()).filter(|v| !v.is_null()));
        comes_back(&Wrapped(value.clone()));
        comes_back(&value);
        let zebra = "null".to_owned();
        comes_back(&Order { zebra, ant, amount, kinds: vec![strict.clone(), strict], rest });
    }

    #[test]
    fn a_value_that_the_published_crate_reads_back_is_written_as_it_writes_it(
        text in any_text(),
        strict in any_strict(),
        value in any_value(),
        f32 in any::<f32>(),
        numbers in proptest::collection::hash_map(any::<i16>(), any::<u8>(), 0..9),
    ) {
        if keeps_digits() || keeps_order() {
            return Ok(());
        }
        as_published(&text);
        as_published(&Some(text.clone()));
        as_published(&Name(text.clone()));
        as_published(&Some(Name(text)));
        // A variant whose very name is a JSON string has two readings, though the published crate happens to take the
        // right one.
        if strict != Strict::Quoted {
            as_published(&strict);
            as_published(&Some(strict));
        }
        as_published(&value);
        as_published(&f32);
        as_published(&numbers);
    }

    #[test]
    fn any_two_texts_are_compared_without_a_panic(one in any_text(), other in any_text(), value in any_value()) {
        prop_assert!(same_meaning(&one, &one));
        prop_assert_eq!(same_meaning(&one, &other), same_meaning(&other, &one));
        let compact = value.to_string();
        let pretty = serde_json::to_string_pretty(&value).expect("it serialises");
        prop_assert!(same_meaning(&compact, &pretty), "{}", compact);
    }
}

/// Where the published rule reads a value back, ours writes the same text.
#[track_caller]
fn as_published<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let published = match serde_json::to_value(value).expect("it serialises") {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let bare = || serde_json::from_value(Value::String(published.clone()));
    let read: Result<T, _> = serde_json::from_str(&published).or_else(|_| bare());
    if read.is_ok_and(|read| read == *value) {
        assert_eq!(encode(value).expect("it serialises"), published);
    }
}

/// `serde_json/arbitrary_precision` is on.
fn keeps_digits() -> bool {
    serde_json::from_str::<Value>("1e999").is_ok()
}

/// `serde_json/preserve_order` is on.
fn keeps_order() -> bool {
    json!({ "b": 1, "a": 2 }).to_string().starts_with("{\"b\"")
}

#[test]
fn what_is_written_depends_on_no_feature_of_serde_json() {
    let order = Order {
        zebra: "z".into(),
        ant: Some(1.0),
        amount: u64::MAX,
        kinds: vec![Strict::Fields {
            zebra: 1,
            ant: None,
        }],
        rest: BTreeMap::from([("middle".into(), -1)]),
    };
    let cases: [(String, &str); 8] = [
        (
            encode(&order).unwrap(),
            r#"{"amount":18446744073709551615,"ant":1.0,"kinds":[{"Fields":{"ant":null,"zebra":1}}],"middle":-1,"zebra":"z"}"#,
        ),
        (
            encode(&json!({ "b": { "z": 0.1, "a": 1e21 }, "a": [-0.0] })).unwrap(),
            r#"{"a":[-0.0],"b":{"a":1e+21,"z":0.1}}"#,
        ),
        (
            encode(&BTreeMap::from([(2, "x"), (10, "y")])).unwrap(),
            r#"{"10":"y","2":"x"}"#,
        ),
        (encode(&0.1_f32).unwrap(), "0.10000000149011612"),
        (encode(&f64::NAN).unwrap(), "null"),
        (encode(&Nothing).unwrap(), "null"),
        (
            encode(&serde_json::from_str::<Value>("1.10").unwrap()).unwrap(),
            "1.1",
        ),
        (
            encode(
                &serde_json::value::RawValue::from_string(r#"{ "b": 1.50, "a": 2 }"#.into())
                    .unwrap(),
            )
            .unwrap(),
            r#"{"a":2,"b":1.5}"#,
        ),
    ];
    for (written, expected) in cases {
        assert_eq!(written, expected);
    }
}

#[test]
fn only_texts_with_two_readings_are_quoted() {
    assert_eq!(encode(&Some("42")).unwrap(), "42");
    assert_eq!(encode(&Name("42".into())).unwrap(), "42");
    assert_eq!(encode(&Name("null".into())).unwrap(), "null");
    assert_eq!(encode(&Some("null")).unwrap(), "\"null\"");
    assert_eq!(encode(&Some("\"x\"")).unwrap(), r#""\"x\"""#);
    assert_eq!(encode(&json!("42")).unwrap(), "\"42\"");
    assert_eq!(encode(&json!("plain")).unwrap(), "plain");
    assert_eq!(encode(&Loose::Text("42".into())).unwrap(), "\"42\"");
}

#[test]
fn a_string_means_the_same_bare_and_quoted() {
    assert!(same_meaning("42", "\"42\""));
    assert!(same_meaning("\"null\"", "null"));
    assert!(!same_meaning("\"42\"", "43"));
    assert!(!same_meaning("plain", "other"));
    assert!(!same_meaning("[\"42\"]", "[42]"));
}

#[test]
fn an_option_in_an_option_is_as_deep_as_json_can_say() {
    comes_back(&Some(Some(1)));
    comes_back(&None::<Option<u8>>);
    comes_back(&());
    assert_eq!(encode(&Some(None::<u8>)).unwrap(), "null");
    assert_eq!(decode::<Option<Option<u8>>>("null").unwrap(), None);
}
