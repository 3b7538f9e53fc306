package containerd

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A message is an encoded message of protocol buffers. Fields of the zero value are
// left out, as proto3 does.
type message []byte

func (m message) string(field protowire.Number, s string) message {
	if s == "" {
		return m
	}
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
}

func (m message) bytes(field protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

func (m message) int(field protowire.Number, n int64) message {
	if n == 0 {
		return m
	}
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(n))
}

// strings appends a map of strings: a list of messages of a key and a value.
func (m message) strings(field protowire.Number, values map[string]string) message {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		m = m.bytes(field, message(nil).string(1, k).string(2, values[k]))
	}
	return m
}

// mask appends a google.protobuf.FieldMask.
func (m message) mask(field protowire.Number, paths ...string) message {
	var mask message
	for _, p := range paths {
		mask = mask.string(1, p)
	}
	return m.bytes(field, mask)
}

// fields are those of a decoded message: numbers, and the bytes of strings and
// messages, each in order.
type fields struct {
	numbers map[protowire.Number]uint64
	data    map[protowire.Number][][]byte
}

// decode reads the fields of a message; other types of fields are skipped.
func decode(b []byte) (fields, error) {
	f := fields{map[protowire.Number]uint64{}, map[protowire.Number][][]byte{}}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return f, fmt.Errorf("answer of containerd: %w", protowire.ParseError(n))
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
			return f, fmt.Errorf("answer of containerd: field %d: %w", field, protowire.ParseError(n))
		}
		b = b[n:]
	}
	return f, nil
}

// text returns the last value of a string.
func (f fields) text(field protowire.Number) string {
	if list := f.data[field]; len(list) > 0 {
		return string(list[len(list)-1])
	}
	return ""
}

// message returns the message in a field, without fields where it is not there.
func (f fields) message(field protowire.Number) (fields, error) {
	list := f.data[field]
	if len(list) == 0 {
		return fields{}, nil
	}
	return decode(list[len(list)-1])
}

// strings returns a map of strings.
func (f fields) strings(field protowire.Number) (map[string]string, error) {
	out := map[string]string{}
	for _, b := range f.data[field] {
		entry, err := decode(b)
		if err != nil {
			return nil, err
		}
		out[entry.text(1)] = entry.text(2)
	}
	return out, nil
}
