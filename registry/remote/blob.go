package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
)

// bufferSize is the buffer for copying a blob. Go's usual 4 KiB doubles the CPU
// of a copy.
const bufferSize = 128 << 10

// progress is the number of bytes after which an attempt counts as progress, so
// that its failure starts the count of attempts anew. A large blob over a bad
// line may break off more often than that count.
const progress = 1 << 20

// Blob writes the blob desc of r's repository to w: exactly desc.Size bytes, or
// it fails. A transfer that breaks off is resumed at the same byte, and where w is
// a Resumer also one of an earlier run. The bytes are not hashed here: w verifies
// them in the pass that writes them.
func (c *Client) Blob(ctx context.Context, r ref.Reference, desc ocispec.Descriptor, w io.Writer) error {
	if err := checkDigest(desc.Digest); err != nil {
		return err
	}
	var done int64
	if resumer, ok := w.(Resumer); ok {
		var err error
		if done, err = resumer.Resume(); err != nil {
			return err
		}
	}
	err := c.read(ctx, r, func(c *Client, t target) error {
		return c.retry(ctx, func(int) (bool, error) {
			before := done
			err := c.blobOnce(ctx, t, desc, w, &done)
			return done-before >= progress, err
		})
	})
	var status *statusError
	if len(desc.URLs) > 0 && errors.As(err, &status) && status.status == http.StatusNotFound {
		return fmt.Errorf("a foreign layer, which its publisher keeps at %s only: %w", printable(desc.URLs[0], 100), err)
	}
	return err
}

// blobOnce writes the bytes after the first *done to w, and adds their number to
// *done.
func (c *Client) blobOnce(ctx context.Context, t target, desc ocispec.Descriptor, w io.Writer, done *int64) error {
	if *done == desc.Size && desc.Size > 0 {
		return nil
	}
	q := request{
		method: http.MethodGet,
		path:   "/v2/" + t.repository + "/blobs/" + desc.Digest.String(),
		scope:  pullScope(t.repository),
		header: http.Header{},
	}
	if *done > 0 {
		q.header.Set("Range", fmt.Sprintf("bytes=%d-", *done))
		q.ok = []int{http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable}
	}
	resp, err := c.once(ctx, t, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	op := describe(q.method, resp.Request.URL)
	if *done > 0 && !goesOn(resp, *done, desc.Size) {
		c.log.Info("the registry does not go on where the blob broke off; beginning anew", "digest", desc.Digest, "at", *done,
			"status", resp.StatusCode, "range", printable(resp.Header.Get("Content-Range"), 60))
		if resumer, ok := w.(Resumer); ok {
			if err := resumer.Restart(); err != nil {
				return sinkError{err}
			}
			*done = 0
		}
		if resp.StatusCode != http.StatusOK && *done == 0 {
			resp.Body.Close() // frees its slot
			return c.blobOnce(ctx, t, desc, w, done)
		}
	}
	skip, err := skipBytes(resp, *done, desc.Size)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if _, err := io.CopyN(io.Discard, resp.Body, skip); err != nil {
		return fmt.Errorf("%s: %w", op, truncated(err))
	}
	n, err := copyAll(w, resp.Body, desc.Size-*done)
	*done += n
	if err != nil {
		return fmt.Errorf("%s: after %d of %d bytes: %w", op, *done, desc.Size, err)
	}
	return nil
}

// goesOn reports whether resp is the rest of a blob of size bytes from offset on.
func goesOn(resp *http.Response, offset, size int64) bool {
	if resp.StatusCode != http.StatusPartialContent {
		return false
	}
	got := resp.Header.Get("Content-Range")
	return got == fmt.Sprintf("bytes %d-%d/%d", offset, size-1, size) || got == fmt.Sprintf("bytes %d-%d/*", offset, size-1)
}

// skipBytes returns the number of bytes of resp's body that come before offset.
// An answer with a wrong length is refused before a byte of it is written.
func skipBytes(resp *http.Response, offset, size int64) (int64, error) {
	rest, skip := size, offset
	if resp.StatusCode != http.StatusOK {
		if !goesOn(resp, offset, size) {
			return 0, permanentError{fmt.Errorf("asked for what follows byte %d, the answer has the range %q (%s)", offset, printable(resp.Header.Get("Content-Range"), 60), resp.Status)}
		}
		rest, skip = size-offset, 0
	}
	if resp.ContentLength >= 0 && resp.ContentLength != rest {
		return 0, fmt.Errorf("the registry has %d bytes where the descriptor says %d: %w", resp.ContentLength, rest, ErrDigest)
	}
	return skip, nil
}

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// copyAll copies exactly n bytes from r to w and checks that r ends there. It
// writes whole buffers: over TLS a read returns at most 16 KiB, and a write for
// each would cost a system call. It returns the number of bytes that w took.
func copyAll(w io.Writer, r io.Reader, n int64) (int64, error) {
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	var done int64
	for done < n {
		buf := (*p)[:min(int64(len(*p)), n-done)]
		m, readErr := io.ReadFull(r, buf)
		if m > 0 {
			k, err := w.Write(buf[:m])
			done += int64(k)
			if err != nil {
				return done, sinkError{err}
			}
		}
		if readErr != nil {
			return done, truncated(readErr)
		}
	}
	if m, _ := io.ReadFull(r, (*p)[:1]); m > 0 {
		return done, fmt.Errorf("the registry sends more than %d bytes: %w", n, ErrDigest)
	}
	return done, nil
}

func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTruncated
	}
	return err
}
