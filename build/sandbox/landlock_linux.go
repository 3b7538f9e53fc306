package sandbox

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock is called directly: the restriction is for one thread and for the
// programs that it starts, and the Landlock library restricts whole processes,
// with cgo where that is on.

// The first versions of Landlock's interface (linux/landlock.h, "ABI") with the
// facilities that a sandbox uses.
const (
	landlockTruncate = 3 // all rights that write
	landlockScope    = 6 // abstract sockets and signals
)

// landlockWrite are the rights that change files. LANDLOCK_ACCESS_FS_REFER is
// among them: where a ruleset does not handle that right, files cannot be moved
// to another directory at all.
const landlockWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
	unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
	unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
	unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE

// landlockVersion returns the version of the kernel's interface; 0 for a kernel
// without Landlock.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// restrict confines the programs that this thread starts as far as the kernel's
// Landlock can: they change files below writable only, or everywhere if there is
// none, and reach neither abstract sockets nor processes outside the sandbox.
func restrict(writable []string) error {
	version := landlockVersion()
	var rules unix.LandlockRulesetAttr
	if version >= landlockTruncate && len(writable) > 0 {
		rules.Access_fs = landlockWrite
	}
	if version >= landlockScope {
		rules.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if rules.Access_fs == 0 && rules.Scoped == 0 {
		return nil
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), unsafe.Sizeof(rules), 0)
	if errno != 0 {
		return fmt.Errorf("landlock: make the rules: %w", errno)
	}
	ruleset := os.NewFile(fd, "landlock")
	defer ruleset.Close()
	if rules.Access_fs != 0 {
		for _, dir := range writable {
			if err := allowBelow(ruleset, dir); err != nil {
				return fmt.Errorf("landlock: allow %s: %w", dir, err)
			}
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset.Fd(), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

// allowBelow adds to ruleset the right to change files below dir.
func allowBelow(ruleset *os.File, dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: landlockWrite, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset.Fd(), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
