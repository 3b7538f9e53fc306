package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Systemd are the units of a machine whose process 1 is systemd. The zero value
// is ready.
type Systemd struct{}

// HasSystemd says whether systemd runs this machine.
func HasSystemd() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

func (Systemd) systemctl(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "systemctl", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		text := strings.Join(strings.Split(strings.TrimSpace(errs.String()), "\n"), " | ")
		return out.String(), fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, text)
	}
	return out.String(), nil
}

// Install implements Units.
func (s Systemd) Install(ctx context.Context, _ string) error {
	_, err := s.systemctl(ctx, "daemon-reload")
	return err
}

// Start implements Units.
func (s Systemd) Start(ctx context.Context, unit string, restart bool) error {
	if _, err := s.systemctl(ctx, "enable", "--quiet", unit); err != nil {
		return err
	}
	verb := "start"
	if restart {
		verb = "restart"
	}
	_, err := s.systemctl(ctx, verb, unit)
	return err
}

// Stop implements Units.
func (s Systemd) Stop(ctx context.Context, unit string) error {
	if out, _ := s.systemctl(ctx, "show", "--property=LoadState", "--value", unit); strings.TrimSpace(out) == "not-found" {
		return nil
	}
	if _, err := s.systemctl(ctx, "disable", "--now", "--quiet", unit); err != nil {
		return err
	}
	_, _ = s.systemctl(ctx, "reset-failed", unit) // fails for a unit that did not fail
	return nil
}

// State implements Units. A unit that systemd does not know is neither active
// nor enabled.
func (s Systemd) State(ctx context.Context, unit string) (UnitState, error) {
	out, err := s.systemctl(ctx, "show", "--property=ActiveState,UnitFileState", unit)
	if err != nil {
		return UnitState{}, err
	}
	return UnitState{
		Active:  strings.Contains(out, "ActiveState=active") || strings.Contains(out, "ActiveState=activating"),
		Enabled: strings.Contains(out, "UnitFileState=enabled"),
	}, nil
}

// Tail implements Units.
func (Systemd) Tail(ctx context.Context, unit string, n int) (string, error) {
	out, err := exec.CommandContext(ctx, "journalctl", "--no-pager", "--quiet", "--output=cat", "--lines="+strconv.Itoa(n), "--unit="+unit).Output()
	return string(out), err
}
