//! Paging through what was not shown.

use std::time::Duration;

use host_client::output::{OutputConfig, OutputStore, ReadError, StoreConfig};
use serde_json::{Value, json};

fn kept(store: &OutputStore, value: &Value) -> String {
    OutputConfig::default().show(value.to_string().as_bytes(), None, Some(store)).handle.unwrap()
}

fn value() -> Value {
    let item = |n: usize| json!({"name": format!("item {n}"), "a.b": [n, {"c/d~e": "x"}], "text": "t".repeat(50)});
    json!({"results": {"items": (0..1_000).map(item).collect::<Vec<_>>(), "": "empty key"}, "long": "é".repeat(50_000)})
}

#[test]
fn a_path_leads_to_any_part() {
    let store = OutputStore::default();
    let handle = kept(&store, &value());
    let read = |path: &str| store.read(&handle, path, 0, None).map(|page| page.text);
    for (path, expected) in [
        ("results.items[3].name", "item 3"),
        ("$.results.items[3].name", "item 3"),
        ("/results/items/3/name", "item 3"),
        ("results.items.3.name", "item 3"),
        ("results[\"items\"][3]['name']", "item 3"),
        ("results.items[3][\"a.b\"][0]", "3"),
        ("results.items[3][\"a.b\"][1][\"c/d~e\"]", "x"),
        ("/results/items/3/a.b/1/c~1d~0e", "x"),
        ("results[\"\"]", "empty key"),
        ("/results/", "empty key"),
        ("results.items[3][\"a.b\"]", "[3,{\"c/d~e\":\"x\"}]"),
    ] {
        assert_eq!(read(path).as_deref(), Ok(expected), "{path}");
    }
}

#[test]
fn keys_may_begin_with_a_dollar_sign() {
    let value = json!({"$schema": "s", "$defs": {"x": [1, 2, 3, 4]}, "$": {"$": "d"}, "fill": "x".repeat(20_000)});
    let store = OutputStore::default();
    let handle = kept(&store, &value);
    for (path, expected) in [
        ("$schema", "s"),
        ("$.$schema", "s"),
        ("$defs.x[3]", "4"),
        ("$defs > x > [3]", "4"),
        ("$[\"$defs\"].x[3]", "4"),
        ("[\"$\"].$", "d"),
        ("/$defs/x/3", "4"),
    ] {
        assert_eq!(store.read(&handle, path, 0, None).map(|page| page.text).as_deref(), Ok(expected), "{path}");
    }
}

#[test]
fn the_titles_of_a_summary_are_paths() {
    let store = OutputStore::default();
    let items: Vec<_> = (0..90).map(|n| json!(["x".repeat(150), n])).collect();
    let keys = |start: &str| -> Value {
        (0..40).map(|n| (format!("{start}{n:02}"), json!("y".repeat(300)))).collect::<serde_json::Map<_, _>>().into()
    };
    let value = json!({
        "results": {"items": items}, "a.b > c": keys("k … \n"), "": keys("/\"["), "plain": keys("key "), "$": keys("$"),
    });
    let shown = OutputConfig::default().show(value.to_string().as_bytes(), None, Some(&store));
    let handle = shown.handle.unwrap();
    let titles: Vec<_> =
        shown.text.lines().skip(1).filter_map(|line| line.rsplit_once("KB): ")?.0.rsplit_once(" (")).collect();
    assert!(titles.len() > 20, "{}", shown.text);
    for (title, size) in titles {
        let page = store.read(&handle, title, 0, None).unwrap_or_else(|error| panic!("{title}: {error}"));
        let count = size.split_once(' ').map_or(1, |(count, _)| count.parse().unwrap());
        if count > 1 {
            let (head, _) = page.text.split_once(" of ").unwrap();
            let numbers: Vec<usize> = head.split(' ').filter_map(|word| word.parse().ok()).collect();
            assert_eq!(numbers[1] + 1 - numbers[0], count, "{title}: {head}");
        }
    }
    let read = |path: &str, offset, limit| store.read(&handle, path, offset, limit).map(|page| page.text);
    let head = |path: &str, offset, limit| read(path, offset, limit).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(head("results > items > [3-7]", 0, None), "[items 3 to 7 of 90]");
    assert_eq!(head("results.items[3-7]", 0, Some(2)), "[items 3 to 4 of 90]");
    assert_eq!(head("results.items[3-7]", 5, None), "[items 5 to 7 of 90]");
    assert_eq!(head("results.items[3-7]", 8, None), "[items 8 to 89 of 90]");
    assert_eq!(head("plain > key 02 … key 05", 0, None), "[members 2 to 5 of 40]");
    let missing = read("plain > key 02 … key 99", 0, None).unwrap_err().to_string();
    assert!(missing.starts_with("there is no \"key 99\" at \"plain\""), "{missing}");
    for path in ["results.items[3-7].x", "plain > key 02 … ", "results > ", "results > .items"] {
        let error = read(path, 0, None).unwrap_err().to_string();
        assert!(error.starts_with("the path cannot be read: "), "{path}: {error}");
    }
}

#[test]
fn pages_follow_each_other_until_all_was_read() {
    let store = OutputStore::default();
    let value = value();
    let handle = kept(&store, &value);
    let (mut items, mut offset, mut pages) = (Vec::new(), 0, 0);
    loop {
        let page = store.read(&handle, "results.items", offset, None).unwrap();
        assert!(page.text.len() < 21_000, "{}", page.text.len());
        let json: String = page.text.lines().filter(|line| !is_note(line)).collect();
        items.extend(serde_json::from_str::<Vec<Value>>(&json).unwrap());
        pages += 1;
        match page.next_offset {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(json!(items), value["results"]["items"]);
    assert!(pages > 3, "{pages}");

    let (mut text, mut offset) = (String::new(), 0);
    while let Some(next) = {
        let page = store.read(&handle, "long", offset, None).unwrap();
        text.push_str(page.text.lines().find(|line| !is_note(line)).unwrap());
        page.next_offset
    } {
        offset = next;
    }
    assert_eq!(json!(text), value["long"]);
}

fn is_note(line: &str) -> bool {
    line.starts_with("[items ") || line.starts_with("[characters ") || line.starts_with("[go on with offset ")
}

#[test]
fn a_page_says_which_part_it_is() {
    let store = OutputStore::default();
    let handle = kept(&store, &value());
    let read = |path: &str, offset: usize, limit: Option<usize>| store.read(&handle, path, offset, limit).unwrap();
    let page = read("results.items[7][\"a.b\"]", 0, Some(1));
    assert_eq!((&*page.text, page.next_offset), ("[items 0 to 0 of 2]\n[7]\n[go on with offset 1]", Some(1)));
    let page = read("results.items[7].name", 5, Some(1));
    assert_eq!((&*page.text, page.next_offset), ("[characters 5 to 5 of 6]\n7", None));
    assert_eq!(read("results.items", 1_000, None).text, "[no items from 1000 on; there are 1000]\n[]");
    assert_eq!(read("results.items", usize::MAX, Some(usize::MAX)).next_offset, None);
    assert_eq!(
        read("long", usize::MAX, Some(0)).text,
        "[no characters from 18446744073709551615 on; there are 50000]\n"
    );
    let root = read("", 0, None).text;
    assert!(root.contains("\"long\": \"[string of 97.7KB: read it by its own path]\""), "{root}");
    assert!(root.contains("\"results\": \"[object of "), "{root}");
}

#[test]
fn texts_have_pages_too() {
    let store = OutputStore::default();
    let text = "a line of text\n".repeat(20_000);
    let handle = kept(&store, &json!(text));
    let page = store.read(&handle, "", 0, None).unwrap();
    assert!(page.text.starts_with("[characters 0 to 19999 of 300000]\na line"), "{}", &page.text[..100]);
    assert_eq!(page.next_offset, Some(20_000));
    let page = store.read(&handle, "", 299_990, None).unwrap();
    assert_eq!((&*page.text, page.next_offset), ("[characters 299990 to 299999 of 300000]\ne of text\n", None));
    let error = store.read(&handle, "lines[0]", 0, None).unwrap_err().to_string();
    assert!(error.contains("the output is a text"), "{error}");
}

#[test]
fn a_path_that_leads_nowhere_is_answered_with_what_there_is() {
    let store = OutputStore::default();
    let handle = kept(&store, &value());
    let error = |path: &str| store.read(&handle, path, 0, None).unwrap_err().to_string();
    assert_eq!(error("result.items"), "there is no \"result\" at \"\"; there are the keys \"long\", \"results\"");
    let said = "there is no \"1000\" at \"results.items\"; there are the items 0 to 999";
    assert_eq!(error("results.items[1000].name"), said);
    assert_eq!(error("long.x"), "there is no \"x\" at \"long\"; there is a single value there");
    assert!(error("results.items[-1]").starts_with("there is no \"-1\" at \"results.items\""));
    for path in ["a[", "a[]", "a[\"b", "a[\"b\"", "a..b", ".", "a.", "[\"a\"b]", "a[1", "['a\\"] {
        assert!(error(path).starts_with("the path cannot be read: "), "{path}: {}", error(path));
    }
    for path in ["/".repeat(200), "a.".repeat(5_000), "[0]".repeat(129), "x".repeat(10_000)] {
        assert!(error(&path).starts_with("the path cannot be read: it "), "{}", error(&path));
    }
    for path in ["\u{0}", "é🙂", "[99999999999999999999999]", "__proto__", "//", "~", "/~2"] {
        assert!(error(path).starts_with("there is no "), "{path}");
    }
    let long = error(&"x".repeat(3_000));
    assert!(long.len() < 300, "{long}");
}

#[test]
fn a_handle_is_good_in_its_own_session_alone() {
    let (store, other) = (OutputStore::default(), OutputStore::default());
    let handle = kept(&store, &value());
    assert!(handle.len() == 20 && handle.starts_with("out_"), "{handle}");
    assert_ne!(handle, kept(&store, &value()));
    assert!(store.clone().read(&handle, "long", 0, Some(1)).is_ok());
    for handle in [&*handle, "", "out_", "out_AAAAAAAAAAAAAAAA", "\u{0}", &"x".repeat(100_000)] {
        let error = other.read(handle, "", 0, None).unwrap_err();
        assert_eq!(error, ReadError::UnknownHandle);
        assert!(error.to_string().contains("a handle is good in the session that it was given in"), "{error}");
    }
}

#[test]
fn what_is_kept_is_bounded_and_what_is_read_stays() {
    let value = json!("x".repeat(300_000));
    let is_there = |store: &OutputStore, handle: &str| store.read(handle, "", 0, Some(1)).is_ok();
    for config in
        [StoreConfig { entries: 2, ..StoreConfig::default() }, StoreConfig { bytes: 700_000, ..StoreConfig::default() }]
    {
        let store = OutputStore::new(config);
        let (first, second) = (kept(&store, &value), kept(&store, &value));
        assert!(is_there(&store, &first));
        let third = kept(&store, &value);
        assert_eq!([&first, &second, &third].map(|it| is_there(&store, it)), [true, false, true], "{config:?}");
    }
    let store = OutputStore::new(StoreConfig { bytes: 100, ..StoreConfig::default() });
    let shown = OutputConfig::default().show(value.to_string().as_bytes(), None, Some(&store));
    assert!(shown.handle.is_none() && !shown.is_whole && !shown.text.contains("read_output"));
    let store = OutputStore::new(StoreConfig { unread: Duration::ZERO, ..StoreConfig::default() });
    let handle = kept(&store, &value);
    assert!(!is_there(&store, &handle));
}

#[test]
fn sessions_share_the_room_and_nothing_else() {
    let value = json!("x".repeat(300_000));
    let is_there = |store: &OutputStore, handle: &str| store.read(handle, "", 0, Some(1)).is_ok();
    let config = StoreConfig { entries: 2, shared_bytes: 1_000_000, ..StoreConfig::default() };
    let first = OutputStore::new(config);
    let (second, third) = (first.for_another_session(), first.for_another_session());
    let (one, two) = (kept(&first, &value), kept(&second, &value));
    assert!(is_there(&first, &one) && is_there(&second, &two));
    assert!(!is_there(&second, &one) && !is_there(&first, &two), "a handle is good in its own session");
    let three = [kept(&third, &value), kept(&third, &value), kept(&third, &value)];
    assert!(!is_there(&third, &three[0]), "a session has its own limit");
    assert!(!is_there(&first, &one) && is_there(&second, &two), "what was not used for longest made room");
    drop(third);
    let four = kept(&first, &value);
    assert!(is_there(&first, &four) && is_there(&second, &two), "a session that is gone keeps nothing");
    let five = kept(&second, &value);
    assert!([(&first, four), (&second, two), (&second, five)].iter().all(|(store, handle)| is_there(store, handle)));
}

#[test]
fn of_two_members_with_one_key_the_last_counts() {
    let store = OutputStore::default();
    let json = format!("{{\"a\":1,\"fill\":\"{}\",\"more\":[1,2],\"a\":{{\"b\":2}}}}", "x".repeat(300_000));
    let handle = OutputConfig::default().show(json.as_bytes(), None, Some(&store)).handle.unwrap();
    assert_eq!(store.read(&handle, "a.b", 0, None).unwrap().text, "2");
}
