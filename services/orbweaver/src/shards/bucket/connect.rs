//! Connection to the store that the environment describes.

use std::{sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientConfigKey, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
};

use super::{reason::reason, requests::Store};
use crate::exit::Failure;

/// Time of a request, such as the upload of a part over a slow connection.
const REQUEST_TIMEOUT: &str = "120s";

/// Attempts after failures that may pass: for about half a minute, or longer if requests time out.
const RETRIES: RetryConfig = RetryConfig {
    backoff: BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(10), base: 2. },
    max_retries: 8,
    retry_timeout: Duration::from_secs(180),
};

/// Connects to a bucket, without a request.
///
/// # Errors
/// Fails if the settings are incomplete or invalid.
pub(super) fn connect(builder: AmazonS3Builder, bucket: &str) -> Result<Store, Failure> {
    let setting = |key: &AmazonS3ConfigKey| builder.get_config_value(key);
    let endpoint = setting(&AmazonS3ConfigKey::S3Endpoint).or_else(|| setting(&AmazonS3ConfigKey::Endpoint));
    let allows_http = setting(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp)).as_deref() == Some("true");
    if let Some(endpoint) = &endpoint {
        let url = url::Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(url) = url.filter(url::Url::has_host) else {
            return Err(Failure::Usage(
                "AWS_ENDPOINT_URL: expected a URL, such as `https://s3.example.org`".to_owned(),
            ));
        };
        if url.scheme() == "http" && !allows_http {
            return Err(Failure::Usage("AWS_ENDPOINT_URL: http:// requires AWS_ALLOW_HTTP=true".to_owned()));
        }
    }
    let store = builder
        .with_bucket_name(bucket)
        .with_retry(RETRIES)
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), REQUEST_TIMEOUT)
        // Not all stores have bulk deletion, and at most three objects are deleted.
        .with_disable_bulk_delete(true)
        .build()
        .map_err(|error| Failure::Usage(format!("s3://{bucket}: {}", reason(&error))))?;
    Ok(Arc::new(store))
}
