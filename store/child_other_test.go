//go:build !linux

package store_test

import (
	"context"
	"errors"
)

// These tests mount, which only Linux lets them.
func childFull(context.Context, string) error     { return errors.ErrUnsupported }
func childOverlay(context.Context, string) error  { return errors.ErrUnsupported }
func childMount(context.Context, string) error    { return errors.ErrUnsupported }
func childReadOnly(context.Context, string) error { return errors.ErrUnsupported }
