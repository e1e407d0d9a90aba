//! Finds the types in the syntax tree.

use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::ScopeFlags;
use oxc_span::GetSpan;

use super::vanish::{is_type_only, vanishes};
use super::{Types, refuse};
use crate::parse::index;

impl<'a> Visit<'a> for Types<'_> {
    fn visit_statement(&mut self, statement: &Statement<'a>) {
        if vanishes(statement) {
            self.vanish(statement.span());
            return;
        }
        walk::walk_statement(self, statement);
        match statement {
            Statement::ExpressionStatement(_)
            | Statement::VariableDeclaration(_)
            | Statement::ReturnStatement(_)
            | Statement::ThrowStatement(_)
            | Statement::ExportDeclaration(_)
            | Statement::ExportDefaultDeclaration(_) => self.end_statement(statement.span()),
            _ => {}
        }
    }

    fn visit_expression_statement(&mut self, statement: &ExpressionStatement<'a>) {
        self.block_position = Some(statement.span.start);
        walk::walk_expression_statement(self, statement);
    }

    fn visit_export_default_declaration(&mut self, export: &ExportDefaultDeclaration<'a>) {
        // A function in that place would be a declaration.
        self.block_position = Some(export.declaration.span().start);
        walk::walk_export_default_declaration(self, export);
    }

    fn visit_variable_declarator(&mut self, variable: &VariableDeclarator<'a>) {
        self.visit_binding_pattern(&variable.id);
        if variable.definite {
            self.blank_mark(variable.id.span().end, '!');
        }
        self.blank_type(variable.type_annotation.as_deref());
        if let Some(init) = &variable.init {
            self.visit_expression(init);
        }
    }

    fn visit_catch_parameter(&mut self, parameter: &CatchParameter<'a>) {
        self.visit_binding_pattern(&parameter.pattern);
        self.blank_type(parameter.type_annotation.as_deref());
    }

    fn visit_function(&mut self, function: &Function<'a>, _: ScopeFlags) {
        self.function_types(function);
        self.visit_formal_parameters(&function.params);
        self.blank_type(function.return_type.as_deref());
        if let Some(body) = &function.body {
            self.visit_function_body(body);
        }
    }

    fn visit_formal_parameter(&mut self, parameter: &FormalParameter<'a>) {
        if parameter.accessibility.is_some() || parameter.readonly || parameter.r#override {
            self.refuse(refuse::PARAMETER_PROPERTY, parameter.span);
        }
        self.visit_decorators(&parameter.decorators);
        self.visit_binding_pattern(&parameter.pattern);
        if parameter.optional {
            self.blank_mark(parameter.pattern.span().end, '?');
        }
        self.blank_type(parameter.type_annotation.as_deref());
        if let Some(initializer) = &parameter.initializer {
            self.visit_expression(initializer);
        }
    }

    fn visit_formal_parameter_rest(&mut self, parameter: &FormalParameterRest<'a>) {
        self.visit_decorators(&parameter.decorators);
        self.visit_binding_rest_element(&parameter.rest);
        self.blank_type(parameter.type_annotation.as_deref());
    }

    fn visit_arrow_function_expression(&mut self, arrow: &ArrowFunctionExpression<'a>) {
        let parameters = arrow.params.span;
        if let Some(types) = &arrow.type_parameters {
            if self.spans_lines(types.span.start, parameters.start) {
                // No line may end after `async`, and none that matters after `return`: the parenthesis moves up.
                self.edits.blank_after("(", index(types.span.start), index(parameters.start) + 1);
            } else {
                self.blank(types.span);
            }
        }
        self.visit_formal_parameters(&arrow.params);
        if let Some(result) = &arrow.return_type {
            if self.spans_lines(parameters.end, result.span.end) {
                // No line may end between `)` and `=>`: the parenthesis moves down.
                self.edits.blank_before(index(parameters.end) - 1, index(result.span.end), ")");
            } else {
                self.blank(result.span);
            }
        }
        self.block_position = Some(arrow.body.span().start);
        self.visit_arrow_function_body(&arrow.body);
    }

    fn visit_class(&mut self, class: &Class<'a>) {
        self.visit_decorators(&class.decorators);
        if class.r#abstract {
            // The word can stand only at the start.
            let start = index(class.span.start);
            self.edits.blank(start, start + "abstract".len());
        }
        self.blank_type_parameters(class.type_parameters.as_deref());
        if let Some(heritage) = &class.heritage {
            self.visit_expression(&heritage.expression);
            self.blank_type_arguments(heritage.type_arguments.as_deref());
        }
        self.implements(class);
        self.visit_class_body(&class.body);
    }

    fn visit_class_element(&mut self, element: &ClassElement<'a>) {
        let vanishes = match element {
            ClassElement::StaticBlock(_) => false,
            ClassElement::TSIndexSignature(_) => true,
            ClassElement::MethodDefinition(method) => method.value.body.is_none(),
            ClassElement::PropertyDefinition(field) => {
                field.declare || field.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition
            }
            ClassElement::AccessorProperty(field) => field.r#type == AccessorPropertyType::TSAbstractAccessorProperty,
        };
        if vanishes { self.vanish(element.span()) } else { walk::walk_class_element(self, element) }
    }

    fn visit_method_definition(&mut self, method: &MethodDefinition<'a>) {
        self.visit_decorators(&method.decorators);
        self.blank_modifiers(method.span.start, method.key.span().start);
        self.visit_property_key(&method.key);
        if method.optional {
            self.blank_member_mark(&method.key, method.computed, '?');
        }
        self.visit_function(&method.value, ScopeFlags::empty());
    }

    fn visit_property_definition(&mut self, field: &PropertyDefinition<'a>) {
        self.visit_decorators(&field.decorators);
        self.blank_modifiers(field.span.start, field.key.span().start);
        self.visit_property_key(&field.key);
        if field.optional {
            self.blank_member_mark(&field.key, field.computed, '?');
        }
        if field.definite {
            self.blank_member_mark(&field.key, field.computed, '!');
        }
        self.blank_type(field.type_annotation.as_deref());
        if let Some(value) = &field.value {
            self.visit_expression(value);
        }
        self.end_field(field.span);
    }

    fn visit_accessor_property(&mut self, field: &AccessorProperty<'a>) {
        self.refuse(refuse::ACCESSOR, field.span);
    }

    fn visit_decorator(&mut self, decorator: &Decorator<'a>) {
        self.refuse(refuse::DECORATOR, decorator.span);
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blank_suffix(&it.expression, it.span);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blank_suffix(&it.expression, it.span);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blank_suffix(&it.expression, it.span);
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        self.assertion(it);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_instantiation_expression(&mut self, it: &TSInstantiationExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blank(it.type_arguments.span);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.blank(it.span);
    }

    fn visit_ts_enum_declaration(&mut self, _: &TSEnumDeclaration<'a>) {
        self.has_enums = true;
    }

    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        self.refuse(refuse::NAMESPACE, it.span);
    }

    fn visit_ts_external_module_declaration(&mut self, it: &TSExternalModuleDeclaration<'a>) {
        self.refuse(refuse::NAMESPACE, it.span);
    }

    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        self.refuse(refuse::IMPORT_EQUALS, it.span);
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.refuse(refuse::EXPORT_EQUALS, it.span);
    }

    fn visit_ts_namespace_export_declaration(&mut self, it: &TSNamespaceExportDeclaration<'a>) {
        self.refuse(refuse::EXPORT_EQUALS, it.span);
    }

    // Imports and exports of types alone vanish before.
    fn visit_import_declaration(&mut self, import: &ImportDeclaration<'a>) {
        self.refuse(refuse::IMPORT, import.span);
    }

    fn visit_export_all_declaration(&mut self, export: &ExportAllDeclaration<'a>) {
        self.refuse(refuse::IMPORT, export.span);
    }

    fn visit_export_from_declaration(&mut self, export: &ExportFromDeclaration<'a>) {
        self.refuse(refuse::IMPORT, export.span);
    }

    fn visit_export_named_declaration(&mut self, export: &ExportNamedDeclaration<'a>) {
        for specifier in export.specifiers.iter().filter(|specifier| is_type_only(specifier.export_kind)) {
            let after = self.token_after(specifier.span.end);
            let comma = self.text[after..].starts_with(',');
            self.edits.blank(index(specifier.span.start), if comma { after + 1 } else { index(specifier.span.end) });
        }
    }
}

impl Types<'_> {
    fn implements(&mut self, class: &Class<'_>) {
        let Some(last) = class.implements.last() else { return };
        let heritage = class.heritage.as_ref().map(|heritage| match &heritage.type_arguments {
            Some(arguments) => arguments.span.end,
            None => heritage.expression.span().end,
        });
        let parameters = class.type_parameters.as_ref().map(|parameters| parameters.span.end);
        let name = class.id.as_ref().map(|id| id.span.end);
        let start = match heritage.or(parameters).or(name) {
            Some(end) => self.token_after(end),
            // `class implements T {}`: it has no name, and cannot be abstract.
            None => self.token_after(class.span.start + 5),
        };
        self.edits.blank(start, index(last.span.end));
    }

    fn blank_member_mark(&mut self, key: &PropertyKey<'_>, computed: bool, mark: char) {
        let mut end = key.span().end;
        if computed {
            let bracket = self.token_after(end) + 1;
            end = u32::try_from(bracket).unwrap_or(end);
        }
        self.blank_mark(end, mark);
    }

    /// Blanks the types of `<T>x`, which may nest.
    fn assertion(&mut self, it: &TSTypeAssertion<'_>) {
        let inner_start = it.expression.span().start;
        if self.spans_lines(it.span.start, inner_start) {
            // `return <T>` with a line break in it would become `return;`.
            self.refuse(refuse::ASSERTION_OF_LINES, it.span);
            return;
        }
        let mut inner = &it.expression;
        while let Expression::TSTypeAssertion(next) = inner {
            inner = &next.expression;
        }
        let (start, end) = (index(it.span.start), self.token_after(it.type_annotation.span().end) + 1);
        let source = self.source(inner.span().start, inner.span().end);
        let is_statement = ["{", "function", "class", "async", "let"].iter().any(|word| source.starts_with(word));
        if self.block_position == Some(it.span.start) && is_statement {
            // `() => <T>{}` is an object, `() => {}` is not.
            self.edits.blank_after("0||", start, end);
        } else {
            self.edits.blank(start, end);
        }
    }
}
