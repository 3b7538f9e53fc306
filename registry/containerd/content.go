package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/grpc"
)

const (
	content = "content.v1.Content/"
	// chunk is the size of one message of content, in bytes.
	chunk = 1 << 20
	// lockedFor is the longest that Put waits for another writer of the same blob
	// that makes no progress.
	lockedFor = 30 * time.Second
)

// ErrDigest is wrapped by Put's error about content that has another digest than
// its descriptor.
var ErrDigest = errors.New("the content has another digest")

// Labels returns the labels of a blob; ok says whether containerd has it, whole.
func (c *Client) Labels(ctx context.Context, d digest.Digest) (labels map[string]string, ok bool, err error) {
	b, err := c.call(ctx, content+"Info", grpc.Message(nil).Text(1, d.String()))
	if grpc.HasCode(err, grpc.NotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("content %s: %w", d, err)
	}
	f, err := decode(b)
	if err != nil {
		return nil, false, err
	}
	if f, err = f.Message(1); err == nil {
		labels, err = f.Map(5)
	}
	if err != nil {
		return nil, false, fmt.Errorf("content %s: answer of containerd: %w", d, err)
	}
	return labels, true, nil
}

// AddLabels gives a blob more labels.
func (c *Client) AddLabels(ctx context.Context, d digest.Digest, labels map[string]string) error {
	var paths []string
	for k := range labels {
		paths = append(paths, "labels."+k)
	}
	info := grpc.Message(nil).Text(1, d.String()).Map(5, labels)
	if _, err := c.call(ctx, content+"Update", grpc.Message(nil).Bytes(1, info).Bytes(2, mask(paths...))); err != nil {
		return fmt.Errorf("labels of content %s: %w", d, err)
	}
	return nil
}

// Put writes the blob desc with labels, and returns the number of bytes sent. A
// blob that an earlier run left half written is gone on with. Where containerd has
// it by then, nothing is sent. The error wraps ErrDigest when src is other content.
func (c *Client) Put(ctx context.Context, desc ocispec.Descriptor, labels map[string]string, src io.ReadSeeker) (sent int64, err error) {
	deadline := time.Now().Add(lockedFor)
	for again := false; ; {
		n, resumed, err := c.put(ctx, desc, labels, src)
		sent += n
		switch {
		case err == nil, grpc.HasCode(err, grpc.AlreadyExists):
			return sent, nil
		case grpc.HasCode(err, grpc.Unavailable) && n == 0 && time.Now().Before(deadline):
			// Another client writes it, or one that died is not gone yet.
			select {
			case <-ctx.Done():
				return sent, context.Cause(ctx)
			case <-time.After(200 * time.Millisecond):
			}
			continue
		case grpc.HasCode(err, grpc.FailedPrecondition):
			// The bytes that were there before may be wrong: once more without them.
			_ = c.abort(ctx, desc) // the next try says the reason
			if resumed && !again {
				again = true
				continue
			}
			err = fmt.Errorf("%w: %w", ErrDigest, err)
		}
		return sent, fmt.Errorf("put %s: %w", desc.Digest, err)
	}
}

// uploadRef names the half-written blob in containerd.
func uploadRef(d ocispec.Descriptor) string { return "sealer-" + d.Digest.String() }

func (c *Client) abort(ctx context.Context, d ocispec.Descriptor) error {
	_, err := c.call(ctx, content+"Abort", grpc.Message(nil).Text(1, uploadRef(d)))
	return err
}

// The actions of content.v1.WriteAction.
const (
	actionStat   = 0
	actionWrite  = 1
	actionCommit = 2
)

// put tries once. resumed says that containerd had a part already.
func (c *Client) put(ctx context.Context, desc ocispec.Descriptor, labels map[string]string, src io.ReadSeeker) (sent int64, resumed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	defer w.Close()
	head := func(action int64) grpc.Message {
		return grpc.Message(nil).Int(1, action).Text(2, uploadRef(desc)).Int(3, desc.Size).Text(4, desc.Digest.String())
	}
	go func() { _, _ = w.Write(grpc.Frame(head(actionStat))) }() // a call that failed closes the pipe, and is the error
	s, err := c.stream(ctx, content+"Write", r)
	if err != nil {
		return 0, false, err
	}
	defer s.Close()
	offset, err := s.offset()
	if err != nil {
		return 0, false, err
	}
	resumed = offset > 0
	if offset > desc.Size {
		return 0, resumed, &grpc.StatusError{Code: grpc.FailedPrecondition, Message: fmt.Sprintf("containerd has %d bytes of %d", offset, desc.Size)}
	}
	if _, err := src.Seek(offset, io.SeekStart); err != nil {
		return 0, resumed, err
	}
	buffer := make([]byte, min(chunk, desc.Size-offset))
	for offset < desc.Size {
		n, err := io.ReadFull(src, buffer[:min(int64(len(buffer)), desc.Size-offset)])
		if err != nil {
			return sent, resumed, fmt.Errorf("read %d of %d bytes: %w", offset+int64(n), desc.Size, err)
		}
		if err := s.exchange(w, head(actionWrite).Int(5, offset).Bytes(6, buffer[:n]), offset+int64(n)); err != nil {
			return sent, resumed, err
		}
		offset += int64(n)
		sent += int64(n)
	}
	return sent, resumed, s.exchange(w, head(actionCommit).Int(5, offset).Map(7, labels), offset)
}

// exchange sends a message and checks the offset that is answered.
func (a *answers) exchange(w io.Writer, m grpc.Message, want int64) error {
	if _, err := w.Write(grpc.Frame(m)); err != nil {
		if _, answer := a.receive(); answer != nil && !errors.Is(answer, io.EOF) {
			return answer // the reason why nobody reads any more
		}
		return err
	}
	got, err := a.offset()
	if err == nil && got != want {
		err = fmt.Errorf("containerd has %d bytes after %d", got, want)
	}
	return err
}

// offset receives a WriteContentResponse.
func (a *answers) offset() (int64, error) {
	b, err := a.receive()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, err
	}
	f, err := decode(b)
	return f.Int(4), err
}
