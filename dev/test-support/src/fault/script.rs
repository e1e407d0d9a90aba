//! Says when and how the proxy breaks one connection.

use std::time::Duration;

/// Direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToRelay,
    ToHost,
}

/// Place in a message at which the connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The message is lost.
    Before,
    /// Half of it arrives.
    Inside,
    /// It arrives completely; nothing after it does.
    After,
}

/// Way in which a connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Both ends get a RST.
    Reset,
    /// Both ends get a FIN.
    Finish,
    /// Neither end gets anything: the connection stays open, and what they send is dropped.
    Silence,
}

/// Faults of one connection. The default forwards everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Script {
    pub(super) cut: Option<(Way, u64, Place, Break)>,
    pub(super) after: Option<(Duration, Break)>,
    pub(super) delay: Duration,
    pub(super) is_refused: bool,
}

impl Script {
    /// Forwards everything.
    pub fn clean() -> Self {
        Self::default()
    }

    /// Resets the connection before anything is forwarded.
    pub fn refused() -> Self {
        Self { is_refused: true, ..Self::default() }
    }

    /// Breaks the connection at the `message`-th WebSocket message of this direction, counted from 1. The number 0
    /// stands for the HTTP head that comes before them. Pings, pongs and closes are not counted.
    #[must_use]
    pub fn cut(self, way: Way, message: u64, place: Place, how: Break) -> Self {
        Self { cut: Some((way, message, place, how)), ..self }
    }

    /// Breaks the connection at this age, unless [`Script::cut`] has broken it before.
    #[must_use]
    pub fn cut_after(self, age: Duration, how: Break) -> Self {
        Self { after: Some((age, how)), ..self }
    }

    /// Delays each frame of both directions by this time.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Breaks the connection at a random place: at one of its first 40 messages, in its handshake, or within 50 ms. One in
    /// 50 connections falls silent, one in 25 is refused. The same seed and number give the same script.
    pub fn random(seed: u64, number: usize) -> Self {
        let mut state = seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |most: u64| {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % most
        };
        let how = match below(50) {
            0 => Break::Silence,
            1..25 => Break::Reset,
            _ => Break::Finish,
        };
        let way = if below(2) == 0 { Way::ToRelay } else { Way::ToHost };
        let place = [Place::Before, Place::Inside, Place::After][usize::try_from(below(3)).unwrap_or_default()];
        match below(25) {
            0 => Self::refused(),
            // A silent handshake would take the whole time limit of a connection attempt.
            1 => Self::clean().cut(way, 0, place, Break::Reset),
            2..10 => Self::clean().cut_after(Duration::from_micros(1 + below(50_000)), how),
            _ => Self::clean().cut(way, 1 + below(40), place, how),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_scripts_are_of_every_kind_and_come_again() {
        let scripts = |seed| (0..2_000).map(|number| Script::random(seed, number)).collect::<Vec<_>>();
        let all = scripts(1);
        assert!(all == scripts(1) && all != scripts(2));
        let count = |fits: fn(&Script) -> bool| all.iter().filter(|script| fits(script)).count();
        assert!((40..160).contains(&count(|script| script.is_refused)));
        assert!((500..800).contains(&count(|script| script.after.is_some())));
        assert!((40..160).contains(&count(|script| matches!(script.cut, Some((_, 0, _, Break::Reset))))));
        for way in [Way::ToRelay, Way::ToHost] {
            for place in [Place::Before, Place::Inside, Place::After] {
                let found = all.iter().filter(|it| matches!(it.cut, Some((w, _, p, _)) if (w, p) == (way, place)));
                assert!((100..400).contains(&found.count()), "{way:?} {place:?}");
            }
        }
    }
}
