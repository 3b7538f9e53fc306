package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The kinds of a frame.
const (
	kindMessage     = 0
	kindInput       = 1 // data to the callee
	kindOutput      = 2 // data to the caller
	kindGrantInput  = 3 // the callee has read input
	kindGrantOutput = 4 // the caller has read output
	kinds           = 5
)

// maxPayload bounds the payload of each kind.
func maxPayload(kind byte) uint32 {
	switch kind {
	case kindMessage:
		return MaxMessage
	case kindInput, kindOutput:
		return 8 + MaxData
	}
	return 8 + 4
}

// A frame is a frame that was read. Of id, data, count and message, only the
// fields of its kind are set.
type frame struct {
	kind    byte
	id      uint64
	data    []byte
	count   uint32
	message Message
}

// readFrame reads one frame. io.EOF says that the stream ended between two.
func readFrame(r io.Reader) (frame, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	length, kind := binary.BigEndian.Uint32(head[:]), head[4]
	if kind >= kinds {
		return frame{}, fmt.Errorf("frame of kind %d", kind)
	}
	if length == 0 || length-1 > maxPayload(kind) {
		return frame{}, fmt.Errorf("frame of kind %d with %d bytes", kind, length)
	}
	payload, err := readPayload(r, int(length-1))
	if err != nil {
		return frame{}, fmt.Errorf("frame cut after %d of %d bytes: %w", len(payload), length-1, unexpected(err))
	}
	return parseFrame(kind, payload)
}

// readPayload reads n bytes. A peer that announces much and sends little costs
// little memory.
func readPayload(r io.Reader, n int) ([]byte, error) {
	if n <= 2*MaxData {
		b := make([]byte, n)
		got, err := io.ReadFull(r, b)
		return b[:got], err
	}
	var b bytes.Buffer
	_, err := io.CopyN(&b, r, int64(n))
	return b.Bytes(), err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func parseFrame(kind byte, payload []byte) (frame, error) {
	f := frame{kind: kind}
	if kind == kindMessage {
		if err := json.Unmarshal(payload, &f.message); err != nil {
			return frame{}, fmt.Errorf("message: %w", err)
		}
		return f, nil
	}
	if len(payload) < 8 {
		return frame{}, fmt.Errorf("frame of kind %d with %d bytes", kind, len(payload))
	}
	f.id, f.data = binary.BigEndian.Uint64(payload), payload[8:]
	if kind == kindGrantInput || kind == kindGrantOutput {
		if len(f.data) != 4 {
			return frame{}, fmt.Errorf("grant with %d bytes", len(payload))
		}
		f.count, f.data = binary.BigEndian.Uint32(f.data), nil
	}
	return f, nil
}

// messageFrame encodes m as a frame.
func messageFrame(m Message) ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", m.Type, m.Op, err)
	}
	if len(b) > MaxMessage {
		return nil, fmt.Errorf("encode %s %s: %d bytes, at most %d go into a message", m.Type, m.Op, len(b), MaxMessage)
	}
	return append(header(kindMessage, len(b)), b...), nil
}

// dataFrame encodes data of a stream; none is its end.
func dataFrame(kind byte, id uint64, data []byte) []byte {
	b := binary.BigEndian.AppendUint64(header(kind, 8+len(data)), id)
	return append(b, data...)
}

// grantFrame encodes that count further bytes may be sent.
func grantFrame(kind byte, id uint64, count int) []byte {
	b := binary.BigEndian.AppendUint64(header(kind, 8+4), id)
	return binary.BigEndian.AppendUint32(b, uint32(count))
}

// header begins a frame, with room for its payload.
func header(kind byte, payload int) []byte {
	b := make([]byte, 0, 5+payload)
	return append(binary.BigEndian.AppendUint32(b, uint32(1+payload)), kind)
}

// maxJunk bounds the bytes that are read in search of Magic.
const maxJunk = 4 << 10

// readMagic reads the line that begins a stream. The error of another beginning
// quotes it: most often a shell has printed it.
func readMagic(r *bufio.Reader) error {
	var got []byte
	for string(got) != Magic {
		b, err := r.ReadByte()
		if err != nil {
			return notMagic(got, err)
		}
		if got = append(got, b); !strings.HasPrefix(Magic, string(got)) {
			rest, err := r.Peek(min(r.Buffered(), maxJunk))
			return notMagic(append(got, rest...), err)
		}
	}
	return nil
}

func notMagic(got []byte, err error) error {
	if len(got) == 0 {
		return fmt.Errorf("the node's program said nothing: %w", unexpected(err))
	}
	words := strings.Join(strings.Fields(strings.ToValidUTF8(string(got), "?")), " ")
	if len(words) > 200 {
		words = words[:200]
	}
	return fmt.Errorf("the session began with %q: nothing may print before it; look at the start files of the user's shell there (.bashrc)", words)
}
