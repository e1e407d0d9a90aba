//! Counts lines and columns as JavaScript does: also a lone carriage return, U+2028 and U+2029 end a line, in strings,
//! too, so that the parser's places are the runtime's.

/// Returns the place of a byte offset: its line, and its column in UTF-16 code units, both counted from 1.
pub(crate) fn place(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    // The pair ends one line, also where the offset is between its two halves.
    let breaks = count_breaks(before);
    let line_start = before.rfind(is_break).map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
    (breaks + 1, count(before[line_start..].encode_utf16().count() + 1))
}

/// Returns the number of line breaks in a text.
pub(crate) fn count_breaks(text: &str) -> u32 {
    let mut breaks = text.matches('\n').count();
    // Both are rare, and looking for them is cheap.
    if memchr::memchr2(b'\r', 0xE2, text.as_bytes()).is_some() {
        let others = text.char_indices().filter(|(at, c)| match c {
            '\r' => !text[at + 1..].starts_with('\n'),
            '\u{2028}' | '\u{2029}' => true,
            _ => false,
        });
        breaks += others.count();
    }
    count(breaks)
}

/// Returns whether a character ends a line.
pub(crate) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Distance in bytes between the places at which [`LineStarts`] knows the count of code units.
const STRIDE: usize = 256;

/// Starts of the lines of a text, to find many places in it, each in little time however long its lines are.
pub(crate) struct LineStarts<'t> {
    text: &'t str,
    starts: Vec<usize>,
    /// For each multiple of [`STRIDE`], the first byte of a character at or behind it, and the code units before that.
    units: Vec<(usize, usize)>,
    /// Number of lines of the author's text before this text.
    before: u32,
}

impl<'t> LineStarts<'t> {
    pub(crate) fn new(text: &'t str, before: u32) -> Self {
        let is_end = |(at, c): &(usize, char)| is_break(*c) && !(*c == '\r' && text[at + 1..].starts_with('\n'));
        let ends = text.char_indices().filter(is_end).map(|(at, c)| at + c.len_utf8());
        let starts = std::iter::once(0).chain(ends).collect();
        let (mut units, mut count) = (Vec::with_capacity(text.len() / STRIDE + 1), 0);
        for (at, c) in text.char_indices() {
            if at >= units.len() * STRIDE {
                units.push((at, count));
            }
            count += c.len_utf16();
        }
        Self { text, starts, units, before }
    }

    /// Returns the line and the column of a byte offset, as [`place`] does, in the author's text.
    pub(crate) fn place(&self, offset: usize) -> (u32, u32) {
        let lines = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(lines.saturating_sub(1)).copied().unwrap_or(0);
        let column = self.units_before(offset).saturating_sub(self.units_before(start)) + 1;
        (count(lines).saturating_add(self.before), count(column))
    }

    fn units_before(&self, offset: usize) -> usize {
        let known = self.units.partition_point(|(at, _)| *at <= offset);
        let (at, units) = known.checked_sub(1).and_then(|last| self.units.get(last)).copied().unwrap_or((0, 0));
        units + self.text.get(at..offset).unwrap_or("").encode_utf16().count()
    }
}
