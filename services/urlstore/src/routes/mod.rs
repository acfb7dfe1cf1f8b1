//! Handlers of the routes.

pub(crate) mod batch;
pub(crate) mod content;
pub(crate) mod lists;
pub(crate) mod pages;
pub(crate) mod url;
