//! Implementations for stages that work only in the log.

use std::convert::Infallible;

use futures::future::BoxFuture;
use tokio::sync::mpsc::UnboundedSender;

use crate::{Perform, PerformError, Worker};

/// Executor without effects, for stages whose effect is [`Infallible`].
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEffects;

impl Perform<Infallible> for NoEffects {
    fn perform(&self, effects: Vec<Infallible>) -> BoxFuture<'_, Result<(), PerformError>> {
        match effects.first() {
            Some(&never) => match never {},
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }
}

/// Worker without jobs, for stages whose job is [`Infallible`].
#[derive(Debug, Clone, Copy, Default)]
pub struct NoJobs;

impl<D> Worker<Infallible, D> for NoJobs {
    fn start(&self, job: Infallible, _: &UnboundedSender<D>) {
        match job {}
    }
}
