package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A service is the part of a unit's file that the supervisor needs: the
// settings ExecStart, Environment and EnvironmentFile of [Service]. It ignores
// all other settings, which only systemd knows.
type service struct {
	args []string
	env  []string
}

// readService reads a unit's file and its drop-ins below the machine's root.
func readService(root, unit string) (service, error) {
	dir := filepath.Join(root, UnitDir)
	names := []string{filepath.Join(dir, unit)}
	more, err := filepath.Glob(filepath.Join(dir, unit+".d", "*.conf"))
	if err != nil {
		return service{}, err
	}
	slices.Sort(more)
	var exec string
	var env []string
	for _, name := range append(names, more...) {
		b, err := os.ReadFile(name)
		if err != nil {
			return service{}, fmt.Errorf("unit %s: %w", unit, err)
		}
		for _, set := range unitSettings(string(b)) {
			switch set.key {
			case "ExecStart":
				exec = set.value // a drop-in empties it first, then sets it
			case "Environment":
				env = append(env, unitWords(set.value)...)
			case "EnvironmentFile":
				more, err := environmentFile(root, set.value)
				if err != nil {
					return service{}, fmt.Errorf("unit %s: %w", unit, err)
				}
				env = append(env, more...)
			}
		}
	}
	args := expandArgs(unitWords(exec), env)
	if len(args) == 0 {
		return service{}, fmt.Errorf("unit %s: its file has no ExecStart", unit)
	}
	args[0] = strings.TrimLeft(args[0], "-@:+!")
	return service{args: args, env: env}, nil
}

// A setting is a line of a unit's file in [Service].
type setting struct{ key, value string }

// unitSettings returns the settings of [Service], with continued lines joined.
func unitSettings(text string) []setting {
	var out []setting
	section := ""
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok && section == "[Service]" {
			out = append(out, setting{strings.TrimSpace(key), strings.TrimSpace(value)})
		}
	}
	return out
}

// environmentFile reads NAME=VALUE lines; a - before the name means that the
// file may be absent.
func environmentFile(root, name string) ([]string, error) {
	name, optional := strings.CutPrefix(name, "-")
	b, err := os.ReadFile(filepath.Join(root, name))
	if errors.Is(err, fs.ErrNotExist) && optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok {
			out = append(out, key+"="+strings.Join(unitWords(value), " "))
		}
	}
	return out, nil
}

// unitWords splits a value at spaces, with quotes as systemd has them.
func unitWords(s string) []string {
	var out []string
	var word strings.Builder
	quote, in := rune(0), false
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, in = r, true
		case r == ' ' || r == '\t':
			if in {
				out = append(out, word.String())
				word.Reset()
				in = false
			}
		default:
			in = true
			word.WriteRune(r)
		}
	}
	if in {
		out = append(out, word.String())
	}
	return out
}

// expandArgs replaces variables: a word that is $NAME alone becomes as many
// words as its value has, ${NAME} inside a word stays in the word.
func expandArgs(args, env []string) []string {
	value := func(name string) string {
		for _, e := range slices.Backward(env) {
			if k, v, _ := strings.Cut(e, "="); k == name {
				return v
			}
		}
		return os.Getenv(name)
	}
	var out []string
	for _, a := range args {
		if name, ok := strings.CutPrefix(a, "$"); ok && name != "" && !strings.HasPrefix(name, "{") && !strings.ContainsAny(name, "$/") {
			out = append(out, strings.Fields(value(name))...)
			continue
		}
		out = append(out, os.Expand(a, value))
	}
	return out
}
