//! Error of a setting of a definition.

/// A setting of a definition that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {setting} cannot be used; allowed: {allowed}")]
pub struct SettingError {
    /// The setting, by its name in the definition.
    pub setting: &'static str,
    allowed: String,
}

impl SettingError {
    pub(crate) fn new(setting: &'static str, allowed: String) -> Self {
        Self { setting, allowed }
    }
}
