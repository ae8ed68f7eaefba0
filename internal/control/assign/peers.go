package assign

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// UpdateOverlayPeers updates the peer list of each overlay network from the hosts' reports, and queues jobs that send a
// changed list to the network's hosts. Each overlay network has its own transaction, so that an error for one does not
// affect the others.
func UpdateOverlayPeers(ctx context.Context, s *store.Store, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	rows, err := s.Overlays(ctx)
	if err != nil {
		return fmt.Errorf("read the overlay networks: %w", store.UserError(err))
	}
	var errs []error
	for _, r := range rows {
		if slices.Equal(overlayPeers(r), r.Peers) {
			continue
		}
		errs = append(errs, s.RunPass(ctx, a, "peers", func(q *db.Queries) error { return setOverlayPeers(ctx, q, a, r.ID) }))
	}
	return errors.Join(errs...)
}

// setOverlayPeers locks the network, computes its peers again, and writes them if they have changed.
func setOverlayPeers(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.NetworkID) error {
	o, err := NetworkType.lockObject(ctx, q, string(id))
	if errors.Is(err, pgx.ErrNoRows) || err == nil && o.changeRefusal != "" {
		return nil
	}
	if err != nil {
		return err
	}
	o.assignable, o.id = NetworkType, string(id)
	rows, err := q.Overlays(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(rows, func(r db.OverlaysRow) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	o.generation, err = q.SetPeers(ctx, db.SetPeersParams{ID: id, Peers: overlayPeers(rows[i])})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	hosts, err := q.HostsGiven(ctx, db.HostsGivenParams{Noun: NetworkType.typ, ObjectID: o.id})
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if _, err := o.queueJob(ctx, q, a, h, NetworkType.applyKind, NetworkType.releaseKind); err != nil {
			return err
		}
	}
	return nil
}

// overlayPeers returns the addresses that hosts report as their own, without those outside the underlay's subnet. If
// two hosts report one address, it is listed once; routing decides which host gets the packets.
func overlayPeers(r db.OverlaysRow) []string {
	peers := []string{}
	if r.Spec == nil {
		return peers
	}
	underlay, err := netip.ParsePrefix(r.Spec.Underlay)
	if err != nil {
		return peers
	}
	var found []netip.Addr
	for _, text := range r.Told {
		if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" && underlay.Contains(a) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	found = slices.Compact(found)
	for _, a := range found[:min(len(found), fleet.MaxPeers)] {
		peers = append(peers, a.String())
	}
	return peers
}
