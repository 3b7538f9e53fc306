package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Detect tries the facilities. dir is a directory on the file system of the store,
// in which it makes a temporary one.
func Detect(ctx context.Context, dir string) Features {
	f := Features{LandlockABI: landlockVersion(), Overlayfs: hasOverlayfs(), UserNamespaces: hasUserNamespaces(ctx), MappedIDs: "not used: sealer does not run as root", Seccomp: "yes", RunLacks: []string{}}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if len(abis()) == 0 {
		f.Seccomp = "no: there is no filter for " + runtime.GOARCH
	}
	temp, err := os.MkdirTemp(dir, "sealer-info")
	if err != nil {
		f.RunLacks = append(f.RunLacks, "RUN was not tried: "+err.Error())
		return f
	}
	defer os.RemoveAll(temp)
	possible := possibleUsers()
	s, err := startAs(ctx, Options{Dir: temp}, possible)
	if err != nil {
		f.MappedIDs = "no: " + err.Error()
		f.RunLacks = append(f.RunLacks, "RUN does not work: "+err.Error())
		return f
	}
	defer s.Close()
	f.RunLacks = append(f.RunLacks, s.Lacks()...)
	switch {
	case s.users == mappedUsers:
		f.MappedIDs = "yes"
	case possible[0] == mappedUsers:
		f.MappedIDs = "no: the kernel, or the file system of the store, does not map user IDs"
	case os.Geteuid() == 0:
		f.MappedIDs = "no: this root is one of a container or of a user namespace"
	}
	return f
}

// hasOverlayfs asks the kernel, which loads a module for it.
func hasOverlayfs() string {
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err == nil {
		_ = unix.Close(fd)
		return "yes"
	}
	table, readErr := os.ReadFile("/proc/filesystems")
	switch {
	case readErr == nil && strings.Contains(string(table), "\toverlay\n"):
		return "yes"
	case errors.Is(err, unix.ENODEV):
		return "no: the kernel has no module for it"
	}
	return "unknown: the kernel does not list it, and may have a module for it"
}

// hasUserNamespaces starts a program in one, with root's ID as every user may.
func hasUserNamespaces(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{os.Args[0], ChildArgument} // ends at once: it gets no configuration
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		return "no: " + err.Error()
	}
	_ = cmd.Wait() // it fails, as it must
	return "yes"
}
