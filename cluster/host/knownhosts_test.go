package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/host/hosttest"
)

func TestUnknownKeysAreAskedForOnce(t *testing.T) {
	t.Parallel()
	var targets []host.Target
	var prints []string
	for i := range 5 {
		m := (&hosttest.Machine{Name: fmt.Sprint("n", i), Password: secret}).Start(t)
		targets, prints = append(targets, m.Target()), append(prints, m.Fingerprint())
	}
	home, asked := t.TempDir(), [][]string{}
	ask := func(_ context.Context, keys []host.UnknownKey) error {
		var got []string
		for _, k := range keys {
			got = append(got, k.Fingerprint)
		}
		asked = append(asked, got)
		return nil
	}
	for range 2 { // the second time they are known
		hosts, errs := dialer(t, host.Options{Home: home, Ask: ask}).ConnectAll(t.Context(), targets)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for _, h := range hosts {
			h.Close()
		}
	}
	if diff := cmp.Diff([][]string{prints}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestUnknownKeyIsRefused(t *testing.T) {
	t.Parallel()
	m := (&hosttest.Machine{Name: "n1", Password: secret}).Start(t)
	no := errors.New("not these")
	for name, tt := range map[string]struct {
		ask  func(context.Context, []host.UnknownKey) error
		want string
	}{
		"nobody to ask": {nil, "is not known: ssh-ed25519 " + m.Fingerprint()},
		"refused":       {func(context.Context, []host.UnknownKey) error { return no }, "not these"},
	} {
		_, errs := dialer(t, host.Options{Ask: tt.ask}).ConnectAll(t.Context(), []host.Target{m.Target()})
		var unknown *host.UnknownKeyError
		if !errors.As(errs[0], &unknown) || !strings.Contains(errs[0].Error(), tt.want) {
			t.Errorf("%s: %v", name, errs[0])
		}
	}
}

func TestChangedKeyIsRefused(t *testing.T) {
	t.Parallel()
	m := (&hosttest.Machine{Name: "n1", Password: secret}).Start(t)
	home := t.TempDir()
	connect(t, dialer(t, host.Options{Home: home, AcceptNew: true}), m.Target())
	if err := m.Rekey(); err != nil {
		t.Fatal(err)
	}
	ask := func(context.Context, []host.UnknownKey) error { t.Error("asked for a changed key"); return nil }
	_, errs := dialer(t, host.Options{Home: home, AcceptNew: true, Ask: ask}).ConnectAll(t.Context(), []host.Target{m.Target()})
	var changed *host.ChangedKeyError
	if !errors.As(errs[0], &changed) || changed.Line != 1 || changed.Fingerprint != m.Fingerprint() {
		t.Fatal(errs[0])
	}
	remedy := fmt.Sprintf("ssh-keygen -f %s/.ssh/known_hosts -R '[127.0.0.1]:%d'", home, m.Target().Port)
	if !strings.Contains(errs[0].Error(), remedy) {
		t.Errorf("%v, want %s", errs[0], remedy)
	}
}
