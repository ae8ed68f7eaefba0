package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// Agents connect to the portal that started last. Only that portal removes its own address from the database.
func TestAgentAddressComesFromNewestRunningPortal(t *testing.T) {
	h := newIdentityFixture(t)
	ctx, system := t.Context(), fleet.SystemActor
	older := control.New(h.pool, control.Options{AgentURL: "https://older.example:8444"})
	newer := control.New(h.pool, control.Options{AgentURL: "https://newer.example:8444"})
	second := control.New(h.pool, control.Options{})
	wantAddress := func(want string) {
		t.Helper()
		if got, err := second.AgentAddress(ctx, system); err != nil || got != want {
			t.Errorf("the address is %q, %v; want %q", got, err, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	wantAddress("")
	if _, err := second.CreateJoinToken(ctx, chief, ""); fleet.CodeOf(err) != fleet.Unavailable {
		t.Errorf("a join command without an address: %v", err)
	}
	must(older.SetAgentAddress(ctx, system))
	must(older.SetAgentAddress(ctx, system))
	wantAddress("https://older.example:8444")
	must(newer.SetAgentAddress(ctx, system))
	must(older.ForgetAgentAddress(ctx, system))
	wantAddress("https://newer.example:8444")
	must(newer.ForgetAgentAddress(ctx, system))
	wantAddress("")

	if err := newer.SetAgentAddress(ctx, chief); fleet.CodeOf(err) != fleet.Forbidden {
		t.Errorf("a person sets the address: %v", err)
	}
	if err := newer.ForgetAgentAddress(ctx, chief); fleet.CodeOf(err) != fleet.Forbidden {
		t.Errorf("a person deletes the address: %v", err)
	}
	if _, err := newer.AgentAddress(ctx, chief); fleet.CodeOf(err) != fleet.Forbidden {
		t.Errorf("a person asks for the address: %v", err)
	}
}
