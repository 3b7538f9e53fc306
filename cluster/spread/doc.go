// Package spread lets the machines of a run bring blobs to each other.
//
// A machine that has a blob serves it over TLS, to whoever knows the token of its
// Offer; the engine hands offers to the machines that lack the blob (Fetch). The
// Tracker decides who gets which blob from whom: the engine sends each blob to
// few machines, and every machine that has it whole serves it in turn, so that
// the number of holders doubles. A machine that others cannot reach, such as one
// behind a firewall, costs a failed connection; then the engine sends.
//
// Nothing here checks a blob: the store that takes it compares its digest.
package spread
