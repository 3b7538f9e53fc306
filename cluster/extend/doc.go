// Package extend holds the work of plugins, which a cluster does beside its own
// steps: the phases at which plugins work, in the words of sealer 0.8 (PreInit)
// and of 0.9 (pre-init-host); the plugins of an image and of a Clusterfile; the
// built-in types translated into data for the steps of a plan; and programs
// that are plugins.
//
// Load finds the plugins, Plan says which work they do at which phase on which
// machine, and Runner runs the programs: JSON on stdin and on stdout, lines for
// the operator on stderr. Build makes such a program from the source of an old
// Go plugin.
package extend
