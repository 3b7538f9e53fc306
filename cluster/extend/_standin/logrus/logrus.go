// Package logrus stands in for github.com/sirupsen/logrus: lines go to stderr,
// where sealer shows them.
package logrus

import (
	"fmt"
	"os"
)

func line(level string, text string) { fmt.Fprintln(os.Stderr, level+": "+text) }

func Info(args ...any)                  { line("info", fmt.Sprint(args...)) }
func Infof(format string, args ...any)  { line("info", fmt.Sprintf(format, args...)) }
func Warn(args ...any)                  { line("warning", fmt.Sprint(args...)) }
func Warnf(format string, args ...any)  { line("warning", fmt.Sprintf(format, args...)) }
func Error(args ...any)                 { line("error", fmt.Sprint(args...)) }
func Errorf(format string, args ...any) { line("error", fmt.Sprintf(format, args...)) }
func Debug(...any)                      {}
func Debugf(string, ...any)             {}
func Fatal(args ...any)                 { Error(args...); os.Exit(1) }
func Fatalf(format string, args ...any) { Errorf(format, args...); os.Exit(1) }
