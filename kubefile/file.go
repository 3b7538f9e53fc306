package kubefile

import "strings"

// DefaultName is the name of the build file when the user gives none.
const DefaultName = "Kubefile"

// A File is a parsed Kubefile.
type File struct {
	Name         string // as errors name it
	DockerCopy   bool   // "# copy=docker": COPY follows Dockerfile's rules
	Escape       rune   // the escape character: '\\', or '`' with "# escape=`"
	Expanded     bool   // words are plain values: parser.Expand has run
	Instructions []Instruction
	// Warnings are legal but probably unintended uses, in line order.
	Warnings []*Error
}

// An Instruction is one instruction of a File; the concrete types are the
// pointers to the structs of this package.
type Instruction interface {
	// Keyword is the instruction's name in capitals: "COPY".
	Keyword() string
	// Line is the line where the instruction begins, from 1.
	Line() int
	// Text is the part after the keyword, in canonical form, without the content
	// of heredocs.
	Text() string

	check(c *checker)
}

// At is the position of an instruction: its first line, from 1.
type At int

// Line returns the instruction's first line.
func (a At) Line() int { return int(a) }

// A Pair is a name with a value, of ARG, ENV, LABEL and APPENV.
type Pair struct {
	Name  string
	Value string
	Set   bool // false only for an ARG without a default
}

// A Heredoc is an inline document of COPY, ADD or RUN.
type Heredoc struct {
	Name    string // the word that ends it, and the name of COPY's file
	Content string // with its line ends
	Expand  bool   // variables are expanded: the word was not quoted
	Chomp   bool   // "<<-": leading tabs are dropped
}

// Body returns the content as the instruction sees it.
func (h Heredoc) Body() string {
	if !h.Chomp {
		return h.Content
	}
	lines := strings.SplitAfter(h.Content, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimLeft(l, "\t")
	}
	return strings.Join(lines, "")
}

// From returns the FROM instruction, or nil.
func (f *File) From() *From {
	for _, in := range f.Instructions {
		if from, ok := in.(*From); ok {
			return from
		}
	}
	return nil
}
