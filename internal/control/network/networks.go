package network

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/publishing"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// CreateNetwork is the input of Networks.CreateNetwork.
type CreateNetwork struct {
	Name    string            `json:"name"`
	Spec    fleet.NetworkSpec `json:"spec"`
	HostIDs []fleet.HostID    `json:"hostIds"`

	// Label selector of the hosts to which the network is assigned automatically, now and later, such as "rack=4, ssd".
	Selector string `json:"selector,omitempty"`
	// Projects to which the network is published from the start.
	Publish []string `json:"publish,omitempty" doc:"IDs of projects that may use the network, or all; none: no project"`
}

// CreateNetwork writes a new network and queues its set-up on each host. It refuses the name of a network discovered
// on hosts, because that is a different network.
func (n *Networks) CreateNetwork(ctx context.Context, a fleet.Actor, in CreateNetwork) (fleet.NetworkView, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.NetworkView{}, err
	}
	in.Spec = in.Spec.Normalized()
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", in.Name)
	in.Spec.Check(&checks, "spec")
	if in.Spec.Adopted {
		checks.Add("spec.adopted", "A new network is created on its hosts. To adopt a network that a host has, use the host's list of discovered networks.")
	}
	selector := fleet.ParseSelector(&checks, "selector", in.Selector)
	if err := checks.Err(); err != nil {
		return fleet.NetworkView{}, err
	}
	id := fleet.NewID[fleet.NetworkID]()
	err := n.store.Tx(ctx, func(q *db.Queries) error {
		if err := checkNetworkName(ctx, q, in.Name); err != nil {
			return err
		}
		if err := q.AddNetwork(ctx, db.AddNetworkParams{ID: id, Name: in.Name, Spec: &in.Spec}); err != nil {
			return err
		}
		network := assign.NewNetworkObject(id, in.Name, in.Spec)
		if _, err := network.Assign(ctx, q, a, in.HostIDs); err != nil {
			return err
		}
		if err := network.Audit(ctx, q, a, "create", describeNetwork(in.Spec)); err != nil {
			return err
		}
		if err := publishing.PublishNewNetwork(ctx, q, a, id, in.Publish); err != nil {
			return err
		}
		_, _, err := network.SetSelector(ctx, q, a, selector)
		return err
	})
	if err != nil {
		return fleet.NetworkView{}, err
	}
	return n.queries.GetNetwork(ctx, a, id)
}

// checkNetworkName refuses the name of another defined or discovered libvirt network. If a network of that name is
// discovered concurrently, a unique index refuses the insertion.
func checkNetworkName(ctx context.Context, q *db.Queries, name string) error {
	taken, err := q.NetworkNamed(ctx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var checks fleet.Checks
	switch {
	case taken.Defined:
		checks.Add("name", "A network named %s is defined already. Choose another name.", name)
	case len(taken.Hosts) == 0:
		checks.Add("name", "A network named %s was found on a host before, and VMs or grants still name it. Choose another name.", name)
	default:
		if len(taken.Hosts) > 3 {
			taken.Hosts[3] = "others"
		}
		checks.Add("name", "A network named %s was found on hosts: %s. Choose another name, or adopt it there.", name, strings.Join(taken.Hosts, ", "))
	}
	return checks.Err()
}

// describeNetwork formats the spec for the audit.
func describeNetwork(s fleet.NetworkSpec) string {
	parts := []string{string(s.Mode)}
	for _, p := range s.Prefixes() {
		parts = append(parts, p.String())
	}
	for _, w := range []string{s.Device, s.Bridge, s.Underlay} {
		if w != "" && !s.Mode.Info().HostAddresses {
			parts = append(parts, w)
		}
	}
	return strings.Join(parts, " ")
}
