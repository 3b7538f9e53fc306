// Package kubefile is the language of the build file: the instructions with
// their positions, what makes a file of them valid, where COPY puts a source,
// and how a file is printed.
//
// Package parser makes a File out of text. Until parser.Expand has run, the
// words of an instruction are raw: quotes, escapes and variables stand in them
// as written. After it they are plain values. COPY's placement rule, which
// differs from Dockerfile's, is Copy.Target.
package kubefile
