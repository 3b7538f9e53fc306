package hostile

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// A Case is one hostile input, the command that meets it, and the outcome.
type Case struct {
	Group, Name string
	// Make writes the input into the directory dir; nil is no input.
	Make func(dir string, p Places)
	// Registry is a registry that the command speaks to; nil is none. A case with
	// one may send requests without credentials to Places.Other.
	Registry func(r *Registry) http.Handler
	// First are the arguments of a command that comes before; nil is none.
	First []string
	// Args are the command's arguments. {registry} is the registry's address.
	Args []string
	// Exit is the exit code, and Text a part of the output.
	Exit int
	Text string
	// Image is the name of an image that the command makes, if it exits with 0.
	Image string
}

// Places are what a case tries to reach.
type Places struct {
	Victim string // a directory of the machine that no command may change or copy
	Other  string // HOST:PORT of a server
}

// in returns s with {victim} and {other} replaced.
func (p Places) in(s string) string {
	return strings.NewReplacer("{victim}", p.Victim, "{other}", p.Other).Replace(s)
}

// Cases returns all cases, in the order of the documentation.
func Cases() []Case {
	var out []Case
	for _, group := range [][]Case{layers(), stacked(), archives(), documents(), registries(), pushes(), charts(), kubefiles(), stores()} {
		out = append(out, group...)
	}
	return out
}

// Outcome returns the outcome as a cell of a table.
func (c Case) Outcome() string {
	switch {
	case c.Exit != 0:
		return fmt.Sprintf("%d: %s", c.Exit, c.Text)
	case c.Image != "":
		return "0: taken; nothing leaves its place"
	}
	return "0: " + c.Text
}

// Write writes a file and the directories above it. It panics where it cannot.
func Write(dir, name, content string) {
	name = filepath.Join(dir, filepath.FromSlash(name))
	must(os.MkdirAll(filepath.Dir(name), 0o755))
	must(os.WriteFile(name, []byte(content), 0o644))
}

// loads returns the case of an archive for sealer load.
func loads(group, name string, archive func(p Places) []byte, text string) Case {
	c := Case{
		Group: group, Name: name, Text: text, Exit: 1, Args: []string{"load", "-q", "-i", "in.tar"},
		Make: func(dir string, p Places) { Write(dir, "in.tar", string(archive(p))) },
	}
	if text == "" {
		c.Exit, c.Image = 0, loaded
	}
	return c
}

// loaded is the name of the images in archives.
const loaded = "evil.example/x/c:1"
