package rootfs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// childEnv makes the test binary mount in namespaces of its own, in the
// directory that it names.
const childEnv = "SEALER_ROOTFS_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil && errors.Is(err, syscall.EPERM) {
		t.Skip("this machine gives no user namespaces")
	}
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// child mounts overlays through the interfaces of new and of old kernels.
func child(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=20m"); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	odd := `a:b,c\d ` + strings.Repeat("x", 100)
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("%s/%d", odd, i))
	}
	for name, tc := range map[string]struct {
		lower    []string
		writable bool
		setuid   bool
	}{
		"no layer":          {},
		"one layer":         {lower: []string{"1"}},
		"two layers":        {lower: []string{"1", "2"}},
		"many odd names":    {lower: many},
		"nothing, writable": {writable: true},
		"writable":          {lower: []string{"1", "2"}, writable: true, setuid: true},
		"many, writable":    {lower: many, writable: true},
	} {
		for api, mount := range map[string]func(o Overlay, lower []string, target string) error{
			"new": Overlay.mountNew, "old": Overlay.mountOld,
			"either": func(o Overlay, _ []string, target string) error { return o.Mount(target) },
		} {
			work, err := os.MkdirTemp(dir, "")
			if err == nil {
				err = check(work, tc.lower, tc.writable, tc.setuid, mount)
			}
			if errors.Is(err, unix.EINVAL) && api == "new" && !layersOneByOne() {
				continue // Mount chooses the other
			}
			if err != nil {
				return fmt.Errorf("%s, %s: %w", name, api, err)
			}
		}
	}
	return nil
}

// layersOneByOne reports whether this kernel takes layers one by one: Linux 6.5.
func layersOneByOne() bool {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(fs)
	return unix.FsconfigSetString(fs, "lowerdir+", "/") == nil
}

// check mounts lower, in each a file of its name and the file "top", in dir.
func check(dir string, lower []string, writable, setuid bool, mount func(Overlay, []string, string) error) error {
	target := filepath.Join(dir, "at")
	o := Overlay{Spare: filepath.Join(dir, "spare"), UserXattr: UserXattr(), SetUID: setuid}
	want := map[string]string{}
	var errs []error
	for _, name := range lower {
		layer := filepath.Join(dir, name)
		base := filepath.Base(name)
		errs = append(errs, os.MkdirAll(layer, 0o755), os.WriteFile(filepath.Join(layer, base), []byte(base), 0o644), os.WriteFile(filepath.Join(layer, "top"), []byte(base), 0o644))
		want[base], want["top"] = base, base
		o.Lower = append(o.Lower, layer)
	}
	if writable {
		o.Upper, o.Work = filepath.Join(dir, "up:per"), filepath.Join(dir, "work,")
		errs = append(errs, os.Mkdir(o.Upper, 0o755), os.Mkdir(o.Work, 0o755))
	}
	errs = append(errs, os.Mkdir(target, 0o755))
	layers, err := o.lower()
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	if err := mount(o, layers, target); err != nil {
		return err
	}
	if on, err := Mounted(target); err != nil || !on {
		return fmt.Errorf("Mounted: %v, %w", on, err)
	}
	if err := errors.Join(compare(target, want), attributes(target, writable, setuid), write(o, target, writable)); err != nil {
		return err
	}
	if err := Unmount(target); err != nil {
		return err
	}
	if on, err := Mounted(target); err != nil || on {
		return fmt.Errorf("after Unmount: %v, %w", on, err)
	}
	return nil
}

func compare(target string, want map[string]string) error {
	got := map[string]string{}
	entries, err := os.ReadDir(target)
	for _, e := range entries {
		b, rerr := os.ReadFile(filepath.Join(target, e.Name()))
		got[e.Name()], err = string(b), errors.Join(err, rerr)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		err = errors.Join(err, fmt.Errorf("files (-want +got):\n%s", diff))
	}
	return err
}

// attributes compares the mount's flags.
func attributes(target string, writable, setuid bool) error {
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return err
	}
	got := map[string]bool{
		"nodev": st.Flags&unix.ST_NODEV != 0, "nosuid": st.Flags&unix.ST_NOSUID != 0, "ro": st.Flags&unix.ST_RDONLY != 0,
	}
	if want := (map[string]bool{"nodev": true, "nosuid": !setuid, "ro": !writable}); !maps.Equal(want, got) {
		return fmt.Errorf("flags %v, want %v", got, want)
	}
	return nil
}

// write changes a file and looks for the change in Upper alone.
func write(o Overlay, target string, writable bool) error {
	err := os.WriteFile(filepath.Join(target, "new"), []byte("new"), 0o600)
	if !writable {
		if !errors.Is(err, unix.EROFS) {
			return fmt.Errorf("write to a read-only mount: %w", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(o.Upper, "new"))
	if slices.ContainsFunc(o.Lower, func(dir string) bool { _, err := os.Stat(filepath.Join(dir, "new")); return err == nil }) {
		err = errors.Join(err, errors.New("a layer was written to"))
	}
	return err
}
