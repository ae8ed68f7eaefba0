// Package auth authenticates people and hosts: passwords, secrets, browser sessions, and the authority that signs host
// certificates. Package policy decides on permissions.
package auth

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"

	"quantix/internal/fleet"
)

// Limits of a password, in bytes.
const (
	MinPassword = 10
	MaxPassword = 256
)

// hashParams are the cost parameters of argon2id: 19 MiB, two passes, one thread.
var hashParams = &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// dummyHash matches no password. The password of a sign-in with an unknown user name is compared with it, so that the
// answer takes the same time.
const dummyHash = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// passwordHasher limits the memory and CPU time that this process spends on passwords.
var passwordHasher = hasher{slots: make(chan struct{}, 2), wait: 5 * time.Second}

// HashPassword returns the argon2id hash of a password. At most two computations run at the same time. A caller that
// waits longer than 5 s gets the error TooMany.
func HashPassword(ctx context.Context, password string) (hash string, err error) {
	err = passwordHasher.runInSlot(ctx, func() error {
		hash, err = argon2id.CreateHash(password, hashParams)
		return err
	})
	return hash, err
}

// VerifyPassword reports whether the password has that hash, with the same limits as HashPassword. An empty hash
// matches no password, and the comparison takes the same time.
func VerifyPassword(ctx context.Context, password, hash string) (same bool, err error) {
	if hash == "" {
		hash = dummyHash
	}
	err = passwordHasher.runInSlot(ctx, func() error {
		same, err = argon2id.ComparePasswordAndHash(password, hash)
		return err
	})
	if err != nil && fleet.CodeOf(err) == "" && ctx.Err() == nil {
		err = fmt.Errorf("compare password: %w", err)
	}
	return same && hash != dummyHash, err
}

// CheckPassword adds an error at field if password is not acceptable for userName.
func CheckPassword(c *fleet.Checks, field, userName, password string) {
	switch {
	case len(password) < MinPassword || len(password) > MaxPassword || !utf8.ValidString(password):
		c.Add(field, "A password has %d to %d bytes of text. Choose a longer password, such as a few words.", MinPassword, MaxPassword)
	case strings.EqualFold(password, userName):
		c.Add(field, "The password must not be the user name. Choose another password.")
	default:
		if why := guessableReason(userName, password); why != "" {
			c.Add(field, "This password is too easy to guess: it %s. Choose another password, such as a few words that do not belong together.", why)
		}
	}
}

// oneTimeAlphabet omits characters that people confuse: 0 and o, 1, i and l, u and v. Its 29 characters have 4.85
// bits each.
const oneTimeAlphabet = "23456789abcdefghjkmnpqrstwxyz"

// NewPassword returns a readable one-time password of 97 random bits: five groups of four characters, such as
// "k7fd-w2mq-…".
func NewPassword() string {
	const groups, size = 5, 4
	var b strings.Builder
	for i := range groups * size {
		if i > 0 && i%size == 0 {
			b.WriteByte('-')
		}
		b.WriteByte(oneTimeAlphabet[randomBelow(len(oneTimeAlphabet))])
	}
	return b.String()
}

// randomBelow returns a uniform random number from 0 to n-1, n ≤ 256.
func randomBelow(n int) int {
	limit := 256 - 256%n
	var b [1]byte
	for {
		rand.Read(b[:])
		if int(b[0]) < limit {
			return int(b[0]) % n
		}
	}
}
