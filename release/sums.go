package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/clusterimage/sealer/registry/sign"
)

// sums writes SHA256SUMS over all files, in the format of sha256sum, and with a
// key SHA256SUMS.sig: an ECDSA signature over SHA-256, base64, which both
// "openssl dgst -sha256 -verify" (of the decoded bytes) and "cosign verify-blob"
// take.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(b), e.Name())
	}
	if err := os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), list.Bytes(), 0o644); err != nil {
		return err
	}
	if r.key == "" {
		fmt.Fprintln(os.Stderr, "release: SHA256SUMS is NOT SIGNED: name a key with -key, or RELEASE_KEY")
		return nil
	}
	signer, err := sign.LoadSigner(r.key, func() (string, error) { return os.Getenv("RELEASE_PASSWORD"), nil })
	if err != nil {
		return err
	}
	signature, err := signer.SignBlob(list.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS.sig"), []byte(signature+"\n"), 0o644)
}
