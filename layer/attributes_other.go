//go:build !linux

package layer

import "os"

// Attributes returns nil: layers keep extended attributes on Linux alone.
func Attributes(*os.File) (map[string]string, error) { return nil, nil }

func setAttributes(*os.File, map[string]string) error { return nil }
