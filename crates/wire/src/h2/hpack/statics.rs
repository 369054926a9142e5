//! Looking up in a table that everybody knows: HPACK's and QPACK's.

/// The longest name in either table has 32 bytes.
const NAME_BYTES_MAX: usize = 32;

/// The places of a table of fields by the lengths of their names, so that few are compared; those of one
/// length in the order of the table.
pub(crate) struct ByNameLength<const N: usize> {
    fields: &'static [(&'static str, &'static str); N],
    places: [u8; N],
    /// Where the places for each length begin, and where the last end.
    begins: [u8; NAME_BYTES_MAX + 2],
}

impl<const N: usize> ByNameLength<N> {
    pub(crate) const fn new(fields: &'static [(&'static str, &'static str); N]) -> Self {
        let mut out = Self { fields, places: [0; N], begins: [0; NAME_BYTES_MAX + 2] };
        let (mut count, mut length) = (0, 0);
        while length <= NAME_BYTES_MAX {
            out.begins[length] = count as u8;
            let mut at = 0;
            while at < N {
                if fields[at].0.len() == length {
                    out.places[count] = at as u8;
                    count += 1;
                }
                at += 1;
            }
            length += 1;
        }
        out.begins[length] = count as u8;
        assert!(count == N, "each name is short enough");
        out
    }

    /// The first place of a field with this name, and whether there is one with this value too: that one's.
    pub(crate) fn find(&self, name: &[u8], value: &[u8]) -> Option<(usize, bool)> {
        let begin = usize::from(*self.begins.get(name.len())?);
        let end = usize::from(*self.begins.get(name.len() + 1)?);
        let mut named = None;
        for place in self.places.get(begin..end)? {
            let place = usize::from(*place);
            let (known, text) = self.fields.get(place)?;
            if known.as_bytes() == name {
                if text.as_bytes() == value {
                    return Some((place, true));
                }
                named.get_or_insert(place);
            }
        }
        named.map(|place| (place, false))
    }
}
