package auth

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Vault encrypts secrets in the database, such as storage passwords and keys. The vault's key is in a file outside the
// database, so that a database dump reveals no secret. The zero Vault has no key.
type Vault struct{ secret string }

// vaultPrefix marks a vault's key for secret scanners and people.
const vaultPrefix = "qxv_"

// NewVault returns a vault with a new key.
func NewVault() Vault { return Vault{NewSecret(vaultPrefix)} }

// OpenVault reads the key from the file. If fresh is true, it creates a missing file.
func OpenVault(file string, fresh bool) (Vault, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && fresh {
		// Another portal with this directory may create the file first.
		if err = writeKey(file, NewVault()); err == nil || errors.Is(err, fs.ErrExist) {
			text, err = os.ReadFile(file)
		}
	}
	if err != nil {
		return Vault{}, err
	}
	v := Vault{strings.TrimSpace(string(text))}
	if !strings.HasPrefix(v.secret, vaultPrefix) || len(v.secret) < len(NewVault().secret) {
		return Vault{}, fmt.Errorf("%s contains no key, which is one line that begins with %s; restore the file from a backup, or remove the file if the database contains no encrypted secrets", file, vaultPrefix)
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

// KeyID identifies the vault's key without revealing it; empty without a key.
func (v Vault) KeyID() string {
	if v.secret == "" {
		return ""
	}
	return hex.EncodeToString(HashSecret(v.secret)[:8])
}

// Seal encrypts text. Unseal requires the same label.
func (v Vault) Seal(label string, text []byte) ([]byte, error) {
	if v.secret == "" {
		return nil, errors.New("this portal has no key to encrypt with")
	}
	return Seal(v.secret, label, text)
}

// Unseal decrypts the result of Seal. ok is false if the key or the label differs.
func (v Vault) Unseal(label string, sealed []byte) ([]byte, bool) {
	if v.secret == "" {
		return nil, false
	}
	return Unseal(v.secret, label, sealed)
}
