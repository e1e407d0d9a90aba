//! What a durable run tells the host for its record.

use std::ops::ControlFlow;

use super::Run;
use crate::execution::Event;
use crate::execution::durable::News;
use crate::execution::outcome::Ended;
use crate::sandbox::channel::message;

impl Run<'_> {
    /// Takes the steps that a report carries.
    pub(super) fn take_steps(&mut self, steps: &[u8]) -> ControlFlow<Ended> {
        match &mut self.record {
            _ if steps.is_empty() => ControlFlow::Continue(()),
            Some(record) => record.take(steps),
            None => ControlFlow::Break(Ended::broken("it reported steps that nobody asked for")),
        }
    }

    /// Takes what the host is to be told with the next event.
    pub(super) fn news(&mut self) -> News {
        self.record.as_mut().map(super::Record::news).unwrap_or_default()
    }

    /// Returns an event that carries nothing but news, if there is too much of it to wait for another event.
    pub(super) fn much_news(&mut self) -> Option<Event> {
        let record = self.record.as_mut().filter(|record| record.has_much_news())?;
        Some(Event::Output(Vec::new(), record.news()))
    }

    /// Takes the report that the code waits.
    pub(super) fn waiting(&mut self, waiting: &message::Waiting) -> ControlFlow<Ended, Event> {
        self.take_steps(&waiting.steps)?;
        match &mut self.record {
            Some(record) => record.wait()?,
            None => return ControlFlow::Break(Ended::broken("it reported a wait that nobody asked for")),
        }
        ControlFlow::Continue(Event::Waiting { timer_in_ms: waiting.timer_in_ms, news: self.news() })
    }
}
