//! Runs one program: prepares and evaluates its module, waits for it, and makes its outcome.

use std::collections::BTreeMap;

use relay_proto::ErrorCode;
use relay_proto::code::warning;
use relay_proto::steps::Source;
use relay_script::{Entry, Prepared, References};

use super::bridge::Wait;
use super::channel::message;
use super::channel::message::report::Kind as Report;
use super::ending::{self, failure};
use super::stack::SCRIPT_NAME;
use super::thrown::{caught_failure, thrown_failure};
use super::value::{self, ValueError};
use super::{bridge, clock, hints, leftovers, link, local, make, record, timers, turns};

/// Maximum length in bytes of a source, and of a result, that is parsed again for hints.
const MAX_LOOKED_AT_BYTES: usize = 64 << 10;

/// Runs the code of an execution until it ends.
///
/// # Errors
/// The report of the error that the code ended with.
pub(super) fn execute(
    scope: &mut v8::PinScope<'_, '_>,
    start: message::Start,
) -> Result<message::Done, message::Failed> {
    let message::Start { source, local_tools, result_bytes, .. } = start;
    let result_bytes = usize::try_from(result_bytes).unwrap_or(usize::MAX);
    run(scope, &source, local_tools, result_bytes).map_err(|failed| explained(failed, &source))
}

fn run(
    scope: &mut v8::PinScope<'_, '_>,
    source: &str,
    local_tools: BTreeMap<String, String>,
    result_bytes: usize,
) -> Result<message::Done, message::Failed> {
    value::note_source(source);
    for (tool, source) in local_tools {
        value::note_source(&source);
        let named = |failed: message::Failed| {
            let message = format!("the local tool {tool}: {}", failed.message);
            message::Failed { message, ..failed }
        };
        let function = local_function(scope, &tool, &source).map_err(named)?;
        local::add(tool, v8::Global::new(scope, function));
    }
    let outcome = prepare(source).and_then(|prepared| run_program(scope, &prepared));
    let (value, own) = record::check_used_up(outcome)?;
    let json = value::to_json(scope, value, "null", result_bytes);
    let json = json.map_err(|error| value_failure(scope, error, result_bytes))?;
    value::warn_of_losses("the result");
    let warnings = leftovers::warnings(scope, own);
    let mut done = message::Done { result: json.into(), warnings, ..message::Done::default() };
    if value.is_generator_object() {
        done.warnings.push(hint(hints::GENERATOR.into()));
    }
    if source.len() <= MAX_LOOKED_AT_BYTES && done.result.len() <= MAX_LOOKED_AT_BYTES {
        let (nothing, caught) = (value.is_undefined(), hints::may_catch(source));
        if nothing || caught {
            let hints = look_again(source, Report::Done(done.clone()), |references| {
                let mut hints =
                    if caught { hints::caught(references, |name| has_global(scope, name)) } else { Vec::new() };
                if nothing {
                    hints.extend(hints::of_undefined(references));
                }
                hints
            });
            done.warnings.extend(hints.into_iter().map(hint));
        }
    }
    Ok(done)
}

/// Adds advice to the report of an error that the code threw.
fn explained(mut failed: message::Failed, source: &str) -> message::Failed {
    let is_own = failed.code == ErrorCode::EvalError.as_str() && failed.tool_code.is_empty();
    if !is_own || failed.line == 0 || source.len() > MAX_LOOKED_AT_BYTES {
        return failed;
    }
    if let Some(problem) = hints::problem(&failed.message) {
        let place = (failed.line, failed.column);
        let hint = look_again(source, Report::Failed(failed.clone()), |references| {
            hints::of_error(&problem, place, references)
        });
        failed.hint = hint.unwrap_or_default();
    }
    failed
}

/// Parses the code again, and looks for hints. This may fail in any way: the outcome is certain before.
fn look_again<T>(source: &str, outcome: Report, look: impl FnOnce(&References) -> T) -> T {
    link::flush();
    ending::whatever_happens(outcome, || look(&ending::parsing(|| relay_script::references(source))))
}

/// Returns whether there is a global of this name, without running code of the script's.
fn has_global(scope: &mut v8::PinScope<'_, '_>, name: &str) -> bool {
    v8::tc_scope!(let scope, scope);
    let key = make::string(scope, name);
    let global = scope.get_current_context().global(scope);
    global.has_own_property(scope, key.into()) != Some(false)
}

fn hint(message: String) -> message::Warning {
    message::Warning { code: warning::HINT.into(), message }
}

/// Makes the module of a source.
fn prepare(source: &str) -> Result<Prepared, message::Failed> {
    ending::parsing(|| relay_script::prepare(source)).map_err(|error| message::Failed {
        line: error.line,
        column: error.column,
        hint: error.hint.into(),
        ..failure(ErrorCode::SyntaxError, error.message)
    })
}

/// Returns the function that the source of a local tool is.
fn local_function<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    tool: &str,
    source: &str,
) -> Result<v8::Local<'s, v8::Function>, message::Failed> {
    let prepared = prepare(source)?;
    let exported = load(scope, &prepared, tool)?;
    let value = match prepared.entry {
        Entry::WrapperOfFunction => call_if_function(scope, exported)?.0,
        Entry::Default | Entry::Main => exported,
        Entry::Wrapper => v8::undefined(scope).into(),
    };
    value.try_into().map_err(|_| message::Failed {
        hint: "write one function, such as `(args) => args.a + args.b`".into(),
        ..failure(ErrorCode::SyntaxError, "it is no function".into())
    })
}

fn value_failure<'s>(scope: &mut v8::PinScope<'s, '_>, error: ValueError<'s>, limit: usize) -> message::Failed {
    match error {
        ValueError::NotSerializable { path, reason } => {
            failure(ErrorCode::NotSerializable, format!("the result cannot be returned as JSON: at {path}, {reason}"))
        }
        ValueError::TooLarge { bytes } => message::Failed {
            limit: "result_bytes".into(),
            hint: "return only what is needed: filter, count or summarize in the code".into(),
            ..failure(
                ErrorCode::ResultLimit,
                format!("the result has {bytes} bytes or more; the limit result_bytes is {limit}"),
            )
        },
        ValueError::Thrown(thrown) => thrown_failure(scope, thrown, None),
    }
}

/// Value of a program, and the promise that it came by.
type Program<'s> = (v8::Local<'s, v8::Value>, Option<v8::Local<'s, v8::Promise>>);

/// Compiles a program, runs it, and waits for its value.
pub(super) fn run_program<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    prepared: &Prepared,
) -> Result<Program<'s>, message::Failed> {
    let exported = load(scope, prepared, SCRIPT_NAME)?;
    let (value, own) = call_if_function(scope, exported)?;
    if prepared.entry == Entry::WrapperOfFunction {
        return call_if_function(scope, value);
    }
    Ok((value, own))
}

/// Compiles and evaluates a module, and returns its export.
fn load<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    prepared: &Prepared,
    name: &str,
) -> Result<v8::Local<'s, v8::Value>, message::Failed> {
    let module = compile(scope, prepared, name)?;
    {
        v8::tc_scope!(let scope, scope);
        if module.instantiate_module(scope, refuse_static_import) != Some(true) {
            return Err(caught_failure(scope, ErrorCode::SyntaxError));
        }
    }
    let evaluated = match module.evaluate(scope) {
        Some(value) => value,
        None => return Err(failure(ErrorCode::Internal, "the module was not evaluated".into())),
    };
    settled(scope, evaluated)?;

    let namespace = module.get_module_namespace();
    let key = if prepared.entry == Entry::Main { "main" } else { "default" };
    v8::String::new(scope, key)
        .and_then(|key| v8::Local::<v8::Object>::try_from(namespace).ok()?.get(scope, key.into()))
        .ok_or_else(|| failure(ErrorCode::Internal, format!("the module has no export {key}")))
}

fn compile<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    prepared: &Prepared,
    name: &str,
) -> Result<v8::Local<'s, v8::Module>, message::Failed> {
    v8::tc_scope!(let scope, scope);
    let too_large = || failure(ErrorCode::SyntaxError, "the source is too large".into());
    let name = v8::String::new(scope, name).ok_or_else(too_large)?;
    let text = v8::String::new(scope, &prepared.module).ok_or_else(too_large)?;
    let line = prepared.line_offset;
    let origin = v8::ScriptOrigin::new(scope, name.into(), line, 0, false, -1, None, false, false, true, None);
    let mut source = v8::script_compiler::Source::new(text, Some(&origin));
    match v8::script_compiler::compile_module(scope, &mut source) {
        Some(module) => Ok(module),
        None => Err(caught_failure(scope, ErrorCode::SyntaxError)),
    }
}

/// Calls a value that is a function, and waits for the result to settle. Another value is the result itself.
fn call_if_function<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
) -> Result<Program<'s>, message::Failed> {
    let Ok(function) = v8::Local::<v8::Function>::try_from(value) else { return settled(scope, value) };
    let returned = {
        v8::tc_scope!(let scope, scope);
        let receiver = v8::undefined(scope).into();
        match function.call(scope, receiver, &[]) {
            Some(returned) => returned,
            None => return Err(caught_failure(scope, ErrorCode::EvalError)),
        }
    };
    settled(scope, returned)
}

/// Runs the script until `value`, if it is a promise or has a `then`, is settled.
fn settled<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
) -> Result<Program<'s>, message::Failed> {
    let promise = match v8::Local::<v8::Promise>::try_from(value) {
        Ok(promise) => promise,
        Err(_) => {
            // A resolver takes any value and calls its `then`, if it has one.
            let internal = || failure(ErrorCode::Internal, "no promise could be made".into());
            let resolver = v8::PromiseResolver::new(scope).ok_or_else(internal)?;
            resolver.resolve(scope, value);
            resolver.get_promise(scope)
        }
    };
    loop {
        scope.perform_microtask_checkpoint();
        match promise.state() {
            v8::PromiseState::Fulfilled => return Ok((promise.result(scope), Some(promise))),
            v8::PromiseState::Rejected => {
                let thrown = promise.result(scope);
                return Err(thrown_failure(scope, thrown, Some(promise)));
            }
            v8::PromiseState::Pending => {}
        }
        if !turn(scope)? {
            return Err(message::Failed {
                hint: "a promise is awaited that nothing will ever resolve; await tool calls instead".into(),
                warnings: leftovers::warnings(scope, Some(promise)),
                ..failure(ErrorCode::Unsettled, "the code waits for something that can never happen".into())
            });
        }
    }
}

/// Waits for what comes next and hands it to the code. Returns `false` if nothing can ever come.
fn turn(scope: &mut v8::PinScope<'_, '_>) -> Result<bool, message::Failed> {
    if record::is_on() {
        match turns::next()? {
            Some(Source::Call(call)) => bridge::settle(scope, call),
            Some(Source::Timer(timer)) => fire_timer(scope, timer)?,
            None => return Ok(false),
        }
        return Ok(true);
    }
    match bridge::wait(scope, timers::next()) {
        // Under a stream of answers, timers have their turn, too.
        Ok(Wait::Settled) if !clock::is_given() && timers::next().is_some_and(|left| left.is_zero()) => {
            scope.perform_microtask_checkpoint();
            fire_timers(scope)?;
        }
        Ok(Wait::Settled) => {}
        Ok(Wait::Elapsed) => fire_timers(scope)?,
        Ok(Wait::NothingOpen) => return Ok(false),
        Err(_) => ending::orphaned(),
    }
    Ok(true)
}

/// Calls the timers that are due.
fn fire_timers(scope: &mut v8::PinScope<'_, '_>) -> Result<(), message::Failed> {
    for timer in timers::due() {
        fire_timer(scope, timer)?;
    }
    Ok(())
}

/// Calls one timer. An exception in it cannot be caught: it ends the execution.
fn fire_timer(scope: &mut v8::PinScope<'_, '_>, timer: u64) -> Result<(), message::Failed> {
    v8::tc_scope!(let scope, scope);
    if timers::fire(scope, timer).is_none() {
        return Err(caught_failure(scope, ErrorCode::EvalError));
    }
    scope.perform_microtask_checkpoint();
    Ok(())
}

fn refuse_static_import<'s>(
    context: v8::Local<'s, v8::Context>,
    _specifier: v8::Local<'s, v8::String>,
    _attributes: v8::Local<'s, v8::FixedArray>,
    _referrer: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Module>> {
    v8::callback_scope!(unsafe scope, context);
    let error = import_error(scope);
    scope.throw_exception(error);
    None
}

/// Refuses a dynamic import, with advice on what to do instead.
pub(super) fn refuse_import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    _options: v8::Local<'s, v8::Data>,
    _name: v8::Local<'s, v8::Value>,
    _specifier: v8::Local<'s, v8::String>,
    _attributes: v8::Local<'s, v8::FixedArray>,
) -> Option<v8::Local<'s, v8::Promise>> {
    let resolver = v8::PromiseResolver::new(scope)?;
    let error = import_error(scope);
    resolver.reject(scope, error);
    Some(resolver.get_promise(scope))
}

fn import_error<'s>(scope: &mut v8::PinScope<'s, '_>) -> v8::Local<'s, v8::Value> {
    let text = "imports are not available; call tools with mcp.call(\"server.tool\", args)";
    let text = v8::String::new(scope, text).unwrap_or_else(|| v8::String::empty(scope));
    v8::Exception::type_error(scope, text)
}
