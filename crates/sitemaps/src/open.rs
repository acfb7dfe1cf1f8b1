//! Open elements, of bounded number.

use crate::role::Role;

/// Maximum number of open elements that are remembered; deeper ones are counted.
const MAX_REMEMBERED: usize = 64;

/// Chain of open elements from the root.
#[derive(Default)]
pub(crate) struct Open {
    elements: Vec<Element>,
    /// Number of open elements beyond the remembered ones.
    deeper: usize,
}

struct Element {
    name: u64,
    role: Role,
}

impl Open {
    /// Returns the role of the innermost element; absent before the root.
    pub(crate) fn innermost(&self) -> Option<Role> {
        if self.deeper > 0 { Some(Role::Other) } else { self.elements.last().map(|element| element.role) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    pub(crate) fn push(&mut self, name: &str, role: Role) {
        if self.elements.len() < MAX_REMEMBERED {
            self.elements.push(Element { name: hash(name), role });
        } else {
            self.deeper += 1;
        }
    }

    /// Returns the number of elements that remain open after an end tag. Elements without an end tag are closed together
    /// with the one around them; an end tag without a start closes none.
    pub(crate) fn end(&mut self, name: &str) -> usize {
        let name = hash(name);
        let all = self.elements.len();
        let Some(at) = self.elements.iter().rposition(|element| element.name == name) else {
            self.deeper = self.deeper.saturating_sub(1);
            return all;
        };
        if self.deeper > 0 && !self.elements[at].role.is_structure() {
            self.deeper -= 1;
            return all;
        }
        at
    }

    /// Closes the innermost remembered element if more than `remaining` are open, and returns its role.
    pub(crate) fn pop(&mut self, remaining: usize) -> Option<Role> {
        (self.elements.len() > remaining).then(|| {
            self.deeper = 0;
            self.elements.pop().map(|element| element.role)
        })?
    }

    /// Returns the number of elements around the innermost one.
    pub(crate) fn around(&self) -> usize {
        self.elements.len().saturating_sub(1)
    }
}

/// FNV-1a hash of a name in lower case.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(names: &[(&str, Role)]) -> Open {
        let mut open = Open::default();
        for (name, role) in names {
            open.push(name, *role);
        }
        open
    }

    #[test]
    fn an_end_tag_closes_elements_without_an_end_tag_within_it() {
        let mut open = opened(&[("urlset", Role::Root), ("url", Role::Page), ("b", Role::Other), ("i", Role::Other)]);
        assert_eq!(open.end("p"), 4);
        assert_eq!(open.end("url"), 1);
        assert_eq!(open.pop(1), Some(Role::Other));
        assert_eq!(open.pop(1), Some(Role::Other));
        assert_eq!(open.pop(1), Some(Role::Page));
        assert_eq!(open.pop(1), None);
        assert_eq!(open.innermost(), Some(Role::Root));
    }

    #[test]
    fn deep_elements_are_counted_and_end_with_the_entry_around_them() {
        let mut open = opened(&[("rss", Role::Root), ("item", Role::Page)]);
        for _ in 0..1000 {
            open.push("p", Role::Other);
        }
        assert_eq!((open.elements.len(), open.deeper), (MAX_REMEMBERED, 938));
        assert_eq!(open.end("p"), MAX_REMEMBERED);
        assert_eq!(open.deeper, 937);
        assert_eq!(open.end("item"), 1);
    }
}
