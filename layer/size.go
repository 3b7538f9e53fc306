package layer

import (
	"io/fs"
	"path/filepath"
)

// Size returns bounds of the bytes that the files of a layer's tar have, by the
// directory that it was unpacked to. They differ by the files that have several
// names: each name may have been a file of the tar, or a hard link.
func Size(dir string) (least, most int64, err error) {
	seen := map[fileID]bool{}
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		most += fi.Size()
		if id, several := linked(fi); several {
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		least += fi.Size()
		return nil
	})
	return least, most, err
}
