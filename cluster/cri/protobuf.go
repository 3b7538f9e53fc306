package cri

import (
	"encoding/binary"
	"errors"
)

// errMessage is the error of bytes that are no message.
var errMessage = errors.New("malformed protobuf message")

// fields calls each with every length-delimited field of a message, in order,
// and skips the others (protobuf.dev, "Encoding").
func fields(b []byte, each func(number uint64, data []byte) error) error {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return errMessage
		}
		b = b[n:]
		size := uint64(0)
		switch key & 7 {
		case 0: // varint
			if _, n = binary.Uvarint(b); n <= 0 {
				return errMessage
			}
			size = uint64(n)
		case 1:
			size = 8
		case 2: // length-delimited
			if size, n = binary.Uvarint(b); n <= 0 {
				return errMessage
			}
			b = b[n:]
		case 5:
			size = 4
		default: // groups, which no message of the interface has
			return errMessage
		}
		if size > uint64(len(b)) {
			return errMessage
		}
		if key&7 == 2 {
			if err := each(key>>3, b[:size]); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}

// imageOf decodes the message Image. The field numbers here and below stand in
// k8s.io/cri-api, pkg/apis/runtime/v1/api.proto.
func imageOf(b []byte) (Image, error) {
	var i Image
	err := fields(b, func(number uint64, data []byte) error {
		switch number {
		case 1:
			i.ID = string(data)
		case 2:
			i.Tags = append(i.Tags, string(data))
		case 3:
			i.Digests = append(i.Digests, string(data))
		}
		return nil
	})
	return i, err
}

func containerOf(b []byte) (Container, error) {
	var c Container
	err := fields(b, func(number uint64, data []byte) error {
		switch number {
		case 1:
			c.ID = string(data)
		case 5:
			c.Image = string(data)
		case 8:
			key, value, err := entry(data)
			c.label(key, value)
			return err
		}
		return nil
	})
	return c, err
}

// entry reads one entry of a map of strings.
func entry(b []byte) (key, value string, err error) {
	err = fields(b, func(number uint64, data []byte) error {
		switch number {
		case 1:
			key = string(data)
		case 2:
			value = string(data)
		}
		return nil
	})
	return key, value, err
}
