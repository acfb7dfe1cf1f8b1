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
    let variables = std::env::vars_os();
    let variables = variables.filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    connect(settings(variables)?, bucket, RETRIES)
}

/// Returns the settings in these variables. An empty variable counts as absent, since that is how deployments pass on one
/// that is not set.
fn settings(variables: impl Iterator<Item = (String, String)>) -> Result<AmazonS3Builder, ConnectError> {
    let mut builder = AmazonS3Builder::new();
    for (name, value) in variables.filter(|(name, value)| name.starts_with("AWS_") && !value.is_empty()) {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
            if let Some(allowed) = allowed(&key).filter(|_| !is_valid(key, &value)) {
                return Err(ConnectError(format!("{name}: `{value}` is not allowed; allowed: {allowed}")));
            }
            builder = builder.with_config(key, value);
        }
    }
    Ok(builder)
}

/// Returns the values of a setting that has few.
fn allowed(key: &AmazonS3ConfigKey) -> Option<&'static str> {
    match key {
        AmazonS3ConfigKey::ConditionalPut => Some("`disabled` and `etag`"),
        AmazonS3ConfigKey::VirtualHostedStyleRequest | AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp) => {
            Some("`true` and `false`")
        }
        _ => None,
    }
}

/// Returns `true` if a connection with this value, and otherwise valid settings, is possible.
fn is_valid(key: AmazonS3ConfigKey, value: &str) -> bool {
    let others = AmazonS3Builder::new().with_bucket_name("any").with_access_key_id("any").with_secret_access_key("any");
    others.with_config(key, value).build().is_ok()
}

/// Returns the one of the two credentials that is absent although the other is given.
fn missing_credential(builder: &AmazonS3Builder) -> Option<&'static str> {
    let is_given = |key: AmazonS3ConfigKey| builder.get_config_value(&key).is_some();
    match (is_given(AmazonS3ConfigKey::AccessKeyId), is_given(AmazonS3ConfigKey::SecretAccessKey)) {
        (true, false) => Some("AWS_SECRET_ACCESS_KEY"),
        (false, true) => Some("AWS_ACCESS_KEY_ID"),
        _ => None,
    }
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
    if let Some(missing) = missing_credential(&builder) {
        return Err(ConnectError(format!("{missing} is not set; set both credentials, or none at Amazon")));
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
            (AmazonS3Builder::new().with_access_key_id("key"), "AWS_SECRET_ACCESS_KEY is not set"),
            (AmazonS3Builder::new().with_secret_access_key("top-secret"), "AWS_ACCESS_KEY_ID is not set"),
        ] {
            let message = connect(builder, "results", RETRIES).err().unwrap().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
        assert!(connect(builder("http://store.test"), "results", RETRIES).is_ok());
    }

    fn of(variables: &[(&str, &str)]) -> Result<AmazonS3Builder, ConnectError> {
        settings(variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())))
    }

    #[test]
    fn an_empty_variable_counts_as_absent() {
        let given = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "top-secret")];
        let absent = ["AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN", "AWS_ALLOW_HTTP"];
        let variables = [&given[..], &absent.map(|name| (name, ""))].concat();
        let builder = of(&variables).unwrap();
        for key in [AmazonS3ConfigKey::Region, AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::Token] {
            assert_eq!(builder.get_config_value(&key), None, "{key:?}");
        }
        assert_eq!(builder.get_config_value(&AmazonS3ConfigKey::AccessKeyId).as_deref(), Some("key"));
        assert!(connect(builder, "results", RETRIES).is_ok());
    }

    #[test]
    fn a_variable_with_another_value_than_those_allowed_is_named_with_them() {
        for (name, value, allowed) in [
            ("AWS_CONDITIONAL_PUT", "off", "`disabled` and `etag`"),
            ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "maybe", "`true` and `false`"),
            ("AWS_ALLOW_HTTP", "maybe", "`true` and `false`"),
        ] {
            let expected = format!("{name}: `{value}` is not allowed; allowed: {allowed}");
            assert_eq!(of(&[(name, value)]).err().map(|error| error.to_string()), Some(expected));
        }
        for (name, value) in [
            ("AWS_CONDITIONAL_PUT", "disabled"),
            ("AWS_CONDITIONAL_PUT", "etag"),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "false"),
            ("OTHER_ALLOW_HTTP", "maybe"),
            ("AWS_PAGER", "maybe"),
        ] {
            assert!(of(&[(name, value)]).is_ok(), "{name}={value}");
        }
    }
}
