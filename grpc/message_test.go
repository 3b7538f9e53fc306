package grpc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/grpc"
)

// The bytes are those of the examples in protobuf.dev, "Encoding", and of proto3's
// rule that zero values are left out.
func TestMessage(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]grpc.Message{
		"\x08\x96\x01":         grpc.Message(nil).Int(1, 150),
		"\x12\x07testing":      grpc.Message(nil).Text(2, "testing"),
		"\x1a\x03\x08\x96\x01": grpc.Message(nil).Bytes(3, grpc.Message(nil).Int(1, 150)),
		"\x1a\x00":             grpc.Message(nil).Int(1, 0).Text(2, "").Bytes(3, nil),
		"\x22\x06\x0a\x01a\x12\x01b\x22\x03\x0a\x01c": grpc.Message(nil).Map(4, map[string]string{"c": "", "a": "b"}),
	} {
		if string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"k": "v", "l": ""}
	m := grpc.Message(nil).Int(1, 7).Int(1, -8).Text(2, "a").Text(2, "b").Map(3, labels).Bytes(4, grpc.Message(nil).Text(1, "inner"))
	m = append(m, "\x2d1234\x319876543\x00\x3b\x08\x01\x3c"...) // 32 bits, 64 bits, a group
	f, err := grpc.Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	if f.Int(1) != -8 || f.Int(2) != 0 || f.Text(2) != "b" || f.Text(1) != "" {
		t.Errorf("%d, %d, %q, %q", f.Int(1), f.Int(2), f.Text(2), f.Text(1))
	}
	if d := cmp.Diff([]string{"a", "b"}, f.Texts(2)); d != "" || f.Texts(9) != nil || len(f.Messages(3)) != 2 {
		t.Error(d, f.Texts(9), f.Messages(3))
	}
	got, err := f.Map(3)
	if d := cmp.Diff(labels, got); d != "" || err != nil {
		t.Error(d, err)
	}
	inner, err := f.Message(4)
	if inner.Text(1) != "inner" || err != nil {
		t.Error(inner, err)
	}
	none, err := f.Message(9)
	if none.Text(1) != "" || none.Int(1) != 0 || err != nil {
		t.Error(none, err)
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"\x80",     // a tag cut
		"\x02\x00", // field 0
		"\x08",     // no number
		"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", // a number of 65 bits
		"\x0a\x7fabc", // a string cut
		"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", // a length of 64 bits
		"\x0b",    // a group without an end
		"\x0c",    // an end without a group
		"\x0d123", // 32 bits cut
		"\x0f",    // no type
	} {
		if _, err := grpc.Decode([]byte(bad)); !errors.Is(err, grpc.ErrMessage) {
			t.Errorf("%q: %v", bad, err)
		}
		f, err := grpc.Decode(grpc.Message(nil).Bytes(1, []byte(bad)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Message(1); !errors.Is(err, grpc.ErrMessage) {
			t.Errorf("%q in a message: %v", bad, err)
		}
		if _, err := f.Map(1); !errors.Is(err, grpc.ErrMessage) {
			t.Errorf("%q in a map: %v", bad, err)
		}
	}
}

func TestManyFields(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	many := strings.Repeat("\x0a\x00", most)
	f, err := grpc.Decode([]byte(many))
	if err != nil || len(f.Messages(1)) != most {
		t.Errorf("%d fields, %v", len(f.Messages(1)), err)
	}
	if _, err := grpc.Decode([]byte(many + "\x0a\x00")); !errors.Is(err, grpc.ErrMessage) {
		t.Errorf("one more: %v", err)
	}
}

// What is decoded and written again is decoded as the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(grpc.Message(nil).Bytes(1, grpc.Message(nil).Text(1, "sha256:aaaa").Int(4, 5))))
	f.Add([]byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := grpc.Decode(b)
		if err != nil {
			return
		}
		inner, err := d.Message(1)
		values, mapErr := d.Map(1)
		if err != nil && mapErr == nil {
			t.Fatalf("a map of what is no message: %q", values)
		}
		m := grpc.Message(nil).Text(1, inner.Text(1)).Int(2, d.Int(2)).Map(3, values)
		again, err := grpc.Decode(m)
		if err != nil || again.Text(1) != inner.Text(1) || again.Int(2) != d.Int(2) {
			t.Fatalf("%q: %v", m, err)
		}
		got, err := again.Map(3)
		if d := cmp.Diff(values, got); len(values) > 0 && d != "" || err != nil {
			t.Fatal(d, err)
		}
	})
}
