//! Turns names of servers and tools into JavaScript identifiers, and finds the name that was probably meant.

use unicode_ident::{is_xid_continue, is_xid_start};

/// Names that [`sanitize`] changes: reserved words of strict JavaScript, globals of the language, and names of methods
/// that the language calls by itself.
const TAKEN: &str = "\
    __proto__ constructor then toJSON toString valueOf hasOwnProperty isPrototypeOf propertyIsEnumerable \
    toLocaleString __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ \
    AggregateError arguments Array ArrayBuffer AsyncDisposableStack Atomics await BigInt BigInt64Array \
    BigUint64Array Boolean break case catch class console const continue DataView Date debugger decodeURI \
    decodeURIComponent default delete DisposableStack do else encodeURI encodeURIComponent enum Error escape eval \
    EvalError export extends false FinalizationRegistry finally Float16Array Float32Array Float64Array for \
    Function function globalThis if implements import in Infinity instanceof Int16Array Int32Array Int8Array \
    interface Intl isFinite isNaN Iterator JSON let Map Math NaN new null Number Object package parseFloat \
    parseInt private Promise protected Proxy public RangeError ReferenceError Reflect RegExp return Set \
    ShadowRealm SharedArrayBuffer static String super SuppressedError switch Symbol SyntaxError Temporal this \
    throw true try TypeError typeof Uint16Array Uint32Array Uint8Array Uint8ClampedArray undefined unescape \
    URIError var void WeakMap WeakRef WeakSet WebAssembly while with yield";

/// Turns a name into a JavaScript identifier. A name that is one stays as it is; two names may give the same
/// identifier.
///
/// ```
/// use relay_proto::sanitize;
///
/// for (name, identifier) in [("my-backend", "my_backend"), ("123start", "_123start"), ("delete", "_delete")] {
///     assert_eq!(sanitize(name), identifier);
/// }
/// ```
pub fn sanitize(name: &str) -> String {
    // Joiners may stand in identifiers, but they are invisible.
    let is_part = |it: char| it == '$' || (is_xid_continue(it) && !matches!(it, '\u{200c}' | '\u{200d}'));
    let mut spelled: String = name.chars().map(|it| if is_part(it) { it } else { '_' }).collect();
    let starts = spelled.chars().next().is_some_and(|it| it == '$' || it == '_' || is_xid_start(it));
    if !starts || TAKEN.split(' ').any(|taken| taken == spelled) {
        spelled.insert(0, '_');
    }
    spelled
}

/// Maximum number of names that are compared with an unknown one.
const MAX_COMPARED: usize = 500;
/// Maximum length in bytes of a name that is compared.
const MAX_COMPARED_BYTES: usize = 64;

/// Returns the known name that is most like `name`; `None`: none is near. At most 500 names of up to 64 bytes are
/// compared.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_COMPARED_BYTES {
        return None;
    }
    let compared = known.into_iter().filter(|known| known.len() <= MAX_COMPARED_BYTES).take(MAX_COMPARED);
    let scored = compared.map(|known| (strsim::jaro_winkler(name, known), known));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    // One slip in a short name lowers its score too much.
    let is_near = best.0 > 0.8 || (best.1.len() < 5 && strsim::osa_distance(name, best.1) <= 1);
    is_near.then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_was_probably_meant() {
        for (name, known, expected) in [
            ("serch", &["find", "search"][..], Some("search")),
            ("sr", &["str"], Some("str")),
            ("ls", &["lst", "read"], Some("lst")),
            ("x", &["search", "ab"], None),
            ("other", &[], None),
        ] {
            assert_eq!(nearest(name, known.iter().copied()), expected, "{name}");
        }
    }

    #[test]
    fn names_become_identifiers_and_identifiers_stay() {
        for (name, spelled) in [
            ("exa", "exa"),
            ("my-backend", "my_backend"),
            ("123start", "_123start"),
            ("has.dots", "has_dots"),
            ("delete", "_delete"),
            ("Math", "_Math"),
            ("__proto__", "___proto__"),
            ("toString", "_toString"),
            ("then", "_then"),
            ("has", "has"),
            ("a b\nc/*", "a_b_c__"),
            ("größe", "größe"),
            ("a\u{200d}b\u{2028}", "a_b_"),
            ("🙂", "_"),
            ("", "_"),
            ("-1", "_1"),
        ] {
            assert_eq!(sanitize(name), spelled, "{name:?}");
            assert_eq!(sanitize(spelled), spelled, "it stays");
        }
    }
}
