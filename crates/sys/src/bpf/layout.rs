//! What the compiled programs say of their structs (BTF, kernel documentation `bpf/btf.rst`), for the tests
//! of what is written in Rust as well: the compiler of one language knows nothing of the other's structs.

/// A struct of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its size.
    pub octets: usize,
    /// Its members in their order.
    pub members: Vec<Member>,
}

/// A member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where it begins, in octets.
    pub offset: usize,
    /// Its size in octets; 0 if it is an array without a length.
    pub octets: usize,
}

/// Asserts that a Rust struct is laid out as the struct of that name in a compiled program: the same members
/// in the same order, with the same offsets and sizes, and nothing besides.
#[macro_export]
macro_rules! assert_layout {
    ($object:expr, $name:literal, $mirror:ty { $($field:ident),* $(,)? }) => {{
        let layout = $crate::bpf::layout::Layout::of($object, $name).expect(concat!("struct ", $name));
        let value = <$mirror>::default();
        let members: Vec<_> = vec![$($crate::bpf::layout::Member {
            name: stringify!($field).to_owned(),
            offset: std::mem::offset_of!($mirror, $field),
            octets: size_of_val(&value.$field),
        }),*];
        assert_eq!(layout.members, members, concat!("struct ", $name));
        assert_eq!(layout.octets, size_of::<$mirror>(), concat!("struct ", $name));
    }};
}

impl Layout {
    /// The struct of that name in a compiled program. `None` if there is none, or this is no ELF file of 64
    /// bits with BTF, in the byte order of this machine.
    pub fn of(object: &[u8], name: &str) -> Option<Self> {
        let btf = Btf::read(section(object, ".BTF")?)?;
        btf.types.iter().find(|entry| entry.kind == Kind::Struct && entry.name == name).and_then(|entry| {
            let member = |member: &Entry| {
                let octets = btf.octets(member.size_or_type)?;
                Some(Member { name: member.name.clone(), offset: member.offset, octets })
            };
            let members = entry.members.iter().map(member).collect::<Option<_>>()?;
            Some(Self { octets: entry.size_or_type as usize, members })
        })
    }

    /// The names of the members, and where they begin.
    pub fn offsets(&self) -> Vec<(&str, usize)> {
        self.members.iter().map(|member| (member.name.as_str(), member.offset)).collect()
    }
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().map(|octets| u16::from_ne_bytes(*octets))
}

fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().map(|octets| u32::from_ne_bytes(*octets))
}

fn u64_at(octets: &[u8], at: usize) -> Option<usize> {
    let word = octets.get(at..)?.first_chunk().map(|octets| u64::from_ne_bytes(*octets))?;
    usize::try_from(word).ok()
}

/// The text that starts at an offset and ends with a zero.
fn text_at(octets: &[u8], at: usize) -> Option<&str> {
    octets.get(at..)?.split(|&octet| octet == 0).next().and_then(|text| std::str::from_utf8(text).ok())
}

/// A section of an ELF file of 64 bits (elf(5)).
fn section<'f>(file: &'f [u8], name: &str) -> Option<&'f [u8]> {
    let (table, entry_octets) = (u64_at(file, 0x28)?, usize::from(u16_at(file, 0x3a)?));
    let contents = |index: u16| {
        let header = table + usize::from(index) * entry_octets;
        let start = u64_at(file, header + 0x18)?;
        file.get(start..start.checked_add(u64_at(file, header + 0x20)?)?)
    };
    let names = contents(u16_at(file, 0x3e)?)?;
    let has_name = |index: &u16| {
        let at = u32_at(file, table + usize::from(*index) * entry_octets);
        at.and_then(|at| text_at(names, at as usize)) == Some(name)
    };
    contents((0..u16_at(file, 0x3c)?).find(has_name)?)
}

/// `BTF_KIND_...`, as far as a member's size depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sized,
    Pointer,
    Array {
        element: u32,
        elements: u32,
    },
    Struct,
    /// Another name for a type, or a qualifier.
    Alias,
    /// Without a size.
    Other,
}

/// A type, or a member of one.
struct Entry {
    name: String,
    kind: Kind,
    size_or_type: u32,
    /// Of a member.
    offset: usize,
    members: Vec<Entry>,
}

struct Btf {
    /// Type 1 and those that follow.
    types: Vec<Entry>,
}

impl Btf {
    const MAGIC: u16 = 0xeb9f;

    fn read(octets: &[u8]) -> Option<Self> {
        let field = |at| u32_at(octets, at).map(|value| value as usize);
        let header = (u16_at(octets, 0)? == Self::MAGIC).then(|| field(4))??;
        let types = octets.get(header + field(8)?..)?.get(..field(12)?)?;
        let names = octets.get(header + field(16)?..)?.get(..field(20)?)?;
        let (mut found, mut at) = (Vec::new(), 0);
        while at < types.len() {
            let (entry, octets) = Self::entry(types.get(at..)?, names)?;
            found.push(entry);
            at += octets;
        }
        Some(Self { types: found })
    }

    /// A type, and how many octets it takes.
    fn entry(octets: &[u8], names: &[u8]) -> Option<(Entry, usize)> {
        const HEADER_OCTETS: usize = 12;
        const MEMBER_OCTETS: usize = 12;
        let info = u32_at(octets, 4)?;
        let (parts, has_bit_sizes) = ((info & 0xffff) as usize, info >> 31 != 0);
        let name = |at| text_at(names, u32_at(octets, at)? as usize).map(str::to_owned);
        let (kind, behind) = match info >> 24 & 31 {
            1 => (Kind::Sized, 4),
            2 => (Kind::Pointer, 0),
            3 => {
                let (element, elements) =
                    (u32_at(octets, HEADER_OCTETS)?, u32_at(octets, HEADER_OCTETS + 8)?);
                (Kind::Array { element, elements }, 12)
            }
            4 => (Kind::Struct, parts * MEMBER_OCTETS),
            5 => (Kind::Sized, parts * MEMBER_OCTETS),
            6 => (Kind::Sized, parts * 8),
            8..=11 | 18 => (Kind::Alias, 0),
            7 | 12 => (Kind::Other, 0),
            13 => (Kind::Other, parts * 8),
            14 | 17 => (Kind::Other, 4),
            15 => (Kind::Other, parts * 12),
            16 => (Kind::Sized, 0),
            19 => (Kind::Sized, parts * 12),
            _ => return None,
        };
        let member = |part: usize| {
            let at = HEADER_OCTETS + part * MEMBER_OCTETS;
            let bits = u32_at(octets, at + 8)?;
            let bits = if has_bit_sizes { bits & 0xff_ffff } else { bits };
            let (size_or_type, offset) = (u32_at(octets, at + 4)?, bits as usize / 8);
            Some(Entry { name: name(at)?, kind: Kind::Other, size_or_type, offset, members: Vec::new() })
        };
        let members = if kind == Kind::Struct { parts } else { 0 };
        let members = (0..members).map(member).collect::<Option<_>>()?;
        let entry = Entry { name: name(0)?, kind, size_or_type: u32_at(octets, 8)?, offset: 0, members };
        Some((entry, HEADER_OCTETS + behind))
    }

    /// The size of a type.
    fn octets(&self, number: u32) -> Option<usize> {
        let entry = self.types.get((number as usize).checked_sub(1)?)?;
        match entry.kind {
            Kind::Sized | Kind::Struct => Some(entry.size_or_type as usize),
            Kind::Pointer => Some(8),
            Kind::Array { element, elements } => Some(self.octets(element)? * elements as usize),
            Kind::Alias => self.octets(entry.size_or_type),
            Kind::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_has_no_structs() {
        assert_eq!(Layout::of(b"no ELF file", "range"), None);
        assert_eq!(Layout::of(&[], "range"), None);
    }
}
