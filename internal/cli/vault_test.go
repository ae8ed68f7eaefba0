package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/config"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A new portal generates the vault's key. If the key is missing but the database contains encrypted secrets, the error
// names the file to restore, and no key is generated.
func TestSecretsKeyGeneratedOnlyWhenNothingIsEncrypted(t *testing.T) {
	t.Parallel()
	pool, cfg := testkit.DB(t), config.Portal{DataDir: t.TempDir()}
	file := filepath.Join(cfg.DataDir, "secrets.key")
	vault, err := openVault(t.Context(), cfg, pool)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.New(pool, control.Options{Vault: vault}).Authority(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first failed start must not leave a key for the second
		if _, err := openVault(t.Context(), cfg, pool); err == nil || !strings.Contains(err.Error(), "Restore") || !strings.Contains(err.Error(), file) {
			t.Errorf("without the key: %v", err)
		}
	}
	if err := os.WriteFile(file, key, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := openVault(t.Context(), cfg, pool); err != nil || again.KeyID() != vault.KeyID() {
		t.Errorf("with the key restored: %v", err)
	}
	if _, err := openVault(t.Context(), config.Portal{DataDir: cfg.DataDir, SecretsKey: filepath.Join(cfg.DataDir, "none")}, pool); err == nil {
		t.Error("a missing key file named in the settings was generated")
	}
}
