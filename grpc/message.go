package grpc

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Message is an encoded message of protocol buffers. Its methods append a field.
// Strings and numbers of the zero value are left out, as proto3 does.
type Message []byte

// Text appends a string.
func (m Message) Text(field protowire.Number, s string) Message {
	if s == "" {
		return m
	}
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
}

// Bytes appends bytes or a message, also an empty one.
func (m Message) Bytes(field protowire.Number, b []byte) Message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

// Int appends an int32, an int64 or an enum.
func (m Message) Int(field protowire.Number, n int64) Message {
	if n == 0 {
		return m
	}
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(n))
}

// Map appends a map of strings, sorted: a list of messages of a key and a value.
func (m Message) Map(field protowire.Number, values map[string]string) Message {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		m = m.Bytes(field, Message(nil).Text(1, k).Text(2, values[k]))
	}
	return m
}

// Fields are those of a decoded message: numbers, and the bytes of strings and
// messages, each in order. The zero value has none.
type Fields struct {
	numbers map[protowire.Number]uint64
	data    map[protowire.Number][][]byte
}

// maxFields bounds the fields of a message. Decoded, one takes twelve times the
// memory of the two bytes that it may have.
const maxFields = 1 << 20

// Decode reads the fields of a message. Those of types that Fields does not have
// are skipped.
func Decode(b []byte) (Fields, error) {
	f := Fields{map[protowire.Number]uint64{}, map[protowire.Number][][]byte{}}
	for count := 0; len(b) > 0; count++ {
		if count == maxFields {
			return Fields{}, malformed(fmt.Errorf("more than %d fields", maxFields))
		}
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return Fields{}, malformed(protowire.ParseError(n))
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			f.numbers[field] = v
		case protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(b)
			f.data[field] = append(f.data[field], v)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return Fields{}, malformed(fmt.Errorf("field %d: %w", field, protowire.ParseError(n)))
		}
		b = b[n:]
	}
	return f, nil
}

// ErrMessage is wrapped by the errors about bytes that are no message.
var ErrMessage = errors.New("malformed protobuf message")

func malformed(err error) error { return fmt.Errorf("%w: %w", ErrMessage, err) }

// Int returns the last value of a number, 0 where it is not there.
func (f Fields) Int(field protowire.Number) int64 { return int64(f.numbers[field]) }

// Text returns the last value of a string, "" where it is not there.
func (f Fields) Text(field protowire.Number) string {
	if list := f.data[field]; len(list) > 0 {
		return string(list[len(list)-1])
	}
	return ""
}

// Texts returns a list of strings, nil where there is none.
func (f Fields) Texts(field protowire.Number) []string {
	var out []string
	for _, b := range f.data[field] {
		out = append(out, string(b))
	}
	return out
}

// Message returns the message in a field, without fields where it is not there.
func (f Fields) Message(field protowire.Number) (Fields, error) {
	list := f.data[field]
	if len(list) == 0 {
		return Fields{}, nil
	}
	return Decode(list[len(list)-1])
}

// Messages returns a list of encoded messages.
func (f Fields) Messages(field protowire.Number) [][]byte { return f.data[field] }

// Map returns a map of strings.
func (f Fields) Map(field protowire.Number) (map[string]string, error) {
	out := map[string]string{}
	for _, b := range f.data[field] {
		entry, err := Decode(b)
		if err != nil {
			return nil, err
		}
		out[entry.Text(1)] = entry.Text(2)
	}
	return out, nil
}
