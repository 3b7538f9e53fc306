// Package logger stands in for sealer 0.8's: lines go to stderr, where sealer
// shows them. The first argument may be a format.
package logger

import (
	"fmt"
	"os"
)

func line(level string, args []any) {
	if format, ok := args[0].(string); ok && len(args) > 1 {
		fmt.Fprintf(os.Stderr, level+": "+format+"\n", args[1:]...)
		return
	}
	fmt.Fprintln(os.Stderr, append([]any{level + ":"}, args...)...)
}

func Info(first any, rest ...any)  { line("info", append([]any{first}, rest...)) }
func Warn(first any, rest ...any)  { line("warning", append([]any{first}, rest...)) }
func Error(first any, rest ...any) { line("error", append([]any{first}, rest...)) }
func Fatal(first any, rest ...any) { Error(first, rest...); os.Exit(1) }
func Debug(any, ...any)            {}
