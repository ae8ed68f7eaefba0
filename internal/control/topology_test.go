package control_test

import (
	"fmt"
	"slices"
	"testing"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
)

// vmOnLAN returns a VM of project red on h1 with a NIC on the network.
func (s *projectFixture) vmOnLAN(name string, n fleet.NetworkID) fleet.VMView {
	s.t.Helper()
	v := s.createVM(name, fleet.Running)
	s.execSQL(`UPDATE vms SET host_id = $1, spec = jsonb_set(spec, '{nics}', jsonb_build_array(jsonb_build_object('networkId', $2::text, 'mac', $4::text))) WHERE id = $3`, s.h1, n, v.ID, fmt.Sprintf("52:54:00:00:00:%02x", s.countRows("vms")))
	return s.getVM(v.ID)
}

func TestTopologyListsHostsNetworksAndVMs(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	lan := s.defineNetwork("lan", natSpec("10.5.0.1/24"), s.h1, s.h2)
	s.setNetworkStatus(lan.ID, s.h1, `{"active":true,"bridge":"qx-lan","forward":"nat"}`)
	s.setNetworkStatus(lan.ID, s.h2, `{"active":false,"error":"no dnsmasq"}`)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,nics}', '[{"name":"eth0","kind":"physical","up":true,"master":"qx-lan"},{"name":"qx-lan","kind":"bridge","up":true}]') WHERE id = $1`, s.h1)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,nicsLooked}', 'true') WHERE id = $1`, s.h1)
	web := s.vmOnLAN("web", lan.ID)
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'strange', '{"power":"running"}')`, s.h1, fleet.NewID[fleet.VMID]())

	h, err := s.HostTopology(ctx, chief, s.h1)
	if err != nil || len(h.Networks) != 2 || len(h.VMs) != 1 || h.VMs[0].ID != web.ID || len(h.VMs[0].Spec.NICs) != 1 || len(h.Discovered) != 1 || h.More != 0 || len(h.Host.Status.Inventory.NICs) != 2 {
		t.Errorf("the host: %+v %v", h, err)
	}
	if other, err := s.HostTopology(ctx, chief, s.h2); err != nil || len(other.VMs)+len(other.Discovered) != 0 {
		t.Errorf("the other host: %+v %v", other, err)
	}
	n, err := s.NetworkTopology(ctx, chief, lan.ID)
	if err != nil || len(n.Hosts) != 2 || n.Hosts[0].HostID != s.h2 || n.Hosts[0].State != fleet.NetworkFailed || len(n.VMs) != 1 || n.MoreHosts != 0 {
		t.Errorf("the network: %+v %v", n, err)
	}
	if d := n.Devices[s.h1]; len(d.NICs) != 2 || !d.Current || d.NICs[0].Master != "qx-lan" {
		t.Errorf("its devices on h1: %+v", d)
	}
	if d := n.Devices[s.h2]; len(d.NICs) != 0 || d.Current {
		t.Errorf("devices on h2, which reported none: %+v", d)
	}
	g, err := s.NetworkGrid(ctx, chief, fleet.Query{}, fleet.Query{})
	if err != nil || len(g.Hosts.Items) != 2 || len(g.Networks.Items) != 2 || len(g.Statuses) != 4 {
		t.Fatalf("the fleet: %+v %v", g, err)
	}
	for host, want := range map[fleet.HostID]fleet.NetworkState{s.h1: fleet.NetworkActive, s.h2: fleet.NetworkFailed} {
		if c := g.Statuses[diagram.NetworkOnHost{Network: lan.ID, Host: host}]; c.State != want {
			t.Errorf("lan on %s is %s, want %s", host, c.State, want)
		}
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '5 minutes' WHERE host_id = $1`, s.h1)
	if g, err = s.NetworkGrid(ctx, chief, fleet.Query{Filter: "name:h1"}, fleet.Query{}); err != nil || len(g.Statuses) != 2 || g.Statuses[diagram.NetworkOnHost{Network: lan.ID, Host: s.h1}].State != fleet.NetworkUnknown {
		t.Errorf("a offline host: %+v %v", g.Statuses, err)
	}
}

// Members see a network with their own VMs, without hosts, host devices or other projects' VMs.
func TestTenantTopologyHidesHosts(t *testing.T) {
	s := newProjectFixture(t)
	lan := s.defineNetwork("lan", natSpec("10.5.0.1/24"), s.h1)
	s.setNetworkStatus(lan.ID, s.h1, `{"active":true,"bridge":"qx-lan","forward":"nat"}`)
	mine := s.vmOnLAN("web", lan.ID)
	theirs := s.vmOnLAN("theirs", lan.ID)
	s.execSQL(`UPDATE vms SET project_id = $1 WHERE id = $2`, s.blue, theirs.ID)
	n, err := s.NetworkTopology(t.Context(), s.member, lan.ID)
	if err != nil || len(n.VMs) != 1 || n.VMs[0].ID != mine.ID || n.VMs[0].HostID != "" || n.VMs[0].HostName != "" {
		t.Errorf("the VMs: %+v %v", n.VMs, err)
	}
	if len(n.Hosts)+len(n.Devices)+n.MoreHosts > 0 || n.Network.Spec.Bridge != "" {
		t.Errorf("a member is shown %+v", n)
	}
	s.execSQL(`DELETE FROM network_grants WHERE network_id = $1`, lan.ID)
	s.wantRefused("a network that is not published to the member's project", fleet.NotFound, "", func() error { _, err := s.NetworkTopology(t.Context(), s.member, lan.ID); return err })
}

// A topology shows a limited number of VMs. VMs that need attention come first.
func TestTopologyLimitsVMs(t *testing.T) {
	s := newProjectFixture(t)
	lan := s.defineNetwork("lan", natSpec("10.5.0.1/24"), s.h1)
	v := s.vmOnLAN("web", lan.ID)
	s.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec, generation, observed_generation, status)
		SELECT overlay(id placing lpad(n::text, 4, '0') from 33), project_id, host_id, 'vm-' || lpad(n::text, 4, '0'),
			jsonb_set(spec, '{nics,0,mac}', to_jsonb('52:54:00:00:01:' || lpad(to_hex(n % 256), 2, '0'))), 1, 1,
			jsonb_build_object('power', CASE WHEN n = 150 THEN 'crashed' ELSE 'stopped' END, 'cpus', 1, 'memoryMiB', 1)
		FROM vms, generate_series(1, 199) n WHERE id = $1`, v.ID)
	for what, check := range map[string]func() ([]fleet.VMView, int, error){
		"host": func() ([]fleet.VMView, int, error) {
			h, err := s.HostTopology(t.Context(), chief, s.h1)
			return h.VMs, h.More, err
		},
		"network": func() ([]fleet.VMView, int, error) {
			n, err := s.NetworkTopology(t.Context(), chief, lan.ID)
			return n.VMs, n.More, err
		},
	} {
		vms, more, err := check()
		if err != nil || len(vms) != diagram.TopologyVMs || more != 160 {
			t.Fatalf("%s: %d VMs and %d more: %v", what, len(vms), more, err)
		}
		if !slices.ContainsFunc(vms, func(v fleet.VMView) bool { return v.Name == "vm-0150" }) {
			t.Errorf("%s: the crashed VM is missing", what)
		}
	}
}
