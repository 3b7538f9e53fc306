// Package render writes the values of a Clusterfile into the files of a rootfs:
// the environment's values into *.tmpl files, Config documents and the files of
// an Application into the paths that they name.
//
// All files are read and written through an os.Root, so that no path and no
// link of an image leaves the rootfs. The package knows no hosts and no
// network, and no reference of a secret: values come in resolved.
package render
