//! Executes plans in batches: step n + 1 of a plan starts once step n is durable.
//!
//! All plans of one loop iteration run in rounds. A round issues one append and one `perform` call for the next step of
//! every plan, so a poll of a thousand records costs one write. A plan completes after its own last step, independently
//! of the others. A plan with a refused record ends there; other plans are not affected.

use std::sync::Arc;

use futures::future::BoxFuture;
use orbweaver_log::{Log, LogError, Offset, Record, Refusal, Refused};
use tokio::time::Instant;

use crate::{Origin, Perform, Plan, StageError, Step, Token, metrics::ServiceMetrics};

/// A plan with remaining steps.
struct InFlightPlan<E> {
    steps: std::vec::IntoIter<Step<E>>,
    landing: DurablePlan,
}

/// A plan that has ended: its last step is durable, or a record of it was refused.
#[derive(Debug)]
pub(crate) struct DurablePlan {
    pub(crate) completes: Vec<Origin>,
    pub(crate) token: Option<Token>,
    /// Offsets of the produced records; empty without a token.
    pub(crate) offsets: Vec<Offset>,
    /// Reason why the log refused a record: the later steps are skipped, and the origins are rejected.
    pub(crate) refused: Option<String>,
    /// Size of its records in bytes.
    pub(crate) bytes: usize,
}

impl DurablePlan {
    pub(crate) fn new(completes: Vec<Origin>, token: Option<Token>, bytes: usize) -> Self {
        Self { completes, token, offsets: vec![], refused: None, bytes }
    }
}

pub(crate) struct RoundResult<E> {
    pub(crate) number: u64,
    pub(crate) landings: Vec<DurablePlan>,
    pub(crate) rest: Option<PlanBatch<E>>,
}

/// Targets of steps: log, effect executor, metrics.
pub(crate) struct Effects<E> {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) perform: Arc<dyn Perform<E>>,
    pub(crate) metrics: ServiceMetrics,
}

/// The plans of one loop iteration.
pub(crate) struct PlanBatch<E> {
    number: u64,
    plans: Vec<InFlightPlan<E>>,
}

impl<E: Send + 'static> PlanBatch<E> {
    /// Creates a batch; `number` increases with each batch.
    pub(crate) fn new(number: u64, plans: Vec<Plan<E>>) -> Self {
        let plans = plans
            .into_iter()
            .map(|plan| {
                let bytes = plan.bytes();
                let landing = DurablePlan::new(plan.completes, plan.token, bytes);
                InFlightPlan { steps: plan.steps.into_iter(), landing }
            })
            .collect();
        Self { number, plans }
    }

    /// Returns the size of all records in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.plans.iter().map(|plan| plan.landing.bytes).sum()
    }

    /// Executes the next step of every plan.
    pub(crate) fn run_round(
        mut self,
        effects: Arc<Effects<E>>,
    ) -> BoxFuture<'static, Result<RoundResult<E>, StageError>> {
        let (mut records, mut work): (Vec<Record>, Vec<E>) = (vec![], vec![]);
        // Index of each producing plan and its number of records, in the order of the records.
        let mut shares: Vec<(usize, usize)> = vec![];
        for (index, plan) in self.plans.iter_mut().enumerate() {
            match plan.steps.next() {
                Some(Step::Produce(made)) if records.is_empty() => {
                    shares.push((index, made.len()));
                    records = made;
                }
                Some(Step::Produce(mut made)) => {
                    shares.push((index, made.len()));
                    records.append(&mut made);
                }
                Some(Step::Perform(made)) if work.is_empty() => work = made,
                Some(Step::Perform(mut made)) => work.append(&mut made),
                None => {}
            }
        }
        Box::pin(async move {
            let (appended, ()) = futures::try_join!(append(&effects, records), perform(&effects, work))?;
            let (mut offsets, mut refusals) = (appended.0.as_slice(), appended.1.into_iter().peekable());
            let mut end = 0;
            for (index, count) in shares {
                let (own, others) = offsets.split_at(count);
                offsets = others;
                end += count;
                let landing = &mut self.plans[index].landing;
                while let Some((_, refusal)) = refusals.next_if(|(record, _)| *record < end) {
                    let first = format!("a record produced from it was refused: {refusal}");
                    landing.refused.get_or_insert(first);
                }
                if landing.token.is_some() {
                    landing.offsets.extend_from_slice(own);
                }
            }
            Ok(self.land())
        })
    }

    fn land(self) -> RoundResult<E> {
        let (mut landings, mut rest) = (Vec::with_capacity(self.plans.len()), vec![]);
        for plan in self.plans {
            let ends = plan.steps.len() == 0 || plan.landing.refused.is_some();
            if ends { landings.push(plan.landing) } else { rest.push(plan) }
        }
        let number = self.number;
        RoundResult { number, landings, rest: (!rest.is_empty()).then_some(Self { number, plans: rest }) }
    }
}

/// Offsets in the order of the records, and refusals by record index, ascending.
type Appended = (Vec<Offset>, Vec<(usize, Refusal)>);

async fn append<E>(effects: &Effects<E>, records: Vec<Record>) -> Result<Appended, StageError> {
    if records.is_empty() {
        return Ok((vec![], vec![]));
    }
    let (count, begun) = (records.len(), Instant::now());
    let (offsets, refusals) = match effects.log.append(records).await {
        // The offsets of a refused plan are not used.
        Err(LogError::Refused(Refused { offsets, refusals })) => {
            (offsets.into_iter().map(Option::unwrap_or_default).collect(), refusals)
        }
        appended => (appended?, vec![]),
    };
    if offsets.len() != count {
        let reason = format!("an append of {count} records was answered with {} offsets", offsets.len());
        return Err(LogError::Fatal(reason).into());
    }
    effects.metrics.append_seconds.observe(begun.elapsed().as_secs_f64());
    effects.metrics.records_out.inc_by((count - refusals.len()) as u64);
    Ok((offsets, refusals))
}

async fn perform<E: Send + 'static>(effects: &Effects<E>, work: Vec<E>) -> Result<(), StageError> {
    if !work.is_empty() {
        let begun = Instant::now();
        effects.perform.perform(work).await?;
        effects.metrics.perform_seconds.observe(begun.elapsed().as_secs_f64());
    }
    Ok(())
}
