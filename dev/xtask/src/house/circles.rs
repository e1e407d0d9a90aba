//! Circles between the modules of a crate.
//!
//! Each path that leads from one module to another is lifted to the children of their nearest common parent: it is an
//! arrow between these two siblings. Siblings form no circle, at any level. What goes between a parent and its own
//! children does not count.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use super::tree::{ModulePath, Tree};

/// A use of one module by its sibling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrow {
    from: String,
    to: String,
    /// File with the first of several such uses.
    file: PathBuf,
    line: usize,
    /// Path as it is written in that file.
    written: String,
}

impl fmt::Display for Arrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, file, line, written } = self;
        write!(f, "{from} -> {to}  ({}:{line}: {written})", file.display())
    }
}

/// Siblings that use each other in a circle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Circle {
    /// Shortest circle among them; the last arrow leads back to the first module.
    pub(super) arrows: Vec<Arrow>,
    /// All siblings that are connected by circles.
    pub(super) modules: Vec<String>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a circle of modules:")?;
        for arrow in &self.arrows {
            write!(f, "\n    {arrow}")?;
        }
        if self.modules.len() > self.arrows.len() {
            write!(f, "\n    and {} hang together by such circles: {}", self.modules.len(), self.modules.join(", "))?;
        }
        Ok(())
    }
}

/// Arrows between the children of one module.
type Siblings = BTreeMap<(String, String), Arrow>;

/// Finds the circles in a crate, one for each group of siblings that are connected.
///
/// # Errors
/// A file of the crate is missing or is no Rust.
pub(super) fn circles(root: &Path) -> anyhow::Result<Vec<Circle>> {
    let tree = Tree::read(root)?;
    Ok(levels(&tree).values().flat_map(among).collect())
}

/// Groups the arrows of a crate by the parent of the siblings.
fn levels(tree: &Tree) -> BTreeMap<ModulePath, Siblings> {
    let mut levels: BTreeMap<ModulePath, Siblings> = BTreeMap::new();
    for (from, module) in &tree.modules {
        for reference in &module.references {
            let Some(to) = tree.target(from, &reference.parts) else { continue };
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            // A module uses itself, or a module inside itself: that is no arrow.
            let (Some(_), Some(_)) = (from.get(common), to.get(common)) else { continue };
            let name = |path: &ModulePath| path[..=common].join("::");
            let arrow = Arrow {
                from: name(from),
                to: name(&to),
                file: reference.file.clone(),
                line: reference.line,
                written: reference.parts.join("::"),
            };
            let siblings = levels.entry(from[..common].to_vec()).or_default();
            siblings.entry((arrow.from.clone(), arrow.to.clone())).or_insert(arrow);
        }
    }
    levels
}

fn among(siblings: &Siblings) -> Vec<Circle> {
    let edges = siblings.keys().map(|(from, to)| (from.as_str(), to.as_str()));
    let graph: DiGraphMap<&str, ()> = DiGraphMap::from_edges(edges);
    let groups = tarjan_scc(&graph).into_iter().filter(|group| group.len() > 1);
    groups.filter_map(|group| circle(siblings, &graph, group)).collect()
}

/// Finds a shortest circle in a group in which each module reaches each other one.
fn circle(siblings: &Siblings, graph: &DiGraphMap<&str, ()>, mut group: Vec<&str>) -> Option<Circle> {
    group.sort_unstable();
    let shortest = group.iter().filter_map(|start| back_to(graph, start)).min_by_key(Vec::len)?;
    let next = shortest.iter().cycle().skip(1);
    let arrow = |(from, to): (&&str, &&str)| siblings.get(&((*from).to_owned(), (*to).to_owned())).cloned();
    let arrows = shortest.iter().zip(next).map(arrow).collect::<Option<_>>()?;
    Some(Circle { arrows, modules: group.into_iter().map(str::to_owned).collect() })
}

/// Finds the modules on a shortest path from one back to itself, by breadth-first search.
fn back_to<'a>(graph: &DiGraphMap<&'a str, ()>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(here) = queue.pop_front() {
        for next in graph.neighbors(here) {
            if next == start {
                let mut way = vec![here];
                while let Some(earlier) = way.last().filter(|last| **last != start).and_then(|last| before.get(last)) {
                    way.push(earlier);
                }
                way.reverse();
                return Some(way);
            }
            if let std::collections::btree_map::Entry::Vacant(entry) = before.entry(next) {
                entry.insert(here);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Returns the circles in a crate of these files, without the folder's name.
    fn of(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let found = circles(&folder.path().join("lib.rs")).unwrap();
        let prefix = format!("{}/", folder.path().display());
        found.iter().map(|circle| circle.to_string().replace(&prefix, "")).collect()
    }

    #[test]
    fn a_circle_of_three_is_named_with_the_place_of_each_arrow() {
        let found = of(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B;\npub struct A(B);"),
            ("b.rs", "\npub struct B;\nimpl B { fn c() -> super::c::C { super::c::C } }"),
            ("c.rs", "pub struct C;\nfn f() { println!(\"{:?}\", crate::a::inner::g()) }"),
            ("a/inner.rs", ""),
            ("d.rs", "use crate::{a::A, b, c::{self, C}};"),
        ]);
        let expected = "a circle of modules:\n    a -> b  (a.rs:1: crate::b::B)\n    \
                        b -> c  (b.rs:3: super::c::C)\n    c -> a  (c.rs:2: crate::a::inner::g)";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn circles_below_are_found_and_those_of_a_parent_and_its_child_do_not_count() {
        let found = of(&[
            ("lib.rs", "mod a { pub mod x; pub mod y { use super::x::X; pub struct Y; } }\nstruct Root;"),
            ("a/x.rs", "mod deep;\nuse crate::Root;\nuse deep::Deep;\npub struct X;"),
            ("a/x/deep.rs", "use super::X;\npub struct Deep(crate::a::y::Y);"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("a::x -> a::y  (a/x/deep.rs:2: crate::a::y::Y)"), "{found:?}");
        assert!(found[0].contains("a::y -> a::x  (lib.rs:1: super::x::X)"), "{found:?}");
    }

    #[test]
    fn a_name_that_the_root_only_passes_on_leads_to_where_it_is_defined() {
        let root = "mod a;\nmod b;\npub use b::*;\npub use a::A as Renamed;";
        let found = of(&[("lib.rs", root), ("a.rs", "use crate::B; pub struct A;"), ("b.rs", "pub struct B;")]);
        assert_eq!(found, [""; 0]);
        let b = "pub struct B;\nfn f(_: crate::Renamed) {}";
        let found = of(&[("lib.rs", root), ("a.rs", "use crate::B; pub struct A;"), ("b.rs", b)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("b -> a  (b.rs:2: crate::Renamed)"), "{found:?}");
    }

    #[test]
    fn names_that_a_glob_brings_in_count() {
        let files = |b| [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;\npub struct A;"), ("b.rs", b)];
        assert_eq!(of(&files("use super::*;\npub struct B(a::A);")).len(), 1);
        assert_eq!(of(&files("use super::*;\npub struct B;\nfn f(a: u8) -> u8 { a }")), [""; 0]);
    }

    #[test]
    fn what_is_for_tests_alone_is_no_arrow() {
        let b = "pub struct B;\n#[cfg(all(test, unix))] use crate::a::A;\n#[cfg(test)] mod tests { use crate::a::A; }\n\
                 impl B { #[cfg(test)] fn a() -> crate::a::A { crate::a::A } }";
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;\npub struct A;"), ("b.rs", b)];
        assert_eq!(of(&files), [""; 0]);
        let live = b.replace("all(test, unix)", "any(test, unix)");
        let files = [files[0], files[1], ("b.rs", &live)];
        assert_eq!(of(&files).len(), 1, "what is compiled otherwise, too, counts");
    }

    #[test]
    fn of_many_that_hang_together_a_shortest_circle_is_shown() {
        let found = of(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c;\nuse crate::a;"),
            ("c.rs", "use crate::a;"),
        ]);
        let expected = "a circle of modules:\n    a -> b  (a.rs:1: crate::b)\n    b -> a  (b.rs:2: crate::a)\n    \
                        and 3 hang together by such circles: a, b, c";
        assert_eq!(found, [expected]);
    }
}
