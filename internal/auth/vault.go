package auth

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Vault encrypts hosts' secrets in the database, such as storage passwords and keys. Its key is in a file outside the
// database, so that a database dump reveals none of them. The zero Vault has no key.
type Vault struct{ secret string }

// vaultPrefix marks a vault's key for secret scanners and people.
const vaultPrefix = "qxv_"

// NewVault returns a vault with a new key.
func NewVault() Vault { return Vault{NewSecret(vaultPrefix)} }

// OpenVault reads the key from the file. With fresh, it creates a missing file.
func OpenVault(file string, fresh bool) (Vault, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && fresh {
		// Another portal with this directory may create it first.
		if err = writeKey(file, NewVault()); err == nil || errors.Is(err, fs.ErrExist) {
			text, err = os.ReadFile(file)
		}
	}
	if err != nil {
		return Vault{}, err
	}
	v := Vault{strings.TrimSpace(string(text))}
	if !strings.HasPrefix(v.secret, vaultPrefix) || len(v.secret) < len(NewVault().secret) {
		return Vault{}, fmt.Errorf("%s holds no key: it is one line that begins with %s; restore it from a backup, or, where nothing was sealed yet, remove it", file, vaultPrefix)
	}
	return v, nil
}

func writeKey(file string, v Vault) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(v.secret + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// ID identifies the vault's key without revealing it; empty without a key.
func (v Vault) ID() string {
	if v.secret == "" {
		return ""
	}
	return hex.EncodeToString(HashSecret(v.secret)[:8])
}

// Seal encrypts text. label is required for decryption.
func (v Vault) Seal(label string, text []byte) ([]byte, error) {
	if v.secret == "" {
		return nil, errors.New("this portal has no key to seal with")
	}
	return Seal(v.secret, label, text)
}

// Unseal decrypts the result of Seal; false for another key or label.
func (v Vault) Unseal(label string, sealed []byte) ([]byte, bool) {
	if v.secret == "" {
		return nil, false
	}
	return Unseal(v.secret, label, sealed)
}
