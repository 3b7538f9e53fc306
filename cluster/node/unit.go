package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
)

// readyWithin bounds the wait for a service.
const readyWithin = 60 * time.Second

// UnitDir is where the files of units lie.
const UnitDir = "/etc/systemd/system"

type unitKind struct{}

// content is the unit's file as it is to be.
func (w *Work) unitContent(a plan.UnitArgs) ([]byte, error) {
	if a.From == "" {
		root := strings.TrimSuffix(w.Root, "/")
		r := strings.NewReplacer(plan.Sealer, strings.TrimPrefix(w.sealer(), root), plan.Root, root)
		return []byte(r.Replace(a.Content)), nil
	}
	return os.ReadFile(w.rootfs(a.Generation, a.From))
}

func (unitKind) Check(ctx context.Context, w *Work, args json.RawMessage) (bool, error) {
	var a plan.UnitArgs
	if err := decode(args, &a); err != nil {
		return false, err
	}
	if !w.Journal.Records().Done(w.Step.ID) { // it may run with an older configuration
		return false, nil
	}
	if a.Content != "" || a.From != "" {
		want, err := w.unitContent(a)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if same, err := w.hasFile(path.Join(UnitDir, a.Name), want, 0o644); err != nil || !same {
			return false, err
		}
	}
	st, err := w.Units.State(ctx, a.Name)
	if err != nil {
		return false, err
	}
	return (st.Active || a.Idle) && st.Enabled, nil
}

func (unitKind) Do(ctx context.Context, w *Work, args json.RawMessage) error {
	var a plan.UnitArgs
	if err := decode(args, &a); err != nil {
		return err
	}
	if a.Content != "" || a.From != "" {
		b, err := w.unitContent(a)
		if err != nil {
			return fmt.Errorf("unit %s: %w", a.Name, err)
		}
		if err := w.WriteFile(path.Join(UnitDir, a.Name), b, 0o644, false); err != nil {
			return err
		}
	}
	for name, from := range a.DropIns {
		to := path.Join(UnitDir, a.Name+".d", name)
		if err := w.CopyFile(to, w.rootfs(a.Generation, from), 0o644, false); err != nil {
			return err
		}
	}
	if err := w.Units.Install(ctx, a.Name); err != nil {
		return err
	}
	if err := w.noteUnit(ctx, a.Name); err != nil { // after its file: it is undone before that goes
		return err
	}
	if err := w.Units.Start(ctx, a.Name, true); err != nil {
		return w.withTail(ctx, a.Name, err)
	}
	if a.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("it does not answer within %v", readyWithin))
	defer cancel()
	if err := w.await(ctx, *a.Ready); err != nil {
		return w.withTail(context.WithoutCancel(ctx), a.Name, fmt.Errorf("unit %s: %w", a.Name, err))
	}
	return nil
}

// noteUnit records how the unit was before sealer started it.
func (w *Work) noteUnit(ctx context.Context, name string) error {
	if _, known := w.ours(journal.Unit, name); known {
		return nil
	}
	st, err := w.Units.State(ctx, name)
	if err != nil {
		return err
	}
	c := journal.Change{What: journal.Unit, Name: name}
	if st.Active || st.Enabled {
		c.Was = &journal.State{Value: unitWord(st)}
	}
	return w.change(c)
}

// unitWord is a state in the journal's words.
func unitWord(st UnitState) string {
	var words []string
	if st.Active {
		words = append(words, "active")
	}
	if st.Enabled {
		words = append(words, "enabled")
	}
	return strings.Join(words, " ")
}

// withTail adds the last lines of a unit to an error about it.
func (w *Work) withTail(ctx context.Context, unit string, err error) error {
	tail, terr := w.Units.Tail(ctx, unit, maxTail)
	if terr != nil || strings.TrimSpace(tail) == "" {
		return err
	}
	lines := slices.Compact(strings.Split(strings.TrimSpace(tail), "\n")) // one that starts again and again says one thing
	return fmt.Errorf("%w: its last lines: %s", err, strings.Join(lines, " | "))
}

// await waits until r holds or ctx ends.
func (w *Work) await(ctx context.Context, r plan.Ready) error {
	for {
		err := w.probe(ctx, r)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (w *Work) probe(ctx context.Context, r plan.Ready) error {
	if r.Socket != "" {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", w.Path(r.Socket))
		if err != nil {
			return err
		}
		return c.Close()
	}
	pool := x509.NewCertPool()
	if r.CA != "" {
		b, err := os.ReadFile(w.Path(r.CA))
		if err != nil {
			return err
		}
		pool.AppendCertsFromPEM(b)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", r.URL, resp.Status)
	}
	return nil
}
