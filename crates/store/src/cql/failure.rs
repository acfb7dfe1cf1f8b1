//! Errors of the server or the connection, and whether they may be transient.

use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestError, ConnectionSetupRequestErrorKind as SetupKind,
    DbError, ExecutionError, MetadataError, NewSessionError, PrepareError, RequestAttemptError, SchemaAgreementError,
};

use crate::StoreError;

/// Returns `true` for the messages of a server that cannot read its roles and therefore rejects logins and requests.
///
/// Cassandra names the operation that it was unable to perform or, like ScyllaDB, the consistency level that its roles
/// lack. ScyllaDB has one text for all other failures of that read, such as timeouts, and a different one for a wrong
/// password.
fn are_roles_unreadable(message: &str) -> bool {
    message.starts_with("Unable to perform")
        || message.contains("Cannot achieve consistency level")
        || message == "authentication failed"
}

/// Kinds of errors; their names are the labels of their metric.
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
    /// Rejected login on an established session: a node accepted the same user name and password before.
    LogIn,
    /// Rejected user name or password, or missing permissions.
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
            Self::LogIn | Self::Unauthorized => "unauthorized",
            Self::Invalid => "invalid",
        }
    }

    /// Returns `true` if a retry may succeed.
    pub(super) fn is_transient(self) -> bool {
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
            Kind::Unavailable => "; the keyspace may have more replicas than the cluster has nodes",
            Kind::LogIn | Kind::Unauthorized => {
                "; check `cql.username`, `cql.password` and the permissions of that user"
            }
            _ => "",
        };
        let reason = format!("{doing}: {}{hint}", self.reason);
        if self.kind.is_transient() { StoreError::Failed(reason) } else { StoreError::Refused(reason) }
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
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(error)) => match pool(error) {
            // No node has accepted this login yet.
            Kind::LogIn => Kind::Unauthorized,
            kind => kind,
        },
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
            SetupKind::DbError(error, message) => server(error, message),
            SetupKind::MissingAuthentication | SetupKind::StartAuthSessionError(_) => Kind::LogIn,
            _ => Kind::Connection,
        },
        _ => Kind::Connection,
    }
}

fn attempt(error: &RequestAttemptError) -> Kind {
    match error {
        RequestAttemptError::DbError(error, message) => server(error, message),
        RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => Kind::Invalid,
        RequestAttemptError::UnableToAllocStreamId => Kind::Overloaded,
        RequestAttemptError::BrokenConnectionError(_) => Kind::Connection,
        _ => Kind::Server,
    }
}

fn server(error: &DbError, message: &str) -> Kind {
    match error {
        // An outage of the replicas of the roles is reported with the codes of a rejection.
        DbError::AuthenticationError | DbError::Unauthorized if are_roles_unreadable(message) => Kind::Server,
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::FunctionFailure { .. }
        | DbError::ConfigError
        | DbError::ProtocolError => Kind::Invalid,
        DbError::AuthenticationError => Kind::LogIn,
        DbError::Unauthorized => Kind::Unauthorized,
        DbError::Unavailable { .. } => Kind::Unavailable,
        DbError::Overloaded | DbError::IsBootstrapping | DbError::RateLimitReached { .. } => Kind::Overloaded,
        DbError::ReadTimeout { .. } | DbError::WriteTimeout { .. } => Kind::Timeout,
        _ => Kind::Server,
    }
}

#[cfg(test)]
mod tests {
    use scylla::client::session_builder::SessionBuilder;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    fn answered(error: DbError, message: &str) -> StoreError {
        let attempt = RequestAttemptError::DbError(error, message.to_owned());
        Failure::from(ExecutionError::LastAttemptError(attempt)).while_doing("writing pages")
    }

    /// Encodes a text as a `[string]` of the CQL protocol.
    fn text(text: &str) -> Vec<u8> {
        [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
    }

    /// Answers the setup requests of a connection, and the login with an authentication error.
    async fn reject_log_in(mut client: TcpStream, message: &'static str) -> std::io::Result<()> {
        loop {
            let mut header = [0_u8; 9];
            client.read_exact(&mut header).await?;
            let [_, _, stream_high, stream_low, opcode, length @ ..] = header;
            let mut body = vec![0_u8; usize::try_from(u32::from_be_bytes(length)).unwrap()];
            client.read_exact(&mut body).await?;
            let (opcode, answer): (u8, Vec<u8>) = match opcode {
                // OPTIONS: SUPPORTED, with an empty map.
                5 => (6, vec![0, 0]),
                // STARTUP: AUTHENTICATE.
                1 => (3, text("org.apache.cassandra.auth.PasswordAuthenticator")),
                // AUTH_RESPONSE: ERROR, with the code of an authentication error.
                _ => (0, [&0x0100_u32.to_be_bytes()[..], &text(message)[..]].concat()),
            };
            let length = u32::try_from(answer.len()).unwrap().to_be_bytes();
            let frame = [&[0x84, 0, stream_high, stream_low, opcode][..], &length[..], &answer[..]].concat();
            client.write_all(&frame).await?;
        }
    }

    /// Returns the error of a new session whose login a server rejects with `message`.
    async fn rejected_log_in(message: &'static str) -> NewSessionError {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let node = server.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = server.accept().await {
                tokio::spawn(reject_log_in(client, message));
            }
        });
        let opened = SessionBuilder::new().known_node_addr(node).user("crawler", "secret").build().await;
        serving.abort();
        opened.err().unwrap()
    }

    #[test]
    fn what_may_pass_is_a_failure_and_what_may_not_is_a_refusal() {
        for error in [DbError::Overloaded, DbError::IsBootstrapping, DbError::ServerError, DbError::TruncateError] {
            let error = answered(error, "said so");
            assert!(matches!(&error, StoreError::Failed(reason) if reason.starts_with("writing pages: ")), "{error}");
        }
        for error in [DbError::Unauthorized, DbError::Invalid, DbError::SyntaxError] {
            let error = answered(error, "said so");
            assert!(matches!(&error, StoreError::Refused(reason) if reason.contains("said so")), "{error}");
        }
        assert!(answered(DbError::Unauthorized, "said so").to_string().contains("cql.password"), "what to look at");
    }

    #[tokio::test]
    async fn permissions_that_the_server_could_not_look_up_are_a_failure_that_may_pass() {
        let away = "Unable to perform authorization of permissions: Cannot achieve consistency level LOCAL_ONE";
        let error = answered(DbError::Unauthorized, away);
        assert!(matches!(&error, StoreError::Failed(reason) if reason.contains(away)), "{error}");
        for away in [
            "Unable to perform authentication: Cannot achieve consistency level LOCAL_ONE",
            // ScyllaDB.
            "Cannot achieve consistency level for cl LOCAL_ONE. Requires 1, alive 0",
            "authentication failed",
        ] {
            let error = Failure::from(rejected_log_in(away).await).while_doing("opening a session");
            assert!(matches!(&error, StoreError::Failed(reason) if reason.contains(away)), "{error}");
        }
        let denied = "User crawler has no MODIFY permission on <table crawl.pages> or any of its parents";
        let error = answered(DbError::Unauthorized, denied);
        assert!(matches!(&error, StoreError::Refused(reason) if reason.contains(denied)), "{error}");
    }

    #[tokio::test]
    async fn a_rejected_log_in_is_a_refusal_at_the_start_and_may_pass_later() {
        let scylla = Failure::from(rejected_log_in("Username and/or password are incorrect").await);
        assert!(matches!(scylla.while_doing("opening a session"), StoreError::Refused(_)));
        let error = rejected_log_in("Provided username crawler and/or password are incorrect").await;
        let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(broken)) = error.clone() else {
            panic!("{error}")
        };
        let error = Failure::from(error).while_doing("opening a session");
        assert!(matches!(&error, StoreError::Refused(reason) if reason.contains("cql.password")), "{error}");
        let error = Failure::from(ExecutionError::ConnectionPoolError(broken)).while_doing("writing pages");
        assert!(matches!(&error, StoreError::Failed(reason) if reason.contains("cql.password")), "{error}");
    }
}
