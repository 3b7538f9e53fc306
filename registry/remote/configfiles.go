package remote

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/containers/image/v5/pkg/sysregistriesv2"
	"github.com/containers/image/v5/types"
)

// A ConfigFile is a file or directory that a Client reads where it exists.
type ConfigFile struct {
	Kind  string `json:"kind"` // registries.conf, auth or certs.d
	Path  string `json:"path"`
	Found bool   `json:"found"`
	Error string `json:"error,omitempty"` // why it cannot be read, although it is there
}

// ConfigFiles returns the files that a Client with these options reads, in the
// order in which they count. It reads none of them.
func ConfigFiles(o Options) []ConfigFile {
	var out []ConfigFile
	add := func(kind string, paths ...string) {
		for _, p := range paths {
			out = append(out, LookAt(kind, p))
		}
	}
	if o.RegistriesConf == "" {
		o.RegistriesConf = os.Getenv("CONTAINERS_REGISTRIES_CONF")
	}
	sys := &types.SystemContext{SystemRegistriesConfPath: o.RegistriesConf}
	add("registries.conf", sysregistriesv2.ConfigPath(sys))
	dirs := []string{sysregistriesv2.ConfigDirPath(sys)}
	if system := "/etc/containers/registries.conf.d"; o.RegistriesConf == "" && dirs[0] != system {
		dirs = append([]string{system}, dirs...)
	}
	for _, dir := range dirs {
		more, _ := filepath.Glob(filepath.Join(dir, "*.conf")) // the pattern is sound
		add("registries.conf", append([]string{dir}, more...)...)
	}
	add("auth", authFiles(o)...)
	add("certs.d", certParents(o.CertsDir)...)
	return out
}

// LookAt describes one file.
func LookAt(kind, path string) ConfigFile {
	c := ConfigFile{Kind: kind, Path: path}
	f, err := os.Open(path)
	if err == nil {
		err = f.Close()
	}
	c.Found = !errors.Is(err, fs.ErrNotExist)
	if err != nil && c.Found {
		c.Error = err.Error()
	}
	return c
}

// authFiles returns the files with credentials, in the order of
// containers-auth.json(5).
func authFiles(o Options) []string {
	if o.AuthFile != "" {
		return []string{o.AuthFile}
	}
	if f := os.Getenv("REGISTRY_AUTH_FILE"); f != "" {
		return []string{f}
	}
	home, _ := os.UserHomeDir() // without one the paths do not exist
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	docker := os.Getenv("DOCKER_CONFIG")
	if docker == "" {
		docker = filepath.Join(home, ".docker")
	}
	var out []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); runtime.GOOS == "linux" && dir != "" {
		out = append(out, filepath.Join(dir, "containers/auth.json"))
	} else if runtime.GOOS == "linux" {
		out = append(out, filepath.Join("/run/containers", strconv.Itoa(os.Getuid()), "auth.json"))
	}
	return append(out, filepath.Join(config, "containers/auth.json"), filepath.Join(docker, "config.json"), filepath.Join(home, ".dockercfg"))
}
