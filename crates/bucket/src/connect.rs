//! Connection to the store that the environment describes.

use std::{sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientConfigKey, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
};

use crate::{Store, reason};

/// Time of a request, such as the upload of a part over a slow connection.
const REQUEST_TIMEOUT: &str = "120s";

/// Attempts after transient failures: over 3 to 30 seconds, since pauses are random; longer if requests time out.
pub const RETRIES: RetryConfig = RetryConfig {
    backoff: BackoffConfig { init_backoff: Duration::from_millis(250), max_backoff: Duration::from_secs(10), base: 3. },
    max_retries: 8,
    retry_timeout: Duration::from_secs(180),
};

/// Settings with which no connection is possible: a setting and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(String);

/// Connects to a bucket of the store that the environment describes, such as by `AWS_ENDPOINT_URL`, without a request.
///
/// # Errors
/// Fails if the settings are incomplete or invalid.
pub fn connect_by_environment(bucket: &str) -> Result<Store, ConnectError> {
    connect(AmazonS3Builder::from_env(), bucket, RETRIES)
}

/// Connects to a bucket, without a request.
///
/// # Errors
/// Fails if the settings are incomplete or invalid.
pub fn connect(builder: AmazonS3Builder, bucket: &str, retries: RetryConfig) -> Result<Store, ConnectError> {
    let setting = |key: &AmazonS3ConfigKey| builder.get_config_value(key);
    let endpoint = setting(&AmazonS3ConfigKey::S3Endpoint).or_else(|| setting(&AmazonS3ConfigKey::Endpoint));
    let allows_http = setting(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp)).as_deref() == Some("true");
    if let Some(endpoint) = &endpoint {
        let url = url::Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(url) = url.filter(url::Url::has_host) else {
            return Err(ConnectError("AWS_ENDPOINT_URL: expected a URL, such as `https://s3.example.org`".to_owned()));
        };
        if url.scheme() == "http" && !allows_http {
            return Err(ConnectError("AWS_ENDPOINT_URL: http:// requires AWS_ALLOW_HTTP=true".to_owned()));
        }
    }
    let store = builder
        .with_bucket_name(bucket)
        .with_retry(retries)
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), REQUEST_TIMEOUT)
        // Not all stores have bulk deletion, and few objects are deleted at once.
        .with_disable_bulk_delete(true)
        .build()
        .map_err(|error| ConnectError(format!("s3://{bucket}: {}", reason(&error))))?;
    Ok(Arc::new(store))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder(endpoint: &str) -> AmazonS3Builder {
        let builder = AmazonS3Builder::new().with_endpoint(endpoint).with_allow_http(true);
        builder.with_access_key_id("key").with_secret_access_key("top-secret")
    }

    #[test]
    fn settings_that_are_incomplete_are_refused_with_the_one_at_fault() {
        for (builder, expected) in [
            (builder("nonsense"), "AWS_ENDPOINT_URL: expected a URL"),
            (builder("ftp://store.test"), "AWS_ENDPOINT_URL: expected a URL"),
            (
                builder("http://store.test").with_allow_http(false),
                "AWS_ENDPOINT_URL: http:// requires AWS_ALLOW_HTTP=true",
            ),
            (AmazonS3Builder::new().with_access_key_id("key"), "s3://results: missing SecretAccessKey"),
        ] {
            let message = connect(builder, "results", RETRIES).err().unwrap().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
        assert!(connect(builder("http://store.test"), "results", RETRIES).is_ok());
    }
}
