//! The report of a call of `execute_code` and the tools beside it.

use host_client::Report;
use serde::Serialize;
use serde_json::Value;

/// The report of a call, for the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportShape {
    /// The value of the code, shortened if it is long, or the error with advice.
    pub text: String,
    /// Output and warnings; `null`: there are none.
    pub notes: Option<String>,
    /// Images and other binary data.
    pub attachments: Vec<AttachmentShape>,
    /// The handle for `read_output`; `null`: the text is the whole value.
    pub handle: Option<String>,
    /// The report as JSON; `null`: no code was run.
    pub structured: Option<Value>,
    /// `true`: the call failed.
    pub is_error: bool,
}

/// Binary data of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttachmentShape {
    /// Its media type.
    pub mime: String,
    /// Its content in base64.
    pub base64: String,
    /// Its length.
    pub bytes: usize,
}

impl From<Report> for ReportShape {
    fn from(report: Report) -> Self {
        let attachments = report.attachments.into_iter();
        let attachments = attachments.map(|it| AttachmentShape { mime: it.mime, base64: it.base64, bytes: it.bytes });
        Self {
            text: report.text,
            notes: report.notes,
            attachments: attachments.collect(),
            handle: report.handle,
            structured: report.structured,
            is_error: report.is_error,
        }
    }
}
