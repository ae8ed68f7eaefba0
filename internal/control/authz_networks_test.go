package control_test

import (
	"quantix/internal/fleet"
)

// definedNetwork returns a defined network that is assigned to h1.
func (w *authzFixture) definedNetwork() fleet.NetworkID {
	id := fleet.NewID[fleet.NetworkID]()
	w.execSQL(`INSERT INTO networks (id, name, kind, spec) VALUES ($1, $2, 'libvirt', '{"mode":"isolated"}')`, id, w.uniqueName("lan"))
	w.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('net', $1, $2, 'assign')`, id, w.h1)
	return id
}

// networkWithReservation returns a network with an address reservation.
func (w *authzFixture) networkWithReservation() fleet.NetworkID {
	id := w.definedNetwork()
	w.execSQL(`UPDATE networks SET spec = '{"mode":"isolated","ipv4":{"gateway":"10.9.0.1/24","dhcp":{"ranges":[{"start":"10.9.0.9","end":"10.9.0.20"}],"leases":[{"mac":"52:54:00:00:00:98","ip":"10.9.0.8"}]}}}' WHERE id = $1`, id)
	return id
}

// networkWithPortGroup returns a network with a port group.
func (w *authzFixture) networkWithPortGroup() fleet.NetworkID {
	id := w.definedNetwork()
	w.execSQL(`UPDATE networks SET spec = '{"mode":"isolated","portGroups":[{"name":"voice"}]}' WHERE id = $1`, id)
	return id
}

func definedNetworkArgs(w *authzFixture) []any {
	page, err := w.ListNetworks(w.t.Context(), chief, fleet.Query{Filter: "kind:libvirt"}) // a network that every project may use
	if err != nil {
		w.t.Fatal(err)
	}
	return []any{page.Items[0].ID}
}

// driftedNetwork returns a network that was edited on host h1.
func (w *authzFixture) driftedNetwork() fleet.NetworkID {
	id := w.definedNetwork()
	w.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,reapplies}', 'true')`)
	w.execSQL(`UPDATE assignments SET status = '{"active":true,"drift":[{"field":"mtu","applied":"default","actual":"9000","take":9000}]}', ignored_drift = '[{"field":"mtu","actual":"1"}]' WHERE network_id = $1`, id)
	return id
}

// driftedPool returns a pool that was edited on host h1.
func (w *authzFixture) driftedPool() fleet.PoolID {
	id := w.ownPool()
	w.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,reapplies}', 'true')`)
	w.execSQL(`UPDATE assignments SET status = '{"state":"active","drift":[{"field":"path","applied":"/a","actual":"/b"}]}', ignored_drift = '[{"field":"path","actual":"/c"}]' WHERE pool_id = $1`, id)
	return id
}
