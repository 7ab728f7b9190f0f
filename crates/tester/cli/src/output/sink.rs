//! A file that appears whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

/// An output being written: to a temporary file beside its place, renamed at the end. What is there already
/// and is no ordinary file, such as `/dev/stdout` or a pipe, is written as it is.
pub struct Sink {
    out: BufWriter<File>,
    /// The temporary file and what it becomes.
    partial: Option<(TempPath, PathBuf)>,
}

impl Sink {
    /// Opens it.
    ///
    /// # Errors
    /// The directory is absent or cannot be written. The message names the file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::open(path).map_err(|error| named(path, &error))
    }

    fn open(path: &Path) -> io::Result<Self> {
        let there = fs::metadata(path);
        if there.as_ref().is_ok_and(fs::Metadata::is_dir) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if there.as_ref().is_ok_and(|what| !what.is_file()) {
            let out = BufWriter::new(File::options().write(true).open(path)?);
            return Ok(Self { out, partial: None });
        }
        // A link stays a link: what it leads to is replaced.
        let target = if there.is_ok() { path.canonicalize()? } else { path.to_path_buf() };
        let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new()
            .prefix(name)
            .suffix(".partial")
            // What the user's umask leaves of it.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)?;
        let (file, partial) = file.into_parts();
        Ok(Self { out: BufWriter::with_capacity(1 << 18, file), partial: Some((partial, target)) })
    }

    /// Whether it could be written, as far as can be known beforehand. Nothing is left behind.
    ///
    /// # Errors
    /// Those of [`Sink::create`].
    pub fn check(path: &Path) -> io::Result<()> {
        let special = fs::metadata(path).is_ok_and(|what| !what.is_file() && !what.is_dir());
        if special { Ok(()) } else { Self::create(path).map(drop) }
    }

    /// Puts it in its place; what is to be kept, on disk before.
    fn finish(mut self, is_kept: bool) -> io::Result<()> {
        self.out.flush()?;
        let Some((partial, target)) = self.partial else { return Ok(()) };
        if is_kept {
            self.out.get_ref().sync_data()?;
        }
        partial.persist(target).map_err(|error| error.error)
    }
}

impl Write for Sink {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.out.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a file whole.
///
/// # Errors
/// The disk is full or gone; what was there before stays. The message names the file.
pub fn write_to(path: &Path, write: impl FnOnce(&mut Sink) -> io::Result<()>) -> io::Result<()> {
    let mut sink = Sink::create(path)?;
    write(&mut sink).and_then(|()| sink.finish(true)).map_err(|error| named(path, &error))
}

/// Replaces a file that is soon replaced again: readers see it whole, but it is not waited for until it is on
/// disk.
///
/// # Errors
/// Likewise.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut sink = Sink::create(path)?;
    sink.write_all(contents).and_then(|()| sink.finish(false)).map_err(|error| named(path, &error))
}

pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("out.csv");
        Sink::check(&path).unwrap();
        fs::write(&path, "before").unwrap();
        let failed = write_to(&path, |sink| {
            sink.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.unwrap_err().to_string().starts_with(&format!("cannot write {}: ", path.display())));
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        write_to(&path, |sink| sink.write_all(b"after")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1, "nothing is left behind");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o600, 0o600);
    }

    #[test]
    fn what_is_no_file_is_written_as_it_is_and_a_link_stays_one() {
        let full = write_to(Path::new("/dev/full"), |sink| sink.write_all(b"x")).unwrap_err();
        assert!(full.to_string().contains("cannot write /dev/full: "), "{full}");
        assert!(Path::new("/dev/full").exists());
        let base = tempfile::tempdir().unwrap();
        let (file, link) = (base.path().join("file"), base.path().join("link"));
        fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_to(&link, |sink| sink.write_all(b"y")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "y");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        for wrong in [base.path().to_path_buf(), base.path().join("none/file"), PathBuf::from("")] {
            assert!(Sink::check(&wrong).is_err(), "{}", wrong.display());
        }
    }
}
