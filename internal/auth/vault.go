package auth

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Vault seals what portals keep for hosts alone: passwords and keys of storage. Its key is in a file beside the database, so that who reads
// the database reads none of them. The zero Vault has no key.
type Vault struct{ secret string }

// vaultPrefix marks a vault's key, so that secret scanners and people recognise it.
const vaultPrefix = "qxv_"

// NewVault makes a vault with a key of its own, which nobody else knows.
func NewVault() Vault { return Vault{NewSecret(vaultPrefix)} }

// OpenVault reads the key in the file; fresh: a file that is missing is made.
func OpenVault(file string, fresh bool) (Vault, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && fresh {
		if err = writeKey(file, NewVault()); err == nil || errors.Is(err, fs.ErrExist) { // another portal of this directory may have been first
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

// ID tells the vault's key from others, and nothing about it; empty: there is none.
func (v Vault) ID() string {
	if v.secret == "" {
		return ""
	}
	return hex.EncodeToString(HashSecret(v.secret)[:8])
}

// Seal encrypts text; label says what it is, and is needed to read it again.
func (v Vault) Seal(label string, text []byte) ([]byte, error) {
	if v.secret == "" {
		return nil, errors.New("this portal has no key to seal with")
	}
	return Seal(v.secret, label, text)
}

// Unseal is Seal's way back; false: another key or label.
func (v Vault) Unseal(label string, sealed []byte) ([]byte, bool) {
	if v.secret == "" {
		return nil, false
	}
	return Unseal(v.secret, label, sealed)
}
