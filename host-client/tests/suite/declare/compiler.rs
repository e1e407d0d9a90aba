//! The TypeScript compiler: declarations and what they take and refuse, all in one run.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use host_client::{ToolSpec, declare};
use relay_proto::sanitize;
use serde_json::Value;

use crate::servers::program;

/// Files for one run of the compiler.
#[derive(Default)]
pub(crate) struct Program {
    files: Vec<String>,
}

/// The tool's function in its namespace.
fn function(spec: &ToolSpec) -> String {
    let (server, tool) = spec.name.split_once('.').unwrap();
    format!("{}.{}", sanitize(server), sanitize(tool))
}

impl Program {
    /// Text as a module of its own.
    pub(crate) fn add(&mut self, text: &str) {
        self.files.push(format!("{text}\nexport {{}};\n"));
    }

    /// A tool, and arguments that its declaration has to take and to refuse.
    pub(crate) fn arguments(&mut self, spec: &ToolSpec, taken: &[Value], refused: &[Value]) {
        let mut text = declare::declaration(spec);
        let function = function(spec);
        for value in taken {
            let _ = writeln!(text, "{function}({value});");
        }
        for value in refused {
            let _ = writeln!(text, "// @ts-expect-error\n{function}({value});");
        }
        self.add(&text);
    }

    /// A tool, and results that its declaration allows and does not.
    pub(crate) fn results(&mut self, spec: &ToolSpec, taken: &[Value], refused: &[Value]) {
        let mut text = declare::declaration(spec);
        let _ = writeln!(text, "type Result = Awaited<ReturnType<typeof {}>>;", function(spec));
        for (number, value) in taken.iter().enumerate() {
            let _ = writeln!(text, "export const taken{number}: Result = {value};");
        }
        for (number, value) in refused.iter().enumerate() {
            let _ = writeln!(text, "// @ts-expect-error\nexport const refused{number}: Result = {value};");
        }
        self.add(&text);
    }

    /// Compiles everything in strict mode.
    ///
    /// # Panics
    /// The compiler finds an error, in which case all of its file is shown.
    pub(crate) fn compile(self) {
        assert!(!self.files.is_empty());
        let folder = tempfile::tempdir().unwrap();
        for (number, text) in self.files.iter().enumerate() {
            fs::write(folder.path().join(format!("{number}.ts")), text).unwrap();
        }
        let options = r#"{"compilerOptions": {"strict": true, "noEmit": true, "target": "es2023", "lib": ["es2023"],
            "module": "esnext", "moduleDetection": "force", "types": []}, "include": ["*.ts"]}"#;
        fs::write(folder.path().join("tsconfig.json"), options).unwrap();
        let output = Command::new(program("tsc")).current_dir(&folder).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let file = |line: &str| self.files.get(line.split_once(".ts(")?.0.parse::<usize>().ok()?);
        let wrong = said.lines().next().and_then(file).map(String::as_str).unwrap_or_default();
        assert!(output.status.success(), "{said}{}\nin\n{wrong:.20000}", String::from_utf8_lossy(&output.stderr));
    }
}
