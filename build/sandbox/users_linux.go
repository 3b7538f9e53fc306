package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/rootfs"
)

// users are the user IDs of a sandbox.
type users int

const (
	// mappedUsers is a user namespace with 65,536 IDs that nobody else has:
	// root of the command is no user of the machine.
	mappedUsers users = iota
	// oneUser is a user namespace whose root is this process's user.
	oneUser
	// machineUsers is no user namespace of its own.
	machineUsers
)

const (
	// firstID is the ID of the machine that is root in mappedUsers. The range is
	// one that systemd's list of assigned IDs leaves unused
	// (systemd.io/UIDS-GIDS); no file on a disk gets an ID of the range.
	firstID  = 0x70000000
	countIDs = 1 << 16
)

// possibleUsers returns the user IDs that a sandbox of this process may have,
// the best first.
func possibleUsers() []users {
	switch {
	case !may(unix.CAP_SYS_ADMIN):
		return []users{oneUser}
	case os.Geteuid() == 0 && may(unix.CAP_SETUID) && may(unix.CAP_SETGID) && !rootfs.UserXattr() && ownProc():
		return []users{mappedUsers, machineUsers}
	}
	return []users{machineUsers}
}

// may reports whether this process has a capability in its user namespace.
func may(capability int) bool {
	var data [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	return err == nil && data[0].Effective&(1<<capability) != 0
}

// ownProc reports whether /proc shows this process's PID namespace. Otherwise the
// IDs of a new process cannot be mapped: its directory in /proc is unknown.
func ownProc() bool {
	name, err := os.Readlink("/proc/self")
	return err == nil && name == strconv.Itoa(os.Getpid())
}

// apply adds the user namespace to the attributes of a new process.
func (u users) apply(attr *syscall.SysProcAttr) {
	host, group, size := os.Geteuid(), os.Getegid(), 1
	switch u {
	case machineUsers:
		return
	case mappedUsers:
		host, group, size = firstID, firstID, countIDs
		attr.Credential = &syscall.Credential{} // root of the namespace
		attr.GidMappingsEnableSetgroups = true
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: size}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: group, Size: size}}
}

// program returns a copy in memory of this program if the users cannot execute
// the program itself, else nil.
func (u users) program() (*os.File, error) {
	if u != mappedUsers {
		return nil, nil
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	defer self.Close()
	fi, err := self.Stat()
	if err != nil || fi.Mode()&0o001 != 0 {
		return nil, err
	}
	fd, err := unix.MemfdCreate("sealer", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("copy this program to memory: %w", err)
	}
	out := os.NewFile(uintptr(fd), "sealer")
	if _, err := io.Copy(out, self); err != nil {
		return nil, fmt.Errorf("copy this program to memory: %w", errors.Join(err, out.Close()))
	}
	if err := out.Chmod(0o755); err != nil {
		return nil, fmt.Errorf("copy this program to memory: %w", errors.Join(err, out.Close()))
	}
	return out, nil
}

// explain adds to an error of the namespaces which setting of the machine they
// need.
func explain(msg string, u users) error {
	if u != oneUser || strings.HasPrefix(msg, "start ") && !strings.HasPrefix(msg, "start the sandbox") {
		return errors.New(msg)
	}
	if !ownProc() {
		return fmt.Errorf("%s (/proc shows another PID namespace than sealer's, so the kernel cannot be told who runs the command: mount it, with unshare --mount-proc, or run sealer as root)", msg)
	}
	return fmt.Errorf("%s (without CAP_SYS_ADMIN RUN needs user namespaces: kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, "+
		"kernel.apparmor_restrict_unprivileged_userns=0 where those exist, and Linux 5.11 or later; in a container, one that is --privileged; or run sealer as root)", msg)
}
