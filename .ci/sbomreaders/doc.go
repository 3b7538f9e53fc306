// Package readers reads the SBOMs that image/sbom writes with the
// libraries of SPDX and CycloneDX. It is a module of its own: the program needs
// neither.
package readers
