//go:build !linux

package rootfs

import "errors"

func makeWhiteout(string) error { return errors.ErrUnsupported }

func setOpaque(string, bool) error { return errors.ErrUnsupported }

func copyAttributes(_, _ string) error { return errors.ErrUnsupported }
