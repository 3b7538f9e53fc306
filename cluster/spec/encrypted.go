package spec

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
)

// publicKey is the key of "encrypted: true": it stands in the source of sealer
// 0.9 (utils/hash/aes.go), so it keeps nothing secret. The form is AES-256 in
// CBC mode with the key's first 16 bytes as initialisation vector, padded by
// PKCS #7, in base64.
const publicKey = "ZU9WbzRMVXRQZ2pzTGowR2hNWUpIZjRkWld4aWVRWko="

var errEncrypted = errors.New("the password of encrypted: true cannot be read: write ${env:NAME} or ${file:PATH} in the Clusterfile, or pass --passwd")

// decrypt undoes encrypted: true.
func decrypt(text string) (string, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) == 0 || len(data)%aes.BlockSize != 0 {
		return "", errEncrypted
	}
	key, err := base64.StdEncoding.DecodeString(publicKey)
	if err != nil {
		return "", errEncrypted
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", errEncrypted
	}
	cipher.NewCBCDecrypter(block, key[:aes.BlockSize]).CryptBlocks(data, data)
	padding := int(data[len(data)-1])
	if padding == 0 || padding > aes.BlockSize {
		return "", errEncrypted
	}
	return string(data[:len(data)-padding]), nil
}
