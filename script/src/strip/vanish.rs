//! Recognizes statements that are types alone and leave nothing behind.

use oxc_ast::ast::*;

pub(super) fn is_type_only(kind: ImportOrExportKind) -> bool {
    kind == ImportOrExportKind::Type
}

pub(super) fn vanishes(statement: &Statement<'_>) -> bool {
    if let Some(declaration) = statement.as_declaration() {
        return declaration_vanishes(declaration);
    }
    match statement {
        Statement::ImportDeclaration(import) => {
            is_type_only(import.import_kind)
                || import
                    .specifiers
                    .as_ref()
                    .is_some_and(|specifiers| !specifiers.is_empty() && specifiers.iter().all(is_type_import))
        }
        Statement::ExportAllDeclaration(export) => is_type_only(export.export_kind),
        Statement::ExportFromDeclaration(export) => all_types(export.export_kind, &export.specifiers),
        Statement::ExportNamedDeclaration(export) => all_types(export.export_kind, &export.specifiers),
        Statement::ExportDeclaration(export) => declaration_vanishes(&export.declaration),
        Statement::ExportDefaultDeclaration(export) => match &export.declaration {
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => true,
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => function.body.is_none(),
            _ => false,
        },
        _ => false,
    }
}

fn is_type_import(specifier: &ImportDeclarationSpecifier<'_>) -> bool {
    matches!(specifier, ImportDeclarationSpecifier::ImportSpecifier(only) if is_type_only(only.import_kind))
}

fn all_types(kind: ImportOrExportKind, specifiers: &[ExportSpecifier<'_>]) -> bool {
    let each = !specifiers.is_empty() && specifiers.iter().all(|specifier| is_type_only(specifier.export_kind));
    is_type_only(kind) || each
}

fn declaration_vanishes(declaration: &Declaration<'_>) -> bool {
    match declaration {
        Declaration::TSTypeAliasDeclaration(_)
        | Declaration::TSInterfaceDeclaration(_)
        | Declaration::TSGlobalDeclaration(_) => true,
        // A function without a body is an overload signature.
        Declaration::FunctionDeclaration(function) => function.declare || function.body.is_none(),
        Declaration::VariableDeclaration(variables) => variables.declare,
        Declaration::ClassDeclaration(class) => class.declare,
        Declaration::TSEnumDeclaration(it) => it.declare,
        Declaration::TSExternalModuleDeclaration(module) => module.declare,
        Declaration::TSNamespaceDeclaration(namespace) => namespace.declare || holds_no_value(&namespace.body),
        Declaration::TSImportEqualsDeclaration(import) => is_type_only(import.import_kind),
    }
}

fn holds_no_value(body: &TSNamespaceDeclarationBody<'_>) -> bool {
    match body {
        TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => holds_no_value(&inner.body),
        TSNamespaceDeclarationBody::TSModuleBlock(block) => block.body.iter().all(vanishes),
    }
}
