//! The real files behind the delaying file system: numbers the kernel knows them by, handles of
//! open ones, and the calls on them.
//!
//! Each file the kernel knows is held by a descriptor without rights (`O_PATH`) and reached through
//! `/proc/self/fd`: names may change under it, and the folder itself is covered by the mount.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    DirBuilderExt, DirEntryExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileHandle, FileType, INodeNo, TimeOrNow};

const SYMLINK_MAX_BYTES: usize = 4096;

pub struct Files {
    nodes: Mutex<Nodes>,
    handles: Mutex<HashMap<u64, Arc<Handle>>>,
    next_handle: AtomicU64,
    /// Where the covered folder is, for paths relative to it.
    root: PathBuf,
}

#[derive(Default)]
struct Nodes {
    by_number: HashMap<u64, Node>,
    /// By device and inode.
    numbers: HashMap<(u64, u64), u64>,
    root_dev: u64,
}

struct Node {
    path_only: Arc<File>,
    key: (u64, u64),
    /// How often the kernel was told of it and has not forgotten it since.
    lookups: u64,
}

/// An open file or folder.
pub struct Handle {
    pub file: File,
    /// A folder's names as they were when reading it began.
    names: Mutex<Vec<Name>>,
}

#[derive(Clone)]
pub struct Name {
    pub ino: u64,
    pub kind: FileType,
    pub name: std::ffi::OsString,
}

/// What is to change of a file.
pub struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeOrNow>,
    pub mtime: Option<TimeOrNow>,
}

/// A name in a folder, valid while this value lives.
struct Place {
    _folder: Arc<File>,
    path: PathBuf,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half-done by a thread that panics here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn stale() -> io::Error {
    io::Error::from_raw_os_error(libc::ESTALE)
}

fn by_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn open_path_only(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | flags)
        .open(path)
}

fn open_raw(path: &Path, flags: i32, mode: u32) -> io::Result<File> {
    let access = flags & libc::O_ACCMODE;
    OpenOptions::new()
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .custom_flags(flags & !libc::O_ACCMODE)
        .mode(mode)
        .open(path)
}

fn kind(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn attr(meta: &fs::Metadata, number: u64) -> FileAttr {
    let time = |seconds: i64, nanos: i64| -> SystemTime {
        UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanos as u32)
    };
    FileAttr {
        ino: INodeNo(number),
        size: meta.size(),
        blocks: meta.blocks(),
        atime: time(meta.atime(), meta.atime_nsec()),
        mtime: time(meta.mtime(), meta.mtime_nsec()),
        ctime: time(meta.ctime(), meta.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: kind(meta.mode()),
        perm: (meta.mode() & 0o7777) as u16,
        nlink: meta.nlink() as u32,
        uid: meta.uid(),
        gid: meta.gid(),
        rdev: meta.rdev() as u32,
        blksize: meta.blksize() as u32,
        flags: 0,
    }
}

impl Files {
    /// Holds the folder; call it before the folder is covered.
    pub fn new(folder: &Path) -> io::Result<Files> {
        let path_only = open_path_only(folder, libc::O_DIRECTORY)?;
        let meta = path_only.metadata()?;
        let root = fs::read_link(by_descriptor(&path_only))?;
        let key = (meta.dev(), meta.ino());
        let number = INodeNo::ROOT.0;
        let node = Node {
            path_only: Arc::new(path_only),
            key,
            lookups: 1,
        };
        Ok(Files {
            nodes: Mutex::new(Nodes {
                by_number: HashMap::from([(number, node)]),
                numbers: HashMap::from([(key, number)]),
                root_dev: key.0,
            }),
            handles: Mutex::default(),
            next_handle: AtomicU64::new(1),
            root,
        })
    }

    fn node(&self, ino: INodeNo) -> io::Result<Arc<File>> {
        let nodes = lock(&self.nodes);
        let node = nodes.by_number.get(&ino.0).ok_or_else(stale)?;
        Ok(node.path_only.clone())
    }

    fn place(&self, parent: INodeNo, name: &OsStr) -> io::Result<Place> {
        let folder = self.node(parent)?;
        let path = by_descriptor(&folder).join(name);
        Ok(Place {
            _folder: folder,
            path,
        })
    }

    /// Where a file is now, relative to the mounted folder.
    pub fn path(&self, ino: INodeNo) -> String {
        let path = self
            .node(ino)
            .and_then(|node| fs::read_link(by_descriptor(&node)));
        let path = path.unwrap_or_default();
        let below = path.strip_prefix(&self.root).unwrap_or(&path);
        let text = below.to_string_lossy();
        text.strip_suffix(" (deleted)").unwrap_or(&text).to_string()
    }

    pub fn path_of(&self, parent: INodeNo, name: &OsStr) -> String {
        match self.path(parent) {
            folder if folder.is_empty() => name.to_string_lossy().into_owned(),
            folder => format!("{folder}/{}", name.to_string_lossy()),
        }
    }

    /// Numbers a file that the kernel is about to hear of.
    fn tell(&self, path_only: File) -> io::Result<FileAttr> {
        let meta = path_only.metadata()?;
        let key = (meta.dev(), meta.ino());
        let mut nodes = lock(&self.nodes);
        let number = match nodes.numbers.get(&key) {
            Some(&number) => number,
            None => {
                // Programs see it as the inode. Held open, a real inode is given to no other file.
                let same_dev = key.0 == nodes.root_dev;
                let mut number = if same_dev {
                    key.1
                } else {
                    key.1 ^ key.0.rotate_left(32)
                };
                while number <= INodeNo::ROOT.0 || nodes.by_number.contains_key(&number) {
                    number = number.wrapping_add(1 << 48 | 1);
                }
                nodes.numbers.insert(key, number);
                let node = Node {
                    path_only: Arc::new(path_only),
                    key,
                    lookups: 0,
                };
                nodes.by_number.insert(number, node);
                number
            }
        };
        if let Some(node) = nodes.by_number.get_mut(&number) {
            node.lookups += 1;
        }
        Ok(attr(&meta, number))
    }

    pub fn lookup(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let place = self.place(parent, name)?;
        self.tell(open_path_only(&place.path, libc::O_NOFOLLOW)?)
    }

    pub fn forget(&self, ino: INodeNo, times: u64) {
        let mut nodes = lock(&self.nodes);
        let Some(node) = nodes.by_number.get_mut(&ino.0) else {
            return;
        };
        node.lookups = node.lookups.saturating_sub(times);
        if node.lookups == 0 && ino != INodeNo::ROOT {
            let key = node.key;
            nodes.numbers.remove(&key);
            nodes.by_number.remove(&ino.0);
        }
    }

    pub fn attr(&self, ino: INodeNo) -> io::Result<FileAttr> {
        Ok(attr(&self.node(ino)?.metadata()?, ino.0))
    }

    pub fn change(
        &self,
        ino: INodeNo,
        handle: Option<FileHandle>,
        changes: &Changes,
    ) -> io::Result<FileAttr> {
        let node = self.node(ino)?;
        let path = by_descriptor(&node);
        if let Some(mode) = changes.mode {
            fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777))?;
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            std::os::unix::fs::chown(&path, changes.uid, changes.gid)?;
        }
        if let Some(size) = changes.size {
            match handle {
                Some(handle) => self.handle(handle)?.file.set_len(size)?,
                None => open_raw(&path, libc::O_WRONLY, 0)?.set_len(size)?,
            }
        }
        let moment = |time: &TimeOrNow| match time {
            TimeOrNow::SpecificTime(time) => *time,
            TimeOrNow::Now => SystemTime::now(),
        };
        let mut times = FileTimes::new();
        if let Some(time) = &changes.atime {
            times = times.set_accessed(moment(time));
        }
        if let Some(time) = &changes.mtime {
            times = times.set_modified(moment(time));
        }
        if changes.atime.is_some() || changes.mtime.is_some() {
            // A pipe without a reader would wait.
            open_raw(&path, libc::O_RDONLY | libc::O_NONBLOCK, 0)?.set_times(times)?;
        }
        Ok(attr(&node.metadata()?, ino.0))
    }

    pub fn handle(&self, handle: FileHandle) -> io::Result<Arc<Handle>> {
        let bad = || io::Error::from_raw_os_error(libc::EBADF);
        lock(&self.handles).get(&handle.0).cloned().ok_or_else(bad)
    }

    fn hand_out(&self, file: File) -> FileHandle {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let handle = Arc::new(Handle {
            file,
            names: Mutex::default(),
        });
        lock(&self.handles).insert(number, handle);
        FileHandle(number)
    }

    pub fn release(&self, handle: FileHandle) {
        let closed = lock(&self.handles).remove(&handle.0);
        // Closing may take its time: not under the lock.
        drop(closed);
    }

    pub fn open(&self, ino: INodeNo, flags: i32) -> io::Result<FileHandle> {
        let node = self.node(ino)?;
        Ok(self.hand_out(open_raw(&by_descriptor(&node), flags, 0)?))
    }

    pub fn create(
        &self,
        parent: INodeNo,
        name: &OsStr,
        flags: i32,
        mode: u32,
    ) -> io::Result<(FileAttr, FileHandle)> {
        let place = self.place(parent, name)?;
        let flags = flags | libc::O_CREAT | libc::O_NOFOLLOW;
        let file = open_raw(&place.path, flags, mode)?;
        let attr = self.tell(open_path_only(&by_descriptor(&file), 0)?)?;
        Ok((attr, self.hand_out(file)))
    }

    /// As much as is asked for, unless the file ends before.
    pub fn read(&self, handle: FileHandle, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        let handle = self.handle(handle)?;
        let mut data = vec![0; size];
        let mut filled = 0;
        while filled < size {
            match handle
                .file
                .read_at(&mut data[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        data.truncate(filled);
        Ok(data)
    }

    pub fn write(&self, handle: FileHandle, offset: u64, data: &[u8]) -> io::Result<()> {
        self.handle(handle)?.file.write_all_at(data, offset)
    }

    pub fn sync(&self, handle: FileHandle, data_only: bool) -> io::Result<()> {
        let handle = self.handle(handle)?;
        if data_only {
            handle.file.sync_data()
        } else {
            handle.file.sync_all()
        }
    }

    /// The names of an open folder from the given place on.
    pub fn names(&self, ino: INodeNo, handle: FileHandle, from: u64) -> io::Result<Vec<Name>> {
        let handle = self.handle(handle)?;
        let mut names = lock(&handle.names);
        if from == 0 {
            *names = read_names(&handle.file, ino)?;
        }
        Ok(names.get(from as usize..).unwrap_or_default().to_vec())
    }

    pub fn read_link(&self, ino: INodeNo) -> io::Result<Vec<u8>> {
        let node = self.node(ino)?;
        let mut target = vec![0u8; SYMLINK_MAX_BYTES];
        // SAFETY: an empty name means the descriptor itself; the buffer is as long as said.
        let length = unsafe {
            let buffer = target.as_mut_ptr().cast();
            libc::readlinkat(node.as_raw_fd(), c"".as_ptr(), buffer, target.len())
        };
        if length < 0 {
            return Err(io::Error::last_os_error());
        }
        target.truncate(length as usize);
        Ok(target)
    }

    pub fn make_folder(&self, parent: INodeNo, name: &OsStr, mode: u32) -> io::Result<FileAttr> {
        let place = self.place(parent, name)?;
        fs::DirBuilder::new().mode(mode).create(&place.path)?;
        self.lookup(parent, name)
    }

    pub fn make_special(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        device: u32,
    ) -> io::Result<FileAttr> {
        let place = self.place(parent, name)?;
        let path = c_path(&place.path)?;
        // SAFETY: a string that ends with NUL and outlives the call.
        check(unsafe { libc::mknod(path.as_ptr(), mode, device.into()) })?;
        self.lookup(parent, name)
    }

    pub fn make_symlink(
        &self,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
    ) -> io::Result<FileAttr> {
        let place = self.place(parent, name)?;
        std::os::unix::fs::symlink(target, &place.path)?;
        self.lookup(parent, name)
    }

    pub fn make_link(&self, ino: INodeNo, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let node = self.node(ino)?;
        let place = self.place(parent, name)?;
        let (from, to) = (c_path(&by_descriptor(&node))?, c_path(&place.path)?);
        // SAFETY: two strings that end with NUL and outlive the call.
        check(unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                // Through the descriptor's own link.
                libc::AT_SYMLINK_FOLLOW,
            )
        })?;
        self.lookup(parent, name)
    }

    pub fn remove_file(&self, parent: INodeNo, name: &OsStr) -> io::Result<()> {
        fs::remove_file(&self.place(parent, name)?.path)
    }

    pub fn remove_folder(&self, parent: INodeNo, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(&self.place(parent, name)?.path)
    }

    pub fn rename(
        &self,
        old: (INodeNo, &OsStr),
        new: (INodeNo, &OsStr),
        flags: u32,
    ) -> io::Result<()> {
        let (old, new) = (self.place(old.0, old.1)?, self.place(new.0, new.1)?);
        let (from, to) = (c_path(&old.path)?, c_path(&new.path)?);
        // SAFETY: two strings that end with NUL and outlive the call.
        check(unsafe {
            libc::renameat2(
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                flags,
            )
        })
    }

    pub fn allocate(
        &self,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> io::Result<()> {
        let handle = self.handle(handle)?;
        let fd = handle.file.as_raw_fd();
        // SAFETY: takes numbers only.
        check(unsafe { libc::fallocate(fd, mode, offset as i64, length as i64) })
    }

    /// Where data or holes begin: no other seek gets here.
    pub fn seek(&self, handle: FileHandle, offset: i64, whence: i32) -> io::Result<i64> {
        let handle = self.handle(handle)?;
        // SAFETY: takes numbers only. Nothing here uses the file's own position.
        let found = unsafe { libc::lseek(handle.file.as_raw_fd(), offset, whence) };
        if found < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(found)
    }

    pub fn space(&self, ino: INodeNo) -> io::Result<libc::statvfs> {
        let node = self.node(ino)?;
        // SAFETY: plain data, valid as zeros, and a valid place for the call to fill.
        unsafe {
            let mut space: libc::statvfs = std::mem::zeroed();
            check(libc::fstatvfs(node.as_raw_fd(), &mut space))?;
            Ok(space)
        }
    }
}

fn read_names(folder: &File, ino: INodeNo) -> io::Result<Vec<Name>> {
    let itself = |name: &str| Name {
        ino: ino.0,
        kind: FileType::Directory,
        name: name.into(),
    };
    let mut names = vec![itself("."), itself("..")];
    for entry in fs::read_dir(by_descriptor(folder))? {
        let entry = entry?;
        let kind = entry.file_type().ok().and_then(FileType::from_std);
        names.push(Name {
            ino: entry.ino(),
            kind: kind.unwrap_or(FileType::RegularFile),
            name: entry.file_name(),
        });
    }
    Ok(names)
}
