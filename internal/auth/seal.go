package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// Seal encrypts text with a key derived from the secret, which must have 256 random bits. Unseal needs the same label.
func Seal(secret, label string, text []byte) ([]byte, error) {
	box, err := newCipher(secret, label)
	if err != nil {
		return nil, err
	}
	return box.Seal(nil, nil, text, []byte(label)), nil
}

// Unseal decrypts the result of Seal. ok is false if the secret or the label differs.
func Unseal(secret, label string, sealed []byte) ([]byte, bool) {
	box, err := newCipher(secret, label)
	if err != nil {
		return nil, false
	}
	text, err := box.Open(nil, nil, sealed, []byte(label))
	return text, err == nil
}

// newCipher returns the cipher for a secret and label. It prepends a random nonce to its output.
func newCipher(secret, label string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "quantix seal "+label, 32)
	if err != nil {
		return nil, fmt.Errorf("derive the encryption key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
