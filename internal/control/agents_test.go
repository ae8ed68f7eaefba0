package control_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestSecondAgentOfHostRefusedAndFlagged(t *testing.T) {
	r := newHostFixture(t)
	r.reportState("1")
	_, err := r.Hello(t.Context(), r.agent, wire.Hello{Instance: "two", Fingerprint: "elsewhere"})
	wantCode(t, err, fleet.Conflict)
	if text := queryValue[string](r, `SELECT conflict FROM host_sessions`); text == "" {
		t.Fatal("the host is not flagged")
	}
	r.reportState("2") // the first agent continues
	if n := queryValue[int](r, `SELECT count(*) FROM audit WHERE action = 'host.conflict'`); n != 1 {
		t.Fatalf("%d audit lines", n)
	}
}

func TestRestartedAgentReclaimsItsJobs(t *testing.T) {
	r := newHostFixture(t)
	r.reportState("1")
	r.addVM("web")
	before := r.claimJobs()[0]
	old := r.agent
	r.sendHello("two", "here")
	if again := r.claimJobs(); len(again) != 1 || again[0].ID != before.ID {
		t.Fatalf("claimed %+v", again)
	}
	_, err := r.Report(t.Context(), old, wire.Report{Seq: 1, Digest: "1"})
	wantCode(t, err, fleet.Conflict)
	_, err = r.Claim(t.Context(), old, wire.ClaimRequest{Max: 1}, 0)
	wantCode(t, err, fleet.Conflict)
}

func TestRemovedHostMustJoinAgain(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`DELETE FROM hosts`)
	_, err := r.Hello(t.Context(), r.agent, wire.Hello{Instance: "x", Fingerprint: "y"})
	wantCode(t, err, fleet.Unauthorized)
}
