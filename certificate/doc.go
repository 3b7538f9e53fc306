// Package certificate makes sealer's own certificate authorities and the
// certificates that they sign: of registries, and of machines that bring blobs to
// each other. Keys are ECDSA on P-256 (FIPS 186-5), which every TLS client of
// today takes. Where keys are kept, and for how long, is the callers' matter.
package certificate
