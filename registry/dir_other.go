//go:build !linux

package registry

import "os"

func (d *dir) file(path string) (*os.File, error) { return d.walkOpen(path) }

func (d *dir) stat(path string) (fileInfo, error) { return d.walkStat(path) }
