package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandLine finds "sealer …" in code, up to the end of the code or of the
// command in a line of shell.
var commandLine = regexp.MustCompile("(?:^|[`$&|;(] ?|sudo )sealer ([a-z][^`|;&)\n#]*)")

// placeholder is a word of a page that stands for others.
var placeholder = regexp.MustCompile(`[A-Z…\[\]{}<>]`)

// Every command line in README and docs/ names a command and flags that exist.
func TestCommandsOfThePages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, page := range append(pages, "../../../../README.md", "../../../../CONTRIBUTING.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codeOf(string(b)) {
			for _, m := range commandLine.FindAllStringSubmatch(code, -1) {
				lines++
				if fault := faultOf(m[1]); fault != "" {
					t.Errorf("%s: sealer %s: %s", filepath.Base(page), strings.TrimSpace(m[1]), fault)
				}
			}
		}
	}
	if lines < 50 {
		t.Errorf("%d command lines found; is the pages' form another?", lines)
	}
}

// link finds the target of a Markdown link, without its anchor.
var link = regexp.MustCompile(`\]\(([^)#]+)`)

// Every link between the pages leads to a file.
func TestLinksOfThePages(t *testing.T) {
	t.Parallel()
	root := "../../../.."
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range append(pages, root+"/README.md", root+"/CONTRIBUTING.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: a link leads to %s: %v", filepath.Base(page), m[1], err)
			}
		}
	}
	if links < 50 {
		t.Errorf("%d links found; is the pages' form another?", links)
	}
}

// codeOf returns the lines of code blocks and the code inside lines. Continued
// lines are joined.
func codeOf(page string) []string {
	var out []string
	block := false
	for line := range strings.Lines(strings.ReplaceAll(page, "\\\n", "")) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			block = !block
			continue
		}
		if block {
			out = append(out, strings.TrimSpace(line))
			continue
		}
		for i, part := range strings.Split(line, "`") {
			if i%2 == 1 {
				out = append(out, part)
			}
		}
	}
	return out
}

// faultOf looks for the command and the flags of one command line.
func faultOf(line string) string {
	root := (&app{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}}).command()
	words := strings.Fields(line)
	at := root
	for len(words) > 0 {
		next := child(at, words[0])
		if next == nil {
			break
		}
		at, words = next, words[1:]
	}
	if at == root {
		if placeholder.MatchString(words[0]) {
			return ""
		}
		return "there is no such command"
	}
	if at.HasSubCommands() && at.RunE == nil && at.Run == nil && len(words) > 0 && !placeholder.MatchString(words[0]) && !strings.HasPrefix(words[0], "-") {
		return "there is no subcommand " + words[0]
	}
	for _, w := range words {
		if w == "--" {
			break
		}
		name, _, _ := strings.Cut(w, "=")
		name = strings.Trim(name, ".,:()'\"")
		if !strings.HasPrefix(name, "-") || name == "-" || placeholder.MatchString(name) {
			continue
		}
		if flagOf(at, name) == nil {
			return "there is no flag " + name
		}
	}
	return ""
}

func child(c *cobra.Command, name string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

func flagOf(c *cobra.Command, name string) *pflag.Flag {
	c.InitDefaultHelpFlag()
	if long, ok := strings.CutPrefix(name, "--"); ok {
		if f := c.Flags().Lookup(long); f != nil {
			return f
		}
		return c.InheritedFlags().Lookup(long)
	}
	short := name[1:2]
	if f := c.Flags().ShorthandLookup(short); f != nil {
		return f
	}
	return c.InheritedFlags().ShorthandLookup(short)
}
