//! The shell of a service: configuration, logs, probes and metrics, ordered shutdown.
