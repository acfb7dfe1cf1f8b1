//! HTTP client of one process, on the simulated web in virtual time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use orbweaver_fetcher::{Attempt, Client, Measured, Purpose, Request};
use orbweaver_stage::{Clock, Reservation};
use orbweaver_url::Url;
use tokio::time::sleep;

use super::Served;
use crate::{
    broken::{Broken, Rule},
    gate::Gate,
    random::Random,
    time::{MachineClock, Time},
};

/// HTTP client of one process.
pub struct Visitor {
    served: Arc<Served>,
    by: usize,
    gate: Arc<Gate>,
    time: Time,
    clock: MachineClock,
    random: Mutex<Random>,
    /// `Rule::Answers` is disabled: a response counts from its request.
    answers_at_once: bool,
    /// `Rule::RobotsTime` is disabled: the redirect of a robots.txt is followed immediately.
    follows_robots: bool,
}

impl Visitor {
    /// Creates the client of process `by`, behind its gate.
    #[must_use]
    pub fn new(
        served: Arc<Served>,
        (by, gate): (usize, Arc<Gate>),
        (time, clock): (Time, MachineClock),
        random: Random,
    ) -> Self {
        Self {
            served,
            by,
            gate,
            time,
            clock,
            random: Mutex::new(random),
            answers_at_once: false,
            follows_robots: false,
        }
    }

    /// Returns this client with the rules of `broken` disabled.
    #[must_use]
    pub fn without(self, broken: &Broken) -> Self {
        let (answers_at_once, follows_robots) = (broken.is_off(Rule::Answers), broken.is_off(Rule::RobotsTime));
        Self { answers_at_once, follows_robots, ..self }
    }

    async fn ask_once(&self, request: &Request) -> Attempt {
        let requested_at_ms = self.clock.now();
        self.way().await;
        if self.gate.is_dead() {
            std::future::pending::<()>().await;
        }
        let answering = self.served.arrives(request, self.by, self.time.now());
        tokio::select! {
            biased;
            () = self.gate.ended() => {
                self.served.ends(answering.number, None, self.time.now());
                std::future::pending::<()>().await;
            }
            () = sleep(Duration::from_millis(answering.after_ms)) => {}
        }
        self.served.ends(answering.number, Some(&answering.result), self.time.now());
        self.way().await;
        self.gate.runs().await;
        let now = self.clock.now();
        let answered_at_ms = if self.answers_at_once { requested_at_ms } else { now };
        let measured = Measured::default();
        Attempt { requested_at_ms, answered_at_ms, ended_at_ms: now, measured, result: answering.result }
    }

    async fn way(&self) {
        let latency_ms = self.random.lock().unwrap_or_else(PoisonError::into_inner).below(4);
        if latency_ms > 0 {
            sleep(Duration::from_millis(latency_ms)).await;
        }
    }
}

impl Client for Visitor {
    fn ask<'a>(&'a self, request: Request, _: &'a mut Reservation) -> BoxFuture<'a, Attempt> {
        async move {
            let mut attempt = self.ask_once(&request).await;
            while self.follows_robots
                && request.purpose == Purpose::Robots
                && let Some(url) = target(&attempt)
            {
                attempt = self.ask_once(&Request { url, ..request.clone() }).await;
            }
            attempt
        }
        .boxed()
    }
}

/// Returns the target of a redirect.
fn target(attempt: &Attempt) -> Option<Url> {
    orbweaver_url::parse(attempt.result.as_ref().ok()?.location.as_deref()?).ok()
}
