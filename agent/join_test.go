package agent_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent"
)

func TestJoinStoresPrivateKeyReadableByOwnerOnly(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	if _, err := agent.OpenIdentity(t.TempDir()); !errors.Is(err, agent.ErrNotJoined) {
		t.Errorf("an empty directory: %v", err)
	}
	dir := p.join()
	for name, want := range map[string]os.FileMode{".": 0o700, "host.key": 0o600, "identity.json": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
	key, err := os.ReadFile(filepath.Join(dir, "host.key"))
	if err != nil {
		t.Fatal(err)
	}
	again := agent.JoinOptions{Portal: p.srv.URL, Token: p.token, Name: "host-1", DataDir: dir}
	if _, err := agent.Join(t.Context(), again); err != nil {
		t.Errorf("joining again: %v", err)
	}
	if next, err := os.ReadFile(filepath.Join(dir, "host.key")); err != nil || bytes.Equal(key, next) {
		t.Errorf("the host's key is the old one: %v", err)
	}
	id, err := agent.OpenIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	id.Close()
	if asked := p.lastJoin(); asked.HostID != "host-1" {
		t.Errorf("the join request lacks the host ID: %+v", asked)
	}
	again.DataDir, again.Token = t.TempDir(), strings.Replace(p.token, "qxj_", "qxj_x", 1)
	if _, err := agent.Join(t.Context(), again); err == nil || !strings.Contains(err.Error(), "The test refuses this.") {
		t.Errorf("joining with another token: %v", err)
	}
	if agent.HasJoined(again.DataDir) {
		t.Error("a refused join left an identity")
	}
}

func TestSecondAgentInSameDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := newPortal(t).join()
	first, err := agent.OpenIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.OpenIdentity(dir); err == nil || !strings.Contains(err.Error(), "another agent uses the data directory") {
		t.Errorf("the second: %v", err)
	}
	first.Close()
	second, err := agent.OpenIdentity(dir)
	if err != nil || second.HostID() != "host-1" {
		t.Fatalf("after the first has left: %v", err)
	}
	second.Close()
}
