// Package chart brings Helm charts from registries and from chart repositories.
//
// A Source says where a chart is and which versions will do, in one line as a
// Kubefile has it. Versions are chosen as Helm chooses them. What an index or a
// registry says is not believed further than a digest goes: the archive must be
// what the index announces, or what the manifest names, and no name out of it
// becomes a path.
package chart
