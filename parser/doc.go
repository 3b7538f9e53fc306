// Package parser makes a kubefile.File out of text, and expands its variables.
//
// Lines, comments, continuations, parser directives and heredocs are read by
// BuildKit's Dockerfile parser, variables by its shell lexer, so that a Kubefile
// reads as a Dockerfile does. BuildKit's parser knows only Dockerfile's words,
// drops the arguments of others and stops at its first error. Therefore this
// package takes the arguments of every word from the line that BuildKit
// assembled.
package parser
