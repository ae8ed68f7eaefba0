package agentapi

import (
	"context"
	"slices"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// networkNameConflictText is the error for a host network that has the name of an assigned network but was not made by
// Quantix.
const networkNameConflictText = "The host has another network of this name, which Quantix did not make. Remove it with virsh, then try again."

// writeAssignmentReports stores a host's report on assigned pools and networks and on discovered networks.
func writeAssignmentReports(ctx context.Context, q *db.Queries, host fleet.HostID, in wire.Report) error {
	seq, s := in.Seq, *in.State
	met := db.MeetNetworksParams{HostID: host, Kinds: make([]string, len(s.Networks)), Names: make([]string, len(s.Networks))}
	for i, n := range s.Networks {
		met.Kinds[i], met.Names[i] = string(n.Kind), n.Name
	}
	fresh, err := q.MeetNetworks(ctx, met)
	if err == nil && fresh.Fresh > 0 {
		if s.Networks, err = discoveredNetworks(ctx, q, host, in); err == nil {
			err = addDiscoveredNetworks(ctx, q, s.Networks)
		}
	}
	if err != nil {
		return err
	}
	lost, err := q.ReportAssignments(ctx, db.ReportAssignmentsParams{HostID: host, Seq: seq, Objects: mustJSON(s.AssignedObjectReports()), Networks: mustJSON(s.Networks), Strange: networkNameConflictText})
	if err != nil || lost == 0 {
		return err
	}
	return DeleteUnusedDiscoveredNetworks(ctx, q)
}

// maxInventoryLag is how much older than its reported age a network inventory may be, because of transfer time and slow
// libvirt calls.
const maxInventoryLag = 10 * time.Second

// discoveredNetworks returns the reported networks, except assigned networks that the host lacks and networks that were
// released after the inventory.
func discoveredNetworks(ctx context.Context, q *db.Queries, host fleet.HostID, in wire.Report) ([]wire.NetworkReport, error) {
	params := db.NetworksLeftParams{HostID: string(host), Looked: time.Duration(in.StateAgeMs)*time.Millisecond + maxInventoryLag}
	for _, n := range in.State.Networks {
		if n.ID != "" {
			params.Networks, params.Absent = append(params.Networks, string(n.ID)), append(params.Absent, n.Absent)
		}
	}
	if len(params.Networks) == 0 {
		return in.State.Networks, nil
	}
	left, err := q.NetworksLeft(ctx, params)
	return slices.DeleteFunc(slices.Clone(in.State.Networks), func(n wire.NetworkReport) bool { return n.ID != "" && slices.Contains(left, string(n.ID)) }), err
}

func addDiscoveredNetworks(ctx context.Context, q *db.Queries, networks []wire.NetworkReport) error {
	type row struct {
		ID fleet.NetworkID `json:"id"`
		wire.NetworkReport
	}
	rows := make([]row, len(networks))
	for i, n := range networks {
		rows[i] = row{fleet.NewID[fleet.NetworkID](), n}
	}
	return q.AddNetworks(ctx, mustJSON(rows))
}

// DeleteUnusedDiscoveredNetworks deletes discovered networks that neither a host nor a VM spec refers to.
func DeleteUnusedDiscoveredNetworks(ctx context.Context, q *db.Queries) error {
	ids, err := q.LostNetworks(ctx)
	if err != nil || len(ids) == 0 {
		return err
	}
	lost := make([]string, len(ids))
	for i, id := range ids {
		lost[i] = string(id)
	}
	return q.ForgetNetworks(ctx, lost)
}
