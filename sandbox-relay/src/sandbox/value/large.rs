//! Integers of tools that no number holds, in the form that the execution asked for.

use std::borrow::Cow;
use std::cell::Cell;

use relay_proto::code::warning;
use relay_proto::wire::LargeIntegers;
use relay_script::integers::{self, Large, Step};

use crate::sandbox::notes;

/// Maximum number of digits of a BigInt that is made: making it takes the square of its length.
const MAX_DIGITS: usize = 1_000;
/// Number of digits that are read at a time: the most that a word holds.
const CHUNK: usize = 19;

thread_local! {
    static FORM: Cell<LargeIntegers> = const { Cell::new(LargeIntegers::Number) };
}

/// Sets the form, before any code runs.
pub(super) fn begin(form: LargeIntegers) {
    FORM.set(form);
}

/// Reads the result of a tool as JSON; `None`: it is none.
pub(super) fn read<'s>(scope: &mut v8::PinScope<'s, '_>, tool: &str, json: &[u8]) -> Option<v8::Local<'s, v8::Value>> {
    let value = match FORM.get() {
        LargeIntegers::Text => {
            let value = super::from_json(scope, json)?;
            return match integers::as_texts(json) {
                Cow::Borrowed(_) => Some(value),
                Cow::Owned(json) => super::from_json(scope, &json),
            };
        }
        LargeIntegers::Number => super::from_json(scope, json)?,
        LargeIntegers::BigInt => {
            let value = super::from_json(scope, json)?;
            let large = integers::large(json);
            if large.iter().all(|it| it.text.len() <= MAX_DIGITS) {
                return Some(large.iter().fold(value, |value, it| replaced(scope, value, it).unwrap_or(value)));
            }
            value
        }
    };
    for message in integers::warnings(tool, json) {
        notes::add(warning::VALUE_CHANGED, message);
    }
    Some(value)
}

/// Replaces one integer in a value that was read from JSON by a BigInt. Returns the value, or the BigInt in the place of
/// a number; `None`: the integer does not stand there, as the first of two with the same key does not.
fn replaced<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
    large: &Large,
) -> Option<v8::Local<'s, v8::Value>> {
    let big = big_int(scope, &large.text)?;
    let read: f64 = large.text.parse().ok()?;
    let Some((last, before)) = large.path.split_last() else {
        return value.is_number().then_some(big);
    };
    let mut at = v8::Local::<v8::Object>::try_from(value).ok()?;
    for step in before {
        let key = key(scope, step)?;
        at = at.get(scope, key)?.try_into().ok()?;
    }
    let key = key(scope, last)?;
    let there = at.get(scope, key)?;
    let is_it = there.is_number() && there.number_value(scope) == Some(read);
    if is_it {
        let key: v8::Local<v8::Name> = match v8::Local::<v8::Name>::try_from(key) {
            Ok(name) => name,
            Err(_) => key.to_string(scope)?.into(),
        };
        at.create_data_property(scope, key, big);
    }
    Some(value)
}

/// Returns the key of a step.
fn key<'s>(scope: &mut v8::PinScope<'s, '_>, step: &Step) -> Option<v8::Local<'s, v8::Value>> {
    match step {
        Step::Index(index) => Some(v8::Integer::new_from_unsigned(scope, u32::try_from(*index).ok()?).into()),
        Step::Key(written) => super::from_json(scope, &[b"\"", &written[..], b"\""].concat()),
    }
}

/// Makes a BigInt of decimal digits.
fn big_int<'s>(scope: &mut v8::PinScope<'s, '_>, text: &str) -> Option<v8::Local<'s, v8::Value>> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let mut words = vec![0_u64];
    for chunk in digits.as_bytes().chunks(CHUNK) {
        let mut carry = u128::from(std::str::from_utf8(chunk).ok()?.parse::<u64>().ok()?);
        let factor = 10_u128.pow(u32::try_from(chunk.len()).ok()?);
        for word in &mut words {
            let product = u128::from(*word) * factor + carry;
            *word = u64::try_from(product & u128::from(u64::MAX)).ok()?;
            carry = product >> u64::BITS;
        }
        if carry > 0 {
            words.push(u64::try_from(carry).ok()?);
        }
    }
    Some(v8::BigInt::new_from_words(scope, is_negative, &words)?.into())
}
