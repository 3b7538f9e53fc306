package cli

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// groups are the tasks by which the help lists commands, each with their names.
var groups = []struct {
	id, title string
	commands  []string
}{
	{"make", "Build an image, and look at it:", []string{"build", "scan", "init", "images", "inspect", "diff", "verify", "report", "merge", "search"}},
	{"carry", "Carry images:", []string{"push", "pull", "save", "load", "inventory", "login", "logout"}},
	{"store", "Keep the store:", []string{"tag", "rmi", "prune", "mount", "umount", "export"}},
	{"serve", "Serve the container images inside:", []string{"registry", "redirect"}},
	{"cluster", "Make clusters, and keep them:", []string{"run", "apply", "join", "delete", "check", "exec", "cert", "gen", "debug", "plugin"}},
	{"sealer", "Sealer itself:", []string{"info", "version", "completion", "help"}},
}

// group puts the commands of root under their tasks.
func group(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range root.Commands() {
			if slices.Contains(g.commands, c.Name()) {
				c.GroupID = g.id
			}
		}
		if slices.Contains(g.commands, "help") {
			root.SetHelpCommandGroupID(g.id)
		}
	}
}

// The columns of help: those of the terminal between these bounds, and printColumns
// elsewhere.
const (
	leastColumns = 40
	mostColumns  = 100
	printColumns = 80
)

// printHelp prints the help of a command, wrapped.
func (a *app) printHelp(cmd *cobra.Command, _ []string) {
	width := printColumns
	if w := widthOf(a.Out); w > 0 {
		width = min(max(w, leastColumns), mostColumns)
	}
	text := strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)) + "\n\n" + cmd.UsageString()
	printText(a.Out, wrapHelp(text, width))
}

// twoColumns matches the left column of a line that describes a flag or a command.
var twoColumns = regexp.MustCompile(`^ +\S.*?\S? {2,}`)

// wrapHelp wraps paragraphs, and the right column of lists. Examples stay: they are
// to be pasted.
func wrapHelp(text string, width int) string {
	var out []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		begin := i
		for i+1 < len(lines) && isProse(lines[begin]) && isProse(lines[i+1]) {
			i++
		}
		block := lines[begin : i+1]
		switch left := twoColumns.FindString(lines[begin]); {
		case lines[begin] == "Examples:":
			for i+1 < len(lines) && lines[i+1] != "" {
				i++
			}
			out = append(out, lines[begin:i+1]...)
		case !slices.ContainsFunc(block, func(l string) bool { return utf8.RuneCountInString(l) > width }):
			out = append(out, block...)
		case isProse(lines[begin]):
			out = append(out, fill(strings.Fields(strings.Join(block, " ")), "", "", width)...)
		case left != "":
			hang := min(utf8.RuneCountInString(left), width*3/5)
			out = append(out, fill(strings.Fields(lines[begin][len(left):]), left, strings.Repeat(" ", hang), width)...)
		default:
			out = append(out, block...)
		}
	}
	return strings.Join(out, "\n")
}

// isProse reports whether a line belongs to a paragraph.
func isProse(line string) bool { return line != "" && line[0] != ' ' && line[0] != '\t' }

// fill writes words in lines of at most width characters, the first after first and
// all others after next.
func fill(words []string, first, next string, width int) []string {
	var out []string
	line, empty := first, true
	for _, w := range words {
		switch {
		case empty:
			line += w
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > width:
			out = append(out, line)
			line = next + w
		default:
			line += " " + w
		}
		empty = false
	}
	return append(out, line)
}
