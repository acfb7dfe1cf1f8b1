//! Types of fields.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

/// Type of a field that can hold a value of type `V`: a narrower number, a number of milliseconds, or nothing.
pub trait Held<V>: Sized {
    /// Converts a value; `None` if the type cannot hold it.
    fn of(value: V) -> Option<Self>;
    /// Returns the value; `None` if it is not set.
    fn value(&self) -> Option<V>;
}

impl<V, T: Held<V>> Held<V> for Option<T> {
    fn of(value: V) -> Option<Self> {
        T::of(value).map(Some)
    }

    fn value(&self) -> Option<V> {
        self.as_ref().and_then(T::value)
    }
}

macro_rules! held {
    ($value:ty: $($held:ty = $of:expr, $show:expr;)+) => {$(
        impl Held<$value> for $held {
            fn of(value: $value) -> Option<Self> {
                let of: fn($value) -> Option<Self> = $of;
                of(value)
            }

            fn value(&self) -> Option<$value> {
                let show: fn(&Self) -> Option<$value> = $show;
                show(self)
            }
        }
    )+};
}

held! { u64:
    u8 = |value| value.try_into().ok(), |held| Some((*held).into());
    u16 = |value| value.try_into().ok(), |held| Some((*held).into());
    u64 = Some, |held| Some(*held);
    usize = |value| value.try_into().ok(), |held| (*held).try_into().ok();
}

held! { Duration:
    Duration = Some, |held| Some(*held);
    u64 = |time| time.as_millis().try_into().ok(), |ms| Some(Duration::from_millis(*ms));
    i64 = |time| time.as_millis().try_into().ok(), |ms| Some(Duration::from_millis(ms.unsigned_abs()));
}

held! { String:
    String = Some, |held| Some(held.clone());
    PathBuf = |text| Some(text.into()), |held| Some(held.display().to_string());
}

held! { Vec<String>:
    Vec<String> = Some, |held| Some(held.clone());
    String = |texts| Some(texts.join(",")), |held| Some(held.split_terminator(',').map(str::to_owned).collect());
}

held! { SocketAddr:
    SocketAddr = Some, |held| Some(*held);
}

held! { BTreeMap<String, String>:
    BTreeMap<String, String> = Some, |held| Some(held.clone());
    Vec<(String, String)> = |texts| Some(texts.into_iter().collect()), |held| Some(held.iter().cloned().collect());
}
