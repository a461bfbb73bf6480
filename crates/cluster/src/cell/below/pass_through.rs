//! The delaying file system: every request of the kernel is done on the real files, those that a
//! rule means after a while.
//!
//! One that is held waits in a thread of its own and is done after that; all others go on. Their
//! number needs no limit here: behind each is a waiting thread of some program, or one of
//! the flushes whose number `BACKGROUND_MAX` limits. As on any file system, the kernel lets other
//! writers of the same file wait meanwhile, and other changes of the same folder's names.
//!
//! Not passed on: extended attributes and unnamed files (programs are told "not supported"),
//! locks (the kernel keeps them itself, for all processes of the cell).

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    Request, TimeOrNow, WriteFlags,
};

use super::files::{Changes, Files};
use super::rules::Rules;
use super::{DiskCache, DiskOp};

/// The kernel asks again each time: the folder may also change from outside.
const KNOWN_FOR: Duration = Duration::ZERO;
const WRITE_MAX_BYTES: u32 = 1 << 20;
/// Flushes under way at once; held ones must not use them up.
const BACKGROUND_MAX: u16 = 1024;
/// No number is given to another file while it is known.
const GENERATION: Generation = Generation(0);

pub struct Disk {
    pub files: Files,
    pub rules: Rules,
    pub cache: DiskCache,
}

pub struct PassThrough(pub Arc<Disk>);

impl PassThrough {
    /// Does the work, now or when it may be done.
    fn when_due(
        &self,
        op: DiskOp,
        paths: impl FnOnce(&Files) -> Vec<String>,
        work: impl FnOnce(&Files) + Send + 'static,
    ) {
        let disk = self.0.clone();
        let Some(hold) = disk.rules.claim(op, Instant::now(), || paths(&disk.files)) else {
            return work(&disk.files);
        };
        // Without a thread the reply is dropped, which the program sees as an I/O error.
        let started = thread::Builder::new().name("held".into()).spawn(move || {
            disk.rules.wait(&hold);
            work(&disk.files);
        });
        if let Err(error) = started {
            eprintln!("temblor-cell: slow disk: cannot hold an operation: {error}");
        }
    }

    /// An operation on a name that gets or loses its meaning.
    fn on_name<R: Send + 'static>(
        &self,
        op: DiskOp,
        parent: INodeNo,
        name: &OsStr,
        reply: R,
        work: impl FnOnce(&Files, &OsStr, R) + Send + 'static,
    ) {
        let owned = name.to_os_string();
        self.when_due(
            op,
            |files| vec![files.path_of(parent, name)],
            move |files| work(files, &owned, reply),
        );
    }

    /// The flags to open the real file with.
    fn flags(&self, flags: i32) -> i32 {
        // Its buffers are not aligned for O_DIRECT; and it is a question of this kernel's cache.
        let flags = flags & !(libc::O_DIRECT | libc::O_NOFOLLOW);
        match self.0.cache {
            DiskCache::Through => flags,
            // The kernel fills pages it only has to write a part of, and knows itself where
            // the file ends.
            DiskCache::Back => {
                let flags = flags & !libc::O_APPEND;
                match flags & libc::O_ACCMODE {
                    libc::O_WRONLY => flags & !libc::O_ACCMODE | libc::O_RDWR,
                    _ => flags,
                }
            }
        }
    }

    fn open_flags(&self) -> FopenFlags {
        match self.0.cache {
            DiskCache::Through => FopenFlags::empty(),
            DiskCache::Back => FopenFlags::FOPEN_KEEP_CACHE,
        }
    }
}

fn say_entry(reply: ReplyEntry, result: io::Result<FileAttr>) {
    match result {
        Ok(attr) => reply.entry(&KNOWN_FOR, &attr, GENERATION),
        Err(error) => reply.error(error.into()),
    }
}

fn say_attr(reply: ReplyAttr, result: io::Result<FileAttr>) {
    match result {
        Ok(attr) => reply.attr(&KNOWN_FOR, &attr),
        Err(error) => reply.error(error.into()),
    }
}

fn say_done(reply: ReplyEmpty, result: io::Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

impl Filesystem for PassThrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = match self.0.cache {
            // Changes from outside are noticed.
            DiskCache::Through => InitFlags::FUSE_AUTO_INVAL_DATA,
            DiskCache::Back => InitFlags::FUSE_WRITEBACK_CACHE,
        };
        let missing = |_| io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        config.add_capabilities(wanted).map_err(missing)?;
        // Good to have, and nothing breaks without them.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.set_max_write(WRITE_MAX_BYTES);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        say_entry(reply, self.0.files.lookup(parent, name));
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        self.0.files.forget(ino, nlookup);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        say_attr(reply, self.0.files.attr(ino));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        fh: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
        };
        if size.is_none() {
            return say_attr(reply, self.0.files.change(ino, fh, &changes));
        }
        self.when_due(
            DiskOp::Resize,
            |files| vec![files.path(ino)],
            move |files| say_attr(reply, files.change(ino, fh, &changes)),
        );
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.0.files.read_link(ino) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error.into()),
        }
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.on_name(
            DiskOp::Create,
            parent,
            name,
            reply,
            move |files, name, reply| {
                say_entry(reply, files.make_special(parent, name, mode, rdev));
            },
        );
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        self.on_name(
            DiskOp::Create,
            parent,
            name,
            reply,
            move |files, name, reply| {
                say_entry(reply, files.make_folder(parent, name, mode));
            },
        );
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.to_path_buf();
        self.on_name(
            DiskOp::Create,
            parent,
            link_name,
            reply,
            move |files, name, reply| {
                say_entry(reply, files.make_symlink(parent, name, &target));
            },
        );
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        self.on_name(
            DiskOp::Create,
            newparent,
            newname,
            reply,
            move |files, name, reply| {
                say_entry(reply, files.make_link(ino, newparent, name));
            },
        );
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.on_name(
            DiskOp::Remove,
            parent,
            name,
            reply,
            move |files, name, reply| {
                say_done(reply, files.remove_file(parent, name));
            },
        );
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.on_name(
            DiskOp::Remove,
            parent,
            name,
            reply,
            move |files, name, reply| {
                say_done(reply, files.remove_folder(parent, name));
            },
        );
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (old, new) = (name.to_os_string(), newname.to_os_string());
        self.when_due(
            DiskOp::Rename,
            |files| {
                vec![
                    files.path_of(parent, name),
                    files.path_of(newparent, newname),
                ]
            },
            move |files| {
                let done = files.rename((parent, &old), (newparent, &new), flags.bits());
                say_done(reply, done);
            },
        );
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (flags, answer) = (self.flags(flags.0), self.open_flags());
        self.when_due(
            DiskOp::Open,
            |files| vec![files.path(ino)],
            move |files| match files.open(ino, flags) {
                Ok(handle) => reply.opened(handle, answer),
                Err(error) => reply.error(error.into()),
            },
        );
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (flags, answer) = (self.flags(flags), self.open_flags());
        self.on_name(
            DiskOp::Create,
            parent,
            name,
            reply,
            move |files, name, reply| match files.create(parent, name, flags, mode) {
                Ok((attr, handle)) => reply.created(&KNOWN_FOR, &attr, GENERATION, handle, answer),
                Err(error) => reply.error(error.into()),
            },
        );
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.when_due(
            DiskOp::Read,
            |files| vec![files.path(ino)],
            move |files| match files.read(fh, offset, size as usize) {
                Ok(data) => reply.data(&data),
                Err(error) => reply.error(error.into()),
            },
        );
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The kernel's buffer is gone when this returns.
        let data = data.to_vec();
        self.when_due(
            DiskOp::Write,
            |files| vec![files.path(ino)],
            move |files| match files.write(fh, offset, &data) {
                Ok(()) => reply.written(data.len() as u32),
                Err(error) => reply.error(error.into()),
            },
        );
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.0.files.release(fh);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.when_due(
            DiskOp::Sync,
            |files| vec![files.path(ino)],
            move |files| say_done(reply, files.sync(fh, datasync)),
        );
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.files.open(ino, libc::O_RDONLY | libc::O_DIRECTORY) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.when_due(
            DiskOp::List,
            |files| vec![files.path(ino)],
            move |files| match files.names(ino, fh, offset) {
                Ok(names) => {
                    for (next, name) in (offset + 1..).zip(names) {
                        if reply.add(INodeNo(name.ino), next, name.kind, name.name) {
                            break;
                        }
                    }
                    reply.ok();
                }
                Err(error) => reply.error(error.into()),
            },
        );
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.files.release(fh);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(req, ino, fh, datasync, reply);
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        match self.0.files.space(ino) {
            Ok(s) => reply.statfs(
                s.f_blocks,
                s.f_bfree,
                s.f_bavail,
                s.f_files,
                s.f_ffree,
                s.f_bsize as u32,
                s.f_namemax as u32,
                s.f_frsize as u32,
            ),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.when_due(
            DiskOp::Resize,
            |files| vec![files.path(ino)],
            move |files| say_done(reply, files.allocate(fh, offset, length, mode)),
        );
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.0.files.seek(fh, offset, whence) {
            Ok(found) => reply.offset(found),
            Err(error) => reply.error(Errno::from(error)),
        }
    }
}
