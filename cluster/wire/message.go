package wire

import (
	"encoding/json"
	"errors"
)

// Magic begins a stream. A shell that prints before it is found by it.
const Magic = "sealer-wire-1\n"

// The limits of the protocol.
const (
	MaxMessage = 8 << 20  // bytes of a message's JSON
	MaxData    = 32 << 10 // bytes of a data frame
	Window     = 1 << 20  // bytes that a stream may be ahead of its reader
	MaxCalls   = 64       // calls in flight, each way
)

// The types of a Message.
const (
	typeHello  = "hello"  // both, first: Hello
	typeCall   = "call"   // caller: ID, Op, Body
	typeCancel = "cancel" // caller: ID
	typeLog    = "log"    // callee: ID, Log
	typeResult = "result" // callee, last: ID, and Body or Error
)

// A Message is the payload of a JSON frame.
type Message struct {
	Type  string          `json:"type"`
	ID    uint64          `json:"id,omitempty"` // chosen by the caller, counted up from 1
	Op    string          `json:"op,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
	Error *Error          `json:"error,omitempty"`
	Log   *Log            `json:"log,omitempty"`
	Hello *Hello          `json:"hello,omitempty"`
	// Input and Output of a call: whether it has such a stream.
	Input  bool `json:"input,omitempty"`
	Output bool `json:"output,omitempty"`
}

// A Hello introduces one side of a connection to the other.
type Hello struct {
	Version  string `json:"version"`          // of sealer
	Digest   string `json:"digest,omitempty"` // sha256:... of the program
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Hostname string `json:"hostname,omitempty"`
	UID      int    `json:"uid"`
	PID      int    `json:"pid"`
	// Dir is the far end's directory into which this side copies sealer; "" when
	// it copies none. Made is the topmost directory that the copying made; "" when
	// all were there.
	Dir  string `json:"dir,omitempty"`
	Made string `json:"made,omitempty"`
}

// A Log is a line that a call has to tell while it runs.
type Log struct {
	Level string `json:"level,omitempty"` // "", "warn", "error"; "out" and "err" are lines of a program
	Text  string `json:"text"`
	Done  int64  `json:"done,omitempty"`  // progress, in bytes
	Total int64  `json:"total,omitempty"` // 0 when it is not known
}

// The codes of an Error that callers act on; others are for people.
const (
	CodeFailed    = "failed"     // the operation went wrong
	CodeCancelled = "cancelled"  // it was cancelled
	CodeUnknownOp = "unknown-op" // the peer has no such operation
	CodeBadBody   = "bad-body"   // its body does not decode
)

// An Error is the error with which a call ended on the other side.
type Error struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Detail  json.RawMessage `json:"detail,omitempty"` // of the operation
}

func (e *Error) Error() string { return e.Message }

// ErrClosed is the cause of calls whose connection ended.
var ErrClosed = errors.New("the session has ended")
