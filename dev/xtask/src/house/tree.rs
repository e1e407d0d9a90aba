//! Reads the modules of a crate from its source files: the items, imports and paths of each. Code that is compiled only
//! for tests is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, Meta, UseTree};

/// Names on the way from the crate's root to a module. It is empty for the root.
pub(super) type ModulePath = Vec<String>;

/// Path that a module mentions.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    /// Its parts, such as `["super", "ledger", "Ledger"]`.
    pub(super) parts: Vec<String>,
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

/// Module of a crate.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Names of the items that are defined here, with those of the child modules.
    items: BTreeSet<String>,
    /// Names that `use` brings in, with the path of each.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths before `::*`.
    globs: Vec<Vec<String>>,
    /// All paths in this module, without those in child modules.
    pub(super) references: Vec<Reference>,
}

/// Modules of a crate.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) modules: BTreeMap<ModulePath, Module>,
}

impl Tree {
    /// Reads a crate from its root file, such as `src/lib.rs`.
    ///
    /// # Errors
    /// A file is missing or is no Rust.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        let folder = root.parent().context("the root of a crate lies in a folder")?;
        tree.read_file(root, folder, Vec::new())?;
        Ok(tree)
    }

    /// Reads the file of a module. The files of its children lie in `folder`.
    fn read_file(&mut self, file: &Path, folder: &Path, path: ModulePath) -> anyhow::Result<()> {
        let text = fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("{} is no Rust", file.display()))?;
        if is_for_tests(&parsed.attrs) {
            return Ok(());
        }
        self.read_items(&parsed.items, file, folder, path)
    }

    fn read_items(&mut self, items: &[Item], file: &Path, folder: &Path, path: ModulePath) -> anyhow::Result<()> {
        let mut module = Module::default();
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            module.items.extend(defined(item));
            match item {
                Item::Mod(child) => {
                    let name = child.ident.unraw().to_string();
                    let child_path = [&path[..], std::slice::from_ref(&name)].concat();
                    match &child.content {
                        Some((_, items)) => self.read_items(items, file, &folder.join(&name), child_path)?,
                        None => {
                            let (child_file, child_folder) = place(&child.attrs, &name, file, folder);
                            self.read_file(&child_file, &child_folder, child_path)?;
                        }
                    }
                }
                Item::Use(item) => {
                    for import in flattened(item) {
                        match &import.name {
                            Some(name) => drop(module.imports.insert(name.clone(), import.parts.clone())),
                            None => module.globs.push(import.parts.clone()),
                        }
                        module.references.push(import.reference(file));
                    }
                }
                other => {
                    let mut visitor = Visitor { file, found: &mut module.references };
                    visitor.visit_item(other);
                }
            }
        }
        self.modules.insert(path, module);
        Ok(())
    }

    /// Finds the module that defines what a path in the module `from` names, following imports. Returns `None` if
    /// another crate defines it, or if no module does, as for a local variable.
    pub(super) fn target(&self, from: &ModulePath, parts: &[String]) -> Option<ModulePath> {
        // The maximum depth ends circles of imports.
        self.resolve(from, parts, 16)
    }

    fn resolve(&self, from: &ModulePath, parts: &[String], depth: usize) -> Option<ModulePath> {
        let depth = depth.checked_sub(1)?;
        let (first, rest) = parts.split_first()?;
        match first.as_str() {
            "crate" => self.descend(Vec::new(), rest, depth),
            "self" => self.descend(from.clone(), rest, depth),
            "super" => {
                let (_, parent) = from.split_last()?;
                match rest.first().map(String::as_str) {
                    Some("super") => self.resolve(&parent.to_vec(), rest, depth),
                    _ => self.descend(parent.to_vec(), rest, depth),
                }
            }
            // The path begins with a name of this module, or with another crate.
            _ => self.lookup(from, parts, depth),
        }
    }

    /// Follows a path from a module down.
    fn descend(&self, from: ModulePath, parts: &[String], depth: usize) -> Option<ModulePath> {
        if parts.is_empty() {
            return Some(from);
        }
        // Assume that a name which is defined nowhere is made by a macro of this module.
        Some(self.lookup(&from, parts, depth).unwrap_or(from))
    }

    /// Finds a name in a module, and what follows it.
    fn lookup(&self, from: &ModulePath, parts: &[String], depth: usize) -> Option<ModulePath> {
        let depth = depth.checked_sub(1)?;
        let (first, rest) = parts.split_first()?;
        let module = self.modules.get(from)?;
        let child = [&from[..], std::slice::from_ref(first)].concat();
        if self.modules.contains_key(&child) {
            return self.descend(child, rest, depth);
        }
        if module.items.contains(first) {
            return Some(from.clone());
        }
        if let Some(import) = module.imports.get(first) {
            // An import of the same name leads to another crate, as in `use serde::Serialize`.
            return if import.first() == Some(first) {
                None
            } else {
                self.resolve(from, &[import, rest].concat(), depth)
            };
        }
        module.globs.iter().find_map(|glob| {
            let source = self.resolve(from, glob, depth)?;
            if source == *from { None } else { self.lookup(&source, parts, depth) }
        })
    }
}

/// Returns the file of a child module, and the folder of that module's children.
fn place(attributes: &[Attribute], name: &str, file: &Path, folder: &Path) -> (PathBuf, PathBuf) {
    let named = attributes.iter().find_map(|attribute| {
        let Meta::NameValue(meta) = &attribute.meta else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &meta.value else { return None };
        meta.path.is_ident("path").then(|| path.value())
    });
    if let Some(named) = named {
        let own = file.parent().unwrap_or(folder).join(named);
        let folder = own.parent().unwrap_or(folder).to_owned();
        return (own, folder);
    }
    let flat = folder.join(format!("{name}.rs"));
    let file = if flat.exists() { flat } else { folder.join(name).join("mod.rs") };
    (file, folder.join(name))
}

/// Returns whether an item is compiled only for tests: `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("cfg") && requires_test(list.tokens.clone())
    })
}

fn requires_test(condition: TokenStream) -> bool {
    let tokens: Vec<_> = condition.into_iter().collect();
    match &tokens[..] {
        [TokenTree::Ident(name)] => name == "test",
        [TokenTree::Ident(name), TokenTree::Group(group)] if name == "all" => {
            let parts: Vec<_> = group.stream().into_iter().collect();
            let mut parts = parts.split(|token| matches!(token, TokenTree::Punct(comma) if comma.as_char() == ','));
            parts.any(|part| requires_test(part.iter().cloned().collect()))
        }
        _ => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Union(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Returns the name that an item defines.
fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Fn(it) => &it.sig.ident,
        Item::Macro(it) => it.ident.as_ref()?,
        Item::Mod(it) => &it.ident,
        Item::Static(it) => &it.ident,
        Item::Struct(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::Type(it) => &it.ident,
        Item::Union(it) => &it.ident,
        _ => return None,
    };
    Some(name.unraw().to_string())
}

/// One name that a `use` brings in.
struct Import {
    parts: Vec<String>,
    /// Name in this module; `None`: a glob.
    name: Option<String>,
    line: usize,
}

impl Import {
    fn reference(self, file: &Path) -> Reference {
        Reference { parts: self.parts, file: file.to_owned(), line: self.line }
    }
}

fn flattened(item: &ItemUse) -> Vec<Import> {
    fn walk(tree: &UseTree, before: &[String], found: &mut Vec<Import>) {
        let with = |name: &Ident| [before, &[name.unraw().to_string()]].concat();
        let line = |name: &Ident| name.span().start().line;
        let mut add = |from: &Ident, name: &Ident| {
            // `use a::b::{self}` brings in `b`.
            let (parts, name) = match (from == "self", before.last()) {
                (true, Some(last)) => (before.to_vec(), if name == "self" { last.clone() } else { name.to_string() }),
                _ => (with(from), name.unraw().to_string()),
            };
            found.push(Import { parts, name: Some(name), line: line(from) });
        };
        match tree {
            UseTree::Path(path) => walk(&path.tree, &with(&path.ident), found),
            UseTree::Name(name) => add(&name.ident, &name.ident),
            UseTree::Rename(rename) => add(&rename.ident, &rename.rename),
            UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                found.push(Import { parts: before.to_vec(), name: None, line });
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, before, found)),
        }
    }
    let mut found = Vec::new();
    walk(&item.tree, &[], &mut found);
    found
}

/// Visitor that collects the paths in an item.
struct Visitor<'a> {
    file: &'a Path,
    found: &'a mut Vec<Reference>,
}

impl Visitor<'_> {
    fn add(&mut self, idents: &[&Ident]) {
        let parts: Vec<_> = idents.iter().map(|ident| ident.unraw().to_string()).collect();
        let Some(first) = idents.first() else { return };
        // Pass over a single lower-case name. It is a variable in most cases, and a module or function of that name was
        // imported by name.
        if matches!(&parts[..], [name] if name.starts_with(|letter: char| !letter.is_uppercase())) {
            return;
        }
        let line = first.span().start().line;
        self.found.push(Reference { parts, file: self.file.to_owned(), line });
    }

    /// Collects what looks like a path among the tokens of a macro.
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Group(group) => self.scan(group.stream()),
                TokenTree::Ident(first) => {
                    let mut idents = vec![first];
                    while is_colon(at) && is_colon(at + 1) {
                        let Some(TokenTree::Ident(next)) = tokens.get(at + 2) else { break };
                        idents.push(next);
                        at += 3;
                    }
                    self.add(&idents);
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.found.extend(flattened(item).into_iter().map(|import| import.reference(self.file)));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let idents: Vec<_> = path.segments.iter().map(|segment| &segment.ident).collect();
        self.add(&idents);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, made: &'ast syn::Macro) {
        self.visit_path(&made.path);
        self.scan(made.tokens.clone());
    }

    /// Attributes hold paths of derive macros and the like, none of modules.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}
