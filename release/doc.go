// Release makes the files that are published for a version of sealer: a static
// program for each platform in an archive of its own, with the licences of the
// modules that are linked into it, .deb and .rpm packages, an inventory of the
// software in SPDX, and checksums with a signature.
//
//	go run . -out ../dist -key release.key
//
// Two runs over one commit write the same bytes, whatever the path, the user and
// the time: the time in all files is that of the commit. It is a module of its
// own, so that the program does not depend on the library that writes packages.
package main
