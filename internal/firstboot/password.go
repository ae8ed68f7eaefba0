package firstboot

import (
	"fmt"
	"slices"

	"github.com/go-crypt/crypt/algorithm/shacrypt"

	"quantix/internal/fleet"
)

// hashRounds is the number of rounds of SHA-512 crypt. They take some tens of milliseconds of CPU time, which is
// acceptable even in an emulated guest.
const hashRounds = 100_000

// HashPasswords returns a copy of f with salted hashes in place of the passwords.
func HashPasswords(f fleet.FirstBoot) (fleet.FirstBoot, error) {
	if f.CloudInit == nil {
		return f, nil
	}
	form := *f.CloudInit
	form.Users = slices.Clone(form.Users)
	for i := range form.Users {
		u := &form.Users[i]
		if u.Password == "" {
			continue
		}
		h, err := shacrypt.New(shacrypt.WithVariant(shacrypt.VariantSHA512), shacrypt.WithIterations(hashRounds))
		if err != nil {
			return f, fmt.Errorf("hash a password: %w", err)
		}
		digest, err := h.Hash(u.Password)
		if err != nil {
			return f, fmt.Errorf("hash a password: %w", err)
		}
		u.Password, u.PasswordHash = "", digest.Encode()
	}
	f.CloudInit = &form
	return f, nil
}
