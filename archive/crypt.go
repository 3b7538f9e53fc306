package archive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// ErrEncrypted is wrapped by the error about an encrypted archive for which no key
// was given, or the wrong one.
var ErrEncrypted = errors.New("it is encrypted with age")

// ageIntro begins an age file; age-encryption.org/v1, "Header".
const ageIntro = "age-encryption.org/v1\n"

// encrypt returns a writer of an age file to w for recipients.
func encrypt(w io.Writer, recipients []string) (io.WriteCloser, error) {
	var all []age.Recipient
	for _, r := range recipients {
		list, err := parseRecipients(r)
		if err != nil {
			return nil, fmt.Errorf("recipient %s: %w", r, err)
		}
		all = append(all, list...)
	}
	return age.Encrypt(w, all...)
}

// parseRecipients reads a public key, or a file of them.
func parseRecipients(r string) ([]age.Recipient, error) {
	if strings.HasPrefix(r, "age1") {
		return age.ParseRecipients(strings.NewReader(r))
	}
	if strings.HasPrefix(strings.ToUpper(r), "AGE-SECRET-KEY-") {
		return nil, errors.New("that is a secret key, and now others may have seen it: want the public key, age1…")
	}
	f, err := os.Open(r)
	if err != nil {
		return nil, fmt.Errorf("neither a public key, age1…, nor a file of them: %w", err)
	}
	defer f.Close()
	return age.ParseRecipients(f)
}

// identities reads the secret keys of files. No error shows a line of them.
func identities(files []string) ([]age.Identity, error) {
	var all []age.Identity
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read secret key: %w", err)
		}
		if bytes.HasPrefix(b, []byte(ageIntro)) || bytes.HasPrefix(b, []byte(armor.Header)) {
			return nil, fmt.Errorf("read secret key %s: it is encrypted itself: decrypt it first, with age --decrypt", name)
		}
		list, err := age.ParseIdentities(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("read secret key %s: it has no age secret key (AGE-SECRET-KEY-1…), or something else too", name)
		}
		all = append(all, list...)
	}
	return all, nil
}

// decrypt returns the content of r, decrypted with the keys in files where r is
// an age file. Keys for a file that is not encrypted are an error: somebody may
// have replaced the encrypted file.
func decrypt(r io.Reader, files []string) (io.Reader, error) {
	b := bufio.NewReaderSize(r, 128<<10)
	head, err := b.Peek(max(len(ageIntro), len(armor.Header)))
	if err != nil && err != io.EOF {
		return nil, err
	}
	armored := bytes.HasPrefix(head, []byte(armor.Header))
	if !armored && !bytes.HasPrefix(head, []byte(ageIntro)) {
		if len(files) > 0 {
			return nil, errors.New("a key was given, and it is not encrypted with age")
		}
		return b, nil
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: a key is needed", ErrEncrypted)
	}
	keys, err := identities(files)
	if err != nil {
		return nil, err
	}
	var in io.Reader = b
	if armored {
		in = armor.NewReader(b)
	}
	plain, err := age.Decrypt(in, keys...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, fmt.Errorf("%w, and not for the key of %s", ErrEncrypted, strings.Join(files, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return plain, nil
}
