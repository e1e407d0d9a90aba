//! Lists the names that code uses and declares, how it uses them, and how it ends: for hints.

mod chains;
mod finder;
mod lost;
mod meaning;
mod results;

use std::collections::BTreeSet;

use oxc_allocator::Allocator;
use oxc_ast_visit::Visit;
use oxc_semantic::SemanticBuilder;

pub use self::chains::{Arguments, Chain, ChainUse, Member, PromiseUse, Used};
pub use self::lost::Nothing;
pub use self::results::{ResultUse, ResultUsed};
use crate::lines::LineStarts;
use crate::parse;
use crate::prepare::{self, JavaScript};

/// Maximum number of names in [`References::declared`], and of entries in [`References::chains`],
/// [`References::promises`] and [`References::results`].
pub const MAX_DECLARED_NAMES: usize = 1_000;

/// Maximum number of members in a [`Chain`]; longer ones are left out.
pub const MAX_MEMBERS: usize = 16;

/// Place in the author's text: line and column, both counted from 1, the column in UTF-16 code units as JavaScript does.
pub type Place = (u32, u32);

/// Names that a program refers to, and how it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// Names that the program uses and does not declare, sorted. Built-in names such as `Math` are among them.
    pub undeclared: Vec<Undeclared>,
    /// Names that the program declares in any scope, sorted, without the names of types; at most
    /// [`MAX_DECLARED_NAMES`]. One of them may hide a global.
    pub declared: Vec<String>,
    /// Members that the program reads, calls or sets, in the order of the code; at most [`MAX_DECLARED_NAMES`].
    pub chains: Vec<Chain>,
    /// Values of calls that are used without an `await`, in the order of the code; at most [`MAX_DECLARED_NAMES`]. They
    /// are wrong where the call gives a Promise.
    pub promises: Vec<PromiseUse>,
    /// Uses of the values of awaited calls, in the order of the code; at most [`MAX_DECLARED_NAMES`].
    pub results: Vec<ResultUse>,
    /// `true`: the program may go on after an error, by `catch` or otherwise.
    pub may_catch: bool,
    /// Reason why the program has no value though it seems to be meant to have one; `None`: there is none.
    pub nothing: Option<Nothing>,
}

/// Name that the program uses and does not declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undeclared {
    /// Name as in the code.
    pub name: String,
    /// `true`: the name itself is called or constructed, as in `name(…)`.
    pub called: bool,
    /// `true`: the name itself is set, as in `name = 1` or `name++`.
    pub assigned: bool,
    /// `true`: the program asks whether it is there, as in `typeof name`, `globalThis.name` or `"name" in globalThis`.
    pub asked: bool,
    /// Line of its first use in the author's text, counted from 1.
    pub line: u32,
    /// Column of its first use, counted from 1 in UTF-16 code units as JavaScript does.
    pub column: u32,
}

/// Lists the references of an author's source. Code that does not parse has none.
///
/// The parser recurses, as for [`prepare`](crate::prepare()).
///
/// ```
/// let references = relay_script::references("const answer = 6 * 7;\nfetch(answer)");
/// assert_eq!(references.declared, ["answer"]);
/// assert!(references.undeclared[0].name == "fetch" && references.undeclared[0].line == 2);
/// ```
#[must_use]
pub fn references(source: &str) -> References {
    let Ok((JavaScript { text, enums }, lines)) = prepare::javascript(source) else { return References::default() };
    let allocator = Allocator::default();
    let Ok(program) = parse::javascript(&allocator, &text) else { return References::default() };
    let semantic = SemanticBuilder::new().with_build_nodes(true).build(&program).semantic;
    let meanings = meaning::Meanings::new(&semantic);
    let mut finder = finder::Finder::new(meanings, LineStarts::new(&text, lines));
    finder.visit_program(&program);
    let found = finder.end();
    let declared: BTreeSet<&str> = semantic.scoping().symbol_names().collect();
    References {
        undeclared: found.undeclared.into_iter().filter(|it| !enums.is_name(&it.name)).collect(),
        declared: declared.into_iter().take(MAX_DECLARED_NAMES).map(str::to_owned).collect(),
        chains: found.chains,
        promises: found.promises,
        results: found.results,
        may_catch: found.may_catch,
        nothing: lost::nothing(&program, meanings),
    }
}
