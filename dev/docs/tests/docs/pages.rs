//! Reads the pages: their blocks, links, headings and tables.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Holds a page of Markdown.
pub(crate) struct Page {
    /// Path from the root of the repository, such as `docs/code.md`.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) blocks: Vec<Block>,
    pub(crate) links: Vec<Link>,
    /// Anchors of the headings, as GitHub makes them.
    pub(crate) anchors: Vec<String>,
    pub(crate) tables: Vec<Table>,
}

/// Holds a block of code.
#[derive(Debug)]
pub(crate) struct Block {
    /// Text behind the fence, such as `rust,no_run`; empty if there is none.
    pub(crate) info: String,
    pub(crate) text: String,
    /// Number of its first line, counted from 1.
    pub(crate) line: usize,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) target: String,
    pub(crate) line: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Tells whether its first columns have these headers.
    pub(crate) fn has_columns(&self, header: &[&str]) -> bool {
        self.header.len() >= header.len() && self.header.iter().zip(header).all(|(own, other)| own == other)
    }
}

impl Block {
    /// Returns the language: the text behind the fence up to the first comma.
    pub(crate) fn language(&self) -> &str {
        self.info.split(',').next().unwrap_or_default()
    }
}

/// Finds the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Reads README and docs: the pages whose blocks are tried.
pub(crate) fn pages() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    assert!(names.len() > 10, "pages are missing: {names:?}");
    names.iter().map(|name| Page::read(name)).collect()
}

/// Reads one page, by its path from the root.
pub(crate) fn page(name: &str) -> Page {
    Page::read(name)
}

impl Page {
    pub(crate) fn read(name: &str) -> Self {
        let text = fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self::parse(name, text)
    }

    pub(crate) fn parse(name: &str, text: String) -> Self {
        let mut page = Self { name: name.into(), text, blocks: vec![], links: vec![], anchors: vec![], tables: vec![] };
        let text = page.text.clone();
        let events = Parser::new_ext(&text, Options::ENABLE_TABLES).into_offset_iter();
        let line = |range: &Range<usize>| text[..range.start].matches('\n').count() + 1;
        let (mut heading, mut cell) = (None, None);
        let mut is_in_block = false;
        for (event, range) in events {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let info = match kind {
                        CodeBlockKind::Fenced(info) => info.to_string(),
                        CodeBlockKind::Indented => "indented".into(),
                    };
                    page.blocks.push(Block { info, text: String::new(), line: line(&range) });
                    is_in_block = true;
                }
                Event::End(TagEnd::CodeBlock) => is_in_block = false,
                Event::Text(words) if is_in_block => page.blocks.last_mut().unwrap().text.push_str(&words),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(Link { target: dest_url.to_string(), line: line(&range) });
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap());
                    let same = page.anchors.iter().filter(|other| **other == slug).count();
                    page.anchors.push(if same == 0 { slug } else { format!("{slug}-{same}") });
                }
                Event::Start(Tag::Table(_)) => page.tables.push(Table::default()),
                Event::Start(Tag::TableRow) => page.tables.last_mut().unwrap().rows.push(Vec::new()),
                Event::Start(Tag::TableCell) => cell = Some(String::new()),
                Event::End(TagEnd::TableCell) => {
                    let table = page.tables.last_mut().unwrap();
                    let row = table.rows.last_mut().unwrap_or(&mut table.header);
                    row.push(cell.take().unwrap().trim().to_owned());
                }
                Event::Text(words) | Event::Code(words) => {
                    for text in [&mut heading, &mut cell].into_iter().flatten() {
                        text.push_str(&words);
                    }
                }
                _ => {}
            }
        }
        page
    }

    /// Finds the one table whose first columns have these headers.
    pub(crate) fn table(&self, header: &[&str]) -> &Table {
        let mut found = self.tables.iter().filter(|table| table.has_columns(header));
        let table = found.next().unwrap_or_else(|| panic!("{} has no table with the columns {header:?}", self.name));
        assert!(found.next().is_none(), "{} has several tables with the columns {header:?}", self.name);
        table
    }
}

/// Makes the anchor of a heading as GitHub does.
fn slug(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.map(|it| if it == ' ' { '-' } else { it }).collect()
}

#[test]
fn a_page_is_read_with_all_that_is_looked_at() {
    let text = "# A `b`: c_d\n\n[x](y.md#z)\n\n```sh\nls # x\n```\n\n## Twice\n\n## Twice\n\n\
                | `k` | v |\n|---|---|\n| `a|b` | c |\n";
    let page = Page::parse("x.md", text.to_owned());
    assert_eq!(page.anchors, ["a-b-c_d", "twice", "twice-1"]);
    assert_eq!((page.links[0].target.as_str(), page.links[0].line), ("y.md#z", 3));
    assert_eq!((page.blocks[0].language(), &*page.blocks[0].text, page.blocks[0].line), ("sh", "ls # x\n", 5));
    assert_eq!(page.table(&["k", "v"]).rows.len(), 1);
}
