package cli

import (
	"errors"
	"os"

	"github.com/spf13/pflag"

	"github.com/clusterimage/sealer/registry/sign"
)

// keyFlag is --verify-key: the file of a public key, "" for none.
type keyFlag struct{ file string }

func (k *keyFlag) flag(f *pflag.FlagSet, usage string) {
	f.StringVar(&k.file, "verify-key", "", usage+" only if the public key in this `KEYFILE` signed it, as sealer push --sign-by or cosign does")
}

// key reads the key; nil without the flag.
func (k *keyFlag) key() (*sign.Verifier, error) {
	if k.file == "" {
		return nil, nil
	}
	return sign.LoadVerifier(k.file)
}

// signer reads the private key of --sign-by; nil without it.
func signer(file string) (*sign.Signer, error) {
	if file == "" {
		return nil, nil
	}
	return sign.LoadSigner(file, keyPassword)
}

// keyPassword returns the password of a private key, from the variable that cosign
// reads.
func keyPassword() (string, error) {
	password, ok := os.LookupEnv("COSIGN_PASSWORD")
	if !ok {
		return "", errors.New("it is encrypted: give its password in COSIGN_PASSWORD")
	}
	return password, nil
}
