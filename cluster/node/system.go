package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
)

type sysctlKind struct{}

func sysctlPath(name string) string {
	return filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
}

func (w *Work) sysctl(name string) (string, error) {
	b, err := os.ReadFile(w.Path(sysctlPath(name)))
	return strings.Join(strings.Fields(string(b)), " "), err
}

func (sysctlKind) Check(_ context.Context, w *Work, args json.RawMessage) (bool, error) {
	var a plan.SysctlArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	for name, want := range a.Values {
		got, err := w.sysctl(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && got != want {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	ok, err := w.hasFile(sysctlFile(w.Cluster), sysctlText(a), 0o644)
	return ok, err
}

func sysctlFile(cluster string) string { return "/etc/sysctl.d/99-sealer-" + cluster + ".conf" }

// sysctlText returns the content of the file that sets the values again at each
// boot.
func sysctlText(a plan.SysctlArgs) []byte {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a.Values)) {
		fmt.Fprintf(&b, "%s = %s\n", name, a.Values[name])
	}
	return []byte(b.String())
}

func (sysctlKind) Do(_ context.Context, w *Work, args json.RawMessage) error {
	var a plan.SysctlArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	if err := w.WriteFile(sysctlFile(w.Cluster), sysctlText(a), 0o644, false); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(a.Values)) {
		was, err := w.sysctl(name)
		if err != nil {
			return fmt.Errorf("sysctl %s: %w", name, err)
		}
		if was == a.Values[name] {
			continue
		}
		c := journal.Change{What: journal.Sysctl, Name: name, Was: &journal.State{Value: was}, Now: a.Values[name]}
		if err := w.change(c); err != nil {
			return err
		}
		if err := os.WriteFile(w.Path(sysctlPath(name)), []byte(a.Values[name]+"\n"), 0o644); err != nil {
			return fmt.Errorf("sysctl %s: %w", name, err)
		}
	}
	return nil
}

type modulesKind struct{}

func modulesFile(cluster string) string { return "/etc/modules-load.d/sealer-" + cluster + ".conf" }

// loaded says whether the kernel has the module, loaded or built in. Network
// bridges are built in where their switch in /proc/sys exists.
func (w *Work) loaded(name string) bool {
	places := []string{"/sys/module/" + name}
	switch name {
	case "br_netfilter":
		places = append(places, "/proc/sys/net/bridge/bridge-nf-call-iptables")
	case "overlay":
		b, err := os.ReadFile(w.Path("/proc/filesystems"))
		if err == nil && strings.Contains(string(b), "\toverlay\n") {
			return true
		}
	}
	return slices.ContainsFunc(places, func(p string) bool {
		_, err := os.Stat(w.Path(p))
		return err == nil
	})
}

func (modulesKind) Check(_ context.Context, w *Work, args json.RawMessage) (bool, error) {
	var a plan.ModulesArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	for _, n := range a.Names {
		if !w.loaded(n) {
			return false, nil
		}
	}
	return w.hasFile(modulesFile(w.Cluster), []byte(strings.Join(a.Names, "\n")+"\n"), 0o644)
}

func (modulesKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	var a plan.ModulesArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	if err := w.WriteFile(modulesFile(w.Cluster), []byte(strings.Join(a.Names, "\n")+"\n"), 0o644, false); err != nil {
		return err
	}
	for _, n := range a.Names {
		if w.loaded(n) {
			continue
		}
		if err := w.change(journal.Change{What: journal.Module, Name: n}); err != nil {
			return err
		}
		if err := w.run(ctx, program{Args: []string{"modprobe", n}}); err != nil {
			return err
		}
	}
	return nil
}

type hostnameKind struct{}

func (hostnameKind) Check(_ context.Context, w *Work, args json.RawMessage) (bool, error) {
	var a plan.HostnameArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	got, err := os.Hostname()
	if w.Root != "/" {
		var b []byte
		b, err = os.ReadFile(w.Path("/etc/hostname"))
		got = strings.TrimSpace(string(b))
	}
	return got == a.Name, err
}

func (hostnameKind) Do(_ context.Context, w *Work, args json.RawMessage) error {
	var a plan.HostnameArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	was, err := os.Hostname()
	if err != nil {
		return err
	}
	if err := w.change(journal.Change{What: journal.Host, Name: "hostname", Was: &journal.State{Value: was}, Now: a.Name}); err != nil {
		return err
	}
	if err := w.WriteFile("/etc/hostname", []byte(a.Name+"\n"), 0o644, true); err != nil {
		return err
	}
	return w.setHostname(a.Name)
}

func (m *Machine) setHostname(name string) error {
	if m.Root != "/" {
		return nil
	}
	return os.WriteFile("/proc/sys/kernel/hostname", []byte(name), 0o644)
}

type filesKind struct{}

func (filesKind) Check(_ context.Context, w *Work, args json.RawMessage) (bool, error) {
	var a plan.FilesArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	for _, f := range a.Files {
		var same bool
		var err error
		switch {
		case f.Secret != "":
			same, err = w.hasSecret(f)
		case f.From != "":
			same, err = w.sameFile(f.To, w.rootfs(a.Generation, f.From), fs.FileMode(f.Mode))
		default:
			same, err = w.hasFile(f.To, []byte(f.Content), fs.FileMode(f.Mode))
		}
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// hasSecret compares with the secret when it is known, else with the journal.
func (w *Work) hasSecret(f plan.FileArg) (bool, error) {
	if v, ok := w.Secrets[f.Secret]; ok {
		return w.hasFile(f.To, []byte(v), fs.FileMode(f.Mode))
	}
	now, ok := w.ours(journal.File, f.To)
	got, err := digestFile(w.Path(f.To))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return ok && got == now, err
}

func (w *Work) sameFile(name, as string, mode fs.FileMode) (bool, error) {
	info, err := os.Lstat(w.Path(name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Mode().Perm() != mode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	want, err := digestFile(as)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the rootfs is not there yet
	}
	if err != nil {
		return false, err
	}
	got, err := digestFile(w.Path(name))
	return got == want, err
}

func (filesKind) Do(_ context.Context, w *Work, args json.RawMessage) error {
	var a plan.FilesArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	var errs []error
	for _, f := range a.Files {
		if !path.IsAbs(f.To) {
			errs = append(errs, fmt.Errorf("write %q: the path is not absolute", f.To))
			continue
		}
		mode := fs.FileMode(f.Mode)
		switch {
		case f.Secret != "":
			v, ok := w.Secrets[f.Secret]
			if !ok {
				errs = append(errs, fmt.Errorf("write %s: the secret %s was not sent", f.To, f.Secret))
				continue
			}
			errs = append(errs, w.WriteFile(f.To, []byte(v), mode, f.Replace))
		case f.From != "":
			errs = append(errs, w.CopyFile(f.To, w.rootfs(a.Generation, f.From), mode, f.Replace))
		default:
			errs = append(errs, w.WriteFile(f.To, []byte(f.Content), mode, f.Replace))
		}
	}
	return errors.Join(errs...)
}

// rootfs is the path, for this process, of a file of a generation's rootfs.
func (m *Machine) rootfs(generation, name string) string {
	return filepath.Join(m.Dir(), "rootfs", generation, filepath.Join("/", name))
}
