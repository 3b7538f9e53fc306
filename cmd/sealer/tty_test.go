package main

import (
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// tty COLUMNS PROGRAM ARG... runs a program on a terminal that is so wide, with the
// program "script". stdout is what the terminal got, without its carriage returns
// at the ends of lines; while it runs, the file tty.log has it, behind
// a line with the command.
func tty(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: tty COLUMNS PROGRAM [ARG...]")
	}
	if _, err := strconv.Atoi(args[0]); err != nil {
		ts.Fatalf("tty: %v", err)
	}
	command := "stty cols " + args[0] + " rows 24 && exec"
	for _, a := range args[1:] {
		command += " '" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	script, err := exec.LookPath("script")
	ts.Check(err)
	err = ts.Exec(script, "-qefc", command, ts.MkAbs("tty.log"))
	text := strings.ReplaceAll(ts.ReadFile("stdout"), "\r\n", "\n")
	_, werr := io.WriteString(ts.Stdout(), text)
	ts.Check(werr)
	ts.Check(err)
}
