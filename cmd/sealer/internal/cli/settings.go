package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/kubefile"
)

// settable are the flags that a variable SEALER_NAME or the configuration file may
// set for every command that has them: those that say how this machine works, and
// neither an image nor a cluster. No password is among them.
var settable = []string{
	"authfile", "cert-dir", "compression", "debug", "insecure-registry", "isolation", "jobs", "limit", "policy", "progress",
	"registries-conf", "root", "stall-timeout",
}

// A setting is the value of a flag from the environment or the configuration file.
type setting struct {
	Name   string   `json:"name"` // of the flag
	Values []string `json:"values"`
	From   string   `json:"from"` // a variable, or a file
}

// configFile is the user's configuration file, which need not exist. It is "" for a
// user without a home directory.
func configFile() string {
	dir, err := os.UserConfigDir() // XDG_CONFIG_HOME, else ~/.config
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sealer", "config.yaml")
}

// variable is the name of the variable for a flag.
func variable(flag string) string {
	return "SEALER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// settings returns the settings in force, in the order of settable: a variable
// before the file. An error means that the file cannot be read, or has a key that
// is none.
func settings() ([]setting, error) {
	file := configFile()
	inFile, err := readSettings(file)
	if err != nil {
		return nil, err
	}
	var out []setting
	for _, name := range settable {
		if v, ok := os.LookupEnv(variable(name)); ok && v != "" {
			out = append(out, setting{name, []string{v}, variable(name)})
		} else if values, ok := inFile[name]; ok {
			out = append(out, setting{name, values, file})
		}
	}
	return out, nil
}

// maxSettings is the most bytes of a configuration file.
const maxSettings = 1 << 20

// readSettings reads the configuration file: names of flags, each with a value or a
// list of them.
func readSettings(file string) (map[string][]string, error) {
	f, err := os.Open(file)
	if file == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(b) > maxSettings {
		return nil, usagef("%s: it has more than %d bytes: is this the right file?", file, maxSettings)
	}
	var keys map[string]yaml.Node
	if err := yaml.Unmarshal(b, &keys); err != nil {
		return nil, usagef("%s: want NAME: VALUE on each line: %w", file, err)
	}
	out := map[string][]string{}
	var errs []error
	for name, node := range keys {
		at := fmt.Sprintf("%s:%d: %s", file, node.Line, name)
		var one string
		var list []string
		switch {
		case !slices.Contains(settable, name):
			text := at + ": no such setting"
			if like := kubefile.Suggest(name, settable); like != "" {
				text += "; did you mean " + like + "?"
			}
			errs = append(errs, usagef("%s", text))
		case node.Kind == yaml.ScalarNode && node.Decode(&one) == nil:
			out[name] = []string{one}
		case node.Kind == yaml.SequenceNode && node.Decode(&list) == nil:
			out[name] = list
		default:
			errs = append(errs, usagef("%s: want a value, or a list of them", at))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return out, errors.Join(errs...)
}

// configure sets the flags of cmd that the command line has not, from the
// environment and the configuration file.
func configure(cmd *cobra.Command) error {
	list, err := settings()
	if err != nil {
		return err
	}
	for _, s := range list {
		f := cmd.Flags().Lookup(s.Name)
		if f == nil || f.Changed {
			continue
		}
		for _, v := range s.Values {
			if err := cmd.Flags().Set(s.Name, v); err != nil {
				return usagef("%s: %s: %w", s.From, s.Name, err)
			}
		}
	}
	return nil
}
