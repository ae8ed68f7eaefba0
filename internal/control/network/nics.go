package network

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// The database stores only the id of a NIC's network. Everywhere else a complete NIC also has the network's name.

// ResolveNICs fills in the id, kind and name of each NIC's network, which a NIC gives by id or name. An unknown id is
// an error; a NIC with an unknown name does not change. The networks are locked until the transaction ends. closed
// contains the networks that the project may not use.
func ResolveNICs(ctx context.Context, q *db.Queries, project fleet.ProjectID, nics []fleet.NIC) (closed map[fleet.NetworkID]bool, err error) {
	params := db.FindNetworksParams{ProjectID: string(project)}
	for _, n := range nics {
		if kind, name := n.NetworkKindAndName(); n.NetworkID != "" {
			params.Ids = append(params.Ids, string(n.NetworkID))
		} else {
			params.Kinds, params.Names = append(params.Kinds, string(kind)), append(params.Names, name)
		}
	}
	if len(nics) == 0 {
		return nil, nil
	}
	rows, err := q.FindNetworks(ctx, params)
	if err != nil {
		return nil, err
	}
	closed = map[fleet.NetworkID]bool{}
	var checks fleet.Checks
	for i, n := range nics {
		kind, name := n.NetworkKindAndName()
		k := slices.IndexFunc(rows, func(r db.FindNetworksRow) bool {
			return r.ID == n.NetworkID || n.NetworkID == "" && r.Kind == kind && r.Name == name
		})
		switch {
		case k >= 0 && (name == "" || rows[k].Kind == kind && rows[k].Name == name):
			nics[i] = n.WithNetwork(rows[k].ID, rows[k].Kind, rows[k].Name)
			closed[rows[k].ID] = rows[k].Closed
		case n.NetworkID != "":
			checks.Add(fmt.Sprintf("spec.nics[%d].networkId", i), "%s", noNetworkText(name))
		}
	}
	return closed, checks.Err()
}

// noNetworkText returns the error text for a network that does not exist or that the project may not use. One text for
// both does not reveal which networks exist.
func noNetworkText(name string) string {
	if name == "" {
		return "There is no such network."
	}
	return fmt.Sprintf("There is no such network that is named %s. Give its id or its name.", name)
}

// CheckNICs fills in the NICs' networks, and refuses networks that the project may not use. Actors who may change
// infrastructure may use any network.
func CheckNICs(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, nics []fleet.NIC) error {
	entered := slices.Clone(nics)
	closed, err := ResolveNICs(ctx, q, project, nics)
	if err != nil {
		return err
	}
	granted, err := checkPortGroupsUsable(ctx, q, a, project, nics, closed)
	if err != nil || policy.May(a, policy.InfraChange, "") {
		return err
	}
	var checks fleet.Checks
	for i, n := range nics {
		// An unknown network and one that is not published to the project are refused with the same text, so that the error
		// does not reveal which networks exist.
		kind, name := entered[i].NetworkKindAndName()
		if granted[i] || n.NetworkID != "" && !closed[n.NetworkID] || n.NetworkID == "" && name == "" {
			continue
		}
		field := map[fleet.NetworkKind]string{fleet.NetworkLibvirt: "network", fleet.NetworkBridge: "bridge"}[kind]
		if entered[i].NetworkID != "" {
			checks.Add(fmt.Sprintf("spec.nics[%d].networkId", i), "%s", noNetworkText(name))
			continue
		}
		checks.Add(fmt.Sprintf("spec.nics[%d].%s", i, field), "%s is not published to this project. Choose another network, or ask an administrator to publish it.", name)
	}
	return checks.Err()
}

// StoredSpec returns the spec as the database stores it: each NIC has the id of its network.
func StoredSpec(ctx context.Context, q *db.Queries, project fleet.ProjectID, spec fleet.VMSpec) (fleet.VMSpec, error) {
	spec = spec.WithoutClassNames()
	spec.NICs = slices.Clone(spec.NICs)
	if slices.ContainsFunc(spec.NICs, func(n fleet.NIC) bool { return n.NetworkID == "" }) {
		if _, err := ResolveNICs(ctx, q, project, spec.NICs); err != nil {
			return spec, err
		}
	}
	var checks fleet.Checks
	for i, n := range spec.NICs {
		if _, name := n.NetworkKindAndName(); n.NetworkID == "" {
			checks.Add(fmt.Sprintf("spec.nics[%d].network", i), "There is no network %q any more.", name)
		}
		n.Network, n.Bridge = "", ""
		spec.NICs[i] = n
	}
	return spec, checks.Err()
}
