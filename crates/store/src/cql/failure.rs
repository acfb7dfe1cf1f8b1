//! Errors of the server or the connection, and whether they may be transient.

use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestError, ConnectionSetupRequestErrorKind as SetupKind,
    DbError, ExecutionError, MetadataError, NewSessionError, PrepareError, RequestAttemptError, SchemaAgreementError,
};

use crate::StoreError;

/// Kinds of errors: the labels of their metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// No node is reachable, or a connection broke.
    Connection,
    /// No response in time, from the nodes or between them.
    Timeout,
    /// Fewer replicas are alive than the consistency requires.
    Unavailable,
    /// The server is overloaded or starting.
    Overloaded,
    /// Any other failure of the server.
    Server,
    /// User name, password or rights.
    Unauthorized,
    /// The request itself is invalid.
    Invalid,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Unauthorized => "unauthorized",
            Self::Invalid => "invalid",
        }
    }

    /// Returns `true` if a retry may succeed.
    pub(super) fn may_pass(self) -> bool {
        !matches!(self, Self::Unauthorized | Self::Invalid)
    }
}

/// Error of the driver, with its kind.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) reason: String,
}

impl Failure {
    pub(super) fn timeout(reason: String) -> Self {
        Self { kind: Kind::Timeout, reason }
    }

    /// Converts the failure into an error of the store, with the operation that failed.
    pub(super) fn while_doing(self, doing: &str) -> StoreError {
        let hint = match self.kind {
            Kind::Unavailable => "; the keyspace may keep more copies than the cluster has nodes",
            Kind::Unauthorized => "; look at `cql.username`, `cql.password` and the rights of that user",
            _ => "",
        };
        let reason = format!("{doing}: {}{hint}", self.reason);
        if self.kind.may_pass() { StoreError::Failed(reason) } else { StoreError::Refused(reason) }
    }
}

macro_rules! failures {
    ($($error:ty => $kind:expr),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let kind: fn(&$error) -> Kind = $kind;
                Self { kind: kind(&error), reason: error.to_string() }
            }
        })*
    };
}

failures! {
    ExecutionError => execution,
    PrepareError => prepare,
    NewSessionError => new_session,
    SchemaAgreementError => agreement,
}

fn execution(error: &ExecutionError) -> Kind {
    match error {
        ExecutionError::BadQuery(_) => Kind::Invalid,
        ExecutionError::PrepareError(error) => prepare(error),
        ExecutionError::ConnectionPoolError(error) => pool(error),
        ExecutionError::LastAttemptError(error) => attempt(error),
        ExecutionError::RequestTimeout(_) => Kind::Timeout,
        ExecutionError::SchemaAgreementError(error) => agreement(error),
        _ => Kind::Connection,
    }
}

fn prepare(error: &PrepareError) -> Kind {
    match error {
        PrepareError::ConnectionPoolError(error) => pool(error),
        PrepareError::AllAttemptsFailed { first_attempt } => attempt(first_attempt),
        _ => Kind::Server,
    }
}

fn new_session(error: &NewSessionError) -> Kind {
    match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(error)) => pool(error),
        NewSessionError::IllegalConfig(_) | NewSessionError::EmptyKnownNodesList => Kind::Invalid,
        // An unresolvable name may belong to a node that is about to start.
        _ => Kind::Connection,
    }
}

fn agreement(error: &SchemaAgreementError) -> Kind {
    match error {
        SchemaAgreementError::ConnectionPoolError(error) => pool(error),
        SchemaAgreementError::RequestError(error) => attempt(error),
        SchemaAgreementError::PrepareError(error) => prepare(error),
        _ => Kind::Timeout,
    }
}

fn pool(error: &ConnectionPoolError) -> Kind {
    let ConnectionPoolError::Broken { last_connection_error } = error else { return Kind::Connection };
    match last_connection_error {
        ConnectionError::ConnectTimeout => Kind::Timeout,
        ConnectionError::ConnectionSetupRequestError(ConnectionSetupRequestError { error, .. }) => match error {
            SetupKind::DbError(error, _) => server(error),
            SetupKind::MissingAuthentication | SetupKind::StartAuthSessionError(_) => Kind::Unauthorized,
            _ => Kind::Connection,
        },
        _ => Kind::Connection,
    }
}

fn attempt(error: &RequestAttemptError) -> Kind {
    match error {
        RequestAttemptError::DbError(error, _) => server(error),
        RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => Kind::Invalid,
        RequestAttemptError::UnableToAllocStreamId => Kind::Overloaded,
        RequestAttemptError::BrokenConnectionError(_) => Kind::Connection,
        _ => Kind::Server,
    }
}

fn server(error: &DbError) -> Kind {
    match error {
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::FunctionFailure { .. }
        | DbError::ConfigError
        | DbError::ProtocolError => Kind::Invalid,
        DbError::AuthenticationError | DbError::Unauthorized => Kind::Unauthorized,
        DbError::Unavailable { .. } => Kind::Unavailable,
        DbError::Overloaded | DbError::IsBootstrapping | DbError::RateLimitReached { .. } => Kind::Overloaded,
        DbError::ReadTimeout { .. } | DbError::WriteTimeout { .. } => Kind::Timeout,
        _ => Kind::Server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(error: DbError) -> StoreError {
        let attempt = RequestAttemptError::DbError(error, "said so".to_owned());
        Failure::from(ExecutionError::LastAttemptError(attempt)).while_doing("writing pages")
    }

    #[test]
    fn what_may_pass_is_a_failure_and_what_may_not_is_a_refusal() {
        for error in [DbError::Overloaded, DbError::IsBootstrapping, DbError::ServerError, DbError::TruncateError] {
            let error = answered(error);
            assert!(matches!(&error, StoreError::Failed(reason) if reason.starts_with("writing pages: ")), "{error}");
        }
        for error in [DbError::Unauthorized, DbError::AuthenticationError, DbError::Invalid, DbError::SyntaxError] {
            let error = answered(error);
            assert!(matches!(&error, StoreError::Refused(reason) if reason.contains("said so")), "{error}");
        }
    }

    #[test]
    fn an_error_says_what_to_look_at() {
        assert!(answered(DbError::Unauthorized).to_string().contains("cql.password"));
    }
}
