package control_test

import (
	"context"
	"strings"
	"testing"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// The CA key is stored encrypted, so a reader of the database cannot sign host certificates. A portal encrypts a key
// that an older release stored in plain text.
func TestCAKeyStoredEncrypted(t *testing.T) {
	t.Parallel()
	pool, vault := testkit.DB(t), auth.NewVault()
	fingerprint := func(v auth.Vault) (string, error) {
		a, err := control.New(pool, control.Options{Vault: v}).Authority(t.Context(), fleet.SystemActor)
		if err != nil {
			return "", err
		}
		return auth.Fingerprint(a.Certificate()), nil
	}
	inClear := func() (clear bool) {
		t.Helper()
		if err := pool.QueryRow(context.WithoutCancel(t.Context()), `SELECT key_pem IS NOT NULL FROM authority`).Scan(&clear); err != nil {
			t.Fatal(err)
		}
		return clear
	}
	made, err := fingerprint(vault)
	if err != nil || inClear() {
		t.Fatalf("a new authority: in clear %v, %v", inClear(), err)
	}
	if again, err := fingerprint(vault); err != nil || again != made {
		t.Errorf("the next portal has another authority: %v", err)
	}
	if _, err := fingerprint(auth.NewVault()); err == nil || !strings.Contains(err.Error(), "secrets.key") {
		t.Errorf("a portal with another key: %v", err)
	}

	// The command "quantix host token" does not have the key of the portals' vault.
	second := control.New(pool, control.Options{AgentURL: "https://portal.example:8444"})
	if _, err := second.CreateJoinToken(t.Context(), chief, ""); err != nil {
		t.Errorf("a join token without the key: %v", err)
	}

	old, err := auth.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	key, err := old.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE authority SET cert_pem = $1, key_pem = $2, by_key = NULL, sealed = NULL`, old.CertPEM(), key); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := fingerprint(vault); err != nil || got != auth.Fingerprint(old.Certificate()) || inClear() {
			t.Errorf("after an upgrade: %s, in clear %v, %v", got, inClear(), err)
		}
	}
}
