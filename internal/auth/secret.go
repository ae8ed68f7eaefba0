package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// TokenPrefix marks API tokens, so that secret scanners and people recognise them.
const TokenPrefix = "qx_"

// NewSecret returns the prefix and 256 random bits in base64url.
func NewSecret(prefix string) string {
	var b [32]byte
	rand.Read(b[:])
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// HashSecret is what is stored of a secret. Secrets hold 256 random bits, so a plain sha256 of them is enough; passwords
// need HashPassword.
func HashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
