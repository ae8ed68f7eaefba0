package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// TokenPrefix marks API tokens for secret scanners and people.
const TokenPrefix = "qx_"

// NewSecret returns the prefix and 256 random bits in base64url.
func NewSecret(prefix string) string {
	var b [32]byte
	rand.Read(b[:])
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// HashSecret returns the hash of a secret, for storage. A plain SHA-256 is enough for 256 random bits. Passwords need
// HashPassword.
func HashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}
