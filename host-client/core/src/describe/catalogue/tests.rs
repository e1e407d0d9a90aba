use relay_test_support::catalogue;
use serde_json::json;

use super::*;
use crate::tool::ManifestChange;
use crate::tool::ToolSpec;
use crate::tools::Tools;

fn tools() -> Tools {
    let tools = Tools::new();
    for (name, description) in [
        ("github.list_issues", "Lists the open issues of a repository"),
        ("github.createPullRequest", "Opens a pull request\nin a repository"),
        ("my-fs.read_file", "Reads a text file"),
        ("my-fs.secret", "Reads what code may not"),
        ("web.read_page", "Reads a page of the web, and says which issues it has"),
        ("web.search", "Searches"),
        ("other.search", "Searches elsewhere"),
    ] {
        let spec = ToolSpec::new(name, description, json!({"properties": {"maxCount": {}}}));
        tools.add_with(spec, |_, _| std::future::pending()).unwrap();
    }
    tools
        .amend(["my-fs.secret"], ManifestChange { callable_from_code: Some(false), ..ManifestChange::default() })
        .unwrap();
    tools
}

#[test]
fn words_of_names_descriptions_and_fields_are_found() {
    let tools = tools();
    let first = |query: &str| tools.search(query, 10).first().map(|spec| spec.name.clone());
    for (query, found) in [
        ("issues of a repository", Some("github.list_issues")),
        ("pull request", Some("github.createPullRequest")),
        ("read files", Some("my-fs.read_file")),
        // A name as it stands, in other letters, as JavaScript spells it, and without its server.
        ("web.search", Some("web.search")),
        ("GITHUB.CREATEPULLREQUEST", Some("github.createPullRequest")),
        ("my_fs.read_file", Some("my-fs.read_file")),
        ("read_page", Some("web.read_page")),
        // The beginning of a word, and slips.
        ("repo", Some("github.list_issues")),
        ("crea", Some("github.createPullRequest")),
        ("isuses", Some("github.list_issues")),
        ("requets", Some("github.createPullRequest")),
        ("secret", None),
        ("zeppelin", None),
        ("", None),
        ("é", None),
    ] {
        assert_eq!(first(query).as_deref(), found, "{query:?}");
    }
    assert_eq!(first(&"é".repeat(10_000)), None);
    assert_eq!(tools.search("max count", 2).len(), 2);
    let same: Vec<_> = (0..20).map(|_| tools.search("search", 10)).collect();
    assert!(same.windows(2).all(|pair| pair[0] == pair[1]), "the order is always the same");
    assert_eq!(same[0][0].name, "other.search", "among equals by name");
}

/// The questions of each list whose answer is found at the first place, and within the first three.
const LEAST: [(usize, usize); 2] = [(83, 97), (32, 40)];

#[test]
fn what_people_ask_finds_the_tools_of_real_servers() {
    let tools = Tools::new();
    for listed in catalogue::tools() {
        let spec = ToolSpec::new(listed.name, listed.description, listed.input_schema);
        tools.add_with(spec, |_, _| std::future::pending()).unwrap();
    }
    let lists = catalogue::questions();
    assert_eq!([lists[0].len(), lists[1].len()], [100, 50]);
    for (questions, least) in lists.iter().zip(LEAST) {
        let (mut first, mut three, mut missed) = (0, 0, Vec::new());
        for question in questions {
            for answer in &question.answers {
                assert!(tools.spec(answer).is_some(), "{answer} is no tool");
            }
            let found: Vec<_> = tools.search(&question.query, 10).into_iter().map(|spec| spec.name).collect();
            let place = found.iter().position(|name| question.answers.contains(name));
            first += usize::from(place == Some(0));
            three += usize::from(place.is_some_and(|place| place < 3));
            if place != Some(0) {
                missed.push(format!(
                    "{}: {:?} at {place:?}, but {:?}",
                    question.query,
                    question.answers,
                    &found[..found.len().min(3)]
                ));
            }
        }
        assert!(first >= least.0 && three >= least.1, "{first} and {three}, at least {least:?}: {missed:#?}");
    }
}

#[test]
fn only_what_patterns_allow_is_found_and_named() {
    let (tools, patterns) = (tools(), ToolPatterns::new(Some(vec!["github.*".into()])));
    let catalogue = tools.catalogue();
    assert_eq!(catalogue.search("read search issues", &patterns, 10).len(), 1);
    let error = catalogue.describe("search", &patterns).err().unwrap();
    assert!(!error.to_string().contains("web") && error.candidates.is_empty(), "{error}");
}

#[test]
fn a_name_is_described_or_the_nearest_is_named() {
    let tools = tools();
    for (name, full) in [
        ("github.list_issues", "github.list_issues"),
        ("my_fs.read_file", "my-fs.read_file"),
        ("list_issues", "github.list_issues"),
        (" read_page ", "web.read_page"),
    ] {
        assert_eq!(tools.describe(name).unwrap().name, full);
    }
    for (name, message) in [
        ("search", r#"several tools have the name "search"; use the full one: "other.search" or "web.search""#),
        ("github.list_isues", r#"the server "github" has no tool "list_isues"; did you mean "github.list_issues"?"#),
        ("githib.list_issues", r#"there is no server "githib"; did you mean "github.list_issues"?"#),
        ("list_isues", r#"there is no tool "list_isues"; did you mean "github.list_issues"?"#),
        ("pull request", r#"there is no tool "pull request"; did you mean "github.createPullRequest"?"#),
        ("my-fs.secret", r#"the server "my-fs" has no tool "secret"; search for one by words"#),
        ("zeppelin", r#"there is no tool "zeppelin"; search for one by words"#),
    ] {
        assert_eq!(tools.describe(name).unwrap_err().to_string(), message);
    }
    assert!(tools.describe(&"x".repeat(100_000)).unwrap_err().to_string().len() < 400);
}

#[test]
fn a_catalogue_is_made_again_only_for_other_tools() {
    let tools = tools();
    let first = tools.catalogue();
    assert!(Arc::ptr_eq(&first, &tools.clone().catalogue()));
    let added = tools.add_with(ToolSpec::new("late.zeppelin", "", json!({})), |_, _| std::future::pending());
    assert!(added.is_ok());
    assert_eq!(tools.search("zeppelin", 1)[0].name, "late.zeppelin");
}
