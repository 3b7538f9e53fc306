// Package kubefile is the language of the build file: the instructions with their
// positions, the rules of a valid file, the place of a COPY source in the rootfs,
// and printing.
//
// Package parser makes a File out of text. Until parser.Expand has run, the words
// of an instruction are raw: they contain quotes, escapes and variables as
// written. After Expand they are plain values. COPY's placement rule, which
// differs from Dockerfile's, is Copy.Target.
package kubefile
