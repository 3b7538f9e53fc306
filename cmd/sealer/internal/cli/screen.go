package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// A screen is a stream of text that may go to a terminal.
type screen struct {
	io.Writer
	file *os.File // the terminal, or nil
}

// newScreen returns the stream w for text, which ends at raw.
func newScreen(w, raw io.Writer) screen {
	f, ok := raw.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{Writer: w}
	}
	return screen{w, f}
}

// Width returns the columns of the terminal as it is now, 0 where there is none.
func (s screen) Width() int {
	if s.file == nil {
		return 0
	}
	width, _, err := term.GetSize(int(s.file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
