package control_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/remedy"
)

// setDrift writes a host's report of the object's drift.
func (s *projectFixture) setDrift(id string, host fleet.HostID, drift ...fleet.Drift) {
	s.t.Helper()
	text, err := json.Marshal(drift)
	if err != nil {
		s.t.Fatal(err)
	}
	s.execSQL(`UPDATE assignments SET status = (CASE noun WHEN 'pool' THEN '{"state":"active"}' ELSE '{"active":true}' END)::jsonb || jsonb_build_object('drift', $3::jsonb)
		WHERE object_id = $1 AND host_id = $2`, id, host, string(text))
}

// hostDriftFixture has a network and a pool on the hosts h1 and h2, whose agents can reapply.
func hostDriftFixture(t *testing.T) (s *projectFixture, n fleet.NetworkView, pool fleet.PoolID) {
	s = newProjectFixture(t)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,reapplies}', 'true')`)
	n = s.defineNetwork("lan", natSpec("10.5.0.1/24"), s.h1, s.h2)
	return s, n, s.addPool("fast", `{"kind":"dir","path":"/srv/fast","shared":false}`, s.h1, s.h2)
}

func mtuDrift(actual string) fleet.Drift {
	return fleet.Drift{Field: "mtu", Applied: "default", Actual: actual, Take: rawJSON(actual)}
}

var pathDrift = fleet.Drift{Field: "path", Applied: "/srv/fast", Actual: "/srv/other"}

func TestDriftOfPoolsAndNetworksIsListedAndNeedsAttention(t *testing.T) {
	s, n, pool := hostDriftFixture(t)
	s.setDrift(string(n.ID), s.h1, mtuDrift("9000"))
	s.setDrift(string(pool), s.h1, pathDrift)
	s.setDrift(string(pool), s.h2, pathDrift)
	s.defineNetwork("other", fleet.NetworkSpec{Mode: fleet.NetworkIsolated}, s.h1)
	want := func(when string, networks, pools int) {
		t.Helper()
		ns, err := s.ListNetworks(t.Context(), chief, fleet.Query{Filter: "drift:yes"})
		if err != nil || len(ns.Items) != min(networks, 1) {
			t.Fatalf("%s: drift:yes lists %d networks, %v", when, len(ns.Items), err)
		}
		ps, err := s.ListPools(t.Context(), chief, fleet.Query{Filter: "drift:yes"})
		if err != nil || len(ps.Items) != min(pools, 1) {
			t.Fatalf("%s: drift:yes lists %d pools, %v", when, len(ps.Items), err)
		}
		if v, err := s.GetNetwork(t.Context(), chief, n.ID); err != nil || v.Health.Drifted != networks || networks > 0 && ns.Items[0].Health.Drifted != networks {
			t.Errorf("%s: the network is drifted on %d hosts, %v", when, v.Health.Drifted, err)
		}
		if v, err := s.GetPool(t.Context(), chief, pool); err != nil || v.Health.Drifted != pools || pools > 0 && ps.Items[0].Health.Drifted != pools {
			t.Errorf("%s: the pool is drifted on %d hosts, %v", when, v.Health.Drifted, err)
		}
		o, err := s.Overview(t.Context(), chief)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(o.Attention)
		if strings.Contains(got, "of the network (drift)") != (networks > 0) || strings.Contains(got, "of the pool (drift)") != (pools > 0) {
			t.Errorf("%s: needing attention are %s", when, got)
		}
	}
	want("at first", 1, 2)
	o, err := s.Overview(t.Context(), chief)
	i := slices.IndexFunc(o.Attention, func(x fleet.AttentionCause) bool {
		return x.Kind == string(fleet.TypePool) && x.List == "/pools?filter=drift:yes"
	})
	if err != nil || i < 0 || o.Attention[i].Count != 1 || o.Attention[i].Name != "fast" || o.Attention[i].Remedy != remedy.HostDrift {
		t.Errorf("the pool's row is missing in %+v, %v", o.Attention, err)
	}
	// Users who may not see hosts see no drift of them.
	_, err = s.ListPools(t.Context(), s.member, fleet.Query{Filter: "drift:yes"})
	wantCode(t, err, fleet.Invalid)
	if v, err := s.GetNetwork(t.Context(), s.member, n.ID); err != nil || v.Health.Drifted != 0 || slices.ContainsFunc(v.Hosts, func(h fleet.NetworkHost) bool { return h.Status != nil && h.Status.Drift != nil }) {
		t.Errorf("a member reads the drift of %+v, %v", v, err)
	}
	if o, err := s.Overview(t.Context(), s.member); err != nil || strings.Contains(fmt.Sprint(o.Attention), "(drift)") {
		t.Errorf("a member's dashboard shows drift: %+v, %v", o.Attention, err)
	}
	// The drift of an offline host does not count, and its page shows that of the last report.
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, s.h1)
	want("with h1 offline", 0, 1)
	on, err := s.NetworkDrift(t.Context(), chief, n.ID)
	if err != nil || len(on) != 1 || on[0].State != fleet.NetworkUnknown || len(on[0].Status.Drift) != 1 {
		t.Errorf("the drift on the offline host is %+v, %v", on, err)
	}
	s.wantRefused("ignore drift of an offline host", fleet.Conflict, "offline", func() error {
		return s.IgnoreDriftOnHost(t.Context(), chief, fleet.SubjectNetwork(n.ID), s.h1, map[string]string{"mtu": ""})
	})
}

func TestIgnoredDriftOnHostCountsUntilValueChanges(t *testing.T) {
	s, n, pool := hostDriftFixture(t)
	s.setDrift(string(pool), s.h1, pathDrift, fleet.Drift{Field: "autostart", Applied: "on", Actual: "off"})
	of := fleet.SubjectPool(pool)
	ignore := func(seen map[string]string) error { return s.IgnoreDriftOnHost(t.Context(), chief, of, s.h1, seen) }
	drifted := func() int {
		t.Helper()
		v, err := s.GetPool(t.Context(), chief, pool)
		if err != nil {
			t.Fatal(err)
		}
		return v.Health.Drifted
	}
	s.wantRefused("no field", fleet.Invalid, "at least one field", func() error { return ignore(nil) })
	s.wantRefused("another value", fleet.Conflict, "again meanwhile", func() error { return ignore(map[string]string{"path": "/srv/third"}) })
	s.wantRefused("another host", fleet.Conflict, "not changed on the host", func() error {
		return s.IgnoreDriftOnHost(t.Context(), chief, of, s.h2, map[string]string{"path": ""})
	})
	if err := ignore(map[string]string{"path": "/srv/other"}); err != nil || drifted() != 1 {
		t.Fatalf("one of two fields: %v, drifted %d", err, drifted())
	}
	if err := ignore(map[string]string{"autostart": ""}); err != nil || drifted() != 0 {
		t.Fatalf("both fields: %v, drifted %d", err, drifted())
	}
	on, err := s.PoolDrift(t.Context(), chief, pool)
	if err != nil || len(on) != 1 || len(on[0].Status.Drift) != 2 || !on[0].Status.Drift[0].Ignored || !on[0].Status.Drift[1].Ignored {
		t.Errorf("the page shows %+v, %v", on, err)
	}
	changed := pathDrift
	changed.Actual = "/srv/third"
	s.setDrift(string(pool), s.h1, changed, fleet.Drift{Field: "autostart", Applied: "on", Actual: "off"})
	if drifted() != 1 {
		t.Error("another value on the host does not count")
	}
	if err := s.ShowDriftOnHost(t.Context(), chief, of, s.h1, []string{"autostart"}); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows(`audit WHERE action IN ('pool.ignore-drift', 'pool.show-drift') AND detail IN ('path on h1', 'autostart on h1')`); n != 3 {
		t.Errorf("the audit has %d lines", n)
	}
	s.wantRefused("accept the drift of a pool", fleet.Conflict, "are fixed", func() error {
		_, err := s.AcceptDriftOnHost(t.Context(), chief, of, s.h1, map[string]string{"path": "/srv/third"})
		return err
	})
	// A reapply ends the ignoring, and a release cancels the reapply.
	s.execSQL(`UPDATE assignments SET ignored_drift = '[{"field":"path","actual":"/srv/third"}]' WHERE object_id = $1`, pool)
	if _, err := s.ReapplyOnHost(t.Context(), chief, of, s.h1); err != nil || drifted() != 1 {
		t.Errorf("reapply: %v, drifted %d", err, drifted())
	}
	if _, err := s.Release(t.Context(), chief, of, s.h1); err != nil || s.jobList(of) != "pool.reapply cancelled, pool.release queued" {
		t.Errorf("%v, jobs %s", err, s.jobList(of))
	}
	s.wantRefused("reapply without drift", fleet.Conflict, "not changed on the host", func() error {
		_, err := s.ReapplyOnHost(t.Context(), chief, fleet.SubjectNetwork(n.ID), s.h1)
		return err
	})
	s.setDrift(string(n.ID), s.h1, mtuDrift("9000"))
	s.execSQL(`UPDATE hosts SET status = status #- '{inventory,reapplies}'`)
	s.wantRefused("reapply by an older agent", fleet.Conflict, "Upgrade the host's agent", func() error {
		_, err := s.ReapplyOnHost(t.Context(), chief, fleet.SubjectNetwork(n.ID), s.h1)
		return err
	})
}

func TestAcceptedNetworkDriftChangesSpecOnAllHosts(t *testing.T) {
	s, n, _ := hostDriftFixture(t)
	of := fleet.SubjectNetwork(n.ID)
	accept := func(seen map[string]string) error {
		_, err := s.AcceptDriftOnHost(t.Context(), chief, of, s.h1, seen)
		return err
	}
	s.setDrift(string(n.ID), s.h1, mtuDrift("9000"), fleet.Drift{Field: "bridge", Applied: "chosen by the host", Actual: "br9"},
		fleet.Drift{Field: "domain", Applied: "none", Actual: "Bad Domain", Take: rawJSON(`"Bad Domain"`)})
	s.wantRefused("no field", fleet.Invalid, "at least one field", func() error { return accept(nil) })
	s.wantRefused("another value", fleet.Conflict, "again meanwhile", func() error { return accept(map[string]string{"mtu": "1400"}) })
	s.wantRefused("a fixed setting", fleet.Conflict, "fixed", func() error { return accept(map[string]string{"bridge": "br9"}) })
	s.wantRefused("an invalid value", fleet.Invalid, "A DNS domain", func() error { return accept(map[string]string{"domain": "Bad Domain"}) })
	s.setDrift(string(n.ID), s.h2, mtuDrift("1400"))
	s.wantRefused("another value on another host", fleet.Conflict, "MTU was changed on h2, too", func() error { return accept(map[string]string{"mtu": "9000"}) })
	s.setDrift(string(n.ID), s.h2, mtuDrift("9000"))
	if err := s.IgnoreDriftOnHost(t.Context(), chief, of, s.h2, map[string]string{"mtu": ""}); err != nil {
		t.Fatal(err)
	}
	if err := accept(map[string]string{"mtu": "9000"}); err != nil {
		t.Fatal(err)
	}
	v, err := s.GetNetwork(t.Context(), chief, n.ID)
	if err != nil || v.Spec.MTU != 9000 || v.Spec.IPv4 == nil || v.Generation != n.Generation+1 {
		t.Errorf("the network is %+v, %v", v.Spec, err)
	}
	if got := s.jobList(of); got != "network.apply queued, network.apply queued" {
		t.Errorf("jobs %s", got)
	}
	if s.countRows(`audit WHERE action = 'network.accept-drift' AND detail = 'mtu of h1'`) != 1 {
		t.Error("the audit has no line")
	}
	if s.countRows(`assignments WHERE ignored_drift <> '[]'`) != 0 {
		t.Error("a change of the spec does not end the ignoring of the field's drift")
	}
}

// A change of one setting by a user leaves ignored drift of another.
func TestNetworkChangeEndsIgnoringOfChangedFieldsOnly(t *testing.T) {
	s, n, _ := hostDriftFixture(t)
	s.execSQL(`UPDATE networks SET spec = jsonb_set(spec, '{ipv4,dhcp}', '{"ranges":[{"start":"10.5.0.100","end":"10.5.0.150"}]}') WHERE id = $1`, n.ID)
	s.execSQL(`UPDATE assignments SET ignored_drift = '[{"field":"mtu","actual":"9000"},{"field":"ipv4.reservations","actual":"none"}]' WHERE network_id = $1`, n.ID)
	if _, _, err := s.ReserveAddress(t.Context(), chief, n.ID, fleet.StaticLease{MAC: "52:54:00:00:00:09", IP: "10.5.0.9"}); err != nil {
		t.Fatal(err)
	}
	if got := s.countRows(`assignments WHERE network_id = '` + string(n.ID) + `' AND ignored_drift = '[{"field":"mtu","actual":"9000"}]'`); got != 2 {
		t.Errorf("%d hosts have only the drift of the MTU ignored", got)
	}
}
