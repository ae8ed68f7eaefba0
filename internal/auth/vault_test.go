package auth_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/auth"
)

// The key file is created only once, and only its owner can read it. Only a vault with the same key can decrypt.
func TestVaultDecryptsOnlyWithItsKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secrets.key")
	if _, err := auth.OpenVault(file, false); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	v, err := auth.OpenVault(file, true)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file is %v, %v", info, err)
	}
	again, err := auth.OpenVault(file, true)
	if err != nil || again != v || v.KeyID() == "" || v.KeyID() == auth.NewVault().KeyID() {
		t.Errorf("opened again: %q, was %q, %v", again.KeyID(), v.KeyID(), err)
	}
	sealed, err := v.Seal("pool 1", []byte("secretsecret1"))
	if err != nil || strings.Contains(string(sealed), "secret") {
		t.Fatalf("sealed: %q, %v", sealed, err)
	}
	if text, ok := again.Unseal("pool 1", sealed); !ok || string(text) != "secretsecret1" {
		t.Errorf("unsealed: %q, %t", text, ok)
	}
	for what, c := range map[string]struct {
		v     auth.Vault
		label string
	}{"another key": {auth.NewVault(), "pool 1"}, "another pool": {v, "pool 2"}, "no key": {auth.Vault{}, "pool 1"}} {
		if _, ok := c.v.Unseal(c.label, sealed); ok {
			t.Errorf("%s decrypts it", what)
		}
	}
	if _, err := (auth.Vault{}).Seal("pool 1", nil); err == nil {
		t.Error("sealed without a key")
	}
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.OpenVault(file, true); err == nil || !strings.Contains(err.Error(), "contains no key") {
		t.Errorf("an empty file: %v", err)
	}
}
