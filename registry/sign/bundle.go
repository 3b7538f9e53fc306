package sign

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
)

// The signatures that cosign makes since version 3: a bundle (sigstore's
// protobuf-specs, sigstore_bundle.proto, as JSON) with a DSSE envelope around an
// in-toto statement. Bundles with a certificate or a log entry only are of keyless
// signing, which is not read.
const (
	bundlePrefix  = "application/vnd.dev.sigstore.bundle."
	statementType = "application/vnd.in-toto+json"
	// signPredicate tells a signature from the attestations that the same key signs.
	signPredicate = "https://sigstore.dev/cosign/sign/v1"
	paePrefix     = "DSSEv1 "
)

// IsBundle reports whether a media or artifact type is that of a sigstore bundle, of
// any version.
func IsBundle(mediaType string) bool { return strings.HasPrefix(mediaType, bundlePrefix) }

// ParseBundle returns the signatures in a sigstore bundle, whose Payload is the
// signed encoding of the statement. A bundle without a DSSE envelope has none.
func ParseBundle(b []byte) ([]Signature, error) {
	var bundle struct {
		Envelope *struct {
			Payload    []byte `json:"payload"`
			Type       string `json:"payloadType"`
			Signatures []struct {
				Sig []byte `json:"sig"`
			} `json:"signatures"`
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(b, &bundle); err != nil {
		return nil, fmt.Errorf("sigstore bundle: %w", err)
	}
	e := bundle.Envelope
	if e == nil {
		return nil, nil
	}
	var out []Signature
	for _, s := range e.Signatures {
		out = append(out, Signature{Payload: preAuthEncoding(e.Type, e.Payload), Signature: base64.StdEncoding.EncodeToString(s.Sig)})
	}
	return out, nil
}

// preAuthEncoding is PAE of DSSE's protocol.md: the bytes that are signed.
func preAuthEncoding(kind string, payload []byte) []byte {
	return fmt.Appendf(nil, paePrefix+"%d %s %d %s", len(kind), kind, len(payload), payload)
}

// statementOf returns the payload in b, a pre-authentication encoding of an in-toto
// statement.
func statementOf(b []byte) ([]byte, error) {
	rest := strings.TrimPrefix(string(b), paePrefix)
	next := func() (string, error) {
		length, tail, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(tail) {
			return "", errors.New("it is cut")
		}
		out := tail[:n]
		rest = strings.TrimPrefix(tail[n:], " ")
		return out, nil
	}
	kind, err := next()
	if err != nil {
		return nil, err
	}
	if kind != statementType {
		return nil, fmt.Errorf("it is of type %.100q", kind)
	}
	payload, err := next()
	if err == nil && rest != "" {
		err = errors.New("bytes stand behind it")
	}
	return []byte(payload), err
}

// checkStatement returns an error unless b is the encoding of a signature's
// statement about d.
func checkStatement(b []byte, d digest.Digest) error {
	payload, err := statementOf(b)
	if err != nil {
		return fmt.Errorf("%w: statement: %w", ErrSignature, err)
	}
	var statement struct {
		Predicate string `json:"predicateType"`
		Subject   []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(payload, &statement); err != nil {
		return fmt.Errorf("%w: statement: %w", ErrSignature, err)
	}
	if statement.Predicate != signPredicate {
		return fmt.Errorf("%w: it is an attestation of type %.100q", ErrSignature, statement.Predicate)
	}
	for _, s := range statement.Subject {
		if s.Digest[d.Algorithm().String()] == d.Encoded() {
			return nil
		}
	}
	return fmt.Errorf("%w: its statement is not of %s", ErrSignature, d)
}
