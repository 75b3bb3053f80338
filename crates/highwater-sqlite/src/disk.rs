//! What lies under a file: which file systems are refused, and whether one is full.

use std::path::Path;

/// Why a database must not lie in this folder; `None` if it may. Processes share the index of the write-ahead log as
/// memory, which works between processes of one machine only, and network file systems lock files now and then at
/// best: two machines on one file destroy it. There is no way to insist.
#[cfg(target_os = "linux")]
pub(crate) fn refusal(folder: &Path) -> Option<String> {
    use std::os::linux::fs::MetadataExt;
    // Who cannot be asked is judged by what SQLite says.
    let magic = rustix::fs::statfs(folder).ok()?.f_type as u64 & 0xFFFF_FFFF;
    if let Some((_, name)) = NETWORK.iter().find(|(known, _)| *known == magic) {
        return Some((*name).to_owned());
    }
    if magic != FUSE {
        return None;
    }
    let device = std::fs::metadata(folder).ok()?.st_dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let kind = kind_of_mount(&mounts, &format!("{major}:{minor}"))?;
    is_remote_fuse(kind).then(|| kind.to_owned())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn refusal(_: &Path) -> Option<String> {
    None
}

/// File systems of several machines by the number that `statfs` tells (statfs(2), linux/magic.h). 9p joins a virtual
/// machine to its host, which is another machine.
#[cfg(target_os = "linux")]
const NETWORK: [(u64, &str); 15] = [
    (0x6969, "nfs"),
    (0x517B, "smb"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x564C, "ncp"),
    (0x0102_1997, "9p"),
    (0x7375_7245, "coda"),
    (0x5346_414F, "afs"),
    (0x6B41_4653, "afs"),
    (0x00C3_6400, "ceph"),
    (0x0BD0_0BD0, "lustre"),
    (0x0116_1970, "gfs2"),
    (0x7461_636F, "ocfs2"),
    (0x4750_4653, "gpfs"),
    (0x786F_4256, "vboxsf"),
];

#[cfg(target_os = "linux")]
const FUSE: u64 = 0x6573_5546;

/// FUSE is local (ntfs-3g, mergerfs, gocryptfs) or not; only its name tells.
#[cfg(any(target_os = "linux", test))]
fn is_remote_fuse(kind: &str) -> bool {
    const REMOTE: [&str; 16] = [
        "sshfs",
        "s3fs",
        "rclone",
        "gcsfuse",
        "gluster",
        "ceph",
        "davfs",
        "curlftpfs",
        "smbnetfs",
        "blobfuse",
        "goofys",
        "juicefs",
        "mfs",
        "lizardfs",
        "seaweedfs",
        "mount-s3",
    ];
    let name = kind.strip_prefix("fuse.").unwrap_or(kind);
    REMOTE.iter().any(|remote| name.starts_with(remote))
}

/// The type of the file system on a device, from /proc/self/mountinfo (proc_pid_mountinfo(5)).
#[cfg(any(target_os = "linux", test))]
fn kind_of_mount<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device))?;
    line.split_once(" - ")?.1.split(' ').next()
}

/// Fewer free bytes than this are none: the next pages of a write-ahead log, and a piece of its index, do not fit.
#[cfg(target_os = "linux")]
const NOTHING: u64 = 256 * 1024;

/// Whether the disk under this folder is full.
#[cfg(target_os = "linux")]
pub(crate) fn is_full(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < NOTHING)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_full(_: &Path) -> bool {
    false
}

/// Whether a file, or the folder in which it would be made, cannot be written by this user or is mounted read-only.
#[cfg(target_os = "linux")]
pub(crate) fn is_read_only(path: &Path) -> bool {
    use rustix::{
        fs::{Access, access},
        io::Errno,
    };
    [path, folder_of(path)]
        .iter()
        .any(|path| matches!(access(*path, Access::WRITE_OK), Err(Errno::ROFS | Errno::ACCESS | Errno::PERM)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_read_only(_: &Path) -> bool {
    false
}

/// The folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file beside a database, named after it: `booking.db` and `-reserve` make `booking.db-reserve`.
pub(crate) fn beside(path: &Path, end: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
61 25 0:52 / /mnt/team rw,nosuid shared:7 master:2 - fuse.sshfs ann@host:/srv rw,user_id=0
62 25 0:53 / /mnt/win rw - fuseblk /dev/sdb1 rw
63 25 0:54 / /mnt/pool rw - fuse.mergerfs a:b rw";

    #[test]
    fn only_those_fuse_file_systems_are_refused_that_are_known_to_be_remote() {
        let refused = |device| kind_of_mount(MOUNTS, device).is_some_and(is_remote_fuse);
        assert_eq!(kind_of_mount(MOUNTS, "0:52"), Some("fuse.sshfs"));
        assert_eq!(["254:0", "0:52", "0:53", "0:54", "9:9"].map(refused), [false, true, false, false, false]);
    }

    #[test]
    fn a_local_folder_is_not_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(refusal(folder.path()), None);
        assert!(!is_full(folder.path()));
    }
}
