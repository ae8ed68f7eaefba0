package network

import (
	"context"
	"encoding/json"
	"fmt"

	"quantix/db"
	"quantix/internal/adoption"
	"quantix/internal/control/assign"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// AdoptNetwork is the input of Networks.AdoptNetwork.
type AdoptNetwork struct {
	HostIDs []fleet.HostID `json:"hostIds,omitempty" doc:"Further hosts with an equal network of this name, which the network is assigned to as well"`
}

// AdoptNetwork makes a host's own libvirt network a Quantix network and assigns it to the host. VMs on the network stay
// connected. If Quantix has adopted an equal network with this name, it assigns that one. It refuses a network that
// Quantix cannot express, and further hosts without an equal network. Hosts never change the definition of an adopted
// network.
func (n *Networks) AdoptNetwork(ctx context.Context, a fleet.Actor, host fleet.HostID, name string, in AdoptNetwork) (fleet.NetworkView, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.NetworkView{}, err
	}
	if err := store.CheckID(host, "host"); err != nil {
		return fleet.NetworkView{}, err
	}
	var id fleet.NetworkID
	err := n.store.Tx(ctx, func(q *db.Queries) error {
		rows, err := q.DiscoveredNetworksNamed(ctx, db.DiscoveredNetworksNamedParams{Name: name, HostID: string(host), Most: 1})
		if err != nil {
			return err
		}
		if len(rows) == 0 || rows[0].HostID != host {
			return fleet.Errorf(fleet.NotFound, "The host reports no libvirt network named %q that could be adopted.", name)
		}
		id = rows[0].Network.ID
		var def *fleet.HostNetworkDefinition
		if err := json.Unmarshal(rows[0].Definition, &def); err != nil {
			return err
		}
		if why := adoption.WhyNetworkNotAdoptable(store.NetworkFromRow(rows[0].Network), def); why != "" {
			return fleet.RefusalError(why)
		}
		if why := adoption.WhyUnsupported(name, def.Spec.Check); why != "" { // the host's agent checked the same
			return fleet.RefusalError(why)
		}
		spec := *def.Spec
		spec.Adopted = true
		if err := q.AdoptNetwork(ctx, db.AdoptNetworkParams{ID: id, Spec: &spec}); err != nil {
			return err
		}
		network, err := assign.NetworkType.LockObject(ctx, q, string(id))
		if err != nil {
			return err
		}
		if _, err := network.Assign(ctx, q, a, append([]fleet.HostID{host}, in.HostIDs...)); err != nil {
			return err
		}
		return network.Audit(ctx, q, a, "adopt", fmt.Sprintf("%s of %s, on %d hosts", describeNetwork(spec), rows[0].HostName, 1+len(in.HostIDs)))
	})
	if err != nil {
		return fleet.NetworkView{}, err
	}
	return n.queries.GetNetwork(ctx, a, id)
}
