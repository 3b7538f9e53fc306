package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/build/sandbox"
	"github.com/clusterimage/sealer/registry/policy"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

type infoView struct {
	Sealer      versionInfo         `json:"sealer"`
	Store       storeInfo           `json:"store"`
	Config      []remote.ConfigFile `json:"config"`
	Settings    []setting           `json:"settings"`    // of flags, by variables and the configuration file
	Environment map[string]string   `json:"environment"` // the variables that sealer reads and that are set
	Machine     sandbox.Features    `json:"machine"`
}

type storeInfo struct {
	Root   string     `json:"root"`
	Exists bool       `json:"exists"`
	Images int        `json:"images"`
	Error  string     `json:"error,omitempty"` // why it cannot be read
	Risk   string     `json:"risk,omitempty"`  // who else can read it
	Disk   store.Disk `json:"disk"`
}

func (a *app) info() *cobra.Command {
	var o output
	var registries registryFlags
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Describe the store, the configuration that counts, and what this machine can do",
		Long: `Print the version, the store and the file system that it lies on, with the reasons
why those may lose images or show them to others, the files of configuration in the order in which they
count, and the facilities of the kernel that RUN and mount use. No credentials are
read or printed.`,
		Example: `  sealer info
  sealer info -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			v, err := a.describe(cmd.Context(), &registries)
			if err != nil {
				return err
			}
			return o.print(a.Out, v, func(w io.Writer) error { return v.write(w) })
		},
	}
	registries.files(cmd.Flags())
	o.flags(cmd, "text")
	return cmd
}

func (a *app) describe(ctx context.Context, r *registryFlags) (infoView, error) {
	v := infoView{Sealer: theVersion(), Store: storeInfo{Root: a.storeRoot()}, Environment: environment()}
	if root, err := os.Stat(v.Store.Root); !errors.Is(err, fs.ErrNotExist) {
		v.Store.Exists, v.Store.Risk = true, readers(root)
		err := a.withStore(func(s *store.Store) error {
			images, err := s.List()
			v.Store.Images = len(images)
			return err
		})
		if err != nil {
			v.Store.Error = err.Error()
		}
	}
	var err error
	if v.Store.Disk, err = store.DiskOf(v.Store.Root); err != nil {
		return v, err
	}
	v.Config = remote.ConfigFiles(remote.Options{RegistriesConf: r.registriesConf, AuthFile: r.authFile, CertsDir: r.certsDir})
	judge := r.policy
	if judge == "" {
		if judge, err = policy.Find(); err != nil || judge == "" {
			judge = policy.System
		}
	}
	v.Config = append(v.Config, remote.LookAt("policy.json", judge))
	if file := configFile(); file != "" {
		v.Config = append(v.Config, remote.LookAt("config.yaml", file))
	}
	if v.Settings, err = settings(); err != nil {
		return v, err
	}
	try := os.TempDir()
	if v.Store.Exists {
		try = v.Store.Root
	}
	v.Machine = sandbox.Detect(ctx, try)
	return v, nil
}

// readers says whether other users of the machine can look into the store, whose
// directory is root, or nil when that is unknown. A store may be shared on purpose,
// so it is told, not changed.
func readers(root fs.FileInfo) string {
	if root == nil || runtime.GOOS == "windows" || root.Mode().Perm()&0o077 == 0 {
		return ""
	}
	return fmt.Sprintf("other users of this machine may read the images in it (mode %#o): unless that is wanted, chmod 700", root.Mode().Perm())
}

// environment returns the variables that steer sealer, without passwords.
func environment() map[string]string {
	out := map[string]string{}
	for _, name := range []string{
		"SEALER_ROOT", "CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "SOURCE_DATE_EPOCH", "NO_COLOR",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	} {
		if v := os.Getenv(name); v != "" {
			out[name] = ref.Redact(v)
		}
	}
	return out
}

// write prints v for people.
func (v infoView) write(w io.Writer) error {
	s := v.Store
	images := counted(s.Images, "image", "images")
	switch {
	case s.Error != "":
		images = "cannot be read: " + s.Error
	case !s.Exists:
		images = "does not exist yet: the first image makes it"
	}
	rows := [][2]string{{"version", v.Sealer.String()}, {"store", s.Root}, {"", images}}
	if s.Risk != "" {
		rows = append(rows, [2]string{"", "Risk: " + s.Risk + " " + s.Root})
	}
	disk := size(s.Disk.Free) + " free"
	if s.Disk.Type != "" {
		disk = fmt.Sprintf("%s, mounted at %s, %s", s.Disk.Type, s.Disk.Mounted, disk)
	}
	rows = append(rows, [2]string{"file system", disk})
	for _, risk := range s.Disk.Risks {
		rows = append(rows, [2]string{"", "Risk: " + risk})
	}
	kind := ""
	for _, c := range v.Config {
		state := "not there"
		switch {
		case c.Error != "":
			state = "cannot be read: " + c.Error
		case c.Found:
			state = "read"
		}
		row := [2]string{c.Kind, c.Path + ": " + state}
		if c.Kind == kind {
			row[0] = ""
		}
		kind = c.Kind
		rows = append(rows, row)
	}
	kind = "settings"
	for _, set := range v.Settings {
		rows = append(rows, [2]string{kind, fmt.Sprintf("%s: %s, by %s", set.Name, strings.Join(set.Values, ", "), set.From)})
		kind = ""
	}
	m := v.Machine
	rows = append(rows, [2]string{"kernel", m.Kernel}, [2]string{"overlayfs", m.Overlayfs}, [2]string{"user namespaces", m.UserNamespaces},
		[2]string{"mapped user IDs", m.MappedIDs}, [2]string{"Landlock", landlock(m.LandlockABI)}, [2]string{"seccomp filter", m.Seccomp})
	for _, lack := range m.RunLacks {
		rows = append(rows, [2]string{"", "Without protection in RUN: " + lack})
	}
	for _, r := range rows {
		if _, err := printf(w, "%s\n", strings.TrimRight(fmt.Sprintf("%-17s%s", r[0], line(r[1])), " ")); err != nil {
			return err
		}
	}
	return nil
}

func landlock(abi int) string {
	if abi == 0 {
		return "no"
	}
	return fmt.Sprintf("ABI %d", abi)
}
