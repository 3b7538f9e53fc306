// Package archive is a saved image as files: one, or numbered parts with a file of
// their checksums, compressed or not, encrypted or not.
//
// [Create] and [Stream] write, [Read] reads whichever it is given: a file, parts, the
// directory with the parts, a directory that is an OCI image layout, a pipe. The
// order of the forms is tar, zstd, age, parts. Package store defines the content of the tar.
package archive
