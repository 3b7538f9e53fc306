package registry

import (
	"context"
	"io"
	"log/slog"
	"reflect"

	"github.com/sirupsen/logrus"
)

// loggerKey is the type name of the context key under which distribution looks up
// its logger. The type is in an internal package, so the key is recognised by
// name. Without a logger in the context every request is logged to logrus' global
// logger, which prints to stderr and belongs to the whole process. A test fails
// when the name changes.
const loggerKey = "dcontext.loggerKey"

// quiet is a context with a logger for distribution.
type quiet struct {
	context.Context
	entry *logrus.Entry
}

// quieten sends distribution's log messages under ctx to log at debug level,
// because distribution logs each request for a missing blob as an error.
func quieten(ctx context.Context, log *slog.Logger) context.Context {
	l := logrus.New()
	l.SetOutput(io.Discard)
	if log.Enabled(ctx, slog.LevelDebug) {
		l.AddHook(hook{log})
	} else {
		l.SetLevel(logrus.PanicLevel)
	}
	return quiet{ctx, logrus.NewEntry(l)}
}

// Value implements context.Context.
func (q quiet) Value(key any) any {
	if reflect.TypeOf(key).String() == loggerKey {
		return q.entry
	}
	return q.Context.Value(key)
}

type hook struct{ log *slog.Logger }

// Levels implements logrus.Hook.
func (hook) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook.
func (h hook) Fire(e *logrus.Entry) error {
	h.log.Debug("distribution: " + e.Message)
	return nil
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
