//! Topics, keyspace, instances, seeds, completion.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use orbweaver_log::kafka::{KafkaConfig, KafkaLog, topics};
use orbweaver_log::{Log, Partition, RECORD_LIMIT, Record, TopicPartition};
use orbweaver_messages::topic;
use orbweaver_stage::completion::{GroupTopic, OffsetSnapshot};
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_url::Fingerprint;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::response::PagingState;
use scylla::statement::Statement;
use scylla::value::CqlTimestamp;
use tempfile::TempDir;
use tokio::time::{Instant, interval};

use crate::instance::{Instance, binary};

/// Interval between two offset snapshots.
const READ_EVERY: Duration = Duration::from_millis(500);
/// Rows per page when reading from the CQL server.
const PAGE_SIZE: i32 = 1_000;

/// A service of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    /// `orbweaver-normalizer-dedup`.
    NormalizerDedup,
    /// `orbweaver-frontier`.
    Frontier,
    /// `orbweaver-rate-limiter`.
    RateLimiter,
    /// `orbweaver-fetcher`.
    Fetcher,
    /// `orbweaver-extractor`.
    Extractor,
    /// `orbweaver-archiver`.
    Archiver,
}

impl Service {
    /// All services that a crawl needs, in the order of the flow.
    pub const ALL: [Self; 5] =
        [Self::NormalizerDedup, Self::Frontier, Self::RateLimiter, Self::Fetcher, Self::Extractor];

    /// Returns the service's name, which is also its group's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NormalizerDedup => "normalizer-dedup",
            Self::Frontier => "frontier",
            Self::RateLimiter => "rate-limiter",
            Self::Fetcher => "fetcher",
            Self::Extractor => "extractor",
            Self::Archiver => "archiver",
        }
    }
}

/// Parameters of a cluster.
#[derive(Debug, Clone)]
pub struct Plan {
    /// `HOST:PORT[,HOST:PORT…]` of the brokers.
    pub brokers: String,
    /// `HOST:PORT` of the CQL server.
    pub cql: String,
    /// Number of partitions of every topic.
    pub partitions: Partition,
    /// Replication factor of every topic.
    pub replication: u16,
    /// Largest record of topics and services, in bytes.
    pub record_limit: usize,
    /// Properties of librdkafka for the cluster's own client, such as `("security.protocol", "sasl_ssl")`.
    pub properties: Vec<(String, String)>,
    /// Further variables of every instance, such as `("ORBWEAVER_RATE_LIMITER__RATE", "10/s")`.
    pub variables: Vec<(String, String)>,
}

impl Plan {
    /// [`Plan::on_servers`], on the servers that tests share.
    ///
    /// # Panics
    /// When these are not running.
    #[must_use]
    pub fn on_shared_servers(partitions: Partition) -> Self {
        Self::on_servers(orbweaver_testkit::brokers(), orbweaver_testkit::cql(), partitions)
    }

    /// Plans crawls of webs on loopback, without a rate limit and with scope `any`.
    #[must_use]
    pub fn on_servers(brokers: String, cql: String, partitions: Partition) -> Self {
        let variables = [
            ("ORBWEAVER_FETCHER__ALLOW_PRIVATE", "true"),
            ("ORBWEAVER_RATE_LIMITER__RATE", "unlimited"),
            ("ORBWEAVER_NORMALIZER_DEDUP__DEFAULT_SCOPE", "any"),
            ("ORBWEAVER_NORMALIZER_DEDUP__DEFINITION_GRACE", "500ms"),
            ("ORBWEAVER_CQL__REPLICATION_FACTOR", "1"),
            ("ORBWEAVER_RUNTIME__SHUTDOWN_BUDGET", "15s"),
            // The brokers of tests/stack end a session after 6 s.
            ("ORBWEAVER_RUNTIME__FROZEN_AFTER", "2500ms"),
            ("ORBWEAVER_FETCHER__CONNECT_TIMEOUT", "3s"),
            ("ORBWEAVER_FETCHER__HEADERS_TIMEOUT", "3s"),
            ("ORBWEAVER_FETCHER__REQUEST_TIMEOUT", "3s"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Self { brokers, cql, partitions, replication: 1, record_limit: RECORD_LIMIT, properties: vec![], variables }
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A pipeline: its topics, its keyspace, and a directory for states and logs of its instances.
pub struct Cluster {
    plan: Plan,
    /// The log, for seeds, completion and results.
    pub log: KafkaLog,
    prefix: String,
    keyspace: String,
    dir: TempDir,
    started: u32,
    last: Option<OffsetSnapshot>,
}

impl Cluster {
    /// Creates the topics and chooses the name of the keyspace. Starts no process.
    pub async fn start(plan: Plan) -> Result<Self> {
        let prefix = orbweaver_testkit::unique("cluster");
        let keyspace = prefix.clone();
        let log = connect(&plan, &prefix).await?;
        topics::create(&log, plan.partitions, Some(plan.replication)).await?;
        Ok(Self { plan, log, prefix, keyspace, dir: tempfile::tempdir()?, started: 0, last: None })
    }

    /// Creates another client of the log, for independent observation.
    pub async fn another_client(&self) -> Result<KafkaLog> {
        connect(&self.plan, &self.prefix).await
    }

    /// Returns the prefix of its topics and groups.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the keyspace of its rows.
    #[must_use]
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// Returns the canonical URLs of all pages with a row in the CQL server, unordered.
    pub async fn stored_pages(&self) -> Result<Vec<String>> {
        let keys: Vec<(String,)> = self.select("SELECT key FROM", "pages").await?;
        Ok(keys.into_iter().map(|(key,)| key).collect())
    }

    /// Returns the URLs that have rows in this table of the CQL server.
    pub async fn stored_urls(&self, table: &str) -> Result<BTreeSet<Fingerprint>> {
        let keys: Vec<(Vec<u8>,)> = self.select("SELECT DISTINCT fingerprint FROM", table).await?;
        keys.into_iter()
            .map(|(key,)| Ok(Fingerprint(key.try_into().map_err(|_| anyhow!("a key of another length"))?)))
            .collect()
    }

    /// Reads columns of all rows of a table.
    async fn select<R>(&self, select: &str, table: &str) -> Result<Vec<R>>
    where
        R: for<'a> DeserializeRow<'a, 'a>,
    {
        let session = SessionBuilder::new().known_node(&self.plan.cql).build().await.context("the CQL server")?;
        // A missing value of a row is a tombstone, of which the server reads a limited number at a time.
        let select = Statement::new(format!("{select} {}.{table}", self.keyspace)).with_page_size(PAGE_SIZE);
        let (mut values, mut state) = (vec![], PagingState::start());
        loop {
            let (rows, next) = session.query_single_page(select.clone(), (), state).await?;
            for row in rows.into_rows_result()?.rows::<R>()? {
                values.push(row?);
            }
            match next.into_paging_control_flow() {
                ControlFlow::Continue(more) => state = more,
                ControlFlow::Break(()) => return Ok(values),
            }
        }
    }

    /// Returns the directory of state and log of the `number`th started instance.
    #[must_use]
    pub fn dir_of(&self, number: u32) -> PathBuf {
        self.dir.path().join(number.to_string())
    }

    /// Starts another instance of a service, and returns once its port is bound.
    pub async fn add(&mut self, service: Service) -> Result<Instance> {
        self.started += 1;
        self.start_in(service, self.dir_of(self.started)).await
    }

    /// Starts an instance in a directory, on the state that another instance may have left there.
    pub async fn start_in(&self, service: Service, dir: PathBuf) -> Result<Instance> {
        std::fs::create_dir_all(&dir)?;
        let mut variables = vec![
            ("ORBWEAVER_KAFKA__BROKERS".to_owned(), self.plan.brokers.clone()),
            ("ORBWEAVER_KAFKA__PREFIX".to_owned(), self.prefix.clone()),
            ("ORBWEAVER_KAFKA__RECORD_LIMIT".to_owned(), self.plan.record_limit.to_string()),
            ("ORBWEAVER_CQL__NODES".to_owned(), self.plan.cql.clone()),
            ("ORBWEAVER_CQL__KEYSPACE".to_owned(), self.keyspace.clone()),
            ("ORBWEAVER_HTTP__LISTEN".to_owned(), "127.0.0.1:0".to_owned()),
            ("ORBWEAVER_STATE__DIR".to_owned(), dir.join("state").display().to_string()),
            ("ORBWEAVER_ARCHIVER__DIRECTORY".to_owned(), dir.join("archive").display().to_string()),
        ];
        variables.extend(self.plan.variables.iter().cloned());
        Instance::start(&binary(&format!("orbweaver-{}", service.name()))?, service.name(), &variables, &dir).await
    }

    /// Starts one instance of each service, and waits until all are ready.
    pub async fn add_all(&mut self, within: Duration) -> Result<Vec<Instance>> {
        let mut instances = vec![];
        for service in Service::ALL {
            instances.push(self.add(service).await?);
        }
        for instance in &mut instances {
            instance.ready(within).await?;
        }
        Ok(instances)
    }

    /// Produces seeds as any client may: bare URLs, without keys.
    pub async fn seed(&self, urls: &[&str]) -> Result<()> {
        let now = SystemClock.now();
        let record = |(url, partition): (&&str, Partition)| Record {
            tp: TopicPartition::new(topic::SEEDS, partition % self.plan.partitions),
            key: None,
            value: Some(Bytes::copy_from_slice(url.as_bytes())),
            headers: vec![],
            timestamp_ms: now,
        };
        self.log.append(urls.iter().zip(0..).map(record).collect()).await?;
        Ok(())
    }

    /// Takes another offset snapshot. Returns `true` if it and the previous one prove completion
    /// (docs/protocol.md#completion).
    pub async fn is_complete(&mut self) -> Result<bool> {
        let groups = topic::groups().iter();
        let pairs = groups.flat_map(|(group, topics)| topics.iter().map(|topic| ((*group).to_owned(), *topic)));
        let declared: Vec<_> = pairs.map(|(group, topic)| GroupTopic { group, topic }).collect();
        let reading = OffsetSnapshot::take(&self.log, &declared).await?;
        let proven = self.last.as_ref().is_some_and(|first| reading.confirms_completion(first));
        self.last = Some(reading);
        Ok(proven)
    }

    /// Waits until the pipeline is complete; in the meantime no instance may end.
    ///
    /// # Errors
    /// When it takes longer, with the lag of each group; when an instance ends, with its last log lines.
    pub async fn complete(&mut self, within: Duration, instances: &mut [Instance]) -> Result<()> {
        let end = Instant::now() + within;
        let mut ticks = interval(READ_EVERY);
        while !self.is_complete().await? {
            ticks.tick().await;
            for instance in &mut *instances {
                instance.still_runs()?;
            }
            if Instant::now() >= end {
                let lags = self.last.iter().flat_map(OffsetSnapshot::lags).filter(|(_, lag)| *lag > 0);
                let lags: Vec<_> = lags.map(|(of, lag)| format!("{} of {}: {lag}", of.group, of.topic)).collect();
                let said: Vec<_> = instances.iter().map(Instance::last_words).collect();
                bail!("not complete within {within:?}; lags: {}\n{}", lags.join(", "), said.join("\n"));
            }
        }
        Ok(())
    }

    /// Returns the locations of archived responses in the store that count: file, offset and length.
    pub async fn locations(&self) -> Result<BTreeSet<(String, i64, i64)>> {
        type Row = (Vec<u8>, CqlTimestamp, i64, String, i64, i64);
        let select = "SELECT fingerprint, at, epoch, file, record_offset, record_length FROM";
        let rows: Vec<Row> = self.select(select, "captures").await?;
        let mut latest = BTreeMap::new();
        for (fingerprint, at, epoch, file, offset, length) in rows {
            let counted = latest.entry((fingerprint, at.0)).or_insert_with(|| (epoch, (file.clone(), offset, length)));
            if counted.0 < epoch {
                *counted = (epoch, (file, offset, length));
            }
        }
        Ok(latest.into_values().map(|(_, location)| location).collect())
    }

    /// Deletes topics and keyspace.
    pub async fn remove(self) -> Result<()> {
        topics::delete(&self.log).await?;
        let session = SessionBuilder::new().known_node(&self.plan.cql).build().await.context("the CQL server")?;
        session.query_unpaged(format!("DROP KEYSPACE IF EXISTS {}", self.keyspace), ()).await?;
        Ok(())
    }
}

async fn connect(plan: &Plan, prefix: &str) -> Result<KafkaLog> {
    let (prefix, record_limit) = (prefix.to_owned(), plan.record_limit);
    let properties = plan.properties.iter().cloned().collect();
    let config = KafkaConfig { prefix, record_limit, properties, ..KafkaConfig::new(plan.brokers.clone()) };
    Ok(KafkaLog::connect(config).await?)
}
