// Package fake is imported by Helm's own tests, whose modules "go mod tidy" looks
// up. It holds nothing.
package fake
