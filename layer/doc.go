// Package layer makes and unpacks rootfs layers: a tar of files, its compressed
// blob and its directory.
//
// [Write] takes a tar once and compresses, hashes and unpacks it in that one
// pass. [Read] unpacks a blob from anywhere. A tar is not trusted: every name
// goes through os.Root, so that no path and no link leaves the directory.
//
// Deletions are files named ".wh.NAME", which hide NAME in the layers below, and
// ".wh..wh..opq", which hides all that the layers below have in its directory;
// OCI image specification, layer.md. Unpacked they stay such files: package
// rootfs reads them, and translates them for overlayfs.
//
// Attributes that belong to the machine, not to the file, are dropped: see
// [KeepsAttribute].
package layer
