package control_test

import (
	"fmt"
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// The dashboard lists the hosts that need attention by name. Hosts with a known problem come before the others.
func TestDashboardListsHostsNeedingAttention(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`UPDATE hosts SET status = '{}'`)
	r.execSQL(`UPDATE host_sessions SET seen_at = now(), last_look = now()`)
	const looked, heard = `seen_at = now(), last_look = now()`, `seen_at = now(), last_look = now() - interval '1 hour'`
	for name, says := range map[string]string{
		"f-well":    looked,
		"c-blind":   looked + `, blind_since = now()`, // disconnected from its hypervisor only a moment ago, so its last report still counts
		"e-stale":   heard,
		"d-twin":    looked + `, conflict = 'another'`,
		"b-silent":  `seen_at = now() - interval '1 hour'`,
		"a-silent":  `seen_at = now() - interval '1 hour', last_look = now()`,
		"g-pending": `seen_at = NULL`,
	} {
		r.execSQL(`UPDATE host_sessions SET `+says+` WHERE host_id = $1`, r.addHost(name).HostID)
	}
	r.execSQL(`UPDATE hosts SET status = '{"error": "no libvirtd"}'`)
	names := func() (out []string) {
		o, err := r.Overview(t.Context(), chief)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range o.Attention {
			for _, o := range n.Objects {
				out = append(out, fmt.Sprint(o.Name, " ", n.Severity))
			}
		}
		return out
	}
	row := func(name string, p fleet.HostPhase) string { return fmt.Sprint(name, " ", p.Severity()) }
	want := []string{
		row("d-twin", fleet.HostConflict), row("a-silent", fleet.HostUnknown), row("b-silent", fleet.HostUnknown),
		row("c-blind", fleet.HostDegraded), row("e-stale", fleet.HostDegraded),
	}
	got := names()
	if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Fatalf("named are %q, want %q", got, want)
	}
	for i := range 25 {
		r.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour' WHERE host_id = $1`, r.addHost(fmt.Sprintf("s%02d", i)).HostID)
	}
	r.execSQL(`UPDATE hosts SET status = '{}'`)
	got = names()
	for _, must := range []string{row("d-twin", fleet.HostConflict), row("c-blind", fleet.HostDegraded), row("e-stale", fleet.HostDegraded), row("a-silent", fleet.HostUnknown)} {
		if len(got) != 3+fleet.AttentionNames || !slices.Contains(got, must) {
			t.Errorf("with many offline hosts, %q is not among the %d named hosts: %q", must, len(got), got)
		}
	}
}
