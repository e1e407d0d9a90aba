//! Checks links: files and anchors of this repository exist; of addresses on the web only the form is checked.

use std::fs;
use std::path::Path;

use crate::pages::{Page, page, pages, root};

/// Lists the pages whose links are checked and whose blocks are not tried.
const OTHERS: [&str; 4] = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

#[test]
fn every_link_leads_somewhere() {
    let all: Vec<Page> = pages().into_iter().chain(OTHERS.iter().map(|name| page(name))).collect();
    let mut wrong = Vec::new();
    for page in &all {
        for link in &page.links {
            if let Err(why) = check(page, &link.target, &all) {
                wrong.push(format!("{}:{}: {}: {why}", page.name, link.line, link.target));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let links: usize = all.iter().map(|page| page.links.len()).sum();
    assert!(links > 100, "only {links} links are found: are they read at all?");
}

#[test]
fn every_page_is_reached_from_the_index_and_every_section_from_the_list_at_its_top() {
    let index = page("docs/README.md");
    for page in pages().iter().filter(|page| page.name.starts_with("docs/") && page.name != index.name) {
        let file = page.name.strip_prefix("docs/").unwrap();
        assert!(index.links.iter().any(|link| link.target == file), "docs/README.md does not lead to {file}");
        let listed: Vec<_> = page.links.iter().filter_map(|link| link.target.strip_prefix('#')).collect();
        // A page of one or two sections needs no list.
        let sections = &page.anchors[1..];
        let has_list = sections.len() <= 2 || sections.iter().all(|section| listed.contains(&section.as_str()));
        assert!(has_list, "{} does not list its sections {sections:?}", page.name);
    }
}

#[test]
fn wrong_links_are_found() {
    let text = "# Here\n[a](none.md) [b](README.md#none) [c](#none) [d](http://example.com) [e](https://) \
                [f](dev/none)\n\
                [g](README.md) [h](#here) [i](https://example.com/x) [j](dev/docs)";
    let page = Page::parse("README.md", text.to_owned());
    let verdicts: Vec<bool> = page.links.iter().map(|link| check(&page, &link.target, &[]).is_ok()).collect();
    assert_eq!(verdicts, [[false; 6].as_slice(), &[true; 4]].concat());
}

/// Checks one link.
///
/// # Errors
/// The link leads nowhere; the text says why.
fn check(page: &Page, target: &str, all: &[Page]) -> Result<(), String> {
    if target.contains(':') {
        let address = url::Url::parse(target).map_err(|error| error.to_string())?;
        let is_web = address.scheme() == "https" && address.host_str().is_some_and(|host| host.contains('.'));
        return is_web.then_some(()).ok_or_else(|| "it is no https:// address".to_owned());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = Path::new(&page.name).parent().unwrap();
    let path = match file {
        "" => page.name.clone(),
        file => normalized(&folder.join(file))?,
    };
    fs::metadata(root().join(&path)).map_err(|error| error.to_string())?;
    if anchor.is_empty() {
        return Ok(());
    }
    let target = match path == page.name {
        true => page,
        false => all.iter().find(|other| other.name == path).ok_or("an anchor of what is no page here")?,
    };
    target.anchors.iter().any(|it| it == anchor).then_some(()).ok_or_else(|| format!("{path} has no such section"))
}

/// Makes a path from the root without `..`.
///
/// # Errors
/// It leads out of the repository.
fn normalized(path: &Path) -> Result<String, String> {
    let mut parts = Vec::new();
    for part in path.iter().map(|part| part.to_str().unwrap()) {
        match part {
            "." => {}
            ".." => drop(parts.pop().ok_or("it leads out of the repository")?),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}
